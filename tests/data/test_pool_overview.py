"""A pool at a glance: counts, facts, and a sheet of its images."""

import matplotlib.image
import numpy as np
import pytest

from fedjax_fair.data.pool import Pool
from fedjax_fair.data.pool_overview import class_names, counts_of_classes, counts_of_sites, facts
from fedjax_fair.viz.federations import pool_sheet


@pytest.fixture
def pool() -> Pool:
    """Site 'dark' holds black images, site 'light' grey ones; masks mark the upper half."""
    site = np.repeat([0, 1], [12, 8]).astype(np.int32)
    x = np.full((20, 8, 8, 3), 130, np.uint8) * site[:, None, None, None].astype(np.uint8)
    masks = np.broadcast_to(np.arange(8)[:, None] < 4, (20, 8, 8)).astype(np.uint8)
    y, held_out = (np.arange(20) % 2).astype(np.int32), np.arange(20) % 4 == 0
    return Pool(x, y, held_out, site, ('dark', 'light'), masks=masks, patient_of=np.arange(20) // 3, left_out=7)


def test_counts_by_split(pool):
    assert counts_of_classes(pool).tolist() == [[5, 5], [10, 0]]
    assert counts_of_sites(pool).tolist() == [[9, 3], [6, 2]]
    assert counts_of_sites(pool._replace(site_of=None, sites=())).shape == (0, 2)


def test_of_several_labels_all_count(pool):
    several = pool._replace(y=np.stack([pool.y, np.ones(20, np.int32), np.zeros(20, np.int32)], 1))
    assert counts_of_classes(several).tolist() == [[10, 0], [15, 5], [0, 0]]
    assert class_names(several) == ['0', '1', '2']


def test_test_images_of_everyone_belong_to_no_site(pool):
    everyone = pool._replace(site_of=np.where(pool.held_out, -1, pool.site_of))
    assert counts_of_sites(everyone).tolist() == [[9, 0], [6, 0]]


def test_facts(pool):
    assert facts(pool) == {
        'examples': '20: 15 for training, 5 for testing (7 more, for validation, are left out)',
        'inputs': '8x8x3 uint8',
        'values': '0 to 130, mean 52',
        'task': 'classification, 2 classes',
        'sites': '2',
        'patients': '7, of 2 to 3 examples each',
    }


def sheet(pool, path) -> np.ndarray:
    pool_sheet(pool, path)
    return matplotlib.image.imread(path)[..., :3]


def test_a_sheet_has_sites_below_each_other(pool, tmp_path):
    picture = sheet(pool, tmp_path / 'a.png')
    dark, light = (np.abs(picture - value).max(-1) < 0.02 for value in (0, 130 / 255))
    middle = len(picture) // 2
    assert dark[:middle].mean() > 0.3 > dark[middle:].mean() and light[middle:].mean() > 0.3 > light[:middle].mean()


def test_masks_are_outlined_where_they_are_learned(pool, tmp_path):
    def yellow(picture):
        return (np.abs(picture - [1, 0xEE / 255, 0]).max(-1) < 0.3).sum()

    assert yellow(sheet(pool, tmp_path / 'a.png')) == 0
    assert yellow(sheet(pool._replace(task='segmentation'), tmp_path / 'b.png')) > 100
