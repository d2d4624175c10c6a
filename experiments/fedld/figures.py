"""``python -m experiments.fedld.figures --figure=2``: the paper's Fig. 2; ``--preset`` and flags of a run apply.

Distribution-shift loss with and without margin control, and aggregation loss with and without principal aggregation of
plainly trained models, after one round from the start, against the Dirichlet concentration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import numpy as np

from experiments.fedld.study import HERE, LAMBDAS
from experiments.study import Cell, Study, main, markdown
from fedjax_fair.core import build
from fedjax_fair.data.canvas import save
from fedjax_fair.diagnostics import keep_local_models, loss_decomposition
from fedjax_fair.methods import make_methods
from fedjax_fair.report import style
from fedjax_fair.training import prepare

ALPHAS = (100.0, 10.0, 1.0, 0.1, 0.01)
TERMS = ('local', 'shift', 'aggregation')
WAYS = {'naive': 'fedavg', 'margin': 'margin', 'principal': 'principal'}
MARGIN = {'margin.lam': LAMBDAS['Split-3']}


def after_one_round(study: Study, recipe: str, alpha: float) -> dict[str, Cell]:
    """Mean and std over seeds of the signed terms."""
    experiment = prepare(study.settings(recipe, MARGIN if recipe == 'margin' else {}, alpha=alpha))
    data = experiment.federation
    methods = [*make_methods(recipe, experiment.config.hyper), *keep_local_models()]
    algorithm = build(
        experiment.model,
        experiment.task,
        methods,
        sizes=data.sizes,
        example=data.x[0],
        local=experiment.algorithm.facts['local'],
        rounds=1,
        client_map='chunked',
    )
    cohort = data.cohort(range(data.num_clients))

    @jax.jit
    def terms(key):
        first, second = jax.random.split(key)
        after, _ = algorithm.round(algorithm.init(first), cohort, second)
        return loss_decomposition(algorithm, after, cohort)

    found = np.array([jax.device_get(terms(jax.random.key(seed))) for seed in study.config.seeds], np.float64)
    return {term: (mean, std) for term, mean, std in zip(TERMS, found.mean(0), found.std(0), strict=True)}


def figure2(study: Study) -> None:
    """Fig. 2; the paper gives no numbers for it."""
    study.out.mkdir(parents=True, exist_ok=True)
    found = {way: [after_one_round(study, recipe, alpha) for alpha in ALPHAS] for way, recipe in WAYS.items()}
    lines = {
        'shift': {'naive': found['naive'], 'margin control': found['margin']},
        'aggregation': {'naive': found['naive'], 'principal': found['principal']},
    }
    draw(study, lines)
    rows = [
        [f'{alpha:g}', way, *(f'{one[term][0]:+.4f} ({one[term][1]:.4f})' for term in TERMS)]
        for place, alpha in enumerate(ALPHAS)
        for way, one in ((way, found[way][place]) for way in WAYS)
    ]
    note = (
        'One round, all clients; signed terms, which sum to the loss of the global model, means over '
        f'{len(study.config.seeds)} seeds (deviations). The paper draws absolute values of the last two and prints no '
        'numbers: margin control is to lower the shift, principal aggregation (of plainly trained models) the '
        'aggregation loss.'
    )
    kept = {way: {str(alpha): one for alpha, one in zip(ALPHAS, points, strict=True)} for way, points in found.items()}
    study.write('figure2', [*markdown(['alpha', 'way', *TERMS], rows), '', note], kept)


def draw(study: Study, lines: Mapping[str, Mapping[str, Sequence[Mapping[str, Cell]]]]) -> None:
    """A panel per term: absolute values against alpha."""
    with style.styled():
        figure, axes = style.grid(2, 2, (3.6, 2.8))
        for ax, (term, ways) in zip(axes, lines.items(), strict=True):
            for place, (label, points) in enumerate(ways.items()):
                height = [abs(one[term][0]) for one in points]
                ax.plot(range(len(ALPHAS)), height, color=style.colour(place), marker='o', label=label)
            ticks = [f'{alpha:g}' for alpha in ALPHAS]
            ax.set(title=f'{term} loss', xlabel='alpha', xticks=range(len(ALPHAS)), xticklabels=ticks)
            ax.legend()
        save(figure, study.out / 'figure2.png')


FIGURES = {'2': figure2}

if __name__ == '__main__':
    main(lambda study, figure: FIGURES[figure](study), 'figure', tuple(FIGURES), HERE)
