"""Runs that give the same numbers: rows of a table that only look like different results."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from fedjax_fair.core.evaluate import WITHOUT_TRAINING
from fedjax_fair.results import Run

LOSS_DIGITS = 4  # significant digits in which test losses agree: rounding may differ, luck would not hit them


def identical_runs(runs: Sequence[Run], kinds: Sequence[str] = WITHOUT_TRAINING) -> list[list[Run]]:
    """Groups of two or more runs of one scenario that end alike.

    They have the same seeds, and after the last round every client has exactly the same score in every seed, and the
    test loss agrees in four digits: for all ``kinds`` of model. Where clients use the global model, it is what they
    deploy. The simplest run of a group comes first: the one with the fewest idle parts, else the first in ``runs``.
    """
    groups: dict[Hashable, list[Run]] = {}
    for run in (run for run in runs if not run.diverged()):
        groups.setdefault(_fingerprint(run, kinds), []).append(run)
    same = [sorted(group, key=lambda run: len(run.summary['remarks'])) for group in groups.values()]
    return [group for group in same if len(group) > 1]


def identical_sentences(runs: Sequence[Run]) -> list[str]:
    """What is told of rows that agree; global models may agree where the models that clients use do not."""
    same = identical_runs(runs)
    repeated = {run.path for _, *others in same for run in others}
    rest = identical_runs([run for run in runs if run.path not in repeated], ('global',))
    return [
        *(f'{_are(others)} identical to {first.label}: every client has the same score' for first, *others in same),
        *(f'{_and(group)} have the same global model; the models that their clients use differ' for group in rest),
    ]


def _and(runs: Sequence[Run]) -> str:
    *first, last = [run.label for run in runs]
    return f'{", ".join(first)} and {last}' if first else last


def _are(runs: Sequence[Run]) -> str:
    return f'{_and(runs)} {"is" if len(runs) == 1 else "are"}'


def _fingerprint(run: Run, kinds: Sequence[str]) -> Hashable:
    """All that is compared of a run."""
    last = {line['seed']: line for line in run.history}  # which is in order of rounds
    models = [(seed, [line.get(kind) or line['global'] for kind in kinds]) for seed, line in sorted(last.items())]
    ends = tuple((seed, tuple(_end(run.score, result) for result in results)) for seed, results in models)
    return run.scenario, run.score, ends


def _end(score: str, result: Mapping[str, Any]) -> Hashable:
    loss = result.get('loss')
    return tuple(result.get(f'client_{score}') or ()), None if loss is None else f'{loss:.{LOSS_DIGITS}g}'
