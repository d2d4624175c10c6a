"""A validation set for every client, split off its training examples."""

from __future__ import annotations

import dataclasses

import numpy as np

from fedjax_fair.data.federation import Federation, index_table, stack_tests


def with_validation(federation: Federation, share: float, seed: int = 0) -> Federation:
    """Keep ``floor(share n)`` of each client's ``n`` training examples, drawn by its number, to validate on.

    The draw is of examples: those of one slide or patient may come to lie on both sides. No test example is touched.
    """
    train, held = [], []
    for client, (row, size) in enumerate(zip(federation.index, federation.sizes, strict=True)):
        count = int(share * size + 1e-9)  # 0.29 of 100 are 29
        if not 0 < count < size:
            raise ValueError(
                f'--validation={share} of the {size} examples of client {client} are {count}; each client needs at '
                f'least one to validate on and one to train on'
            )
        order = np.random.default_rng([seed, client]).permutation(int(size))
        train.append(row[np.sort(order[count:])])
        held.append(row[np.sort(order[:count])])
    index, sizes = index_table(train)
    names = [f'client {n}' for n in range(len(held))]
    sets = stack_tests([(federation.x[rows], federation.y[rows]) for rows in held], np.arange(len(held)), names)
    return dataclasses.replace(federation, index=index, sizes=sizes, validation=sets)
