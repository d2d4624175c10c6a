"""Arrays of one's own: every layout."""

import numpy as np
import pytest
from npz_files import RNG, images, of_three_sites, save

from fedjax_fair.data import class_counts, make_scenario, read_pool


@pytest.fixture
def sites(tmp_path):
    return of_three_sites(tmp_path)


def test_train_and_test_arrays_with_validation_left_out(tmp_path):
    parts = {f'{p}_images': images(n, 6, 6) for p, n in (('train', 30), ('val', 7), ('test', 9))}
    labels = {
        f'{p}_labels': (np.arange(n) % 3)[:, None].astype(np.uint8) for p, n in (('train', 30), ('val', 7), ('test', 9))
    }
    made = make_scenario('npz:' + save(tmp_path / 'm.npz', **parts, **labels), num_clients=3)
    assert made.num_clients == 3 and made.tests.names == ('test',) and made.num_classes == 3 and made.name == 'npz:m'
    assert {i.tobytes() for i in made.x} == {i.tobytes() for i in parts['train_images']}
    np.testing.assert_array_equal(made.tests.x[0, ..., 0], parts['test_images'])
    np.testing.assert_array_equal(made.tests.y[0], labels['test_labels'][:, 0])
    assert read_pool('npz', str(tmp_path / 'm.npz')).left_out == 7


def test_validation_arrays_do_not_stand_in_for_a_test_set(tmp_path):
    held = {'train_images': images(50, 6, 6), 'train_labels': np.arange(50) % 2}
    path = save(tmp_path / 'm.npz', **held, seen=images(9, 8, 8), val_labels=np.zeros(9, int))
    pool = read_pool('npz', path, npz_keys='val_images:seen')
    assert len(pool.y) == 50 and pool.held_out.sum() == 10 and pool.x.shape[1:3] == (6, 6)


def test_one_client_per_site_with_its_own_test_set(sites):
    sites['site_names'] = np.array(['north', 'south', 'west'])
    sites['class_names'] = np.array(['a', 'b', 'c', 'never seen'])
    path = sites.pop('path')
    made = make_scenario('npz:' + save(path, **sites))
    assert made.groups == made.tests.names == ('north', 'south', 'west') and made.group_of.tolist() == [0, 1, 2]
    assert made.num_classes == 4 and made.class_names[3] == 'never seen' and made.x.shape == (45, 8, 8, 1)
    for n in range(3):
        own = (sites['site'] == n) & (sites['is_test'] == 0)
        rows = made.index[n, : made.sizes[n]]
        np.testing.assert_array_equal(made.x[rows][..., 0], sites['images'][own])
        np.testing.assert_array_equal(made.y[rows], sites['labels'][own])
        tested = made.tests.x[n][made.tests.mask[n]]
        np.testing.assert_array_equal(tested[..., 0], sites['images'][(sites['site'] == n) & (sites['is_test'] == 1)])


def test_a_pair_of_arrays_per_domain(tmp_path):
    arrays = {}
    for domain, count in (('zeta', 40), ('alpha', 20)):
        arrays |= {f'{domain}_images': images(count, 5, 5, 3), f'{domain}_labels': np.arange(count) % 2}
    path = save(tmp_path / 'pairs.npz', **arrays)
    made = make_scenario(f'npz:{path}', clients_per_domain=2)
    assert made.groups == ('zeta', 'alpha') and made.num_clients == 4
    assert made.tests.mask.sum(1).tolist() == [8, 4]
    assert sorted(made.sizes.tolist()) == [8, 8, 16, 16]


def test_several_files_are_domains_of_one_shape(tmp_path):
    grey = save(tmp_path / 'grey.npz', images=images(40, 4, 4), labels=np.arange(40) % 4)
    rgb = {
        f'{p}_{k}': v
        for p in ('train', 'test')
        for k, v in (('images', images(12, 8, 8, 3)), ('labels', np.arange(12) % 4))
    }
    made = make_scenario(f'npz:{grey},{save(tmp_path / "rgb.npz", **rgb)}', num_clients=4, image_size=8)
    assert made.groups == ('grey', 'rgb') and made.x.shape[1:] == (8, 8, 3) and made.x.dtype == np.uint8
    of_grey = made.x[made.index[np.flatnonzero(made.group_of == 0)[0], 0]]
    assert (of_grey == of_grey[..., :1]).all()
    assert made.tests.mask.sum(1).tolist() == [8, 12]
    assert read_pool('npz', f'{grey},{tmp_path / "rgb.npz"}').x.shape[1:3] == (4, 4)  # most examples are 4x4


def test_keys_rename_and_string_splits_keep_validation_out(tmp_path):
    split = np.repeat(['train', 'test', 'val'], [24, 8, 8])
    hospital = np.tile(['B7', 'A1'], 20)
    data = {'x': images(40, 4, 4, 3), 'y': np.arange(40) % 4, 'hospital': hospital, 'part': split}
    path = save(tmp_path / 'k.npz', **data)
    pool = read_pool('npz', path, npz_keys='images:x, labels:y, site:hospital, split:part')
    assert len(pool.y) == 32 and pool.held_out.sum() == 8 and pool.sites == ('B7', 'A1')
    np.testing.assert_array_equal(pool.x, data['x'][:32])
    np.testing.assert_array_equal(np.array(pool.sites)[pool.site_of], hospital[:32])


def test_a_role_given_to_no_array_is_not_read(sites):
    path = save(sites.pop('path'), **sites, split=np.full(60, 'test'), site_names=np.array(['a', 'b', 'c']))
    assert read_pool('npz', path).held_out.all()
    np.testing.assert_array_equal(read_pool('npz', path, npz_keys='split:-').held_out, sites['is_test'])
    drawn = read_pool('npz', path, npz_keys='split:-,is_test:-,site_names:-,group:-')
    assert drawn.held_out.sum() == 9 and drawn.sites == ('0', '1', '2')
    assert read_pool('npz', path, npz_keys='split:-,site:-').sites == ()
    with pytest.raises(ValueError, match=r'npz_keys=labels:-: sites\.npz cannot be used without labels'):
        read_pool('npz', path, npz_keys='labels:-')


def test_columns_and_bytes_are_read_as_rows_of_text(sites):
    path = sites.pop('path')
    del sites['is_test']
    more = {
        'site': np.tile(['Köln'.encode(), b'Ulm'], 30)[:, None],
        'split': np.tile([b'train', b'test', b'train'], 20)[:, None],
        'group': np.arange(60)[:, None] // 6,
        'class_names': np.array([[b'a'], [b'b'], [b'c']]),
    }
    pool = read_pool('npz', save(path, **(sites | more)))
    assert pool.sites == ('Köln', 'Ulm') and pool.class_names == ('a', 'b', 'c')
    assert pool.held_out.tolist() == [False, True, False] * 20
    assert pool.patient_of.tolist() == (np.arange(60) // 6).tolist()


def test_sites_of_one_slide_are_joined_before_the_split_is_drawn(tmp_path):
    """Slides of three images; A has three slides, B and D one, C two."""
    slide = np.repeat(np.arange(7), 3)
    site = np.array(list('BAAADCC'))[slide]
    path = save(tmp_path / 's.npz', images=images(21, 4, 4), labels=np.zeros(21, int), slide=slide, site=site)
    apart = make_scenario(f'npz:{path}', npz_keys='group:-', join_sites=True)  # examples that stand alone
    assert apart.groups == tuple('BADC')
    with pytest.raises(ValueError, match=r'no test example for B, D; every site or domain needs one \(join_sites'):
        make_scenario(f'npz:{path}', npz_keys='group:slide')
    made = make_scenario(f'npz:{path}', npz_keys='group:slide', join_sites=True)
    assert made.groups == made.tests.names == ('other', 'A', 'C')
    assert made.sizes.tolist() == [3, 6, 3] and made.tests.mask.sum(1).tolist() == [3, 3, 3]
    held = read_pool('npz', path, npz_keys='group:slide', join_sites=True).held_out.reshape(7, 3)
    assert (held.all(1) | ~held.any(1)).all()
    np.testing.assert_array_equal(made.patient_of, slide[~held.ravel()])  # known to the clients, to validate by


def test_sites_that_lack_a_side_are_joined_where_the_file_gives_the_split(sites):
    path = sites.pop('path')
    sites['site'] = np.where(np.arange(60) < 4, 3, sites['site'])
    sites['is_test'] = np.where(sites['site'] == 1, 0, np.where(sites['site'] == 2, 1, sites['is_test']))
    made = make_scenario('npz:' + save(path, **sites), join_sites=True)
    assert made.groups == ('3', '0', 'other') and made.sizes.tolist() == [3, 12, 20]
    assert made.tests.mask.sum(1).tolist() == [1, 4, 20]
    same = make_scenario('npz:' + save(path, **(sites | {'is_test': np.arange(60) % 2})), join_sites=True)
    assert same.groups == ('3', '0', '1', '2')
    with pytest.raises(ValueError, match='join_sites=true: these examples have no sites'):
        make_scenario(f'npz:{path}', npz_keys='site:-', join_sites=True)


def test_keras_style_names(tmp_path):
    data = {
        'x_train': images(20, 4, 4),
        'y_train': np.arange(20) % 2,
        'x_test': images(6, 4, 4),
        'y_test': np.arange(6) % 2,
    }
    keys = 'train_images:x_train,train_labels:y_train,test_images:x_test,test_labels:y_test'
    pool = read_pool('npz', save(tmp_path / 'keras.npz', **data), npz_keys=keys)
    assert pool.held_out.sum() == 6 and len(pool.y) == 26


def test_a_drawn_split_is_stratified_and_keeps_groups_together(tmp_path):
    labels, slide = np.repeat([0, 1], 60), np.arange(120) // 3
    path = save(tmp_path / 's.npz', images=images(120, 4, 4), labels=labels, group=slide)
    pool = read_pool('npz', path)
    assert [int(pool.held_out[labels == c].sum()) for c in (0, 1)] == [12, 12]
    assert all(len(set(pool.held_out[slide == s])) == 1 for s in range(40))
    assert not np.array_equal(read_pool('npz', path, data_seed=1).held_out, pool.held_out)


def test_floats_and_masks_are_kept(tmp_path):
    x = RNG.normal(size=(20, 4, 4, 1))
    masks = RNG.integers(2, size=(20, 4, 4)).astype(np.uint8)
    path = save(tmp_path / 'f.npz', images=x, labels=np.arange(20) % 2, masks=masks)
    pool = read_pool('npz', path)
    np.testing.assert_array_equal(pool.x, x.astype(np.float32))
    np.testing.assert_array_equal(pool.masks, masks)
    assert read_pool('npz', path, image_size=8).masks.shape == (20, 8, 8)  # masks are resized with their images


def test_plain_features(tmp_path):
    made = make_scenario('npz:' + save(tmp_path / 'p.npz', images=RNG.normal(size=(50, 3)), labels=np.arange(50) % 2))
    assert made.x.shape == (40, 3) and made.x.dtype == np.float32 and made.num_clients == 10


# --- partitions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('split_by', ['iid', 'dirichlet', 'capped_dirichlet', 'quantity', 'power_law'])
def test_other_splits_share_one_test_set(sites, split_by):
    big = {k: np.repeat(v, 5, axis=0) for k, v in sites.items() if k != 'path'}
    made = make_scenario('npz:' + save(sites['path'], **big), split_by=split_by, num_clients=4)
    assert made.tests.names == ('test',) and made.groups == () and made.group_of is None
    assert made.sizes.sum() == len(made.x) == 225 and made.num_clients == 4


def test_classes_per_client_cut_the_test_set_too(sites):
    made = make_scenario('npz:' + save(sites.pop('path'), **sites), num_clients=6, classes_per_client=2)
    counts = class_counts(made)
    assert ((counts > 0).sum(1) == 2).all() and made.tests.mask.sum() == 15
    for n in range(6):
        assert set(made.tests.y[n][made.tests.mask[n]]) == set(np.flatnonzero(counts[n]))


def test_sizes_per_domain_tests_and_truncation(sites):
    path = 'npz:' + save(sites.pop('path'), **sites)
    made = make_scenario(path, clients_per_domain=2, client_sizes=[3, 4, 5], test_size=2)
    np.testing.assert_array_equal(made.sizes, np.array([3, 4, 5])[made.group_of])
    assert made.tests.mask.sum(1).tolist() == [2, 2, 2] and len(made.x) == 24
    assert set(make_scenario(path, clients_per_domain=2, client_sizes=[3, 4, 5], truncate=True).sizes) == {3}


def test_sites_for_training_images_only(tmp_path):
    halves = {
        f'{p}_{k}': v for p in ('train', 'test') for k, v in (('images', images(8, 4, 4)), ('labels', np.arange(8) % 2))
    }
    with pytest.raises(ValueError, match='sites for some of its images only'):
        make_scenario('npz:' + save(tmp_path / 'h.npz', **halves, train_site=np.arange(8) % 2))


def test_group_is_another_word_for_the_role_patient(tmp_path):
    case = np.arange(60) // 6
    path = save(tmp_path / 'c.npz', images=images(60, 4, 4), labels=np.arange(60) % 2, case=case)
    for role in ('patient', 'group'):
        np.testing.assert_array_equal(read_pool('npz', path, npz_keys=f'{role}:case').patient_of, case)
    with pytest.raises(ValueError, match='npz_keys=patient:case,group:case names a role twice'):
        read_pool('npz', path, npz_keys='patient:case,group:case')


@pytest.mark.parametrize('name', ['patient', 'group'])
@pytest.mark.parametrize('prefix', ['', 'train_'])
def test_patients_are_an_array_of_that_name_or_of_its_older_one(tmp_path, name, prefix):
    case = np.arange(60) // 6
    arrays = {f'{prefix}images': images(60, 4, 4), f'{prefix}labels': np.arange(60) % 2, f'{prefix}{name}': case}
    pool = read_pool('npz', save(tmp_path / 'c.npz', **arrays))
    np.testing.assert_array_equal(pool.patient_of, case)


def test_two_arrays_of_patients_are_refused_until_one_is_chosen(tmp_path):
    case = np.arange(60) // 6
    path = save(tmp_path / 'c.npz', images=images(60, 4, 4), labels=np.arange(60) % 2, patient=case, group=case // 2)
    with pytest.raises(ValueError, match=r"c.npz holds 'patient' and 'group', which both name the patients; npz_keys="):
        read_pool('npz', path)
    np.testing.assert_array_equal(read_pool('npz', path, npz_keys='patient:patient').patient_of, case)
    np.testing.assert_array_equal(read_pool('npz', path, npz_keys='patient:group').patient_of, case // 2)
    assert read_pool('npz', path, npz_keys='patient:-').patient_of is None
