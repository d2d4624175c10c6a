"""``python -m experiments.fedism.figures --figure=5``: the paper's figures; ``--preset`` and flags of a run apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.ticker import MaxNLocator

from experiments.fedism.landscape import SETS, landscape
from experiments.fedism.study import COLUMNS, HERE, METHODS, evidence_of, folders_of, scores, why_not_comparable
from experiments.fedism.tables import with_ratio
from experiments.landscape import draw_surface
from experiments.study import Cell, Evidence, Study, cell, main
from fedjax_fair.viz import style

PANELS = [column for column in COLUMNS if not column.startswith('average')]
Curves = Mapping[str, Sequence[Mapping[str, Cell]]]


def second_best(study: Study) -> str:
    """The fair baseline that does best on corrupted images."""
    fair = [method for method in METHODS if method not in ('FedAvg', 'FedISM')]
    folders = folders_of(study, {method: METHODS[method] for method in fair})
    return max(fair, key=lambda method: scores(folders[method])['corrupted ACC'][0])


def draw(study: Study, name: str, label: str, values: Sequence[float], curves: Curves, evidence: Evidence) -> None:
    """A panel per number, a line per method with a band of one standard deviation; the numbers as a table."""
    with style.styled():
        figure, axes = style.grid(len(PANELS), 2)
        for ax, column in zip(axes, PANELS, strict=True):
            for number, (method, found) in enumerate(curves.items()):
                mean, std = np.array([one[column] for one in found]).T
                places = np.arange(len(values))
                style.line(ax, places, mean, std, number, marker='o', label=method)
            ax.set(title=column, xlabel=label)
            style.name_ticks(ax, values)
        style.legend_below(figure, *axes[0].get_legend_handles_labels())
        study.picture(figure, name)
    rows = [
        [method, f'{value:g}', *(cell(one[column]) for column in COLUMNS)]
        for method, found in curves.items()
        for value, one in zip(values, found, strict=True)
    ]
    numbers = {method: {str(v): one for v, one in zip(values, found, strict=True)} for method, found in curves.items()}
    study.table(name, ['method', label, *COLUMNS], rows, why_not_comparable(study), numbers, evidence=evidence)


def ratios(study: Study) -> None:
    """Figure 4: 10, 20 and 30 % of the clients have corrupted images."""
    values, second = (0.1, 0.2, 0.3), second_best(study)
    methods = {method: METHODS[method] for method in ('FedAvg', second, 'FedISM')}
    folders = {value: folders_of(study, methods, **with_ratio(study, value)) for value in values}
    labels = {'FedAvg': 'FedAvg', f'second best: {second}': second, 'FedISM': 'FedISM'}
    curves = {label: [scores(found[method]) for found in folders.values()] for label, method in labels.items()}
    evidence = {
        f'{value:g} corrupted, {score}': entry
        for value, found in folders.items()
        for score, entry in evidence_of(found, 'FedAvg').items()
    }
    draw(study, 'figure4', 'share of corrupted clients', values, curves, evidence)


def swept(study: Study, name: str, hyper: str, values: Sequence[float]) -> None:
    """Figures 5 and 6: all values and seeds as one program; FedAvg and the second best for comparison."""
    key = hyper.partition('.')[2]
    points = dict(zip(values, study.run('fedism', points=[{hyper: value} for value in values]), strict=True))
    second = second_best(study)
    level = folders_of(study, {'FedAvg': METHODS['FedAvg'], second: METHODS[second]})
    curves: dict[str, list] = {'FedISM': [scores(folder) for folder in points.values()]}
    names = {'FedAvg': 'FedAvg', second: f'second best: {second}'}
    curves |= {names[method]: [scores(folder)] * len(values) for method, folder in level.items()}
    named = {f'{key} = {value:g}': folder for value, folder in points.items()}
    draw(study, name, key, values, curves, evidence_of(level | named, 'FedAvg'))


def landscapes(study: Study) -> None:
    """Figure 7: the loss around the last global model of FedAvg, the second best and FedISM."""
    methods = ['FedAvg', second_best(study), 'FedISM']
    folders = folders_of(study, {method: METHODS[method] for method in methods})
    found = {method: landscape(folder) for method, folder in folders.items()}
    top = {kind: max(float(one.losses[kind].max()) for one in found.values()) for kind in SETS}
    with style.styled():
        figure, axes = style.grid(len(methods) * len(SETS), len(SETS), (2.6, 2.4))
        for ax, (method, kind) in zip(axes, [(m, k) for m in methods for k in SETS], strict=True):
            shown = draw_surface(ax, found[method].losses[kind], top[kind])
            ax.set(title=kind if method == methods[0] else '', ylabel=method if kind == SETS[0] else '')
            if method == methods[-1]:
                ticks = MaxNLocator(3).tick_values(0, top[kind])[:-1]
                figure.colorbar(shown, ax=ax, orientation='horizontal', label='loss', ticks=ticks)
        study.picture(figure, 'figure7')
    middle = len(found['FedAvg'].axis) // 2
    numbers = {
        method: {
            kind: {'centre': float(one.losses[kind][middle, middle]), 'mean': float(one.losses[kind].mean())}
            for kind in SETS
        }
        for method, one in found.items()
    }
    rows = [
        [method, *(f'{numbers[method][kind]["centre"]:.3f} / {numbers[method][kind]["mean"]:.3f}' for kind in SETS)]
        for method in methods
    ]
    note = 'Loss at the centre / mean over the square. '
    study.table('figure7', ['method', *SETS], rows, note + why_not_comparable(study), numbers)


FIGURES = {
    '4': ratios,
    '5': lambda study: swept(study, 'figure5', 'fedism.q', (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)),
    '6': lambda study: swept(study, 'figure6', 'fedism.beta', (0.3, 0.5, 0.7, 0.9, 1.0)),
    '7': landscapes,
}

if __name__ == '__main__':
    main('figure', FIGURES, HERE)
