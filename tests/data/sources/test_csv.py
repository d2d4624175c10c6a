"""Image files that a table lists."""

import pathlib

import numpy as np
import pytest
from pictures import save, save_pixels

from fedjax_fair.data import make_scenario
from fedjax_fair.data.blocks import TEST, TRAIN, VAL
from fedjax_fair.data.sources import read_pool
from fedjax_fair.data.sources.csv_table import read_csv


@pytest.fixture
def table(tmp_path):
    """``table(header, row, name)`` writes a table beside eight images, scans/0.png and so on, and gives its path."""
    for number in range(8):
        save(tmp_path / 'scans' / f'{number}.png', seed=number)

    def write(header: str, row: str, name: str = 'list.csv') -> str:
        lines = [header, *(row.format(n=n, even=n % 2, half=n // 4, word=('mole', 'nevus')[n % 2]) for n in range(8))]
        (tmp_path / name).write_text('\n'.join(lines))
        return str(tmp_path / name)

    return write


def test_columns_of_usual_names_are_found(table):
    path = table('Image,dx,age,hospital,lesion_id', 'scans/{n}.png,{word},50,H{half},L{n}')
    found = read_csv(path)
    assert found.images[3] == 'scans/3.png' and found.class_names == ('mole', 'nevus')
    assert found.labels.tolist() == [0, 1] * 4
    assert found.site.tolist() == ['H0'] * 4 + ['H1'] * 4 and found.patient.tolist()[5] == 'L5'
    assert make_scenario(f'csv:{path}').groups == ('H0', 'H1')


def test_columns_folder_and_extension_as_given(table, tmp_path):
    path = table('id\tkind\twhere', '{n}\t{even}\tH{half}', 'list.tsv')
    pool = read_pool(
        'csv', path, source_options=f'image=id,label=kind,site=where,folder={tmp_path}/scans,extension=png'
    )
    assert pool.y.tolist() == [0, 1] * 4 and pool.class_names == () and pool.sites == ('H0', 'H1')
    assert pool.x.shape == (8, 6, 6, 3)


@pytest.mark.parametrize(('prefix', 'folder'), [('./scans/', '.'), ('../scans/', 'lists'), ('.hidden/../scans/', '.')])
def test_paths_may_begin_with_dots(table, tmp_path, prefix, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / '.hidden').mkdir()
    path = table('image,label', prefix + '{n}.png,{even}', f'{folder}/list.csv')
    assert read_pool('csv', path).x.shape == (8, 6, 6, 3)


def test_splits_by_name(table):
    path = table('file,label,split', 'scans/{n}.png,{even},S{half}')
    text = pathlib.Path(path).read_text().replace('S0', 'Train').replace('S1', 'test')
    pathlib.Path(path).write_text(text.replace('0.png,0,Train', '0.png,0,val'))
    assert read_csv(path).split.tolist() == [VAL] + [TRAIN] * 3 + [TEST] * 4
    assert read_pool('csv', path).held_out.tolist() == [False] * 3 + [True] * 4


def test_several_labels_each(table):
    path = table('path,edema,mass', 'scans/{n}.png,{even},{half}.0')
    pool = read_pool('csv', path, source_options='label=edema|mass')
    assert pool.task == 'multilabel' and pool.class_names == ('edema', 'mass')
    assert pool.y.tolist() == [[n % 2, n // 4] for n in range(8)]


def test_masks_without_labels_are_segmentation(table, tmp_path):
    for number in range(8):
        save_pixels(tmp_path / 'masks' / f'{number}.png', np.full((6, 6), 255 * (number % 2), np.uint8))
    pool = read_pool('csv', table('image,mask', 'scans/{n}.png,masks/{n}.png'))
    assert pool.task == 'segmentation' and pool.masks.max((1, 2)).tolist() == [0, 1] * 4


@pytest.mark.parametrize(
    ('header', 'row', 'options', 'message'),
    [
        ('image,kind', 'scans/{n}.png,1', {}, 'label=COLUMN is needed .* it has image, kind'),
        ('picture,label', 'scans/{n}.png,1', {}, 'image=COLUMN is needed'),
        ('image,label,dx', 'scans/{n}.png,1,1', {}, 'label=COLUMN is needed .* label and dx could be it'),
        ('image,label', 'scans/{n}.png,1', {'site': 'clinic'}, "site=clinic: .*no column 'clinic' but image, label"),
        ('image,label', 'scans/{n},1', {}, "'scans/0' in image is no image; give source_options=extension"),
        ('image,label', 'scans/.{n}.png,1', {}, r"'scans/\.0\.png' in image is no image"),
        ('image,label', 'scans/{n}{n}.png,1', {}, r'8 of 8 files are not in .*, the first is scans/00\.png'),
        ('image,label', 'scans/1.png,1', {}, r'scans/1\.png more than once'),
        ('image,label', 'scans/{n}.png,', {}, 'no label in row 1'),
        ('image,label', 'scans/{n}.png,{n}7', {}, 'label holds 17; classes are numbered'),
        ('image,label', 'scans/{n}.png,-{n}', {}, 'label holds -1'),
        ('image,label,fold', 'scans/{n}.png,1,{half}', {}, "fold holds '0', not one of train"),
        ('image,a,b', 'scans/{n}.png,1,2', {'label': 'a|b'}, "b holds '2'; .* 0 or 1"),
        ('image,label', 'scans/{n}.png,1', {'folder': 'nowhere'}, 'source_options=folder=nowhere: no such folder'),
    ],
)
def test_mistakes_are_named(table, header, row, options, message):
    with pytest.raises(ValueError, match=message):
        read_csv(table(header, row), **options)


def test_a_role_can_be_left_unread(table):
    path = table('image,label,patient,lesion_id,fold', 'scans/{n}.png,{even},P{half},L{n},{half}')
    found = read_csv(path, patient='-', split='-')
    assert found.patient is None and (found.split == -1).all()


def test_missing_file_and_unknown_option(tmp_path, table):
    with pytest.raises(ValueError, match=r'scenario=csv:.*none\.csv: no such file'):
        read_csv(str(tmp_path / 'none.csv'))
    with pytest.raises(ValueError, match="source_options=column=x: csv has no option 'column'; it has: image, label"):
        read_pool('csv', table('image,label', 'scans/{n}.png,{even}'), source_options='column=x')
