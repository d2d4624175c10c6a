"""Every kernel gives the same numbers with and without ``jit``, from NumPy arrays and from arrays on the device."""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from absl.testing import parameterized

from fedjax_fair import ops

CLIENTS, EXAMPLES, CLASSES, FEATURES = 4, 6, 3, 5


class Case(NamedTuple):
    """A kernel, the arrays it is called with, and its other arguments."""

    arrays: tuple[Any, ...]
    static: Mapping[str, Any] = MappingProxyType({})
    first: tuple[Any, ...] = ()  # arguments before the arrays that are functions


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


def quartic(w: dict) -> jax.Array:
    return jnp.sum(w['a'] ** 4) + jnp.sum(w['b'] ** 2) + jnp.sum(w['a']) * w['b'][0]


LABELS = np.array([0, 1, 2, 0, 1, 1], np.int32)
MASK = np.array([True, True, False, True, True, True])
PRESENT = np.array([True, True, False, True])
COUNTS = np.array([2, 3, 0], np.int32)
KNOWN = np.array([True, True, False])
POINT = {'a': normal(2), 'b': normal(1)}
UPDATES = {'a': normal(CLIENTS, 3, 2), 'b': normal(CLIENTS, 2)}
GRAM = normal(CLIENTS, 7) @ normal(CLIENTS, 7).T
SHARES = np.full(CLIENTS, 0.25, np.float32)
LOGITS, FEATURE_ROWS = normal(EXAMPLES, CLASSES), normal(EXAMPLES, FEATURES)
PROTOTYPES = normal(CLASSES, FEATURES)
IMAGES = np.abs(normal(2, 6, 4, 3))
RHO = np.float32(0.1)

CASES: dict[str, Case] = {
    'adjusted_logits': Case((LOGITS, COUNTS + 1, np.float32(0.5))),
    'amplitude_normalize': Case((IMAGES, np.abs(normal(6, 4, 3)) + 1), {'band': 0.25}),
    'class_means': Case((FEATURE_ROWS, LABELS), {'num_classes': CLASSES}),
    'class_sums': Case((FEATURE_ROWS, LABELS, MASK), {'num_classes': CLASSES}),
    'collaboration_matrices': Case((np.abs(normal(CLIENTS)), normal(CLIENTS, CLASSES, FEATURES))),
    'collaboration_weights': Case((np.abs(normal(CLIENTS)), normal(CLIENTS, CLASSES, FEATURES), PRESENT)),
    'cross_entropy': Case((LOGITS, LABELS)),
    'consistent': Case((np.array([2, 3, 4]), np.array(10), np.float32(0.3))),
    'counted': Case((np.uint8([200, 3]), np.uint8([255, 7]), np.array([True, False]))),
    'feature_statistics': Case((FEATURE_ROWS, LABELS), {'num_classes': CLASSES}),
    'gram': Case((UPDATES, PRESENT)),
    'gsam_gradient': Case((POINT, RHO, np.float32(0.3)), first=(jax.value_and_grad(quartic),)),
    'harmonized_coefficients': Case((GRAM,), {'rule': 'frozen'}),
    'hierarchical_coefficients': Case((GRAM, normal(CLIENTS), PRESENT)),
    'leave_out': Case((normal(CLIENTS), GRAM, PRESENT)),
    'logit_adjusted_cross_entropy': Case((LOGITS, LABELS % 2, COUNTS, np.float32(1), MASK)),
    'margin_loss': Case((LOGITS, LABELS, np.float32(0.1)), {'kind': 'softmax_batch'}),
    'margin_penalty': Case((LOGITS,), {'kind': 'squared'}),
    'mean_amplitude': Case((IMAGES, np.array([True, False]))),
    'mean_prototypes': Case((normal(CLIENTS, CLASSES, FEATURES), np.tile(COUNTS, (CLIENTS, 1)), PRESENT)),
    'minimize_on_simplex': Case((GRAM, PRESENT)),
    'principal_axes': Case((GRAM,)),
    'principal_coefficients': Case((GRAM, SHARES), {'length': 'sum'}),
    'principal_directions': Case((UPDATES,)),
    'project_conflicts': Case((GRAM, np.arange(CLIENTS), PRESENT, ~PRESENT)),
    'project_simplex': Case((normal(CLIENTS), PRESENT)),
    'prototype_contrast': Case((FEATURE_ROWS, LABELS, PROTOTYPES, KNOWN)),
    'prototype_distance': Case((FEATURE_ROWS, LABELS, PROTOTYPES, KNOWN)),
    'proximal_term': Case((POINT, {'a': normal(2, seed=1), 'b': normal(1, seed=1)}, RHO), {'kind': 'norms'}),
    'sam_gradient': Case((POINT, RHO), first=(jax.value_and_grad(quartic),)),
    'sharpness': Case((POINT, RHO), first=(quartic,)),
    'sharpness_weights': Case((normal(CLIENTS), np.float32(2), PRESENT)),
    'tilted_consensus': Case((UPDATES, {'a': normal(3, 2), 'b': normal(2)}, np.float32(1)), {'steps': 2}),
    'tilted_mean': Case((normal(EXAMPLES), np.float32(2))),
    'two_level_tilted_loss': Case(
        (np.abs(normal(EXAMPLES)), LABELS), {'num_classes': CLASSES, 'tau': 0.5, 'lam': -1.0}
    ),
}


@functools.cache
def expected(name: str) -> Any:
    """The result of a kernel on arrays of the device, without ``jit``."""
    case = CASES[name]
    return getattr(ops, name)(*case.first, *jax.tree.map(jnp.asarray, case.arrays), **case.static)


def of_arrays(name: str) -> Callable[..., Any]:
    """The kernel as a function of its arrays alone."""
    case = CASES[name]
    return functools.partial(functools.partial(getattr(ops, name), *case.first), **case.static)


class KernelVariants(chex.TestCase):
    @chex.variants(with_jit=True, without_jit=True, with_device=True, without_device=True)
    @parameterized.named_parameters(*((name, name) for name in CASES))
    def test_kernel(self, name: str):
        kernel, arrays = of_arrays(name), CASES[name].arrays
        found = self.variant(lambda *given: kernel(*given))(*arrays)
        chex.assert_tree_all_finite(found)
        chex.assert_trees_all_equal_shapes_and_dtypes(found, expected(name))
        chex.assert_trees_all_close(found, expected(name), rtol=2e-5, atol=2e-6)


def test_every_kernel_has_a_case():
    assert set(CASES) == set(ops.__all__)
