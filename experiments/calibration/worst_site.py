"""Sharper tests for worst and gap, tried beside the published one: false verdicts and power.

The published test uses the raw minimum, and the variance within one seed (``own``) of the site that is the lowest. Here
the minimum is corrected for its bias, the variance is that between seeds (``kappa``), or sites are weighted by their
chance to be the lowest. A test is calibrated if no more than 5 % of its verdicts are false in every setting::

    python -m experiments.calibration.worst_site --replicates=600 --folder=runs/worst_site
"""

from __future__ import annotations

import pathlib

import numpy as np
from absl import app, flags

from experiments.calibration.simulation import CENTRE, SETTINGS, Setting, rates_in
from experiments.study import command
from fedjax_fair import results
from fedjax_fair.stats import inference
from fedjax_fair.stats.sample import Sample

SEEDS = (3, 5, 10)
DRAWS = np.random.default_rng(7).standard_normal((100, 20))
DRAWS = np.concatenate([DRAWS, -DRAWS])
VARIANTS = {  # corrected, weighted by chances, smooth: kappa in place of own
    'published': (False, False, False),
    'corrected': (True, False, False),
    'corrected, weighted': (True, True, False),
    'corrected, kappa': (True, False, True),
    'kappa': (False, False, True),
}
# The levels of the sites are 0.3 times as far apart in the first recipe: worst is 6 points higher, the gap 10 smaller.
LEVELS = np.stack([CENTRE + share * (SETTINGS['B'].levels[0] - CENTRE) for share in (0.3, 1.0)])
DIFFERENT = {images: Setting((images,) * 6, 1, 2, LEVELS) for images in (100, 400)}


def lowest(scores: np.ndarray, sd: np.ndarray, corrected: bool, weighted: bool) -> tuple[np.ndarray, np.ndarray]:
    """The minimum over sites ``[R, S]``, and the weight of every site in it ``[R, S, J]``."""
    noisy = scores[:, :, None] + sd[:, :, None] * DRAWS[:, : scores.shape[-1]]
    places = np.arange(scores.shape[-1])
    chances = (noisy.argmin(-1)[..., None] == places).mean(2)
    value = scores.min(-1)
    if corrected:
        value = 2 * value - noisy.min(-1).mean(-1)
    return value, chances if weighted else (scores.argmin(-1)[..., None] == places).astype(np.float64)


def judged(sample: Sample) -> dict[str, inference.Errors]:
    """Worst and gap by every variant."""
    found = {}
    scores, sd = sample.scores, np.sqrt(sample.variances)
    for name, (corrected, weighted, smooth) in VARIANTS.items():
        worst, down = lowest(scores, sd, corrected, weighted)
        best, up = lowest(-scores, sd, corrected, weighted)
        for statistic, value, gradient in (('worst', worst, down), ('gap', -best - worst, up - down)):
            found[f'{statistic}: {name}'] = inference.pair_errors(value, sample.pull(gradient), smooth)
    return found


def main(_: list[str]) -> None:
    """Print and write decided verdicts, in percent: false in the settings without a difference, power in the others."""
    settings = SETTINGS | {f'{images} images, different': one for images, one in DIFFERENT.items()}
    columns = [f'{statistic}: {name}' for statistic in ('worst', 'gap') for name in VARIANTS]
    print(f'| setting | seeds | {" | ".join(columns)} |\n|---|---|{"---|" * len(columns)}')
    lines = []
    for number, (name, setting) in enumerate(settings.items()):
        for seeds in SEEDS:
            rng = np.random.default_rng([1, number, seeds])
            rates = rates_in(setting, seeds, flags.FLAGS.replicates, rng, judged)
            decided = {column: round(100 * rates[column].decided, 1) for column in columns}
            print(f'| {name} | {seeds} | {" | ".join(f"{decided[column]:.1f}" for column in columns)} |', flush=True)
            lines.append({'setting': name, 'seeds': seeds, 'decided_percent': decided})
    about = {'command': command(), 'commit': results.git_commit(), 'versions': results.versions()}
    out = pathlib.Path(flags.FLAGS.folder)
    out.mkdir(parents=True, exist_ok=True)
    facts = {**about, 'comparisons_per_line': flags.FLAGS.replicates, 'lines': lines}
    results.write_json(out / 'worst_site.json', facts)


if __name__ == '__main__':
    flags.DEFINE_integer('replicates', 600, 'comparisons per line', lower_bound=1)
    flags.DEFINE_string('folder', 'runs/worst_site', 'where the rates go')
    app.run(main)
