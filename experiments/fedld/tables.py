"""``python -m experiments.fedld.tables --table=1``: the paper's tables; ``--preset`` and flags of a run apply.

1 (three Dirichlet splits), printed (its second column with the concentration that the paper prints), sites (its last
column: the data's own sites), 2 (ablation), 3 (50 clients).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from experiments.fedld import published
from experiments.fedld.study import (
    BY_SITE,
    HALVES,
    HERE,
    LAMBDAS,
    MANY,
    MODELS,
    RECIPES,
    by_sites,
    measured,
    note,
    of_place,
    ran,
    without_alpha,
)
from experiments.study import Cell, Study, cell, main


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
    rows: Mapping[str, str],
    columns: Sequence[str],
    paper: Mapping[str, Sequence[float]],
    **changes,
) -> None:
    """Two lines per method, ours and the paper's, a column per split."""
    data = {  # mistakes show before any run
        column: {'lam': LAMBDAS[column], **ran(study, **changes, **of_place(column))} for column in columns
    }
    ours = {
        column: {method: measured(study, recipe, column, **changes) for method, recipe in rows.items()}
        for column in columns
    }
    lines = []
    for method in rows:
        lines.append([method, 'ours', *(both(ours[column][method]) for column in columns)])
        lines.append(['', 'paper', *(f'{value:.2f}' for value in paper[method])])
    study.table(name, ['method', 'from', *columns], lines, note(study), ours, data)


def splits(study: Study) -> None:
    """Table 1 without its last column."""
    show(study, 'table1', RECIPES, published.SPLITS, {m: row[:3] for m, row in published.TABLE1.items()})


def printed(study: Study) -> None:
    """The second column of Table 1 with the concentration that the paper prints."""
    paper = {method: row[1:2] for method, row in published.TABLE1.items()}
    show(study, 'table1_printed', RECIPES, (published.PRINTED,), paper)


def sites(study: Study) -> None:
    """The last column of Table 1, of a study by sites."""
    show(study, 'table1_sites', RECIPES, (published.SITES,), {m: row[3:] for m, row in published.TABLE1.items()})


def ablation(study: Study) -> None:
    """Table 2: margin control and principal aggregation alone and together."""
    named = {
        f'margin {"yes" if margin else "no"}, principal {"yes" if principal else "no"}': (margin, principal)
        for margin, principal in HALVES
    }
    rows = {name: HALVES[half] for name, half in named.items()}
    show(study, 'table2', rows, published.SPLITS, {name: published.TABLE2[half] for name, half in named.items()})


def many(study: Study) -> None:
    """Table 3: 50 clients, a tenth of them in every round."""
    paper = {method: (value,) for method, value in published.TABLE3.items()}
    show(study, 'table3', RECIPES, published.SPLITS[-1:], paper, **MANY)


TABLES: Mapping[str, Callable[[Study], None]] = {
    '1': splits,
    'printed': printed,
    'sites': sites,
    '2': ablation,
    '3': many,
}


def arranged(study: Study, table: str) -> Study:
    """The study on the data of a table."""
    study = without_alpha(study)
    return by_sites(study) if table == 'sites' else study


if __name__ == '__main__':
    main('table', TABLES, HERE, arranged)
