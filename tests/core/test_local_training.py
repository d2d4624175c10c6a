"""The training loop against plain reference loops, and what must not change its outcome."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn
from lab import FEDERATION, SIZES, assert_close

from fedjax_fair.core import Local, build
from fedjax_fair.core import local as training
from fedjax_fair.core.client_map import ClientMap
from fedjax_fair.core.types import Phase
from fedjax_fair.data.federation import cohort_of
from fedjax_fair.errors import UserError
from fedjax_fair.metrics import classification
from fedjax_fair.models import from_linen
from fedjax_fair.models.norm import BatchNorm
from fedjax_fair.testing import tiny_federation, tiny_mlp
from fedjax_fair.training.config import setting_options

MODEL, TASK, KEY = tiny_mlp(batch_norm=True), classification(3), jax.random.key(1)


def make(local, model=MODEL, client_map=ClientMap(1), **kwargs):
    return build(model, TASK, [], sizes=SIZES, example=FEDERATION.x[0], local=local, client_map=client_map, **kwargs)


def after_one_round(local, ids=(1,), cohort=None, round_=0, **kwargs):
    run = make(local, **kwargs)
    state = run.init(jax.random.key(0))._replace(round=jnp.asarray(round_, jnp.int32))
    return run.round(state, FEDERATION.cohort(ids) if cohort is None else cohort, KEY)


def reference(local, client, optimizer, epochs, steps=None):
    """The same training as a Python loop over real batches only."""
    key = jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(KEY, 0), client), 0)
    rows = FEDERATION.index[client, : SIZES[client]]
    mask = jnp.arange(FEDERATION.index.shape[1]) < SIZES[client]
    orders = training.shuffles(key, mask, epochs, len(mask))[:, : SIZES[client]]
    batches = [o[i : i + local.batch_size] for o in orders for i in range(0, SIZES[client], local.batch_size)]
    variables = make(local).init(jax.random.key(0)).variables
    opt = optimizer.init(variables['params'])
    for batch in batches[:steps]:
        x, y = jnp.asarray(FEDERATION.x[rows[batch]]), jnp.asarray(FEDERATION.y[rows[batch]])

        def loss(params, x=x, y=y, variables=variables):
            out = MODEL.apply({**variables, 'params': params}, x, jnp.ones(len(y), bool), True, None)
            return TASK.losses(out.logits, y).mean(), out.batch_stats

        grads, stats = jax.grad(loss, has_aux=True)(variables['params'])
        updates, opt = optimizer.update(grads, opt, variables['params'])
        variables = {'params': optax.apply_updates(variables['params'], updates), 'batch_stats': stats}
    return variables


def torch_sgd(lr, momentum, decay):
    return optax.chain(optax.add_decayed_weights(decay), optax.trace(momentum), optax.scale(-lr))


@pytest.mark.parametrize(
    ('local', 'optimizer', 'epochs', 'steps'),
    [
        (Local(epochs=3, batch_size=4, lr=0.1), optax.sgd(0.1), 3, None),
        (Local(epochs=2, batch_size=4, lr=0.1, momentum=0.9, weight_decay=0.01), torch_sgd(0.1, 0.9, 0.01), 2, None),
        (Local(batch_size=4, lr=0.1, steps=5), optax.sgd(0.1), 3, 5),
        (Local(epochs=2, batch_size=64, lr=0.1), optax.sgd(0.1), 2, None),
        (
            Local(epochs=2, batch_size=4, lr=0.01, optimizer='adam', weight_decay=0.1),
            optax.chain(optax.add_decayed_weights(0.1), optax.adam(0.01)),
            2,
            None,
        ),
        (
            Local(epochs=2, batch_size=4, lr=0.01, optimizer='adamw', weight_decay=0.1),
            optax.adamw(0.01, weight_decay=0.1),
            2,
            None,
        ),
        (
            Local(epochs=2, batch_size=4, lr=0.1, clip_norm=0.05),
            optax.chain(optax.clip_by_global_norm(0.05), optax.sgd(0.1)),
            2,
            None,
        ),
        (Local(epochs=1, batch_size=4, lr=0.1, optimizer=lambda lr: optax.lion(lr)), optax.lion(0.1), 1, None),
    ],
    ids=['sgd', 'momentum', 'steps', 'one batch', 'adam', 'adamw', 'clip', 'any optax'],
)
def test_local_training_equals_a_plain_loop(local, optimizer, epochs, steps):
    """The last partial batch is kept, padding never counts, statistics are those of real examples."""
    with jax.numpy_dtype_promotion('standard'):  # optax's Adam mixes integers and floats
        state, metrics = after_one_round(local)
        assert_close(state.variables, reference(local, 1, optimizer, epochs, steps), 1e-5)
    assert float(metrics['examples']) == (SIZES[1] * epochs if steps is None else 7 + 7 + 4)


def test_every_epoch_has_its_own_order_and_every_round_too():
    mask = jnp.arange(10) < 7
    orders = np.asarray(training.shuffles(KEY, mask, 3, 12))
    assert orders.shape == (3, 12)
    assert all(sorted(order[:7]) == list(range(7)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    local = Local(epochs=1, batch_size=4, lr=0.1)
    first, later = (after_one_round(local, round_=r)[0].variables for r in (0, 1))
    assert not np.allclose(first['params']['head']['kernel'], later['params']['head']['kernel'])


def test_wider_padding_of_a_clients_examples_changes_nothing():
    local = Local(epochs=2, batch_size=4, lr=0.1, momentum=0.9)
    data = FEDERATION.arrays()
    wide = data._replace(index=jnp.pad(data.index, ((0, 0), (0, 9)), constant_values=3))
    cohort = cohort_of(wide, jnp.asarray([1, 2], jnp.int32))
    assert_close(after_one_round(local, (1, 2))[0], after_one_round(local, cohort=cohort)[0], 1e-6)


def test_the_learning_rate_may_depend_on_the_round():
    halved = Local(epochs=1, batch_size=4, lr=lambda t: 0.2 * 0.5 ** t.astype(jnp.float32))
    assert_close(
        after_one_round(halved, round_=1)[0].variables,
        after_one_round(Local(epochs=1, batch_size=4, lr=0.1), round_=1)[0].variables,
        1e-6,
    )


def test_augmentation_sees_training_batches_only():
    def shift(key, x):
        return x + 5 + jax.random.uniform(key, x.shape)

    local = Local(epochs=1, batch_size=4, lr=0.1)
    plain, shifted = (make(local, augment=augment) for augment in (None, shift))
    state = plain.init(jax.random.key(0))
    found = [run.evaluate(state, FEDERATION.tests)['global']['loss'] for run in (plain, shifted)]
    np.testing.assert_array_equal(*found)
    moved = [run.round(state, FEDERATION.cohort([0]), KEY)[0].variables for run in (plain, shifted)]
    assert not np.allclose(moved[0]['batch_stats']['body']['mean'], moved[1]['batch_stats']['body']['mean'], atol=0.1)


class Normalised(nn.Module):
    @nn.compact
    def __call__(self, x, mask, train):
        h = BatchNorm(name='norm')(nn.Dense(5)(x), mask, train)
        return nn.Dense(3)(nn.relu(h)), h


def test_batch_norm_inside_the_engine_behaves_as_in_torch():
    """One full batch moves running statistics by 0.1 to the mean and UNBIASED variance of the real examples."""
    model = from_linen(Normalised())
    run = make(Local(epochs=1, batch_size=16, lr=0.1), model=model, client_map=ClientMap())
    start = run.init(jax.random.key(0))
    state, _ = run.round(start, FEDERATION.cohort([1, 3]), KEY)
    kernel, bias = (np.asarray(start.variables['params']['Dense_0'][k]) for k in ('kernel', 'bias'))
    expected = np.zeros((2, 5))
    for client, weight in ((1, 7 / 12), (3, 5 / 12)):
        h = FEDERATION.x[FEDERATION.index[client, : SIZES[client]]] @ kernel + bias
        expected += weight * np.stack([0.1 * h.mean(0), 0.9 + 0.1 * h.var(0, ddof=1)])
    stats = state.variables['batch_stats']['norm']
    np.testing.assert_allclose(np.stack([stats['mean'], stats['var']]), expected, rtol=1e-4, atol=1e-5)


def test_a_chunk_costs_its_longest_client_and_no_more():
    local = Local(epochs=1, batch_size=1, lr=0.1)
    everyone = range(5)  # 12, 7, 9, 5 and 8 examples
    runs = {chunk: after_one_round(local, everyone, client_map=ClientMap(chunk))[1] for chunk in (1, 2, 5)}
    paid = {chunk: float(metrics['examples_paid']) for chunk, metrics in runs.items()}
    assert paid[1] == 12 + 7 + 9 + 5 + 8
    assert paid[2] == 2 * (12 + 8 + 5)  # sorted: 12 9 | 8 7 | 5
    assert paid[5] == 5 * 12


@pytest.mark.parametrize('client_map', [ClientMap(1), ClientMap(2), ClientMap()])
def test_a_last_batch_of_its_own_size_changes_only_the_cost(client_map, monkeypatch):
    even = tiny_federation((6, 6, 6, 0))  # batches of 4 and of 2
    local = Local(epochs=2, batch_size=4, lr=0.1, momentum=0.9, weight_decay=0.01)

    def one_round():
        run = build(MODEL, TASK, [], sizes=even.sizes, example=even.x[0], local=local, client_map=client_map)
        return run.round(run.init(jax.random.key(0)), even.cohort(range(4)), KEY)

    state, metrics = one_round()
    monkeypatch.setattr(training, 'last_batch', lambda *_: None)
    padded, more = one_round()
    assert_close(state, padded)
    assert float(metrics['examples']) == float(more['examples']) == 3 * 2 * 6
    assert float(metrics['steps']) == float(more['steps']) == 3 * 2 * 2
    assert float(more['examples_paid']) - float(metrics['examples_paid']) >= 3 * 2 * 2


def test_a_last_batch_has_its_own_size_where_that_saves_a_twentieth():
    def last(n, epochs=None, **settings):
        return training.last_batch(Local(batch_size=10, **settings), Phase('train', epochs), n)

    assert last(15) == 5
    assert last(195) is None  # 5 of 200
    assert last(190) is None  # nothing to fill up
    assert last(185) is None
    assert last(91) == 1
    assert last(7) is None  # a batch is never larger than the client
    assert last(None) is None  # clients differ
    assert last(15, steps=3) is None  # steps, not epochs
    assert last(15, epochs=1, steps=3) == 5


@pytest.mark.parametrize('bad', [{'epochs': 0}, {'batch_size': 0}, {'steps': 0}])
def test_impossible_settings_are_refused(bad):
    name, value = next(iter(bad.items()))
    with pytest.raises(ValueError, match=f'{name}={value} must be at least 1'):
        make(Local(**bad))


@pytest.mark.parametrize(
    ('local', 'told'),
    [
        ({'lr': -1.0}, 'lr=-1.0 must be above 0'),
        ({'lr': float('nan')}, 'lr=nan must be a finite number'),
        ({'lr': '0.1'}, "lr='0.1': expected a number such as 0.01"),
        ({'lr': np.float32(-1)}, 'lr=-1.0 must be above 0'),
        ({'momentum': 2.0}, 'momentum=2.0 must be at least 0 and below 1'),
        ({'weight_decay': -0.1}, 'weight_decay=-0.1 must be at least 0'),
        ({'clip_norm': 0.0}, 'clip_norm=0.0 must be above 0'),
        ({'steps': 0}, 'steps=0 must be at least 1 and at most 1000000000'),
        ({'batch_size': 2.5}, 'batch_size=2.5: expected a whole number such as 32'),
        ({'warm_up': training.WarmUp(0)}, 'warm_up.steps=0 must be above 0'),
    ],
)
def test_numbers_of_local_training_outside_of_their_ranges(local, told):
    with pytest.raises(UserError) as error:
        make(Local(**local))
    assert str(error.value) == told


@pytest.mark.parametrize(
    ('around', 'told'),
    [
        ({'rounds': 0}, 'rounds=0 must be at least 1 and at most 1000000'),
        ({'rounds': 1.5}, 'rounds=1.5: expected a whole number such as 1'),
        ({'eval_batch_size': 0}, 'eval_batch_size=0 must be at least 1'),
        ({'client_map': ClientMap(0)}, 'chunk=0 must be at least 1'),
    ],
)
def test_numbers_of_build_outside_of_their_ranges(around, told):
    with pytest.raises(UserError) as error:
        make(Local(), **around)
    assert str(error.value) == told


def test_traced_numbers_and_functions_are_taken_on_trust():
    def lowered(lr):
        return make(Local(lr=lr, momentum=lr, warm_up=training.WarmUp(lr))).init(jax.random.key(0)).round

    assert jax.eval_shape(lowered, -1.0).shape == ()
    assert make(Local(lr=lambda round: -1.0, optimizer=optax.sgd)).run.lr(0) == -1


def test_settings_of_a_run_have_the_ranges_of_local_training():
    options, own = setting_options(), training.LOCAL
    for name in ('batch_size', 'lr', 'momentum', 'weight_decay', 'clip_norm', 'keep_optimizer'):
        assert (options[name].range, options[name].help) == (own[name].range, own[name].help)
    assert options['adam_b2'].range == own['b2'].range and options['lr'].search == own['lr'].search
