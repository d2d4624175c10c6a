"""``python -m experiments.fedld.tables --table=1``: the paper's tables; ``--preset`` and flags of a run apply.

1 (three splits), printed (its second column with the concentration that the paper prints), sites (its last column: the
data's own sites), 2 (ablation), 3 (50 clients), decide (the claims about accuracy on a task with enough data).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments import evidence
from experiments.fedld import published
from experiments.fedld.study import (
    BY_SITE,
    CODE,
    FROZEN,
    HALVES,
    HERE,
    LENGTHS,
    MANY,
    MANY_GROUPED,
    MODELS,
    PAPER,
    PRINTED,
    SITES,
    SPLITS,
    UNEVEN,
    Column,
    Row,
    accuracies,
    by_sites,
    data_of,
    note,
    ran,
    without_alpha,
)
from experiments.study import Cell, Study, cell, main
from fedjax_fair.training.network import is_pretrained

PLAIN, RIVAL, LENGTH = 'FedAvg', 'FedGH', 'FedAvg, step x 1.2'
NEITHER = 'margin no, principal no'
ALL_METHODS = {**PAPER, **CODE, **FROZEN, **LENGTHS}
PARTS = {'margin alone': HALVES[True, False], 'principal alone': HALVES[False, True]}
Pairs = Mapping[str, tuple[str, Sequence[str]]]  # a baseline and methods, by what follows the column's name
AGAINST_PLAIN: Pairs = {'': (PLAIN, ())}  # all others


def both(found: Mapping[str, Cell]) -> str:
    """The global model's accuracy, that of clients' own models where they have any, and of each the mean of sites."""
    texts = []
    for model in MODELS:
        if model in found:
            beside = f', sites {cell(found[model + BY_SITE])}' if model + BY_SITE in found else ''
            texts.append(f'{"" if model == "global" else model + " "}{cell(found[model])}{beside}')
    return '; '.join(texts)


def show(
    study: Study,
    name: str,
    rows: Mapping[str, Row],
    columns: Mapping[str, Column],
    paper: Mapping[str, Sequence[float]],
    pairs: Pairs = AGAINST_PLAIN,
) -> None:
    """A line per method with ours, and one with the paper's where it has the method; a column per split.

    The paper's columns are the first ones; others are ours alone.
    Differences are those of ``pairs`` in every column.
    """
    data = data_of(study, columns)  # mistakes show before any run
    runs = {name: {method: ran(study, row, column) for method, row in rows.items()} for name, column in columns.items()}
    ours = {name: {method: accuracies(folder) for method, folder in each.items()} for name, each in runs.items()}
    lines = []
    for method in rows:
        lines.append([method, 'ours', *(both(each[method]) for each in ours.values())])
        if method in paper:
            values = [f'{value:.2f}' for value in paper[method]]
            lines.append(['', 'paper', *values, *[''] * (len(columns) - len(values))])
    found = {
        f'{column}{words}': compared(each, baseline, methods)
        for column, each in runs.items()
        for words, (baseline, methods) in pairs.items()
    }
    study.table(name, ['method', 'from', *columns], lines, note(study, columns), ours, data, found)


def compared(runs: Mapping[str, Any], baseline: str, methods: Sequence[str]) -> dict[str, Any]:
    """Evidence about the accuracy of some methods, or of all, beside a baseline."""
    chosen = {name: runs[name] for name in (baseline, *methods)} if methods else runs
    return evidence.of_runs(chosen, baseline, ('avg',))


def splits(study: Study) -> None:
    """Table 1 without its last column."""
    show(study, 'table1', ALL_METHODS, SPLITS, {m: row[:3] for m, row in published.TABLE1.items()})


def printed(study: Study) -> None:
    """The second column of Table 1 with the concentration that the paper prints."""
    show(study, 'table1_printed', PAPER, PRINTED, {m: row[1:2] for m, row in published.TABLE1.items()})


def sites(study: Study) -> None:
    """The last column of Table 1, of a study by sites."""
    show(study, 'table1_sites', {**PAPER, **CODE}, SITES, {m: row[3:] for m, row in published.TABLE1.items()})


def ablation(study: Study) -> None:
    """Table 2: margin control and principal aggregation alone and together, as published and as the code has them."""
    names = {half: f'margin {"yes" if half[0] else "no"}, principal {"yes" if half[1] else "no"}' for half in HALVES}
    rows = {names[half]: row for half, row in HALVES.items()}
    others = {'FedLD, code': CODE['FedLD, code'], **FROZEN, **LENGTHS}
    paper = {names[half]: row for half, row in published.TABLE2.items()}
    show(study, 'table2', {**rows, **others}, SPLITS, paper, {'': (NEITHER, ())})


def many(study: Study) -> None:
    """Table 3: 50 clients, a tenth of them in every round; also with group norm, but not from pretrained weights."""
    columns = MANY if is_pretrained(study.config) else MANY | MANY_GROUPED
    show(study, 'table3', {**PAPER, **CODE}, columns, {method: (value,) for method, value in published.TABLE3.items()})


def decide(study: Study) -> None:
    """Whether FedLD and its parts are ahead, in both readings, and of more than a step of another length."""
    chosen = {name: ALL_METHODS[name] for name in ('FedAvg', 'FedGH', 'FedLD', *CODE, *LENGTHS)}
    pairs = {
        **AGAINST_PLAIN,
        f', beside {RIVAL}': (RIVAL, ('FedLD',)),
        f', beside {LENGTH}': (LENGTH, ('principal alone', 'FedLD')),
    }
    show(study, 'decide', {**chosen, **PARTS}, UNEVEN, {}, pairs)


TABLES: Mapping[str, Callable[[Study], None]] = {
    '1': splits,
    'printed': printed,
    'sites': sites,
    '2': ablation,
    '3': many,
    'decide': decide,
}
PRESETS = {'decide': None}  # not at every size: it is about the data of one preset


def arranged(study: Study, table: str) -> Study:
    """The study on the data of a table."""
    study = without_alpha(study)
    return by_sites(study) if table == 'sites' else study


if __name__ == '__main__':
    main('table', TABLES, HERE, arranged)
