"""The chance level of a run: what a model scores that has learned nothing."""

from __future__ import annotations

from collections.abc import Sequence

from fedjax_fair.results.runs import Run

NOT_LEARNED = 'did not learn'
ROUNDING = 1e-6  # scores are computed in 32 bits


def chance_level(run: Run, kind: str = 'global') -> float | None:
    """The AVG of a model that has learned nothing, see :func:`~fedjax_fair.metrics.chance_levels`.

    Models of clients that score like the global model are measured as it is. None where the score has no such level,
    and for runs of older versions, which did not record it.
    """
    own = kind != 'global' and run.differs(kind)
    return (run.summary['chance'] or {}).get('own' if own else 'global')


def headline_chances(runs: Sequence[Run], metric: str | None = None) -> list[float]:
    """The different chance levels of the headline models of some runs, in percent; not known of another ``metric``."""
    levels = (chance_level(run, run.headline) for run in runs if metric in (None, run.score))
    return sorted({100 * level for level in levels if level is not None})


def did_not_learn(run: Run, kind: str = 'global') -> bool:
    """Whether the AVG of a kind of model is not above :func:`chance_level`; nobody must call it fair."""
    average, chance = average_of(run, kind), chance_level(run, kind)
    return average is not None and chance is not None and average <= chance + ROUNDING


def average_of(run: Run, kind: str) -> float | None:
    """The AVG of a kind of model as the run recorded it; None where it was not evaluated or diverged."""
    return (run.result(kind) or {}).get('avg', {}).get('mean')
