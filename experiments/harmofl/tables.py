"""``python -m experiments.harmofl.tables --table=2``: the paper's tables; ``--preset`` and flags of a run apply.

1 is segmentation (``--preset=smoke_segmentation`` or ``paper_segmentation``), 2 classification (``smoke``, ``paper``).
"""

from __future__ import annotations

import functools
import math

from experiments.harmofl import published
from experiments.harmofl.study import HERE, METHODS, folder_of, foreground, need, scores, why_not_comparable
from experiments.study import Study, cell, main

TASKS = {'1': 'segmentation', '2': 'classification'}
PAPER = {
    '1': 'nuclei of six sources with a U-Net and 500 rounds (Dice), prostates of six sources',
    '2': 'Camelyon17, 96x96 patches of five hospitals with a DenseNet-121 and 100 rounds (accuracy)',
}


def show(study: Study, table: str) -> None:
    """Every method and both readings of HarmoFL, client by client, beside the paper's rows."""
    need(study, TASKS[table], f'`table`={table}')
    folders = {method: folder_of(study, method) for method in METHODS}
    names, _ = scores(folders['FedAvg'])
    more = {'foreground': foreground} if TASKS[table] == 'segmentation' else {}
    columns = (*names, 'Avg.', *more)
    ours, rows = {}, []
    for method, folder in folders.items():
        cells = [*scores(folder)[1], *(measured(folder) for measured in more.values())]
        ours[method] = dict(zip(columns, cells, strict=True))
        rows.append([method, 'ours', *map(cell, cells)])
        for where, paper in published.TABLES[table].items():
            if method in paper:
                rows.append(['', f'paper, {where}', *_fitted(paper[method], len(names)), *[''] * len(more)])
    note = why_not_comparable(study, PAPER[table])
    study.table(f'table{table}', ['method', 'from', *columns], rows, note, ours)


def _fitted(row: published.Row, clients: int) -> list[str]:
    """The paper's cells; its clients are left out where ours are not as many."""
    *each, average = ['?' if math.isnan(value[0]) else cell(value) for value in row]
    return [*(each if len(each) == clients else [''] * clients), average]


TABLES = {table: functools.partial(show, table=table) for table in TASKS}

if __name__ == '__main__':
    main('table', TABLES, HERE)
