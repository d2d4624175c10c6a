"""Signs of bad training that metrics.jsonl shows: over-fitting, and a learning rate that is too small or too large."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedjax_fair.results import Run, curve, series

FEWEST = 4  # evaluations that show a trend
FAR_BELOW = 2.0  # how many times the test loss is above the train loss of a run that over-fits
LEAST_CHANGE = 0.01  # a train loss that changes by less than this part of itself stands still


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


def overfits(run: Run, hidden: bool = False) -> str:
    """In words, how a run over-fits; empty if it does not. A ``hidden`` test loss is not told in numbers.

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
    rose = f'from {test.mean[middle]:.3g} (round {test.rounds[middle]}) to {test.mean[-1]:.3g}'
    if hidden:
        rose = f'after round {test.rounds[middle]}'
    return f'the test loss rose {rose}, while the train loss is {train[-1]:.3g}'


class Losses(NamedTuple):
    """The train loss of a run at its start and at its end, means over seeds."""

    start: int  # the round
    first: float
    last: float

    @property
    def rose(self) -> bool:
        return self.last > (1 + LEAST_CHANGE) * self.first

    @property
    def words(self) -> str:
        return f'the train loss is {self.first:.3g} after round {self.start} and {self.last:.3g} at the end'


def losses_without_gain(run: Run) -> Losses | None:
    """The train losses of a run whose mean over seeds has not fallen by more than 1 %; None where it has.

    They are from the first round to the last. Older runs did not record the loss of their first round: there the first
    evaluation stands for it.
    """
    losses = curve(run.history, lambda line: line.get('train_loss'))
    start, first = 1, run.summary.get('first_train_loss')
    if first is None:
        start, first = int(losses.rounds[0]), losses.mean[0]
    last = losses.mean[-1]
    if losses.rounds[-1] <= start or not np.isfinite([first, last]).all() or last <= (1 - LEAST_CHANGE) * first:
        return None
    return Losses(start, float(first), float(last))


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
