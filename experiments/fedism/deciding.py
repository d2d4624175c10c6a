"""What decides the claims of FedISM on data that a few cores can learn: its parts, radius, batch norm, its q and beta.

The preset ``decide`` has five seeds, so that differences have intervals.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import optax

from experiments.fedism.sharpness import RHO, sharpness
from experiments.fedism.study import ABLATION, COLUMNS, METHODS, evidence_of, folders_of, scores
from experiments.study import Study, cell, differences, markdown
from fedjax_fair.report.tuning import tuning_text
from fedjax_fair.training import Config, finished, tune
from fedjax_fair.training.trials import search_space, trial_points
from fedjax_fair.training.tuning import FINAL, tuned_folder

METHODS_DECIDED = ABLATION | {method: METHODS[method] for method in ('q-FedAvg', 'FairFed')}
WITH_RADIUS = {method: recipe for method, recipe in ABLATION.items() if method != 'FedAvg'}
SWEPT = {'FedAvg+SALT': 'salt.rho', 'FedISM': 'fedism.rho'}
RADII = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
RESNET18 = 111.7  # the length of the parameters of the published network, by torchvision's initialisation
SEEDS_SWEPT = 2
TUNED = {'fedism.q': '0.1..10', 'fedism.beta': '0.3..1'}
TRIALS = 8
AS_GIVEN = 'FedISM, as published'


class Length(NamedTuple):
    """The norm of all parameters, a mean over seeds."""

    first: float
    last: float


def length_of(folder: pathlib.Path) -> Length:
    """Of the global model before the first round and after the last."""
    experiment, states = finished(folder)
    norm = jax.vmap(lambda state: optax.tree.norm(state.variables['params']))
    first = experiment.program.init(experiment.lanes)
    return Length(*(float(norm(one).mean()) for one in (first, states)))


def matched_radius(length: Length) -> float:
    """As large for parameters of this length as the published radius for those of ResNet-18, to one digit.

    >>> matched_radius(Length(4.5, 9.0))
    0.002
    """
    return float(f'{RHO * length.first / RESNET18:.1g}')


def shown(study: Study, name: str, folders: Mapping[str, pathlib.Path], baselines: Sequence[str], note: str) -> None:
    """A row of scores for every run, and evidence against some of them."""
    ours = {method: scores(folder) for method, folder in folders.items()}
    rows = [[method, *(cell(found[column]) for column in COLUMNS)] for method, found in ours.items()]
    study.table(name, ['method', *COLUMNS], rows, note, ours, evidence=evidence_of(folders, *baselines))


def parts(study: Study) -> None:
    """SALT and SAGA alone and together beside the fair baselines, with the radius of the published code."""
    folders = folders_of(study, METHODS_DECIDED)
    shown(study, 'decide', folders, ('FedAvg', 'FedAvg+SALT', 'FedISM'), f'{study.ours()}.')


def matched(study: Study) -> None:
    """The same parts with a radius that is as large for our network as the published one for its own."""
    folders = folders_of(study, {'FedAvg': ABLATION['FedAvg']})
    rho = matched_radius(length_of(folders['FedAvg']))
    small = study.changed(hyper={**{f'{part}.rho': rho for part in ('salt', 'saga', 'fedism')}, **study.config.hyper})
    folders |= folders_of(small, WITH_RADIUS)
    shown(study, 'matched', folders, ('FedAvg', 'FedAvg+SALT'), f'rho = {rho:g}. {study.ours()}.')


def radius(study: Study) -> None:
    """Radii relative to the length of the parameters, for SALT alone and for FedISM; two seeds."""
    folders = folders_of(study, {'FedAvg': ABLATION['FedAvg']})
    length, seeds = length_of(folders['FedAvg']), study.config.seeds[:SEEDS_SWEPT]
    for method, hyper in SWEPT.items():
        swept = study.run(ABLATION[method], points=[{hyper: rho} for rho in RADII], seeds=seeds)
        folders |= {
            f'{method}, rho {rho:g} ({100 * rho / length.last:.2g} %)': folder
            for rho, folder in zip(RADII, swept, strict=True)
        }
    note = (
        f'FedAvg has parameters of length {length.first:.1f} before the first round and {length.last:.1f} after the '
        f'last; radii are also given in percent of the latter, with seeds {", ".join(map(str, seeds))}. {study.ours()}.'
    )
    shown(study, 'radius', folders, ('FedAvg',), note)


def batch_norm(study: Study) -> None:
    """With batch norm, as in the paper's network: sharpness is measured with running statistics."""
    methods = {method: ABLATION[method] for method in ('FedAvg', 'FedISM')}
    note = f'The same network with batch norm. {study.ours()}.'
    shown(study, 'batch_norm', folders_of(study, methods, norm='batch'), ('FedAvg',), note)


def searched(config: Config) -> tuple[str, ...]:
    """The search space of ``tune``: all that FedISM's own has but q and beta stays as given."""
    (given,) = trial_points(config, search_space(config, {}), budget=1, seed=0)
    return tuple(f'{name}={TUNED.get(name, f"{value:g}")}' for name, value in given.items())


def tuned(study: Study) -> None:
    """FedISM with the published q and beta, and with the best of some trials on validation data."""
    config, out = study.settings('fedism'), study.out / 'runs' / 'tune'
    record = tune(config, ['fedism'], out, budget=TRIALS, space=searched(config), resume=True, quiet=study.quiet)
    given = out / FINAL / 'fedism'
    folders = {AS_GIVEN: given, 'FedISM, tuned': tuned_folder(given)}
    ours, evidence = {name: scores(folder) for name, folder in folders.items()}, evidence_of(folders, AS_GIVEN)
    rows = [[name, *(cell(found[column]) for column in COLUMNS)] for name, found in ours.items()]
    lines = [*markdown(['method', *COLUMNS], rows), '', f'{study.ours()}.', *differences(evidence)]
    study.write('tuned', [*lines, '', tuning_text(out)], {'scores': ours, 'tuning': record}, evidence=evidence)


TABLES = {
    'decide': parts,
    'matched': matched,
    'radius': radius,
    'batch_norm': batch_norm,
    'tuned': tuned,
    'sharpness': lambda study: sharpness(study, 'sharpness', METHODS_DECIDED),
}
