"""Augmentations against NumPy, their identities and their randomness."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from fedjax_fair.data.augment import (
    AUGMENTATIONS,
    blends,
    chain,
    crop_at,
    draw_window,
    make_augment,
    random_affine,
    random_crop,
    random_flip,
    random_resized_crop,
    resample,
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


@pytest.mark.parametrize(('shape', 'count'), [((6, 6), 8), ((7, 6), 4)])
def test_symmetries_are_all_that_keep_the_shape(shape, count):
    """All turns and mirrorings of a square; a rectangle has half turns and mirrorings. Each is as likely."""
    image = IMAGES[0, : shape[0], : shape[1]]
    turned = [np.rot90(image, turns) for turns in range(4)]
    known = {one.tobytes() for square in turned for one in (square, square[:, ::-1]) if one.shape == image.shape}
    drawn = np.asarray(make_augment('symmetries')(KEY, jnp.broadcast_to(image, (800, *image.shape))))
    seen = [one.tobytes() for one in drawn]
    assert set(seen) == known and len(known) == count
    assert all(abs(seen.count(one) - 800 / count) < 5 * np.sqrt(800 / count) for one in known)


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
    if blends(name):
        assert x.min() <= out.min() and out.max() <= x.max() * (1 + 1e-6)
    else:
        assert set(np.unique(out)) <= {0.0, *np.unique(x)}
    assert len({image.tobytes() for image in np.asarray(out)}) > 1
    assert make_augment(name)(KEY, x.astype(jnp.bfloat16)).dtype == jnp.bfloat16


def test_affine_stays_within_its_limits():
    """A dot at the centre moves by at most the fraction ``translate`` of the size; turning leaves it in place."""
    x = jnp.zeros((64, 11, 11, 1)).at[:, 5, 5].set(1.0)
    np.testing.assert_array_equal(random_affine(90, 0)(KEY, x), x)
    rows, cols = np.nonzero(np.asarray(random_affine(0, 0.2)(KEY, x)).sum((0, 3)))
    assert (rows.min(), rows.max(), cols.min(), cols.max()) == (3, 7, 3, 7)


@pytest.mark.parametrize(('offset', 'size'), [((0, 0), (7, 6)), ((1, 2), (4, 3)), ((6, 5), (1, 1)), ((2, 0), (5, 6))])
def test_resample_equals_cropping_and_resizing_with_pillow(offset, size):
    (top, left), (height, width) = offset, size
    box = (left, top, left + width, top + height)
    wanted = [
        Image.fromarray(channel).crop(box).resize((6, 7), Image.Resampling.BILINEAR)
        for channel in np.moveaxis(IMAGES[0], -1, 0).copy()
    ]
    got = resample(jnp.asarray(IMAGES[0]), jnp.array(offset), jnp.array(size))
    np.testing.assert_allclose(got, np.stack([np.asarray(c) for c in wanted], -1), atol=1e-6)


def numpy_window(rng, height, width, scale):
    """torchvision's rule, one draw after another."""
    for _ in range(10):
        area = height * width * rng.uniform(*scale)
        ratio = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
        w, h = round(np.sqrt(area * ratio)), round(np.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return rng.integers(height - h + 1), rng.integers(width - w + 1), h, w
    w, h = width, height
    if width / height < 3 / 4:
        h = round(width / (3 / 4))
    elif width / height > 4 / 3:
        w = round(height * 4 / 3)
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.parametrize('scale', [(0.6, 1.0), (0.8, 1.2)])
@pytest.mark.parametrize('shape', [(64, 64), (40, 90)])
def test_windows_are_distributed_as_torchvision_draws_them(shape, scale):
    keys = jax.random.split(KEY, 4000)
    offset, size = jax.vmap(lambda key: draw_window(key, shape, scale))(keys)
    got = np.concatenate([offset, size], -1)
    assert (got[:, :2] >= 0).all() and (got[:, :2] + got[:, 2:] <= np.array(shape)).all()
    rng = np.random.default_rng(0)
    wanted = np.array([numpy_window(rng, *shape, scale) for _ in range(4000)])
    spread = np.maximum(wanted.std(0), got.std(0)) / np.sqrt(4000)
    np.testing.assert_array_less(np.abs(got.mean(0) - wanted.mean(0)), 6 * spread + 1e-9)
    np.testing.assert_allclose(np.quantile(got, [0.1, 0.5, 0.9], 0), np.quantile(wanted, [0.1, 0.5, 0.9], 0), atol=3)


@pytest.mark.parametrize(
    ('shape', 'window'),
    [((20, 7), (5, 0, 9, 7)), ((7, 20), (0, 5, 7, 9)), ((12, 12), (0, 0, 12, 12)), ((9, 12), (0, 0, 9, 12))],
)
def test_a_window_that_never_fits_is_cut_in_the_centre(shape, window):
    offset, size = draw_window(KEY, shape, (4.0, 5.0))
    assert (*map(int, offset), *map(int, size)) == window


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
            r"augment=crop\+mixup: 'mixup' is not one of crop, flip, affine",
        ),
        (lambda: random_crop(-1), 'padding=-1 must be at least 0'),
        (lambda: random_resized_crop(0.9, 0.5), r'resized_crop.smallest=0.9 must be at most resized_crop.largest=0.5'),
        (lambda: random_affine(-5, 0), 'degrees=-5 must be at least 0'),
        (lambda: random_affine(5, 2), 'affine.translate=2 must be at least 0 and at most 1'),
        (lambda: random_flip()(KEY, jnp.ones((2, 3))), r'x has shape \(2, 3\); augmentation takes images'),
    ],
)
def test_mistakes_are_explained(make, message):
    with pytest.raises(ValueError, match=message):
        make()
