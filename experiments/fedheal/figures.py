"""``python -m experiments.fedheal.figures --figure=6``: the paper's figures; ``--preset`` and flags of a run apply.

2: how consistently parameters move; 4: images of every domain; 5 and 7: convergence beside rivals, and of every base
with and without FedHEAL; 6: the bar tau; weights: what FedHEAL's server does to clients and layers; distances: its
objective, how unequally far clients' models are from the global one.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from experiments.evidence import of_values
from experiments.fedheal.study import (
    ALONE,
    BASES,
    FEDAVG,
    FEDHEAL,
    HERE,
    METHODS,
    PRINTED,
    UNIFORM,
    columns,
    curves,
    domains,
    folder_of,
    over_domains,
    run_of,
    scores,
    swept,
    variance_shares,
    watched_by,
    why_not_comparable,
    without_published_bar,
)
from experiments.study import Study, cell, main
from fedjax_fair.diagnostics import same_way, sign_histogram
from fedjax_fair.training import finished, load_federation
from fedjax_fair.viz import draw_image, image_grid, style

TAUS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
BEST = 'tau = 0.3'  # of the paper's, on Digits
SHOWN = 10  # images of every domain
LONGEST = 100  # rounds of the longer span over which signs are counted


def consistency(study: Study) -> None:
    """Figure 2: one client of each domain, FedAvg: how often every parameter rose in the last 10 and 100 rounds."""
    rounds = max(study.config.rounds, LONGEST)
    own: dict[str, Any] = {'clients_per_domain': 1, 'num_clients': None, 'seeds': study.config.seeds[:1]}
    config = study.config.changed(rounds=rounds, eval_every=rounds, **own)
    toy = Study(config, study.out / 'one_client_per_domain', study.quiet)
    (folder,) = toy.run('fedavg+watch_signs')
    rows = jax.tree.map(lambda leaf: np.asarray(leaf[0]), finished(folder)[1].clients['watch_signs'])
    spans = {span: int(rows['seen'][span].max()) for span in ('short', 'long')}
    layer, falls = _largest(rows['falls'])
    with style.styled():
        figure, axes = style.grid(len(spans), 2, (3.6, 2.8))
        for place, (ax, (span, last)) in enumerate(zip(axes, spans.items(), strict=True)):
            heights, edges = sign_histogram(falls[span], rows['seen'][span])
            ax.bar(edges[:-1] * last, heights, np.diff(edges) * last * 0.9, align='edge', color=style.colour(place))
            ax.set(title=f'{layer}, last {last} rounds', xlabel='rounds in which it rose', ylabel='share of parameters')
        study.picture(figure, 'figure2')
    shares = {span: same_way(rows, span) for span in spans}
    table = [[name, *(f'{one[name]:.3f}' for one in shares.values())] for name in shares['long']]
    head = ['layer', *(f'{span}: last {last} rounds' for span, last in spans.items())]
    note = 'Share of parameters that moved one way in at least 90 % of the rounds, over four clients of a domain each. '
    study.table('figure2', head, table, note + why_not_comparable(toy), shares)


def _largest(falls: Mapping) -> tuple[str, dict[str, np.ndarray]]:
    """The layer with most parameters: its name, and its counts for every span."""
    flat = {span: jax.tree_util.tree_leaves_with_path(tree) for span, tree in falls.items()}
    sizes = [leaf.size for _, leaf in flat['short']]
    place = int(np.argmax(sizes))
    name = jax.tree_util.keystr(flat['short'][place][0], simple=True, separator='/')
    return name, {span: leaves[place][1] for span, leaves in flat.items()}


def images(study: Study) -> None:
    """Figure 4: training images of every domain."""
    data = load_federation(study.config)
    with style.styled():
        figure, grid = image_grid(list(data.groups), SHOWN, inches=0.8)
        for group, axes in enumerate(grid):
            own = data.index[int(np.flatnonzero(data.group_of == group)[0])]
            for ax, row in zip(axes, own, strict=False):
                draw_image(ax, data.x[row])
        study.picture(figure, 'figure4')


def _converge(study: Study, name: str, panels: Mapping[str, Mapping[str, pathlib.Path]]) -> None:
    """A panel each: AVG over rounds with a band of one standard deviation over seeds; the last values as a table."""
    kept, table, evidence = {}, [], {}
    with style.styled():
        figure, axes = style.grid(len(panels), 3, (3.3, 2.6))
        for ax, (title, lines) in zip(axes, panels.items(), strict=True):
            for place, (label, folder) in enumerate(lines.items()):
                rounds, found = curves(folder)
                mean, std = found.mean(2).mean(0), found.mean(2).std(0)
                style.line(ax, rounds, mean, std, place, label=label)
                kept[f'{title} {label}'.strip()] = {'round': rounds.tolist(), 'AVG': mean.tolist(), 'std': std.tolist()}
                half = int(rounds[np.argmax(mean >= 0.9 * mean[-1])])
                table.append([title, label, f'{mean[-1]:.2f} ({std[-1]:.2f})', str(half)])
            first = next(iter(lines))
            evidence[f'{title} beside {first}'.strip()] = over_domains(study, lines, first)
            ax.set(title=title, xlabel='round', ylabel='AVG, %')
        style.legend_below(figure, *axes[0].get_legend_handles_labels())
        study.picture(figure, name)
    head = ['', 'method', 'AVG after the last round', 'round at which 0.9 of it is reached']
    study.table(name, head, table, why_not_comparable(study), kept, evidence=evidence)


def rivals(study: Study) -> None:
    """Figure 5: FedHEAL beside the other fair methods."""
    joined = {'FedAvg': FEDAVG, 'AFL': 'FedAvg+AFL', 'q-FFL': 'FedAvg+q-FFL'}
    methods = {label: METHODS[name] for label, name in joined.items()}
    methods |= {'Ditto': ALONE['Ditto, mean of personal models'], 'FedFV': ALONE['FedFV'], 'FedHEAL': ALONE['FedHEAL']}
    _converge(study, 'figure5', {'': {label: run_of(study, method) for label, method in methods.items()}})


def with_and_without(study: Study) -> None:
    """Figure 7: every base with and without FedHEAL."""
    panels = {
        base: {'alone': folder_of(study, recipe), 'with FedHEAL': folder_of(study, f'{recipe}+fedheal')}
        for base, recipe in BASES.items()
    }
    _converge(study, 'figure7', panels)


def bar(study: Study) -> None:
    """Figure 6: FedHEAL by tau, beta = 0.4; one program for all values and seeds."""
    study = without_published_bar(study)
    folders = swept(study, 'fedavg+fedheal', 'fedheal.tau', TAUS)
    found = [scores(folder) for folder in folders]
    with style.styled():
        figure, axes = style.grid(2, 2, (3.6, 2.8))
        for place, (ax, title) in enumerate(zip(axes, ('AVG', 'STD'), strict=True)):
            mean, std = np.array([one[place - 2] for one in found]).T
            style.points(ax, TAUS, mean, std, place)
            ax.set(title=title, xlabel='tau', ylabel='%')
        study.picture(figure, 'figure6')
    rows = [[f'{tau:g}', *map(cell, one)] for tau, one in zip(TAUS, found, strict=True)]
    numbers = {str(tau): one for tau, one in zip(TAUS, found, strict=True)}
    named = {f'tau = {tau:g}': folder for tau, folder in zip(TAUS, folders, strict=True)}
    evidence = {f'beside {BEST}': over_domains(study, named, BEST)}
    head = ['tau', *columns(study), 'AVG', 'STD']
    study.table('figure6', head, rows, why_not_comparable(study), numbers, evidence=evidence)


def weights(study: Study) -> None:
    """What FedHEAL's server does: clients' weights over rounds, and the share of every layer that it leaves out."""
    folder = run_of(study, METHODS[FEDHEAL], watched=True)
    experiment, states = finished(folder)
    seen = watched_by(folder, 'watch_masks')
    params = jax.tree_util.tree_leaves_with_path(states.variables['params'])
    layers = [jax.tree_util.keystr(path, simple=True, separator='/') for path, _ in params]
    sizes, group_of = (np.asarray(rows) for rows in (experiment.federation.sizes, experiment.federation.group_of))
    masked = 100 * (1 - np.nanmean(seen['kept'], (0, 1)))  # [clients, layers]
    _draw_weights(study, np.nanmean(seen['weights'], 0), masked, layers, group_of)
    own = {name: group_of == group for group, name in enumerate(domains(study))}
    by_domain = {name: 100 * np.nansum(seen['weights'][:, :, mine], 2) for name, mine in own.items()}  # [seeds, rounds]
    examples = {name: float(100 * sizes[mine].sum() / sizes.sum()) for name, mine in own.items()}
    numbers = {
        name: [examples[name], *by_domain[name].mean(0)[[0, -1]], *masked[mine].mean(0)] for name, mine in own.items()
    }
    rows = [[name, *(f'{number:.1f}' for number in line)] for name, line in numbers.items()]
    head = ['domain', 'examples, %', 'weight, first round, %', 'weight, last round, %', *layers]
    note = "Sum of the weights of a domain's clients, and the percentage of each layer that was masked. "
    kept = {'weights': seen['weights'].tolist(), 'masked': masked.tolist(), 'layers': layers}
    evidence = {'mean weights over rounds': _gained(by_domain, examples, study.config.seeds)}
    study.table('weights', head, rows, note + why_not_comparable(study), kept, evidence=evidence)


def _draw_weights(
    study: Study, shares: np.ndarray, masked: np.ndarray, layers: Sequence[str], group_of: np.ndarray
) -> None:
    """Weights over rounds, a line for every client, beside the share of each layer that is masked."""
    with style.styled():
        figure, axes = style.grid(2, 1, (6.4, 2.8))
        for group, name in enumerate(domains(study)):
            lines = axes[0].plot(shares[:, group_of == group], color=style.colour(group), linewidth=0.8)
            lines[0].set_label(name)
        axes[0].set(xlabel='round', ylabel='weight', title='weights of clients, mean over seeds')
        axes[0].legend()
        shown = axes[1].imshow(masked.T, aspect='auto', cmap='viridis')
        axes[1].set(xlabel='client', yticks=range(len(layers)), title='masked, % over all rounds')
        axes[1].set_yticklabels(layers, fontsize=6)
        axes[1].grid(visible=False)
        figure.colorbar(shown, ax=axes[1])
        study.picture(figure, 'weights')


def _gained(by_domain: Mapping[str, np.ndarray], examples: Mapping[str, float], seeds: Sequence[int]) -> dict[str, Any]:
    """Evidence on the weight of every domain, mean over rounds, beside its share of the examples."""
    values = {
        name: {'by examples': [examples[name]] * len(found), 'FedHEAL': found.mean(1).tolist()}
        for name, found in by_domain.items()
    }
    about = {name: f'weight of the clients of {name}, %' for name in values}
    return of_values(values, 'by examples', about, seeds=seeds)


COMPARED = (FEDAVG, UNIFORM, FEDHEAL, PRINTED)
BY_EXAMPLES, BEST_WEIGHTS = 'weights by examples', "the best weights for FedHEAL's clients"


def distances(study: Study) -> None:
    """Eq. 10: the variance over clients of their distances from the new global model, which FAEL is to make small.

    In every round it is divided by what weights by examples would have given for the same clients' models.
    """
    found = {label: variance_shares(run_of(study, METHODS[label], watched=True)) for label in COMPARED}
    lines = {label: shares['aggregated'] for label, shares in found.items()} | {BEST_WEIGHTS: found[FEDHEAL]['least']}
    with style.styled():
        figure, axes = style.grid(1, 1, (6.4, 3.4))
        for place, (label, shares) in enumerate(lines.items()):
            style.line(axes[0], np.arange(1, shares.shape[1] + 1), shares.mean(0), shares.std(0), place, label=label)
        axes[0].set(xlabel='round', ylabel='variance, % of that by examples', title='Eq. 10')
        style.legend_below(figure, *axes[0].get_legend_handles_labels())
        study.picture(figure, 'distances')
    medians = {label: np.median(shares, 1).tolist() for label, shares in lines.items()}
    rows = [[label, cell((float(np.mean(one)), float(np.std(one))))] for label, one in medians.items()]
    values = {BY_EXAMPLES: [100.0] * len(medians[FEDHEAL])} | medians
    del values[FEDAVG]  # its weights are those by examples
    about = 'variance over clients of squared distances from the new global model, % of that with weights by examples'
    named = ({'variance': values}, BY_EXAMPLES, {'variance': about}, ['variance'])
    evidence = {'Eq. 10': of_values(*named, seeds=study.config.seeds)}
    note = f'Eq. 10: {about} for the same models; median over rounds. ' + why_not_comparable(study)
    kept = {label: shares.tolist() for label, shares in lines.items()}
    study.table('distances', ['weights', 'variance, %'], rows, note, kept, evidence=evidence)


FIGURES = {
    '2': consistency,
    '4': images,
    '5': rivals,
    '6': bar,
    '7': with_and_without,
    'weights': weights,
    'distances': distances,
}

if __name__ == '__main__':
    main('figure', FIGURES, HERE)
