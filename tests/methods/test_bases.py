"""FedDyn, Ditto, SCAFFOLD, FedProto and FedFV beside golden vectors and plain readings of their definitions."""

import itertools

import jax
import jax.numpy as jnp
import marsfl
import numpy as np
import pytest
from lab import GOLDEN, assert_close
from marsfl import MARSFL, X, Y, flatten, unflatten

from fedjax_fair.core import build
from fedjax_fair.core.types import Method
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.ops import class_sums
from fedjax_fair.ops.entropy import cross_entropy
from fedjax_fair.testing import scripted_rounds


@pytest.fixture(autouse=True)
def in_order(monkeypatch):
    marsfl.without_shuffling(monkeypatch)


@jax.jit
def gradient(w, x, y):
    def loss(w):
        out = marsfl.apply({'params': unflatten(w)}, x, None, True, None)
        return jnp.mean(cross_entropy(out.logits, y))

    return jax.grad(loss)(w)


def sgd(w, batches, epochs, lr, momentum, decay, extra=lambda w: 0.0):
    """Plain SGD over the batches in order; ``extra(w)`` joins the gradient."""
    speed = np.zeros_like(w)
    for _ in range(epochs):
        for x, y in batches:
            g = np.asarray(gradient(w.astype(np.float32), x, y)) + extra(w) + decay * w
            speed = momentum * speed + g
            w = w - lr * speed
    return w


def batches_of(sizes, batch):
    ends = np.cumsum([0, *sizes])
    return [
        [(X[i : min(i + batch, b)], Y[i : min(i + batch, b)]) for i in range(a, b, batch)]
        for a, b in itertools.pairwise(ends)
    ]


FULL, PARTIAL = [[0, 1, 2, 3]] * 3, [[0, 2], [1, 2, 3], [3], [0, 1]]


# --- FedDyn ----------------------------------------------------------------------------------------------------------


def feddyn_by_definition(cohorts, alpha, momentum):
    """The paper's symbols: local states g, the server's h."""
    w, g, h = MARSFL['w0'].astype(float), np.zeros((4, 51)), np.zeros(51)
    for cohort in cohorts:
        theta = {}
        for m in cohort:
            pull = lambda v, m=m, w=w: -g[m] + alpha * (v - w)  # noqa: E731
            theta[m] = sgd(w, batches_of([15] * 4, 5)[m], 2, 0.05, momentum, 0.0, pull)
            g[m] = g[m] - alpha * (theta[m] - w)
        h = h - alpha / 4 * sum(theta[m] - w for m in cohort)
        w = np.mean([theta[m] for m in cohort], 0) - h / alpha
        yield w, g.copy(), h


@pytest.mark.parametrize(('cohorts', 'momentum'), [(FULL, 0.0), (PARTIAL, 0.9)])
def test_feddyn_by_definition(cohorts, momentum):
    local = marsfl.LOCAL._replace(momentum=momentum, weight_decay=0.0)
    found = marsfl.states('feddyn', {'feddyn.alpha': 0.1}, cohorts, local=local)
    for state, (w, g, h) in zip(found, feddyn_by_definition(cohorts, 0.1, momentum), strict=True):
        np.testing.assert_allclose(flatten(state.variables['params']), w, atol=1e-5, rtol=0)
        np.testing.assert_allclose(-0.1 * flatten(state.clients['feddyn']), g, atol=1e-5, rtol=0)
        np.testing.assert_allclose(-0.1 * flatten(state.server['feddyn']), h, atol=1e-5, rtol=0)


@pytest.mark.parametrize('cohorts', [FULL, PARTIAL])
def test_feddyn_of_the_official_code(cohorts):
    """Sums of updates H; penalty alpha over relative size; weight decay beside it; full batches, three epochs."""
    sizes, alpha, decay = np.array([10, 25, 20, 5]), 0.1, 1e-3
    local = marsfl.LOCAL._replace(momentum=0.0, weight_decay=decay, batch_size=25, epochs=3, clip_norm=10.0)
    data = marsfl.federation(tuple(sizes))
    found = marsfl.states('feddyn', {'feddyn.alpha': alpha, 'feddyn.scale': 'sizes'}, cohorts, data, local)
    w, H = MARSFL['w0'].astype(float), np.zeros((4, 51))
    for state, cohort in zip(found, cohorts, strict=True):
        theta = {}
        for m in cohort:
            own = alpha / (4 * sizes[m] / sizes.sum())
            linear = lambda v, m=m, w=w, own=own: own * (H[m] - w) + own * v  # noqa: E731
            theta[m] = sgd(w, batches_of(sizes, 25)[m], 3, 0.05, 0.0, decay, linear)
        for m in cohort:
            H[m] += theta[m] - w
        w = np.mean([theta[m] for m in cohort], 0) + H.mean(0)
        np.testing.assert_allclose(flatten(state.variables['params']), w, atol=1e-5, rtol=0)
        np.testing.assert_allclose(flatten(state.clients['feddyn']), H, atol=1e-5, rtol=0)


def test_feddyn_under_a_plugin_remembers_what_clients_trained():
    """Masks and weights change the mean alone: rows and server entry are those of the same updates without them."""
    updates = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    script = ({'w': jnp.zeros(5)}, {'w': updates}, {}, [1, 2, 3, 4])
    alone, joined = (scripted_rounds(make_methods(r), *script) for r in ('feddyn', 'feddyn+fedheal'))
    assert_close(alone.clients['feddyn'], joined.clients['feddyn'])
    assert_close(alone.server['feddyn'], joined.server['feddyn'])
    moved = np.diff(np.asarray(joined.variables['w']), axis=0) - np.asarray(joined.server['feddyn']['w'])[1:]
    plain = scripted_rounds(make_methods('fedheal'), *script).variables['w']
    np.testing.assert_allclose(moved, np.diff(np.asarray(plain), axis=0), atol=1e-5)


# --- bases under FedHEAL, and losses under regularised objectives ----------------------------------------------------

RNG = np.random.default_rng(2)
GIVEN = RNG.normal(size=(3, 4, 5)).astype(np.float32)  # updates: rounds, clients, parameters
TOLD = {
    'steps': np.full((3, 4), 6, np.float32),
    'prototypes': RNG.normal(size=(3, 4, 2, 3)).astype(np.float32),
    'class_counts': RNG.integers(0, 3, (3, 4, 2)).astype(np.float32),
}


def play(recipe, hyper=None):
    script = ({'w': jnp.zeros(5)}, {'w': GIVEN}, TOLD, [1, 2, 3, 4])
    return scripted_rounds(make_methods(recipe, hyper), *script, lr=0.1)


def moves(out):
    return np.diff(np.asarray(out.variables['w']), axis=0, prepend=np.zeros((1, 5), np.float32))


@pytest.mark.parametrize(('base', 'server_lr'), [('scaffold', 0.5), ('fedproto', 1.0), ('fedproc', 1.0)])
def test_under_fedheal_only_the_mean_of_models_is_another(base, server_lr):
    """Control variates and prototypes are those of the same updates without it; the model moves by its step."""
    hyper = {'scaffold.server_lr': server_lr} if base == 'scaffold' else {}
    alone, joined = (play(recipe, hyper) for recipe in (base, f'{base}+fedheal'))
    assert_close(joined.server[base], alone.server[base])
    assert_close(joined.clients.get(base), alone.clients.get(base))
    np.testing.assert_allclose(moves(joined), server_lr * moves(play('fedheal')), atol=1e-5)
    assert np.abs(moves(joined) - moves(alone)).max() > 0.1


def test_under_fedheal_a_past_of_moon_is_the_unmasked_model():
    joined = play('moon+fedheal')
    sent = np.asarray(joined.variables['w']) - moves(joined)
    past = joined.clients['moon']['model']['params']['w']
    np.testing.assert_allclose(past, sent[:, None] + GIVEN, atol=1e-5)


@pytest.mark.parametrize('base', ['fedprox', 'fedproto'])
def test_qffl_sees_plain_cross_entropy_whatever_the_base_trains_on(base):
    """In the second round, when prototypes are known."""
    spy = Method(
        'spy',
        init=lambda variables, run: (None, jnp.zeros(())),
        measures=('loss',),
        commit=lambda view, updates, weights, update: (None, view.measured['loss']),
    )
    data, methods = marsfl.federation(), [*make_methods(f'{base}+qffl', {f'{base}.mu': 5.0}), spy]
    facts = dict(sizes=data.sizes, example=data.x[0], local=marsfl.LOCAL, rounds=2, client_map='vmap')
    chosen = build(marsfl.NET, classification(3), methods, **facts)
    step, cohort = jax.jit(chosen.round), data.cohort(range(4))
    sent, _ = step(chosen.init(jax.random.key(0)), cohort, jax.random.key(1))
    after, _ = step(sent, cohort, jax.random.key(1))
    losses = cross_entropy(marsfl.apply(sent.variables, X, None, False, None).logits, Y)
    np.testing.assert_allclose(after.clients['spy'], losses.reshape(4, 15).mean(1), atol=1e-5)


# --- SCAFFOLD under partial participation ----------------------------------------------------------------------------


@pytest.mark.parametrize('control', ['participation', 'mean'])
def test_scaffold_with_absent_clients(control):
    local = marsfl.LOCAL._replace(weight_decay=0.0)
    found = marsfl.states('scaffold', {'scaffold.control': control}, PARTIAL, local=local)
    w, c, own = MARSFL['w0'].astype(float), np.zeros(51), np.zeros((4, 51))
    for state, cohort in zip(found, PARTIAL, strict=True):
        trained = {}
        for m in cohort:
            fix = lambda v, m=m, c=c, before=own.copy(): c - before[m]  # noqa: E731
            trained[m] = sgd(w, batches_of([15] * 4, 5)[m], 2, 0.05, 0.0, 0.0, fix)
        change = {m: -c + (w - trained[m]) / (6 * 0.05) for m in cohort}
        for m in cohort:
            own[m] += change[m]
        c = c + sum(change.values()) / (4 if control == 'participation' else len(cohort))
        w = np.mean(list(trained.values()), 0)
        np.testing.assert_allclose(flatten(state.variables['params']), w, atol=1e-5, rtol=0)
        np.testing.assert_allclose(flatten(state.server['scaffold']), c, atol=1e-5, rtol=1e-4)
        np.testing.assert_allclose(flatten(state.clients['scaffold']), own, atol=1e-5, rtol=1e-4)


# --- Ditto -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('aggregate', ['no', 'served', 'fed_back'])
def test_ditto_in_all_three_readings(aggregate):
    """Same batches, a pull to the incoming model, personal models that stay; what becomes of their mean."""
    sizes = np.array([10, 25, 20, 5])
    data = marsfl.federation(tuple(sizes))
    hyper = {'ditto.mu': 1.0, 'ditto.aggregate': aggregate}
    found = marsfl.states('ditto', hyper, FULL, data)
    chosen = marsfl.algorithm('ditto', hyper, data)
    w, v = MARSFL['w0'].astype(float), np.tile(MARSFL['w0'].astype(float), (4, 1))
    for state in found:
        pull = lambda u, w=w: u - w  # noqa: E731
        trained = [sgd(w, b, 2, 0.05, 0.9, 1e-5) for b in batches_of(sizes, 5)]
        v = np.stack([sgd(own, b, 2, 0.05, 0.9, 1e-5, pull) for own, b in zip(v, batches_of(sizes, 5), strict=True)])
        mean = sizes @ v / sizes.sum()
        w = mean if aggregate == 'fed_back' else np.mean(trained, 0)
        np.testing.assert_allclose(flatten(state.clients['personal']['params']), v, atol=2e-5, rtol=0)
        np.testing.assert_allclose(flatten(state.variables['params']), w, atol=2e-5, rtol=0)
    shown = w if aggregate == 'no' else mean
    logits = marsfl.apply({'params': unflatten(shown)}, X, None, False, None).logits
    np.testing.assert_allclose(chosen.predict(found[-1], X), logits, atol=1e-4)


def test_before_anybody_took_part_the_mean_of_personal_models_is_the_start_model():
    chosen = marsfl.algorithm('ditto', {'ditto.aggregate': 'served'})
    start = chosen.init(jax.random.key(0))
    logits = marsfl.apply(start.variables, X, None, False, None).logits
    np.testing.assert_allclose(chosen.predict(start, X), logits, atol=1e-6)


# --- FedProto --------------------------------------------------------------------------------------------------------


def test_prototypes_of_the_official_code():
    golden = np.load(GOLDEN / 'fedproto_official.npz')
    everything = jnp.ones(12, bool)
    sums, counts = jax.vmap(lambda f, y: class_sums(f, y, everything, 4))(golden['features'], golden['labels'])
    own = sums / jnp.maximum(counts, 1)[..., None]
    held = ~np.isnan(golden['local_protos'])
    np.testing.assert_allclose(np.asarray(own)[held], golden['local_protos'][held], atol=1e-6)
    reports = {'prototypes': own[None], 'class_counts': counts[None]}
    out = scripted_rounds(make_methods('fedproto'), {'w': jnp.zeros(1)}, {'w': jnp.zeros((1, 3, 1))}, reports, [12] * 3)
    np.testing.assert_allclose(out.server['fedproto']['prototypes'][0], golden['global_protos'], atol=1e-6)
    np.testing.assert_array_equal(out.server['fedproto']['known'][0], held.any((0, 2)))


# --- FedFV -----------------------------------------------------------------------------------------------------------


def fedfv_by_definition(w, moves, loss, online, alpha, tau):
    """Loops over pairs of clients and past rounds."""
    last, seen, models = {}, {}, []
    for t, (given, losses) in enumerate(zip(moves, loss, strict=True)):
        here = np.flatnonzero(online[t])
        g = {c: -given[c] for c in here}
        order = sorted(here, key=lambda c: (losses[c], c))
        keep = order[int(np.ceil((len(here) - 1) * (1 - alpha))) :] if alpha > 0 else []
        turned = []
        for i in here:
            h = g[i].copy()
            for j in order if i not in keep else ():
                if j != i and h @ g[j] < 0:
                    h = h - (h @ g[j]) / (g[j] @ g[j]) * g[j]
            turned.append(h)
        total = np.mean(turned, 0)
        last, seen = last | g, seen | dict.fromkeys(here, t)
        for ago in range(tau - 1, -1, -1) if t + 1 >= tau else ():
            against = [last[c] for c in last if seen[c] == t - ago and total @ last[c] < 0]
            if against and total @ sum(against) < 0:
                total = total - (total @ sum(against)) / (sum(against) @ sum(against)) * sum(against)
        w = w - total / np.linalg.norm(total) * np.linalg.norm(np.mean(list(g.values()), 0))
        models.append(w)
    return np.array(models)


FEDFV = np.load(GOLDEN / 'fedfv_easyfl.npz')
MOVES = (FEDFV['w_local'] - FEDFV['w_before'][:, None]).astype(np.float32)


def test_fedfv_of_easyfl():
    hyper = {'fedfv.alpha': float(FEDFV['alpha']), 'fedfv.tau': int(FEDFV['tau'])}
    out = scripted_rounds(
        make_methods('fedfv', hyper), {'w': FEDFV['w_before'][0]}, {'w': MOVES}, {'loss': FEDFV['loss']}, [1] * 6
    )
    np.testing.assert_allclose(out.variables['w'], FEDFV['w_after'], atol=1e-5, rtol=0)


@pytest.mark.parametrize(('alpha', 'tau'), [(0.0, 1), (0.34, 1), (0.34, 3), (1.0, 2)])
def test_fedfv_by_definition_and_with_absent_clients(alpha, tau):
    """The clients come in any slot; those with equal losses go by their number."""
    rng = np.random.default_rng(1)
    moves, loss = rng.normal(size=(6, 6, 4)).astype(np.float32), rng.integers(1, 4, (6, 6)).astype(np.float32)
    online = rng.random((6, 6)) < 0.7
    order = rng.permuted(np.tile(np.arange(6), (6, 1)), axis=1)
    take = np.arange(6)[:, None], order
    out = scripted_rounds(
        make_methods('fedfv', {'fedfv.alpha': alpha, 'fedfv.tau': tau}),
        {'w': jnp.zeros(4)},
        {'w': moves[take]},
        {'loss': loss[take]},
        [1] * 6,
        ids=order,
        mask=online[take],
    )
    expected = fedfv_by_definition(np.zeros(4), moves.astype(float), loss, online, alpha, tau)
    np.testing.assert_allclose(out.variables['w'], expected, atol=2e-5, rtol=0)


def test_fedfv_averages_batch_statistics_plainly_and_wants_no_weights():
    start = {'params': {'w': jnp.zeros(4)}, 'batch_stats': {'m': jnp.zeros(2)}}
    moves = np.random.default_rng(0).normal(size=(1, 3, 6)).astype(np.float32)
    updates = {'params': {'w': moves[..., :4]}, 'batch_stats': {'m': moves[..., 4:]}}
    out = scripted_rounds(make_methods('fedfv'), start, updates, {'loss': np.ones((1, 3))}, [1, 5, 9])
    np.testing.assert_allclose(out.variables['batch_stats']['m'][0], moves[0, :, 4:].mean(0), atol=1e-6)
    with pytest.raises(ValueError, match='fedfv ignores client weights, so afl would have no effect'):
        scripted_rounds(make_methods('fedfv+afl'), start, updates, {'loss': np.ones((1, 3))}, [1, 5, 9])
    with pytest.raises(ValueError, match=r'fedfv\.tau=0 must be at least 1'):
        make_methods('fedfv', {'fedfv.tau': 0})
