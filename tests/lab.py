"""One recipe, compiled a few times, for many properties to look at: the laboratory of the conformance suite."""

from __future__ import annotations

import functools
import pathlib

import jax
import numpy as np

from fedjax_fair.core import Algorithm, build
from fedjax_fair.core.client_map import ClientMap
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.testing import tiny_mlp
from fedjax_fair.testing.conformance import assert_close, assert_same
from fedjax_fair.testing.lab import FEDERATION, IMAGES, KEY, LOCAL, NOBODY, SIZES, Lab

__all__ = [
    'FEDERATION',
    'IMAGES',
    'KEY',
    'LOCAL',
    'NOBODY',
    'SIZES',
    'Lab',
    'algorithm',
    'assert_close',
    'assert_same',
    'assert_same_bytes',
    'lab',
]

GOLDEN = pathlib.Path(__file__).parent / 'golden'  # numbers of published code
FFL4MIA_PARAMS = ('fc1_weight', 'fc1_bias', 'bn_weight', 'bn_bias', 'fc2_weight', 'fc2_bias')  # of its golden network
FFL4MIA_STATS = ('bn_running_mean', 'bn_running_var')

# Recipes with hyper-parameters that change what a method is, under names of their own.
VARIANTS: dict[str, tuple[str, dict]] = {
    'fedheal as written': ('fedheal', {'fedheal.semantics': 'paper'}),
    'fedheal as released': ('fedheal', {'fedheal.compat_partial': True}),
    'ditto served': ('ditto', {'ditto.aggregate': 'served'}),
}


def algorithm(recipe: str, hyper=None, client_map=ClientMap(), local=LOCAL, rounds=5, data=FEDERATION) -> Algorithm:
    return build(
        tiny_mlp(batch_norm=True),
        classification(3),
        make_methods(recipe, hyper),
        sizes=SIZES,
        example=data.x[0],
        local=local,
        rounds=rounds,
        client_map=client_map,
    )


def assert_same_bytes(a, b) -> None:
    """All leaves are equal bit for bit, the signs of zeros included."""
    assert_same(
        *(jax.tree.map(lambda leaf: np.frombuffer(leaf.tobytes(), np.uint8), jax.device_get(t)) for t in (a, b))
    )


@functools.cache
def lab(name: str) -> Lab:
    """Of a recipe or a variant of one."""
    return Lab(*VARIANTS.get(name, (name, {})))
