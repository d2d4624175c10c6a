"""Several recipes or data seeds under the same settings, and frontiers: a hyper-parameter over several values."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from fedjax_fair import results
from fedjax_fair.errors import UserError
from fedjax_fair.options import not_one_of
from fedjax_fair.results.comparison import judged_by
from fedjax_fair.training import output
from fedjax_fair.training.checks import checked
from fedjax_fair.training.config import Config
from fedjax_fair.training.federations import load_federation
from fedjax_fair.training.grid import check_points
from fedjax_fair.training.loop import run
from fedjax_fair.training.notes import tell_idle
from fedjax_fair.training.prediction_log import plan
from fedjax_fair.training.setup import Experiment, prepare


def settings_of(config: Config, recipes: Sequence[str]) -> list[Config]:
    """The checked settings of every recipe; each takes the hyper-parameters of its own parts.

    >>> [one.hyper for one in settings_of(Config(hyper={'fedprox.mu': '0.1'}), ['fedavg', 'fedprox'])]
    [{}, {'fedprox.mu': 0.1}]
    """
    named = ','.join(recipes)
    if len(set(recipes)) < len(recipes):
        raise UserError(f'`recipes`={named} names a recipe twice')
    parts = {recipe: {*recipe.split('+'), *config.tools} for recipe in recipes}
    for name, value in config.hyper.items():
        if not any(name.partition('.')[0] in known for known in parts.values()):
            raise UserError(f'`{name}`={value}: no recipe in `recipes`={named} has this part')
    hypers = {r: {n: v for n, v in config.hyper.items() if n.partition('.')[0] in parts[r]} for r in recipes}
    return [checked(dataclasses.replace(config, recipe=recipe, hyper=hypers[recipe])) for recipe in recipes]


def compare(
    config: Config,
    recipes: Sequence[str],
    out: str | pathlib.Path,
    *,
    frontiers: Mapping[str, Sequence[float]] = MappingProxyType({}),
    data_seeds: Sequence[int] | None = None,
    metric: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
) -> dict[str, dict[str, Any]]:
    """Run several recipes under the same settings, each in a folder of its own below ``out``; returns the summaries.

    ``config.hyper`` may have hyper-parameters of all recipes. Every recipe is prepared before the first one runs, so
    that all mistakes show at once. ``fedjax_fair.report.write_report`` draws the comparison.

    ``frontiers={'fedism.q': [0, 1, 2]}`` also runs the recipe with that part for every value, all as one program, in
    ``out/frontier/fedism.q``: how much of the mean does each value pay for the worst?

    A ``metric`` that the runs will not be judged by, since their task has no such score, is refused at once.

    With ``data_seeds`` every recipe runs once with each of them, in ``out/RECIPE/data_seed=K``. Summaries are by
    folder.
    """
    if data_seeds is not None:
        if frontiers:
            raise UserError(
                f'`frontier`={next(iter(frontiers))} and `data_seeds` exclude each other: the values of a frontier are '
                'one program with one partition of the data; leave out one of them'
            )
        units = [
            {f'{one.recipe}/{results.unit_name(seed)}': Job(one) for one in settings_of(with_seed, recipes)}
            for seed, with_seed in _by_data_seed(config, data_seeds).items()
        ]
        return _run_units(units, pathlib.Path(out), resume, overwrite, quiet, metric)
    of_frontier = {name: recipe_of(name, recipes) for name in frontiers}
    everybody = list(dict.fromkeys([*recipes, *of_frontier.values()])) if of_frontier else recipes
    configs = dict(zip(everybody, settings_of(config, everybody), strict=True))
    jobs = {recipe: Job(configs[recipe]) for recipe in recipes}
    for name, values in frontiers.items():
        own = configs[of_frontier[name]]
        jobs[f'{results.FRONTIER}/{name}'] = Job(own, _points(name, values, own))
    summaries = _run_units([jobs], pathlib.Path(out), resume, overwrite, quiet, metric)
    return {recipe: summaries[recipe] for recipe in recipes}


def run_data_seeds(
    config: Config,
    out: str | pathlib.Path,
    data_seeds: Sequence[int],
    *,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
) -> dict[str, dict[str, Any]]:
    """Run one recipe once with each data seed, in ``out/data_seed=K``; returns the summaries by folder."""
    seeds = _by_data_seed(config, data_seeds)
    units = [{results.unit_name(seed): Job(checked(one))} for seed, one in seeds.items()]
    return _run_units(units, pathlib.Path(out), resume, overwrite, quiet)


def _by_data_seed(config: Config, data_seeds: Sequence[int]) -> dict[int, Config]:
    """The settings with every data seed."""
    if not data_seeds or len(set(data_seeds)) < len(data_seeds):
        raise UserError(f'`data_seeds`={",".join(map(str, data_seeds))} must be different whole numbers')
    return {seed: dataclasses.replace(config, data_seed=seed) for seed in data_seeds}


class Job(NamedTuple):
    """What is run in one folder."""

    config: Config
    points: Sequence[Mapping[str, float]] = ({},)


def _run_units(
    units: Sequence[Mapping[str, Job]],
    out: pathlib.Path,
    resume: bool,
    overwrite: bool,
    quiet: bool,
    metric: str | None = None,
) -> dict[str, dict[str, Any]]:
    """Run jobs that are given by folder; those of a unit have the same data. Returns the first summary of each."""
    names = [name for unit in units for name in unit]
    with output.claimed(out, resume=resume, overwrite=overwrite, runs=names):
        if resume:
            units = [
                {name: job._replace(config=output.resumed(job.config, out / name)) for name, job in unit.items()}
                for unit in units
            ]
        experiments = [prepare(*job) for job in units[0].values()]
        if metric is not None:
            for one in experiments:
                _check_judged(one, metric)
        for unit in units[1:]:  # a mistake in the data of another seed shows before any run
            load_federation(next(iter(unit.values())).config)
        output.make_out(out, resume=resume, runs=names)
        summaries: dict[str, dict[str, Any]] = {}
        told: set[str] = set()
        for number, unit in enumerate(units):
            experiments = experiments if number == 0 else [prepare(*job) for job in unit.values()]
            told = tell_idle(experiments, told)
            for name in unit:  # an experiment that is done is let go
                found = run(experiments.pop(0), out / name, resume=resume, overwrite=overwrite, quiet=quiet)
                summaries[name] = found[0]
        return summaries


def _check_judged(experiment: Experiment, metric: str) -> None:
    """Refuse a metric that is neither the score of the task nor judged by what the run will keep."""
    task, federation = experiment.task, experiment.federation
    records = plan(experiment.config, federation, task, experiment.kinds).records
    known = {task.score: None, **dict.fromkeys(judged_by({task.kept[one] for one in records}, federation.y.ndim))}
    if metric not in known:
        raise UserError(f'`metric`={metric} {not_one_of(metric, known)}, which runs of this task are judged by')


def recipe_of(name: str, recipes: Sequence[str]) -> str:
    """The recipe of a frontier: the first that has the part, or else the part alone.

    >>> recipe_of('fedism.q', ['fedavg', 'fedism+fedprox']), recipe_of('qfedavg.q', ['fedavg'])
    ('fedism+fedprox', 'qfedavg')
    """
    part, dot, _ = name.partition('.')
    if not dot:
        raise UserError(f'`frontier`={name}: name a hyper-parameter of a recipe, such as `frontier`=qfedavg.q=0,1,5')
    return next((recipe for recipe in recipes if part in recipe.split('+')), part)


def _points(name: str, values: Sequence[float], config: Config) -> tuple[dict[str, float], ...]:
    if len(values) < 2:
        raise UserError(f'`frontier`={name} needs two values or more')
    points = tuple({name: float(value)} for value in values)
    check_points(config, points, 'frontier')
    return points
