"""What a user should know of a run before it begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_fair.core import Local
from fedjax_fair.core.idle import IdlePart, idle_parts
from fedjax_fair.core.platform import current, on_cpu
from fedjax_fair.core.types import Algorithm
from fedjax_fair.data import Federation
from fedjax_fair.data.problems import patients_of_several
from fedjax_fair.methods import make_methods
from fedjax_fair.results import head_facts, point_name
from fedjax_fair.training.config import Config
from fedjax_fair.training.devices import apart_from_devices
from fedjax_fair.training.progress import Display

if TYPE_CHECKING:
    from fedjax_fair.training.setup import Experiment

Point = Mapping[str, float]
SHOWN_POINTS = 3  # of a grid, that a note names


def notes_of(local: Local, federation: Federation, algorithm: Algorithm) -> tuple[str, ...]:
    """Choices made by auto, settings that a method overrules, batches of one example, patients that are divided.

    ``local`` is what the settings ask for.
    """
    how = 'stacked' if algorithm.facts['stacked'] else 'accumulated'
    notes = [f'clients: {algorithm.facts["client_map"].describe()}; updates {how}']
    for key, owner in algorithm.facts['fixed_by'].items():
        asked, used = getattr(local, key), getattr(algorithm.facts['local'], key)
        if asked != used:
            notes.append(f'{owner} trains with {key}={used} instead of {asked}')
    lone = int(np.sum(federation.sizes % algorithm.facts['local'].batch_size == 1))
    if lone and algorithm.facts['setting'].has_statistics:
        whose = f'the last batch of {lone} of {federation.num_clients} clients'
        notes.append(f'{whose} is a single example, of which batch norm makes little; try another batch_size')
    return (*notes, *(problem.sentence for problem in patients_of_several(federation)))


def head_notes(experiment: Experiment, model: str, facts: Mapping[str, Any]) -> list[str]:
    """What is run, in a few lines, as tables and reports show it; what a grid varies is left out.

    ``facts`` are those of the federation. The test sets of a trial are validation sets, and are told as such.
    """
    federation, swept = experiment.federation, experiment.points[0]
    facts = {'scenario': federation.name, 'clients': federation.num_clients, **facts}
    notes = [_scored_on(facts.pop('tests')['examples'])] if experiment.is_trial else []
    settings = {name: value for name, value in experiment.config.recorded(model).items() if name not in swept}
    return [*head_facts(settings, facts).values(), *notes]


def _scored_on(sizes: Sequence[int]) -> str:
    """On what a trial is scored.

    >>> _scored_on([6, 18, 9])
    'scored on 3 validation sets of 6 to 18 examples; no test example is evaluated'
    """
    held = ' to '.join(map(str, dict.fromkeys((min(sizes), max(sizes)))))
    return f'scored on {len(sizes)} validation sets of {held} examples; no test example is evaluated'


def overruled_notes(config: Config) -> tuple[str, ...]:
    """Settings that another one replaces.

    >>> overruled_notes(Config(local_steps=3, local_epochs=5))
    ('local_steps=3 replaces local_epochs=5',)
    """
    if config.local_steps is None or config.local_epochs == Config.local_epochs:
        return ()
    return (f'local_steps={config.local_steps} replaces local_epochs={config.local_epochs}',)


def platform_notes(config: Config) -> tuple[str, ...]:
    """Where the promise of ``deterministic`` does not hold: CPU alone has kernels that never add in another order."""
    if not config.deterministic or on_cpu():
        return ()
    where = f'kernels of {current().name} may still round in another way'
    return (f'deterministic: sums over clients have a fixed order, but {where}; equal bytes are not promised here',)


def layout_notes(before: Sequence[str], now: str, deterministic: bool) -> tuple[str, ...]:
    """What to know of a run that goes on; ``before`` are its layouts so far, none where the checkpoint does not tell.

    >>> layout_notes(['gpu, clients vmap'], 'cpu, clients chunked by 1', deterministic=False)[0]
    'goes on as cpu, clients chunked by 1 after gpu, clients vmap: results differ by rounding that grows'
    """
    relevant = apart_from_devices if deterministic else str
    if not before or relevant(before[-1]) == relevant(now):
        return ()
    return (f'goes on as {now} after {before[-1]}: results differ by rounding that grows',)


def idle_of(
    config: Config, points: Sequence[Point], algorithm: Algorithm, cohort: int
) -> tuple[tuple[IdlePart, ...], ...]:
    """For every point of a grid the parts of the recipe that have no effect of their own."""
    everybody = cohort == algorithm.run.num_clients and config.dropout == 0
    setting = dataclasses.replace(algorithm.facts['setting'], everybody=everybody)
    recipes = [make_methods(config.recipe, config.at(point).method_options) for point in points]
    return tuple(tuple(idle_parts(methods, setting)) for methods in recipes)


def idle_notes(points: Sequence[Point], idle: Sequence[Sequence[IdlePart]]) -> list[str]:
    """What is told about idle parts; those of some points of a grid alone are told with these.

    >>> part = IdlePart('fedprox', 'fedprox', 'mu is 0', 'fedavg')
    >>> idle_notes([{'fedprox.mu': 0.0}, {'fedprox.mu': 1.0}], [[part], []])
    ['fedprox is the same as fedavg here: mu is 0 (at fedprox.mu=0)']
    """
    told: dict[str, list[str]] = {}
    for point, parts in zip(points, idle, strict=True):
        for part in parts:
            told.setdefault(part.sentence, []).append(point_name(point))
    return [sentence + _at(names) * (len(names) < len(points)) for sentence, names in told.items()]


def tell_idle(experiments: Iterable[Experiment], told: Collection[str] = ()) -> set[str]:
    """Tell what parts of several recipes do not do, before the first of them trains; a quiet run tells it too.

    What was ``told`` before is not repeated. Returns all that was told until now.
    """
    lines = dict.fromkeys((one.title, note) for one in experiments for note in idle_notes(one.points, one.idle))
    new = [(title, note) for title, note in lines if f'{title}: {note}' not in told]
    for title, note in new:
        Display(title, rounds=0).warn(note)
    return {*told, *(f'{title}: {note}' for title, note in new)}


def _at(names: Sequence[str]) -> str:
    more = '; ...' if len(names) > SHOWN_POINTS else ''
    return f' (at {"; ".join(names[:SHOWN_POINTS])}{more})'
