"""Arrays of one's own: every mistake is one line."""

import pathlib
import zipfile

import numpy as np
import pytest
from npz_files import images, of_three_sites, save

from fedjax_fair.data import make_scenario, read_pool


@pytest.fixture
def sites(tmp_path):
    return of_three_sites(tmp_path)


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
        ({'header': (b'(60, 8, 8), }' + b' ' * 9, b'(60, 8, 99999999999), }')}, 'it claims to be .* 48 TB'),
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
