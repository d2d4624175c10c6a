"""PyTorch weights: a forward pass beside one written in NumPy from PyTorch's own names, and what does not fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

from fedjax_fair.core.tree import replaced
from fedjax_fair.models import make_model
from fedjax_fair.models.pretrained import load_pretrained, read_state_dict, weights_file

RNG = np.random.default_rng(0)
EPSILON = 1e-5
BLOCKS = {'resnet18': (2, 2, 2, 2), 'resnet50': (3, 4, 6, 3)}


# --- the networks as PyTorch computes them, NCHW, from a state_dict ---------------------------------------------------


class Recorder(dict):
    """A state_dict that invents what is asked for: the forward pass below tells which names and shapes there are."""

    def need(self, name, shape, low=-1.0, high=1.0):
        if name not in self:
            self[name] = RNG.uniform(low, high, shape).astype(np.float32)
        return self[name]


def conv(state, name, x, out, size, stride=1, pad=0):
    bound = np.sqrt(3 / (x.shape[1] * size * size))
    weight = state.need(f'{name}.weight', (out, x.shape[1], size, size), -bound, bound)
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))[:, :, ::stride, ::stride]
    return np.einsum('bihwpq,oipq->bohw', windows, weight, optimize=True)


def norm(state, name, x):
    shape = (x.shape[1],)
    mean, var = state.need(f'{name}.running_mean', shape, -0.1, 0.1), state.need(f'{name}.running_var', shape, 0.5, 1.5)
    weight, bias = state.need(f'{name}.weight', shape, 0.5, 1.5), state.need(f'{name}.bias', shape, -0.1, 0.1)
    state[f'{name}.num_batches_tracked'] = np.array(7)
    mean, var, weight, bias = (v.reshape(1, -1, 1, 1) for v in (mean, var, weight, bias))
    return (x - mean) / np.sqrt(var + EPSILON) * weight + bias


def relu(x):
    return np.maximum(x, 0)


def stem_pool(x):
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))[:, :, ::2, ::2].max((-1, -2))


def linear(state, name, x, out):
    return x @ state.need(f'{name}.weight', (out, x.shape[1])).T + state.need(f'{name}.bias', (out,))


def resnet(state, x, blocks, classes):
    deep = blocks == BLOCKS['resnet50']
    x = stem_pool(relu(norm(state, 'bn1', conv(state, 'conv1', x, 64, 7, 2, 3))))
    for stage, count in enumerate(blocks):
        width = 64 * 2**stage
        for b in range(count):
            name, stride = f'layer{stage + 1}.{b}', 2 if stage and not b else 1
            layers = (
                [(width, 1, 1), (width, 3, stride), (4 * width, 1, 1)] if deep else [(width, 3, stride), (width, 3, 1)]
            )
            y = x
            for i, (out, size, s) in enumerate(layers, 1):
                y = norm(state, f'{name}.bn{i}', conv(state, f'{name}.conv{i}', y, out, size, s, size // 2))
                y = relu(y) if i < len(layers) else y
            if stride > 1 or x.shape[1] != y.shape[1]:
                x = norm(state, f'{name}.downsample.1', conv(state, f'{name}.downsample.0', x, y.shape[1], 1, stride))
            x = relu(x + y)
    return linear(state, 'fc', x.mean((2, 3)), classes)


def densenet121(state, x, classes):
    x = stem_pool(relu(norm(state, 'features.norm0', conv(state, 'features.conv0', x, 64, 7, 2, 3))))
    for b, count in enumerate((6, 12, 24, 16), 1):
        for i in range(1, count + 1):
            name = f'features.denseblock{b}.denselayer{i}'
            y = conv(state, f'{name}.conv1', relu(norm(state, f'{name}.norm1', x)), 128, 1)
            y = conv(state, f'{name}.conv2', relu(norm(state, f'{name}.norm2', y)), 32, 3, 1, 1)
            x = np.concatenate([x, y], 1)
        if b < 4:
            name = f'features.transition{b}'
            x = conv(state, f'{name}.conv', relu(norm(state, f'{name}.norm', x)), x.shape[1] // 2, 1)
            batch, channels, rows, cols = x.shape
            x = x.reshape(batch, channels, rows // 2, 2, cols // 2, 2).mean((3, 5))
    x = relu(norm(state, 'features.norm5', x))
    return linear(state, 'classifier', x.mean((2, 3)), classes)


# --- tests -----------------------------------------------------------------------------------------------------------


def network(name, state, x, classes=5):
    return densenet121(state, x, classes) if name == 'densenet121' else resnet(state, x, BLOCKS[name], classes)


def shapes_of(name, classes=5, channels=3):
    return jax.eval_shape(make_model(name, classes).init, jax.random.key(0), jnp.zeros((1, 32, 32, channels)))


def save(path, state):
    save_file(dict(state), path) if path.suffix == '.safetensors' else np.savez(path, **state)
    return path


@pytest.mark.parametrize(
    ('name', 'suffix'), [('resnet18', '.safetensors'), ('resnet50', '.npz'), ('densenet121', '.safetensors')]
)
def test_the_forward_pass_equals_pytorchs(tmp_path, name, suffix):
    x = RNG.normal(size=(2, 32, 32, 3)).astype(np.float32)
    state = Recorder()
    expected = network(name, state, x.transpose(0, 3, 1, 2))
    path = save(tmp_path / f'weights{suffix}', state)
    start = load_pretrained(path, name, shapes_of(name))
    assert not start.notes
    model = make_model(name, 5, conv='exact')
    run = jax.jit(lambda v, x: model.apply(v, x, jnp.ones(2, bool), False, jax.random.key(0)).logits)
    logits = run(start.variables, jnp.asarray(x))
    np.testing.assert_allclose(logits, expected, rtol=2e-3, atol=2e-3 * np.abs(expected).max())


@pytest.fixture(scope='module')
def resnet18():
    state = Recorder()
    resnet(state, np.zeros((1, 3, 32, 32), np.float32), BLOCKS['resnet18'], 5)
    return dict(state)


def test_another_number_of_classes_gets_a_new_head(tmp_path, resnet18):
    start = load_pretrained(save(tmp_path / 'w.npz', resnet18), 'resnet18', shapes_of('resnet18', classes=3))
    assert 'head' not in start.variables['params']
    assert start.notes == ('w.npz has a head of 5 classes: this one starts afresh',)


def test_variables_are_replaced_where_there_is_something_to_start_from():
    variables = {'params': {'a': {'kernel': 1, 'bias': 2}, 'head': {'kernel': 3}}, 'batch_stats': {}}
    assert replaced(variables, {'params': {'a': {'kernel': 9}}})['params'] == {
        'a': {'kernel': 9, 'bias': 2},
        'head': {'kernel': 3},
    }


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        (lambda s: s.pop('layer1.0.conv1.weight'), r'missing: layer1.0.conv1.weight$'),
        (lambda s: s.update({'extra.weight': np.zeros(2)}), r'unexpected: extra.weight$'),
        (
            lambda s: s.update({'conv1.weight': np.zeros((64, 1, 7, 7))}),
            r'of another shape: conv1.weight \(7, 7, 1, 64\) instead of \(7, 7, 3, 64\)$',
        ),
        (lambda s: [s.pop(k) for k in list(s) if 'layer4' in k], r'missing: .* and \d+ more$'),
    ],
)
def test_what_does_not_match_is_listed(tmp_path, resnet18, change, message):
    state = dict(resnet18)
    change(state)
    with pytest.raises(ValueError, match=r'^pretrained=.*w.npz does not fit model=resnet18; ' + message):
        load_pretrained(save(tmp_path / 'w.npz', state), 'resnet18', shapes_of('resnet18'))


def test_files_that_cannot_be_used(tmp_path):
    with pytest.raises(ValueError, match=r'^pretrained=.*nowhere.npz: no such file with .*models.resnet18,'):
        load_pretrained(tmp_path / 'nowhere.npz', 'resnet18', {})
    other = tmp_path / 'weights.pth'
    other.write_bytes(b'x')
    with pytest.raises(ValueError, match=r'must be a .safetensors or .npz file'):
        read_state_dict(other)
    for name in ('bad.safetensors', 'bad.npz'):
        (tmp_path / name).write_bytes(b'not an archive at all')
        with pytest.raises(ValueError, match=rf'^pretrained=.*{name}'):
            read_state_dict(tmp_path / name)
    with pytest.raises(ValueError, match=r'model=lenet has no such weights; choose one of resnet18, resnet50'):
        load_pretrained(other, 'lenet', {})


def test_variables_in_the_name_of_a_file_are_replaced(tmp_path, monkeypatch):
    (tmp_path / 'w.npz').touch()
    monkeypatch.setenv('WEIGHTS', str(tmp_path))
    assert weights_file('$WEIGHTS/w.npz', 'resnet18') == tmp_path / 'w.npz'


def test_old_names_of_pytorch_are_understood(tmp_path):
    state = {'module.features.denseblock1.denselayer2.norm.1.weight': np.zeros(3)}
    assert list(read_state_dict(save(tmp_path / 'w.npz', state))) == ['features.denseblock1.denselayer2.norm1.weight']
