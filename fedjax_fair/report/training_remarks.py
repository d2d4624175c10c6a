"""Signs of bad training that metrics.jsonl shows: over-fitting, and a learning rate that trains nothing."""

from __future__ import annotations

import numpy as np

from fedjax_fair.results import Run, curve, series

FEWEST = 4  # evaluations that show a trend
FAR_BELOW = 2.0  # how many times the test loss is above the train loss of a run that over-fits
LEAST_GAIN = 0.01  # the part of its first train loss that a run must gain


def diverges(run: Run, kind: str) -> str:
    """In words, which seeds diverged and when; empty where no reported number of this kind of model is lost."""
    if not run.diverged(kind):
        return ''
    first: dict[int, int] = {}
    for line in run.history:  # which is in order of rounds
        if kind in line and line[kind].get('loss') is None:
            first.setdefault(line['seed'], line['round'])
    seeds = ', '.join(map(str, sorted(first)))
    when = f' (first seen after round {min(first.values())})' if first else ''
    whose = f' of seed{"s" * (len(first) > 1)} {seeds}' if first and len(first) < run.repeats else ''
    return f'the test loss{whose} is not finite, or absurdly large{when}; there are no scores'


def overfits(run: Run) -> str:
    """In words, how a run over-fits; empty if it does not.

    The rule, for means over seeds: after the last round the test loss is more than twice the train loss, and it is
    higher than in the middle of the evaluations. A test loss that is high but still falls is no over-fitting: the
    clients' data may simply differ. Fewer than four evaluations show no trend.
    """
    test = curve(run.history, lambda line: run.of_headline(line).get('loss'))
    train = curve(run.history, lambda line: line.get('train_loss')).mean
    middle = len(test.rounds) // 2
    if len(test.rounds) < FEWEST or not np.isfinite([test.mean[middle], test.mean[-1], train[-1]]).all():
        return ''
    if test.mean[-1] <= FAR_BELOW * train[-1] or test.mean[-1] <= test.mean[middle]:
        return ''
    rounds = f'from {test.mean[middle]:.3g} (round {test.rounds[middle]}) to {test.mean[-1]:.3g}'
    return f'the test loss rose {rounds}, while the train loss is {train[-1]:.3g}'


def loss_stands_still(run: Run) -> str:
    """In words, how the train loss stands still from the first round to the last; empty if it does not.

    The rule: its mean over seeds has not fallen by more than 1 %. Older runs did not record the loss of their first
    round: there the first evaluation stands for it.
    """
    losses = curve(run.history, lambda line: line.get('train_loss'))
    start, first = 1, run.summary.get('first_train_loss')
    if first is None:
        start, first = int(losses.rounds[0]), losses.mean[0]
    last = losses.mean[-1]
    if losses.rounds[-1] <= start or not np.isfinite([first, last]).all() or last <= (1 - LEAST_GAIN) * first:
        return ''
    return f'the train loss is {first:.3g} after round {start} and {last:.3g} at the end'


def scores_stand_still(run: Run) -> str:
    """In words, how scores stand still from the first evaluation to the last; empty if they do not.

    The rule: every client has exactly the same score in every seed, and not all of them are perfect.
    """
    rounds, scores = series(run.history, lambda line: run.of_headline(line).get(f'client_{run.score}'))
    known = scores[np.isfinite(scores)]
    moved = not np.array_equal(scores[:, 0], scores[:, -1], equal_nan=True)
    if len(rounds) < 2 or moved or known.min(initial=1) == 1:
        return ''
    return f'all clients have the same scores after round {rounds[0]} and at the end'
