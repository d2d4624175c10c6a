"""Spectra of images, class prototypes and counted signs."""

import numpy as np
from draws import CLIENTS, arrays, masks, numbers, on_device
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedjax_fair.ops import (
    adjusted_logits,
    amplitude_normalize,
    class_means,
    consistent,
    counted,
    feature_statistics,
    mean_amplitude,
    mean_prototypes,
    prototype_contrast,
    prototype_distance,
)

IMAGES, SHAPE = 2, (6, 5, 1)
EXAMPLES, CLASSES, FEATURES = 7, 3, 4
amplitudes = on_device(mean_amplitude)
normalized, centred = on_device(amplitude_normalize), on_device(amplitude_normalize, band='dc')
means = on_device(lambda f, y, mask: class_means(f, y, CLASSES, mask))
statistics = on_device(lambda f, y, mask: feature_statistics(f, y, CLASSES, mask))
shared, distance, contrast = on_device(mean_prototypes), on_device(prototype_distance), on_device(prototype_contrast)
more_than, count = on_device(consistent), on_device(counted)
adjusted = on_device(adjusted_logits)

PICTURES = arrays(IMAGES, *SHAPE, low=0, high=1)
FEATURE_ROWS = arrays(EXAMPLES, FEATURES)
LABELS = hnp.arrays(np.int32, EXAMPLES, elements=st.integers(0, CLASSES - 1))
MASKS = masks(EXAMPLES)


def spectrum(images):
    return np.fft.fft2(images.astype(np.float64), axes=(1, 2))


@given(PICTURES, masks(IMAGES))
def test_a_mean_amplitude_is_that_of_the_counted_images(images, mask):
    found = amplitudes(images, mask)
    np.testing.assert_allclose(found, np.abs(spectrum(images))[mask].mean(0), rtol=1e-4, atol=1e-4)


@given(PICTURES, PICTURES)
def test_a_new_amplitude_replaces_the_old_one_and_keeps_the_phase(images, others):
    target = amplitudes(others, np.ones(IMAGES, bool)) + np.float32(0.125)
    before, after = spectrum(images), spectrum(normalized(images, target))
    large = np.abs(before) > 1e-2  # the phase of a coefficient near 0 is rounding
    np.testing.assert_allclose(np.abs(after)[large], np.broadcast_to(target, after.shape)[large], rtol=1e-2, atol=1e-3)
    turned = after[large] * np.conj(before[large])
    assert np.all(np.abs(np.angle(turned)) < 1e-2)


@given(PICTURES)
def test_its_own_amplitude_gives_an_image_back(images):
    for image in images:
        own = amplitudes(image[None], np.ones(1, bool))
        np.testing.assert_allclose(normalized(image[None], own)[0], image, atol=1e-5)


@given(PICTURES, numbers(0, 20))
def test_the_zero_frequency_alone_moves_the_mean_alone(images, mean):
    target = np.full(SHAPE, mean * SHAPE[0] * SHAPE[1], np.float32)
    found = centred(images, target)
    np.testing.assert_allclose(found.mean((1, 2)), np.full((IMAGES, 1), mean), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.diff(found, axis=1), np.diff(images, axis=1), atol=1e-4)


@given(FEATURE_ROWS, LABELS, MASKS)
def test_class_means_are_those_of_the_counted_examples(features, labels, mask):
    found, counts = means(features, labels, mask)
    for k in range(CLASSES):
        own = features[mask & (labels == k)]
        assert counts[k] == len(own)
        np.testing.assert_allclose(found[k], own.mean(0) if len(own) else np.zeros(FEATURES), rtol=1e-4, atol=1e-4)


@given(FEATURE_ROWS, LABELS, MASKS, FEATURE_ROWS)
def test_uncertainty_of_features_is_positive_and_ignores_masked_examples(features, labels, mask, noise):
    spread, weighted = statistics(features, labels, mask)
    assert spread >= -1e-4
    again = statistics(np.where(mask[:, None], features, noise), labels, mask)
    np.testing.assert_array_equal(again[0], spread)
    np.testing.assert_array_equal(again[1], weighted)


@given(
    arrays(CLIENTS, CLASSES, FEATURES), hnp.arrays(np.int32, (CLIENTS, CLASSES), elements=st.integers(0, 3)), masks()
)
def test_shared_prototypes_are_plain_means_over_the_holders(prototypes, counts, mask):
    found, known = shared(prototypes, counts, mask)
    for k in range(CLASSES):
        holders = mask & (counts[:, k] > 0)
        assert known[k] == holders.any()
        expected = prototypes[holders, k].mean(0) if holders.any() else np.zeros(FEATURES)
        np.testing.assert_allclose(found[k], expected, rtol=1e-4, atol=1e-4)


@given(FEATURE_ROWS, LABELS, arrays(CLASSES, FEATURES), hnp.arrays(bool, CLASSES))
def test_losses_of_prototypes_are_positive_and_zero_for_unknown_classes(features, labels, prototypes, known):
    for loss in (distance, contrast):
        found = loss(features, labels, prototypes, known)
        assert np.all(found >= -1e-5) and not found[~known[labels]].any()
    np.testing.assert_array_equal(distance(prototypes[labels], labels, prototypes, known), 0)


@given(st.lists(st.booleans(), max_size=255))
def test_counts_in_bytes_are_exact_for_255_observations(signs):
    same, seen = np.uint8(0), np.uint8(0)
    for sign in signs:
        same, seen = count(same, seen, np.array(sign))
    assert (same, seen) == (sum(signs), len(signs))


@given(st.integers(1, 255), st.data())
def test_a_share_on_the_bar_is_on_it(seen, data):
    same, bar = data.draw(st.integers(0, seen)), data.draw(st.integers(0, seen))
    tau = np.float32(bar / seen)
    assert more_than(np.array(same), np.array(seen), tau) == (same > bar)


@given(arrays(EXAMPLES, CLASSES), hnp.arrays(np.int32, CLASSES, elements=st.integers(0, 50)), numbers(0, 4))
def test_adjusted_logits_exclude_classes_that_nobody_holds(logits, counts, tau):
    found = adjusted(logits, counts, np.float32(tau))
    held = counts > 0
    assert np.all(found[:, held] <= logits[:, held] + 1e-5)
    assert np.all(np.isneginf(found[:, ~held])) if tau > 0 else np.all(found == logits)
