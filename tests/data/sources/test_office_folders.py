"""Office-Caltech-10 as it is given out: folders of domains and classes."""

import numpy as np
import pytest
from pictures import save_picture

from fedjax_fair.data import make_scenario

DOMAINS = ('webcam', 'amazon', 'dslr', 'caltech')
CLASSES = {'mug': 13, 'bike': 11}


@pytest.fixture
def root(tmp_path):
    """The grey value of an image is 8 times its place in the order of class and file name."""
    for domain in DOMAINS:
        place = 0
        for name in sorted(CLASSES):
            for k in range(CLASSES[name]):
                save_picture(tmp_path / domain / name / f'frame_{k:04}.jpg', 8 * place)
                place += 1
    return tmp_path


def test_eight_of_ten_images_in_the_order_of_class_and_file_name_train(root):
    data = make_scenario(f'office_caltech:{root}', clients_per_domain=2, client_sizes=[8])
    assert data.groups == tuple(sorted(DOMAINS)) and data.class_names == ('bike', 'mug')
    place = np.round(data.x[..., 0, 0, 0] / 8).astype(int)
    assert (place % 10 <= 7).all() and len(data.x) == 4 * 16
    np.testing.assert_array_equal(data.y, place >= 11)
    tested = np.round(data.tests.x[..., 0, 0, 0] / 8).astype(int)
    np.testing.assert_array_equal(tested, np.tile([8, 9, 18, 19], (4, 1)))
    for row, size in zip(data.index, data.sizes, strict=True):
        assert set(data.y[row[:size]]) == {0, 1}


def test_options_of_files_do_not_apply_to_folders(root):
    with pytest.raises(ValueError, match=r'npz_keys=labels:y does not apply to scenario=office_caltech'):
        make_scenario(f'office_caltech:{root}', npz_keys='labels:y')
    with pytest.raises(ValueError, match='no such f'):
        make_scenario(f'office_caltech:{root}/amazon,{root}/dslr')
