"""HarmoFL against vectors of its authors' code and of its equations, and what its parts keep and reduce to."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import GOLDEN, IMAGES, algorithm, assert_close, assert_same, lab

from fedjax_fair.core import Local, Method, Model, Output, build
from fedjax_fair.core import local as training
from fedjax_fair.core.engine import OPTIMIZER_ROW
from fedjax_fair.data.federation import Examples, cohort_of
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification, segmentation
from fedjax_fair.models import make_model
from fedjax_fair.ops import amplitude_normalize, mean_amplitude, sam_gradient
from fedjax_fair.ops.sharpness import ascent
from fedjax_fair.testing import scripted_rounds, tiny_mlp

LAYERS = ('fc1_weight', 'fc1_bias', 'fc2_weight', 'fc2_bias')


@pytest.fixture
def in_order(monkeypatch):
    """Batches in the order in which examples are stored."""
    orders = lambda key, ex_mask, epochs, width: jnp.tile(jnp.arange(width)[None], (epochs, 1))  # noqa: E731
    monkeypatch.setattr(training, 'shuffles', orders)


def recorder(shape):
    """Keeps the batches of a client as its model sees them."""
    return Method(
        'recorder',
        init=lambda variables, run: (jnp.zeros(shape), None),
        start=lambda ctx: ctx.server,
        observe=lambda ctx, seen, batch, aux, last: jnp.concatenate([seen[1:], batch.x[None]]),
        report=lambda ctx, seen, before, after: (None, {'seen': seen}),
        commit=lambda view, updates, weights, update: (view.mean(view.reports['seen']), None),
    )


def one_client(x, methods, local, y=None, model=None):
    """An algorithm for a single client with these examples, and its cohort."""
    y = np.zeros(len(x), np.int32) if y is None else y
    chosen = build(model or tiny_mlp(), classification(3), methods, sizes=[len(x)], example=x[0], local=local)
    data = Examples(jnp.asarray(x), jnp.asarray(y), jnp.arange(len(x))[None], jnp.array([len(x)]))
    return chosen, cohort_of(data, jnp.arange(1))


@pytest.mark.parametrize(
    ('file', 'seed', 'band', 'amplitude', 'images', 'tolerances'),
    [
        ('paper_eq', 'first_batch', 'full', 'running_amp_first_batch', 'y_full_first_batch', (1e-10, 1e-10)),
        ('paper_eq', 'zero', 'full', 'running_amp_zero', 'y_full_zero', (1e-10, 1e-10)),
        ('authors', 'frozen_first_batch', 'dc', 'running_amp', 'y', (1e-5, 1e-6)),  # computed in float32
    ],
)
def test_three_batches_of_a_client_are_normalised_as_published(
    in_order, file, seed, band, amplitude, images, tolerances
):
    z = np.load(GOLDEN / f'harmofl_ampnorm_{file}.npz')
    with jax.enable_x64(True):
        x = np.moveaxis(z['x'].astype(np.float64), 2, -1)
        hyper = {'amp_norm.seed': seed, 'amp_norm.band': band, 'amp_norm.decay': float(z['v'])}
        methods = [*make_methods('amp_norm', hyper), recorder(x.shape)]
        chosen, cohort = one_client(x.reshape(12, 8, 8, 3), methods, Local(batch_size=4))
        step, state = jax.jit(chosen.round), chosen.init(jax.random.key(0))
        state, _ = step(state, cohort, jax.random.key(1))
        kept = state.server['amp_norm']['amplitude']
        np.testing.assert_allclose(kept, np.moveaxis(z[amplitude][-1], 0, -1), atol=tolerances[0])
        np.testing.assert_allclose(state.server['recorder'], np.moveaxis(z[images], 2, -1), atol=tolerances[1])
        state, _ = step(state, cohort, jax.random.key(1))  # fixed from now on
        assert_same(state.server['amp_norm']['amplitude'], kept)
        for seen, batch in zip(state.server['recorder'], x, strict=True):
            np.testing.assert_allclose(seen, amplitude_normalize(batch, kept, band=band), atol=1e-10)


def test_padding_never_enters_the_amplitude(in_order):
    """With decay 1 only the last batch counts: one image and three places that pad it."""
    x = np.random.default_rng(0).normal(size=(5, 4, 6, 2)).astype(np.float32)
    chosen, cohort = one_client(x, make_methods('amp_norm', {'amp_norm.decay': 1.0}), Local(batch_size=4))
    state, _ = chosen.round(chosen.init(jax.random.key(0)), cohort, jax.random.key(1))
    np.testing.assert_allclose(state.server['amp_norm']['amplitude'], mean_amplitude(x[4:]), rtol=1e-5)


def test_the_server_takes_the_plain_mean_once_or_in_every_round():
    amplitudes = np.random.default_rng(0).uniform(1, 2, (3, 4, 2, 2, 1)).astype(np.float32)
    mask = [[True, True, False, True]] * 3
    for communicate, expected in (('first_round', [0, 0, 0]), ('every_round', [0, 1, 2])):
        out = scripted_rounds(
            make_methods('amp_norm', {'amp_norm.communicate': communicate}),
            {'w': jnp.zeros(2)},
            {'w': jnp.ones((3, 4, 2))},
            {'amplitude': amplitudes},
            [1, 20, 3, 4],
            mask=mask,
        )
        wanted = amplitudes[expected][:, [0, 1, 3]].mean(1)
        np.testing.assert_allclose(out.server['amp_norm']['amplitude'], wanted, rtol=1e-6)


def test_in_every_round_clients_go_on_from_the_mean():
    hyper = {'amp_norm.communicate': 'every_round'}
    chosen, data = algorithm('amp_norm', hyper, data=IMAGES), IMAGES
    state, found = chosen.init(jax.random.key(0)), []
    for _ in range(2):
        state, _ = chosen.round(state, data.cohort(range(5)), jax.random.key(1))
        found.append(state.server['amp_norm']['amplitude'])
    assert float(jnp.max(jnp.abs(found[1] - found[0]))) > 1e-4


def test_an_amplitude_that_does_not_move_stays_the_mean_of_the_first_round():
    """Clients that began again from their own first batch would give another one: batches are drawn anew."""
    hyper = {'amp_norm.communicate': 'every_round', 'amp_norm.decay': 0.0}
    chosen, data = algorithm('amp_norm', hyper, data=IMAGES), IMAGES
    first, _ = chosen.round(chosen.init(jax.random.key(0)), data.cohort(range(4)), jax.random.key(1))
    second, _ = chosen.round(first, data.cohort([1]), jax.random.key(1))
    assert_same(second.server['amp_norm'], first.server['amp_norm'])


def test_evaluation_uses_the_amplitude_of_the_server_and_none_before_there_is_one():
    chosen, data = algorithm('amp_norm', data=IMAGES), IMAGES
    x, mask, model = jnp.asarray(data.x[:7]), jnp.ones(7, bool), tiny_mlp(batch_norm=True)
    start = chosen.init(jax.random.key(0))
    plain = model.apply(start.variables, x, mask, False, None).logits
    np.testing.assert_allclose(chosen.predict(start, x), plain, rtol=1e-5)
    state, _ = chosen.round(start, data.cohort(range(5)), jax.random.key(1))
    normal = amplitude_normalize(x, state.server['amp_norm']['amplitude'])
    expected = model.apply(state.variables, normal, mask, False, None).logits
    np.testing.assert_allclose(chosen.predict(state, x), expected, rtol=1e-4, atol=1e-5)
    assert float(jnp.max(jnp.abs(normal - x))) > 0.01


def authors_network(variables, x, mask, train, key):
    p = variables['params']
    hidden = x @ p['fc1_weight'].T + p['fc1_bias'][None]
    hidden = (hidden - hidden.mean(0, keepdims=True)) / jnp.sqrt(hidden.var(0, keepdims=True) + 1e-5)
    features = jnp.tanh(hidden)
    return Output(features @ p['fc2_weight'].T + p['fc2_bias'][None], features, {})


def test_the_gradients_around_the_weight_perturbation_are_the_authors():
    z, losses = np.load(GOLDEN / 'harmofl_wp_sgd.npz'), []
    with jax.enable_x64(True):
        for step, before in enumerate(('init', 'after0', 'after1')):
            params = {n: jnp.asarray(z[f'{before}_{n}']) for n in LAYERS}

            def loss(params, x=jnp.asarray(z['X'][step]), y=jnp.asarray(z['Y'][step], jnp.int32)):
                logits = authors_network({'params': params}, x, None, True, None).logits
                return classification(3).losses(logits, y).mean()

            at = jax.value_and_grad(loss)
            value, there = sam_gradient(at, params, float(z['alpha']))
            gradient = at(params)[1]
            found = {'g': gradient, 'delta': ascent(gradient, float(z['alpha'])), 'gperturb': there}
            for kind, n in itertools.product(found, LAYERS):
                np.testing.assert_allclose(found[kind][n], z[f's{step}_{kind}_{n}'], atol=1e-12)
            losses.append(float(value))
    np.testing.assert_allclose(np.mean(losses), z['mean_loss'], atol=1e-12)


def test_the_weight_perturbation_is_the_authors(in_order):
    z = np.load(GOLDEN / 'harmofl_wp_sgd.npz')
    with jax.enable_x64(True):
        start = {n: jnp.asarray(z[f'init_{n}']) for n in LAYERS}
        model = Model(lambda key, x: {'params': start, 'batch_stats': {}}, authors_network)
        settings = {k: float(z[k]) for k in ('lr', 'momentum', 'weight_decay')}
        methods = make_methods('perturb', {'perturb.alpha': float(z['alpha'])})
        for steps in (1, 2, 3):
            local = Local(steps=steps, batch_size=10, **settings)
            labels = z['Y'].reshape(30).astype(np.int32)
            chosen, cohort = one_client(z['X'].reshape(30, 6), methods, local, labels, model)
            state, _ = chosen.round(chosen.init(jax.random.key(0)), cohort, jax.random.key(1))
            for n in LAYERS:
                np.testing.assert_allclose(state.variables['params'][n], z[f'after{steps - 1}_{n}'], atol=1e-12)


def test_without_a_radius_harmofl_is_amplitude_normalisation():
    zero, half = lab('harmofl').go(rounds=2, hyper={'harmofl.alpha': 0.0}), lab('amp_norm+uniform').go(rounds=2)
    assert_close(zero.variables, half.variables)
    assert_close(zero.server['amp_norm'], half.server['amp_norm'])


def test_harmofl_keeps_the_optimisers_of_clients_unless_told_otherwise():
    for recipe in ('harmofl', 'harmofl_release'):
        assert algorithm(recipe, data=IMAGES).facts['local'].keep_optimizer
        fresh = {f'{recipe}.keep_optimizer': 'false'}
        for asked in (False, True):  # the method's own word counts, whatever the run says
            chosen = algorithm(recipe, fresh, local=Local(keep_optimizer=asked), data=IMAGES)
            assert (
                not chosen.facts['local'].keep_optimizer and OPTIMIZER_ROW not in chosen.init(jax.random.key(0)).clients
            )
    keeper = Method('keeper', local={'keep_optimizer': True})
    with pytest.raises(ValueError, match='perturb and keeper fix keep_optimizer differently: False and True'):
        one_client(np.zeros((4, 2, 2, 1), np.float32), [*make_methods('harmofl_release', fresh), keeper], Local())


@pytest.mark.parametrize(('recipe', 'norm'), [('harmofl', 'stateless'), ('moon', 'batch')])
def test_nuclei_are_segmented_too(recipe, norm):
    x = np.random.default_rng(0).uniform(size=(8, 8, 8, 3)).astype(np.float32)
    masks = (x.mean(-1) > 0.5).astype(np.int32)
    network = make_model('unet', 2, norm, features=2, depth=1)
    facts = {'sizes': [4, 4], 'example': x[0], 'local': Local(batch_size=2)}
    chosen = build(network, segmentation(2), make_methods(recipe), **facts)
    data = Examples(jnp.asarray(x), jnp.asarray(masks), jnp.arange(8).reshape(2, 4), jnp.array([4, 4]))
    step, start = jax.jit(chosen.round), chosen.init(jax.random.key(0))
    state = start
    for _ in range(2):  # in its second round MOON has a past to compare with
        state, told = step(state, cohort_of(data, jnp.arange(2)), jax.random.key(1))
    assert np.isfinite(told['train_loss']) and told['clients'] == 2
    for before, after in zip(*(jax.tree.leaves(s.variables['params']) for s in (start, state)), strict=True):
        assert np.isfinite(after).all() and np.any(before != after)
    if recipe == 'harmofl':
        kept = state.server['amp_norm']
        assert kept['known'] and kept['amplitude'].shape == (8, 8, 3) and (np.asarray(kept['amplitude']) > 0).all()


def test_what_is_refused():
    for key, value in (('seed', 'last'), ('communicate', 'never'), ('band', 'low')):
        with pytest.raises(ValueError, match=f'{key}={value!r}'):
            make_methods('amp_norm', {f'amp_norm.{key}': value})
    x = np.zeros((4, 6), np.float32)
    chosen, _ = one_client(x, make_methods('amp_norm'), Local())
    with pytest.raises(ValueError, match='needs images of height, width and channels'):
        chosen.init(jax.random.key(0))
