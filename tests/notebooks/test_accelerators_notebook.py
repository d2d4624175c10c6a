"""The notebook that measures: it finds or clones a checkout, installs what the machine needs, and shows what it wrote."""

from __future__ import annotations

import glob
import importlib.metadata
import json
import pathlib
import subprocess
import sys

import notebook_files
import pytest
from notebook_files import PROJECT, cell

from benchmarks.accelerators.record import checked

pytestmark = pytest.mark.xdist_group('accelerators_notebook')  # one worker, so that the notebook runs once

NAME = '02_accelerators.ipynb'
SETTINGS, CHECKOUT, INSTALL = 'REPOSITORY =', 'def find_checkout', 'def accelerator'


@pytest.fixture(scope='module')
def executed(tmp_path_factory):
    """The notebook after a run inside the checkout, with one job of as few rounds as there may be; and its file."""
    out = tmp_path_factory.mktemp('accelerators') / 'found.json'
    fast = {'FEDJAX_FAIR_JOBS': 'w1', 'FEDJAX_FAIR_SECONDS': '0', 'FEDJAX_FAIR_OUT': str(out)}
    return notebook_files.execute(notebook_files.read(NAME), PROJECT / 'notebooks', fast), out


def test_it_writes_and_shows_what_it_measured(executed):
    notebook, out = executed
    record = checked(json.loads(out.read_text()), out.name)
    assert cell(notebook, 'print(OUT').outputs[0]['text'] == out.read_text() + '\n'
    found = record['jobs']['w1']
    assert record['devices']['platform'] == 'cpu' and list(record['jobs']) == ['w1']
    assert found['rounds'] == 3 and found['spread']['clients_at_once'] == 1
    assert 0 < found['seconds_per_round']['min'] <= found['seconds_per_round']['median']
    *lines, shown = cell(notebook, 'display(Markdown').outputs
    progress = ''.join(line['text'] for line in lines)
    assert '[1/1] w1: MLP' in progress and 'x cpu; 1 at once on' in progress
    table = shown['data']['text/markdown']
    median = found['seconds_per_round']['median']
    assert f'| w1 | {record["devices"]["count"]} x cpu | {1 / median:.3g} |' in table
    assert '| w1 | 2 CPU cores, recorded |' in table


@pytest.fixture
def run_cells(monkeypatch, tmp_path):
    """Run the cells before the measurement in an empty folder; returns what programs they would have started."""
    asked: list[list[str]] = []
    monkeypatch.setattr(sys, 'path', list(sys.path))
    monkeypatch.chdir(tmp_path)

    def run(words, check):
        asked.append(words)
        if words[0] == 'git':
            pathlib.Path(words[-1]).mkdir()
            pathlib.Path(words[-1], 'pyproject.toml').write_text('name = "fedjax-fair"')

    def cells(**settings: str) -> list[list[str]]:
        for name, value in settings.items():
            monkeypatch.setenv(f'FEDJAX_FAIR_{name}', value)
        scope: dict = {}
        for text in (SETTINGS, CHECKOUT, INSTALL):
            exec(cell(notebook_files.read(NAME), text).source, scope)
        return asked

    monkeypatch.setattr(subprocess, 'run', run)
    return cells


def installs(wanted: str) -> list[str]:
    return [sys.executable, '-m', 'pip', 'install', '--quiet', '-e', wanted]


def test_nothing_is_done_where_the_package_is_installed_and_the_checkout_around(run_cells, monkeypatch):
    monkeypatch.chdir(PROJECT / 'notebooks')
    assert run_cells() == []


def test_outside_of_a_checkout_the_repository_is_asked_for(run_cells):
    with pytest.raises(ValueError, match='Set REPOSITORY above'):
        run_cells()


@pytest.mark.parametrize(
    'device,extra', [('/dev/nvidia0', '[gpu]'), ('/dev/accel0', '[tpu]'), ('/dev/vfio/0', '[tpu]'), ('', '')]
)
def test_elsewhere_it_is_cloned_and_installed_for_the_devices(run_cells, monkeypatch, tmp_path, device, extra):
    monkeypatch.setattr(importlib.metadata, 'distributions', lambda: [])
    found = device.rstrip('0')
    monkeypatch.setattr(glob, 'glob', lambda pattern: [device] if device and pattern == f'{found}[0-9]*' else [])
    clone = ['git', 'clone', '--quiet', '--depth=1', '--', 'https://a.example/b', 'fedjax_fair']
    expected = [clone, installs(f'{tmp_path / "fedjax_fair"}{extra}')]
    assert run_cells(REPOSITORY='https://a.example/b') == expected
    assert run_cells(REPOSITORY='https://a.example/b') == [*expected, expected[1]], 'the clone is there now'


def test_the_kind_of_device_may_be_set_by_hand(run_cells, monkeypatch):
    monkeypatch.chdir(PROJECT)
    assert run_cells(ACCELERATOR='tpu') == [installs(f'{PROJECT}[tpu]')]
