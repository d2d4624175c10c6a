"""Arrays of one's own: every layout, every mistake."""

import pathlib
import zipfile

import numpy as np
import pytest

from fedjax_fair.data import class_counts, make_scenario, read_pool

RNG = np.random.default_rng(0)


def images(count, *shape):
    return RNG.integers(0, 256, size=(count, *shape)).astype(np.uint8)


def save(path: pathlib.Path, **arrays) -> str:
    np.savez(path, **arrays)
    return str(path)


@pytest.fixture
def sites(tmp_path):
    """60 grey images of three classes at sites 0, 1, 2, every third for testing."""
    rows = np.arange(60)
    return {
        'path': tmp_path / 'sites.npz',
        'images': images(60, 8, 8),
        'labels': (rows % 3).astype(np.int64),
        'site': rows // 20,
        'is_test': (rows % 4 == 0).astype(int),
    }


# --- layouts ---------------------------------------------------------------------------------------------------------


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


# --- mistakes --------------------------------------------------------------------------------------------------------

CHANGES = {
    'labels too short': ({'labels': np.zeros(59, int)}, "'labels' has shape .59,., not 60 rows"),
    'site too short': ({'site': np.zeros(5, int)}, "'site' has shape"),
    'no labels': ({'labels': None}, "sites.npz has no array 'labels'; it holds images, is_test, site"),
    'masks only': (
        {'labels': None, 'masks': np.zeros((60, 8, 8))},
        'masks must be integers of shape .60, 8',
    ),
    'nothing known': ({'images': None}, 'needed are train_images'),
    'float labels': ({'labels': np.zeros(60)}, 'labels must be integers of shape .T..*got float64'),
    'negative': ({'labels': np.full(60, -1)}, 'labels must be 0, 1, 2, ..., got -1'),
    'out of range': ({'class_names': np.array(['a', 'b'])}, 'label 2 is out of range of the 2 class_names'),
    'beyond int32': ({'labels': np.full(60, 2**32 + 1)}, r'sites\.npz: labels must be 0, 1, 2, ..., got 4294967297'),
    'just beyond': ({'labels': np.full(60, 2**31)}, 'labels must be 0, 1, 2, ..., got 2147483648'),
    'no columns': ({'labels': np.zeros((60, 0), int)}, r'labels must be integers .* got int64 \(60, 0\)'),
    'huge': ({'labels': np.full(60, 4000)}, 'label 4000 is out of range for 60 examples'),
    'nothing tested': ({'is_test': np.zeros(60, int)}, '60 training and 0 test examples'),
    'unknown split': ({'split': np.full(60, 'fold 3')}, "'split' holds fold 3; choose train, test, val or 0, 1, 2"),
    'site names': ({'site_names': np.array(['a', 'b'])}, 'site must be in 0..1, got 2'),
    'channels first': ({'images': np.zeros((60, 3, 8, 8), np.uint8)}, 'channels last'),
    'integers': ({'images': np.zeros((60, 8, 8), int)}, 'must be uint8 .0..255. or floats, got int64'),
    'not finite': ({'images': np.full((60, 8, 8), np.nan)}, 'NaN'),
    'no pixels': ({'images': np.zeros((60, 0, 8), np.uint8)}, r'images must not be empty, got shape \(60, 0, 8\)'),
    'site of two': ({'site': np.zeros((60, 2), int)}, r"'site' must have shape \[N\] or \[N, 1\], got \(60, 2\)"),
    'split of two': ({'split': np.zeros((60, 2), int)}, r"'split' must have shape .*got \(60, 2\)"),
    'group of two': ({'group': np.zeros((60, 2), int)}, r"'group' must have shape .*got \(60, 2\)"),
    'class names': ({'class_names': np.array([['a', 'b', 'c']])}, r"'class_names' must have shape .*got \(1, 3\)"),
    'one site name': ({'site_names': np.array('a')}, r"'site_names' must have shape .*got \(\)"),
    'latin-1': ({'site': np.full(60, b'M\xfcnchen')}, r"'site' holds b'M\\xfcnchen', which is not text in UTF-8"),
    'unknown bytes': ({'split': np.full(60, b'fold 3')}, "'split' holds fold 3; choose train, test, val or 0, 1, 2"),
    'unknown site': ({'site': np.full(60, np.nan)}, "'site' holds NaN or infinite values"),
    'only validation': ({'split': np.full(60, 'val')}, r'sites\.npz holds only validation examples'),
    'mixed masks': (
        {'masks': np.where(np.arange(60) == 7, 1, 255)[:, None, None] * np.eye(8, dtype=int)},
        r'sites\.npz mask 0 holds 255 and sites\.npz mask 7 holds 1; masks are black and white',
    ),
    'flat': ({'images': np.zeros(60, np.uint8)}, 'got shape .60,.'),
    'pickled': ({'labels': np.array([{}] * 60)}, "array 'labels' cannot be read"),
}


@pytest.mark.parametrize('name', CHANGES)
def test_wrong_arrays_say_what_is_wrong_in_one_line(sites, name):
    changes, words = CHANGES[name]
    path = sites.pop('path')
    spec = 'npz:' + save(path, **{k: v for k, v in (sites | changes).items() if v is not None})
    with pytest.raises(ValueError, match=words) as caught:
        make_scenario(spec)
    assert '\n' not in str(caught.value) and '--' in caught.value.with_flags()


WISHES = [
    ({'npz_keys': 'site:hospital'}, 'npz_keys=site:hospital: sites.npz has no such array; it holds images, is_test'),
    ({'npz_keys': 'colour:site'}, 'npz_keys=colour:site'),
    ({'npz_keys': 'site'}, 'is not role:array'),
    ({'npz_keys': 'site:site,site:labels'}, 'names a role twice'),
    ({'npz_keys': 'train_site:site'}, 'npz_keys=train_site:site is not read'),
    ({'split_by': 'size'}, 'split_by=size is not one of iid, dirichlet'),
    ({'split_by': 'site', 'num_clients': 5}, 'num_clients=5 does not apply to split_by=site'),
    ({'split_by': 'iid', 'alpha': 0.1}, 'alpha=0.1 does not apply to split_by=iid, which reads num_clients'),
    ({'split_by': 'dirichlet', 'clients_per_domain': 2}, 'clients_per_domain=2 does not apply'),
    ({'alpha': 1.0, 'classes_per_client': 2}, 'alpha=1.0 does not apply to split_by=classes'),
    ({'num_clients': 4}, 'num_clients=4 is not 3 domains times 1'),
    ({'split_by': 'iid', 'num_clients': 46}, 'num_clients=46'),
    (
        {'clients_per_domain': 2, 'client_sizes': [1, 2]},
        'client_sizes=1,2 must be one number for each of the 3 domains',
    ),
    ({'classes_per_client': 4}, 'classes_per_client=4 must be between 1 and the 3 classes present'),
    ({'image_size': 0}, 'image_size=0 must be at least 1'),
    ({'test_size': 0}, 'test_size=0 must be at least 1'),
]


@pytest.mark.parametrize(('options', 'words'), WISHES)
def test_impossible_wishes_name_the_option(sites, options, words):
    spec = 'npz:' + save(sites.pop('path'), **sites)
    with pytest.raises(ValueError, match=words):
        make_scenario(spec, **options)


def test_sites_without_test_or_training_examples(sites):
    path = sites.pop('path')
    sites['is_test'] = np.where(sites['site'] == 1, 0, sites['is_test'])
    with pytest.raises(ValueError, match='no test example for 1; every site or domain needs one'):
        make_scenario('npz:' + save(path, **sites))
    sites['is_test'] = np.where(sites['site'] == 2, 1, np.arange(60) % 2)
    with pytest.raises(ValueError, match='no training example for 2; every site'):
        make_scenario('npz:' + save(path, **sites))


def test_files_that_are_not_there_or_not_npz(tmp_path, sites):
    with pytest.raises(ValueError, match=r'nowhere\.npz: no such file'):
        make_scenario(f'npz:{tmp_path}/nowhere.npz')
    text = tmp_path / 'text.npz'
    text.write_text('hello')
    single = tmp_path / 'single.npy'
    np.save(single, np.zeros(3))
    for path in (text, single):
        with pytest.raises(ValueError, match='not an npz file'):
            make_scenario(f'npz:{path}')
    good = save(sites.pop('path'), **sites)
    with pytest.raises(ValueError, match='files with different names'):
        make_scenario(f'npz:{good},{good}')
    with pytest.raises(ValueError, match='has sites of its own'):
        make_scenario(f'npz:{save(tmp_path / "b.npz", images=images(9, 8, 8), labels=np.zeros(9, int))},{good}')


def rewritten(path: pathlib.Path, flags: int = 0, method: int = 0, header: tuple[bytes, bytes] = (b'', b'')) -> str:
    """The archive with other flags and another compression, or with something else in the headers of its arrays."""
    with zipfile.ZipFile(path) as archive:
        arrays = {name: archive.read(name).replace(*header) for name in archive.namelist()}
    with zipfile.ZipFile(path, 'w') as archive:
        for name, content in arrays.items():
            archive.writestr(name, content)
    raw = bytearray(path.read_bytes())
    for signature, place in ((b'PK\3\4', 6), (b'PK\1\2', 8)):
        start = raw.find(signature)
        raw[start + place] |= flags
        raw[start + place + 2] |= method
    path.write_bytes(raw)
    return str(path)


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ({'flags': 1}, 'encrypted'),
        ({'method': 99}, 'compression method is not supported'),
        ({'header': (b'(60, 8, 8), }' + b' ' * 9, b'(60, 8, 99999999999), }')}, 'it claims to be .* 48000.0 GB'),
    ],
)
def test_archives_that_cannot_be_read(sites, change, words):
    path = sites.pop('path')
    save(path, **sites)
    with pytest.raises(ValueError, match=rf"^scenario: sites\.npz: array 'images' cannot be read: .*{words}.*$"):
        read_pool('npz', rewritten(path, **change))


@pytest.mark.parametrize('path', ['~nosuchuser/a.npz', 'a' * 300])
def test_paths_that_cannot_be(path):
    with pytest.raises(ValueError, match=f'^scenario=npz:{path}: no such file$'):
        read_pool('npz', path)


def test_files_that_do_not_go_together(tmp_path):
    def file(name, x, **more):
        return save(tmp_path / f'{name}.npz', images=x, labels=np.arange(len(x)) % 2, **more)

    grey = file('grey', images(10, 4, 4), class_names=np.array(['a', 'b']))
    for other, words in (
        (file('float', np.zeros((10, 4, 4))), 'some images are uint8 and some floats'),
        (file('two', images(10, 4, 4, 2)), 'only grey and RGB may be mixed'),
        (file('flat', images(10, 16)), 'features must share one shape'),
        (file('named', images(10, 4, 4), class_names=np.array(['b', 'a'])), 'name their classes differently'),
    ):
        with pytest.raises(ValueError, match=words):
            make_scenario(f'npz:{grey},{other}')


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
