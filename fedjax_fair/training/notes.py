"""What a user should know of a run before it begins."""

from __future__ import annotations

import jax
import numpy as np

from fedjax_fair.core import Local
from fedjax_fair.core.types import Algorithm
from fedjax_fair.data import Federation


def notes_of(local: Local, federation: Federation, algorithm: Algorithm) -> tuple[str, ...]:
    """Choices made by auto, settings of local training that a method overrules, batches of one example.

    ``local`` is what the settings ask for.
    """
    how = 'stacked' if algorithm.facts['stacked'] else 'accumulated'
    notes = [f'clients: {algorithm.facts["client_map"]}; updates {how}']
    for key, owner in algorithm.facts['fixed_by'].items():
        asked, used = getattr(local, key), getattr(algorithm.facts['local'], key)
        if asked != used:
            notes.append(f'{owner} trains with {key}={used} instead of {asked}')
    lone = int(np.sum(federation.sizes % algorithm.facts['local'].batch_size == 1))
    if lone and jax.tree.leaves(jax.eval_shape(algorithm.init, jax.random.key(0)).variables['batch_stats']):
        whose = f'the last batch of {lone} of {federation.num_clients} clients'
        notes.append(f'{whose} is a single example, of which batch norm makes little; try another batch_size')
    return tuple(notes)
