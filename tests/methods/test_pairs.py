"""All pairs of registered recipes, by tracing: whoever joins a method leaves alone what it writes."""

import functools
import itertools
import re

import jax
import pytest
from lab import IMAGES, SIZES

from fedjax_fair.core import Local, Method, build
from fedjax_fair.core.client_map import ClientMap
from fedjax_fair.errors import UserError
from fedjax_fair.methods import RECIPES, make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.testing import tiny_mlp

FACTORIES = {factory: name for name, factory in reversed(RECIPES.items())}  # one name for each factory
NAMES = sorted(FACTORIES.values())
COHORT = IMAGES.cohort([0, 1])
KEY = jax.random.key(0)


def built(recipe, *more):
    local = Local(steps=1, batch_size=4, lr=0.1)
    facts = dict(sizes=SIZES, example=IMAGES.x[0], local=local, rounds=5, client_map=ClientMap(1))
    return build(tiny_mlp(batch_norm=True), classification(3), [*make_methods(recipe), *more], **facts)


def traced(recipe):
    """What a recipe writes, as shapes: reports of every method, shared measurements, server entries and rows."""
    seen = {}

    def look(view, updates, weights, update):
        seen.update(reports=dict(view.all_reports), measured=dict(view.measured))
        return None, None

    algorithm = built(recipe, Method('spy', commit=look))
    state = jax.eval_shape(algorithm.init, KEY)
    after, _ = jax.eval_shape(algorithm.round, state, COHORT, KEY)
    assert jax.tree.map(_shape, after) == jax.tree.map(_shape, state)
    return {
        'reports': {name: jax.tree.map(_shape, found) for name, found in seen['reports'].items()},
        'measured': jax.tree.map(_shape, seen['measured']),
        'server': jax.tree.map(_shape, after.server),
        'rows': jax.tree.map(_shape, {k: v for k, v in after.clients.items() if k != 'local_optimizer'}),
    }


def _shape(leaf):
    return leaf.shape, leaf.dtype


alone = functools.cache(traced)


def refusal(recipe):
    """Why a recipe is refused; None if it is not."""
    try:
        built(recipe)
    except UserError as error:
        return str(error)
    return None


def is_named(recipe, text):
    """The reason names the part that the user wrote, and not another whose name begins or ends like it."""
    return re.search(rf'\b{re.escape(recipe)}\b', text) is not None


@pytest.mark.parametrize('first', NAMES)
def test_a_pair_has_no_shared_writer_or_a_reason_to_be_refused(first):
    for second in NAMES[NAMES.index(first) + 1 :]:
        why = refusal(f'{first}+{second}')
        if why is not None:
            assert '\n' not in why
            assert is_named(first, why) and is_named(second, why), (first, second, why)
            continue
        both, one, two = traced(f'{first}+{second}'), alone(first), alone(second)
        for what in both:
            shared = set(one[what]) & set(two[what])
            assert not shared or what == 'measured', (first, second, what, shared)
            assert both[what] == {**one[what], **two[what]}, (first, second, what)


@pytest.mark.parametrize('first', NAMES)
def test_both_spellings_of_a_pair_are_the_same_algorithm(first):
    """Hooks run in the order of ``facts['methods']``; long tests also compare the traced programs."""
    for second in NAMES[NAMES.index(first) + 1 :]:
        spellings = [f'{first}+{second}', f'{second}+{first}']
        reasons = [refusal(spelling) for spelling in spellings]
        assert (reasons[0] is None) == (reasons[1] is None), reasons
        if reasons[0] is None:
            orders = [built(spelling).facts['methods'] for spelling in spellings]
            assert orders[0] == orders[1]
            traced(spellings[1])


@pytest.mark.long
@pytest.mark.parametrize('first', NAMES)
def test_both_spellings_of_a_pair_are_the_same_program(first):
    for second in NAMES[NAMES.index(first) + 1 :]:
        if refusal(f'{first}+{second}') is None:
            programs = [_program(f'{a}+{b}') for a, b in itertools.permutations([first, second])]
            assert programs[0] == programs[1], (first, second)


def _program(recipe):
    algorithm = built(recipe)
    state = jax.eval_shape(algorithm.init, KEY)
    return str(jax.make_jaxpr(algorithm.round)(state, COHORT, KEY))


def test_numbers_of_pairs():
    """A change of what is accepted should be meant: two SAMs and two models of one's own are refused."""
    refused = {frozenset(pair) for pair in itertools.combinations(NAMES, 2) if refusal('+'.join(pair)) is not None}
    for pair in (
        ('salt', 'perturb'),
        ('fedism', 'harmofl'),
        ('ditto', 'fedpac'),
        ('fednova', 'fedpac'),
        ('fedavgm', 'fedadam'),
    ):
        assert frozenset(pair) in refused
    for pair in (('fairfed', 'fedce'), ('fedpac', 'fedproto'), ('scaffold', 'fedpac'), ('ditto', 'scaffold')):
        assert frozenset(pair) not in refused
    assert len(refused) < 0.2 * len(NAMES) * (len(NAMES) - 1) / 2
