"""A pool at a glance: what a source holds before any client gets it."""

from __future__ import annotations

import os

import numpy as np

from fedjax_fair.data.pool import Pool
from fedjax_fair.data.summary import class_flags, draw_sheet

SIDES = ('training', 'test')
CHUNK = 1024  # examples looked at at once
MANY_GROUPS = 6  # more than these have one row of images each


def class_names(pool: Pool) -> list[str]:
    """The names of the classes of examples, numbers where they have none."""
    known = pool.y.shape[1] if pool.y.ndim > 1 else int(pool.y.max()) + 1
    return list(pool.class_names) or [str(c) for c in range(known)]


def counts_of_classes(pool: Pool) -> np.ndarray:
    """Training and test examples of every class, ``[classes, 2]``; of several labels all count."""
    flags = class_flags(pool.y, len(class_names(pool)))
    return np.stack([flags[~pool.held_out].sum(0), flags[pool.held_out].sum(0)], 1)


def counts_of_sites(pool: Pool) -> np.ndarray:
    """Training and test examples of every site or domain, ``[groups, 2]``; none where there are no sites."""
    own = np.arange(len(pool.groups))[:, None] == pool.origin
    return np.stack([(own & ~pool.held_out).sum(1), (own & pool.held_out).sum(1)], 1)


def facts(pool: Pool) -> dict[str, str]:
    """What can be said of all examples in a line each."""
    x, tested = pool.x, int(pool.held_out.sum())
    unused = f' ({pool.left_out} more, for validation, are left out)' if pool.left_out else ''
    found = {
        'examples': f'{len(x)}: {len(x) - tested} for training, {tested} for testing{unused}',
        'inputs': f'{"x".join(map(str, x.shape[1:]))} {x.dtype}',
        'values': '{:g} to {:g}, mean {:.4g}'.format(*value_range(x)),
        'task': f'{pool.task}, {pool.num_classes} classes',
        'sites': f'{len(pool.groups)}' if pool.groups else 'none',
        'groups': 'none (slides, patients)',
    }
    if pool.cluster_of is not None:
        sizes = np.unique(pool.cluster_of, return_counts=True)[1]
        found['groups'] = f'{len(sizes)} (slides, patients), of {sizes.min()} to {sizes.max()} examples'
    return found


def value_range(x: np.ndarray) -> tuple[float, float, float]:
    """The smallest, the largest and the mean value, of a part at a time: examples may be in a file."""
    parts = (x[start : start + CHUNK] for start in range(0, len(x), CHUNK))
    low, high, total = zip(*((p.min(), p.max(), p.sum(dtype=np.float64)) for p in parts), strict=True)
    return float(min(low)), float(max(high)), sum(total) / x.size


def pool_sheet(pool: Pool, path: str | os.PathLike) -> None:
    """Draw images of every class for every site, or for training and testing where there are no sites.

    They are drawn at random, since neighbours in a file are often alike; masks that are to be learned are outlined.
    """
    order = np.random.default_rng(0).permutation(len(pool.y))
    side = pool.origin if pool.groups else pool.held_out.astype(int)
    groups = pool.groups or SIDES
    per_class = 2 if len(groups) <= MANY_GROUPS else 1
    rows = [order[side[order] == g] for g in range(len(groups))]
    names = class_names(pool)
    masks = pool.masks if pool.task == 'segmentation' else None
    draw_sheet(path, pool.x, class_flags(pool.y, len(names)), rows, groups, names, per_class, masks)
