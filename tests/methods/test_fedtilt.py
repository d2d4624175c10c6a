"""FedTilt's special cases over several rounds, and its client update against a direct reading."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import FEDERATION, KEY, LOCAL, NOBODY, SIZES, assert_close

from fedjax_fair.core import Local, build
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.ops import two_level_tilted_loss
from fedjax_fair.testing import scripted_rounds, tiny_mlp

TASK = classification(3)


def play(recipe, hyper=None, rounds=3, ids=(0, 1, 2, 3), local=LOCAL):
    chosen = build(
        tiny_mlp(),
        TASK,
        make_methods(recipe, hyper),
        sizes=SIZES,
        example=FEDERATION.x[0],
        local=local,
        rounds=max(rounds, 1),
    )
    state, step = chosen.init(jax.random.key(0)), jax.jit(chosen.round)
    for _ in range(rounds):
        state, _ = step(state, FEDERATION.cohort(ids), jax.random.key(KEY))
    return state, chosen


def tilts(**values):
    return {f'fedtilt.{name}': value for name, value in ({'tau': 0.0, 'lam': 0.0, 'q': 0.0} | values).items()}


def test_without_tilts_the_shared_model_is_fedavg_and_the_personal_one_ditto():
    tilted, plain, ditto = play('fedtilt', tilts(mu=0.5))[0], play('uniform')[0], play('ditto', {'ditto.mu': 0.5})[0]
    assert_close(tilted.variables, plain.variables, 1e-6)
    assert_close(tilted.clients['personal'], ditto.clients['personal'], 1e-6)
    assert_close(tilted.variables, ditto.variables, 1e-6)


def test_uploading_a_personal_model_started_at_the_shared_one_is_fedprox():
    hyper = {'personal.upload': 'v', 'personal.start': 'global', 'personal.mu': 0.7}
    prox = play('personal+tilted_server', hyper)[0]
    assert_close(prox.variables, play('fedprox+uniform', {'fedprox.mu': 0.7})[0].variables, 1e-6)


def test_equal_tilts_of_one_client_are_term():
    both = play('fedtilt', tilts(tau=2.0, lam=2.0), ids=(2,))[0]
    assert_close(both.variables, play('term', {'term.t': 2.0}, ids=(2,))[0].variables, 1e-6)


def test_an_endless_pull_keeps_the_personal_model_at_the_shared_one():
    state, _ = play('personal', {'personal.mu': 1e9, 'personal.implicit': True}, rounds=1)
    start = play('personal', rounds=0)[0].variables
    for client in range(4):
        assert_close(jax.tree.map(lambda leaf, c=client: leaf[c], state.clients['personal']), start, 1e-6)


def test_both_proximal_steps_agree_for_small_ones():
    small = LOCAL._replace(lr=1e-3)
    explicit, implicit = (
        play('personal', {'personal.mu': 0.5, 'personal.implicit': kind}, local=small)[0].clients
        for kind in (False, True)
    )
    assert_close(explicit, implicit, 1e-5)


def test_local_models_know_nothing_of_each_other():
    alone, among = play('local_only', ids=(1,))[0], play('local_only', ids=(0, 1, 2))[0]
    own = [jax.tree.map(lambda leaf: leaf[1], state.clients['local_only']) for state in (alone, among)]
    assert_close(*own, 1e-6)


def test_local_models_are_personal_ones_that_nothing_pulls():
    (alone, chosen), (beside, other) = play('local_only'), play('personal', {'personal.mu': 0.0})
    assert_close(alone.variables, chosen.init(jax.random.key(0)).variables, 0)  # nothing reaches the server
    scores = [one.evaluate(state, FEDERATION.tests, ('deployed',)) for one, state in ((chosen, alone), (other, beside))]
    np.testing.assert_allclose(*(found['deployed']['loss'][:4] for found in scores), rtol=1e-5)


def test_a_client_never_sampled_is_evaluated_with_the_shared_model():
    state, chosen = play('fedtilt', ids=(0, 1, 2, NOBODY))
    found = chosen.evaluate(state, FEDERATION.tests, ('global', 'deployed'))
    np.testing.assert_allclose(found['deployed']['loss'][3:], found['global']['loss'][3:], rtol=1e-5)
    assert not np.allclose(found['deployed']['loss'][:3], found['global']['loss'][:3], rtol=1e-3)


def test_one_client_step_by_step():
    """Both models of a client whose batch is its whole data, by hand."""
    tau, lam, mu, lr, epochs = -0.5, 3.0, 0.4, 0.1, 3
    local = Local(epochs=epochs, batch_size=12, lr=lr)
    state, chosen = play('fedtilt', tilts(tau=tau, lam=lam, mu=mu), rounds=2, ids=(0,), local=local)
    start = chosen.init(jax.random.key(0)).variables
    rows = FEDERATION.index[0, : SIZES[0]]
    x, y = jnp.asarray(FEDERATION.x[rows]), jnp.asarray(FEDERATION.y[rows])

    def slope(params):
        def loss(params):
            out = tiny_mlp().apply({**start, 'params': params}, x, jnp.ones(len(y), bool), True, None)
            return two_level_tilted_loss(TASK.losses(out.logits, y, None), y, num_classes=3, tau=tau, lam=lam)

        return jax.grad(loss)(params)

    shared = v = start['params']
    for _ in range(2):
        w = shared
        for _ in range(epochs):
            w = jax.tree.map(lambda a, g: a - lr * g, w, slope(w))
            v = jax.tree.map(lambda a, g, s: a - lr * (g + mu * (a - s)), v, slope(v), shared)
        shared = w
    assert_close(state.variables['params'], shared, 1e-5)
    assert_close(jax.tree.map(lambda leaf: leaf[0], state.clients['personal'])['params'], v, 1e-5)


@pytest.mark.parametrize('q', [-3.0, 0.0, 3.0])
def test_the_server_starts_at_the_model_it_sent(q):
    updates = np.random.default_rng(0).normal(size=(2, 3, 5)).astype(np.float32)
    hyper = {'tilted_server.q': q, 'tilted_server.steps': 3, 'tilted_server.step_size': 0.3}
    out = scripted_rounds(make_methods('tilted_server', hyper), {'w': jnp.ones(5)}, {'w': updates}, {}, [1, 2, 9])
    u, expected = np.ones(5), []
    for round_ in range(2):
        models = u + updates[round_]
        for _ in range(3):
            far = ((models - u) ** 2).sum(1)
            a = np.exp(q * far - (q * far).max())
            u = u + 0.6 * ((a / a.sum()) @ models - u)
        expected.append(u)
    np.testing.assert_allclose(out.variables['w'], expected, rtol=1e-4)


@pytest.mark.parametrize(
    ('recipe', 'hyper', 'message'),
    [
        ('personal', {'personal.upload': 'both'}, "personal.upload='both' is not one of 'w', 'v'"),
        ('personal', {'personal.start': 'zero'}, "personal.start='zero' is not one of 'own', 'global'"),
        ('fedtilt', {'fedtilt.distance': 'l1'}, "distance='l1' is not one of 'sq', 'l2'"),
    ],
)
def test_mistakes(recipe, hyper, message):
    with pytest.raises(ValueError, match=message):
        make_methods(recipe, hyper)
