"""Tables in text files: csv and tsv, and their mistakes."""

import pathlib

import pytest

from fedjax_fair.data.sources.text_table import read_table


def write(folder: pathlib.Path, content: str | bytes, name: str = 'list.csv') -> pathlib.Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ('name', 'text'),
    [
        ('a.csv', 'image,label\nx.png, mole\n\n"y, z.png",nevus\n'),
        ('a.tsv', 'image\tlabel\nx.png\tmole\ny, z.png\tnevus'),
        ('a.csv', '\ufeffimage , label\r\nx.png,mole\r\n"y, z.png",nevus\r\n'),
    ],
)
def test_columns_by_name(tmp_path, name, text):
    table = read_table(write(tmp_path, text, name), 'scenario=csv')
    assert table.columns == ('image', 'label') and len(table) == 2
    assert table['image'] == ['x.png', 'y, z.png'] and table['label'] == ['mole', 'nevus']
    assert 'label' in table and 'site' not in table


def test_without_a_header_columns_are_numbered(tmp_path):
    table = read_table(write(tmp_path, 'x.npy,0\ny.npy,1\n'), 'scenario=csv', header=False)
    assert table.columns == ('0', '1') and table['1'] == ['0', '1']


def test_columns_without_a_name_are_let_be(tmp_path):
    assert read_table(write(tmp_path, ',image,\n0,x.png,\n'), 'scenario=csv')['image'] == ['x.png']


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        ('', 'list.csv is empty'),
        ('image,label\n', 'list.csv is empty'),
        ('image,label\nx.png,1\ny.png\n', 'list.csv has 1 values in line 3, not 2'),
        ('image,label\nx.png,"1\n', 'cannot be read at line 2'),
        ('image,image\nx.png,1\n', "two columns named 'image'"),
        (b'\xff\xfe\x00\x01', 'not text in UTF-8'),
        (b'PK\x03\x04\x00\x00', 'not a text file'),
    ],
)
def test_mistakes_are_named(tmp_path, content, message):
    with pytest.raises(ValueError, match=f'scenario=csv: .*{message}'):
        read_table(write(tmp_path, content), 'scenario=csv')


def test_missing_column_and_missing_file(tmp_path):
    table = read_table(write(tmp_path, 'image,dx\nx,1\n'), 'scenario=csv')
    with pytest.raises(ValueError, match=r"list\.csv has no column 'label'; it has image, dx"):
        table['label']
    with pytest.raises(ValueError, match=r'none\.csv cannot be read: No such file'):
        read_table(tmp_path / 'none.csv', 'scenario=csv')
