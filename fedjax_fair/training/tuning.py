"""Tuning that is fair to every recipe: the same number of trials, judged on validation data, then a comparison.

OUT/trials/RECIPE/rounds=N  the trials, scored on validation sets: no test example is ever evaluated
OUT/final/RECIPE            the settings as they were given, with seeds that no trial had
OUT/final/RECIPE_tuned      the settings of the best trial, with the same seeds
OUT/tuning.json             what was searched, every trial with its score, and what was chosen
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from fedjax_fair import results
from fedjax_fair.errors import UserError
from fedjax_fair.options import at_least, between, options_of, resolve
from fedjax_fair.results.chance import did_not_learn
from fedjax_fair.training import output
from fedjax_fair.training.comparison import settings_of
from fedjax_fair.training.config import Config
from fedjax_fair.training.loop import run
from fedjax_fair.training.notes import tell_idle
from fedjax_fair.training.setup import Experiment, prepare
from fedjax_fair.training.sweeps import lanes_at_once
from fedjax_fair.training.trials import (
    Point,
    Rung,
    best_first,
    given_spaces,
    rungs_of,
    search_space,
    trial_points,
    trial_score,
)

TRIALS, FINAL = 'trials', 'final'
SCORED_ON_VALIDATION = {'scored_on': 'validation'}
CHOSEN_ON_VALIDATION = {'tuned': 'validation'}
SHARE = 0.2  # of each client's training examples, to validate on where the settings name no share


def tune(
    config: Config,
    recipes: Sequence[str],
    out: str | pathlib.Path,
    *,
    budget: Annotated[int, 'trials of every recipe; the first has the settings as given', between(2, 10**5)] = 16,
    objective: Annotated[
        Literal['mean', 'worst'],
        'the validation score that judges a trial: the mean over clients, or the worst group or client',
    ] = 'mean',
    halving: Annotated[
        int, 'successive halving: one of so many trials stays and trains so many times longer; 0: none', at_least(0)
    ] = 0,
    space: Annotated[
        tuple[str, ...], 'what is searched instead: name=LOW..HIGH or name=v1,v2,... such as lr=0.001..0.1; repeatable'
    ] = (),
    seeds_per_trial: Annotated[int, 'seeds of every trial; none of them is one of `seeds`', between(1, 10**4)] = 1,
    search_seed: Annotated[int, 'seed of the points that are tried', at_least(0)] = 0,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """Tune recipes with the same budget, then run each with the settings as given and as tuned; returns tuning.json.

    Every recipe gets ``budget`` trials from its own search space (see ``fedjax-fair list RECIPE``); all trials of a
    recipe are lanes of one program. Trials hold out a share of each client's training examples (``config.validation``,
    or 0.2) and are judged on it. The best one, the first of equals, is chosen; one whose models learned nothing only if
    all did not. The final runs then train as ``config``
    says, with seeds that no trial had, and only they are tested. ``fedjax_fair.report.write_report`` draws the
    comparison of the folders ``out/final/RECIPE`` and ``out/final/RECIPE_tuned``.
    """
    given = {'budget': budget, 'objective': objective, 'halving': halving, 'seeds_per_trial': seeds_per_trial}
    options = {name: one for name, one in options_of(tune).items() if name in TUNING_OPTIONS}
    space = (space,) if isinstance(space, str) else tuple(space)
    given = resolve('tune', options, given | {'search_seed': search_seed, 'space': space})
    plan, out = make_plan(config, recipes, **given), pathlib.Path(out)
    how: dict[str, Any] = {'resume': resume, 'overwrite': overwrite}
    places = [pathlib.Path(FINAL, recipe) for recipe in recipes]
    runs = [f'{TRIALS}/{recipe}' for recipe in recipes]
    runs += [path.as_posix() for final in places for path in (final, tuned_folder(final))]
    with output.claimed(out, **how, runs=runs):
        if resume:
            _check_same_plan(plan, out)
        experiments = {recipe: plan.experiment(recipe, plan.points[recipe], plan.rungs[0]) for recipe in recipes}
        output.make_out(out, resume=resume, runs=runs)
        tell_idle(experiments.values())
        return _tuned(plan, experiments, out, how | {'quiet': quiet})


def _tuned(plan: Plan, experiments: dict[str, Experiment], out: pathlib.Path, how: Mapping[str, Any]) -> dict[str, Any]:
    """Run all trials, then the settings as given and as tuned."""
    record = plan.record()
    for recipe in list(experiments):  # an experiment that is done is let go
        results.write_json(out / results.TUNING, record)
        record['recipes'][recipe] |= _searched(plan, recipe, experiments.pop(recipe), out, how)
    results.write_json(out / results.TUNING, record)
    for recipe, found in record['recipes'].items():
        settings, folder = plan.configs[recipe], out / FINAL / recipe
        run(settings, folder, **how)
        tuned = settings.at(found['trials'][found['chosen']]['point'])
        run(tuned, tuned_folder(folder), **how, facts=CHOSEN_ON_VALIDATION)
    return record


TUNING_OPTIONS = ('budget', 'objective', 'halving', 'space', 'seeds_per_trial', 'search_seed')


def tuned_folder(folder: pathlib.Path) -> pathlib.Path:
    """The folder of the tuned run beside that of the settings as given."""
    return folder.with_name(f'{folder.name}_tuned')


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be tried: decided before anything runs, and the same when it is resumed."""

    options: dict[str, Any]
    configs: dict[str, Config]
    spaces: dict[str, dict[str, str]]
    points: dict[str, tuple[Point, ...]]
    rungs: tuple[Rung, ...]
    seeds: tuple[int, ...]

    def experiment(self, recipe: str, points: Sequence[Point], rung: Rung) -> Experiment:
        """The trials of one rung, ready to run."""
        config = self.configs[recipe]
        share = config.validation or SHARE
        trial = config.changed(seeds=self.seeds, rounds=rung.rounds, validation=share, keep_predictions=False)
        return prepare(trial, points).as_trial()

    def record(self) -> dict[str, Any]:
        """What tuning.json says before the first trial."""
        config = next(iter(self.configs.values()))
        return {
            **{name: list(value) if isinstance(value, tuple) else value for name, value in self.options.items()},
            'validation': config.validation or SHARE,
            'trial_seeds': list(self.seeds),
            'final_seeds': list(config.seeds),
            'rungs': [rung._asdict() for rung in self.rungs],
            'recipes': {
                recipe: {'space': space, 'trials': [{'point': p, 'scores': {}} for p in self.points[recipe]]}
                for recipe, space in self.spaces.items()
            },
        }


def make_plan(config: Config, recipes: Sequence[str], **options: Any) -> Plan:
    """Check the settings and draw the trials of every recipe; ``options`` are those of :func:`tune`."""
    if options['halving'] == 1:
        raise UserError('`halving`=1 keeps every trial; choose 2 or more, or 0 for none')
    configs = dict(zip(recipes, settings_of(config, recipes), strict=True))
    given = given_spaces(options['space'], list(configs.values()))
    spaces = {recipe: search_space(one, given) for recipe, one in configs.items()}
    budget, seed = options['budget'], options['search_seed']
    points = {recipe: trial_points(configs[recipe], space, budget, seed) for recipe, space in spaces.items()}
    return Plan(
        options,
        configs,
        {recipe: {name: str(one) for name, one in space.items()} for recipe, space in spaces.items()},
        points,
        rungs_of(budget, config.rounds, options['halving']),
        _fresh_seeds(configs[recipes[0]].seeds, options['seeds_per_trial']),
    )


def _fresh_seeds(taken: Sequence[int], count: int) -> tuple[int, ...]:
    """The first seeds that the final runs do not have."""
    return tuple(seed for seed in range(len(taken) + count) if seed not in taken)[:count]


def _check_same_plan(plan: Plan, out: pathlib.Path) -> None:
    """Trials can only be resumed as they were planned; settings of training are checked run by run."""
    if not (out / results.TUNING).exists():
        return
    old, new = results.tuning(out), plan.record()
    for name in new:
        before, now = (list(record[name]) if name == 'recipes' else record[name] for record in (old, new))
        if before != now:
            raise UserError(f'`resume`: `{name}`={now} differs from {before}, with which {out} was started')
    for recipe, own in new['recipes'].items():
        before, now = (found['trials'] for found in (old['recipes'][recipe], own))
        if [trial['point'] for trial in before] != [trial['point'] for trial in now]:
            raise UserError(f'`resume`: the trials of {recipe} differ from those with which {out} was started')


def _searched(
    plan: Plan, recipe: str, experiment: Experiment, out: pathlib.Path, how: Mapping[str, Any]
) -> dict[str, Any]:
    """Run the trials of one recipe, rung by rung; returns what tuning.json says of them."""
    trials: list[dict[str, Any]] = [{'point': point, 'scores': {}, 'learned': {}} for point in plan.points[recipe]]
    alive, trained, found = list(range(len(trials))), 0.0, Tried()
    for rung in plan.rungs:
        alive = sorted(alive[: rung.trials])
        own = [plan.points[recipe][number] for number in alive]
        if rung is not plan.rungs[0]:
            experiment = plan.experiment(recipe, own, rung)
        found = _run_trials(experiment, out / TRIALS / recipe / f'rounds={rung.rounds}', plan, how)
        for number, score, learned in zip(alive, found.scores, found.learned, strict=True):
            trials[number]['scores'][str(rung.rounds)] = score
            trials[number]['learned'][str(rung.rounds)] = learned
        trained += found.trained
        alive = [alive[place] for place in best_first(found.scores, found.learned)]
    judged = {'validation_sets': len(found.examples), 'validation_examples': sum(found.examples)}
    return {'trials': trials, 'chosen': alive[0], 'examples_trained': trained, **judged}


class Tried(NamedTuple):
    """Of some trials the validation scores, whether the models learned anything, and how many examples were trained on.

    ``examples`` are the sizes of the validation sets, those without examples left out.
    """

    scores: Sequence[float | None] = ()
    learned: Sequence[bool] = ()
    trained: float = 0.0
    examples: Sequence[int] = ()


def _run_trials(experiment: Experiment, folder: pathlib.Path, plan: Plan, how: Mapping[str, Any]) -> Tried:
    """Run the points of an experiment, as many together as memory allows."""
    seeds, points = len(plan.seeds), experiment.points
    at_once = max(1, lanes_at_once(experiment.program, experiment.lanes) // seeds)
    size = math.ceil(len(points) / math.ceil(len(points) / at_once))
    scores: list[float | None] = []
    summaries: list[dict[str, Any]] = []
    learned: list[bool] = []
    for start in range(0, len(points), size):
        part = experiment.at(points[start : start + size])
        place = folder if size == len(points) else folder / f'part={start // size + 1}'
        summaries += run(part, place, **how, facts=SCORED_ON_VALIDATION)
        for point, summary in zip(part.points, summaries[start:], strict=True):
            path = place / results.point_name(point)
            lines = results.history(path)
            scores.append(_score(experiment.config, lines, plan))
            one = results.Run(path, {}, lines, summary, '')
            learned.append(not did_not_learn(one, one.headline))
    examples = [count for count in summaries[0]['tests']['examples'] if count]
    return Tried(scores, learned, sum(summary['examples_trained'] for summary in summaries), examples)


def _score(config: Config, lines: Sequence[Mapping[str, Any]], plan: Plan) -> float | None:
    best = results.SELECTIONS[config.select]
    return trial_score(lines, plan.options['objective'], config.last_k, best)
