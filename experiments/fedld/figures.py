"""``python -m experiments.fedld.figures --figure=2``: the paper's Fig. 2; ``--preset`` and flags of a run apply.

Distribution-shift loss with and without margin control, and aggregation loss with and without principal aggregation of
plainly trained models, after one round from the start, against the Dirichlet concentration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from experiments.fedld.study import HERE, LAMBDAS, ran, without_alpha
from experiments.study import Cell, Study, main
from fedjax_fair.diagnostics import Decomposition, loss_decomposition
from fedjax_fair.training import prepare
from fedjax_fair.training.program import ORDER, key_of, make_lanes
from fedjax_fair.viz import style

ALPHAS = (100.0, 10.0, 1.0, 0.1, 0.01)
TERMS = ('local', 'shift', 'aggregation')
LOSSES = {'shift': 'shift_loss', 'aggregation': 'aggregation_loss'}  # absolute values: what the paper draws
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    'naive': ('fedavg', {}),
    'margin': ('margin', {'margin.lam': LAMBDAS['Split-3']}),
    'principal': ('principal', {}),
}


def after_one_round(study: Study, way: str, alpha: float) -> dict[str, Cell]:
    """:func:`over_seeds` of the terms after one round of all clients, with all other settings of the study."""
    recipe, hyper = WAYS[way]
    seeds = study.config.seeds
    # Seeds come one after another, so that the devices are the clients'.
    config = study.settings(f'{recipe}+keep_local_models', hyper, alpha=alpha, rounds=1, seeds=seeds[:1])
    experiment = prepare(config)
    algorithm, data = experiment.algorithm, experiment.federation

    @jax.jit
    def terms(state, cohort, key):
        after, _ = algorithm.round(state, cohort, key)
        return loss_decomposition(algorithm, after, cohort)

    everyone = data.cohort(range(data.num_clients))
    found = []
    for lane in (make_lanes(({},), (seed,)) for seed in seeds):
        start = jax.tree.map(lambda leaf: leaf[0], experiment.program.init(lane))
        found.append(jax.device_get(terms(start, everyone, key_of(lane.seed[0], ORDER))))
    return over_seeds(found)


def over_seeds(found: Sequence[Decomposition]) -> dict[str, Cell]:
    """Mean and std over seeds of the signed terms, and of the absolute values of shift and aggregation."""
    values = {name: np.array([getattr(one, name) for one in found], np.float64) for name in (*TERMS, *LOSSES.values())}
    return {name: (float(value.mean()), float(value.std())) for name, value in values.items()}


def figure2(study: Study) -> None:
    """Fig. 2; the paper gives no numbers for it."""
    study.out.mkdir(parents=True, exist_ok=True)
    data = {f'{alpha:g}': ran(study, alpha=alpha, rounds=1) for alpha in ALPHAS}  # mistakes show before any round
    found = {way: [after_one_round(study, way, alpha) for alpha in ALPHAS] for way in WAYS}
    lines = {
        'shift': {'naive': found['naive'], 'margin control': found['margin']},
        'aggregation': {'naive': found['naive'], 'principal': found['principal']},
    }
    draw(study, lines)
    names = (*TERMS, *LOSSES.values())
    rows = [
        [f'{alpha:g}', way, *(f'{one[name][0]:+.4f} ({one[name][1]:.4f})' for name in names)]
        for place, alpha in enumerate(ALPHAS)
        for way, one in ((way, found[way][place]) for way in WAYS)
    ]
    note = (
        f'One round, all clients; means over {len(study.config.seeds)} seeds (deviations). The first three terms are '
        'signed and sum to the loss of the global model; losses are the absolute values of the last two, taken for '
        'every seed, as the paper draws them. It prints no numbers: margin control is to lower the shift, principal '
        'aggregation (of plainly trained models) the aggregation loss.'
    )
    kept = {way: dict(zip(data, points, strict=True)) for way, points in found.items()}
    head = ['alpha', 'way', *(name.replace('_', ' ') for name in names)]
    study.table('figure2', head, rows, note, kept, data)


def draw(study: Study, lines: Mapping[str, Mapping[str, Sequence[Mapping[str, Cell]]]]) -> None:
    """A panel per term: absolute values against alpha, with their deviations over seeds."""
    with style.styled():
        figure, axes = style.grid(2, 2, (3.6, 2.8))
        for ax, (term, ways) in zip(axes, lines.items(), strict=True):
            for place, (label, points) in enumerate(ways.items()):
                height, spread = zip(*(one[LOSSES[term]] for one in points), strict=True)
                style.points(ax, range(len(ALPHAS)), height, spread, place, label=label)
            ax.set(title=f'{term} loss', xlabel='alpha')
            style.name_ticks(ax, ALPHAS)
            ax.legend()
        study.picture(figure, 'figure2')


FIGURES = {'2': figure2}

if __name__ == '__main__':
    main('figure', FIGURES, HERE, lambda study, figure: without_alpha(study))
