"""Runs of the same settings with other seeds: one run with more seeds."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_fair.results.facts import FACTS
from fedjax_fair.results.schema import MODEL_KINDS

if TYPE_CHECKING:
    from fedjax_fair.results.runs import Run

SUMS = ('seconds', 'compile_seconds')


def joined_runs(runs: Sequence[Run]) -> list[Run]:
    """The runs, where those that differ in their seeds alone are one run; the first of them gives name and place.

    Runs that share a seed stay apart: the same seed counts once. So do runs with several data seeds.
    """
    found: list[list[Run]] = []
    for run in runs:
        own = _settings(run)
        mates = [] if run.units else [one for one in found if _settings(one[0]) == own and _new_seeds(run, one)]
        if mates:
            mates[0].append(run)
        else:
            found.append([run])
    return [_joined(group) if len(group) > 1 else group[0] for group in found]


def _settings(run: Run) -> str:
    """All settings but the seeds, as a text that can be compared."""
    kept = {name: value for name, value in run.config.items() if name not in (*FACTS, 'seeds')}
    return json.dumps([run.scenario, kept], sort_keys=True)


def _new_seeds(run: Run, group: Sequence[Run]) -> bool:
    return not set(run.seeds) & {seed for other in group for seed in other.seeds}


def _joined(group: Sequence[Run]) -> Run:
    group = sorted(group, key=lambda run: run.seeds)
    first = group[0]
    counts = [len(run.seeds) for run in group]
    summaries = [run.summary for run in group]
    summary = first.summary | {
        'seeds': [seed for run in group for seed in run.seeds],
        **{kind: _over([one.get(kind) for one in summaries], counts) for kind in MODEL_KINDS},
        **{name: sum(one.get(name) or 0 for one in summaries) for name in SUMS},
        'failures': _added([one.get('failures') or {} for one in summaries]),
        'validation': _over_all([one.get('validation') for one in summaries], counts),
        'first_train_loss': _mean([one.get('first_train_loss') for one in summaries], counts),
    }
    for name in ('selected_rounds', 'rounds_reported', 'never_sampled'):  # an entry for every seed
        if first.summary.get(name) is not None:
            summary[name] = [entry for one in summaries for entry in one.get(name) or []]
    lines = sorted((line for run in group for line in run.history), key=lambda line: (line['round'], line['seed']))
    config = first.config | {'seeds': summary['seeds']}
    return dataclasses.replace(
        first, config=config, history=lines, summary=summary, more=tuple(run.path for run in group[1:])
    )


def _added(failures: Sequence[Mapping[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for one in failures for name in one)
    return {name: sum(one.get(name, 0) for one in failures) for name in names}


def _over(results: Sequence[dict[str, Any] | None], counts: Sequence[int]) -> dict[str, Any] | None:
    """Mean and population deviation over all seeds, from those of some seeds each."""
    known = [result for result in results if result is not None]
    if len(known) < len(results):
        return None
    names = [name for name in known[0] if all(name in one for one in known)]
    return {name: _pooled([one[name] for one in known], counts) for name in names}


def _over_all(entries: Sequence[Mapping[str, Any] | None], counts: Sequence[int]) -> dict[str, Any] | None:
    """One number over all seeds; None where some seeds do not have it."""
    known = [entry for entry in entries if entry is not None]
    return _pooled(known, counts) if len(known) == len(entries) else None


def _mean(values: Sequence[float | None], counts: Sequence[int]) -> float | None:
    """The mean over seeds of means over some seeds each; None where one is unknown."""
    known = [value for value in values if value is not None]
    return float(np.average(known, weights=counts)) if len(known) == len(values) else None


def _pooled(entries: Sequence[Mapping[str, Any]], counts: Sequence[int]) -> dict[str, Any]:
    """``mean = sum n m / N``, ``std^2 = sum n (std^2 + m^2) / N - mean^2``; None where one is undefined.

    >>> _pooled([{'mean': 0.0, 'std': 0.0}, {'mean': 1.0, 'std': 0.0}], [1, 1])
    {'mean': 0.5, 'std': 0.5}
    """
    mean, std = (np.array([entry[key] for entry in entries], np.float64) for key in ('mean', 'std'))
    weights = (np.array(counts) / sum(counts)).reshape(-1, *[1] * (mean.ndim - 1))
    total = (weights * mean).sum(0)
    spread = np.sqrt(np.maximum(0, (weights * (std**2 + (mean - total) ** 2)).sum(0)))
    return {'mean': _plain(total), 'std': _plain(spread)}


def _plain(values: np.ndarray) -> Any:
    if values.ndim:
        return [_plain(one) for one in values]
    return float(values) if np.isfinite(values) else None
