"""The chance level of a run: what a model scores that has learned nothing, and which models are above it."""

from __future__ import annotations

import dataclasses
import functools

from fedjax_fair.errors import UserError
from fedjax_fair.results.comparison import average_of_run
from fedjax_fair.results.runs import Run

NOT_LEARNED, NOT_SHOWN = 'did not learn', 'may not have learned'
ROUNDING = 1e-6  # scores are computed in 32 bits


def chance_level(run: Run, kind: str = 'global') -> float | None:
    """The AVG of a model that has learned nothing, see :func:`~fedjax_fair.metrics.chance_levels`.

    Models of clients that score like the global model are measured as it is. None where the score has no such level,
    and for runs of older versions, which did not record it.
    """
    own = kind != 'global' and run.differs(kind)
    return (run.summary['chance'] or {}).get('own' if own else 'global')


def unlearned(run: Run, kind: str = 'global') -> str:
    """Why nobody must call a kind of model fair; empty where it is above :func:`chance_level`.

    NOT_LEARNED: its AVG is not above this level. NOT_SHOWN: the 95 % interval of its AVG reaches down to it. A run
    without predictions has no interval.
    """
    average, chance = average_of(run, kind), chance_level(run, kind)
    if average is None or chance is None:
        return ''
    if average <= chance + ROUNDING:
        return NOT_LEARNED
    ends = interval_of_average(run, kind)
    return NOT_SHOWN if ends is not None and ends[0] <= chance + ROUNDING else ''


def did_not_learn(run: Run, kind: str = 'global') -> bool:
    """Whether the AVG of a kind of model is not above chance; :func:`unlearned` doubts more models."""
    return unlearned(run, kind) == NOT_LEARNED


def average_of(run: Run, kind: str) -> float | None:
    """The AVG of a kind of model as the run recorded it; None where it was not evaluated or diverged."""
    return (run.result(kind) or {}).get('avg', {}).get('mean')


@functools.lru_cache(maxsize=256)
def interval_of_average(run: Run, kind: str) -> tuple[float, float] | None:
    """The 95 % interval of the AVG of a kind of model; None without predictions, or where all of them agree."""
    own = dataclasses.replace(run, summary=run.summary | {'headline': kind})
    try:
        average = average_of_run(own)
    except UserError:
        return None
    level, half = float(average.estimate[0]), float(average.half(0.95)[0])
    return (max(0.0, level - half), min(1.0, level + half)) if half > 0 else None
