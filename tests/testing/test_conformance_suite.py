"""The conformance suite finds methods that break a promise."""

import jax
import jax.numpy as jnp
import pytest

from fedjax_fair.core import Method
from fedjax_fair.registry import recipes, register
from fedjax_fair.testing import conformance


@pytest.fixture
def broken():
    """Registers a method for one test."""
    names = []

    def add(method):
        names.append(method.name)
        register.recipe(method.name)(lambda: [method])
        return method.name

    yield add
    for name in names:
        del recipes[name]


def failures(recipe):
    return {check.name: check.message for check in conformance.check(recipe) if not check.passed}


def test_a_weight_by_slot_is_found(broken):
    first = Method('first_slot', score=lambda view, updates: jnp.where(jnp.arange(len(view.n)) == 0, 5.0, 0.0))
    assert 'the order of clients and empty slots change nothing' in failures(broken(first))


def test_a_method_that_does_not_learn_is_found(broken):
    uphill = Method(
        'uphill', finish=lambda view, updates, weights, update: jax.tree.map(lambda leaf: -leaf / 10, update)
    )
    found = failures(broken(uphill))
    assert found.keys() == {'learns a toy task'}
    assert 'the training loss only goes from' in found['learns a toy task']


def test_a_bug_in_a_method_is_its_own_error(broken):
    wrong = Method('wrong', score=lambda view, updates: view.reports['nothing'])
    with pytest.raises(KeyError, match="wrong has not reported 'nothing'; reported: nothing"):
        conformance.check(broken(wrong))
