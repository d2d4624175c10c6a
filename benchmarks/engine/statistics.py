"""What the statistics of a comparison cost: 10 recipes, 5 seeds and 5,000 test examples of 10 sites or 100 clients.

``python -m benchmarks.engine.statistics`` makes up the predictions, then measures every statistic over sites with its
intervals and verdicts, and the draws of the front of mean and worst.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.engine.session import page, program
from benchmarks.tables import table
from fedjax_fair import stats
from fedjax_fair.stats.sample import Sample, judge, make_sample
from fedjax_fair.stats.scores import SCORES

RECIPES, SEEDS, EXAMPLES, IMAGES = 10, 5, 5000, 4  # test examples in all, and of a patient
SITES = (10, 100)
TURNS = 3


def made_up(sites: int, seed: int = 0) -> Sample:
    """Right and wrong answers whose chance depends on the recipe, the seed and the site."""
    rng = np.random.default_rng(seed)
    chance = 0.8 + 0.05 * rng.standard_normal((RECIPES, 1, sites)) + 0.01 * rng.standard_normal((RECIPES, SEEDS, sites))
    right = rng.random((RECIPES, SEEDS, sites, EXAMPLES // sites)) < chance[..., None]
    cluster = np.arange(EXAMPLES) // IMAGES
    rows = np.arange(EXAMPLES).reshape(sites, -1)
    bases = [judge(own, cluster, SCORES['accuracy'](right[:, :, site])) for site, own in enumerate(rows)]
    return make_sample(bases, cluster, np.eye(sites), [f'site {site}' for site in range(sites)])


def fastest(task: Callable[[], Any]) -> float:
    """Seconds of the fastest of some turns."""
    seconds = []
    for _ in range(TURNS):
        start = time.perf_counter()
        task()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def measure() -> dict[str, Any]:
    """Seconds of every part, by number of sites."""
    return {'seconds': {sites: _measured(sites) for sites in SITES}}


def _measured(sites: int) -> dict[str, float]:
    sample = made_up(sites)
    found = stats.analyse_sample(sample).outcomes
    tasks: dict[str, Callable[[], Any]] = {
        'scores and influences': lambda: made_up(sites),
        f'{len(found)} statistics, {RECIPES * (RECIPES - 1) // 2} pairs each': lambda: stats.analyse_sample(sample),
        'chances of being on the front': lambda: stats.front_shares(found['avg'], found['worst']),
    }
    return {name: fastest(task) for name, task in tasks.items()}


def as_markdown(found: Mapping[str, Any]) -> str:
    """A line per part, and their sum, for every number of sites."""
    rows = [
        (str(sites), name, f'{value:.2f}')
        for sites, seconds in found['seconds'].items()
        for name, value in (seconds | {'all': sum(seconds.values())}).items()
    ]
    about = f'{RECIPES} recipes, {SEEDS} seeds, {EXAMPLES:,} test examples; the fastest of {TURNS}'
    return page('Statistics of a comparison', about, found, table(('sites', 'what', 'seconds'), rows))


if __name__ == '__main__':
    program('statistics', __doc__, measure, as_markdown)
