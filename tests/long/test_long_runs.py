"""What needs minutes: a deep network under every client map, and what the embedded domains are made to show."""

import jax
import numpy as np
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


def one_round_under_every_client_map(model, data, num_classes):
    """The variables after a round, all clients at once, one by one, and one by one on each of two devices."""
    for client_map in (ClientMap(), ClientMap(1), ClientMap(1, client_mesh(2))):
        algorithm = build(
            model,
            classification(num_classes),
            make_methods('fedavg'),
            sizes=data.sizes,
            example=data.x[0],
            local=Local(epochs=1, batch_size=4, lr=0.01),
            client_map=client_map,
        )
        start = jax.jit(algorithm.init)(jax.random.key(0))
        state, _ = jax.jit(algorithm.round)(start, data.cohort(range(4)), jax.random.key(1))
        yield jax.device_get(state.variables)


def test_resnet10_with_batch_norm_agrees_under_every_client_map():
    data = make_scenario('digits_domains', num_clients=4, client_sizes=(5, 4, 6, 3), test_size=2)
    together, *others = one_round_under_every_client_map(make_model('resnet10', 10), data, 10)
    for other in others:
        assert_close(other, together, 1e-4)


DEEP = {
    'resnet18': make_model('resnet18', 2),
    'resnet50': make_model('resnet50', 2),
    # Two layers of each block: all 121 take half an hour to compile in double precision.
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


def test_fedavg_leaves_a_gap_between_the_domains_of_digits(tmp_path):
    """The demo's job: well above chance everywhere, and the domains clearly apart."""
    (summary,) = run(Config(rounds=20, eval_every=5, last_k=1, devices=1), tmp_path / 'out', quiet=True)
    accuracy = np.array(summary['metrics']['group_accuracy']['mean'])
    assert accuracy.min() > 0.4
    assert accuracy.max() - accuracy.min() > 0.1
