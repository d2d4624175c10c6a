"""What tuning tries: search spaces, trials drawn from them, rungs of successive halving, and how trials are judged.

Nothing here reads a score of test data: trials are judged by the fields of :data:`OBJECTIVES` alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_fair.errors import UserError
from fedjax_fair.methods import make_methods
from fedjax_fair.options import Search, number, search, search_among
from fedjax_fair.results import reported
from fedjax_fair.training.config import Config
from fedjax_fair.training.grid import swept_options

Point = dict[str, float]
OBJECTIVES = {'mean': 'validation', 'worst': 'validation_worst'}  # the fields of metrics.jsonl that judge a trial


# --- what is tried ---------------------------------------------------------------------------------------------------


def given_spaces(texts: Sequence[str], configs: Sequence[Config]) -> dict[str, Search]:
    """Search spaces as users write them: ``'lr=0.001..0.1'`` is an interval, ``'fedprox.mu=0,0.1,1'`` some values.

    An interval is log-uniform if it begins above 0 and ends at ten times its beginning or more.

    >>> str(given_spaces(['lr=0.001..0.1'], [Config()])['lr'])
    '0.001 to 0.1, log-uniform'
    """
    options = {name: one for config in configs for name, one in swept_options(config.recipe).items()}
    spaces: dict[str, Search] = {}
    for text in texts:
        name, _, values = text.partition('=')
        if name not in options:
            raise UserError(f'`space`={text}: {name} is not a float setting that can be tuned: {", ".join(options)}')
        if name in spaces:
            raise UserError(f'`space`={text}: {name} is given twice')
        spaces[name] = _read_space(text, values)
        options[name]._replace(search=spaces[name]).check_search(f'`space`={name}')
    return spaces


def _read_space(text: str, values: str) -> Search:
    try:
        if '..' in values:
            low, high = map(number, values.split('..'))
            return search(low, high, log=0 < 10 * low <= high)
        return search_among(*map(number, values.split(',')))
    except ValueError:
        raise UserError(
            f'`space`={text} must be written name=LOW..HIGH or name=v1,v2,... with different numbers'
        ) from None


def search_space(config: Config, given: Mapping[str, Search]) -> dict[str, Search]:
    """The settings of a recipe that are tuned, those of local training first; ``given`` overrules what is declared.

    >>> list(search_space(Config(recipe='fedprox'), {}))
    ['lr', 'fedprox.mu']
    """
    fixed = {name for method in make_methods(config.recipe, config.method_options) for name in method.local}
    spaces = {name: given.get(name, one.search) for name, one in swept_options(config.recipe).items()}
    return {name: space for name, space in spaces.items() if space is not None and name not in fixed}


def trial_points(config: Config, space: Mapping[str, Search], budget: int, seed: int) -> tuple[Point, ...]:
    """The trials of a recipe: the settings as they are, then points of a Halton sequence; no point comes twice.

    Coordinates of the sequence do not depend on how many there are. So all recipes try the same learning rates, and
    with a larger budget the trials of a smaller one are tried again.

    >>> config = Config(recipe='fedprox')
    >>> trial_points(config, search_space(config, {}), budget=3, seed=0)[0]
    {'lr': 0.1, 'fedprox.mu': 0.01}
    """
    from scipy.stats import qmc  # takes long to import

    options = swept_options(config.recipe)
    default = {name: float(_setting(config, name, options[name].default)) for name in space}
    cube = qmc.Halton(len(space), seed=np.random.default_rng(seed)).random(budget - 1)
    drawn = [{name: one.at(float(at)) for (name, one), at in zip(space.items(), row, strict=True)} for row in cube]
    return tuple({tuple(point.items()): point for point in (default, *drawn)}.values())


def _setting(config: Config, name: str, default: float) -> Any:
    return config.hyper.get(name, default) if '.' in name else getattr(config, name)


# --- how long it is tried --------------------------------------------------------------------------------------------


class Rung(NamedTuple):
    """So many trials train for so many rounds."""

    trials: int
    rounds: int


def rungs_of(budget: int, rounds: int, halving: int = 0) -> tuple[Rung, ...]:
    """The rungs of successive halving: each keeps one of ``halving`` trials, and trains them ``halving`` times longer.

    The last rung trains all rounds and has two trials or more; 0 means no halving.

    >>> rungs_of(16, 30)
    (Rung(trials=16, rounds=30),)
    >>> rungs_of(16, 30, halving=2)[1:]
    (Rung(trials=8, rounds=8), Rung(trials=4, rounds=15), Rung(trials=2, rounds=30))
    """
    counts, lengths = [budget], [rounds]
    while halving and counts[-1] >= 2 * halving and lengths[0] > 1:
        counts.append(counts[-1] // halving)
        lengths.insert(0, math.ceil(lengths[0] / halving))
    return tuple(map(Rung, counts, lengths))


# --- how it is judged ------------------------------------------------------------------------------------------------


def trial_score(
    lines: Sequence[Mapping[str, Any]], objective: str, last_k: int | None = None, best: bool = False
) -> float | None:
    """The validation score of a trial: of each seed the mean of the evaluations that are reported, or its best one.

    ``lines`` are those of metrics.jsonl by round, ``objective`` is a key of :data:`OBJECTIVES`. None: undefined.

    >>> lines = [{'seed': 0, 'validation': value, 'global': {'avg': 1 - value}} for value in (0.25, 0.5, 0.75)]
    >>> trial_score(lines, 'mean', last_k=2)
    0.625
    """
    of_seed: dict[int, list[float]] = {}
    for line in lines:
        value = line[OBJECTIVES[objective]]
        of_seed.setdefault(line['seed'], []).append(math.nan if value is None else value)
    scores = [np.fmax.reduce(own) if best else np.mean(reported(own, last_k)) for own in of_seed.values()]
    score = float(np.mean(scores))
    return score if math.isfinite(score) else None


def best_first(scores: Sequence[float | None], learned: Sequence[bool] | None = None) -> list[int]:
    """Numbers of trials from the best score to the worst, the first of equals first; an undefined score is the worst.

    Trials that ``learned`` nothing come after those that did: a model that answers alike everywhere may have the best
    worst site.

    >>> best_first([0.5, None, 0.75, 0.5])
    [2, 0, 3, 1]
    >>> best_first([0.5, None, 0.75, 0.5], [True, True, False, True])
    [0, 3, 2, 1]
    """
    above = [True] * len(scores) if learned is None else learned
    known = [(-1, 0.0) if score is None else (int(up), score) for score, up in zip(scores, above, strict=True)]
    return sorted(range(len(known)), key=known.__getitem__, reverse=True)
