"""The six clients of HarmoFL's nuclei, from made-up archives of their publishers."""

import numpy as np
import pytest
from PIL import Image

from experiments.harmofl import nuclei
from experiments.published import preset_config
from fedjax_fair.errors import DataError
from fedjax_fair.training import load_federation


def made_up_image(path, size=(20, 24)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((*size, 3), 200, np.uint8)).save(path)


def made_up_outline(path, corners):
    path.parent.mkdir(parents=True, exist_ok=True)
    vertices = ''.join(f'<Vertex X="{x}" Y="{y}"/>' for x, y in corners)
    regions = f'<Region><Vertices>{vertices}</Vertices></Region><Region><Vertices/></Region>'
    path.write_text(f'<Annotations><Annotation><Regions>{regions}</Regions></Annotation></Annotations>')


@pytest.fixture
def archives(tmp_path):
    """The layouts of the three data sets; five hospitals have 4, 3, 3, 2 and 2 patients of one image each."""
    square = [(2, 3), (6, 3), (6, 9), (2, 9)]
    for hospital, patients in {'5P': 4, 'A2': 3, 'B3': 3, 'C4': 2, 'D5': 2}.items():
        for number in range(patients):
            name = f'TCGA-{hospital}-000{number}-01Z-00-DX1'
            made_up_image(tmp_path / f'monusac/{name}/{name}_1.tif')
            made_up_outline(tmp_path / f'monusac/{name}/{name}_1.xml', square)
    for number in range(3):
        name = f'TCGA-18-559{number}-01Z-00-DX1'
        made_up_image(tmp_path / f'monuseg/Tissue Images/{name}.tif', (32, 32))
        made_up_outline(tmp_path / f'monuseg/Annotations/{name}.xml', square)
        made_up_image(tmp_path / f'tnbc/Slide_0{number}/0{number}_1.png', (16, 16))
        mask = np.zeros((16, 16), np.uint8)
        mask[4:8, :] = 255
        (tmp_path / f'tnbc/GT_0{number}').mkdir(parents=True)
        Image.fromarray(mask).save(tmp_path / f'tnbc/GT_0{number}/0{number}_1.png')
    return tmp_path


def test_six_clients_of_nuclei_from_their_archives(archives, monkeypatch):
    found = [one for part, read in nuclei.PARTS.items() for one in read(archives / part)]
    nuclei.write(found, archives / 'nuclei')
    monkeypatch.setenv('DATA', str(archives))
    config = preset_config('harmofl', 'paper_segmentation')
    data = load_federation(config.changed(image_size=16, validation=0.0, select='last_k'))
    trained = dict(zip(data.groups, data.sizes.tolist(), strict=True))
    tested = dict(zip(data.tests.names, data.tests.mask.sum(1).tolist(), strict=True))
    counts = {name: trained[name] + tested[name] for name in trained}
    hospitals = {'MoNuSAC 5P': 4, 'MoNuSAC A2': 3, 'MoNuSAC B3': 3, 'MoNuSAC others': 4}
    assert counts == {**hospitals, 'MoNuSeg': 3, 'TNBC': 3}
    assert data.task == 'segmentation' and data.num_classes == 2 and set(np.unique(data.y)) == {0, 1}


def test_masks_are_one_inside_of_nuclei(archives):
    inside = {one.site: one.mask for part, read in nuclei.PARTS.items() for one in read(archives / part)}
    assert inside['MoNuSeg'].shape == (32, 32) and inside['MoNuSAC 5P'].shape == (20, 24)
    rows, columns = np.nonzero(inside['MoNuSAC 5P'])
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (3, 9, 2, 6)
    assert inside['TNBC'].sum() == 4 * 16 and inside['TNBC'].max() == 1


def test_an_archive_of_another_layout_is_refused(archives):
    with pytest.raises(ValueError, match='no annotation files'):
        nuclei.monuseg(archives / 'tnbc')
    with pytest.raises(ValueError, match=r'no images, such as Slide_01/01_1\.png'):
        nuclei.tnbc(archives / 'monuseg')
    (archives / 'monuseg/Tissue Images/TCGA-18-5590-01Z-00-DX1.tif').unlink()
    with pytest.raises(ValueError, match=r'TCGA-18-5590-01Z-00-DX1\.xml has no image'):
        nuclei.monuseg(archives / 'monuseg')


NAME = 'TCGA-18-5590-01Z-00-DX1'


@pytest.mark.parametrize(
    ('part', 'file', 'text', 'words'),
    [
        ('monuseg', f'Annotations/{NAME}.xml', '<Annotations>', rf'{NAME}\.xml: is not valid XML'),
        ('monuseg', f'Annotations/{NAME}.xml', '<Region><Vertex X="1"/></Region>', rf'{NAME}\.xml: a vertex must'),
        ('monuseg', f'Tissue Images/{NAME}.tif', 'no image', rf'{NAME}\.tif: not an image, or damaged'),
        ('tnbc', 'GT_01/01_1.png', 'no image', r'GT_01/01_1\.png: not an image, or damaged'),
        ('tnbc', 'GT_01/01_1.png', None, r'GT_01/01_1\.png: No such file'),
    ],
)
def test_files_of_archives_that_cannot_be_read_are_named_in_one_line(archives, part, file, text, words):
    path = archives / part / file
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    with pytest.raises(DataError, match=words):
        nuclei.PARTS[part](archives / part)


def test_a_patient_without_a_hospital_is_named(archives):
    (archives / 'monusac/TCGA-5P-0000-01Z-00-DX1').rename(archives / 'monusac/patient1')
    with pytest.raises(DataError, match=r'monusac: the folder patient1 names no hospital, as TCGA-5P'):
        nuclei.monusac(archives / 'monusac')
