"""``python -m experiments.fedheal.tables --table=2``: the paper's tables; ``--preset`` and flags of a run apply.

``--table=2short`` are some rows of Table 2. ``decide`` and ``norms`` are not in the paper: they try its claims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from experiments.evidence import scored_by
from experiments.fedheal import published
from experiments.fedheal.study import (
    ALONE,
    FEDAVG,
    FEDHEAL,
    HERE,
    MASKED,
    METHODS,
    NORMALISED,
    PRINTED,
    RESTARTED,
    UNIFORM,
    Method,
    columns,
    data_set,
    domains,
    folder_of,
    in_our_order,
    over_domains,
    run_of,
    scores,
    weights_by_beta,
    why_not_comparable,
)
from experiments.study import Cell, Evidence, Study, cell, main
from fedjax_fair.errors import UserError


def write(
    study: Study,
    name: str,
    first: str,
    rows: list[list[str]],
    numbers: Any,
    note: str = '',
    evidence: Evidence = MappingProxyType({}),
) -> None:
    """A table with a column per domain, its numbers, why they are not the paper's, and its evidence."""
    head = [first, 'from', *columns(study), 'AVG', 'STD']
    study.table(name, head, rows, note + why_not_comparable(study), numbers, evidence=evidence)


def beside(study: Study, label: str, ours: Sequence[Cell], paper: published.Row | None) -> list[list[str]]:
    """Our row, and the paper's where it has one."""
    theirs = [] if paper is None else [['', 'paper', *in_our_order(study, paper)]]
    return [[label, 'ours', *(cell(value) for value in ours)], *theirs]


def show(
    study: Study,
    name: str,
    methods: Mapping[str, Method],
    baselines: Mapping[str, Sequence[str]],
    note: str = '',
    watched: bool = False,
) -> None:
    """A row for every method beside the paper's; ``baselines`` with the methods that each is compared with."""
    folders = {label: run_of(study, method, watched) for label, method in methods.items()}
    published_rows = published.rows_of(data_set(study))
    ours, rows = {}, []
    for label, method in methods.items():
        ours[label] = scores(folders[label], method.kind)
        rows += beside(study, label, ours[label], published_rows[method.paper] if method.paper else None)
    runs = {label: scored_by(folder, methods[label].kind) for label, folder in folders.items()}
    evidence = {f'beside {base}': over_domains(study, runs, base, names) for base, names in baselines.items()}
    write(study, name, 'method', rows, ours, note, evidence)


def compatibility(study: Study, name: str = 'table2', chosen: Sequence[str] = tuple(METHODS)) -> None:
    """Table 2: seven bases, alone and with AFL, q-FFL and FedHEAL, then what these may mean; or the rows chosen."""
    show(study, name, {label: METHODS[label] for label in METHODS if label in chosen}, {FEDAVG: ()})


def independent(study: Study) -> None:
    """Table 3: Ditto in three readings, FedFV and FedHEAL."""
    if 'ditto.aggregate' in study.config.hyper:
        raise UserError(f'`ditto.aggregate`={study.config.hyper["ditto.aggregate"]}: Table 3 shows all readings of it')
    note = 'Personal models are scored on the domain of their client, and averaged over the clients of a domain. '
    show(study, 'table3', ALONE, {'FedHEAL': ()}, note)


def momentum(study: Study) -> None:
    """Table 4: the client weights alone, by beta; one program for all values and seeds. The paper has it of Digits."""
    folders = {str(beta): folder for beta, folder in zip(published.TABLE4, weights_by_beta(study), strict=True)}
    found, rows = {label: scores(folder) for label, folder in folders.items()}, []
    for label, published_row in zip(found, published.TABLE4.values(), strict=True):
        paper = (*[published.UNREADABLE] * len(domains(study)), *published_row)
        rows += beside(study, label, found[label], paper if data_set(study) == published.DIGITS else None)
    note = 'Client weights without parameter masks, from weights by examples: beta = 0 is FedAvg. '
    write(study, 'table4', 'beta', rows, found, note, {'beside beta = 0': over_domains(study, folders, '0.0')})


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
    evidence = {'beside neither': over_domains(study, folders, 'neither')}
    write(study, 'table5', 'parts', rows, ours, evidence=evidence)


DECIDING = (FEDAVG, UNIFORM, FEDHEAL, PRINTED, MASKED, RESTARTED, NORMALISED)


def deciding(study: Study) -> None:
    """FedHEAL beside FedAvg, beside equal weights, which need no method at all, and beside its rivals."""
    baselines = {FEDAVG: (), UNIFORM: (FEDHEAL, PRINTED), FEDHEAL: (RESTARTED, NORMALISED)}
    show(study, 'decide', {label: METHODS[label] for label in DECIDING}, baselines, watched=True)


def norms(study: Study) -> None:
    """FedAvg, equal weights and FedHEAL with group norm; FedAvg and FedHEAL with batch norm, which is masked too."""
    batch = {f'{label}, batch norm': METHODS[label]._replace(changes={'norm': 'batch'}) for label in (FEDAVG, FEDHEAL)}
    own = {label: METHODS[label] for label in (FEDAVG, UNIFORM, FEDHEAL)}
    first, second = batch
    baselines = {FEDAVG: (UNIFORM, FEDHEAL), UNIFORM: (FEDHEAL,), first: (second,)}
    show(study, 'norms', own | batch, baselines)


SHORT = (*DECIDING, 'FedAvg+AFL', 'FedAvg+q-FFL', 'FedProto', 'FedProto+FedHEAL')
TABLES = {
    '2': compatibility,
    '2short': lambda study: compatibility(study, 'table2short', SHORT),
    '3': independent,
    '4': momentum,
    '5': ablation,
    'decide': deciding,
    'norms': norms,
}

if __name__ == '__main__':
    main('table', TABLES, HERE)
