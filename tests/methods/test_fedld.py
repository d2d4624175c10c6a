"""FedLD and its rivals: published aggregates round by round, special cases, and FedPAC by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import FEDERATION, GOLDEN, KEY, LOCAL, NOBODY, SIZES, algorithm, assert_close, assert_same, lab

from fedjax_fair.core import Local, build
from fedjax_fair.core.client_map import ClientMap, client_mesh
from fedjax_fair.core.local import WarmUp
from fedjax_fair.core.tree import weighted_sum
from fedjax_fair.methods import make_methods
from fedjax_fair.methods.fedld import warm_up
from fedjax_fair.metrics import classification
from fedjax_fair.ops import class_means, collaboration_weights, feature_statistics
from fedjax_fair.testing import scripted_rounds, tiny_mlp

TASK = classification(3)
CLOSE = {'rtol': 1e-10, 'atol': 1e-12}  # of published numbers, in float64


def scripted(recipe, hyper, updates, n):
    """Updates of every round by name, ``[R, C, ...]``, and what the server made of them."""
    start = jax.tree.map(lambda u: jnp.zeros(u.shape[2:], u.dtype), updates)
    out = scripted_rounds(make_methods(recipe, hyper), start, updates, {}, n)
    return out, jax.tree.map(lambda w: np.diff(np.concatenate([0 * w[:1], w]), axis=0), out.variables)


@pytest.mark.parametrize('case', ['random', 'conflict'])
def test_published_rounds(case):
    z = np.load(GOLDEN / f'fedld_agg_m5_d40_{case}.npz')
    with jax.enable_x64(True):
        updates = {'w': jnp.asarray(np.stack([z[f'grads_r{r}'] for r in range(3)]))}
        _, steps = scripted('fedld_code', {}, updates, z['n_i'])
        for number in range(3):
            np.testing.assert_allclose(steps['w'][number], z[f'authors_out_r{number}'], **CLOSE)
        _, steps = scripted('fedld', {}, updates, z['n_i'])
        np.testing.assert_allclose(steps['w'][1], z['ref_paper_agg'], **CLOSE)
        _, steps = scripted('principal', {'principal.weights': 'uniform'}, updates, z['n_i'])
        np.testing.assert_allclose(steps['w'][1], z['ref_paper_agg_uniform'], **CLOSE)


def test_every_tensor_on_its_own():
    """A tensor alone gives the same as among others; a number is averaged; what never moved stays."""
    rng = np.random.default_rng(0)
    updates = {
        'kernel': rng.normal(size=(3, 5, 4, 3)),
        'bias': rng.normal(size=(3, 5, 2)),  # rank 2, four axes would be kept
        'scale': rng.normal(size=(3, 5, 1)),
        'frozen': np.zeros((3, 5, 6)),
    }
    with jax.enable_x64(True):
        updates = jax.tree.map(jnp.asarray, updates)
        out, steps = scripted('fedld_code', {}, updates, [1, 2, 3, 4, 5])
        for name in ('kernel', 'bias'):
            _, alone = scripted('fedld_code', {}, {name: updates[name]}, [5, 4, 3, 2, 1])
            np.testing.assert_allclose(steps[name], alone[name], atol=1e-12)
            assert np.abs(steps[name][1:] - updates[name][1:].mean(1)).max() > 0.01
        np.testing.assert_allclose(steps['scale'], updates['scale'].mean(1), atol=1e-12)
        np.testing.assert_array_equal(steps['frozen'], 0)
        gates = out.server['principal']
        assert not gates['frozen'].any() and gates['kernel'].all()


def test_a_gate_over_the_whole_model_opens_after_the_first_movement():
    rng = np.random.default_rng(1)
    updates = {'a': rng.normal(size=(3, 4, 5)).astype(np.float32), 'b': rng.normal(size=(3, 4, 2)).astype(np.float32)}
    updates['a'][0], updates['b'][0] = 0, 0
    _, gated = scripted('principal', {'principal.gate': True}, updates, [1, 1, 1, 1])
    _, free = scripted('principal', {}, updates, [1, 1, 1, 1])
    for name in updates:
        np.testing.assert_array_equal(gated[name][0], 0)
        np.testing.assert_allclose(gated[name][1], updates[name][1].mean(0), atol=1e-6)
        np.testing.assert_allclose(gated[name][2], free[name][2], atol=1e-6)


@pytest.mark.parametrize('rule', ['seq', 'frozen'])
def test_gradient_harmony(rule):
    z = np.load(GOLDEN / 'fedgh_m5_d20.npz')
    with jax.enable_x64(True):
        _, steps = scripted('fedgh', {'fedgh.rule': rule}, {'w': jnp.asarray(z['grads'])}, z['n_i'])
        np.testing.assert_allclose(steps['w'][1], z[f'ref_paper_{rule}_agg_r1'], **CLOSE)


def test_hierarchical_harmony_and_its_history():
    z = np.load(GOLDEN / 'fedgh_m5_d20.npz')
    with jax.enable_x64(True):
        out, steps = scripted('fedgh_pcgrad', {}, {'w': jnp.asarray(z['grads'])}, z['n_i'])
        np.testing.assert_allclose(steps['w'], z['authors_out'], **CLOSE)
        np.testing.assert_allclose(out.server['fedgh_pcgrad']['w'], z['authors_hist'], **CLOSE)


@pytest.mark.parametrize('recipe', ['fedgh', 'fedgh+uniform', 'fedgh_pcgrad'])
def test_friends_are_averaged(recipe):
    updates = {'w': np.random.default_rng(2).uniform(size=(2, 4, 6)).astype(np.float32)}
    _, steps = scripted(recipe, {}, updates, [1, 2, 3, 2])
    plain = 'fedavg' if recipe == 'fedgh' else 'uniform'
    np.testing.assert_allclose(steps['w'], scripted(plain, {}, updates, [1, 2, 3, 2])[1]['w'], atol=1e-6)


def play(recipe, hyper=None, rounds=2, ids=(0, 1, 2, 3), local=LOCAL, batch_norm=True, first_round=0):
    chosen = build(
        tiny_mlp(batch_norm=batch_norm),
        TASK,
        make_methods(recipe, hyper),
        sizes=SIZES,
        example=FEDERATION.x[0],
        local=local,
        rounds=max(rounds, 1),
    )
    start = chosen.init(jax.random.key(0))._replace(round=jnp.asarray(first_round, jnp.int32))
    states, step = [start], jax.jit(chosen.round)
    for _ in range(rounds):
        states.append(step(states[-1], FEDERATION.cohort(ids), jax.random.key(KEY))[0])
    return states


def test_without_margin_and_with_one_client_fedld_is_fedavg():
    one = play('fedld', {'fedld.lam': 0.0}, ids=(2,))[-1]
    assert_close(one.variables, play('fedavg', ids=(2,))[-1].variables, 1e-5)


@pytest.mark.parametrize(
    'recipe', [pytest.param(recipe, marks=pytest.mark.xdist_group(recipe)) for recipe in ('fedld', 'fedld_code')]
)
def test_four_devices_agree_with_one(recipe):
    chosen = algorithm(recipe, client_map=ClientMap(1, client_mesh(4)))
    spread, state = jax.jit(chosen.round), chosen.init(jax.random.key(3))
    cohort = FEDERATION.cohort((0, 1, 2, 3, NOBODY, NOBODY))
    for _ in range(3):
        state, _ = spread(state, cohort, jax.random.key(KEY))
    assert_close(jax.device_get(state), jax.device_get(lab(recipe).reference), 1e-5)


def test_margins_shrink_logits():
    plain, controlled = play('fedavg')[-1], play('margin', {'margin.lam': 3.0})[-1]
    size = [float(jnp.abs(s.variables['params']['head']['kernel']).mean()) for s in (plain, controlled)]
    assert size[1] < 0.9 * size[0]


def test_learning_rates_of_the_authors_warm_ups():
    rounds, steps = np.arange(7)[:, None], np.arange(4)[None]
    np.testing.assert_allclose(WarmUp(5.0)(rounds, 1, steps), np.minimum(1, (rounds + steps) / 5), rtol=1e-6)
    held = WarmUp(5.0, per_step=False)(np.arange(7), 1, 3)
    np.testing.assert_allclose(held, [0, 0.2, 0.4, 0.6, 0.8, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(WarmUp(5.0)(np.arange(3), 2), [0, 0.4, 0.8], rtol=1e-6)


def test_a_warmed_up_learner_learns_nothing_at_first_and_frozen_statistics_never_change():
    hyper = {'fedld_code.warmed_up': True, 'fedld_code.frozen': True, 'fedld_code.lam': 0.0}
    start, first, second = play('fedld_code', hyper)
    assert_same(first.variables, start.variables)
    assert_same(second.variables['batch_stats'], start.variables['batch_stats'])
    slow = LOCAL._replace(lr=0.4 * LOCAL.lr)  # two epochs a round: two steps of five are done after the first
    _, by_hand = play('fedld_code', {**hyper, 'fedld_code.warmed_up': False}, 1, local=slow, first_round=1)
    assert_close(second.variables, by_hand.variables, 1e-6)


def test_a_warm_up_within_rounds_is_a_rate_for_every_step():
    """One client, whole batches, two steps of two rounds: rates 0, 1/4, 2/4, 3/4 of the full one."""
    local = Local(epochs=2, batch_size=12, lr=0.4)
    chosen = build(tiny_mlp(), TASK, warm_up(4.0), sizes=SIZES, example=FEDERATION.x[0], local=local, rounds=2)
    state, step = chosen.init(jax.random.key(0)), jax.jit(chosen.round)
    w = state.variables['params']
    for _ in range(2):
        state, _ = step(state, FEDERATION.cohort((0,)), jax.random.key(KEY))
    x, y = own_data(0)
    for rate in (0.0, 0.1, 0.2, 0.3):
        w = jax.tree.map(lambda a, g, rate=rate: a - rate * g, w, jax.grad(plain_loss)(w, x, y))
    assert_close(state.variables['params'], w, 1e-5)


def own_data(client):
    rows = FEDERATION.index[client, : SIZES[client]]
    return jnp.asarray(FEDERATION.x[rows]), jnp.asarray(FEDERATION.y[rows])


def forward(params, x):
    return tiny_mlp().apply({'params': params, 'batch_stats': {}}, x, jnp.ones(len(x), bool), True, None)


def plain_loss(params, x, y):
    return jnp.mean(TASK.losses(forward(params, x).logits, y, None))


def test_fedpac_by_hand():
    """Two rounds of three clients whose batch is their whole data."""
    lam, head_lr, lr, ids = 0.7, 0.3, 0.2, (0, 1, 2)
    local = Local(epochs=1, batch_size=12, lr=lr)
    hyper = {'fedpac.lam': lam, 'fedpac.head_lr': head_lr}
    *_, state = states = play('fedpac', hyper, ids=ids, local=local, batch_norm=False)
    body, heads = states[0].variables['params']['body'], [states[0].variables['params']['head']] * 3
    means, n = None, np.array([SIZES[i] for i in ids]) / sum(SIZES[i] for i in ids)
    for _ in range(2):
        trained, facts, sent, counts = [], [], [], []
        for i in ids:
            x, y = own_data(i)
            w = {'body': body, 'head': heads[i]}
            facts.append(feature_statistics(forward(w, x).features, y, 3))
            slope = jax.grad(plain_loss)(w, x, y)['head']
            w = {**w, 'head': jax.tree.map(lambda a, g: a - head_lr * g, w['head'], slope)}

            def aligned(w, x=x, y=y, means=means):
                away = 0.0 if means is None else jnp.mean((forward(w, x).features - means[y]) ** 2)
                return plain_loss(w, x, y) + lam * away

            w = {**w, 'body': jax.tree.map(lambda a, g: a - lr * g, w['body'], jax.grad(aligned)(w)['body'])}
            trained.append(w)
            found = class_means(forward(w, x).features, y, 3)
            sent.append(found[0])
            counts.append(found[1])
        total = jnp.stack(counts)
        means = (jnp.stack(sent) * total[:, :, None]).sum(0) / total.sum(0)[:, None]
        shares = collaboration_weights(jnp.stack([f[0] for f in facts]), jnp.stack([f[1] for f in facts]))
        shares = shares / shares.sum(1, keepdims=True)
        together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *trained)
        mean = weighted_sum(jnp.asarray(n, jnp.float32), together)
        body, heads = mean['body'], [weighted_sum(share, together['head']) for share in shares]
    assert float(jnp.diagonal(shares).max()) < 0.999  # somebody takes from somebody
    assert_close(state.variables['params']['body'], body, 1e-5)
    np.testing.assert_allclose(state.variables['params']['head']['kernel'], mean['head']['kernel'], atol=1e-5)
    np.testing.assert_allclose(state.server['fedpac']['means'], means, atol=1e-5)
    for i in ids:
        np.testing.assert_allclose(state.clients['fedpac']['head/kernel'][i], heads[i]['kernel'], atol=1e-5)


def test_fedpac_deploys_own_heads_and_needs_to_know_which_layer_that_is():
    chosen = build(
        tiny_mlp(), TASK, make_methods('fedpac'), sizes=SIZES, example=FEDERATION.x[0], local=LOCAL, rounds=2
    )
    state, cohort = chosen.init(jax.random.key(0)), FEDERATION.cohort((0, 1, 2, 3))
    for _ in range(2):
        state, _ = jax.jit(chosen.round)(state, cohort, jax.random.key(KEY))
    found = chosen.evaluate(state, FEDERATION.tests, ('global', 'deployed', 'adapted'), cohort, jax.random.key(1))
    assert not np.allclose(found['deployed']['loss'][:4], found['global']['loss'][:4], rtol=1e-3)
    np.testing.assert_allclose(found['deployed']['loss'][4], found['global']['loss'][4], rtol=1e-5)  # never sampled
    assert np.isfinite(found['adapted']['loss'][:4]).all()
    with pytest.raises(ValueError, match=r"fedpac.head='fc' must be one of several layers; the network has body, head"):
        play('fedpac', {'fedpac.head': 'fc'}, rounds=0)


@pytest.mark.parametrize(
    ('recipe', 'hyper', 'message'),
    [
        ('margin', {'margin.kind': 'damp'}, "margin.kind='damp' is not one of 'logits', 'softmax_batch', 'squared'"),
        ('principal', {'principal.granularity': 'row'}, "principal.granularity='row' is not one of 'model', 'leaf'"),
        ('principal', {'principal.weights': 'loss'}, "principal.weights='loss' is not one of 'n', 'uniform'"),
        ('principal', {'principal.keep': '0'}, r'principal.keep=0.0 must be above 0 and at most 1'),
        ('fedld', {'fedld.keep': '1.5'}, r'fedld.keep=1.5 must be above 0 and at most 1'),
        ('fedgh', {'fedgh.rule': 'all'}, "fedgh.rule='all' is not one of 'seq', 'frozen'"),
        ('fedprox', {'fedprox.kind': 'l1'}, "fedprox.kind='l1' is not one of 'squared', 'norms'"),
    ],
)
def test_mistakes(recipe, hyper, message):
    with pytest.raises(ValueError, match=message):
        make_methods(recipe, hyper)
