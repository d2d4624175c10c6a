"""The registry: sizes, shapes, padding, precision, determinism and errors of every network."""

import re
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_fair.errors import UserError
from fedjax_fair.models import MODELS, NORMS, densenet, describe_models, make_model, pooling
from fedjax_fair.options import at_least

KEY = jax.random.key(0)
IMAGE = (16, 16, 3)  # the smallest that lenet takes
FEATURES = {'logreg': 768, 'mlp': 200, 'cnn': 512, 'lenet': 84, 'resnet10': 512}


def size(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def abstract(name, num_classes, shape, **options):
    return jax.eval_shape(make_model(name, num_classes, **options).init, KEY, jnp.zeros((1, *shape)))


@pytest.mark.parametrize(
    ('name', 'shape', 'parameters'),
    [
        ('logreg', (2,), 2 * 10 + 10),
        ('mlp', (28, 28, 1), 784 * 200 + 200 + 200 * 200 + 200 + 200 * 10 + 10),
        ('cnn', (32, 32, 3), 27 * 32 + 32 + 288 * 64 + 64 + 576 * 128 + 128 + 2048 * 10 + 10),
        ('lenet', (32, 32, 3), 75 * 6 + 12 + 150 * 16 + 32 + 400 * 120 + 120 + 120 * 84 + 84 + 84 * 10 + 10),
        ('resnet10', (32, 32, 3), 4_903_242),
        ('resnet10', (192, 192, 3), 4_903_242),
    ],
)
def test_number_of_parameters_at_ten_classes(name, shape, parameters):
    assert size(abstract(name, 10, shape)['params']) == parameters


def test_a_single_width_may_be_given_as_a_number():
    assert size(abstract('mlp', 2, (3,), widths=4)['params']) == 3 * 4 + 4 + 4 * 2 + 2


@pytest.mark.parametrize(
    ('name', 'classes', 'options', 'parameters'),
    [
        ('resnet18', 1000, {}, 11_689_512),  # torchvision's counts
        ('resnet50', 1000, {}, 25_557_032),
        ('densenet121', 1000, {}, 7_978_856),
        ('resnet18', 10, {'stem': 'cifar'}, 11_173_962),
        ('unet', 1, {}, 7_763_041),  # the widely used U-Net of 32 features for brain MRI
        ('densenet121', 2, {'pad': 2, 'norm': 'stateless'}, 7_978_856 - 83_648 - 1025 * 1000 + 1025 * 2),
    ],
)
def test_number_of_parameters_of_published_networks(name, classes, options, parameters):
    assert size(abstract(name, classes, (96, 96, 3), **options)['params']) == parameters


def test_the_unet_gives_logits_per_pixel_and_the_bottleneck():
    model = make_model('unet', 3, features=4)
    shapes = jax.eval_shape(model.init, KEY, jnp.zeros((2, 32, 48, 3)))
    out = jax.eval_shape(lambda v: model.apply(v, jnp.zeros((2, 32, 48, 3)), jnp.ones(2, bool), True, KEY), shapes)
    assert out.logits.shape == (2, 32, 48, 3)
    assert out.features.shape == (2, 64)
    with pytest.raises(ValueError, match='sides must be multiples of 16'):
        jax.eval_shape(model.init, KEY, jnp.zeros((2, 24, 32, 3)))


@pytest.mark.parametrize(('pad', 'side'), [(0, 12), (2, 14)])
def test_the_densenet_of_harmofl_is_padded_after_its_first_block(pad, side):
    """96 pixels are 24 behind the stem; the first transition halves them, padded or not."""
    seen = []
    average = pooling.average_pool
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(densenet, 'average_pool', lambda x: seen.append(average(x).shape[1]) or average(x))
        abstract('densenet121', 2, (96, 96, 3), pad=pad)
    assert seen[0] == side


def test_resnet10_keeps_a_mean_and_a_variance_per_normalised_channel():
    channels = 64 + 2 * (64 + 128 + 256 + 512) + 128 + 256 + 512
    assert size(abstract('resnet10', 10, (32, 32, 3))['batch_stats']) == 2 * channels


def random_variables(name, num_classes, shape):
    """Variables of the right shapes, drawn by NumPy: much faster than compiling every initialiser."""
    rng = np.random.default_rng(0)
    draw = lambda leaf: jnp.asarray(rng.uniform(0.01, 0.1, leaf.shape) * rng.choice([-1, 1], leaf.shape), leaf.dtype)  # noqa: E731
    variables = jax.tree.map(draw, abstract(name, num_classes, shape))
    return {**variables, 'batch_stats': jax.tree.map(jnp.abs, variables['batch_stats'])}


@pytest.mark.parametrize('name', FEATURES)
def test_features_head_and_indifference_to_padding(name):
    """Whatever sits in the padding rows, real rows get the same outputs and statistics; the head reads the features."""
    model, mask = make_model(name, 5), jnp.arange(6) < 4
    variables = random_variables(name, 5, IMAGE)
    assert set(variables) == {'params', 'batch_stats'}
    x = jax.random.normal(KEY, (6, *IMAGE))
    modes = jax.jit(lambda v, x: [model.apply(v, x, mask, train, KEY) for train in (True, False)])
    head = variables['params']['head']
    for clean, dirty in zip(modes(variables, x), modes(variables, x.at[4:].set(50.0)), strict=True):
        assert clean.features.shape == (6, FEATURES[name])
        np.testing.assert_allclose(dirty.logits[:4], clean.logits[:4], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(dirty.features[:4], clean.features[:4], rtol=1e-4, atol=1e-4)
        assert jax.tree.structure(clean.batch_stats) == jax.tree.structure(variables['batch_stats'])
        for a, b in zip(*map(jax.tree.leaves, (dirty.batch_stats, clean.batch_stats)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        logits = np.asarray(clean.features) @ np.asarray(head['kernel']) + np.asarray(head['bias'])
        np.testing.assert_allclose(clean.logits, logits, rtol=1e-4, atol=1e-3)


def test_logreg_starts_at_zero():
    variables = make_model('logreg', 3).init(KEY, jnp.ones((1, 4)))
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(variables))


@pytest.mark.parametrize('norm', ['batch', 'group', 'none', 'stateless'])
def test_norm_is_selectable(norm):
    for name in ('cnn', 'lenet', 'resnet10'):
        variables = abstract(name, 10, IMAGE, norm=norm)
        assert bool(variables['batch_stats']) == (norm == 'batch')
        biases = [p for p, _ in jax.tree.leaves_with_path(variables['params']) if 'conv' in str(p) and 'bias' in str(p)]
        assert bool(biases) == (norm == 'none'), 'a convolution has a bias only where no norm follows'


@pytest.mark.parametrize('name', MODELS)
@pytest.mark.parametrize('norm', [None, 'group'])
def test_double_precision_follows_the_input(name, norm):
    if norm and name in ('logreg', 'mlp'):
        norm = None
    with jax.enable_x64(True):
        model = make_model(name, 3, norm=norm)
        x = jnp.ones((2, 32, 32, 1), jnp.float64)
        variables = jax.eval_shape(model.init, jax.random.key(0), x)
        out = jax.eval_shape(lambda v: model.apply(v, x, jnp.ones(2, bool), True, jax.random.key(0)), variables)
        assert {leaf.dtype for leaf in jax.tree.leaves((variables, out))} == {jnp.dtype('float64')}


@pytest.mark.parametrize('name', MODELS)
def test_single_precision_is_kept(name):
    assert {leaf.dtype for leaf in jax.tree.leaves(abstract(name, 3, (32, 32, 3)))} == {jnp.dtype('float32')}


def test_the_cnn_learns_inside_scan():
    """A vertical bar against a horizontal one, learned by 30 steps of gradient descent."""
    model = make_model('cnn', 2)
    bars = jnp.zeros((2, 8, 8, 1)).at[0, :, 4].set(1).at[1, 4].set(1)
    x, y, mask = jnp.tile(bars, (4, 1, 1, 1)), jnp.tile(jnp.arange(2), 4), jnp.ones(8, bool)
    params = jax.jit(model.init)(KEY, x)['params']

    def loss(params):
        log_p = jax.nn.log_softmax(model.apply({'params': params, 'batch_stats': {}}, x, mask, True, KEY).logits)
        return -jnp.take_along_axis(log_p, y[:, None], 1).mean()

    def step(params, _):
        value, grads = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda p, g: p - 0.5 * g, params, grads), value

    _, losses = jax.jit(lambda p: jax.lax.scan(step, p, None, length=30))(params)
    assert losses[0] > 0.5
    assert losses[-1] < 0.05


def test_options_reach_the_network():
    kernels = abstract('mlp', 10, (784,), widths=(50,))['params']
    assert kernels['hidden0']['kernel'].shape == (784, 50)
    assert 'hidden1' not in kernels


def test_every_network_is_described_in_one_line():
    lines = describe_models()
    assert list(lines) == list(MODELS)
    assert all(line and '\n' not in line for line in lines.values())


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ({'name': 'vgg'}, r'--model=vgg is not one of logreg, mlp, cnn, lenet, resnet10, .*unet'),
        ({'name': 'lennet'}, r"--model=lennet is not one of .*; did you mean 'lenet'\?"),
        (
            {'name': 'mlp', 'norm': 'batch'},
            r"--norm=batch: model 'mlp' has no norm.*choose one of cnn, lenet, resnet10",
        ),
        ({'name': 'cnn', 'norm': 'layer'}, r'--norm=layer is not one of batch, group, none, stateless'),
        ({'name': 'cnn', 'conv': 'fast'}, r'--conv=fast is not one of auto, exact, patches, folded, winograd'),
        ({'name': 'mlp', 'depth': 3}, r"--model_options: depth=3: mlp has no option 'depth'; it has: widths"),
        ({'name': 'mlp', 'widths': (64, 0)}, r'--model_options: widths=64,0 must be at least 1'),
        ({'name': 'mlp', 'widths': 'wide'}, r'--model_options: widths=wide: expected whole numbers .* 200x200'),
        ({'name': 'unet', 'features': 0}, r'--model_options: features=0 must be at least 1'),
        ({'name': 'unet', 'features': (8, 8)}, r'--model_options: features=8x8: expected a whole number such as 32'),
        ({'name': 'unet', 'depth': '-1'}, r'--model_options: depth=-1 must be at least 0'),
        ({'name': 'densenet121', 'pad': -1}, r'--model_options: pad=-1 must be at least 0'),
        ({'name': 'resnet18', 'stem': 'vgg'}, r'--model_options: stem=vgg is not one of cifar, imagenet'),
        ({'name': 'mlp', 'projection': 0}, r'--model_options: projection=0 must be at least 1'),
        ({'name': 'mlp', 'projection': 'wide'}, r'--model_options: projection=wide: expected a whole number'),
    ],
)
def test_mistakes_name_the_choices(arguments, message):
    with pytest.raises(UserError) as raised:
        make_model(**{'num_classes': 10, **arguments})
    assert re.match(message, raised.value.with_flags())


def test_a_model_has_at_least_one_output():
    with pytest.raises(ValueError, match='num_classes=0 must be at least 1'):
        make_model('mlp', 0)


@pytest.mark.parametrize('widths', [(50,), [50], 50, '50'])
def test_widths_are_a_sequence_a_number_or_a_text(widths):
    assert abstract('mlp', 10, (784,), widths=widths)['params']['hidden0']['kernel'].shape == (784, 50)


def test_a_model_that_is_registered_can_be_made_at_once(monkeypatch):
    def tiny(num_classes: int, width: Annotated[int, 'of the hidden layer', at_least(2)] = 3):
        """A small network."""
        return MODELS['mlp'](num_classes, widths=(width,))

    monkeypatch.setitem(MODELS, 'tiny', tiny)
    assert describe_models()['tiny'] == 'A small network.'
    assert abstract('tiny', 10, (4,), width='5')['params']['hidden0']['kernel'].shape == (4, 5)
    with pytest.raises(UserError, match='width=1 must be at least 2'):
        make_model('tiny', 10, width=1)


def test_every_choice_of_a_norm_is_a_layer():
    assert MODELS.options('cnn')['norm'].choices == tuple(NORMS)
