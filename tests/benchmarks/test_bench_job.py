"""The jobs of the benchmarks: how much work they are, and the data they bring."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.peers.job import JOBS, LAYERS, Job, write_data
from fedjax_fair.models import make_model

SMALL = {'clients': 3, 'samples': 40, 'tests': 20, 'image': (8, 8, 3), 'classes': 4}


@pytest.mark.parametrize(
    'name, examples, steps, multiply_adds',
    [
        ('w1', 20_000, 2_000, 784 * 200 + 200 * 200 + 200 * 10),
        ('w2', 3_000, 100, 1024 * 27 * 32 + 256 * 288 * 64 + 64 * 576 * 128 + 2048 * 10),
        # stem and first stage, then three stages of equal cost, then the head
        ('w3', 1_280, 80, 1024 * 27 * 64 + 2 * 1024 * 576 * 64 + 3 * 58_720_256 + 512 * 10),
    ],
)
def test_the_work_of_a_round_by_hand(name, examples, steps, multiply_adds):
    job = JOBS[name]
    assert job.examples_per_round == examples
    assert job.steps_per_round == steps
    assert job.flops_per_round == 3 * 2 * multiply_adds * examples


@pytest.mark.parametrize('name, total', [('w1', 199_210), ('w2', 113_738), ('w3', 4_903_242)])
def test_counted_layers_are_those_of_our_network(name, total):
    job = JOBS[name]
    model = make_model(job.model, job.classes, job.norm)
    variables = jax.eval_shape(lambda: model.init(jax.random.key(0), jnp.zeros((1, *job.image))))
    leaves = jax.tree.leaves(variables['params'])
    weights = [leaf.size for leaf in leaves if leaf.ndim > 1]
    assert sorted(weights) == sorted(layer.inputs * layer.outputs for layer in LAYERS[job.model](job))
    assert sum(leaf.size for leaf in leaves) == total


@pytest.mark.parametrize('kind', ['teacher', 'templates'])
def test_all_sides_read_the_same_federation(tmp_path, kind):
    job = Job('tiny', 'a tiny job', data=kind, **SMALL)
    with np.load(write_data(job, tmp_path)) as file:
        data = dict(file)
    with np.load(write_data(job, tmp_path)) as file:
        np.testing.assert_array_equal(data['images'], file['images'])
    assert data['images'].shape == (180, 8, 8, 3)
    assert data['images'].dtype == np.float32
    assert set(data['labels']) == {0, 1, 2, 3}
    for name in np.unique(data['site']):
        own = data['split'][data['site'] == name]
        assert (np.sum(own == 'train'), np.sum(own == 'test')) == (40, 20)


def test_templates_can_be_learned(tmp_path):
    with np.load(write_data(Job('tiny', 'a tiny job', data='templates', **SMALL), tmp_path)) as file:
        x, y, train = file['images'].reshape(180, -1), file['labels'], file['split'] == 'train'
    means = np.stack([x[train & (y == label)].mean(0) for label in range(4)])
    distances = np.square(x[~train][:, None] - means[None]).sum(-1)
    assert np.mean(np.argmin(distances, 1) == y[~train]) > 0.95
