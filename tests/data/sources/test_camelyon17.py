"""Camelyon17 in the layout of WILDS."""

import numpy as np
import pytest
from pictures import save_picture

from fedjax_fair.data import make_scenario
from fedjax_fair.data.sources import read_pool

HEADER = ',patient,node,x_coord,y_coord,tumor,slide,center,split'


@pytest.fixture
def root(tmp_path):
    """Five hospitals of four slides (of two patients) of four patches; the grey value is the number of the row."""
    lines = [HEADER]
    for row in range(80):
        hospital, slide, tumor, val = row // 16, row // 4, row % 2, row % 4 == 3
        patient, node = f'{20 * hospital + slide % 4 // 2:03}', slide % 2
        lines.append(f'{row},{patient},{node},{32 * row},{row},{tumor},{slide},{hospital},{int(val)}')
        name = f'patient_{patient}_node_{node}'
        save_picture(tmp_path / f'patches/{name}/patch_{name}_x_{32 * row}_y_{row}.png', row)
    (tmp_path / 'metadata.csv').write_text('\n'.join(lines) + '\n')
    return tmp_path


def shade(images):
    return images[..., 0, 0, 0]


def test_hospitals_are_sites_and_slides_stay_whole(root):
    pool = read_pool('camelyon17', str(root))
    rows = shade(pool.x)
    assert pool.sites == tuple(f'center {h}' for h in range(5)) and pool.class_names == ('normal', 'tumor')
    np.testing.assert_array_equal(rows, np.arange(80))
    np.testing.assert_array_equal(pool.y, rows % 2)
    np.testing.assert_array_equal(pool.site_of, rows // 16)
    for hospital in range(5):
        held = pool.held_out[rows // 16 == hospital].reshape(4, 4)  # slide, patch
        assert held.all(1).sum() == held.any(1).sum() == 1


def test_patients_stay_whole_where_asked(root):
    pool = read_pool('camelyon17', str(root), source_options='group=patient')
    held = pool.held_out.reshape(5, 2, 8)
    np.testing.assert_array_equal(held.all(2), held.any(2))
    np.testing.assert_array_equal(held.any(2).sum(1), 1)


def test_the_official_split_tests_on_the_hospital_nobody_trains_on(root):
    data = make_scenario(f'camelyon17:{root}', source_options='split=official')
    assert data.groups == ('center 0', 'center 3', 'center 4') and data.tests.names == ('test',)
    trained = shade(data.x)
    assert set(trained // 16) == {0, 3, 4} and (trained % 4 != 3).all() and len(trained) == 36
    np.testing.assert_array_equal(shade(data.tests.x[0]), np.arange(32, 48))


def rewrite(root, old, new):
    path = root / 'metadata.csv'
    path.write_text(path.read_text().replace(old, new, 1))


@pytest.mark.parametrize(
    ('old', 'new', 'message'),
    [
        (',tumor,', ',tumour,', "metadata.csv has no column 'tumor'; it has"),
        ('0,000,0,0,0,0,0,0,0', '0,000,0,0,0,2,0,0,0', "tumor of row 1 is '2'; whole numbers from 0 to 1"),
        ('0,000,0,0,0,0,0,0,0', '0,000,0,0,0,0,0,5,0', "center of row 1 is '5'; whole numbers from 0 to 4"),
        ('0,000,0,0,0,0,0,0,0', '0,000,0,7,0,0,0,0,0', 'patch_patient_000_node_0_x_7_y_0.png'),
    ],
)
def test_wrong_metadata_are_named(root, old, new, message):
    rewrite(root, old, new)
    with pytest.raises(ValueError, match=message) as raised:
        make_scenario(f'camelyon17:{root}')
    assert 'scenario' in str(raised.value) and '\n' not in str(raised.value)


def test_wrong_folders_and_options_are_named(root, tmp_path):
    with pytest.raises(ValueError, match=r'scenario=camelyon17:.*nowhere: no such folder'):
        make_scenario(f'camelyon17:{tmp_path}/nowhere')
    with pytest.raises(ValueError, match=r'metadata.csv cannot be read: No such file'):
        make_scenario(f'camelyon17:{root}/patches')
    with pytest.raises(ValueError, match=r"source_options=split='mine' is not one of 'drawn', 'official'"):
        make_scenario(f'camelyon17:{root}', source_options='split=mine')
    with pytest.raises(ValueError, match=r"source_options=patient='node' is not one of 'slide', 'patient'"):
        make_scenario(f'camelyon17:{root}', source_options='patient=node')
