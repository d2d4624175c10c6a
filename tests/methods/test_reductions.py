"""What hyper-parameters reduce to, and server rules against their formulas in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import FEDERATION, LOCAL, SIZES, algorithm, assert_close

from fedjax_fair.core import Local, Model, Output, build
from fedjax_fair.core.client_map import ClientMap
from fedjax_fair.core.platform import machine, made_for
from fedjax_fair.data.federation import Examples, cohort_of, index_table
from fedjax_fair.methods import defaults, make_methods, resolve_hyper
from fedjax_fair.methods.fednova import step_mass
from fedjax_fair.metrics import classification
from fedjax_fair.testing import scripted_rounds, tiny_federation, tiny_mlp

RNG = np.random.default_rng(0)
UPDATES = RNG.normal(size=(4, 3, 5)).astype(np.float32)
LOSSES = RNG.uniform(0.5, 3, size=(4, 3)).astype(np.float32)
SIZES3 = [2, 3, 5]


def served(recipe, hyper=None, updates=UPDATES, steps=None):
    reports = {'loss': LOSSES} | ({} if steps is None else {'steps': np.broadcast_to(np.float32(steps), (4, 3))})
    out = scripted_rounds(make_methods(recipe, hyper), {'w': jnp.ones(5)}, {'w': updates}, reports, SIZES3, lr=0.1)
    return np.asarray(out.variables['w'])


@pytest.mark.parametrize(
    ('recipe', 'hyper', 'same_as'),
    [
        ('qfedavg', {'qfedavg.q': 0.0}, 'uniform'),
        ('qffl', {'qffl.q': 0.0}, 'uniform'),
        ('fedavgm', {'fedavgm.momentum': 0.0}, 'fedavg'),
        ('scaffold', {}, 'uniform'),
        ('fedprox', {'fedprox.mu': 3.0}, 'fedavg'),
        ('fednova', {}, 'fedavg'),
        ('uniform+qfedavg', {'qfedavg.q': 2.0}, 'qfedavg@2'),
    ],
)
def test_server_rules_reduce_to_simpler_ones(recipe, hyper, same_as):
    """FedNova because all took equally many steps; FedProx because it only changes local training."""
    name, _, q = same_as.partition('@')
    np.testing.assert_allclose(served(recipe, hyper), served(name, {'qfedavg.q': float(q)} if q else {}), rtol=1e-5)


def test_fedprox_with_mu_zero_is_fedavg_and_with_a_large_one_stays_put():
    def final(recipe, hyper=None):
        run = algorithm(recipe, hyper)
        return run.round(run.init(jax.random.key(0)), FEDERATION.cohort(range(5)), jax.random.key(1))[0].variables

    assert_close(final('fedprox', {'fedprox.mu': 0.0}), final('fedavg'), 1e-6)
    start = algorithm('fedavg').init(jax.random.key(0)).variables['params']

    def moved(variables):
        return sum(
            float(jnp.abs(a - b).sum())
            for a, b in zip(*map(jax.tree.leaves, (variables['params'], start)), strict=True)
        )

    assert moved(final('fedprox', {'fedprox.mu': 9.0})) < 0.5 * moved(final('fedavg'))


def test_the_first_round_of_scaffold_is_the_uniform_mean():
    outcomes = []
    for recipe in ('scaffold', 'uniform'):
        run = algorithm(recipe)
        outcomes.append(
            run.round(run.init(jax.random.key(0)), FEDERATION.cohort(range(5)), jax.random.key(1))[0].variables
        )
    assert_close(*outcomes, 1e-6)


def test_one_client_alone_gives_its_local_model():
    for recipe in ('fedavg', 'uniform', 'fednova', 'qfedavg', 'scaffold'):
        np.testing.assert_allclose(served(recipe, updates=UPDATES[:, :1].repeat(3, 1))[0], 1 + UPDATES[0, 0], rtol=1e-5)


def test_fednova_against_its_formula():
    steps, p = np.array([3.0, 10.0, 6.0]), np.array(SIZES3) / 10
    expected, w = [], np.ones(5)
    for round_ in range(4):
        w = w + np.sum(p * steps) * np.sum(p[:, None] * UPDATES[round_] / steps[:, None], 0)
        expected.append(w)
    np.testing.assert_allclose(served('fednova', steps=steps), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ('recipe', 'mean'),
    [('fedavg', 0.75), ('fednova', 0.75), ('uniform', 0.5), ('qffl', 0.5), ('fedfv', 0.5), ('fedgh_pcgrad', 0.5)],
)
def test_batch_statistics_have_weights_of_their_own(recipe, mean):
    """Of two clients with 1 and 3 examples, 1 and 10 steps and losses 1 and 9, the second one moves its statistics."""
    variables = {'params': {'w': jnp.zeros(2)}, 'batch_stats': {'mean': jnp.zeros(())}}
    updates = {'params': {'w': UPDATES[:1, :2, :2]}, 'batch_stats': {'mean': np.array([[0.0, 1.0]], np.float32)}}
    reports = {'steps': np.array([[1.0, 10.0]]), 'loss': np.array([[1.0, 9.0]])}
    out = scripted_rounds(make_methods(recipe), variables, updates, reports, [1, 3])
    np.testing.assert_allclose(out.variables['batch_stats']['mean'], [mean], rtol=1e-6)


def test_step_mass_is_the_l1_norm_of_what_momentum_accumulates():
    for momentum in (0.0, 0.5, 0.9):
        for steps in (1, 4, 9):
            weights = [sum(momentum**j for j in range(steps - i)) for i in range(steps)]
            np.testing.assert_allclose(step_mass(jnp.asarray(float(steps)), momentum), sum(weights), rtol=1e-5)


@pytest.mark.parametrize('keep', [False, True])
def test_fednova_with_momentum_and_unequal_steps_written_out(keep):
    """Momentum from rest counts as what it accumulates; kept momentum makes every step count the same.

    Statistics count by examples, however long clients train. A client's examples are all alike, so that their order
    does not matter.
    """
    sizes, lr, momentum = np.array([12, 5, 3]), 0.2, 0.9
    steps, p = np.array([3, 2, 1]), sizes / 20
    points, labels = RNG.normal(size=(3, 4)), np.array([0, 1, 2])

    def trained(w, velocity, client):
        for _ in range(steps[client]):
            scores = np.exp(points[client] @ w)
            velocity = momentum * velocity + np.outer(points[client], scores / scores.sum() - np.eye(3)[labels[client]])
            w = w - lr * velocity
        return w, velocity

    accumulated = [sum(momentum**j for i in range(s) for j in range(s - i)) for s in steps]
    mass = steps if keep else np.array(accumulated)
    w, velocities = np.zeros((4, 3)), np.zeros((3, 4, 3))
    for _ in range(3):
        ends = [trained(w, v if keep else 0 * v, client) for client, v in enumerate(velocities)]
        velocities = np.stack([v for _, v in ends])
        w = w + p @ mass * sum(p[k] * (end - w) / mass[k] for k, (end, _) in enumerate(ends))

    def apply(variables, x, mask, train, key):
        return Output(x @ variables['params']['w'], x, {'mean': jnp.max(jnp.where(mask[:, None], x, -jnp.inf), 0)})

    start = {'params': {'w': jnp.zeros((4, 3))}, 'batch_stats': {'mean': jnp.zeros(4)}}
    linear = Model(lambda key, x: start, apply)
    local = Local(batch_size=4, lr=lr, momentum=momentum, keep_optimizer=keep)
    facts = {'sizes': sizes, 'example': np.zeros(4, np.float32), 'local': local}
    run = build(linear, classification(3), make_methods('fednova'), **facts)
    index, counts = index_table(np.split(np.arange(20), np.cumsum(sizes)[:-1]))
    x, y = (np.repeat(a, sizes, axis=0) for a in (points.astype(np.float32), labels.astype(np.int32)))
    data = Examples(*map(jnp.asarray, (x, y, index, counts)))
    step, state = jax.jit(run.round), run.init(jax.random.key(0))
    for _ in range(3):
        state, _ = step(state, cohort_of(data, jnp.arange(3)), jax.random.key(1))
    np.testing.assert_allclose(state.variables['params']['w'], w, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(state.variables['batch_stats']['mean'], p @ points, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('recipe', ['fedadam', 'fedyogi', 'fedadagrad'])
def test_adaptive_server_optimisers_against_the_paper(recipe):
    """Algorithm 2 of Adaptive Federated Optimization: no bias correction, v starts at tau squared."""
    h = defaults(recipe)
    b2, w, m, v, expected = h.get('b2'), np.ones(5), np.zeros(5), np.full(5, h['tau'] ** 2), []
    for round_ in range(4):
        d = np.average(UPDATES[round_], axis=0, weights=SIZES3)
        m = h['b1'] * m + (1 - h['b1']) * d
        sign = np.sign(v - d * d)
        v = {
            'fedadam': lambda d=d, v=v: b2 * v + (1 - b2) * d**2,
            'fedyogi': lambda d=d, v=v, s=sign: v - (1 - b2) * d**2 * s,
        }.get(recipe, lambda d=d, v=v: v + d**2)()
        w = w + h['lr'] * m / (np.sqrt(v) + h['tau'])
        expected.append(w)
    np.testing.assert_allclose(served(recipe), expected, rtol=1e-5)


def test_qffl_takes_smaller_steps_than_qfedavg_in_the_same_direction():
    step, full = (served(r, {f'{r}.q': 1.0})[0] - 1 for r in ('qffl', 'qfedavg'))
    ratio = step / full
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-4)
    assert 0 < ratio[0] < 1


@pytest.mark.parametrize('sizes', [(8, 8, 8), (7, 7, 7), (9, 7, 2)])
@pytest.mark.parametrize('local', [LOCAL, Local(epochs=3, batch_size=4, lr=0.1), Local(steps=5, batch_size=3, lr=0.1)])
def test_batches_and_trip_counts_of_accelerators_change_nothing(sizes, local):
    """Accelerators read batches in their own way, and are told the number of steps where all clients have the same."""
    data = tiny_federation(sizes)
    outcomes = []
    for backend in ('cpu', 'gpu'):
        with made_for(machine()._replace(name=backend)):
            facts = {'sizes': data.sizes, 'example': data.x[0], 'local': local, 'client_map': ClientMap()}
            run = build(tiny_mlp(), classification(3), [], **facts)
            outcomes.append(run.round(run.init(jax.random.key(0)), data.cohort(range(3)), jax.random.key(1))[0])
    assert_close(*outcomes, 1e-6)


def test_hyper_parameters_are_converted_and_checked():
    assert resolve_hyper('fedprox+scaffold', {'fedprox.mu': '0.5'}) == {
        'fedprox': {'mu': 0.5, 'kind': 'squared'},
        'scaffold': {'server_lr': 1.0, 'control': 'participation'},
    }
    for hyper, message in (
        ({'fedprox.mu': 'much'}, r'fedprox.mu=much: expected a number such as 0.01'),
        ({'fedprox.nu': 1}, r"fedprox.nu=1: fedprox has no hyper-parameter 'nu'; it has: mu"),
        ({'scaffold.server_lr': 1}, r"scaffold.server_lr=1: 'scaffold' is not a part of recipe 'fedprox'"),
    ):
        with pytest.raises(ValueError, match=message):
            resolve_hyper('fedprox', hyper)
    with pytest.raises(ValueError, match=r"scaffold.control='median' is not one of 'participation', 'mean'"):
        make_methods('scaffold', {'scaffold.control': 'median'})


def test_scaffold_overrules_momentum():
    local = Local(epochs=1, batch_size=4, lr=0.1, momentum=0.9)
    run = build(
        tiny_mlp(), classification(3), make_methods('scaffold'), sizes=SIZES, example=FEDERATION.x[0], local=local
    )
    assert run.facts['fixed_by'] == {'momentum': 'scaffold', 'optimizer': 'scaffold'}
    assert run.run.momentum == 0
