"""Diagnostics: terms that sum to the loss, conflicts that are there, drift step by step; training is left alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from lab import FEDERATION, GOLDEN, NOBODY, SIZES, assert_close

from fedjax_fair.core import Local, build
from fedjax_fair.core.client_map import ClientMap, client_mesh
from fedjax_fair.diagnostics import (
    client_gradients,
    conflicts,
    decompose,
    keep_local_models,
    loss_decomposition,
    mean_drift,
    track_drift,
)
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.testing import scripted_rounds, tiny_mlp

TASK = classification(3)
IDS = (3, 0, NOBODY, 2, 5)  # an empty slot and a client without examples
LOCAL = Local(epochs=3, batch_size=12, lr=0.3)


@pytest.mark.parametrize('x64', [True, False])
def test_published_decomposition(x64):
    z = np.load(GOLDEN / 'fedld_loss_decomposition.npz')
    close = {'rtol': 1e-10, 'atol': 1e-12} if x64 else {'rtol': 2e-5, 'atol': 5e-6}
    with jax.enable_x64(x64):
        found = decompose(*(jnp.asarray(z[name], float) for name in ('A', 'L_global_per_client', 'p')))
        for name in ('local', 'shift', 'aggregation'):
            np.testing.assert_allclose(getattr(found, name), z[name], **close)
        np.testing.assert_allclose(found.total, z['global_loss'], **close)
        np.testing.assert_allclose(found.shift_loss, abs(z['shift']), **close)


def make(client_map=ClientMap()):
    methods = [*make_methods('margin'), *keep_local_models(), *track_drift()]
    return build(
        tiny_mlp(), TASK, methods, sizes=SIZES, example=FEDERATION.x[0], local=LOCAL, rounds=2, client_map=client_map
    )


@pytest.fixture(scope='module')
def played():
    chosen = make()
    start, cohort = chosen.init(jax.random.key(0)), FEDERATION.cohort(IDS)
    after, _ = jax.jit(chosen.round)(start, cohort, jax.random.key(1))
    return chosen, start, after, cohort


def data(client):
    rows = FEDERATION.index[client, : SIZES[client]]
    return jnp.asarray(FEDERATION.x[rows]), jnp.asarray(FEDERATION.y[rows])


def loss_of(params, client):
    x, y = data(client)
    out = tiny_mlp().apply({'params': params, 'batch_stats': {}}, x, jnp.ones(len(y), bool), False, None)
    return jnp.mean(TASK.losses(out.logits, y, None))


def test_terms_of_a_round_sum_to_its_loss(played):
    chosen, _, after, cohort = played
    found = jax.jit(lambda state: loss_decomposition(chosen, state, cohort))(after)
    clients = [3, 0, 2]
    p = np.array([SIZES[i] for i in clients]) / sum(SIZES[i] for i in clients)
    models = [jax.tree.map(lambda leaf, i=i: leaf[i], after.clients['keep_local_models'])['params'] for i in clients]
    matrix = np.array([[loss_of(model, j) for model in models] for j in clients])
    ours = np.array([loss_of(after.variables['params'], j) for j in clients])
    np.testing.assert_allclose(found.local, p @ np.diag(matrix), rtol=1e-5)
    np.testing.assert_allclose(found.shift, p @ matrix @ p - p @ np.diag(matrix), rtol=1e-4)
    np.testing.assert_allclose(found.total, p @ ours, rtol=1e-5)
    assert float(found.shift) > 0.01


def test_terms_do_not_depend_on_chunks_and_devices(played):
    """Also where the state is on the devices already, as after a round there."""
    chosen, _, after, cohort = played
    expected = jax.device_get(loss_decomposition(chosen, after, cohort))
    mesh = client_mesh(2)
    everywhere = jax.device_put(after, NamedSharding(mesh, PartitionSpec()))
    spread = make(ClientMap(1, mesh))
    for algorithm, state, chunk in ((chosen, after, None), (spread, everywhere, 2)):
        terms = jax.jit(lambda s, c, a=algorithm, chunk=chunk: loss_decomposition(a, s, c, chunk))
        assert_close(jax.device_get(terms(state, cohort)), expected, 1e-5)


def test_watching_changes_nothing(played):
    _, _, after, cohort = played
    plain = build(tiny_mlp(), TASK, make_methods('margin'), sizes=SIZES, example=FEDERATION.x[0], local=LOCAL, rounds=2)
    alone, _ = jax.jit(plain.round)(plain.init(jax.random.key(0)), cohort, jax.random.key(1))
    assert_close(alone.variables, after.variables, 1e-6)
    with pytest.raises(ValueError, match='loss_decomposition needs keep_local_models'):
        loss_decomposition(plain, alone, cohort)
    with pytest.raises(ValueError, match='mean_drift needs track_drift'):
        mean_drift(alone, cohort)


def test_drift_step_by_step(played):
    """Whole batches: every client's three steps by hand, penalty of the margin included."""
    _, start, after, cohort = played
    drift = []
    for client in (3, 0, 2):
        w = start.variables['params']

        def objective(params, client=client):
            x, _ = data(client)
            out = tiny_mlp().apply({'params': params, 'batch_stats': {}}, x, jnp.ones(len(x), bool), False, None)
            return loss_of(params, client) + 0.03 * jnp.mean(jnp.log1p(jnp.sum(out.logits**2, 1)))

        away = []
        for _ in range(LOCAL.epochs):
            w = jax.tree.map(lambda a, g: a - LOCAL.lr * g, w, jax.grad(objective)(w))
            moved = jax.tree.map(lambda a, b: jnp.sum((a - b) ** 2), w, start.variables['params'])
            away.append(sum(jax.tree.leaves(moved)))
        drift.append(np.mean(away))
        np.testing.assert_allclose(after.clients['track_drift'][client], drift[-1], rtol=1e-4)
    np.testing.assert_allclose(mean_drift(after, cohort), np.mean(drift), rtol=1e-4)
    np.testing.assert_allclose(after.server['track_drift'], [np.mean(drift), np.nan], rtol=1e-4)  # of two rounds


def test_conflicts_of_gradients(played):
    chosen, start, _, cohort = played
    grads = client_gradients(chosen, start, cohort)
    expected = [jax.grad(loss_of)(start.variables['params'], client) for client in (3, 0, 2)]
    flat = np.stack([np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(g)]) for g in expected])
    mask = jnp.array([True, True, False, True, False])
    found = conflicts(grads, mask)
    real = np.array([0, 1, 3])
    unit = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    np.testing.assert_allclose(np.asarray(found.cosines)[np.ix_(real, real)], unit @ unit.T, atol=1e-4)
    np.testing.assert_array_equal(np.asarray(found.cosines)[[2, 4]], 0)
    negative = sum((unit @ unit.T)[i, j] < 0 for i in range(3) for j in range(i))
    np.testing.assert_allclose(found.rate, negative / 3, rtol=1e-6)
    np.testing.assert_allclose(found.spectrum[:3], np.linalg.svd(flat, compute_uv=False) ** 2, rtol=1e-3)
    widest = max(np.linalg.norm(flat[i] - flat[j]) for i in range(3) for j in range(3))
    np.testing.assert_allclose(found.dissimilarity, widest, rtol=1e-4)


def test_conflicts_of_two_scripted_rounds():
    """Four clients of whom three take part in the second round, in a cohort of another order, against NumPy."""
    moves = np.random.default_rng(0).normal(size=(2, 5, 2, 3)).astype(np.float32)
    ids = np.array([[0, 1, 2, 3, 4], [3, 4, 0, 2, 4]])  # 4 is nobody
    here = ids < 4
    played = scripted_rounds(
        make_methods('principal+watch_conflicts'),
        {'w': jnp.zeros((2, 3))},
        {'w': moves},
        {},
        [1, 2, 3, 4],
        num_clients=4,
        ids=ids,
        rounds=3,
    )
    seen = jax.tree.map(lambda leaf: np.asarray(leaf[-1]), played.server['watch_conflicts'])
    assert {name: table.shape for name, table in seen.items()} == {
        'rate': (3,),
        'spectrum': (3, 4),
        'cosines': (3, 4, 4),
    }
    for number in range(2):
        flat, who = moves[number, here[number]].reshape(-1, 6), ids[number, here[number]]
        unit = flat / np.linalg.norm(flat, axis=1, keepdims=True)
        expected = np.full((4, 4), np.nan)
        expected[np.ix_(who, who)] = unit @ unit.T
        np.testing.assert_allclose(seen['cosines'][number], expected, atol=1e-5)
        above = (unit @ unit.T)[np.triu_indices(len(who), 1)]
        np.testing.assert_allclose(seen['rate'][number], (above < 0).mean(), rtol=1e-6)
        axes = np.zeros(4)
        axes[: len(who)] = np.linalg.svd(flat, compute_uv=False) ** 2
        np.testing.assert_allclose(seen['spectrum'][number], axes, rtol=1e-4, atol=1e-5)
    assert 0 < seen['rate'][0] < 1 and all(np.isnan(table[2]).all() for table in seen.values())


def test_zeros_and_nobody_conflict_with_nobody():
    found = conflicts({'w': jnp.zeros((3, 4))})
    assert float(found.rate) == 0 and not np.isnan(found.cosines).any()
    assert float(conflicts(jnp.ones((3, 4)), jnp.zeros(3, bool)).dissimilarity) == 0
