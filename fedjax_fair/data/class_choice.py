"""Keeps some classes of a pool: two that are hard to tell apart make a binary task, for example."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedjax_fair.data.pool import Pool
from fedjax_fair.errors import UserError


def only_classes(pool: Pool, classes: Sequence[int] | None) -> Pool:
    """The examples of some classes, which are numbered anew in the order given; all where there is no choice.

    >>> pool = Pool(np.zeros((4, 2)), np.array([5, 0, 3, 5]), np.zeros(4, bool))
    >>> only_classes(pool, (3, 5)).y.tolist()
    [1, 0, 1]
    """
    if not classes:
        return pool
    told = f'`classes`={",".join(map(str, classes))}'
    if pool.task != 'classification':
        raise UserError(f'{told} does not apply to `task`={pool.task}, but to classification')
    if len(classes) < 2 or len(set(classes)) < len(classes):
        raise UserError(f'{told} must be at least two different classes')
    held = np.unique(pool.y)
    if missing := [one for one in classes if one not in held]:
        raise UserError(f'{told}: there are no examples of class {missing[0]}, but of {", ".join(map(str, held))}')
    number = np.full(int(held[-1]) + 1, -1, np.int32)
    number[list(classes)] = np.arange(len(classes))
    names = tuple(pool.class_names[one] for one in classes) if pool.class_names else ()
    kept = pool.take(number[pool.y] >= 0)
    return kept._replace(y=number[kept.y], class_names=names)
