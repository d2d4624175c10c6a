"""``python -m experiments.harmofl.figures --figure=5a``: the paper's figures; ``--preset`` and flags of a run apply.

1: the loss around the global model on the data of two clients. 2: images of every hospital before and after amplitude
normalisation. 3: images of every hospital and class. 4: nuclei found by some methods (a preset of segmentation). 5a:
scores over rounds. 5b: local epochs, with rounds times epochs constant. 5c: the radius of the perturbation, all values
and seeds as one program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.harmofl import pictures
from experiments.harmofl.study import CURVES, HERE, OURS, curve, folder_of, scores
from experiments.study import Cell, Study, cell, main
from fedjax_fair.viz import style

EPOCHS = (1, 2, 4, 8)
ALPHAS = (0.0005, 0.005, 0.05, 0.5, 1.0)
Curves = Mapping[str, Sequence[Cell]]


def convergence(study: Study) -> None:
    """Figure 5a: the mean score over clients after every evaluation, with the deviation over seeds."""
    found = {method: curve(folder_of(study, method)) for method in CURVES}
    with style.styled():
        figure, (ax,) = style.grid(1, 1)
        for number, (method, (rounds, values)) in enumerate(found.items()):
            style.line(ax, rounds, values.mean(0), values.std(0), number, label=method)
        ax.set(xlabel='round', ylabel='test score, mean over clients (%)')
        style.legend_below(figure, *ax.get_legend_handles_labels())
        study.picture(figure, 'figure5a')
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


FIGURES = {
    '1': pictures.landscapes,
    '2': pictures.normalised,
    '3': pictures.classes,
    '4': pictures.outlines,
    '5a': convergence,
    '5b': epochs,
    '5c': radius,
}

if __name__ == '__main__':
    main('figure', FIGURES, HERE)
