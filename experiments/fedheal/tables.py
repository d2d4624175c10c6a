"""``python -m experiments.fedheal.tables --table=2``: the paper's tables; ``--preset`` and flags of a run apply.

``--table=2short`` are six rows of Table 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.fedheal import published
from experiments.fedheal.study import (
    ALONE,
    BASES,
    HERE,
    PLUGINS,
    alone,
    bases,
    columns,
    data_set,
    domains,
    folder_of,
    in_our_order,
    scores,
    weights_by_beta,
    why_not_comparable,
)
from experiments.study import Cell, Study, cell, main
from fedjax_fair.errors import UserError


def write(study: Study, name: str, first: str, rows: list[list[str]], numbers: Any, note: str = '') -> None:
    """A table with a column per domain, its numbers, and why they are not the paper's."""
    head = [first, 'from', *columns(study), 'AVG', 'STD']
    study.table(name, head, rows, note + why_not_comparable(study), numbers)


def beside(study: Study, label: str, ours: Sequence[Cell] | None, paper: published.Row | None) -> list[list[str]]:
    """Our row, or that there is none, and the paper's where it has one."""
    shown = ['not run', *[''] * (len(columns(study)) + 1)] if ours is None else [cell(value) for value in ours]
    theirs = [] if paper is None else [['', 'paper', *in_our_order(study, paper)]]
    return [[label, 'ours', *shown], *theirs]


def compatibility(study: Study, name: str = 'table2', chosen: Sequence[str] = ()) -> None:
    """Table 2: seven bases, alone and with AFL, q-FFL and FedHEAL; or the rows chosen."""
    paper, ours, rows = published.TABLE2[data_set(study)], {}, []
    for base in BASES:
        for (plugin, joined), row in zip(PLUGINS.items(), paper[base], strict=True):
            found = None
            if chosen and base + plugin not in chosen:
                continue
            if base in bases():
                found = ours[base + plugin] = scores(folder_of(study, bases()[base] + joined))
            rows += beside(study, base + plugin, found, row)
    write(study, name, 'method', rows, ours)


def independent(study: Study) -> None:
    """Table 3: Ditto in three readings, FedFV and FedHEAL."""
    if 'ditto.aggregate' in study.config.hyper:
        raise UserError(f'`ditto.aggregate`={study.config.hyper["ditto.aggregate"]}: Table 3 shows all readings of it')
    paper, ours, rows = published.TABLE3[data_set(study)], {}, []
    for name, method in ALONE.items():
        ours[name] = scores(alone(study, name), method.kind)
        rows += beside(study, name, ours[name], paper[method.paper] if method.paper else None)
    note = 'Personal models are scored on the domain of their client, and averaged over the clients of a domain. '
    write(study, 'table3', 'method', rows, ours, note)


def momentum(study: Study) -> None:
    """Table 4: the client weights alone, by beta; one program for all values and seeds. The paper has it of Digits."""
    found = {beta: scores(f) for beta, f in zip(published.TABLE4, weights_by_beta(study), strict=True)}
    rows = []
    for beta, published_row in published.TABLE4.items():
        paper = (*[published.UNREADABLE] * len(domains(study)), *published_row)
        rows += beside(study, f'{beta:g}', found[beta], paper if data_set(study) == published.DIGITS else None)
    note = 'Client weights without parameter masks, from weights by examples: beta = 0 is FedAvg. '
    write(study, 'table4', 'beta', rows, {str(beta): one for beta, one in found.items()}, note)


def ablation(study: Study) -> None:
    """Table 5: parameter masks (FPHL) and client weights (FAEL), alone and together."""
    weights = dict(zip(published.TABLE4, weights_by_beta(study), strict=True))
    folders = {
        'neither': folder_of(study, 'fedavg'),
        'FPHL': folder_of(study, 'fphl'),
        'FAEL': weights[0.4],
        'both': folder_of(study, 'fedavg+fedheal'),
    }
    paper, ours, rows = published.TABLE5[data_set(study)], {}, []
    for parts, folder in folders.items():
        ours[parts] = scores(folder)
        rows += beside(study, parts, ours[parts], paper[parts])
    write(study, 'table5', 'parts', rows, ours)


SHORT = ('FedAvg', 'FedAvg+AFL', 'FedAvg+q-FFL', 'FedAvg+FedHEAL', 'FedProto', 'FedProto+FedHEAL')
TABLES = {
    '2': compatibility,
    '2short': lambda study: compatibility(study, 'table2short', SHORT),
    '3': independent,
    '4': momentum,
    '5': ablation,
}

if __name__ == '__main__':
    main('table', TABLES, HERE)
