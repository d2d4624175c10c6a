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
from fedjax_fair.models import make_model
from fedjax_fair.training import Config, run

pytestmark = pytest.mark.long


@pytest.mark.parametrize('name', ['resnet10', 'resnet18', 'resnet50', 'densenet121'])
def test_deep_networks_with_batch_norm_agree_under_every_client_map(name):
    """In double precision: batch norm over the few values of a deep layer magnifies rounding errors beyond bounds."""
    data = make_scenario('digits_domains', num_clients=4, client_sizes=(5, 4, 6, 3), test_size=2)
    outcomes = []
    with jax.enable_x64(True):
        for client_map in (ClientMap(), ClientMap(1), ClientMap(1, client_mesh(2))):
            algorithm = build(
                make_model(name, 10),
                classification(10),
                make_methods('fedavg'),
                sizes=data.sizes,
                example=data.x[0],
                local=Local(epochs=1, batch_size=4, lr=0.01),
                client_map=client_map,
            )
            start = jax.jit(algorithm.init)(jax.random.key(0))
            state, _ = jax.jit(algorithm.round)(start, data.cohort(range(4)), jax.random.key(1))
            outcomes.append(jax.device_get(state.variables))
    assert_close(outcomes[1], outcomes[0], 1e-4)
    assert_close(outcomes[2], outcomes[0], 1e-4)


def test_fedavg_leaves_a_gap_between_the_domains_of_digits(tmp_path):
    """The demo's job: well above chance everywhere, and the domains clearly apart."""
    (summary,) = run(Config(rounds=20, eval_every=5, last_k=1, devices=1), tmp_path / 'out', quiet=True)
    accuracy = np.array(summary['metrics']['group_accuracy']['mean'])
    assert accuracy.min() > 0.4
    assert accuracy.max() - accuracy.min() > 0.1
