"""What needs minutes: a deep network under every client map, and what the embedded domains are made to show."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from lab import assert_close

from fedjax_fair.core import Local, build
from fedjax_fair.core.client_map import ClientMap, client_mesh
from fedjax_fair.data import make_scenario
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.models import from_linen, make_model
from fedjax_fair.models.densenet import DenseNet
from fedjax_fair.training import Config, run

pytestmark = pytest.mark.long


MAPS = (ClientMap(), ClientMap(1), ClientMap(1, client_mesh(2)))  # all at once, one by one, one by one on two devices


def one_round(model, data, num_classes, client_map, *nudges):
    """The variables after a round from the drawn start, and from starts whose parameters are larger by a factor."""
    algorithm = build(
        model,
        classification(num_classes),
        make_methods('fedavg'),
        sizes=data.sizes,
        example=data.x[0],
        local=Local(epochs=1, batch_size=4, lr=0.01),
        client_map=client_map,
    )
    start, step = jax.jit(algorithm.init)(jax.random.key(0)), jax.jit(algorithm.round)
    for nudge in (1.0, *nudges):
        moved = {**start.variables, 'params': jax.tree.map(lambda leaf, by=nudge: leaf * by, start.variables['params'])}
        state, _ = step(start._replace(variables=moved), data.cohort(range(4)), jax.random.key(1))
        yield jax.device_get(state.variables)


def one_round_under_every_client_map(model, data, num_classes):
    for client_map in MAPS:
        yield from one_round(model, data, num_classes, client_map)


def test_resnet10_with_batch_norm_agrees_under_every_client_map():
    data = make_scenario('digits_domains', num_clients=4, client_sizes=(5, 4, 6, 3), test_size=2)
    together, *others = one_round_under_every_client_map(make_model('resnet10', 10), data, 10)
    for other in others:
        assert_close(other, together, 1e-4)


DEEP = {
    'resnet18': make_model('resnet18', 2),
    'resnet50': make_model('resnet50', 2),
    # Two layers of each block: all 121 take half an hour to compile in double precision; see below.
    'densenet': from_linen(DenseNet(2, blocks=(2, 2, 2, 2)), 'densenet'),
}


@pytest.mark.parametrize('model', DEEP)
def test_deep_networks_with_batch_norm_agree_under_every_client_map(model):
    """In double precision and on whole batches.

    Fifty batch norms, the last over a few values, magnify a rounding error a million times (measured by moving the
    starting weights of resnet50 by 2e-16). Over a single value even the sign of a gradient is rounding.
    """
    data = make_scenario('tissue', num_clients=4, client_sizes=(8, 4, 8, 4), test_size=2)
    with jax.enable_x64(True):
        together, *others = one_round_under_every_client_map(DEEP[model], data, 2)
    for other in others:
        assert_close(other, together, 1e-8)


def test_all_of_densenet121_agrees_as_far_as_rounding_lets_it():
    """In single precision, where 121 batch norms magnify the last digit.

    Client maps may differ by no more than runs do whose starting weights differ in their last digit.
    """
    data = make_scenario('tissue', num_clients=4, client_sizes=(8, 4, 8, 4), test_size=2)
    model = make_model('densenet121', 2)
    one, *nudged = one_round(model, data, 2, MAPS[1], 1 + 2**-23, 1 - 2**-23)

    def distance(a, b):
        return float(optax.tree.norm(optax.tree.sub(a, b)))

    rounding = max(distance(one, other) for other in nudged)
    moved = distance(one, jax.device_get(jax.jit(model.init)(jax.random.key(0), jnp.zeros((1, *data.x.shape[1:])))))
    assert rounding < 0.05 * moved, 'the comparison below would show nothing'
    for client_map in (MAPS[0], MAPS[2]):
        (other,) = one_round(model, data, 2, client_map)
        assert distance(one, other) < 3 * rounding


def test_fedavg_leaves_a_gap_between_the_domains_of_digits(tmp_path):
    """The demo's job: well above chance everywhere, and the domains clearly apart."""
    (summary,) = run(Config(rounds=20, eval_every=5, last_k=1, devices=1), tmp_path / 'out', quiet=True)
    accuracy = np.array(summary['global']['group_accuracy']['mean'])
    assert accuracy.min() > 0.4
    assert accuracy.max() - accuracy.min() > 0.1
