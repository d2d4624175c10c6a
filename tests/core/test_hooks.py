"""The hooks later methods stand on, proven on toys: a second model, per-step scratch, a mask, phases, and the rest."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from lab import FEDERATION, SIZES, assert_close, assert_same

from fedjax_fair.core import Local, Method, Phase, Stage, build
from fedjax_fair.core.client_map import ClientMap
from fedjax_fair.core.method import View
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.testing import tiny_mlp

LOCAL = Local(epochs=2, batch_size=4, lr=0.1)
EVERYONE = FEDERATION.cohort(range(5))


def make(methods, local=LOCAL, client_map=ClientMap(2), **kwargs):
    example = FEDERATION.x[0]
    model, task = tiny_mlp(batch_norm=True), classification(3)
    return build(model, task, methods, sizes=SIZES, example=example, local=local, client_map=client_map, **kwargs)


def play(methods, rounds=2, cohort=EVERYONE, **kwargs):
    algorithm = make(methods, **kwargs)
    state, step = algorithm.init(jax.random.key(0)), jax.jit(algorithm.round)
    for _ in range(rounds):
        state, metrics = step(state, cohort, jax.random.key(1))
    return algorithm, state, metrics


def second_model(mu):
    """Ditto in small: another model per client, trained on the same batches with a pull to the global model."""

    def observe(ctx, scratch, batch, aux, last):
        (_, seen), grads = ctx.grad(scratch, batch)
        pull = jax.tree.map(lambda v, w: mu * (v - w), scratch['params'], ctx.variables['params'])
        step = jax.tree.map(lambda g, p: -ctx.run.lr(ctx.round) * (g + p), grads, pull)
        return {'params': optax.apply_updates(scratch['params'], step), 'batch_stats': seen.batch_stats}

    return Method(
        'second',
        init=lambda variables, run: (None, variables),
        start=lambda ctx: ctx.row,
        observe=observe,
        report=lambda ctx, scratch, before, after: (scratch, {}),
        deploy=lambda ctx, variables: ctx.row,
    )


def test_a_second_model_is_trained_beside_the_first_and_deployed():
    """Without a pull it is local training from its own row; in round one it equals the uploaded model."""
    _, state, _ = play([second_model(0.0)], rounds=1, cohort=FEDERATION.cohort([2]))
    assert_close(jax.tree.map(lambda leaf: leaf[2], state.clients['second']), state.variables, 1e-6)
    algorithm, state, _ = play([second_model(0.5)], rounds=3)
    found = algorithm.evaluate(state, FEDERATION.tests, ('global', 'deployed'))
    assert found['deployed']['loss'].shape == (6,)
    assert not np.allclose(found['deployed']['loss'][:5], found['global']['loss'][:5])
    # client 5 was never trained, so it uses the global model
    np.testing.assert_allclose(found['deployed']['loss'][5], found['global']['loss'][5], rtol=1e-5)


def test_the_second_model_sees_the_losses_of_the_methods_that_concern_every_model():
    tripled = Method('tripled', loss=lambda inner: lambda *a: (lambda value, aux: (3 * value, aux))(*inner(*a)))
    plain = play([second_model(0.0)], rounds=1)[1].clients['second']
    for methods in ([second_model(0.0), tripled], [tripled, second_model(0.0)]):
        alone = play(methods, rounds=1)[1].clients['second']
        assert_close(alone, plain, 1e-6)
        methods = [m._replace(stage=Stage.BATCH) if m.name == 'tripled' else m for m in methods]
        own = play(methods, rounds=1)[1].clients['second']
        assert not np.allclose(own['params']['head']['kernel'], plain['params']['head']['kernel'], atol=1e-3)


def test_scratch_is_carried_through_the_steps_and_masked_steps_leave_it_alone():
    """As a running amplitude is kept: one update per real batch, inputs transformed, the mean taken at the server."""

    def transform(ctx, scratch, x):
        if not ctx.train:
            return x - ctx.server[None], scratch
        return x - ctx.server[None], {'sum': scratch['sum'] + 1.0, 'last': scratch['last']}

    method = Method(
        'counter',
        init=lambda variables, run: (jnp.full(4, 0.5), jnp.zeros(2)),
        start=lambda ctx: {'sum': jnp.zeros(()), 'last': jnp.zeros(())},
        transform=transform,
        observe=lambda ctx, s, batch, aux, last: {**s, 'last': s['last'] + last.astype(jnp.float32)},
        report=lambda ctx, s, before, after: (jnp.stack([s['sum'], s['last']]), {'batches': s['sum']}),
        commit=lambda view, updates, weights, update: (view.server + view.mean(view.reports['batches']), None),
    )
    _, state, _ = play([method], rounds=1)
    batches = np.ceil(np.array(SIZES) / 4)
    np.testing.assert_array_equal(state.clients['counter'][:5], np.stack([2 * batches, batches], 1)[:5])
    np.testing.assert_allclose(state.server['counter'], 0.5 + 2 * batches[:5].mean())


def test_a_mask_from_revise_reaches_another_methods_score():
    """As a keep-mask does: one method revises, another weighs by what was kept."""

    def revise(view, updates):
        keep = jax.tree.map(lambda u: (u > 0).astype(u.dtype), updates)
        kept = sum(leaf.reshape(leaf.shape[0], -1).sum(1) for leaf in jax.tree.leaves(keep))
        return jax.tree.map(jnp.multiply, updates, keep), {'kept': kept}

    seen = {}

    def score(view, updates):
        seen['negative'] = sum(jnp.sum((leaf < 0).astype(leaf.dtype)) for leaf in jax.tree.leaves(updates))
        return jnp.log(view.reports_of('masker')['kept'])

    def commit(view, updates, weights, update):
        return {'weights': weights, 'kept': view.reports_of('masker')['kept'], 'negative': seen['negative']}, None

    zero = {'weights': jnp.zeros(6), 'kept': jnp.zeros(6), 'negative': jnp.zeros(())}
    weigher = Method('weigher', init=lambda variables, run: (zero, None), score=score, commit=commit)
    masker = Method('masker', revise=revise)
    for methods in ([masker, weigher], [weigher, masker]):
        _, state, _ = play(methods, rounds=1, cohort=FEDERATION.cohort([0, 1, 2, 3, 4, 6]))
        found = state.server['weigher']
        assert float(found['negative']) == 0
        np.testing.assert_allclose(found['weights'], found['kept'] / found['kept'].sum(), rtol=1e-5)
        assert np.count_nonzero(found['weights']) == 5


def test_phases_freeze_leaves_whatever_the_optimiser():
    """Head first, then body; frozen means frozen, even under momentum and weight decay."""
    phases = (
        Phase('head', epochs=1, lr=0.3, trainable=lambda path: path.startswith('head')),
        Phase('body', trainable=lambda path: path.startswith('body')),
    )
    watched = {}

    def loss(inner):
        def noted(ctx, variables, batch):
            watched[ctx.phase] = True
            return inner(ctx, variables, batch)

        return noted

    local = LOCAL._replace(momentum=0.9, weight_decay=0.1)
    head_only = Method('phased', phases=phases[:1], loss=loss)
    _, state, _ = play([head_only], rounds=1, local=local)
    start = make([]).init(jax.random.key(0)).variables['params']
    assert_same(state.variables['params']['body'], start['body'])
    assert not np.allclose(state.variables['params']['head']['kernel'], start['head']['kernel'])
    _, both, _ = play([head_only._replace(phases=phases)], rounds=1, local=local)
    assert_close(both.variables['params']['head'], state.variables['params']['head'], 1e-6)
    assert watched.keys() == {'head', 'body'}
    assert not np.allclose(both.variables['params']['body']['kernel'], start['body']['kernel'])


def test_download_upload_and_deploy_keep_leaves_on_the_client():
    """FedBN in small: statistics stay at home, never enter the mean, and are used at test time."""

    def mine(ctx, variables):
        return {**variables, 'batch_stats': ctx.row}

    method = Method(
        'keeps',
        init=lambda variables, run: (None, variables['batch_stats']),
        download=mine,
        upload=lambda ctx, scratch, before, after: {**after, 'batch_stats': before['batch_stats']},
        report=lambda ctx, scratch, before, after: (after['batch_stats'], {}),
    )
    algorithm, state, _ = play([method], rounds=3)
    start = make([]).init(jax.random.key(0)).variables
    assert_same(state.variables['batch_stats'], start['batch_stats'])
    rows = np.asarray(state.clients['keeps']['body']['mean'])
    assert len({tuple(row) for row in rows[:5].round(4)}) == 5
    found = algorithm.evaluate(state, FEDERATION.tests, ('deployed',))['deployed']['loss']
    for client in range(5):
        own = {**state.variables, 'batch_stats': jax.tree.map(lambda leaf, i=client: leaf[i], state.clients['keeps'])}
        x, y = FEDERATION.tests.x[client], jnp.asarray(FEDERATION.tests.y[client])
        logits = tiny_mlp(batch_norm=True).apply(own, x, jnp.ones(len(y), bool), False, None).logits
        np.testing.assert_allclose(found[client], classification(3).losses(logits, y).mean(), rtol=1e-5)


def test_serve_decides_what_is_evaluated():
    """An iterate mean is served while training goes on from the last iterate."""

    def commit(view, updates, weights, update):
        after = jax.tree.map(jnp.add, view.variables['params'], update)
        return jax.tree.map(lambda mean, w: mean + w, view.server, after), None

    def serve(view, clients):
        mean = jax.tree.map(lambda total: total / view.round.astype(total.dtype), view.server)
        return {**view.variables, 'params': mean}

    method = Method('mean', init=lambda v, run: (optax.tree.zeros_like(v['params']), None), commit=commit, serve=serve)
    one, state, _ = play([method], rounds=1)
    plain, bare, _ = play([], rounds=1)
    assert_close(state.variables, bare.variables, 1e-6)
    first = [a.evaluate(s, FEDERATION.tests)['global']['loss'] for a, s in ((one, state), (plain, bare))]
    np.testing.assert_allclose(*first, rtol=1e-5)
    served, state, _ = play([method], rounds=3)
    plain, bare, _ = play([], rounds=3)
    assert_close(state.variables, bare.variables, 1e-6)
    last = [a.evaluate(s, FEDERATION.tests)['global']['loss'] for a, s in ((served, state), (plain, bare))]
    assert not np.allclose(*last)


def test_adapted_models_are_trained_on_the_clients_own_data():
    algorithm, state, _ = play([], rounds=1)
    args = (state, FEDERATION.tests, ('global', 'adapted'))
    found = jax.jit(algorithm.evaluate, static_argnums=2)(*args, FEDERATION.cohort(range(6)), jax.random.key(2))
    assert found['adapted']['loss'].shape == (6,)
    assert found['adapted']['loss'][:5].mean() < found['global']['loss'][:5].mean()
    np.testing.assert_allclose(found['adapted']['loss'][5], found['global']['loss'][5], rtol=1e-5)
    with pytest.raises(ValueError, match='cohort'):
        algorithm.evaluate(*args)


def test_services_measure_the_whole_training_set():
    """loss, gradient, balanced accuracy, features and label counts against direct computation."""

    def probe(ctx):
        return {
            'loss': ctx.loss(ctx.variables),
            'slope': optax.tree.norm(ctx.loss_and_gradient(ctx.variables)[1]),
            'balanced': ctx.balanced_accuracy(ctx.variables),
            'features': jnp.sum(ctx.features(ctx.variables)),
            'counts': ctx.label_counts,
        }

    def commit(view, updates, weights, update):
        return dict(view.reports) | {'ids': view.ids}, None

    empty = {k: jnp.zeros(6) for k in ('loss', 'slope', 'balanced', 'features')}
    empty |= {'counts': jnp.zeros((6, 3)), 'ids': jnp.zeros(6, jnp.int32)}
    method = Method('probe', init=lambda v, run: (empty, None), probe=probe, commit=commit)
    _, state, _ = play([method], rounds=1, cohort=FEDERATION.cohort([0, 1, 2, 3, 4, 6]))
    plain = make([])
    start = plain.init(jax.random.key(0))
    variables, shown = start.variables, state.server['probe']
    measured = plain.measure(start, FEDERATION.cohort([0, 1, 2, 3, 4, 6]), probe)
    for name, table in measured.items():  # the same, by client number; nobody measured client 5
        np.testing.assert_allclose(table[shown['ids'][:5]], shown[name][:5], rtol=1e-5)
        assert not table[5].any()
    model, task = tiny_mlp(batch_norm=True), classification(3)
    for slot, client in enumerate(np.asarray(shown['ids'])):
        if client == 6:
            continue
        rows = FEDERATION.index[client, : SIZES[client]]
        x, y = jnp.asarray(FEDERATION.x[rows]), jnp.asarray(FEDERATION.y[rows])

        def mean_loss(params, x=x, y=y):
            out = model.apply({**variables, 'params': params}, x, jnp.ones(len(y), bool), False, None)
            return task.losses(out.logits, y).mean(), out

        (value, out), grads = jax.value_and_grad(mean_loss, has_aux=True)(variables['params'])
        guess = np.asarray(out.logits).argmax(1)
        recalls = [np.mean(guess[y == k] == k) for k in np.unique(y)]
        np.testing.assert_allclose(shown['loss'][slot], value, rtol=1e-5)
        np.testing.assert_allclose(shown['slope'][slot], optax.tree.norm(grads), rtol=1e-5)
        np.testing.assert_allclose(shown['balanced'][slot], np.mean(recalls), rtol=1e-5)
        np.testing.assert_allclose(shown['features'][slot], out.features.sum(), rtol=1e-4)
        np.testing.assert_array_equal(shown['counts'][slot], np.bincount(np.asarray(y), minlength=3))


def test_kept_optimisers_remember_and_fresh_ones_forget():
    local = LOCAL._replace(momentum=0.9)
    _, fresh, _ = play([], rounds=2, local=local)
    _, kept, _ = play([], rounds=2, local=local._replace(keep_optimizer=True))
    assert not np.allclose(fresh.variables['params']['head']['kernel'], kept.variables['params']['head']['kernel'])
    rows = jax.tree.leaves(kept.clients['local_optimizer'])
    assert all(np.any(leaf[:5] != 0) and not np.any(leaf[5] != 0) for leaf in rows)
    methods = make_methods('scaffold')
    _, state, _ = play(methods, rounds=1, local=local)
    assert float(jnp.abs(state.server['scaffold']['head']['kernel']).max()) > 0


def test_rows_of_tables_go_to_the_clients_of_a_view_and_back():
    ids, mask, none = jnp.array([4, 0, 2]), jnp.array([True, True, False]), jnp.zeros(3)
    run = dataclasses.replace(make([]).run, num_clients=6)
    view = View(run, none, none, {}, {}, ids, mask, n=none, steps=none, variables={})
    rows = view.gather({'a': jnp.arange(12.0).reshape(6, 2), 'b': jnp.arange(6)})
    np.testing.assert_array_equal(rows['a'][:2], [[8, 9], [0, 1]])
    np.testing.assert_array_equal(rows['b'][:2], [4, 0])
    back = view.scatter(jnp.zeros((6, 2)), rows['a'])
    np.testing.assert_array_equal(back, [[0, 1], [0, 0], [0, 0], [0, 0], [8, 9], [0, 0]])
