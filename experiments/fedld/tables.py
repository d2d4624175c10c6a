"""``python -m experiments.fedld.tables --table=1``: the paper's tables; ``--preset`` and flags of a run apply.

1 (three Dirichlet splits), sites (the last column of Table 1: the data's own sites), 2 (ablation), 3 (50 clients).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from experiments.fedld import published
from experiments.fedld.study import HALVES, HERE, MANY, RECIPES, by_sites, measured, note
from experiments.study import Cell, Study, cell, main, markdown


def both(found: Mapping[str, Cell]) -> str:
    """The global model's accuracy, and that of clients' own models where they have any."""
    own = f'; own {cell(found["own"])}' if 'own' in found else ''
    return cell(found['global']) + own


def show(
    study: Study,
    name: str,
    rows: Mapping[str, str],
    columns: Sequence[str],
    paper: Mapping[str, Sequence[float]],
    **changes,
) -> None:
    """Two lines per method, ours and the paper's, a column per split."""
    ours = {
        method: {column: measured(study, recipe, column, **changes) for column in columns}
        for method, recipe in rows.items()
    }
    lines = []
    for method in rows:
        lines.append([method, 'ours', *(both(ours[method][column]) for column in columns)])
        lines.append(['', 'paper', *(f'{value:.2f}' for value in paper[method])])
    study.write(name, [*markdown(['method', 'from', *columns], lines), '', note(study)], ours)


def splits(study: Study) -> None:
    """Table 1 without its last column."""
    show(study, 'table1', RECIPES, published.SPLITS, {m: row[:3] for m, row in published.TABLE1.items()})


def sites(study: Study) -> None:
    """The last column of Table 1."""
    paper = {method: row[3:] for method, row in published.TABLE1.items()}
    show(by_sites(study), 'table1_sites', RECIPES, (published.SITES,), paper)


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


TABLES: Mapping[str, Callable[[Study], None]] = {'1': splits, 'sites': sites, '2': ablation, '3': many}

if __name__ == '__main__':
    main(lambda study, table: TABLES[table](study), 'table', tuple(TABLES), HERE)
