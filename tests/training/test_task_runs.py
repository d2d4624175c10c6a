"""Segmentation and multi-label runs from files to the report."""

import json

import jax
import numpy as np
import pytest

from fedjax_fair import results
from fedjax_fair.report import load_runs, make_table, write_report
from fedjax_fair.training import Config, prepare, run

UNET = {'features': 4, 'depth': 2}
RNG = np.random.default_rng(0)


@pytest.fixture(scope='module')
def segmented(tmp_path_factory):
    """A tiny U-Net on two tiny hospitals, augmented."""
    out = tmp_path_factory.mktemp('runs') / 'segmented'
    config = Config(
        scenario='tissue', model_options=UNET,
        data={'task': 'segmentation', 'num_clients': 2, 'client_sizes': (12,), 'test_size': 6, 'image_size': 16},
        rounds=8, eval_every=2, last_k=1, local_epochs=3, batch_size=4, lr=0.1, augment='flip+crop',
        seeds=(0, 1),
    )  # fmt: skip
    return run(config, out, quiet=True)[0], out


def test_dice_rises_and_is_what_fairness_is_about(segmented):
    summary, out = segmented
    lines = [json.loads(line) for line in (out / 'metrics.jsonl').read_text().splitlines()]
    first, last = (np.mean([v['global']['dice_with_background'] for v in lines if v['round'] == r]) for r in (2, 8))
    assert last > first
    assert summary['score'] == 'dice' and summary['model'] == 'unet'
    metrics = summary['global']
    assert len(metrics['client_dice']['mean']) == 2
    np.testing.assert_allclose(np.mean(metrics['group_dice']['mean']), metrics['avg']['mean'], rtol=1e-5)
    assert {'dice_with_background', 'iou', 'accuracy', 'loss'} <= set(metrics)
    assert summary['score_about'].startswith('Dice of the foreground')
    kept = results.predictions(out)
    images = results.example_scores(kept).mean(1)  # over evaluations
    by_set = [images[:, kept.set == place].mean() for place in kept.test_of]
    np.testing.assert_allclose(by_set, metrics['client_dice']['mean'], atol=1e-6)


def test_the_report_speaks_of_dice_and_shows_outlines(segmented, tmp_path):
    _, out = segmented
    assert (out / 'overlays.png').stat().st_size > 5_000
    html = write_report([out], tmp_path).read_text()
    assert 'mean foreground Dice over groups' in html and 'class="overlays"' in html
    assert 'mean accuracy' not in html
    columns = make_table(load_runs([out])).columns
    assert columns[0].about == 'mean foreground Dice over groups, %' and columns[3].name == 'Dice with background'


def save(path, **arrays):
    np.savez(path, **arrays)
    return f'npz:{path}'


def test_masks_without_labels_are_segmented_and_resized(tmp_path):
    x = RNG.integers(0, 256, (24, 20, 20, 3)).astype(np.uint8)
    masks = np.where(x.mean(-1) > 128, 255, 0).astype(np.uint8)
    scenario = save(tmp_path / 'm.npz', images=x, masks=masks, site=np.arange(24) % 2)
    small = {'data': {'image_size': 16}, 'model_options': UNET, 'batch_size': 4}
    config = Config(scenario=scenario, rounds=1, checkpoint_every=0, **small)
    (summary,) = run(config, tmp_path / 'out', quiet=True)
    assert summary['task'] == 'segmentation' and summary['clients'] == 2


def test_several_labels_each(tmp_path):
    x = RNG.normal(size=(80, 6)).astype(np.float32)
    y = (x[:, :3] + 0.3 * RNG.normal(size=(80, 3)) > 0).astype(np.int64)
    scenario = save(tmp_path / 'l.npz', images=x, labels=y, site=np.arange(80) % 4)
    config = Config(scenario=scenario, rounds=10, eval_every=5, last_k=1, lr=0.5, checkpoint_every=0)
    (summary,) = run(config, tmp_path / 'out', quiet=True)
    assert summary['score'] == 'auc'
    assert summary['global']['avg']['mean'] > 0.8
    assert 'mean AUC over groups' in write_report([tmp_path / 'out'], tmp_path / 'report').read_text()


@pytest.mark.parametrize(
    ('settings', 'message'),
    [
        (
            {'model': 'lenet', 'task': 'segmentation'},
            r'model=lenet does not fit task=segmentation; choose one of unet',
        ),
        ({'model': 'unet'}, r'model=unet does not fit task=classification; choose one of logreg, '),
        ({'task': 'segmentation', 'image_size': 24}, r'model=unet cannot take .*multiples of 16'),
        ({'task': 'segmentation', 'loss': 'mse'}, r"loss='mse' is not one of 'joint', 'ce', 'dice'"),
        ({'loss': 'ce'}, r'loss=ce does not apply to task=classification'),
        ({'task': 'detection'}, r"task='detection' is not one of 'classification', 'segmentation'"),
        (
            {'model': 'lenet', 'model_options': {'depth': 3}},
            r"model_options: depth=3: lenet has no option 'depth'",
        ),
        ({'model': 'mlp', 'model_options': {'widths': 'wide'}}, r'widths=wide: expected whole numbers'),
        (
            {'model': 'resnet18', 'model_options': {'stem': 'vgg'}},
            r"stem='vgg' is not one of 'cifar', 'imagenet'",
        ),
        ({'precision': 'float16'}, r"precision='float16' is not one of 'float32', 'bfloat16'"),
        ({'model': 'resnet18', 'pretrained': 'nowhere.npz'}, r'pretrained=nowhere.npz: no such file'),
    ],
)
def test_mistakes_are_found_before_anything_is_computed(settings, message, tmp_path):
    small = {'num_clients': 2, 'client_sizes': (2,), 'test_size': 2, 'image_size': 32}
    with pytest.raises(ValueError, match=message):
        run(Config(scenario='tissue', data=small).changed(**settings), tmp_path / 'out', quiet=True)
    assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize(
    ('norm', 'batch_size', 'warned'), [('batch', 4, True), ('batch', 5, False), ('none', 4, False)]
)
def test_batch_norm_over_a_single_example_is_mentioned(norm, batch_size, warned):
    small = {'num_clients': 2, 'client_sizes': (9, 8), 'test_size': 2, 'image_size': 16}
    notes = prepare(Config(scenario='tissue', model='lenet', norm=norm, batch_size=batch_size, data=small)).notes
    assert any('the last batch of 1 of 2 clients is a single example' in note for note in notes) == warned


def test_weights_that_a_flag_file_asks_for_can_be_done_without():
    small = {'num_clients': 2, 'client_sizes': (2,), 'test_size': 2, 'image_size': 32}
    experiment = prepare(Config(scenario='tissue', model='lenet', pretrained='none', data=small))
    assert 'starts from random weights' in experiment.notes


@pytest.mark.parametrize(('norm', 'differs'), [('stateless', True), ('group', False)])
def test_the_batch_size_of_evaluation_matters_to_networks_that_read_the_batch_alone(norm, differs):
    small = {'num_clients': 2, 'client_sizes': (4,), 'test_size': 8, 'image_size': 16}

    def loss(size):
        config = Config(scenario='tissue', model='cnn', norm=norm, eval_batch_size=size, data=small)
        experiment = prepare(config)
        state = experiment.algorithm.init(jax.random.key(0))
        return experiment.algorithm.evaluate(state, experiment.federation.tests)['global']['loss']

    assert np.allclose(loss(2), loss(8), rtol=1e-5) != differs


def test_settings_of_adam_reach_local_training():
    small = {'num_clients': 2, 'client_sizes': (2,), 'test_size': 2, 'image_size': 16}
    config = Config(scenario='tissue', model='cnn', local_optimizer='adam', adam_b1=0.8, adam_b2=0.99, data=small)
    local = prepare(config).algorithm.facts['local']
    assert (local.b1, local.b2) == (0.8, 0.99)


def test_a_run_starts_from_pretrained_weights(tmp_path):
    """The weights of the file, bit for bit, at round 0; the head drawn from the seed."""
    from fedjax_fair.models import make_model
    from fedjax_fair.models.pretrained import torch_name

    shapes = jax.eval_shape(make_model('resnet18', 7).init, jax.random.key(0), np.zeros((1, 32, 32, 3), np.float32))
    state = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(shapes):
        array = RNG.normal(size=leaf.shape).astype(np.float32)
        order = {4: (3, 2, 0, 1), 2: (1, 0)}.get(array.ndim)
        state[torch_name('resnet18', [k.key for k in path])] = array if order is None else array.transpose(order)
    np.savez(tmp_path / 'w.npz', **state)
    small = {'num_clients': 2, 'client_sizes': (2,), 'test_size': 2, 'image_size': 32}
    config = Config(scenario='tissue', model='resnet18', pretrained=str(tmp_path / 'w.npz'), seeds=(0, 1), data=small)
    experiment = prepare(config)
    assert any('7 classes: this one starts afresh' in note for note in experiment.notes)
    variables = jax.device_get(experiment.program.init(experiment.lanes).variables)
    stem = variables['params']['stem_conv']['kernel']
    np.testing.assert_array_equal(stem[0], state['conv1.weight'].transpose(2, 3, 1, 0))
    np.testing.assert_array_equal(stem[0], stem[1])
    head = variables['params']['head']['kernel']
    assert head.shape == (2, 512, 2) and np.any(head[0] != head[1])
