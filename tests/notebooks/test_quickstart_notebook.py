"""The quickstart notebook: it installs only what is missing, and computes what its text says."""

from __future__ import annotations

import base64
import json
import math
import pathlib
import subprocess
import sys

import nbformat
import notebook_files
import pytest
from notebook_files import PROJECT

pytestmark = pytest.mark.xdist_group('quickstart_notebook')  # one worker, so that the notebook runs once

RECIPES = ['fedavg', 'fedprox', 'scaffold', 'qfedavg', 'fedadam']
FAST = {
    'FEDJAX_FAIR_ROUNDS': '2',
    'FEDJAX_FAIR_SEEDS': '0',
    'FEDJAX_FAIR_CLIENT_SIZES': '6,4,8,5',
    'FEDJAX_FAIR_CLIENTS_PER_DOMAIN': '1',
    'FEDJAX_FAIR_MODEL': 'logreg',
    'FEDJAX_FAIR_NORM': '',
    'XLA_FLAGS': '--xla_backend_optimization_level=1 --xla_llvm_disable_expensive_passes=true',
    'JAX_NUMPY_DTYPE_PROMOTION': 'strict',
    'JAX_NUMPY_RANK_PROMOTION': 'raise',
    'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0.2',
}
FACTS = """
import json
print(json.dumps({
    'sizes': federation.sizes.tolist(),
    'rounds': [sorted({line['round'] for line in run.history}) for run in runs],
    'columns': [column.name for column in table.columns],
    'rows': {row.label: [cell.value if cell.raw is None else cell.raw for cell in row.cells] for row in table.rows},
    'own': own,
    'largest_gap': largest_gap,
    'installed': 'checkout' in globals(),
}))
"""


def read() -> nbformat.NotebookNode:
    return notebook_files.read('01_quickstart.ipynb')


@pytest.fixture(scope='module')
def executed(tmp_path_factory) -> nbformat.NotebookNode:
    """The notebook after a fast run in an empty folder, with a cell at the end that prints what it computed."""
    notebook = read()
    notebook.cells.append(nbformat.v4.new_code_cell(FACTS))
    folder = tmp_path_factory.mktemp('quickstart')
    # Recipes that evaluate alike compile to the same program: with a cache it is compiled once.
    own = {'TMPDIR': str(folder), 'JAX_COMPILATION_CACHE_DIR': str(folder / 'cache')}
    return notebook_files.execute(notebook, folder, FAST | own)


@pytest.fixture(scope='module')
def facts(executed) -> dict:
    return json.loads(executed.cells[-1].outputs[0]['text'])


def outputs(executed, text: str) -> list:
    """The outputs of the one code cell that holds ``text``."""
    return notebook_files.cell(executed, text).outputs


@pytest.fixture
def installs(monkeypatch):
    """Run the first code cell with pip replaced by a list of what it was asked for."""
    asked: list[list[str]] = []
    monkeypatch.setattr(subprocess, 'run', lambda words, check: asked.append(words))
    monkeypatch.setattr(sys, 'path', list(sys.path))

    def run_cell(folder: pathlib.Path) -> list[list[str]]:
        monkeypatch.chdir(folder)
        exec(next(cell.source for cell in read().cells if cell.cell_type == 'code'), {})
        return asked

    return run_cell


def test_nothing_is_installed_where_the_package_imports(installs):
    assert installs(PROJECT / 'notebooks') == []


def test_a_checkout_is_installed_from_any_folder_inside(installs, monkeypatch):
    monkeypatch.setitem(sys.modules, 'fedjax_fair.core', None)
    assert installs(PROJECT / 'notebooks') == [
        [sys.executable, '-m', 'pip', 'install', '--quiet', '-e', str(PROJECT)],
    ]
    assert sys.path[0] == str(PROJECT)


def test_a_wheel_is_installed_anywhere_else(installs, monkeypatch, tmp_path):
    (tmp_path / 'pyproject.toml').write_text('[project]\nname = "another"\n')
    monkeypatch.setitem(sys.modules, 'fedjax_fair.core', None)
    before = list(sys.path)
    with pytest.raises(ImportError, match='the wheel of fedjax-fair'):
        installs(tmp_path)
    wheel = tmp_path / 'fedjax_fair-0.1.0-py3-none-any.whl'
    wheel.touch()
    assert installs(tmp_path) == [[sys.executable, '-m', 'pip', 'install', '--quiet', str(wheel)]]
    assert sys.path == before


def test_settings_come_from_the_environment(executed, facts):
    assert sorted(facts['sizes']) == [4, 5, 6, 8]
    assert facts['rounds'] == [[1, 2]] * len(RECIPES)
    assert not facts['installed']
    assert 'device(s)' in outputs(executed, 'use_host_devices')[0]['text']


def test_table_compares_all_recipes(executed, facts):
    assert list(facts['rows']) == RECIPES
    assert facts['columns'][:5] == ['AVG', 'spread', 'worst', 'AVG vs fedavg', 'spread vs fedavg']
    for average, deviation, worst, _, _, *domains in (row[:9] for row in facts['rows'].values()):
        assert all(math.isfinite(value) and 0 <= value <= 100 for value in (average, deviation, worst))
        assert average == pytest.approx(sum(domains) / 4) and worst <= min(domains) + 1e-9
    shown = outputs(executed, 'to_markdown(table)')[0]['data']['text/markdown']
    assert all(f'| {recipe} |' in shown for recipe in RECIPES)


@pytest.mark.parametrize(
    'cell',
    ['contact_sheet(federation, OUT', 'draw_partition(federation, OUT', 'accuracy_over_rounds(runs)',
     'client_distribution(runs)', 'fairness_plane(runs)'],
)  # fmt: skip
def test_figures_are_shown(executed, cell):
    (output,) = outputs(executed, cell)
    png = base64.b64decode(output['data']['image/png'])
    assert png.startswith(b'\x89PNG') and len(png) > 5000
    width, height = (int.from_bytes(png[at : at + 4], 'big') for at in (16, 20))
    assert width > 500 and height > 150


def test_own_method_serves_the_worst_client_better(facts):
    assert list(facts['own']) == ['fedavg', 'worst_first', 'worst_first+fedprox']
    assert all(len(values) == 4 for values in facts['own'].values())
    assert min(facts['own']['worst_first']) > min(facts['own']['fedavg'])
    assert min(facts['own']['worst_first+fedprox']) > min(facts['own']['fedavg'])


def test_own_method_is_the_uniform_mean_at_a_huge_temperature(executed, facts):
    assert 0 <= facts['largest_gap'] < 1e-5
    assert 'largest difference' in outputs(executed, 'largest_gap =')[0]['text']
