"""The tissue: deterministic, as asked for, with masks that fit and hospitals that differ."""

import numpy as np
import pytest

from fedjax_fair import foreign
from fedjax_fair.data import describe, make_scenario
from fedjax_fair.data.scenarios.tissue_images import draw, look_of, tissue_pool
from fedjax_fair.viz.federations import contact_sheet


def pool(sizes=(6, 6, 6), test_size=4, image_size=32, classes=2, seed=0, shift=1.0):
    return tissue_pool(sizes, test_size, image_size, classes, seed, shift)


def test_shapes_classes_and_hospitals():
    found = pool(classes=4, image_size=48)
    assert found.x.shape == (30, 48, 48, 3) and found.x.dtype == np.uint8
    assert found.masks.shape == (30, 48, 48) and set(np.unique(found.masks)) == {0, 1}
    assert found.class_names == ('normal', 'grade 1', 'grade 2', 'grade 3')
    assert found.sites == ('hospital 1', 'hospital 2', 'hospital 3')
    assert found.held_out.sum() == 12
    assert set(np.bincount(found.y[found.held_out])) == {3}, 'classes are equally frequent'


def test_equal_seeds_give_equal_images_and_other_seeds_other_ones():
    one, same, other = pool(), pool(), pool(seed=1)
    np.testing.assert_array_equal(one.x, same.x)
    assert np.any(one.x != other.x)


def test_more_hospitals_and_images_leave_the_old_ones_as_they_are():
    small, large = pool(sizes=(3, 3)), pool(sizes=(5, 4, 2))
    for hospital in (0, 1):
        old, new = (p.x[(p.site_of == hospital) & ~p.held_out] for p in (small, large))
        np.testing.assert_array_equal(old, new[:3])


def test_nuclei_are_darker_than_what_is_around_them():
    found = pool()
    inside = np.array([x[m == 1].mean() for x, m in zip(found.x, found.masks, strict=True)])
    outside = np.array([x[m == 0].mean() for x, m in zip(found.x, found.masks, strict=True)])
    assert np.all(inside < outside)


def test_tumours_have_more_and_larger_nuclei():
    rng = np.random.default_rng(0)
    share = [np.mean([draw(label, 2, look_of(0, 0), 64, rng)[1].mean() for _ in range(40)]) for label in (0, 1)]
    assert share[1] > 1.3 * share[0]


def test_hospitals_look_different_and_classes_of_one_hospital_alike():
    """Mean colours vary more between hospitals than between the classes of a hospital."""
    found = pool(sizes=(20,) * 6)
    colours = np.array(
        [[found.x[(found.site_of == h) & (found.y == c)].mean((0, 1, 2)) for c in (0, 1)] for h in range(6)]
    )
    assert colours.mean(1).std(0).mean() > 2 * np.abs(colours[:, 0] - colours[:, 1]).mean() / 2


def test_the_shift_between_hospitals_can_be_turned_down_to_none():
    def spread(shift):
        found = pool(sizes=(20,) * 4, shift=shift)
        return np.std([found.x[found.site_of == h].mean((0, 1, 2)) for h in range(4)], axis=0).mean()

    none, half, full = map(spread, (0.0, 0.5, 1.0))
    assert full > 1.5 * half > 1.5 * 3 * none
    for one, other in zip(look_of(0, 0, shift=0), look_of(5, 3, shift=0), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_scenario_gives_one_client_per_hospital(tmp_path):
    federation = make_scenario('tissue', num_clients=3, client_sizes=(4,), test_size=2, image_size=32)
    assert federation.num_clients == 3 and federation.task == 'classification'
    assert federation.sizes.tolist() == [4, 4, 4]
    contact_sheet(federation, tmp_path / 'sheet.png')
    assert (tmp_path / 'sheet.png').stat().st_size > 10_000


def test_masks_are_learned_on_request():
    federation = make_scenario(
        'tissue', num_clients=2, client_sizes=(4, 6), test_size=2, image_size=32, task='segmentation'
    )
    assert federation.y.shape == (10, 32, 32) and federation.y.dtype == np.uint8
    assert federation.tests.y.shape == (2, 2, 32, 32)
    assert federation.num_classes == 2
    assert federation.labels.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    assert 'segmentation' in describe(federation) and 'tumour' in describe(federation)


@pytest.mark.parametrize(
    ('options', 'count'),
    [
        ({'client_sizes': (10, 10, 10, 990)}, 1020 + 4 * 5),
        ({'client_sizes': (500,), 'num_clients': 2}, 1000 + 2 * 5),
        ({'num_clients': 14}, 400 * 2 + 140 + 14 * 5),
    ],
)
def test_all_images_of_all_hospitals_must_fit_into_memory(options, count, monkeypatch):
    monkeypatch.setattr(foreign, 'free_memory', lambda: 4 * 32**2 * (count - 1))
    with pytest.raises(ValueError, match=rf'scenario=tissue with {count} images of 32x32 needs .* memory are free'):
        make_scenario('tissue', test_size=5, image_size=32, **options)


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'client_sizes': (4, 5), 'num_clients': 3}, r'client_sizes=4,5 must be one size or 3, one per hospital'),
        ({'image_size': 8}, r'image_size=8 must be at least 16'),
        ({'shift': 1.5}, r'shift=1.5 must be at least 0 and at most 1'),
        ({'task': 'multilabel'}, r"task='multilabel' is not one of 'classification', 'segmentation'"),
        ({'alpha': 0.5}, r'alpha=0.5 does not apply to scenario=tissue'),
    ],
)
def test_mistakes_name_the_flag(options, message):
    with pytest.raises(ValueError, match=message):
        make_scenario('tissue', **options)
