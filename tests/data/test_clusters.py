"""Patients dealt out whole: by every split, with sizes, and as if they were examples where they stand alone."""

import numpy as np
import pytest

from fedjax_fair.data import Split, federate, make_scenario
from fedjax_fair.data.clusters import clusters_of
from fedjax_fair.data.pool import Pool

RNG = np.random.default_rng(0)
PATIENTS = 120


def pool_of(cluster_of, seed: int = 0) -> Pool:
    """Examples of three classes in two sites; patients are tested or trained on, never both, and stay in a site."""
    rng = np.random.default_rng(seed)
    count = len(cluster_of)
    x, y = np.arange(count, dtype=np.float32)[:, None], rng.integers(3, size=count).astype(np.int32)
    site = (cluster_of % 2).astype(np.int32)
    return Pool(x, y, cluster_of % 5 == 0, site, ('a', 'b'), cluster_of=cluster_of)


def patients() -> np.ndarray:
    """Patients of one to seven images, scattered over the file."""
    rng = np.random.default_rng(1)
    return rng.permutation(np.repeat(np.arange(PATIENTS), rng.integers(1, 8, PATIENTS)))


SPLITS = [
    Split('iid', 7),
    Split('dirichlet', 7, 0.5),
    Split('capped_dirichlet', 4, 0.5),
    Split('classes', 6, None, 2),
    Split('quantity', 7, 0.5),
    Split('power_law', 7, 1.0),
    Split('domain', clients_per_domain=3),
    Split('domain', clients_per_domain=3, client_sizes=(20, 31)),
    Split('site'),
]


def owners(made, cluster_of) -> dict[int, set[int]]:
    """The clients that hold an image of each patient."""
    found: dict[int, set[int]] = {}
    for n, rows in enumerate(made.partition.clients):
        for patient in cluster_of[rows].tolist():
            found.setdefault(patient, set()).add(n)
    return found


@pytest.mark.parametrize('split', SPLITS, ids=lambda split: split.by)
def test_no_patient_is_in_two_clients_and_all_of_its_images_are_in_one(split):
    cluster_of = patients()
    pool = pool_of(cluster_of)
    made = federate(pool, 'p', split)
    assert all(len(clients) == 1 for clients in owners(made, cluster_of).values())
    held = np.concatenate(made.partition.clients)
    assert not pool.held_out[held].any() and len(np.unique(held)) == len(held)
    whole = np.flatnonzero(np.isin(cluster_of, cluster_of[held]))
    np.testing.assert_array_equal(np.sort(held), whole)
    if split.client_sizes is None:
        assert len(held) == (~pool.held_out).sum()


def test_images_dealt_one_by_one_would_divide_patients():
    """The data of the other tests can fail them."""
    cluster_of = patients()
    apart = federate(pool_of(cluster_of)._replace(cluster_of=None), 'p', Split('iid', 7))
    assert sum(len(clients) > 1 for clients in owners(apart, cluster_of).values()) > PATIENTS / 4


@pytest.mark.parametrize('split', SPLITS, ids=lambda split: split.by)
def test_patients_of_one_image_are_dealt_as_images_bit_for_bit(split):
    alone = pool_of(RNG.permutation(400))
    with_patients, without = (federate(p, 'p', split, 3) for p in (alone, alone._replace(cluster_of=None)))
    np.testing.assert_array_equal(with_patients.index, without.index)
    np.testing.assert_array_equal(with_patients.x, without.x)
    np.testing.assert_array_equal(with_patients.tests.x, without.tests.x)


def test_parts_are_equal_in_patients():
    cluster_of = patients()
    made = federate(pool_of(cluster_of), 'p', Split('iid', 8))
    assert {len(set(cluster_of[rows])) for rows in made.partition.clients} == {12}  # 96 of 120 are trained on
    assert len(set(made.sizes.tolist())) > 1


def test_test_sets_of_a_split_by_classes_do_not_share_a_patient():
    cluster_of = patients()
    made = federate(pool_of(cluster_of), 'p', Split('classes', 6, None, 2))
    tested = [set(cluster_of[rows].tolist()) for rows in made.partition.tests]
    assert sum(map(len, tested)) == len(set.union(*tested)) == 24


def test_client_sizes_are_filled_with_whole_patients_and_never_exceeded():
    cluster_of = np.repeat(np.arange(60), 4)
    pool = pool_of(cluster_of)
    made = federate(pool, 'p', Split('domain', clients_per_domain=2, client_sizes=(10, 21)))
    sizes = {g: made.sizes[made.group_of == g].tolist() for g in (0, 1)}
    assert sizes == {0: [8, 8], 1: [20, 20]}
    with pytest.raises(ValueError, match=r'--split_by=domain leaves clients \[.*\] of 4 without'):
        federate(pool, 'p', Split('domain', clients_per_domain=2, client_sizes=(3, 21)))


def test_a_patient_of_two_sites_stays_where_the_sites_are():
    cluster_of = np.repeat(np.arange(20), 4)
    pool = pool_of(cluster_of)._replace(group_of=np.tile([0, 1], 40).astype(np.int32), held_out=cluster_of % 5 == 0)
    for split in (Split('site'), Split('domain', clients_per_domain=2)):
        made = federate(pool, 'p', split)
        for rows, group in zip(made.partition.clients, made.group_of, strict=True):
            assert set(pool.group_of[rows]) == {group}
            own = np.flatnonzero((pool.group_of == group) & np.isin(cluster_of, cluster_of[rows]))
            np.testing.assert_array_equal(np.sort(rows), own)


def test_truncated_clients_lose_images_and_gain_none():
    cluster_of = patients()
    whole, cut = (federate(pool_of(cluster_of), 'p', Split('iid', 7, truncate=t)) for t in (False, True))
    assert set(cut.sizes) == {min(whole.sizes)}
    for rows, kept in zip(whole.partition.clients, cut.partition.clients, strict=True):
        assert set(kept) <= set(rows)


def test_the_class_of_a_patient_is_that_of_most_images():
    pool = Pool(
        np.zeros((7, 1)), np.array([2, 0, 0, 1, 1, 2, 0]), np.zeros(7, bool), cluster_of=np.array([9, 9, 9, 4, 4, 4, 1])
    )
    found = clusters_of(pool, np.arange(7))
    assert found.strata.tolist() == [0, 1, 0] and found.sizes.tolist() == [3, 3, 1]
    assert [rows.tolist() for rows in found.examples([np.array([2, 0]), np.array([1])])] == [[6, 0, 1, 2], [3, 4, 5]]


def test_too_few_patients_are_told_as_such():
    pool = pool_of(np.repeat(np.arange(8), 10))
    with pytest.raises(ValueError, match=r'needs 10 examples, but there are 6; .*\(slides, patients\) are counted'):
        federate(pool, 'p', Split('iid', 10))
    with pytest.raises(ValueError, match=r'but there are 64$'):
        federate(pool._replace(cluster_of=None, held_out=np.arange(80) < 16), 'p', Split('iid', 100))


@pytest.fixture
def path(tmp_path):
    """Ten images of each of 30 patients, sorted by class."""
    images = RNG.integers(0, 256, (300, 4, 4, 3), np.uint8)
    labels, group = np.repeat([0, 1, 2], 100), np.repeat(np.arange(30), 10)
    np.savez(tmp_path / 'p.npz', images=images, labels=labels, group=group)
    return tmp_path / 'p.npz'


def test_images_of_worse_quality_are_those_of_whole_patients(path):
    made = make_scenario(f'quality_shift:npz:{path}', num_clients=4, corrupted_ratio=0.5)
    held = [set(made.cluster_of[row[:n]].tolist()) for row, n in zip(made.index, made.sizes, strict=True)]
    assert sum(map(len, held)) == len(set.union(*held))


def test_groups_left_unread_are_divided(path):
    whole, apart = (make_scenario(f'npz:{path}', npz_keys=keys) for keys in (None, 'group:-'))
    assert set(whole.sizes % 10) == {0} and apart.cluster_of is None
    assert max(apart.sizes) - min(apart.sizes) <= 1


def test_a_protocol_by_the_order_of_files_refuses_groups(path):
    with pytest.raises(ValueError, match=r'--scenario=office_caltech:.*--npz_keys=group:- leaves them unread'):
        make_scenario(f'office_caltech:{path}')
