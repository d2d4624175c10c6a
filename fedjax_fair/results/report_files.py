"""Names of the files of a report: tables, a page, and figures that are named by their scenario."""

from __future__ import annotations

import pathlib
import re

from fedjax_fair.core.evaluate import MODEL_KINDS
from fedjax_fair.errors import UserError
from fedjax_fair.results.files import read_json

PAGE, TABLE = 'report.html', 'table.json'
REPORT_FILES = (PAGE, TABLE, 'table.md', 'table.tex', 'table.csv', 'frontier.md', 'frontier.png', 'tuning.md')
FEW_GROUPS = 3  # so many are named in the line of a recipe, and have a forest plot each
FORESTS = ('forest_avg', 'forest_spread', *(f'forest_site{number}' for number in range(FEW_GROUPS + 1)))
CLIENTS = ('clients', *(f'clients_{kind}' for kind in MODEL_KINDS))
FIGURES = (*FORESTS, 'plane', *CLIENTS, 'sites', 'classes', 'accuracy', 'loss')


def figure_file(scenario: str, figure: str) -> str:
    """The file of one figure.

    >>> figure_file('npz:my scans', 'loss')
    'npz_my_scans_loss.png'
    """
    stem = re.sub(r'[^A-Za-z0-9._-]+', '_', scenario).strip('._') or 'scenario'
    return f'{stem}_{figure}.png'


def report_files(folder: pathlib.Path) -> list[str]:
    """The names of all files of the report in a folder; its table names the scenarios."""
    try:
        scenarios = [str(one['scenario']) for one in read_json(folder / TABLE)['scenarios']]
    except (UserError, KeyError, TypeError):
        scenarios = []
    return [*REPORT_FILES, *(figure_file(scenario, figure) for scenario in scenarios for figure in FIGURES)]
