"""Planted defects are found, each by its check and with its places; clean data give no alarm."""

import io
import time

import numpy as np
import pytest
from PIL import Image

from fedjax_fair.data import problems
from fedjax_fair.data.assembly import assemble
from fedjax_fair.data.duplicates import digests, nearly_equal
from fedjax_fair.data.federation import Partition
from fedjax_fair.data.pool import Pool
from fedjax_fair.data.problems import find_problems, patients_of_several
from fedjax_fair.data.resize import resize_images
from fedjax_fair.data.scenarios.digit_images import digit_domains, handwritten_digits
from fedjax_fair.data.scenarios.tissue_images import tissue_pool
from fedjax_fair.data.sources import read_pool

TESTED = 60  # of 300 examples


def smooth(count: int, side: int = 32, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Images of random blobs, which survive compression as photographs do."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (count, 6, 6, channels), np.uint8)
    return resize_images(coarse, (side, side))


@pytest.fixture
def clean() -> Pool:
    """Three classes in two sites and 100 patients, all of them on both sides of the split but the patients."""
    number = np.arange(300)
    return Pool(
        smooth(300), (number % 3).astype(np.int32), number >= 300 - TESTED, (number // 3 % 2).astype(np.int32),
        ('a', 'b'), ('x', 'y', 'z'), patient_of=number // 3,
    )  # fmt: skip


def changed(pool: Pool, **changes) -> Pool:
    """The pool with values put in places: ``x={290: image}``."""
    arrays = {name: np.array(getattr(pool, name)) for name in changes}
    for name, places in changes.items():
        for place, value in places.items():
            arrays[name][place] = value
    return pool._replace(**arrays)


def told(pool: Pool) -> dict[str, tuple[int, tuple[str, ...], bool]]:
    return {problem.what: (problem.times, problem.where, problem.grave) for problem in find_problems(pool)}


def test_clean_data_give_no_alarm(clean):
    assert find_problems(clean) == []
    assert find_problems(clean._replace(patient_of=None, site_of=None, sites=())) == []


def test_images_that_are_all_of_one_colour(clean):
    blank = clean._replace(x=np.full_like(clean.x, 255))
    assert told(blank) == {'examples hold one value only': (300, ('0', '1', '2', '3', '4'), False)}


def test_places_are_named_as_the_source_names_them(tmp_path):
    """By file, or by array and row, whatever is left out or put elsewhere in between."""
    for number, name in enumerate(('train/a/0', 'train/b/1', 'val/a/2', 'test/a/3', 'test/b/4')):
        (tmp_path / 'd' / name).parent.mkdir(parents=True, exist_ok=True)
        image = smooth(5)[0 if number == 3 else number]
        Image.fromarray(image).save(tmp_path / 'd' / f'{name}.png')
    leaked = 'test examples are training examples too'
    files = read_pool('folders', str(tmp_path / 'd'))
    assert told(files)[leaked][1] == ('test/a/3.png = train/a/0.png',)
    images, labels = smooth(9)[[0, 1, 2, 3, 4, 5, 6, 7, 1]], np.arange(9) % 2
    np.savez(tmp_path / 'd.npz', images=images, labels=labels, split=['val', *['train'] * 5, *['test'] * 3])
    assert told(read_pool('npz', str(tmp_path / 'd.npz')))[leaked][1] == ('d.npz images[8] = d.npz images[1]',)


def test_a_side_without_examples_is_grave(clean):
    assert told(clean._replace(held_out=np.zeros(300, bool)))['sides of the data are empty'] == (1, ('testing',), True)


def test_images_that_use_little_of_the_range(clean):
    found = told(clean._replace(x=clean.x // 16))
    assert found == {'is the highest of all values, of 255: 12 bits stored as 16?': (1, ('15',), False)}


@pytest.mark.parametrize('pool', [handwritten_digits(0), digit_domains((80, 80, 80, 80), 40, 0)], ids=['real', 'drawn'])
def test_digits_are_alike_but_not_the_same(pool):
    assert find_problems(pool) == []


def test_tissue_gives_no_alarm():
    assert find_problems(tissue_pool([60, 60], 20, 32, 2, 0)) == []


def test_a_test_image_that_is_trained_on(clean):
    leaked = changed(clean, x={250: clean.x[4], 270: clean.x[7]}, y={250: clean.y[4], 270: clean.y[7]})
    assert told(leaked) == {'test examples are training examples too': (2, ('250 = 4', '270 = 7'), True)}


def test_equal_images_with_different_labels(clean):
    twice = changed(clean, x={20: clean.x[4]}, y={20: 0, 4: 1})
    assert told(twice) == {'examples equal another one that has a different label': (1, ('20 = 4',), False)}
    several = clean._replace(y=np.eye(3, dtype=np.int32)[clean.y], class_names=(), task='multilabel')
    assert len(told(changed(several, x={20: several.x[4]}))) == 1


def compressed(image: np.ndarray) -> np.ndarray:
    file = io.BytesIO()
    Image.fromarray(image).save(file, 'JPEG', quality=75)
    return np.asarray(Image.open(file))


def resized(image: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(image).resize((48, 48)).resize((32, 32)))


@pytest.mark.parametrize(
    'copy', [compressed, resized, lambda image: (image * 0.7 + 20).astype(np.uint8)], ids=['jpeg', 'resized', 'pale']
)
def test_a_test_image_that_looks_like_one_that_is_trained_on(clean, copy):
    near = changed(clean, x={250: copy(clean.x[4]), 299: copy(clean.x[239])})
    assert told(near) == {'test images look like a training image': (2, ('250 ~ 4', '299 ~ 239'), False)}


def test_an_equal_image_is_not_reported_as_similar_too(clean):
    assert problems.similar_images(changed(clean, x={250: clean.x[4]})) == []


def test_copies_of_floats_are_found_whatever_their_range(clean):
    floats = clean._replace(x=clean.x.astype(np.float32) * 1e-3 - 4)
    near = changed(floats, x={250: floats.x[4] * 1.01})
    assert told(floats) == {} and list(told(near)) == ['test images look like a training image']


def test_nearly_uniform_images_do_not_all_match(clean):
    rng = np.random.default_rng(0)
    dull = {k: rng.integers(99, 102, clean.x.shape[1:]) for k in range(200, 300)}
    assert find_problems(changed(clean, x=dull)) == []


def test_constant_images(clean):
    flat = changed(clean, x={3: 0, 290: [9, 8, 7], 8: 0})
    assert told(flat) == {'examples hold one value only': (3, ('3', '8', '290'), False)}


def test_features_of_one_number_are_no_constant_images():
    x = np.random.default_rng(0).normal(size=(40, 1)).astype(np.float32)
    pool = Pool(x, (np.arange(40) % 2).astype(np.int32), np.arange(40) < 8)
    assert find_problems(pool) == []
    assert list(told(changed(pool, x={2: x[30]}))) == ['test examples are training examples too']


def test_a_patient_on_both_sides(clean):
    split = changed(clean, held_out={238: True, 298: False, 299: False})
    whats = {'patients are both trained on and tested': (2, ('237 and 238', '297 and 298'), True)}
    assert told(split) == whats


def test_a_run_is_warned_of_patients_that_its_clients_and_test_sets_share(clean):
    """Of a federation: what is not used by it does no harm."""
    rows = [np.arange(0, 60), np.arange(60, 120)], [np.arange(240, 270), np.arange(270, 300)]
    dealt = Partition(*rows, np.array([0, 1]), ('a', 'b'))
    assert patients_of_several(assemble(clean, 'clean', dealt)) == []
    assert patients_of_several(assemble(clean._replace(patient_of=None), 'clean', dealt)) == []
    shared = changed(clean, patient_of={0: 85, 61: 0, 62: 0, 150: 86})  # nobody holds example 150
    leak, several = patients_of_several(assemble(shared, 'shared', dealt))
    assert leak.sentence == ('PROBLEM: 1 patients are both trained on and tested: patient 85 (client 0, test set a)')
    assert several.sentence == 'warning: 1 patients are trained on by several clients: patient 0 (clients 0 and 1)'


def test_a_patient_of_two_sites(clean):
    moved = changed(clean, site_of={4: 0, 7: 1})
    assert told(moved) == {'patients have examples of several sites': (2, ('3 and 4', '6 and 7'), False)}


def test_test_images_of_everyone_are_of_no_other_site(clean):
    everyone = clean._replace(site_of=np.where(clean.held_out, -1, clean.site_of).astype(np.int32))
    assert find_problems(everyone._replace(patient_of=np.arange(300) % 100)) != []
    assert find_problems(everyone) == []


def test_classes_that_are_rare_or_missing(clean):
    rare = np.where(clean.y == 2, 1, clean.y).astype(np.int32)
    pool = clean._replace(y=rare, class_names=('x', 'y', 'z', 'v', 'w'))
    pool = changed(pool, y={0: 2, 1: 2, 299: 3})
    assert told(pool) == {
        'classes are tested but have no training example': (1, ('v',), True),
        'classes have no example at all': (1, ('w',), False),
        'classes have no test example': (1, ('z',), False),
        'classes have fewer than 5 training examples': (1, ('z',), False),
    }
    assert find_problems(pool)[0].grave


def test_sites_that_cannot_be_trained_on_or_tested(clean):
    number = np.arange(300)
    site = np.select([number < 30, number >= 270], [1, 2], 0).astype(np.int32)
    assert told(clean._replace(site_of=site, sites=('a', 'b', 'c'))) == {
        'sites have no training example (see the option join_sites)': (1, ('c',), False),
        'sites have no test example (see the option join_sites)': (1, ('b',), False),
    }


def test_only_the_first_places_are_told(clean):
    many = changed(clean, x={240 + k: clean.x[k] for k in range(50)}, y={240 + k: clean.y[k] for k in range(50)})
    (problem,) = find_problems(many)
    assert problem.times == 50 and len(problem.where) == 5


def test_equal_examples_have_equal_digests_and_no_others():
    x = smooth(500)
    found = digests(np.concatenate([x, x[:100]]))
    assert len(np.unique(found)) == 500
    np.testing.assert_array_equal(found[:100], found[500:])


def test_many_images_take_seconds():
    """Twenty thousand images, half of them of the same few pictures: pairs would be a hundred million."""
    x = smooth(20_000, 16, 1)
    x[10_000:] = x[np.arange(10_000) % 7]
    start = time.monotonic()
    tested, trained = nearly_equal(x, np.arange(0, 20_000, 2), np.arange(1, 20_000, 2))
    assert time.monotonic() - start < 20
    assert set(tested) == set(range(1, 7, 2)) | set(range(10_001, 20_000, 2))
    np.testing.assert_array_equal(x[tested], x[trained])
