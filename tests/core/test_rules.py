"""The rules that make composition natural, one test each."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from lab import FEDERATION, SIZES, algorithm, assert_close

from fedjax_fair.core import Local, Method, Phase, Stage, build
from fedjax_fair.core.client_map import ClientMap
from fedjax_fair.core.server import masked_softmax
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.testing import scripted_rounds, tiny_mlp

ONES = {'w': jnp.ones(3)}


def make(methods, model=None, **kwargs):
    kwargs = {'local': Local(epochs=1, batch_size=4, lr=0.1), 'client_map': 'vmap'} | kwargs
    model = model or tiny_mlp()
    return build(model, classification(3), methods, sizes=SIZES, example=FEDERATION.x[0], **kwargs)


def scale(name, factor):
    """A method that multiplies in every wrapped place, so that the order of application shows."""

    def grad(inner):
        def scaled(ctx, variables, batch):
            value, grads = inner(ctx, variables, batch)
            return value, jax.tree.map(lambda g: factor(g), grads)

        return scaled

    return Method(name, grad=grad, finish=lambda view, updates, weights, update: jax.tree.map(factor, update))


def test_rule_1_a_hook_sees_only_its_own_entries():
    def number(name, value):
        def commit(view, updates, weights, update):
            return view.server + value, view.rows * 2

        return Method(name, init=lambda v, run: (jnp.zeros(()), jnp.ones(())), commit=commit)

    out = scripted_rounds([number('a', 1.0), number('b', 10.0)], ONES, {'w': jnp.ones((2, 2, 3))}, {}, [1, 1])
    np.testing.assert_array_equal(out.server['a'], [1, 2])
    np.testing.assert_array_equal(out.server['b'], [10, 20])
    np.testing.assert_array_equal(out.clients['a'], [[2, 2], [4, 4]])


def test_rule_2_rows_are_written_by_report_or_commit_and_only_for_participants():
    by_report = Method('r', init=lambda v, run: (None, jnp.zeros(())), report=lambda c, s, b, a: (c.row + 1, {}))
    by_commit = Method('c', init=lambda v, run: (None, jnp.zeros(())), commit=lambda v, u, w, up: (None, v.rows + 1))
    updates = {'w': jnp.ones((1, 3, 3))}
    out = scripted_rounds([by_report, by_commit], ONES, updates, {}, [1] * 3, mask=[True, False, True])
    np.testing.assert_array_equal(out.clients['r'][0], [1, 0, 1])
    np.testing.assert_array_equal(out.clients['c'][0], [1, 0, 1])


def test_rule_3_scores_add_and_no_score_means_log_n():
    def scorer(name, values):
        return Method(name, score=lambda view, updates: jnp.asarray(values))

    updates = {'w': jnp.eye(3)[None]}  # client k moves coordinate k, so the update shows the weights

    def weights(methods, **kwargs):
        return np.asarray(
            scripted_rounds(methods, {'w': jnp.zeros(3)}, updates, {}, [1, 2, 5], **kwargs).variables['w'][0]
        )

    np.testing.assert_allclose(weights([]), np.array([1, 2, 5]) / 8, rtol=1e-6)
    both = weights([scorer('a', [0.0, 1.0, 2.0]), scorer('b', [1.0, 0.0, 0.5])])
    np.testing.assert_allclose(both, np.exp([1.0, 1.0, 2.5]) / np.exp([1.0, 1.0, 2.5]).sum(), rtol=1e-6)
    np.testing.assert_allclose(weights([scorer('a', [-jnp.inf] * 3)]), [1 / 3] * 3, rtol=1e-6)
    np.testing.assert_allclose(
        weights([scorer('a', [-jnp.inf] * 3)], mask=[True, True, False]), [0.5, 0.5, 0], rtol=1e-6
    )
    np.testing.assert_allclose(weights([scorer('a', [jnp.nan, 0.0, 0.0])]), [0, 0.5, 0.5], rtol=1e-6)
    np.testing.assert_array_equal(masked_softmax(jnp.ones(3), jnp.zeros(3, bool)), 0)
    loner = Method('loner', reduce=lambda view, updates, weights: {'w': jnp.zeros(3)}, ignores_weights=True)
    with pytest.raises(ValueError, match='loner ignores client weights, so a would have no effect'):
        make([scorer('a', [0.0]), loner])


def test_rule_4_hooks_run_by_stage_then_by_name_however_methods_are_listed():
    plus, times = scale('plus', lambda v: v + 1), scale('times', lambda v: v * 2)
    later = plus._replace(stage=Stage.OWN)
    updates = {'w': jnp.ones((1, 1, 3))}
    for methods, expected in (([plus, times], 1 + (1 + 1) * 2), ([later, times], 1 + 2 + 1)):
        for spelling in (methods, methods[::-1]):
            out = scripted_rounds(spelling, ONES, updates, {}, [1])
            np.testing.assert_allclose(out.variables['w'][0], expected)
    start = make([]).init(jax.random.key(0)).variables['params']

    def moved(methods):  # one step, so the change is minus the learning rate times the gradient
        local = Local(steps=1, batch_size=16, lr=1.0)
        state = make(methods, local=local).init(jax.random.key(0))
        state, _ = make(methods, local=local).round(state, FEDERATION.cohort([0]), jax.random.key(1))
        return jax.tree.map(lambda a, b: a - b, start, state.variables['params'])

    plain = moved([])
    for first, expected in ((plus, lambda g: 2 * (g + 1)), (later, lambda g: 2 * g + 1)):
        only_grad = [m._replace(finish=None) for m in (first, times)]
        for spelling in (only_grad, only_grad[::-1]):
            assert_close(moved(spelling), jax.tree.map(expected, plain))


def test_rule_5_randomness_belongs_to_the_client_not_to_its_slot():
    noisy = Method('noisy', report=lambda c, s, b, a: (None, {'draw': jax.random.uniform(c.key)}))
    shown = {}

    def commit(view, updates, weights, update):
        return view.reports_of('noisy')['draw'][jnp.argsort(view.ids)], None

    keep = Method('keep', init=lambda v, run: (jnp.zeros(3), None), commit=commit)
    run = make([noisy, keep])
    for ids in ([0, 2, 4], [4, 0, 2]):
        state, _ = run.round(run.init(jax.random.key(0)), FEDERATION.cohort(ids), jax.random.key(1))
        shown[tuple(ids)] = np.asarray(state.server['keep'])
    one, two = shown.values()
    np.testing.assert_array_equal(one, two)
    assert len(set(one.tolist())) == 3


def test_rule_6_hyper_parameters_may_be_traced():
    """A grid of values vmaps through the factory itself."""

    def final(mu):
        run = algorithm('fedprox', {'fedprox.mu': mu})
        state, _ = run.round(run.init(jax.random.key(0)), FEDERATION.cohort([0, 1]), jax.random.key(1))
        return state.variables['params']['head']['kernel']

    grid = jnp.asarray([0.0, 0.5, 3.0])
    many = jax.jit(jax.vmap(final))(grid)
    for value, found in zip(grid.tolist(), many, strict=True):
        np.testing.assert_allclose(found, final(value), atol=1e-6)


@pytest.mark.parametrize(
    ('methods', 'message'),
    [
        ([Method('a'), Method('a')], "method 'a' is listed twice"),
        (
            [Method('a', reduce=print), Method('b', reduce=print)],
            'only one method may define reduce, but a and b',
        ),
        ([Method('a', serve=print), Method('b', serve=print)], 'only one method may define serve'),
        ([Method('a', phases=(Phase('x'),)), Method('b', phases=(Phase('y'),))], 'only one method may define phases'),
        (
            [Method('a', local={'momentum': 0.0}), Method('b', local={'momentum': 0.9})],
            'a and b fix momentum',
        ),
        ([Method('a', local={'speed': 1})], "a fixes 'speed', which is not one of"),
        ([Method('a', measures=('los',))], "a measures 'los', which is not one of .*; did you mean 'loss'?"),
        ([Method('local_optimizer')], "a method cannot be called 'local_optimizer': the engine keeps its own rows"),
        (make_methods('server_adam') + make_methods('server_yogi'), 'only one method may define server_opt'),
    ],
)
def test_rule_7_compositions_that_cannot_be_meant_are_refused(methods, message):
    with pytest.raises(ValueError, match=message):
        make(methods)


def test_rule_7_other_build_errors():
    with pytest.raises(ValueError, match='server_opt is given, but server_adam brings its own'):
        make(make_methods('server_adam'), server_opt=optax.sgd(1.0))
    with pytest.raises(ValueError, match=r"^recipe 'fedprx' is not one of fedavg"):
        make_methods('fedprx')
    with pytest.raises(ValueError, match="recipe 'fedavg\\+fedprx': 'fedprx' is not one of fedavg"):
        make_methods('fedavg+fedprx')
    with pytest.raises(ValueError, match="client_map='spread' is not one of auto, vmap, chunked, sharded"):
        make([], client_map='spread')
    with pytest.raises(ValueError, match=r"^optimizer='lion' is not one of sgd"):
        make([], local=Local(optimizer='lion'))


def test_rule_8_statistics_are_averaged_with_the_weights_and_never_scaled():
    variables = {'params': {'w': jnp.zeros(2)}, 'batch_stats': {'mean': jnp.zeros(2)}}
    updates = {'params': {'w': jnp.ones((1, 2, 2))}, 'batch_stats': {'mean': jnp.asarray([[[1.0, 1.0], [4.0, 4.0]]])}}
    halved = Method('halved', finish=lambda view, updates, weights, update: jax.tree.map(lambda u: u / 2, update))
    out = scripted_rounds([halved], variables, updates, {}, [2, 1])
    np.testing.assert_allclose(out.variables['params']['w'][0], 0.5)
    np.testing.assert_allclose(out.variables['batch_stats']['mean'][0], 2.0, rtol=1e-6)
    first = Method('first', whole=True, reduce=lambda view, u, w: jax.tree.map(lambda leaf: leaf[0], u))
    out = scripted_rounds([first], variables, updates, {}, [2, 1])
    np.testing.assert_allclose(out.variables['batch_stats']['mean'][0], 1.0)


@pytest.mark.parametrize('stacked', [False, True])
def test_rule_9_updates_are_stacked_only_when_a_method_needs_them(stacked):
    """Without stacking, no array of the compiled round holds one model per client of the cohort."""
    methods = [Method('all', needs_all=True)] if stacked else []
    width, slots = 37, 5
    run = make(methods, model=tiny_mlp(width), client_map=ClientMap(1))
    state = run.init(jax.random.key(0))
    text = jax.jit(run.round).lower(state, FEDERATION.cohort(range(slots)), jax.random.key(1)).as_text()
    assert (f'tensor<{slots}x4x{width}xf32>' in text) == stacked
    assert run.facts['stacked'] == stacked


def test_accumulated_and_stacked_rounds_agree():
    outcomes = []
    for methods in ([], [Method('all', needs_all=True)]):
        run = make(methods, model=tiny_mlp(batch_norm=True), client_map=ClientMap(2))
        state, _ = run.round(run.init(jax.random.key(0)), FEDERATION.cohort(range(5)), jax.random.key(1))
        outcomes.append(state.variables)
    assert_close(*outcomes, 1e-6)
