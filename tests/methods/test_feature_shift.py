"""FedBN, SiloBN and MOON: what stays at home, what is compared, and what they reduce to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from lab import FEDERATION, algorithm, assert_close, assert_same, lab

from fedjax_fair.core import Local, build, tree
from fedjax_fair.methods import make_methods
from fedjax_fair.methods.moon import cosine
from fedjax_fair.metrics import classification
from fedjax_fair.models import make_model
from fedjax_fair.models.adapter import from_linen
from fedjax_fair.models.norm import norm_layer
from fedjax_fair.testing import tiny_mlp

EVERYONE = FEDERATION.cohort(range(5))


def played(recipe, hyper=None, rounds=2, cohort=EVERYONE):
    chosen = algorithm(recipe, hyper)
    step, state = jax.jit(chosen.round), chosen.init(jax.random.key(0))
    for _ in range(rounds):
        state, _ = step(state, cohort, jax.random.key(1))
    return chosen, state


def test_what_belongs_to_batch_normalisation():
    variables = jax.eval_shape(make_model('resnet10', 3).init, jax.random.key(0), jnp.ones((1, 8, 8, 3)))
    found = tree.norm_paths(variables)
    assert all(path in found for path in jax.tree.leaves(tree.paths({'batch_stats': variables['batch_stats']})))
    kinds = {path.rpartition('/')[2] for path in found if path.startswith('params')}
    assert kinds == {'scale', 'bias'}
    assert not any('head' in path or 'Dense' in path for path in found)
    stateless = jax.eval_shape(make_model('resnet10', 3, 'stateless').init, jax.random.key(0), jnp.ones((1, 8, 8, 3)))
    assert tree.norm_paths(stateless) == set()


@pytest.mark.parametrize(
    ('recipe', 'kept'),
    [
        ('fedbn', {'batch_stats/body/mean', 'params/body/kernel', 'params/body/bias'}),
        ('silobn', {'batch_stats/body/mean'}),
    ],
)
def test_leaves_at_home_never_reach_the_server(recipe, kept):
    """Not even when a fifth takes part, and not through a server optimiser."""
    chosen, state = played(f'{recipe}+server_adam', rounds=3, cohort=FEDERATION.cohort([1]))
    start = chosen.init(jax.random.key(0))
    assert set(state.clients[recipe]) == kept
    assert_same(*(tree.pick(s.variables, kept) for s in (start, state)))
    moved = jax.tree.map(
        lambda a, b: float(jnp.abs(a - b).max()),
        state.variables['params']['head'],
        start.variables['params']['head'],
    )
    assert min(jax.tree.leaves(moved)) > 1e-4


def test_what_stays_at_home_is_no_communication():
    model = tiny_mlp(batch_norm=True).init(jax.random.key(0), FEDERATION.x[:1])
    kept = {
        'fedavg': 0,
        'fedbn': tree.num_bytes(tree.pick(model, tree.norm_paths(model))),
        'silobn': tree.num_bytes(model['batch_stats']),
        'local_only': tree.num_bytes(model),
    }
    assert 0 < kept['silobn'] < kept['fedbn'] < kept['local_only']
    for recipe in kept:
        chosen = algorithm(recipe)
        _, said = jax.jit(chosen.round)(chosen.init(jax.random.key(0)), EVERYONE, jax.random.key(1))
        count = float(said['clients'])
        assert float(said['bytes_up']) == float(said['bytes_down']) == count * (tree.num_bytes(model) - kept[recipe])


def test_a_client_deploys_its_own_normalisation_and_a_newcomer_gets_the_mean():
    chosen, state = played('fedbn', cohort=FEDERATION.cohort([0, 1, 2]))
    found = chosen.evaluate(state, FEDERATION.tests, ('global', 'deployed'))
    model, rows = tiny_mlp(batch_norm=True), state.clients['fedbn']

    def loss(own, client):
        x, y = FEDERATION.tests.x[client], jnp.asarray(FEDERATION.tests.y[client])
        logits = model.apply(tree.put(state.variables, own), x, jnp.ones(len(y), bool), False, None).logits
        return classification(3).losses(logits, y).mean()

    mean = {k: table[:3].mean(0) for k, table in rows.items()}
    for client in range(6):
        own = {k: table[client] for k, table in rows.items()} if client < 3 else mean
        np.testing.assert_allclose(found['deployed']['loss'][client], loss(own, client), rtol=1e-5)
        np.testing.assert_allclose(found['global']['loss'][client], loss(mean, client), rtol=1e-5)


def test_fedbn_by_name_and_without_batch_normalisation():
    _, state = played('fedbn', {'fedbn.match': 'head'}, rounds=1)
    assert set(state.clients['fedbn']) == {'params/head/kernel', 'params/head/bias'}
    with pytest.raises(ValueError, match=r"fedbn\.match='bn' is in no path of the model; it has"):
        algorithm('fedbn', {'fedbn.match': 'bn'}).init(jax.random.key(0))
    outcomes = []
    for recipe in ('fedbn', 'fedavg'):
        facts = {'sizes': FEDERATION.sizes, 'example': FEDERATION.x[0], 'local': Local(batch_size=4)}
        plain = build(tiny_mlp(), classification(3), make_methods(recipe), **facts)
        outcomes.append(plain.round(plain.init(jax.random.key(0)), EVERYONE, jax.random.key(1))[0].variables)
    assert_close(*outcomes)


def images_of(client):
    return FEDERATION.x[FEDERATION.index[client, : FEDERATION.sizes[client]]]


def with_own_mean(variables, client):
    """The tiny network with the mean that its hidden layer has on one training set."""
    mean = images_of(client) @ variables['params']['body']['kernel']
    return {**variables, 'batch_stats': {'body': {'mean': mean.mean(0)}}}


def test_statistics_taken_anew_do_not_depend_on_those_before():
    chosen, state = played('fedavg')
    for kept in (0.0, 5.0):
        start = {
            **state.variables,
            'batch_stats': jax.tree.map(lambda s, k=kept: s + k, state.variables['batch_stats']),
        }
        found = chosen.measure(state, EVERYONE, lambda ctx, start=start: ctx.statistics(start))
        for client in range(5):
            own = jax.tree.map(lambda leaf, c=client: leaf[c], found)
            assert_close(own, with_own_mean(start, client)['batch_stats'])


class Normalised(nn.Module):
    """Batch normalisation of the inputs, then a linear layer."""

    @nn.compact
    def __call__(self, x, mask, train):
        x = norm_layer('batch')(name='norm')(x, mask, train)
        return nn.Dense(3)(x), x


def statistics_of_first_client(size):
    """Of its twelve examples, in batches of a size."""
    facts = {'sizes': FEDERATION.sizes, 'example': FEDERATION.x[0], 'local': Local(batch_size=4)}
    chosen = build(from_linen(Normalised()), classification(3), make_methods('fedavg'), eval_batch_size=size, **facts)
    state = chosen.init(jax.random.key(0))
    found = chosen.measure(state, EVERYONE, lambda ctx: ctx.statistics(state.variables))['norm']
    return found['mean'][0], found['var'][0]


@pytest.mark.parametrize('size', [128, 5])
def test_statistics_are_means_over_batches(size):
    x = images_of(0)
    batches = [x[start : start + size] for start in range(0, len(x), size)]
    variance = np.average([batch.var(0, ddof=1) for batch in batches], 0, [len(batch) for batch in batches])
    mean, var = statistics_of_first_client(size)
    np.testing.assert_allclose(mean, x.mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(var, variance, rtol=1e-4)


def test_statistics_stay_where_nothing_can_be_learned():
    """A batch of one value per channel has no variance."""
    mean, var = statistics_of_first_client(1)
    assert np.asarray(mean).tolist() == [0.0] * 4 and np.asarray(var).tolist() == [1.0] * 4


def test_adabn_trains_as_fedavg_and_deploys_the_received_model_with_own_statistics():
    chosen, state = played('adabn', rounds=3)
    assert_close(state.variables, played('fedavg', rounds=3)[1].variables)
    model, tests, received = tiny_mlp(batch_norm=True), FEDERATION.tests, played('fedavg', rounds=2)[1].variables
    found = chosen.evaluate(state, tests, ('deployed',))['deployed']['loss']
    for client in range(5):
        x, y = tests.x[client], jnp.asarray(tests.y[client])
        logits = model.apply(with_own_mean(received, client), x, jnp.ones(len(y), bool), False, None).logits
        np.testing.assert_allclose(found[client], classification(3).losses(logits, y).mean(), rtol=1e-4)


def test_cosines():
    a, b = np.random.default_rng(0).normal(size=(2, 5, 4)).astype(np.float32)
    expected = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(cosine(jnp.asarray(a), jnp.asarray(b)), expected, rtol=1e-5)
    gradient = jax.grad(lambda z: cosine(z, jnp.asarray(b)).sum())(jnp.zeros((5, 4)))
    assert not np.any(gradient)


def test_moon_without_mu_is_fedavg_and_so_is_a_clients_first_round():
    this, plain = lab('moon'), lab('fedavg')
    assert_close(this.go(rounds=2, hyper={'moon.mu': 0.0}).variables, plain.go(rounds=2).variables)
    assert_close(this.go(rounds=1).variables, plain.go(rounds=1).variables)
    first, second = this.go(rounds=1), this.go(rounds=2)
    apart = jax.tree.map(lambda a, b: jnp.abs(a - b).max(), second.variables, plain.go(rounds=2).variables)
    assert float(apart['params']['body']['kernel']) > 1e-4
    late = (4, *[6] * 5)  # a client that joins after the first round has no past either
    joined = [one.go(late, rounds=1, state=one.go(rounds=1)).variables for one in (this, plain)]
    assert_close(*joined)
    assert np.asarray(first.clients['moon']['known']).tolist() == [True] * 4 + [False] * 2


def test_frozen_models_of_moon_leave_no_statistics_behind():
    """Statistics are those of the model that trains, whichever way the frozen ones normalise."""
    _, one = played('moon', {'moon.mu': 0.0})
    _, plain = played('fedavg')
    assert_close(one.variables['batch_stats'], plain.variables['batch_stats'])
    _, batch = played('moon', {'moon.mu': 5.0})
    _, running = played('moon', {'moon.mu': 5.0, 'moon.frozen': 'eval'})
    apart = jnp.abs(batch.variables['params']['body']['kernel'] - running.variables['params']['body']['kernel'])
    assert float(apart.max()) > 1e-5
    with pytest.raises(ValueError, match=r"moon\.frozen='train' is not one of"):
        make_methods('moon', {'moon.frozen': 'train'})


def test_a_projection_is_what_moon_compares():
    model = make_model('mlp', 3, widths=(6,), projection=5)
    x, key = jnp.ones((2, 4)), jax.random.key(0)
    variables = model.init(key, x)
    out = model.apply(variables, x, jnp.ones(2, bool), True, key)
    assert out.features.shape == (2, 5) and out.logits.shape == (2, 3)
    head = variables['params']['projected']['classes']
    np.testing.assert_allclose(out.logits, out.features @ head['kernel'] + head['bias'][None], rtol=1e-5)
    assert jax.eval_shape(make_model('cnn', 3, projection=7).init, key, jnp.ones((1, 16, 16, 3)))
    with pytest.raises(ValueError, match='projection does not fit unet'):
        jax.eval_shape(make_model('unet', 2, projection=7, features=2).init, key, jnp.ones((1, 16, 16, 3)))
