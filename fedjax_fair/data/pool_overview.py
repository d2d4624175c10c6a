"""A pool at a glance: what a source holds, before it is dealt to clients."""

from __future__ import annotations

import numpy as np

from fedjax_fair.data.federation_overview import count_classes
from fedjax_fair.data.pool import Pool

SIDES = ('training', 'test')
EXAMPLES_AT_ONCE = 1024  # examples looked at at once


def class_names(pool: Pool) -> list[str]:
    """The names of the classes of examples, numbers where they have none."""
    known = pool.y.shape[1] if pool.y.ndim > 1 else int(pool.y.max()) + 1
    return list(pool.class_names) or [str(c) for c in range(known)]


def counts_of_classes(pool: Pool) -> np.ndarray:
    """Training and test examples of every class, ``[classes, 2]``; of several labels all count."""
    classes = len(class_names(pool))
    return np.stack([count_classes(pool.y[side], classes) for side in (~pool.held_out, pool.held_out)], 1)


def counts_of_sites(pool: Pool) -> np.ndarray:
    """Training and test examples of every site or domain, ``[sites, 2]``; none where there are no sites."""
    known = pool.site_index >= 0 if pool.sites else np.zeros(len(pool.y), bool)
    sides = (known & ~pool.held_out, known & pool.held_out)
    return np.stack([np.bincount(pool.site_index[side], minlength=len(pool.sites)) for side in sides], 1)


def facts(pool: Pool) -> dict[str, str]:
    """Facts about all examples, one line each."""
    x, tested = pool.x, int(pool.held_out.sum())
    unused = f' ({pool.left_out} more, for validation, are left out)' if pool.left_out else ''
    lines = {
        'examples': f'{len(x)}: {len(x) - tested} for training, {tested} for testing{unused}',
        'inputs': f'{"x".join(map(str, x.shape[1:]))} {x.dtype}',
        'values': '{:g} to {:g}, mean {:.4g}'.format(*value_range(x)),
        'task': f'{pool.task}, {pool.num_classes} classes',
        'sites': f'{len(pool.sites)}' if pool.sites else 'none',
        'patients': 'not known',
    }
    if pool.patient_of is not None:
        sizes = np.unique(pool.patient_of, return_counts=True)[1]
        lines['patients'] = f'{len(sizes)}, of {sizes.min()} to {sizes.max()} examples each'
    return lines


def value_range(x: np.ndarray) -> tuple[float, float, float]:
    """The smallest, the largest and the mean value, of a part at a time: examples may be in a file."""
    parts = (x[start : start + EXAMPLES_AT_ONCE] for start in range(0, len(x), EXAMPLES_AT_ONCE))
    low, high, total = zip(*((p.min(), p.max(), p.sum(dtype=np.float64)) for p in parts), strict=True)
    return float(min(low)), float(max(high)), sum(total) / x.size
