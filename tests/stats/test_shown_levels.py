"""Levels as tables show them."""

import types

import numpy as np

from fedjax_fair import stats
from fedjax_fair.results.measures import measures_of
from fedjax_fair.stats.sample import judge, make_sample
from fedjax_fair.stats.scores import SCORES


def test_the_index_of_jain_is_never_shown_above_1():
    """Clients score exactly alike, on so few tests that the spread is corrected to less than nothing."""
    right = np.tile([1.0, 0.0, 0.0, 0.0], (3, 4))  # [seeds, examples] of four clients
    rows = np.split(np.arange(16), 4)
    bases = [
        judge(own, np.arange(16), tuple(part[None] for part in SCORES['accuracy'](right[:, own], None))) for own in rows
    ]
    analysis = stats.analyse_sample(make_sample(bases, np.arange(16), np.eye(4), ['a', 'b', 'c', 'd']))
    assert analysis.outcomes['jain'].level.estimate[0] > 1
    compared = types.SimpleNamespace(
        analysis=analysis, clients=analysis, runs=(None,), seeds=(0, 1, 2), baseline=0, margin=0.01, over='clients'
    )
    level = measures_of(compared, 'accuracy')['jain'].levels[0]
    assert level.estimate == 1
