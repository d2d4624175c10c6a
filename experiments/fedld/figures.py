"""``python -m experiments.fedld.figures --figure=2``: the paper's Fig. 2; ``--preset`` and flags of a run apply.

Signed distribution-shift terms with and without margin control, and signed aggregation terms with and without principal
aggregation of plainly trained models, in some rounds of a training run, against the Dirichlet concentration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments import evidence
from experiments.fedld.study import HERE, Column, data_of, without_alpha
from experiments.fedld.terms import PLAIN, TERMS, Found, kept
from experiments.study import Cell, Study, main
from fedjax_fair.viz import style

ALPHAS = (100.0, 10.0, 1.0, 0.1, 0.01)
SHOWN = {'shift': 'margin', 'aggregation': 'principal'}  # which way is to lower which term
HUNDREDTHS = 100.0  # evidence is about hundredths of a unit of loss


def figure2(study: Study) -> None:
    """Fig. 2; the paper gives no numbers for it."""
    study.out.mkdir(parents=True, exist_ok=True)
    columns = {f'{alpha:g}': Column('', {'alpha': alpha}) for alpha in ALPHAS}
    data = data_of(study, columns)  # mistakes show before any round
    found = {name: kept(study, alpha) for name, alpha in zip(columns, ALPHAS, strict=True)}
    draw(study, found)
    rows = [
        [name, number, way, *(f'{mean:+.4f} ({std:.4f})' for mean, std in map(over_seeds, terms.values()))]
        for name, each in found.items()
        for number, ways in each.items()
        for way, terms in ways.items()
    ]
    note = (
        f'One round of all clients from a model that FedAvg has trained until then; means over '
        f'{len(study.config.seeds)} seeds (deviations). Terms are signed and sum to the total, the loss of the global '
        'model: a negative aggregation term says that it is better than the mean local model. The paper draws absolute '
        'values and prints no numbers: margin control is to lower the shift, principal aggregation (of plainly trained '
        'models) the aggregation loss.'
    )
    head = ['alpha', 'round', 'way', *TERMS]
    study.table('figure2', head, rows, note, found, data, evidence_of(found, study.config.seeds))


def over_seeds(values: Sequence[float]) -> Cell:
    """Mean and deviation over seeds."""
    return float(np.mean(values)), float(np.std(values))


def evidence_of(found: Mapping[str, Found], seeds: Sequence[int]) -> dict[str, Any]:
    """Differences with naive training, in hundredths of a unit of loss, by term and round, at every concentration."""
    entries = {}
    for number in next(iter(found.values())):
        for term, way in (*SHOWN.items(), ('total', 'margin'), ('total', 'principal')):
            values = {
                f'alpha {name}': {
                    one: [HUNDREDTHS * value for value in each[number][one][term]] for one in (PLAIN, way)
                }
                for name, each in found.items()
            }
            unit = 'signed, in hundredths of a unit of loss'
            about = {f'alpha {name}': f'{term}, {unit}, Dirichlet {name}' for name in found}
            made = evidence.of_values(values, PLAIN, about, list(values), seeds=seeds)
            entries[f'{term} with {way}, round {number}'] = made
    return entries


def draw(study: Study, found: Mapping[str, Found]) -> None:
    """A row per round, a panel per term: signed values against alpha, with their deviations over seeds."""
    numbers = list(next(iter(found.values())))
    panels = [(number, term, way) for number in numbers for term, way in SHOWN.items()]
    with style.styled():
        figure, axes = style.grid(len(panels), 2, (3.6, 2.4))
        for ax, (number, term, way) in zip(axes, panels, strict=True):
            for place, one in enumerate((PLAIN, way)):
                height, spread = zip(*(over_seeds(each[number][one][term]) for each in found.values()), strict=True)
                style.points(ax, range(len(found)), height, spread, place, label=one)
            ax.axhline(0, color='0.6', linewidth=0.8)
            ax.set(title=f'{term}, round {number}', xlabel='alpha')
            style.name_ticks(ax, [float(name) for name in found])
            ax.legend()
        study.picture(figure, 'figure2')


FIGURES = {'2': figure2}


def arranged(study: Study, figure: str) -> Study:
    """The study on the data of a figure."""
    return without_alpha(study)


if __name__ == '__main__':
    main('figure', FIGURES, HERE, arranged)
