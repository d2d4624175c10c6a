"""The promises of the engine that every recipe must keep, for our own recipes and for those of plug-ins.

>>> [promise for promise in PROMISES if 'checkpoint' in promise]
['a checkpoint continues bit for bit']

In a test of your own::

    @pytest.mark.parametrize('promise', conformance.PROMISES)
    def test_my_method(promise):
        conformance.PROMISES[promise](conformance.lab('my_method'))

On the command line: ``fedjax-fair check-method my_method.py``.
"""

from __future__ import annotations

import functools
import pathlib
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.client_map import replicate
from fedjax_fair.core.types import PyTree
from fedjax_fair.options import Range
from fedjax_fair.registry import recipes
from fedjax_fair.testing.lab import IMAGES, KEY, NOBODY, SIZES, SOME, Lab

Promise = Callable[[Lab], None]
PROMISES: dict[str, Promise] = {}
EVERYONE = (0, 1, 2, 3, 4, NOBODY)


class Check(NamedTuple):
    """Whether a recipe keeps one promise, and if not, why."""

    name: str
    passed: bool
    message: str = ''


def check(recipe: str, hyper: Mapping[str, Any] | None = None) -> list[Check]:
    """Try a recipe on all promises. An error that is no broken promise, such as a bug in the method, is raised."""
    this = Lab(recipe, hyper)
    checks = []
    for name, promise in PROMISES.items():
        try:
            promise(this)
            checks.append(Check(name, True))
        except AssertionError as error:
            checks.append(Check(name, False, ' '.join(str(error).split())[:300]))
    return checks


@functools.cache
def lab(recipe: str) -> Lab:
    """The laboratory of a recipe; its compiled programs are shared by all promises."""
    return Lab(recipe)


def promise(name: str) -> Callable[[Promise], Promise]:
    """Add a promise under a name."""

    def add(check: Promise) -> Promise:
        PROMISES[name] = check
        return check

    return add


def assert_close(a: PyTree, b: PyTree, tolerance: float = 1e-5) -> None:
    """All leaves are close, and the trees and dtypes the same."""
    chex.assert_trees_all_equal_structs(a, b)
    chex.assert_trees_all_equal_dtypes(a, b)
    chex.assert_trees_all_close(a, b, rtol=tolerance, atol=tolerance)


def assert_same(a: PyTree, b: PyTree) -> None:
    """All leaves are equal bit for bit."""
    chex.assert_trees_all_equal(jax.device_get(a), jax.device_get(b))


@promise('stays finite and is traced once')
def _finite(this: Lab) -> None:
    chex.assert_tree_all_finite(this.reference.variables)
    assert int(this.reference.round) == 3


@promise('keeps shapes and dtypes')
def _shapes(this: Lab) -> None:
    chex.assert_trees_all_equal_shapes_and_dtypes(this.start, this.reference)
    for name, table in this.reference.clients.items():
        chex.assert_tree_shape_prefix(table, (len(SIZES),), custom_message=f'rows of {name}')


@promise('learns a toy task')
def _learns(this: Lab) -> None:
    this.go(EVERYONE, rounds=1)
    first = float(this.metrics['train_loss'])
    this.go(EVERYONE, rounds=12)
    last = float(this.metrics['train_loss'])
    assert last < 0.9 * first, f'the training loss only goes from {first:.3f} to {last:.3f} in 12 rounds'


@promise('the order of clients and empty slots change nothing')
def _order(this: Lab) -> None:
    """Clients of equally many steps change places as well: the engine sorts only by steps."""
    assert_close(this.go((NOBODY, 3, 2, NOBODY, 1, 0)), this.reference)


@promise('all client maps and static hyper-parameters agree')
def _client_maps(this: Lab) -> None:
    """All at once on one device; in chunks of two on two devices that have the rows and examples of their clients."""
    homes, rows = this.homes, this.start.clients
    state = replicate(this.two_devices, this.start)  # where rounds leave it, or the second one would be compiled again
    if homes is not None:
        state = state._replace(clients=jax.device_put(homes.settled(rows), homes.divided))
    for _ in range(3):
        state, _ = this.static(state, this.cohort(SOME, homes), jnp.uint32(KEY))
    found = jax.device_get(state)
    assert_close(found if homes is None else found._replace(clients=homes.listed(found.clients)), this.reference)


@promise('seeds and float hyper-parameters may be vmapped')
def _lanes(this: Lab) -> None:
    """Two lanes that differ in the seed and in every float hyper-parameter equal two separate runs."""
    other = {name: _another(name, value) for name, value in this.hyper.items()}
    both = {k: jnp.asarray([this.hyper[k], other[k]]) for k in this.hyper}
    singles = [this.started(this.hyper), this.started(other)]
    state = jax.tree.map(lambda *leaves: jnp.stack(leaves), *singles)
    for _ in range(2):
        state, _ = this.lanes(both, state, this.cohort(SOME), jnp.asarray([KEY, KEY + 1], jnp.uint32))
    first = this.go(rounds=2, state=singles[0])
    second = this.go(rounds=2, hyper=other, seed=KEY + 1, state=singles[1])
    assert_close(jax.tree.map(lambda leaf: leaf[0], state), first)
    assert_close(jax.tree.map(lambda leaf: leaf[1], state), second)


def _another(name: str, value: float) -> float:
    """Another value that a float hyper-parameter may have, if there is one."""
    part, _, key = name.partition('.')
    allowed = recipes.options(part)[key].range or Range()
    return next(number for number in (value * 0.7 + 0.01, value * 1.3 + 0.01, value) if number in allowed)


@promise('absent clients keep their rows')
def _absent(this: Lab) -> None:
    before = this.reference
    after = this.go((1, 3, NOBODY, NOBODY, NOBODY, NOBODY), rounds=1, state=before)
    absent = np.array([0, 2, 4, 5])
    assert_same(*(jax.tree.map(lambda leaf: leaf[absent], s.clients) for s in (before, after)))
    np.testing.assert_array_equal(after.seen - before.seen, [0, 1, 0, 1, 0, 0])


@promise('a client without examples is harmless')
def _empty(this: Lab) -> None:
    assert_close(this.go((0, 1, 2, 3, 5, NOBODY)), this.reference)


@promise('a client whose training is not finite is left out and counted')
def _astray(this: Lab) -> None:
    hyper = {k: jnp.asarray(v) for k, v in this.hyper.items()}
    poisoned = this.data.x.at[sum(SIZES[:4])].set(jnp.nan)  # an example of client 4
    cohort = this.cohort(EVERYONE)._replace(x=poisoned)
    state, metrics = this.round(hyper, this.start, cohort, jnp.uint32(KEY))
    assert_close(state, this.go(rounds=1))
    assert float(metrics['failed']) == 1
    alone = this.cohort((4, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY))._replace(x=poisoned)
    state, metrics = this.round(hyper, this.start, alone, jnp.uint32(KEY))
    assert_same(state._replace(round=this.start.round), this.start)
    assert float(metrics['empty']) == 1


@promise('its gradients are counted')
def _passes(this: Lab) -> None:
    assert this.algorithm(this.hyper).passes(IMAGES.y[0]).step_gradients >= 1, 'no gradient of the network is taken'


@promise('a checkpoint continues bit for bit')
def _checkpoint(this: Lab) -> None:
    from fedjax_fair.training.checkpoint import Checkpoints  # orbax is slow to import

    saved = this.go(rounds=1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        store = Checkpoints(folder)
        store.save(1, saved, {'sums': [1.5]})
        store.close()
        restored, tallies = Checkpoints(folder).restore(this.start)
        assert tallies == {'sums': [1.5]}
        restored = jax.device_get(restored)  # placed like any other state, so that no round is compiled again
        assert_same(this.go(rounds=2, state=restored), this.reference)
