"""AFL, FairFed, FedGA and FedCE: published numbers, their rules written out in NumPy, and what they reduce to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import GOLDEN, LOCAL, assert_close

from fedjax_fair.core import build
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.testing import scripted_rounds, tiny_federation, tiny_mlp

RNG = np.random.default_rng(0)
ROUNDS, CLIENTS, SIZES = 5, 4, np.array([30, 18, 12, 20])
UPDATES = RNG.normal(size=(ROUNDS, CLIENTS, 6)) + 0.5
REPORTS = {
    'loss': RNG.uniform(0.5, 3, size=(ROUNDS, CLIENTS)),
    'local_loss': RNG.uniform(0.1, 1, size=(ROUNDS, CLIENTS)),
    'balanced_accuracy': RNG.uniform(0.2, 0.9, size=(ROUNDS, CLIENTS)),
}


def played(recipe, hyper=None, **options):
    """Scripted rounds in double precision, with the model after each as sums of given updates."""
    with jax.enable_x64(True):
        start = {'w': jnp.zeros(6)}
        out = scripted_rounds(make_methods(recipe, hyper), start, {'w': UPDATES}, REPORTS, SIZES, **options)
        return jax.tree.map(np.asarray, out)


def models(weights):
    return np.cumsum(np.einsum('rc,rcd->rd', weights, UPDATES), 0)


@pytest.mark.parametrize('gamma', [0.01, 0.1])
def test_afl_climbs_as_published(gamma):
    with jax.enable_x64(True):
        golden = np.load(GOLDEN / 'afl_trajectory.npz')
        updates = RNG.normal(size=(10, 6, 3))
        out = scripted_rounds(
            make_methods('afl', {'afl.gamma': gamma}),
            {'w': jnp.zeros(3)},
            {'w': updates},
            {'loss': golden['loss']},
            [1] * 6,
        )
        weights = golden[f'lambda_{gamma}']
        np.testing.assert_allclose(out.server['afl'][0], weights, atol=1e-6)
        np.testing.assert_allclose(
            out.variables['w'], np.cumsum(np.einsum('rc,rcd->rd', weights, updates), 0), atol=1e-5
        )


def test_afl_of_marsfl_starts_afresh_and_leaves_nobody_out():
    """Losses of the trained models, uniform start in every round, nobody below the floor."""
    golden = np.load(GOLDEN / 'marsfl_afl.npz')
    for gamma, loss, freq in zip(golden['gamma'], golden['loss'], golden['freq'], strict=True):
        hyper = {'afl.gamma': float(gamma), 'afl.restart': True, 'afl.floor': 1e-3, 'afl.at': 'local'}
        updates = jnp.eye(6)[None]
        reports = {'local_loss': loss[None]}
        out = scripted_rounds(make_methods('afl', hyper), {'w': jnp.zeros(6)}, {'w': updates}, reports, [1] * 6)
        np.testing.assert_allclose(out.variables['w'][0], freq, atol=1e-6)


def test_afl_may_lag_one_round_behind():
    now, late = (played('afl', {'afl.gamma': 0.1, 'afl.lagged': lagged}) for lagged in (False, True))
    np.testing.assert_allclose(late.server['afl'][0], now.server['afl'][0])
    before = np.concatenate([np.full((1, CLIENTS), 1 / CLIENTS), now.server['afl'][0][:-1]])
    np.testing.assert_allclose(late.variables['w'], models(before), atol=1e-12)


def test_afl_without_climbing_is_the_uniform_mean_and_far_up_the_worst_client():
    uniform = played('uniform').variables['w']
    np.testing.assert_allclose(played('afl', {'afl.gamma': 0.0}).variables['w'], uniform, atol=1e-12)
    np.testing.assert_allclose(
        played('afl', {'afl.gamma': 1e6}).variables['w'][0], UPDATES[0, REPORTS['loss'][0].argmax()]
    )
    worst = np.eye(CLIENTS)[REPORTS['loss'].argmax(1)]
    np.testing.assert_allclose(played('afl_worst').variables['w'], models(worst), atol=1e-12)


def test_afl_serves_the_mean_of_its_models_on_request():
    data = tiny_federation()
    last, mean = (
        build(
            tiny_mlp(),
            classification(3),
            make_methods('afl', {'afl.average': average}),
            sizes=data.sizes,
            example=data.x[0],
            local=LOCAL,
        )
        for average in (False, True)
    )
    states = []
    for algorithm in (last, mean):
        path, step = [algorithm.init(jax.random.key(0))], jax.jit(algorithm.round)
        for _ in range(3):
            path.append(step(path[-1], data.cohort(range(len(data.sizes))), jax.random.key(1))[0])
        states.append(path[1:])
    ordinary, averaging = states
    expected = jax.tree.map(lambda *leaves: sum(leaves) / 3, *(state.variables for state in ordinary))
    x = data.x[:5]
    found = mean.predict(averaging[-1], x)
    assert_close(found, last.predict(ordinary[-1]._replace(variables=expected), x), 1e-4)
    assert float(jnp.abs(found - last.predict(ordinary[-1], x)).max()) > 1e-3


@pytest.mark.parametrize('fixed', [False, True])
def test_fairfed_follows_its_rule(fixed):
    share = SIZES / SIZES.sum()
    weights = [share]
    for accuracy in REPORTS['balanced_accuracy'][1:]:
        away = np.abs(accuracy - (share * accuracy).sum()) if fixed else accuracy * (1 - share)
        new = np.clip(weights[-1] - 0.3 * (away - away.mean()), 0, None)
        weights.append(new / new.sum())
    out = played('fairfed', {'fairfed.beta': 0.3, 'fairfed.fixed': fixed})
    np.testing.assert_allclose(out.clients['fairfed'], weights, atol=1e-12)
    np.testing.assert_allclose(out.variables['w'], models(np.array(weights)), atol=1e-12)
    still = played('fairfed', {'fairfed.beta': 0.0, 'fairfed.fixed': fixed})
    np.testing.assert_allclose(still.variables['w'], played('fedavg').variables['w'], atol=1e-12)


def test_fedga_follows_its_rule():
    weights, used = np.full(CLIENTS, 1 / CLIENTS), []
    for t in range(ROUNDS):
        if t:
            gap = REPORTS['loss'][t] - REPORTS['local_loss'][t - 1]
            gap -= gap.mean()
            weights = weights + 0.05 * (ROUNDS - t) / ROUNDS / CLIENTS * gap / np.abs(gap).max()
            weights = np.clip(weights / weights.sum(), 0, None)
        used.append(weights / weights.sum())
    out = played('fedga', {'fedga.step': 0.05})
    np.testing.assert_allclose(out.clients['fedga']['weight'][-1], weights, atol=1e-12)
    np.testing.assert_allclose(out.variables['w'], models(np.array(used)), atol=1e-12)
    still = played('fedga', {'fedga.step': 0.0})
    np.testing.assert_allclose(still.variables['w'], played('uniform').variables['w'], atol=1e-12)


@pytest.mark.parametrize('combine', ['times', 'plus'])
def test_fedce_follows_its_rule(combine):
    c, accuracies, cosines, news, used = np.full(CLIENTS, 1 / CLIENTS), [], [], [], []
    for t in range(ROUNDS):
        accuracies.append(REPORTS['balanced_accuracy'][t] if t else np.zeros(CLIENTS))
        consensus = c @ UPDATES[t]
        rest = consensus[None] - c[:, None] * UPDATES[t]
        norms = np.linalg.norm(UPDATES[t], axis=1) * np.linalg.norm(rest, axis=1)
        cosines.append((UPDATES[t] * rest).sum(1) / norms)
        e, r = 1 - np.mean(accuracies, 0), 1 - np.mean(cosines, 0)
        e, r = e / e.sum(), r / r.sum()
        new = r * e if combine == 'times' else r + e
        news.append(new / new.sum())
        c = np.mean(news, 0)
        used.append(c)
    out = played('fedce', {'fedce.combine': combine})
    np.testing.assert_allclose(out.server['fedce']['c'], used, atol=1e-9)
    np.testing.assert_allclose(out.variables['w'], models(np.array(used)), atol=1e-9)


@pytest.mark.parametrize('recipe', ['fedga', 'fairfed', 'fedce', 'saga'])
def test_absent_clients_keep_what_they_weigh(recipe):
    """Weights of a cohort are finite and its own; those of the absent do not move."""
    mask = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 1]], bool)
    with jax.enable_x64(True):
        reports = {**REPORTS, 'sharpness': REPORTS['loss']}
        out = scripted_rounds(make_methods(recipe), {'w': jnp.zeros(6)}, {'w': UPDATES}, reports, SIZES, mask=mask)
        steps = np.diff(np.asarray(out.variables['w']), axis=0, prepend=0)
        np.testing.assert_allclose(steps[4], UPDATES[4, 3], atol=1e-9)  # alone, a client decides
        for leaf in map(np.asarray, (*jax.tree.leaves(out.clients), *jax.tree.leaves(out.server))):
            assert np.all(np.isfinite(leaf))
            if leaf.shape[:2] == (ROUNDS, CLIENTS):
                np.testing.assert_array_equal(leaf[1][[1, 3]], leaf[0][[1, 3]])


@pytest.mark.parametrize(
    ('recipe', 'hyper', 'message'),
    [('fedce', {'fedce.combine': 'minus'}, "fedce.combine='minus'"), ('saga', {'saga.at': 'end'}, "saga.at='end'")],
)
def test_mistakes_name_the_hyper_parameter(recipe, hyper, message):
    with pytest.raises(ValueError, match=message):
        make_methods(recipe, hyper)


@pytest.mark.parametrize('average', [False, True])
def test_the_state_of_afl_has_the_structure_of_earlier_checkpoints(average):
    """A tuple of lambda and models: checkpoints name arrays by their place in it."""
    method = make_methods('afl', {'afl.average': average})[0]
    run = scripted_rounds([method], {'w': jnp.zeros(6)}, {'w': UPDATES}, REPORTS, SIZES)
    lam, models = run.server['afl']
    assert type(run.server['afl']) is tuple and lam.shape == (ROUNDS, CLIENTS)
    assert jax.tree.leaves(models) if average else models == ()
