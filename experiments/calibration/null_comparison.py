"""How often two groups of runs of the same recipe are called different: real training, no true difference.

One cheap recipe is trained with 400 seeds. They form 80 groups of five seeds, and these 40 pairs, in the order of the
seeds. Whoever calls one group of a pair better is wrong::

    python -m experiments.calibration.null_comparison --folder=runs/null
"""

from __future__ import annotations

import dataclasses
import pathlib
import shlex

import numpy as np
from absl import app, flags

from experiments.study import without_folders
from fedjax_fair import Config, results, run, stats
from fedjax_fair.results.comparison import samples_of

SEEDS, GROUP = 400, 5
CONFIG = Config(
    recipe='fedavg',
    scenario='digits_domains',
    model='logreg',
    seeds=tuple(range(SEEDS)),
    rounds=10,
    eval_every=10,
    last_k=1,
    local_epochs=1,
    lr=0.05,
)


def wilson(count: int, total: int, z: float = 1.959964) -> tuple[float, float]:
    """The 95 % interval of a share by Wilson's formula.

    >>> [round(end, 3) for end in wilson(2, 40)]
    [0.014, 0.165]
    """
    share, spare = count / total, z**2 / total
    centre = (share + spare / 2) / (1 + spare)
    half = z * np.sqrt(share * (1 - share) / total + spare / total / 4) / (1 + spare)
    return float(centre - half), float(centre + half)


def groups_of(kept: results.Predictions) -> list[results.Predictions]:
    """Five seeds each, numbered by their place in the group."""
    parts = []
    for first in range(0, len(kept.seed), GROUP):
        own = slice(first, first + GROUP)
        records = {name: value[own] for name in ('prediction', 'score') if (value := getattr(kept, name)) is not None}
        parts.append(dataclasses.replace(kept, seed=np.arange(GROUP), round=kept.round[own], **records))
    return parts


def judged(kept: results.Predictions) -> dict[str, list[bool]]:
    """For every pair of groups: is one called better (or worse), by our verdict and by older practice?"""
    groups = groups_of(kept)
    names = (
        'verdict on AVG',
        'verdict on spread',
        'bars of one deviation do not overlap',
        'paired t over seeds',
        'the larger mean is marked as best',
    )
    wrong: dict[str, list[bool]] = {name: [] for name in names}
    for pair in zip(groups[::2], groups[1::2], strict=True):
        outcomes = stats.analyse_sample(samples_of(pair, ('one', 'other')).groups).outcomes
        for name, statistic in zip(names, ('avg', 'spread2'), strict=False):
            wrong[name].append(bool(outcomes[statistic].p[0] <= 0.05))
        one, other = outcomes['avg'].values
        wrong[names[2]].append(bool(abs(one.mean() - other.mean()) > one.std() + other.std()))
        difference = one - other
        t = abs(difference.mean()) / (difference.std(ddof=1) / np.sqrt(GROUP))
        wrong[names[3]].append(bool(t > 2.776445))
        wrong[names[4]].append(bool(one.mean() != other.mean()))
    return wrong


def main(_: list[str]) -> None:
    """Train, judge all pairs and write the rates."""
    out = pathlib.Path(flags.FLAGS.folder)
    run(CONFIG, out, resume=(out / results.CONFIG).exists())
    lines = {}
    for name, wrong in judged(results.predictions(out)).items():
        low, high = wilson(sum(wrong), len(wrong))
        lines[name] = {'wrong': sum(wrong), 'pairs': len(wrong), 'interval': [low, high]}
        print(f'{name}: {sum(wrong)} of {len(wrong)} wrong ({100 * low:.1f} to {100 * high:.1f} %)')
    trained = results.read_config(out)
    command = ' '.join(map(without_folders, shlex.split(trained['command'])))
    facts = {'command': command, 'trained_by_commit': trained['commit'], 'rates': lines}
    results.write_json(out / 'null_comparison.json', facts)


if __name__ == '__main__':
    flags.DEFINE_string('folder', 'runs/null', 'where the run and its rates go')
    app.run(main)
