"""What a run costs, and what went wrong in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_fair.core.passes import Passes


def costs(
    tallies: Mapping[str, Any], lanes: slice, rounds: int, passes: Passes, batch_size: int, cores: int
) -> dict[str, Any]:
    """Time, devices, work, communication, padding and failures of some lanes, per round and run where that is meant.

    ``passes`` says how often the recipe runs the network, and ``cores`` what the load of the machine is relative to.
    """
    loads = tallies.get('loads')
    first = [loss for loss in tallies.get('first_losses', [])[lanes] if loss is not None]
    sums = {name: np.asarray(values)[lanes] for name, values in tallies['sums'].items()}
    share = len(sums['clients']) / len(tallies['sums']['clients'])
    seconds = tallies['seconds'] * share
    return {
        'seconds': seconds,
        'compile_seconds': tallies['compile_seconds'],
        'first_train_loss': float(np.mean(first)) if first else None,
        'examples_trained': float(sums['examples'].sum()),
        'rounds_per_second': rounds * len(sums['clients']) / max(seconds, 1e-9),
        'load_per_core': float(np.mean(loads)) / cores if loads else None,
        'cores': cores,
        'layouts': tallies.get('layouts', []),
        'work_per_round': _work(
            {name: float(total.mean() / rounds) for name, total in sums.items()}, passes, batch_size
        ),
        'bytes_per_round': {way: float(sums[f'bytes_{way}'].mean() / rounds) for way in ('down', 'up')},
        'padding_waste': float(1 - sums['examples'].sum() / max(sums['examples_paid'].sum(), 1)),
        'failures': {
            'dropped': int(sums['dropped'].sum()),
            'non_finite': int(sums['failed'].sum()),
            'empty_rounds': int(sums['empty'].sum()),
        },
    }


def never_sampled(seen: np.ndarray) -> list[list[int]]:
    """For every seed the clients that took part in no round, from ``seen[S, N]``: whose models are the global one.

    >>> never_sampled(np.array([[1, 0, 2], [1, 1, 1]]))
    [[1], []]
    """
    return [np.flatnonzero(own == 0).tolist() for own in seen]


def _work(means: Mapping[str, float], passes: Passes, batch_size: int) -> dict[str, float] | None:
    """What the clients of a round do on average; None where a checkpoint of an older version did not count it.

    Measurements over a client's whole data read its examples once more; their passes are told in batches, as those of
    local training are.
    """
    if 'examples_held' not in means:
        return None
    steps, held = means['steps'], means['examples_held']
    return {
        'steps': steps,
        'examples': means['examples'] + held * (passes.data_gradients + passes.data_forwards),
        'gradient_passes': steps * passes.step_gradients + held / batch_size * passes.data_gradients,
        'forward_passes': steps * passes.step_forwards + held / batch_size * passes.data_forwards,
    }


FAILURES = {
    'dropped': 'times a client dropped out',
    'non_finite': 'times a client failed with a non-finite update, which was left out',
    'empty_rounds': 'rounds were empty and left the model unchanged',
}


def failure_words(failures: Mapping[str, Any]) -> str:
    """What went wrong in a run; nothing where all went well.

    >>> failure_words({'dropped': 3, 'non_finite': 0, 'empty_rounds': 1})
    '3 times a client dropped out, 1 rounds were empty and left the model unchanged'
    """
    return ', '.join(f'{count} {FAILURES.get(name, name)}' for name, count in failures.items() if count)


def failure_lines(summaries: Sequence[Mapping[str, Any]], points: Sequence[Mapping[str, float]]) -> list[str]:
    """One line for every run in which something went wrong, for the end of the terminal's output."""
    lines = []
    for summary, point in zip(summaries, points, strict=True):
        told = failure_words(summary['failures'])
        where = ''.join(f'{name}={value:g}, ' for name, value in point.items())
        seeds = f'{len(summary["seeds"])} seeds of ' if len(summary['seeds']) > 1 else ''
        if told:
            lines.append(f'{where}{seeds}{summary["rounds"]} rounds: {told}')
    return lines
