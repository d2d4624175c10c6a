"""Pairs whose methods could disturb each other do what both do by definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import FEDERATION, SIZES, assert_close, assert_same

from fedjax_fair.core import Local, Method, build
from fedjax_fair.core.client_map import ClientMap
from fedjax_fair.core.local import WarmUp
from fedjax_fair.methods import make_methods
from fedjax_fair.methods.moon import cosine
from fedjax_fair.metrics import classification
from fedjax_fair.testing import tiny_mlp

IDS = (0, 1, 2, 3)
COHORT = FEDERATION.cohort(IDS)
LOCAL = Local(epochs=2, batch_size=4, lr=0.1)


def make(recipe, *more, hyper=None, local=LOCAL, rounds=5, batch_norm=False):
    methods = [*make_methods(recipe, hyper), *more]
    facts = dict(sizes=SIZES, example=FEDERATION.x[0], local=local, rounds=rounds, client_map=ClientMap())
    return build(tiny_mlp(batch_norm=batch_norm), classification(3), methods, **facts)


def play(algorithm, rounds=1, state=None):
    state, step = state or algorithm.init(jax.random.key(0)), jax.jit(algorithm.round)
    for _ in range(rounds):
        state, metrics = step(state, COHORT, jax.random.key(1))
    return state, metrics


def spellings(pair):
    first, second = pair.split('+')
    return [f'{first}+{second}', f'{second}+{first}']


@pytest.mark.parametrize('recipe', spellings('fairfed+fedce'))
def test_fairfed_and_fedce_each_measure_their_own_accuracy(recipe):
    algorithm = make(recipe)
    before, _ = play(algorithm, 2)
    after, _ = play(algorithm, 1, before)
    n = np.asarray(SIZES[:4], np.float64)
    # FairFed: the received model
    accuracy = np.asarray(algorithm.measure(before, COHORT, lambda ctx: ctx.balanced_accuracy(ctx.variables)))[:4]
    share, weight = n / n.sum(), np.asarray(before.clients['fairfed'])[:4]
    away = accuracy * (1 - share)
    new = np.maximum(weight - (away - away.mean()), 0)
    np.testing.assert_allclose(after.clients['fairfed'][:4], new / new.sum(), atol=1e-5)
    # FedCE: the received model without the client's last one
    c = before.server['fedce']['c']

    def without_own(ctx, last):
        own = jax.tree.map(lambda table: table[ctx.id], last)
        model = jax.tree.map(lambda w, v: (w - c[ctx.id] * v) / (1 - c[ctx.id]), ctx.variables, own)
        return ctx.balanced_accuracy(model)

    missing = np.asarray(algorithm.measure(before, COHORT, without_own, before.clients['fedce']))[:4]
    gained = np.asarray(after.server['fedce']['accuracy'] - before.server['fedce']['accuracy'])[:4]
    np.testing.assert_allclose(gained, missing, atol=1e-5)


def features_of_the_last_epoch():
    """Prototypes written down once more: mean features by class over the last epoch, then over clients."""

    def observe(ctx, scratch, batch, aux, last):
        own = jax.nn.one_hot(batch.y, 3) * (batch.mask & last)[:, None].astype(jnp.float32)
        return scratch[0] + own.T @ aux.features, scratch[1] + own.sum(0)

    def commit(view, updates, weights, update):
        sums, counts = view.reports['sums'], view.reports['counts']
        holds = (counts > 0) & view.mask[:, None]
        means = jnp.where(holds[..., None], sums / jnp.maximum(counts, 1)[..., None], 0)
        return means.sum(0) / jnp.maximum(holds.sum(0), 1)[:, None].astype(means.dtype), None

    return Method(
        'watch',
        init=lambda variables, run: (jnp.zeros((3, 6)), None),
        start=lambda ctx: (jnp.zeros((3, 6)), jnp.zeros(3)),
        observe=observe,
        report=lambda ctx, scratch, before, after: (None, {'sums': scratch[0], 'counts': scratch[1]}),
        commit=commit,
    )


@pytest.mark.parametrize('recipe', [*spellings('fedproto+fedpac'), *spellings('fedproc+fedpac')])
def test_prototypes_and_class_means_are_two_things(recipe):
    other = next(part for part in recipe.split('+') if part != 'fedpac')
    algorithm = make(f'{recipe}+keep_local_models', features_of_the_last_epoch())
    state, _ = play(algorithm, 2)
    assert_close(state.server[other]['prototypes'], state.server['watch'])
    # FedPAC: class means of the features of the trained models, over all examples
    models = state.clients['keep_local_models']

    def sums(ctx, models):
        own = jax.tree.map(lambda table: table[ctx.id], models)
        y = jnp.take(ctx.data.y, ctx.data.index, axis=0)
        of_class = jax.nn.one_hot(y, 3) * ctx.data.ex_mask[:, None].astype(jnp.float32)
        return of_class.T @ ctx.features(own), of_class.sum(0)

    features, counts = (np.asarray(found).sum(0) for found in algorithm.measure(state, COHORT, sums, models))
    assert_close(state.server['fedpac']['means'], features / np.maximum(counts, 1)[:, None], 1e-4)


@pytest.mark.parametrize('other', ['logit_adjust', 'fedism', 'tilted_loss', 'term', 'margin', 'fedprox', 'fedproto'])
def test_the_first_round_of_fedproc_moves_nothing(other):
    """Its objective is the contrast alone, and there are no prototypes yet."""
    for recipe in spellings(f'fedproc+{other}'):
        algorithm = make(recipe, hyper={'term.t': -1.0} if other == 'term' else None)
        start = algorithm.init(jax.random.key(0))
        state, _ = play(algorithm)
        assert_close(state.variables['params'], start.variables['params'], 1e-6)


def test_tilts_are_of_adjusted_losses():
    """FedISM with TERM tilts what logit adjustment makes of the losses, in either spelling."""
    one = Local(steps=1, batch_size=16, lr=0.1)
    states = [play(make(recipe, local=one))[0] for recipe in spellings('logit_adjust+term')]
    assert_same(*(state.variables for state in states))
    plain, tilted = (play(make(recipe, local=one))[0].variables for recipe in ('logit_adjust', 'term'))
    for other in (plain, tilted):
        assert not np.allclose(states[0].variables['params']['head']['kernel'], other['params']['head']['kernel'])


@pytest.mark.parametrize('head_lr', [0.1, 0.5])
def test_scaffold_divides_by_the_time_that_each_phase_of_fedpac_trains(head_lr):
    """From zero control variates the new ones are the mean gradients that head and body followed."""
    for recipe in spellings('scaffold+fedpac'):
        algorithm = make(f'{recipe}+keep_local_models', hyper={'fedpac.head_lr': head_lr})
        start = algorithm.init(jax.random.key(0)).variables['params']
        state, _ = play(algorithm)
        for client, n in zip(IDS, SIZES, strict=False):
            batches = -(-n // LOCAL.batch_size)
            time = {'head': batches * head_lr, 'body': LOCAL.epochs * batches * LOCAL.lr}
            after = jax.tree.map(lambda leaf, i=client: leaf[i], state.clients['keep_local_models'])['params']
            own = jax.tree.map(lambda leaf, i=client: leaf[i], state.clients['scaffold'])
            for layer, spent in time.items():
                followed = jax.tree.map(lambda w, y, t=spent: (w - y) / t, start[layer], after[layer])
                assert_close(own[layer], followed, 1e-4)


@pytest.mark.parametrize('base', ['scaffold', 'fedprox', 'moon', 'feddyn', 'fedproto'])
def test_methods_about_the_shared_model_leave_the_personal_one_alone(base):
    """In the first round the personal model is that of Ditto alone, in either spelling."""
    alone = play(make('ditto', local=LOCAL._replace(momentum=0.0)))[0].clients['personal']
    joined = [play(make(recipe))[0] for recipe in spellings(f'ditto+{base}')]
    assert_same(joined[0], joined[1])
    assert_close(joined[0].clients['personal'], alone)


@pytest.mark.parametrize('shape', ['tilted_loss', 'logit_adjust', 'salt'])
def test_methods_about_the_objective_train_the_personal_model_too(shape):
    alone = play(make('personal'))[0].clients['personal']['params']['head']['kernel']
    joined = [play(make(recipe))[0] for recipe in spellings(f'personal+{shape}')]
    assert_same(joined[0], joined[1])
    assert not np.allclose(joined[0].clients['personal']['params']['head']['kernel'][:4], alone[:4], atol=1e-4)


@pytest.mark.parametrize('other', ['scaffold', 'qffl'])
def test_a_learning_rate_of_zero_is_no_failure(other):
    still = Method('still', local={'warm_up': WarmUp(5.0, per_step=False)})
    algorithm = make(other, still)
    start = algorithm.init(jax.random.key(0))
    state, metrics = play(algorithm)
    assert float(metrics['failed']) == 0 and float(metrics['empty']) == 0
    assert_same(state.variables, start.variables)
    assert_same(state.clients, start.clients)


def test_batch_statistics_follow_the_scores_of_all_methods_but_those_that_are_not_about_them():
    """FedNova with q-FFL: by examples, since neither progress nor losses concern statistics."""
    finals = []
    for recipe in (*spellings('fednova+qffl'), 'fedavg'):
        state, _ = play(make(recipe, batch_norm=True, local=LOCAL._replace(epochs=1)))
        finals.append(state.variables['batch_stats'])
    assert_same(finals[0], finals[1])
    assert_close(finals[0], finals[2])


@pytest.mark.parametrize('other', ['fednova', 'qffl', 'fedpac'])
def test_feddyn_is_the_same_in_either_spelling(other):
    joined = [play(make(recipe), 2)[0] for recipe in spellings(f'feddyn+{other}')]
    assert_same(joined[0], joined[1])


def test_factors_scale_the_mean_update_and_not_what_feddyn_adds():
    for recipe in spellings('feddyn+scaffold'):
        algorithm = make(f'{recipe}+keep_local_models', hyper={'scaffold.server_lr': 0.5})
        before, _ = play(algorithm)
        after, _ = play(algorithm, 1, before)
        models = jax.tree.map(lambda leaf: leaf[:4].mean(0), after.clients['keep_local_models']['params'])
        sent, drift = before.variables['params'], after.server['feddyn']
        expected = jax.tree.map(lambda w, mean, h: w + 0.5 * (mean - w) + h, sent, models, drift)
        assert_close(after.variables['params'], expected)


def test_the_gradient_of_moons_cosine_is_bounded_where_features_vanish():
    target = jnp.array([[1.0, 1.0]])
    steep = jax.grad(lambda a: jnp.sum(cosine(a, target)))
    for size in (1e-9, 1e-12, 1e-20, 0.0):
        gradient = steep(jnp.array([[size, -size]]))
        assert bool(jnp.all(jnp.isfinite(gradient)))
        assert float(jnp.abs(gradient).max()) <= 1.01e8
    np.testing.assert_allclose(cosine(jnp.array([[3.0, 4.0]]), jnp.array([[4.0, 3.0]])), [0.96], rtol=1e-6)
