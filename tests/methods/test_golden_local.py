"""Local training against MarsFL's trainers."""

import jax
import jax.numpy as jnp
import marsfl
import numpy as np
import pytest
from lab import GOLDEN
from marsfl import MARSFL, flatten, unflatten


@pytest.fixture(autouse=True)
def in_order(monkeypatch):
    marsfl.without_shuffling(monkeypatch)


def trained(recipe, hyper=None, round_=0, rounds=1, server=None, clients=None):
    """``[4, 51]``: the model each client reaches alone, and the last state."""
    data, algorithm = marsfl.federation(), marsfl.algorithm(recipe, hyper, rounds=rounds)
    start = algorithm.init(jax.random.key(0))
    own = {'server': start.server | (server or {}), 'clients': start.clients | (clients or {})}
    start = start._replace(round=jnp.asarray(round_, jnp.int32), **own)
    step = jax.jit(algorithm.round)
    found = [step(start, data.cohort([client]), jax.random.key(1))[0] for client in range(4)]
    return np.stack([flatten(state.variables['params']) for state in found]), found


@pytest.mark.parametrize(
    ('recipe', 'hyper', 'expected'),
    [
        ('fedavg', {}, 'fedavg_w'),
        ('fedprox', {'fedprox.mu': 1e-4}, 'fedprox_w_mu0.01'),
        ('fedprox', {'fedprox.mu': 1.0}, 'fedprox_w_mu100_effective1'),
    ],
)
def test_local_training_of_marsfl(recipe, hyper, expected):
    np.testing.assert_allclose(trained(recipe, hyper)[0], MARSFL[expected], atol=1e-5, rtol=0)


def test_moon_contrasts_with_a_clients_past_as_marsfl_does():
    past = {'params': jax.vmap(unflatten)(jnp.asarray(MARSFL['moon_prev_w'])), 'batch_stats': {}}
    rows = {'moon': {'model': past, 'known': jnp.ones(4, bool)}}
    models, _ = trained('moon', {'moon.mu': 1.0, 'moon.temperature': 0.5}, clients=rows)
    np.testing.assert_allclose(models, MARSFL['moon_w'], atol=1e-5, rtol=0)


def test_fedproto_pulls_features_of_known_classes_as_marsfl_does():
    known = {'prototypes': jnp.asarray(MARSFL['proto_global']), 'known': jnp.asarray(MARSFL['proto_has'])}
    models, _ = trained('fedproto', {'fedproto.mu': 2.0}, 1, server={'fedproto': known})
    np.testing.assert_allclose(models, MARSFL['fedproto_w'], atol=1e-5, rtol=0)


def test_fedproc_trades_contrast_for_the_task_as_marsfl_does():
    known = {'prototypes': jnp.asarray(MARSFL['proto_global']), 'known': jnp.ones(3, bool)}
    models, states = trained('fedproc', {}, 3, 11, server={'fedproc': known})
    np.testing.assert_allclose(models, MARSFL['fedproc_w_round3_of_11'], atol=1e-5, rtol=0)
    own = np.stack([state.server['fedproc']['prototypes'] for state in states])  # alone, a client's are the server's
    held = ~np.isnan(MARSFL['fedproc_local_protos'])
    np.testing.assert_allclose(own[held], MARSFL['fedproc_local_protos'][held], atol=1e-5, rtol=0)
    np.testing.assert_array_equal(np.stack([s.server['fedproc']['known'] for s in states]), held.all(-1))


def test_fedproc_averages_the_prototypes_of_all_clients_as_marsfl_does():
    chosen = marsfl.algorithm('fedproc', rounds=11)
    known = {'prototypes': jnp.asarray(MARSFL['proto_global']), 'known': jnp.ones(3, bool)}
    start = chosen.init(jax.random.key(0))._replace(round=jnp.int32(3), server={'fedproc': known})
    state, _ = jax.jit(chosen.round)(start, marsfl.federation().cohort(range(4)), jax.random.key(1))
    np.testing.assert_allclose(
        state.server['fedproc']['prototypes'], MARSFL['fedproc_global_protos'], atol=1e-5, rtol=0
    )


def test_losses_by_which_qffl_weighs_are_those_of_marsfl():
    golden, chosen = np.load(GOLDEN / 'marsfl_qffl.npz'), marsfl.algorithm('qffl')
    cohort = marsfl.federation().cohort(range(4))
    found = chosen.measure(chosen.init(jax.random.key(0)), cohort, lambda ctx: ctx.loss(ctx.variables))
    for q in (0.0, 0.5, 1.0, 2.0):
        np.testing.assert_allclose(found, golden[f'q{q}_F'], atol=1e-6, rtol=0)


def test_fedproc_first_round_only_decays():
    models, _ = trained('fedproc', {}, 0, 11)
    np.testing.assert_allclose(models, MARSFL['fedproc_w_round0'], atol=1e-7, rtol=0)


def test_scaffold_of_marsfl_round_by_round():
    """Training, control variates and server, four rounds from the start model."""
    golden = np.load(GOLDEN / 'marsfl_scaffold.npz')
    local = marsfl.LOCAL._replace(weight_decay=0.0)
    found = marsfl.states('scaffold', {'scaffold.server_lr': float(golden['global_lr'])}, [range(4)] * 4, local=local)
    for state, after, c, c_i in zip(found, golden['w_after'], golden['c'], golden['c_i'], strict=True):
        np.testing.assert_allclose(flatten(state.variables['params']), after, atol=1e-5, rtol=0)
        np.testing.assert_allclose(flatten(state.server['scaffold']), c, atol=1e-5, rtol=1e-4)
        np.testing.assert_allclose(flatten(state.clients['scaffold']), c_i, atol=1e-5, rtol=1e-4)
