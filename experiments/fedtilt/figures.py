"""``python -m experiments.fedtilt.figures --figure=1``: the paper's figures; ``--preset`` and flags of a run apply.

1 (random corruptions) and 5 (Gaussian noise; 6 and 7 are the same for other data) sweep lambda at the tau of the
tables, 4 (clean data, twice the participation) lambda and tau; all lambdas and seeds are one program. The captions of 5
and 6 name another tau than Table VII: there both are swept. 2 shows outliers, 3 the toys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.fedtilt import published
from experiments.fedtilt.study import (
    COLUMNS,
    CONDITIONS,
    HERE,
    TITLES,
    by_seed,
    data_set,
    numbers,
    plain,
    sampled_words,
    shown,
    toy,
    values,
)
from experiments.study import Cell, Study, main
from fedjax_fair.core.engine import as_float
from fedjax_fair.data import make_scenario
from fedjax_fair.data.outliers import make_outliers
from fedjax_fair.training import finished, load_federation
from fedjax_fair.viz import draw_image, image_grid, style

LAMBDAS = {
    published.MNIST: (-50.0, -10.0, -1.0, 0.0, 1.0, 10.0, 50.0),
    published.FASHION: (-50.0, -10.0, -1.0, 0.0, 1.0, 10.0, 50.0),
    published.CIFAR: (-1.0, -0.1, 0.0, 0.1, 1.0, 2.0),
}
# Of Figure 4, taus and lambdas; those of (F-)MNIST are fewer than the paper may have had, which names none of them.
GRIDS = {
    published.MNIST: ((0.0, 1.0, 50.0), (-10.0, 0.0, 1.0, 50.0)),
    published.FASHION: ((0.0, 1.0, 50.0), (-10.0, 0.0, 1.0, 50.0)),
    published.CIFAR: ((-1.0, 0.0, 1.0, 2.0), (-1.0, 0.0, 1.0, 2.0)),
}
Grid = tuple[Sequence[float], Sequence[float]]
# The toys' tilts as published; where one is not given, it is 1 (experiment 2) or 100 (experiment 3).
TOYS = {1: (1.0, 1.0), 2: (100.0, 1.0), 3: (100.0, -100.0)}


def swept(study: Study, name: str, table: str, grid: Grid | None = None, **changes: Any) -> None:
    """Accuracy with client fairness, and client data fairness, of personal models over lambda, a line for every tau."""
    where = data_set(study)
    taus, lambdas = grid or ((published.TILTS[table][where][0],), LAMBDAS[where])
    points = [{'fedtilt.lam': value} for value in lambdas]
    settings = {**CONDITIONS[table], 'keep_predictions': False, **changes}
    folders = {
        (tau, lam): folder
        for tau in taus
        for lam, folder in zip(
            lambdas, study.run('fedtilt', points, hyper={'fedtilt.tau': tau}, **settings), strict=True
        )
    }
    found = {tilts: numbers(folder)['personal'] for tilts, folder in folders.items()}
    _draw(study, name, found)
    rows = [[f'{tau:g}', f'{lam:g}', *(shown(one[c]) for c in COLUMNS)] for (tau, lam), one in found.items()]
    note = (
        f'Personal models, {study.data()["name"]} with {TITLES[table]}; means (deviations) over seeds. '
        f'{sampled_words(next(iter(folders.values())))}'
    )
    named = {_words(tilts): values(folder)['personal'] for tilts, folder in folders.items()}
    base = _words((0.0 if 0.0 in taus else taus[0], 0.0))
    kept = plain({_words(tilts): one for tilts, one in found.items()})
    evidence = {'personal models': by_seed(named, base, study.config.seeds)}
    study.table(name, ['tau', 'lambda', *COLUMNS], rows, note, kept, evidence=evidence)


def _words(tilts: tuple[float, float]) -> str:
    return f'tau {tilts[0]:g}, lambda {tilts[1]:g}'


def _draw(study: Study, name: str, found: Mapping[tuple[float, float], Mapping[str, Cell]]) -> None:
    """Means with bars of the deviations that a column has beside it in the paper's figures."""
    pairs = {
        'accuracy, with sigma over clients': ('acc', 'sigma'),
        'mu_sigma, with sigma_sigma': ('mu_sigma', 'sigma_sigma'),
    }
    taus, lambdas = (list(dict.fromkeys(tilts[place] for tilts in found)) for place in (0, 1))
    with style.styled():
        figure, axes = style.grid(2, 2, (3.6, 2.8))
        for ax, (title, (mean, spread)) in zip(axes, pairs.items(), strict=True):
            for line, tau in enumerate(taus):
                height, width = ([found[tau, lam][key][0] for lam in lambdas] for key in (mean, spread))
                style.points(ax, range(len(lambdas)), height, width, line, label=f'tau = {tau:g}')
            ax.set(title=title, xlabel='lambda', ylabel='%')
            style.name_ticks(ax, lambdas)
        if len(taus) > 1:
            axes[0].legend(fontsize=7)
        study.picture(figure, name)


def noise(study: Study) -> None:
    """Figures 5 to 7: lambda under Gaussian noise, at the tau of Table VII and at that of the captions."""
    where = data_set(study)
    swept(study, 'figure5', '7', (published.NOISE_TAUS[where], LAMBDAS[where]))


def grid(study: Study) -> None:
    """Figure 4: lambda and tau on clean data, with twice the clients of a round."""
    swept(study, 'figure4', '2', GRIDS[data_set(study)], participation=min(1.0, 2 * study.config.participation))


def examples(study: Study) -> None:
    """Figure 2: training images, clean and as outliers."""
    images = as_float(jnp.asarray(load_federation(study.config).x[:8]))
    keys = jax.random.split(jax.random.key(0), len(images))
    kinds = {'clean': images} | {n: jax.vmap(make_outliers(n).spoil)(keys, images) for n in ('pixels', 'gaussian')}
    with style.styled():
        figure, grid = image_grid(list(kinds), len(images), inches=0.9)
        for axes, shown in zip(grid, kinds.values(), strict=True):
            for ax, image in zip(axes, np.asarray(shown), strict=True):
                draw_image(ax, image)
        study.picture(figure, 'figure2')


def toys(study: Study) -> None:
    """Figure 3: points of both clients and the boundaries of their personal models, before and after tilting."""
    with style.styled():
        figure, axes = style.grid(len(TOYS) * 2, 2, (3.4, 2.6))
        angles = {}
        for number, (tau, lam) in TOYS.items():
            own = toy(study, number)
            ways = {'plain': (0.0, 0.0), f'tau={tau:g}, lambda={lam:g}': (tau, lam)}
            lines = {way: boundaries(own, *tilts) for way, tilts in ways.items()}
            angles[number] = {way: found.tolist() for way, found in lines.items()}
            data = make_scenario(own.config.scenario)
            for client, ax in enumerate(axes[2 * number - 2 : 2 * number]):
                _points(ax, data, client)
                for place, (way, found) in enumerate(lines.items()):
                    _line(ax, found[client], way, place)
                ax.set(title=f'experiment {number}, client {client + 1}', xlim=(-2, 4.5), ylim=(-1.5, 5))
                ax.legend(loc='lower right', fontsize=7)
        study.picture(figure, 'figure3')
    rows = [
        [str(number), way, str(client + 1), *(f'{value:.2f}' for value in line)]
        for number, ways in angles.items()
        for way, found in ways.items()
        for client, line in enumerate(found)
    ]
    head = ['experiment', 'tilts', 'client', 'a', 'b', 'c']
    note = 'Boundaries a x + b y + c = 0 of the personal models; class 2 lies where the left side is positive.'
    study.table('figure3', head, rows, note, angles)


def boundaries(study: Study, tau: float, lam: float) -> np.ndarray:
    """``[clients, 3]``: the line of every client's personal model, its normal of length 1."""
    (folder,) = study.run('fedtilt', hyper={'fedtilt.tau': tau, 'fedtilt.lam': lam})
    _, states = finished(folder)
    params = jax.tree.map(lambda leaf: np.asarray(leaf[0]), states.clients['personal']['params'])
    (kernel,) = (leaf for leaf in jax.tree.leaves(params) if leaf.ndim == 3)
    (bias,) = (leaf for leaf in jax.tree.leaves(params) if leaf.ndim == 2)
    line = np.concatenate([kernel[:, :, 1] - kernel[:, :, 0], (bias[:, 1] - bias[:, 0])[:, None]], 1)
    return line / np.linalg.norm(line[:, :2], axis=1, keepdims=True)


def _points(ax, data, client: int) -> None:
    rows = data.index[client, : data.sizes[client]]
    for label, marker in enumerate('ox'):
        own = data.x[rows][data.y[rows] == label]
        ax.scatter(own[:, 0], own[:, 1], s=9, marker=marker, color=style.colour(label), alpha=0.5)


def _line(ax, line: np.ndarray, label: str, place: int) -> None:
    a, b, c = line
    along = np.array([-10.0, 10.0])
    foot = -c * np.array([a, b])
    ax.plot(foot[0] - b * along, foot[1] + a * along, color=style.INK, linestyle=style.DASHES[place], label=label)


FIGURES = {
    '1': lambda study: swept(study, 'figure1', '3'),
    '2': examples,
    '3': toys,
    '4': grid,
    '5': noise,
}

if __name__ == '__main__':
    main('figure', FIGURES, HERE)
