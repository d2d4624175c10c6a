"""``python -m experiments.harmofl.tables --table=2``: the paper's tables; ``--preset`` and flags of a run apply.

1 is segmentation (``--preset=smoke_segmentation``, ``paper_segmentation``, ``paper_prostate``), 2 classification
(``smoke``, ``paper``). Two tables are our own, for either task (``decide``, ``decide_segmentation``). ``causes``: what
of HarmoFL's gain is due to its network, to amplitude normalisation and to weight perturbation. ``bands``: which
frequencies amplitude normalisation should replace.
"""

from __future__ import annotations

import functools
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.evidence import of_runs, of_values
from experiments.harmofl import published
from experiments.harmofl.study import (
    BANDS,
    CAUSES,
    HERE,
    MEASURES,
    METHODS,
    NETWORK,
    Methods,
    by_seed,
    folder_of,
    folders_of,
    foreground,
    need,
    scores,
    tested_on_one,
    why_not_comparable,
)
from experiments.study import Study, cell, main
from fedjax_fair import results

Folders = Mapping[str, pathlib.Path]  # runs by the name of the method
PRESETS = {'1': '{}_segmentation'}  # of tables that do not have the usual one
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
    note, head = why_not_comparable(study, PAPER[table]), ['method', 'from', *columns]
    study.table(f'table{table}', head, rows, note, ours, evidence=against(folders, ('FedAvg',)))


def _fitted(row: published.Row, clients: int) -> list[str]:
    """The paper's cells; its clients are left out where ours are not as many."""
    *each, average = ['?' if math.isnan(value[0]) else cell(value) for value in row]
    return [*(each if len(each) == clients else [''] * clients), average]


def against(folders: Folders, baselines: Sequence[str]) -> dict[str, Any]:
    """Evidence on the clients' scores, one entry for every baseline."""
    make = of_seeds if tested_on_one(folders[baselines[0]]) else functools.partial(of_runs, keys=tuple(MEASURES))
    return {f'against {one}': make(folders, baseline=one) for one in baselines}


def of_seeds(folders: Folders, baseline: str) -> dict[str, Any]:
    """Evidence that keeps clients of a single test patient, who say nothing about other patients: that of seeds."""
    each = {name: by_seed(folder) for name, folder in folders.items()}
    statistics = {
        'avg': lambda v: v.mean(1),
        'spread': lambda v: v.std(1, ddof=1),
        'worst': lambda v: v.min(1),
    }
    values = {key: {name: of(v).tolist() for name, v in each.items()} for key, of in statistics.items()}
    note = 'some clients are tested on a single patient: the differences are those on these patients'
    seeds = results.summary(folders[baseline])['seeds']
    return of_values(values, baseline, MEASURES, ['spread'], seeds=seeds, notes=[note])


def compare(study: Study, name: str, methods: Methods, baselines: Sequence[str]) -> None:
    """Some methods client by client, without the paper's rows, and their differences with the baselines."""
    folders = folders_of(study, methods)
    found = {method: scores(folder) for method, folder in folders.items()}
    columns = (*next(iter(found.values()))[0], 'Avg.')
    numbers = {method: dict(zip(columns, cells, strict=True)) for method, (_, cells) in found.items()}
    rows = [[method, *map(cell, cells)] for method, (_, cells) in found.items()]
    note = f'{study.ours()} (deviation over them in brackets; in the column Avg. that over clients).'
    study.table(name, ['method', *columns], rows, note, numbers, evidence=against(folders, baselines))


TABLES = {table: functools.partial(show, table=table) for table in TASKS} | {
    'causes': functools.partial(compare, name='causes', methods=CAUSES, baselines=('FedAvg', 'FedBN', NETWORK)),
    'bands': functools.partial(compare, name='bands', methods=BANDS, baselines=(NETWORK,)),
}

if __name__ == '__main__':
    main('table', TABLES, HERE)
