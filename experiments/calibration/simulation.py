"""How often verdicts are right: the procedure of fedjax_fair.stats on made-up comparisons whose truth is known.

Every test image is answered rightly by a recipe and seed where a sum of normal effects is positive: the level of the
site, the seed, the patient, the image, and what recipe and run add to these. This prints the table of
docs/statistics.md::

    python -m experiments.calibration.simulation --replicates=2000
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from absl import app, flags
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from fedjax_fair.stats import inference
from fedjax_fair.stats.distribution import behrens_fisher
from fedjax_fair.stats.sample import Sample, judge, make_sample
from fedjax_fair.stats.scores import SCORES
from fedjax_fair.stats.statistics import STATISTICS, of_unit

IMAGES_PER_PATIENT = 4
PATIENT, IMAGE, PATIENT_RECIPE, IMAGE_RECIPE, IMAGE_RUN = 0.30, 0.40, 0.05, 0.10, 0.15  # variances; their sum is 1
CENTRE = ndtri(0.8)
POINT = 0.01 / norm.pdf(CENTRE)  # one point of score, on the scale of effects
SITE_SPREAD = 6.0  # points
ALIKE = 0.3  # correlation of two recipes' seed effects
SHOWN = ('avg', 'site0', 'spread2', 'worst', 'gap')
TRUTH_DRAWS = 200_000


class Setting(NamedTuple):
    """Sites with their numbers of images; deviations of seeds, and of seeds within sites, in points.

    ``levels[2, J]`` are the sites' scores on the scale of effects.
    """

    images: tuple[int, ...]
    seed: float
    seed_site: float
    levels: np.ndarray


def _levels(sites: int, permuted: bool) -> np.ndarray:
    scores = ndtri((np.arange(sites) + 0.5) / sites)
    own = CENTRE + POINT * SITE_SPREAD * scores / scores.std(ddof=1)
    return np.stack([own, np.roll(own, sites // 2) if permuted else own])


def _setting(images: tuple[int, ...], seed: float = 1, seed_site: float = 2, permuted: bool = False) -> Setting:
    return Setting(images, seed, seed_site, _levels(len(images), permuted))


SETTINGS = {
    'A': _setting((40,) * 4, seed=0.5, seed_site=1),
    'B': _setting((100,) * 6),
    'C': _setting((100,) * 6, permuted=True),
    'D': _setting((20,) * 20, permuted=True),
    'E': _setting((400,) * 10, seed=2, permuted=True),
    'F': _setting((24, 40, 60, 100, 200, 480), permuted=True),
    'G': _setting((500,) * 4, seed=3, seed_site=3),
    'H': Setting((100,) * 6, 1, 2, ndtri(np.array([[0.689, *[0.82] * 5], [0.72] * 6]))),
}


def effects(setting: Setting, seeds: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """``[draws, 2, S, J]``: the level of every recipe, seed and site, so that its true score is ``Phi``."""

    def alike(*shape: int) -> np.ndarray:
        both = np.sqrt(ALIKE) * rng.standard_normal((draws, 1, *shape))
        return both + np.sqrt(1 - ALIKE) * rng.standard_normal((draws, 2, *shape))

    seed = POINT * setting.seed * alike(seeds, 1)
    within = POINT * setting.seed_site * alike(seeds, len(setting.images))
    return setting.levels[:, None] + seed + within


def answers(setting: Setting, eta: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right answers ``[2, S, M]`` of one comparison, with site and patient of every image."""
    images = np.array(setting.images)
    site = np.repeat(np.arange(len(images)), images)
    patient = np.concatenate([np.arange(n) // IMAGES_PER_PATIENT for n in images])
    patient = patient + np.concatenate([[0], np.cumsum(-(-images // IMAGES_PER_PATIENT))])[site]
    count, seeds = len(site), eta.shape[1]

    def normal(variance: float, *shape: int) -> np.ndarray:
        return np.sqrt(variance) * rng.standard_normal(shape)

    people = patient[-1] + 1
    total = eta[..., site] + normal(PATIENT, people)[patient] + normal(IMAGE, count)
    total += (normal(PATIENT_RECIPE, 2, people)[:, patient] + normal(IMAGE_RECIPE, 2, count))[:, None]
    return total + normal(IMAGE_RUN, 2, seeds, count) > 0, site, patient


def sample_of(right: np.ndarray, site: np.ndarray, patient: np.ndarray) -> Sample:
    """The answers as the statistics see them."""
    sites = range(site[-1] + 1)
    rows = [np.flatnonzero(site == j) for j in sites]
    bases = [judge(own, patient, SCORES['accuracy'](right[..., own])) for own in rows]
    return make_sample(bases, patient, np.eye(len(sites)), [str(j) for j in sites])


def statistics():
    """The statistics that are simulated, by name."""
    return {name: of_unit(0) if name == 'site0' else STATISTICS[name] for name in SHOWN}


def truth(setting: Setting, rng: np.random.Generator) -> dict[str, float]:
    """The true difference of every statistic: of the true scores of one training, averaged over trainings."""
    scores = ndtr(effects(setting, 1, TRUTH_DRAWS, rng))[:, :, 0]
    value = {
        'avg': scores.mean(-1),
        'site0': scores[..., 0],
        'spread2': scores.var(-1, ddof=1),
        'worst': scores.min(-1),
        'gap': np.ptp(scores, -1),
    }
    return {name: float((v[:, 0] - v[:, 1]).mean()) for name, v in value.items()}


class Rates(NamedTuple):
    """Shares of all comparisons: the 95 % interval holds the truth; the verdict is better or worse."""

    coverage: float
    decided: float


def as_published(sample: Sample) -> dict[str, inference.Errors]:
    """The difference of every statistic with its errors, as tables have them."""
    found = {}
    for name, statistic in statistics().items():
        values, gradient = statistic.value(sample)
        found[name] = inference.pair_errors(values, sample.pull(gradient), statistic.smooth)
    return found


def simulate(name: str, seeds: int, replicates: int, entropy: int = 0) -> dict[str, Rates]:
    """Coverage and decided verdicts of every statistic in one setting."""
    return rates_in(SETTINGS[name], seeds, replicates, np.random.default_rng([entropy, ord(name), seeds]))


def rates_in(
    setting: Setting,
    seeds: int,
    replicates: int,
    rng: np.random.Generator,
    judge_all: Callable[[Sample], dict[str, inference.Errors]] = as_published,
) -> dict[str, Rates]:
    """Coverage and decided verdicts of whatever is judged; names begin with that of a statistic, up to a colon."""
    true = truth(setting, rng)
    found: dict[str, list[inference.Errors]] = {}
    for eta in effects(setting, seeds, replicates, rng):
        for name, errors in judge_all(sample_of(*answers(setting, eta, rng))).items():
            found.setdefault(name, []).append(errors)
    rates = {}
    for name, pairs in found.items():
        estimate, *sources, _ = (np.concatenate(field) for field in zip(*pairs, strict=True))
        covered = behrens_fisher(estimate - true[name.partition(':')[0]], *sources) >= 0.05
        rates[name] = Rates(float(covered.mean()), float((behrens_fisher(estimate, *sources) <= 0.05).mean()))
    return rates


def main(_: list[str]) -> None:
    """Print the table."""
    print(f'| setting | seeds | {" | ".join(SHOWN)} |\n|---|---|{"---|" * len(SHOWN)}')
    for name in SETTINGS:
        for seeds in (3, 5, 10):
            rates = simulate(name, seeds, flags.FLAGS.replicates)
            cells = [f'{100 * rates[one].coverage:.1f} / {100 * rates[one].decided:.1f}' for one in SHOWN]
            print(f'| {name} | {seeds} | {" | ".join(cells)} |', flush=True)


if __name__ == '__main__':
    flags.DEFINE_integer('replicates', 1000, 'comparisons per line', lower_bound=1)
    app.run(main)
