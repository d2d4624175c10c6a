"""The notebooks of the project: reading them, and running them as a user would."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping

import nbclient
import nbformat

PROJECT = pathlib.Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((PROJECT / 'notebooks').glob('*.ipynb'))


def read(name: str) -> nbformat.NotebookNode:
    """A notebook as it is committed."""
    return nbformat.read(PROJECT / 'notebooks' / name, as_version=4)


def cell(notebook: nbformat.NotebookNode, text: str) -> nbformat.NotebookNode:
    """The one code cell that holds ``text``."""
    (found,) = (one for one in notebook.cells if one.cell_type == 'code' and text in one.source)
    return found


def execute(
    notebook: nbformat.NotebookNode, folder: pathlib.Path, settings: Mapping[str, str]
) -> nbformat.NotebookNode:
    """The notebook after its run in a folder; an attempt to install anything fails."""
    resources = {'metadata': {'path': str(folder)}}
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name='python3', resources=resources)
    return client.execute(env={**os.environ, 'PIP_NO_INDEX': '1', **settings})
