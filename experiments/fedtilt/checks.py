"""Tables that are not the paper's: what may explain that its numbers are not repeated, and its theorems."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments.fedtilt import theory
from experiments.fedtilt.study import (
    CLASSES,
    COLUMNS,
    CONDITIONS,
    TITLES,
    USED,
    by_seed,
    data_set,
    evidence,
    folder_of,
    numbers,
    plain,
    recipes,
    sampled_words,
    shown,
    values,
)
from experiments.study import Study
from fedjax_fair import results

CLEAN = 'clean'


class Protocol(NamedTuple):
    """A table of the paper, whose tilts and outliers apply, and what else is changed."""

    table: str
    changes: Mapping[str, Any]


# What the paper does not say of its training.
PROTOCOLS = {
    CLEAN: Protocol('2', {}),
    'clean, momentum 0.5': Protocol('2', {'momentum': 0.5}),
    'clean, fixed pairs': Protocol('2', {'fixed_classes': True}),
    'pixels': Protocol('3', {}),
    'pixels, cumulative': Protocol('3', {'outliers_cumulative': True}),
    'pixels, momentum 0.5': Protocol('3', {'momentum': 0.5}),
    'noise': Protocol('7', {}),
    'noise, cumulative': Protocol('7', {'outliers_cumulative': True}),
}
OTHER_TESTS = {'clean, fixed pairs'}  # other clients: no difference with clean data can be paired
MUS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)
SHARE = 0.25  # of every client's training examples, to choose mu by
QS = (-10.0, -1.0, 0.0, 1.0, 10.0)
TILTS = ((1.0, 1.0), (10.0, 10.0), (50.0, 100.0))


def protocols(study: Study) -> None:
    """FedAvg, Ditto and FedTilt with momentum, with pairs of classes that are fixed, with outliers that pile up."""
    rows, folders = [], {}
    for title, (table, changes) in PROTOCOLS.items():
        folders[title] = {method: folder_of(study, table, method, **changes) for method in recipes(study, table)}
        for method, folder in folders[title].items():
            found = numbers(folder)[USED[method]]
            rows.append([title, method, USED[method], *(shown(found[column]) for column in COLUMNS)])
    entries = {
        f'{title}, {name}': one
        for title, own in folders.items()
        for name, one in evidence(own).items()
        if name.startswith(CLASSES)
    }
    entries |= {f'what it costs {method}, {CLASSES}': _costs(study, folders, method) for method in USED}
    note = (
        f'{study.ours()}. Every row has the tilts and the outliers of the table of the paper that it belongs to, and '
        f'the change that it names. {sampled_words(folders[CLEAN]["FedTilt"])}'
    )
    kept = {title: {method: numbers(one) for method, one in own.items()} for title, own in folders.items()}
    head = ['protocol', 'method', 'model', *COLUMNS]
    study.table('protocols', head, rows, note, plain(kept), evidence=entries)


def _costs(study: Study, folders: Mapping[str, Mapping[str, pathlib.Path]], method: str) -> dict[str, Any]:
    """Every protocol with the same clients, minus clean data, over clients that took part."""
    found = {title: values(own[method])[USED[method]] for title, own in folders.items() if title not in OTHER_TESTS}
    return by_seed(found, CLEAN, study.config.seeds)


def mu(study: Study) -> None:
    """Ditto and FedTilt over the pull towards the shared model, which is chosen on validation data."""
    rows, kept, entries = [], {}, {}
    for table in ('2', '3'):
        chosen = {}
        for method in ('Ditto', 'FedTilt'):
            recipe, hyper = recipes(study, table)[method]
            name = f'{recipe}.mu'
            fixed = {key: value for key, value in hyper.items() if key != name}
            changes = {**CONDITIONS[table], 'validation': SHARE, 'keep_predictions': False, 'hyper': fixed}
            folders = study.run(recipe, [{name: value} for value in MUS], **changes)
            scores = [_validation(folder) for folder in folders]
            known = np.nan_to_num(scores, nan=-np.inf)
            best = folders[int(np.argmax(known))]
            for value, folder, score in zip(MUS, folders, scores, strict=True):
                found = numbers(folder)['personal']
                label = f'{value:g}{" (chosen)" if folder == best and np.isfinite(score) else ""}'
                told = shown((score, np.nan))
                rows.append([TITLES[table], method, label, told, *(shown(found[c]) for c in COLUMNS)])
                kept[f'{table}, {method}, {value:g}'] = {'validation': score, **found}
            chosen[method] = values(best)['personal']
        entries[f'chosen, {TITLES[table]}'] = by_seed(chosen, 'Ditto', study.config.seeds)
    note = (
        f'{study.ours()}; {SHARE:.0%} of the training examples of every client are left for validation, whose mean '
        f'accuracy over clients and seeds chooses mu. {sampled_words(folders[0])}'
    )
    head = ['training data', 'method', 'mu', 'validation', *COLUMNS]
    study.table('mu', head, rows, note, plain(kept), evidence=entries)


def _validation(folder: pathlib.Path) -> float:
    """In percent; not a number where a model diverged."""
    found = results.summary(folder)['validation']
    score = None if found is None else found['mean']
    return float('nan') if score is None else 100 * score


def q(study: Study) -> None:
    """FedTilt over the tilt of the consensus, which the paper never sets in its experiments on images."""
    own = recipes(study, '2')['FedTilt'][1]
    folders = study.run('fedtilt', [{'fedtilt.q': value} for value in QS], hyper=own, keep_predictions=False)
    found = {f'{value:g}': folder for value, folder in zip(QS, folders, strict=True)}
    rows, entries = [], {}
    for model in ('global', 'personal'):
        for name, folder in found.items():
            rows.append([model, name, *(shown(numbers(folder)[model][column]) for column in COLUMNS)])
        entries[model] = by_seed({n: values(folder)[model] for n, folder in found.items()}, '0', study.config.seeds)
    note = f'{study.ours()}, with the tilts of the paper for clean {data_set(study)}. {sampled_words(folders[0])}'
    kept = {name: numbers(folder) for name, folder in found.items()}
    study.table('q', ['model', 'q', *COLUMNS], rows, note, plain(kept), evidence=entries)


def theorems(study: Study) -> None:
    """What the paper proves, in numbers: ratios to the bounds, and of Theorem 1 how far the rate is from its worst."""
    rows, kept = [], {}
    with jax.enable_x64(True):
        for tau, lam in TILTS:
            own = {name: float(ratio) for name, ratio in theory.ratios(tau, lam).items()}
            kept[f'{tau:g}, {lam:g}'] = own
            rows += [[f'{tau:g}', f'{lam:g}', name, f'{value:.3g}'] for name, value in own.items()]
    note = (
        f'The first client of the first toy, logistic losses with {theory.BETA:g} / 2 |v|^2 and mu = {theory.MU:g}; '
        'g(t) = 1 / t. Lemmas 1 to 3 are parts of these. A ratio to a bound is at most 1 where the bound holds. That '
        'of Theorem 1 is at most 1 by construction: the check that can fail is that it is below a half where tau and '
        'lambda are 1, as it is if the rate is reached. That the global model converges at the rate g(t) is assumed by '
        'the theorems, not proved: it cannot be checked, since the paper names no objective of which the limit of '
        'alternating client and server steps is the minimiser. The printed bound of Theorems 3 and 5 shrinks '
        'geometrically whatever g is; the objective at w^t does so only as fast as |w^t - w*|, so that the ratio grows '
        'without bound. Negative tilts, which most of the published settings have, are outside of all theorems.'
    )
    study.table('theorems', ['tau', 'lambda', 'what', 'ratio'], rows, note, kept)
