"""Names, tables and labels that somebody made to do harm: they are written out, or refused in one line."""

import bz2
import os
import re

import numpy as np
import pytest

from fedjax_fair.data import make_scenario
from fedjax_fair.data.partition.file import write_partition
from fedjax_fair.data.pool import Pool
from fedjax_fair.data.pool_overview import counts_of_classes, counts_of_sites
from fedjax_fair.data.sources import read_pool
from fedjax_fair.errors import UserError


def refused(kind, path, words):
    with pytest.raises(UserError, match=words) as raised:
        read_pool(kind, str(path))
    assert '\n' not in str(raised.value)


# --- names -----------------------------------------------------------------------------------------------------------


def test_names_that_are_not_utf8_are_written_as_bytes(scans):
    os.rename(os.fsencode(scans / 'b'), os.fsencode(scans) + b'/\xff\xfe')
    pool = read_pool('folders', str(scans))
    assert pool.class_names == ('a', '\\xff\\xfe')
    assert pool.name(len(pool.y) - 1).encode() == b'\\xff\\xfe/2.png'


def test_names_a_terminal_obeys_are_written_out(scans):
    os.rename(scans / 'b', scans / 'b\x1b[2J\n')
    assert read_pool('folders', str(scans)).class_names == ('a', r'b\x1b[2J\n')
    os.rename(scans / 'a', scans / r'b\x1b[2J\n')
    refused('folders', scans, re.escape(r'two classes are both written b\x1b[2J\n; rename one of them'))


def test_errors_about_files_are_one_line_without_commands(scans):
    (scans / 'a' / 'z\x1b[2J\n.png').write_bytes(b'no image')
    refused('folders', scans, r'a/z\\x1b\[2J .png|a/z\\x1b\[2J\\n.png')


def test_paths_that_are_not_utf8_are_refused(scans):
    refused('folders', f'{scans}/\udcff', 'is not text in UTF-8; rename')


def test_names_in_partition_files_are_cleaned(scans, tmp_path):
    path = tmp_path / 'partition.json'
    data = make_scenario(f'folders:{scans}', num_clients=2)
    names = tuple(f'{name}\x1b[2J' for name in data.partition.test_names)
    write_partition(path, data.partition._replace(test_names=names), 'folders:scans', {})
    read = make_scenario(f'folders:{scans}', partition=str(path)).tests.names
    assert read == tuple(name.replace('\x1b', r'\x1b') for name in names)


# --- tables and labels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize('other', ['0', 'x'])
def test_numbers_that_python_does_not_read(scans, other):
    table, long = scans / 'images.csv', '9' * 5000
    rows = (f'{"ab"[k > 2]}/{k % 3}.png,{(long, other)[k % 2]}\n' for k in range(6))
    table.write_text('image,label\n' + ''.join(rows))
    if other == '0':
        refused('csv', table, f'label holds {long[:20]}; classes are numbered')
    else:
        assert set(read_pool('csv', str(table)).class_names) == {long, other}


def test_tables_of_very_many_columns_are_read_at_once(tmp_path):
    (tmp_path / 'a.csv').write_text(','.join(f'c{k}' for k in range(100_000)) + '\n' + ',' * 99_999 + '\n')
    refused('csv', tmp_path / 'a.csv', r'source_options=image=COLUMN is needed .* c48, c49, \.\.\.$')


def test_long_lines_of_text_are_cut(tmp_path):
    for name in ('usps.bz2', 'usps.t.bz2'):
        (tmp_path / name).write_bytes(bz2.compress(b'1 ' * 1_000_000))
    refused('usps', tmp_path, 'line 1: a label and 1:value to 256:value are needed')


def test_as_many_classes_as_examples_need_little_memory():
    """Zeros and ones for each of them would be 40 GB."""
    count = 70_000
    labels, sites = np.arange(count, dtype=np.int32), tuple(f's{k}' for k in range(count))
    pool = Pool(np.zeros((count, 1), np.uint8), labels, labels % 2 == 0, labels, sites)
    assert counts_of_classes(pool).sum(0).tolist() == counts_of_sites(pool).sum(0).tolist() == [count // 2, count // 2]
