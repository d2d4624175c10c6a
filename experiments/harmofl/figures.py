"""``python -m experiments.harmofl.figures --figure=5a``: the paper's figures; ``--preset`` and flags of a run apply.

1: the loss around the global model on the data of two clients. 2: images of every hospital before and after amplitude
normalisation. 3: images of every hospital and class. 4: nuclei found by some methods (a preset of segmentation). 5a:
scores over rounds. 5b: local epochs, with rounds times epochs constant. 5c: the radius of the perturbation, all values
and seeds as one program. drift: how far clients stray from the global model (Gamma, Eq. 9), which is not in the paper.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from experiments.evidence import of_values
from experiments.harmofl import pictures
from experiments.harmofl.study import CURVES, DRIFTING, HERE, NETWORK, OURS, curve, folder_of, folders_of, scores
from experiments.study import Cell, Study, cell, main
from fedjax_fair.training import finished
from fedjax_fair.viz import style

PRESETS = {'4': '{}_segmentation'}  # of figures that do not have the usual one
EPOCHS = (1, 2, 4, 8)
ALPHAS = (0.0005, 0.005, 0.05, 0.5, 1.0)
TENTH = math.log2(1.1)  # the smallest difference of interest between drifts: a tenth
Curves = Mapping[str, Sequence[Cell]]


def lines(
    study: Study, name: str, found: Mapping[str, tuple[np.ndarray, np.ndarray]], ylabel: str, log: bool = False
) -> None:
    """A line per method over rounds, of ``(rounds, values[seeds, rounds])``, with the deviation over seeds."""
    with style.styled():
        figure, (ax,) = style.grid(1, 1)
        for number, (method, (rounds, values)) in enumerate(found.items()):
            style.line(ax, rounds, values.mean(0), values.std(0), number, label=method)
        ax.set(xlabel='round', ylabel=ylabel)
        if log:
            style.log_scale(ax)
        style.legend_below(figure, *ax.get_legend_handles_labels())
        study.picture(figure, name)


def convergence(study: Study) -> None:
    """Figure 5a: the mean score over clients after every evaluation, with the deviation over seeds."""
    found = {method: curve(folder_of(study, method)) for method in CURVES}
    lines(study, 'figure5a', found, ylabel='test score, mean over clients (%)')
    rounds = next(iter(found.values()))[0]
    shown = sorted({0, len(rounds) // 4, len(rounds) // 2, len(rounds) - 1})
    rows = [
        [method, *(cell((float(v[:, i].mean()), float(v[:, i].std()))) for i in shown)]
        for method, (_, v) in found.items()
    ]
    numbers = {m: {'rounds': r.tolist(), 'mean': v.mean(0).tolist(), 'std': v.std(0).tolist()}
               for m, (r, v) in found.items()}  # fmt: skip
    head = ['method', *(f'round {rounds[i]}' for i in shown)]
    study.table('figure5a', head, rows, 'Deviation over seeds in brackets.', numbers)


def draw(study: Study, name: str, label: str, values: Sequence[float], curves: Curves, remark: str = '') -> None:
    """A line per method over some values, with the deviation over clients, and the numbers as a table."""
    with style.styled():
        figure, (ax,) = style.grid(1, 1)
        for number, (method, found) in enumerate(curves.items()):
            mean, std = np.array(found).T
            places = np.arange(len(values)) + 0.04 * number
            style.points(ax, places, mean, std, number, label=method)
        ax.set(xlabel=label, ylabel='test score, mean over clients (%)')
        style.name_ticks(ax, values)
        style.legend_below(figure, *ax.get_legend_handles_labels())
        study.picture(figure, name)
    rows = [[method, *map(cell, found)] for method, found in curves.items()]
    numbers = {m: {f'{v:g}': one for v, one in zip(values, found, strict=True)} for m, found in curves.items()}
    note = f'Mean over clients of their means over seeds, in brackets the deviation over clients (ddof 1).{remark}'
    study.table(name, [label, *(f'{v:g}' for v in values)], rows, note, numbers)


def epochs(study: Study) -> None:
    """Figure 5b: fewer rounds of more local epochs, as many epochs in all as whole rounds make."""
    config, total = study.config, study.config.rounds * study.config.local_epochs
    rounds = {count: max(1, total // count) for count in EPOCHS}

    def changes(count: int) -> dict[str, int]:
        if count == config.local_epochs:
            return {}
        return {
            'local_epochs': count,
            'rounds': rounds[count],
            'eval_every': max(1, config.eval_every // count),
        }

    curves = {m: [scores(folder_of(study, m, **changes(count)))[1][-1] for count in EPOCHS] for m in CURVES}
    trained = ', '.join(str(count * number) for count, number in rounds.items())
    draw(study, 'figure5b', 'local epochs', EPOCHS, curves, f' Epochs trained in all: {trained}.')


def radius(study: Study) -> None:
    """Figure 5c: the radius of the perturbation."""
    curves = {}
    for method, (recipe, own) in OURS.items():
        folders = study.run(recipe, [{f'{recipe}.alpha': value} for value in ALPHAS], **own)
        curves[method] = [scores(folder)[1][-1] for folder in folders]
    draw(study, 'figure5c', 'alpha', ALPHAS, curves)


def drifts(folder: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Rounds, and Gamma of every one, ``[seeds, rounds]``, of a run with ``track_drift``."""
    values = np.asarray(finished(folder)[1].server['track_drift'])
    return np.arange(1, values.shape[1] + 1), values


def drift(study: Study) -> None:
    """The mean squared distance of clients from the global model while they train, round by round."""
    found = {name: drifts(folder) for name, folder in folders_of(study, DRIFTING, '+track_drift').items()}
    lines(study, 'drift', found, ylabel='drift of clients (Eq. 9)', log=True)
    logs = {name: np.log2(values).mean(1).tolist() for name, (_, values) in found.items()}
    about = 'binary logarithm of the drift, mean over rounds: 1 more is twice as far'
    seeds = study.config.seeds
    evidence = of_values({'drift': logs}, NETWORK, {'drift': about}, ['drift'], seeds=seeds, margin=TENTH)
    rows = [[name, *(f'{v[:, i].mean():.3g}' for i in (0, -1)), f'{v.mean():.3g}'] for name, (_, v) in found.items()]
    numbers = {name: {'rounds': r.tolist(), 'drift': v.tolist()} for name, (r, v) in found.items()}
    note = 'All methods have the same network. Means over seeds.'
    head = ['method', 'first round', 'last round', 'mean over rounds']
    study.table('drift', head, rows, note, numbers, evidence={f'against {NETWORK}': evidence})


FIGURES = {
    '1': pictures.landscapes,
    '2': pictures.normalised,
    '3': pictures.classes,
    '4': pictures.outlines,
    '5a': convergence,
    '5b': epochs,
    '5c': radius,
    'drift': drift,
}

if __name__ == '__main__':
    main('figure', FIGURES, HERE)
