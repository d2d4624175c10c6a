"""Plug-ins that bring a source, a partition scheme and a sampler."""

import json
import pathlib

import pytest

from fedjax_fair import plugins

pytestmark = pytest.mark.xdist_group('plugins')
DATA = """
import numpy as np

from fedjax_fair import register
from fedjax_fair.data.blocks import UNKNOWN, Block
from fedjax_fair.data.sources.contents import Arrays


@register.source('text_table', argument='FILE')
def read_text_table(argument, delimiter: str = ','):
    table = np.loadtxt(argument, delimiter=delimiter, dtype=np.float32, ndmin=2)
    if table.shape[1] < 2:
        raise ValueError(f'{argument} has no column beside the class')
    labels, split = table[:, -1].astype(np.int64), np.full(len(table), UNKNOWN)
    return Arrays([Block(argument, table[:, :-1], labels, split)])


@register.partition
def alternate(patients, seed, num_clients: int = 10):
    numbers = np.arange(len(patients.labels))
    return [numbers[client::num_clients] for client in range(num_clients)]


@register.sampler
def first_ones(sizes, many: int = 2):
    return lambda key, round: np.arange(many, dtype=np.int32)
"""


def test_a_source_a_partition_scheme_and_a_sampler_of_a_plug_in(tmp_path, monkeypatch, command, toy):
    monkeypatch.chdir(tmp_path)
    pathlib.Path('kinds.py').write_text(DATA)
    rows = [f'{i % 2 * 3 + i % 5};{i % 3};{i % 2}' for i in range(60)]
    pathlib.Path('numbers.csv').write_text('\n'.join(rows))
    words = [*(word for word in toy if 'scenario' not in word), '--plugin=kinds.py']
    words += ['--scenario=text_table:numbers.csv', '--source_options=delimiter=;', '--split_by=alternate']
    words += ['--num_clients=3', '--sampler=first_ones', '--first_ones.many=1']
    try:
        found = command('run', *words, '--out=out')
        assert found.code == 0, found.err
        assert json.loads(pathlib.Path('out/summary.json').read_text())['clients'] == 3
        found = command('run', *words, '--first_ones.few=1', '--out=other')
        assert found.code == 2 and "first_ones has no option 'few'; it has: many" in found.err
        pathlib.Path('narrow.csv').write_text('1\n0\n')
        found = command('run', *words, '--scenario=text_table:narrow.csv', '--out=other')
        assert found.code == 2 and 'narrow.csv has no column beside the class' in found.err
    finally:
        plugins.unload('kinds.py')
