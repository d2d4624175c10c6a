"""The chance of being on the front: that no other recipe is better in two statistics at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedjax_fair.stats.analysis import Outcome

DRAWS = 4000
ROUNDING = 1e-7  # of draws: recipes with the same predictions must not beat each other by it


def shared_covariance(outcomes: Sequence[Outcome]) -> np.ndarray:
    """``K[N, N]``: covariances that test patients cause between all recipes' means, of one or several statistics.

    As ``kappa`` of a difference; where a statistic is not smooth, its own variances are those within one seed.
    """
    strata = [np.concatenate(parts) for parts in zip(*(o.influences for o in outcomes), strict=True)]  # [N, S, C]
    seeds = strata[0].shape[1]
    own = sum(np.einsum('nsc,msc->nm', u, u) for u in strata) / seeds
    if seeds == 1:
        return np.asarray(own)
    sums = sum(np.einsum('nc,mc->nm', u.sum(1), u.sum(1)) for u in strata)
    shared = (sums - seeds * own) / (seeds * (seeds - 1))
    count, at = len(outcomes[0].values), 0
    for outcome in outcomes:
        if not outcome.statistic.smooth:
            block = slice(at, at + count)
            shared[block, block] = own[block, block]
        at += count
    return shared


def front_shares(one: Outcome, other: Outcome, seed: int = 0, among: Sequence[int] | None = None) -> np.ndarray:
    """``[R]``: in which share of draws from both errors a recipe is on the front of two statistics.

    A draw is ``mean + sqrt((S - 1) / chi2) sum_s (T_s - mean) e_s / sqrt(S (S - 1)) + K^(1/2) z``. It describes; it is
    no test. ``among`` are the places of the recipes that are compared, in their order; by default all.
    """
    values = np.concatenate([one.values, other.values])
    count, seeds = len(one.values), values.shape[1]
    rng = np.random.default_rng(seed)
    eigen, vectors = np.linalg.eigh(shared_covariance((one, other)))
    root = vectors * np.sqrt(np.maximum(0, eigen))
    draws = values.mean(1) + rng.standard_normal((DRAWS, 2 * count)) @ root.T
    if seeds > 1:
        centred = values - values.mean(1, keepdims=True)
        scale = np.sqrt((seeds - 1) / rng.chisquare(seeds - 1, DRAWS)) / np.sqrt(seeds * (seeds - 1))
        draws += scale[:, None] * (rng.standard_normal((DRAWS, seeds)) @ centred.T)
    signs = [1 if o.statistic.higher_is_better else -1 for o in (one, other)]
    places = np.arange(count) if among is None else np.asarray(among, int)
    x, y = signs[0] * draws[:, places], signs[1] * draws[:, count + places]
    (x, own_x), (y, own_y) = ((one[:, None, :], one[:, :, None]) for one in (x, y))
    as_good = (x >= own_x - ROUNDING) & (y >= own_y - ROUNDING)
    better = (x > own_x + ROUNDING) | (y > own_y + ROUNDING)
    return 1 - (as_good & better).any(2).mean(0)


def ellipse(one: Outcome, other: Outcome, recipe: int) -> np.ndarray:
    """``[2, 2]``: the covariance of one recipe's two means: what seeds and test patients cause."""
    count, seeds = one.values.shape
    places = [recipe, count + recipe]
    shared = shared_covariance((one, other))[np.ix_(places, places)]
    if seeds == 1:
        return shared
    return np.cov(np.stack([one.values[recipe], other.values[recipe]])) / seeds + shared
