"""FedISM against vectors made by its authors' code; tests/golden/README.md derives them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import FFL4MIA_PARAMS as PARAMS
from lab import FFL4MIA_STATS as STATS
from lab import GOLDEN

from fedjax_fair.core import Local, build
from fedjax_fair.core.types import Model, Output
from fedjax_fair.data.federation import Examples, cohort_of
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.ops import sharpness
from fedjax_fair.ops.entropy import cross_entropy
from fedjax_fair.testing import scripted_rounds


def models(prefix, file, index=()):
    """The model ``prefix_*`` of a golden file as variables."""
    part = {k: jnp.asarray(file[f'{prefix}_{k}'][index]) for k in PARAMS + STATS}
    return {'params': {k: part[k] for k in PARAMS}, 'batch_stats': {k: part[k] for k in STATS}}


def logits(variables, x):
    """The golden MLP in evaluation mode."""
    p, s = variables['params'], variables['batch_stats']
    hidden = x @ p['fc1_weight'].T + p['fc1_bias'][None]
    hidden = (hidden - s['bn_running_mean'][None]) / jnp.sqrt(s['bn_running_var'][None] + 1e-5)
    return jnp.tanh(hidden * p['bn_weight'][None] + p['bn_bias'][None]) @ p['fc2_weight'].T + p['fc2_bias'][None]


@pytest.fixture(scope='module')
def golden():
    return np.load(GOLDEN / 'fedism_aggregation.npz')


@pytest.fixture(scope='module')
def given():
    return np.load(GOLDEN / 'ffl4mia_aggregation.npz')


@pytest.mark.parametrize('round', range(4))
def test_sharpness_of_every_client(golden, given, round):
    with jax.enable_x64(True):
        model = models('start', given) if round == 0 else models('global', golden, round - 1)
        for client in range(4):
            mine = golden['client_of'] == client

            def loss(params, mine=mine):
                return cross_entropy(logits({**model, 'params': params}, golden['X'][mine]), golden['Y'][mine]).mean()

            np.testing.assert_allclose(loss(model['params']), golden['loss'][round, client], atol=1e-12)
            found = jnp.maximum(sharpness(loss, model['params'], golden['rho']), 1e-10)
            np.testing.assert_allclose(found, golden['sharpness'][round, client], atol=1e-12)


def test_four_rounds_of_the_server(golden, given):
    with jax.enable_x64(True):
        start, local = models('start', given), models('local', given)
        sent = jax.tree.map(
            lambda first, later: jnp.concatenate([first[None], later[:-1]])[:, None], start, models('global', golden)
        )
        out = scripted_rounds(
            make_methods('saga', {'saga.q': 2.0, 'saga.beta': 0.5}),
            start,
            jax.tree.map(jnp.subtract, local, sent),
            {'sharpness': golden['sharpness']},
            given['sizes'],
        )
        np.testing.assert_allclose(out.clients['saga'], golden['weights'], atol=1e-12)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), out.variables, models('global', golden))


def test_the_engine_measures_at_the_incoming_model_over_the_whole_training_set(golden, given):
    """One real round, whose local training must not matter for the weights."""

    def apply(variables, x, mask, train, key):
        out = logits(variables, x)
        return Output(out, out, variables['batch_stats'])

    with jax.enable_x64(True):
        where = [np.flatnonzero(golden['client_of'] == k) for k in range(4)]
        sizes = np.array([len(w) for w in where], np.int32)
        table = np.zeros((4, sizes.max()), np.int32)
        for row, mine in zip(table, where, strict=True):
            row[: len(mine)] = mine
        data = Examples(*map(jnp.asarray, (golden['X'], golden['Y'].astype(np.int32), table, sizes)))
        algorithm = build(
            Model(lambda key, x: models('start', given), apply),
            classification(4),
            make_methods('fedism', {'fedism.rho': float(golden['rho'])}),
            sizes=sizes,
            example=golden['X'][0],
            local=Local(batch_size=8, lr=0.1),
        )
        state = algorithm.init(jax.random.key(0))
        state, _ = jax.jit(algorithm.round)(state, cohort_of(data, jnp.arange(4)), jax.random.key(1))
        np.testing.assert_allclose(state.clients['saga'], golden['weights'][0], atol=1e-12)
