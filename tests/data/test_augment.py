"""Augmentations against NumPy, their identities and their randomness."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_fair.data.augment import (
    AUGMENTATIONS,
    chain,
    crop_at,
    make_augment,
    random_affine,
    random_crop,
    random_flip,
    warp,
)

KEY = jax.random.key(0)
IMAGES = np.random.default_rng(0).uniform(size=(64, 7, 6, 2)).astype(np.float32)


def test_crop_at_equals_numpy():
    padded = np.pad(IMAGES[0], ((3, 3), (3, 3), (0, 0)))
    for top, left in [(0, 0), (3, 3), (6, 1)]:
        cropped = crop_at(jnp.asarray(IMAGES[0]), jnp.array([top, left]), 3)
        np.testing.assert_array_equal(cropped, padded[top : top + 7, left : left + 6])


def test_random_crop_draws_every_offset():
    """Each result is one of the 9 windows of padding 1, and all of them appear."""
    out = np.asarray(random_crop(1)(KEY, jnp.asarray(IMAGES)))
    seen = set()
    for image, got in zip(IMAGES, out, strict=True):
        padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
        windows = {(i, j): padded[i : i + 7, j : j + 6] for i in range(3) for j in range(3)}
        seen |= {offset for offset, window in windows.items() if np.array_equal(window, got)}
        assert any(np.array_equal(window, got) for window in windows.values())
    assert len(seen) == 9


def test_flip_mirrors_half_of_the_examples():
    x = np.tile(IMAGES, (32, 1, 1, 1))
    out = np.asarray(random_flip()(KEY, jnp.asarray(x)))
    flipped = np.array([np.array_equal(o, i[:, ::-1]) for o, i in zip(out, x, strict=True)])
    kept = np.array([np.array_equal(o, i) for o, i in zip(out, x, strict=True)])
    assert np.all(flipped ^ kept)
    assert abs(flipped.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(x))


def numpy_warp(image, angle, shift):
    """Pixel by pixel: undo the shift, undo the turn, take the nearest pixel or zero."""
    height, width, _ = image.shape
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    centre, out = np.array([(height - 1) / 2, (width - 1) / 2]), np.zeros_like(image)
    for target in np.ndindex(height, width):
        r, c = np.round(np.linalg.inv(turn) @ (np.array(target) - centre - shift) + centre).astype(int)
        if 0 <= r < height and 0 <= c < width:
            out[target] = image[r, c]
    return out


@pytest.mark.parametrize(('angle', 'shift'), [(0.0, (2, -1)), (0.3, (0, 0)), (-0.7, (0.6, 1.3)), (2.0, (1.2, -0.4))])
def test_warp_equals_numpy(angle, shift):
    got = warp(jnp.asarray(IMAGES[0]), jnp.float32(angle), jnp.asarray(shift, jnp.float32))
    np.testing.assert_array_equal(got, numpy_warp(IMAGES[0], angle, np.array(shift)))


def test_warp_turns_a_square_image_like_rot90():
    square = IMAGES[0, :6]
    got = warp(jnp.asarray(square), jnp.float32(np.pi / 2), jnp.zeros(2))
    np.testing.assert_array_equal(got, np.rot90(square))


@pytest.mark.parametrize('augment', [random_crop(0), random_affine(0, 0), chain()])
def test_identities(augment):
    np.testing.assert_array_equal(augment(KEY, jnp.asarray(IMAGES)), IMAGES)


@pytest.mark.parametrize('name', AUGMENTATIONS)
def test_keeps_range_shape_and_dtype_and_differs_between_examples(name):
    x = jnp.broadcast_to(jnp.asarray(IMAGES[:1]), (32, 7, 6, 2))
    out = make_augment(name)(KEY, x)
    assert (out.shape, out.dtype) == (x.shape, x.dtype)
    assert set(np.unique(out)) <= {0.0, *np.unique(x)}
    assert len({image.tobytes() for image in np.asarray(out)}) > 1
    assert make_augment(name)(KEY, x.astype(jnp.bfloat16)).dtype == jnp.bfloat16


def test_affine_stays_within_its_limits():
    """A dot at the centre moves by at most the fraction ``translate`` of the size; turning leaves it in place."""
    x = jnp.zeros((64, 11, 11, 1)).at[:, 5, 5].set(1.0)
    np.testing.assert_array_equal(random_affine(90, 0)(KEY, x), x)
    rows, cols = np.nonzero(np.asarray(random_affine(0, 0.2)(KEY, x)).sum((0, 3)))
    assert (rows.min(), rows.max(), cols.min(), cols.max()) == (3, 7, 3, 7)


def test_jit_and_vmap_change_nothing():
    augment = make_augment('crop+flip+affine')
    keys, x = jax.random.split(KEY, 2), jnp.asarray(IMAGES).reshape(2, 32, 7, 6, 2)
    together = jax.jit(jax.vmap(augment))(keys, x)
    np.testing.assert_array_equal(together, jnp.stack([augment(k, v) for k, v in zip(keys, x, strict=True)]))


def test_an_example_does_not_depend_on_the_others():
    augment, x = make_augment('crop+flip'), jnp.asarray(IMAGES)
    np.testing.assert_array_equal(augment(KEY, x)[:5], augment(KEY, x.at[5:].set(0.0))[:5])


def test_chain_gives_each_step_its_own_key():
    two = chain(random_flip(), random_flip())(KEY, jnp.asarray(IMAGES))
    assert np.any(two != IMAGES), 'two flips by the same key would undo each other'


@pytest.mark.parametrize(
    ('make', 'message'),
    [
        (
            lambda: make_augment('crop+mixup'),
            r"augment='crop\+mixup': 'mixup' is unknown; join any of crop, flip, affine",
        ),
        (lambda: random_crop(-1), 'padding=-1 must be at least 0'),
        (lambda: random_affine(-5, 0), 'degrees=-5 must be at least 0'),
        (lambda: random_affine(5, 2), r'translate=2 must lie in \[0, 1\]'),
        (lambda: random_flip()(KEY, jnp.ones((2, 3))), r'x has shape \(2, 3\); augmentation takes images'),
    ],
)
def test_mistakes_are_explained(make, message):
    with pytest.raises(ValueError, match=message):
        make()
