"""Patients dealt out whole: by every split, with sizes, and as if they were examples where they stand alone."""

import numpy as np
import pytest

from fedjax_fair.data import federate, make_scenario, make_split
from fedjax_fair.data.partition.patients import patients_of
from fedjax_fair.data.pool import Pool

RNG = np.random.default_rng(0)
PATIENTS = 120


def pool_of(patient_of, seed: int = 0) -> Pool:
    """Examples of three classes in two sites; patients are tested or trained on, never both, and stay in a site."""
    rng = np.random.default_rng(seed)
    count = len(patient_of)
    x, y = np.arange(count, dtype=np.float32)[:, None], rng.integers(3, size=count).astype(np.int32)
    site = (patient_of % 2).astype(np.int32)
    return Pool(x, y, patient_of % 5 == 0, site, ('a', 'b'), patient_of=patient_of)


def patients() -> np.ndarray:
    """Patients of one to seven images, scattered over the file."""
    rng = np.random.default_rng(1)
    return rng.permutation(np.repeat(np.arange(PATIENTS), rng.integers(1, 8, PATIENTS)))


SPLITS = [
    make_split('iid', num_clients=7),
    make_split('dirichlet', num_clients=7, alpha=0.5),
    make_split('capped_dirichlet', num_clients=4, alpha=0.5),
    make_split('classes', num_clients=6, classes_per_client=2),
    make_split('quantity', num_clients=7, alpha=0.5),
    make_split('power_law', num_clients=7, alpha=1.0),
    make_split('domain', clients_per_domain=3),
    make_split('domain', clients_per_domain=3, client_sizes=(20, 31)),
    make_split('site'),
]


def owners(made, patient_of) -> dict[int, set[int]]:
    """The clients that hold an image of each patient."""
    found: dict[int, set[int]] = {}
    for n, rows in enumerate(made.partition.clients):
        for patient in patient_of[rows].tolist():
            found.setdefault(patient, set()).add(n)
    return found


@pytest.mark.parametrize('split', SPLITS, ids=lambda split: split.by)
def test_no_patient_is_in_two_clients_and_all_of_its_images_are_in_one(split):
    patient_of = patients()
    pool = pool_of(patient_of)
    made = federate(pool, 'p', split)
    assert all(len(clients) == 1 for clients in owners(made, patient_of).values())
    held = np.concatenate(made.partition.clients)
    assert not pool.held_out[held].any() and len(np.unique(held)) == len(held)
    whole = np.flatnonzero(np.isin(patient_of, patient_of[held]))
    np.testing.assert_array_equal(np.sort(held), whole)
    if 'client_sizes' not in split.options:
        assert len(held) == (~pool.held_out).sum()


def test_images_dealt_one_by_one_would_divide_patients():
    """The data of the other tests can fail them."""
    patient_of = patients()
    apart = federate(pool_of(patient_of)._replace(patient_of=None), 'p', make_split('iid', num_clients=7))
    assert sum(len(clients) > 1 for clients in owners(apart, patient_of).values()) > PATIENTS / 4


@pytest.mark.parametrize('split', SPLITS, ids=lambda split: split.by)
def test_patients_of_one_image_are_dealt_as_images_bit_for_bit(split):
    alone = pool_of(RNG.permutation(400))
    with_patients, without = (federate(p, 'p', split, 3) for p in (alone, alone._replace(patient_of=None)))
    np.testing.assert_array_equal(with_patients.index, without.index)
    np.testing.assert_array_equal(with_patients.x, without.x)
    np.testing.assert_array_equal(with_patients.tests.x, without.tests.x)


def test_parts_are_equal_in_patients():
    patient_of = patients()
    made = federate(pool_of(patient_of), 'p', make_split('iid', num_clients=8))
    assert {len(set(patient_of[rows])) for rows in made.partition.clients} == {12}  # 96 of 120 are trained on
    assert len(set(made.sizes.tolist())) > 1


def test_test_sets_of_a_split_by_classes_do_not_share_a_patient():
    patient_of = patients()
    made = federate(pool_of(patient_of), 'p', make_split('classes', num_clients=6, classes_per_client=2))
    tested = [set(patient_of[rows].tolist()) for rows in made.partition.tests]
    assert sum(map(len, tested)) == len(set.union(*tested)) == 24


def test_client_sizes_are_filled_with_whole_patients_and_never_exceeded():
    patient_of = np.repeat(np.arange(60), 4)
    pool = pool_of(patient_of)
    made = federate(pool, 'p', make_split('domain', clients_per_domain=2, client_sizes=(10, 21)))
    sizes = {g: made.sizes[made.group_of == g].tolist() for g in (0, 1)}
    assert sizes == {0: [8, 8], 1: [20, 20]}
    with pytest.raises(ValueError, match=r'split_by=domain leaves clients \[.*\] of 4 without'):
        federate(pool, 'p', make_split('domain', clients_per_domain=2, client_sizes=(3, 21)))


def test_a_patient_of_two_sites_stays_where_the_sites_are():
    patient_of = np.repeat(np.arange(20), 4)
    pool = pool_of(patient_of)._replace(site_of=np.tile([0, 1], 40).astype(np.int32), held_out=patient_of % 5 == 0)
    for split in (make_split('site'), make_split('domain', clients_per_domain=2)):
        made = federate(pool, 'p', split)
        for rows, group in zip(made.partition.clients, made.group_of, strict=True):
            assert set(pool.site_of[rows]) == {group}
            own = np.flatnonzero((pool.site_of == group) & np.isin(patient_of, patient_of[rows]))
            np.testing.assert_array_equal(np.sort(rows), own)


def test_truncated_clients_lose_images_and_gain_none():
    patient_of = patients()
    whole, cut = (
        federate(pool_of(patient_of), 'p', make_split('iid', num_clients=7, truncate=t)) for t in (False, True)
    )
    assert set(cut.sizes) == {min(whole.sizes)}
    for rows, kept in zip(whole.partition.clients, cut.partition.clients, strict=True):
        assert set(kept) <= set(rows)


def test_the_class_of_a_patient_is_that_of_most_images():
    pool = Pool(
        np.zeros((7, 1)), np.array([2, 0, 0, 1, 1, 2, 0]), np.zeros(7, bool), patient_of=np.array([9, 9, 9, 4, 4, 4, 1])
    )
    found = patients_of(pool, np.arange(7))
    assert found.labels.tolist() == [0, 1, 0] and found.sizes.tolist() == [3, 3, 1]
    assert [rows.tolist() for rows in found.examples([np.array([2, 0]), np.array([1])])] == [[6, 0, 1, 2], [3, 4, 5]]


def test_too_few_patients_are_told_as_such():
    pool = pool_of(np.repeat(np.arange(8), 10))
    with pytest.raises(ValueError, match=r'needs 10 examples, but there are 6; counts are of patients or slides'):
        federate(pool, 'p', make_split('iid', num_clients=10))
    with pytest.raises(ValueError, match=r'but there are 64$'):
        federate(pool._replace(patient_of=None, held_out=np.arange(80) < 16), 'p', make_split('iid', num_clients=100))


def test_so_many_examples_of_each_class_are_not_cut_from_patients():
    patient_of = np.repeat(np.arange(60), 3)
    split = make_split('classes', num_clients=4, classes_per_client=2, examples_per_class=4)
    words = 'examples_per_class=4 cannot be kept where a patient has up to 3 training examples; counts are of patients'
    with pytest.raises(ValueError, match=words):
        federate(pool_of(patient_of), 'p', split)
    assert set(federate(pool_of(np.arange(180)), 'p', split).sizes) == {8}


@pytest.fixture
def path(tmp_path):
    """Ten images of each of 30 patients, sorted by class."""
    images = RNG.integers(0, 256, (300, 4, 4, 3), np.uint8)
    labels, group = np.repeat([0, 1, 2], 100), np.repeat(np.arange(30), 10)
    np.savez(tmp_path / 'p.npz', images=images, labels=labels, group=group)
    return tmp_path / 'p.npz'


def test_images_of_worse_quality_are_those_of_whole_patients(path):
    made = make_scenario(f'quality_shift:npz:{path}', num_clients=4, corrupted_ratio=0.5)
    held = [set(made.patient_of[row[:n]].tolist()) for row, n in zip(made.index, made.sizes, strict=True)]
    assert sum(map(len, held)) == len(set.union(*held))


def test_patients_left_unread_are_divided(path):
    whole, apart = (make_scenario(f'npz:{path}', npz_keys=keys) for keys in (None, 'patient:-'))
    assert set(whole.sizes % 10) == {0} and apart.patient_of is None
    assert max(apart.sizes) - min(apart.sizes) <= 1


def test_a_protocol_by_the_order_of_files_refuses_patients(path):
    with pytest.raises(ValueError, match=r'scenario=office_caltech:.*npz_keys=patient:- leaves them unread'):
        make_scenario(f'office_caltech:{path}')
