"""``python -m experiments.fedism.tables --table=1``: the paper's tables; ``--preset`` and flags of a run apply."""

from __future__ import annotations

import jax
import numpy as np

from experiments.fedism import published
from experiments.fedism.study import ABLATION, COLUMNS, HERE, METHODS, SALTED, scores_of, why_not_comparable
from experiments.study import Cell, Study, cell, main
from fedjax_fair.methods.fedism import client_sharpness
from fedjax_fair.training import finished

RHO = 0.05


def place(study: Study) -> str:
    """The data set of the paper whose place ours takes."""
    return published.ISIC if 'digits' in study.config.scenario else published.ICH


def comparison(study: Study, name: str, paper: dict[str, dict[str, published.Row]], **changes) -> None:
    """Seven methods: Tables 1 and 8."""
    where = place(study)
    ours = {method: scores_of(study, recipe, **changes) for method, recipe in METHODS.items()}
    rows = []
    for method, found in ours.items():
        rows.append([method, 'ours', *(cell(found[column]) for column in COLUMNS)])
        rows.append(['', f'paper, {where}', *map(cell, paper[where][method])])
    study.table(name, ['method', 'from', *COLUMNS], rows, why_not_comparable(study), ours)


def ablation(study: Study, name: str, ratio: float) -> None:
    """SALT and SAGA alone and together, with differences to FedAvg: Tables 2, 5 and 6."""
    ours = {method: scores_of(study, recipe, **with_ratio(study, ratio)) for method, recipe in ABLATION.items()}
    paper = {method: dict(zip(COLUMNS, published.RATIOS[ratio][method], strict=True)) for method in ABLATION}
    rows = []
    for method in ABLATION:
        for origin, found in (('ours', ours), ('paper, ICH', paper)):
            cells = [text for column in COLUMNS for text in _with_difference(found, method, 'FedAvg', column)]
            rows.append([method if origin == 'ours' else '', origin, *cells])
    head = ['method', 'from', *(text for column in COLUMNS for text in (column, 'Δ'))]
    study.table(name, head, rows, why_not_comparable(study), ours)


def with_ratio(study: Study, ratio: float) -> dict[str, float]:
    """Nothing changes where the ratio is that of the other tables, so that their runs are found again."""
    return {} if ratio == study.config.data.get('corrupted_ratio', 0.2) else {'corrupted_ratio': ratio}


def _with_difference(found: dict[str, dict[str, Cell]], method: str, base: str, column: str) -> tuple[str, str]:
    gain = found[method][column][0] - found[base][column][0]
    return cell(found[method][column]), '' if method == base else f'{gain:+.2f}'


def salted(study: Study, name: str) -> None:
    """Every baseline with SALT, corrupted images: Table 3."""
    columns = [column for column in COLUMNS if column.startswith('corrupted')]
    ours, rows = {}, []
    for method in SALTED:
        plain, flat = scores_of(study, METHODS[method]), scores_of(study, SALTED[method])
        ours[method] = {column: {'plain': plain[column], 'salt': flat[column]} for column in columns}
        before, after = published.NOISE[published.ICH][method][2:4], published.SALT[method]
        for origin, pairs in (
            ('ours', [(plain[c], flat[c]) for c in columns]),
            ('paper, ICH', list(zip(before, after, strict=True))),
        ):
            cells = [text for old, new in pairs for text in (cell(old), cell(new), f'{new[0] - old[0]:+.2f}')]
            rows.append([method if origin == 'ours' else '', origin, *cells])
    head = ['method', 'from', *(text for column in columns for text in (column, '+ SALT', 'Δ'))]
    study.table(name, head, rows, why_not_comparable(study), ours)


def sharpness_of_clients(folder) -> np.ndarray:
    """``[seeds, clients]``: the sharpness of every client's training loss at the last global model."""
    experiment, states = finished(folder)
    cohort = experiment.federation.cohort(range(experiment.federation.num_clients))

    def of_seed(state):
        return experiment.algorithm.measure(state, cohort, lambda ctx: client_sharpness(ctx, ctx.variables, RHO))

    return np.asarray(jax.jit(lambda s: jax.lax.map(of_seed, s))(states))


def sharpness(study: Study, name: str) -> None:
    """Mean and std of the sharpness over clients: Table 7."""
    ours, rows = {}, []
    for method, recipe in (METHODS | ABLATION).items():
        values = sharpness_of_clients(study.run(recipe)[0])
        ours[method] = {'mean': values.mean(1).tolist(), 'std': values.std(1).tolist(), 'clients': values.tolist()}
        paper = published.SHARPNESS.get(method)
        shown = ['', ''] if paper is None else [f'{number:.5f}' for number in paper]
        rows.append([method, *(f'{np.mean(ours[method][what]):.5f}' for what in ('mean', 'std')), *shown])
    head = ['method', 'mean', 'std', 'paper: mean', 'paper: std']
    note = f'At the last global model, rho = {RHO} (the paper does not give its own); means over seeds. '
    study.table(name, head, rows, note + why_not_comparable(study), ours)


TABLES = {
    '1': lambda study: comparison(study, 'table1', published.NOISE),
    '2': lambda study: ablation(study, 'table2', 0.2),
    '3': lambda study: salted(study, 'table3'),
    '5': lambda study: ablation(study, 'table5', 0.3),
    '6': lambda study: ablation(study, 'table6', 0.1),
    '7': lambda study: sharpness(study, 'table7'),
    '8': lambda study: comparison(study, 'table8', published.BLUR, corruption='motion_blur', severity=1),
}

if __name__ == '__main__':
    main('table', TABLES, HERE)
