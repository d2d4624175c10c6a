"""Notebooks are committed without outputs, and with cells that a reader can take in."""

import nbformat
import pytest
from notebook_files import NOTEBOOKS, read


@pytest.mark.parametrize('name', [path.name for path in NOTEBOOKS])
def test_committed_notebooks_are_clean(name):
    notebook = read(name)
    nbformat.validate(notebook)
    assert notebook.metadata == {'kernelspec': {'display_name': 'Python 3', 'language': 'python', 'name': 'python3'}}
    for cell in notebook.cells:
        assert cell.metadata == {}
        if cell.cell_type == 'code':
            assert cell.outputs == [] and cell.execution_count is None
            assert len(cell.source.splitlines()) <= 30
