"""Inputs normalised by mean and deviation, before the network and nowhere else."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_fair.models import make_model
from fedjax_fair.models.normalize import KNOWN, normalized, parse_statistics
from fedjax_fair.training import Config, prepare

DATA = {'client_sizes': (8, 8), 'image_size': 16, 'test_size': 4}
CONFIG = Config(scenario='tissue', data=DATA, model='mlp', normalize='imagenet')


def test_the_network_sees_normalised_inputs():
    plain = make_model('mlp', 4)
    x, mask, key = np.random.default_rng(0).random((3, 4, 4, 3), np.float32), jnp.ones(3, bool), jax.random.key(1)
    variables = plain.init(key, x)
    mean, std = np.array([0.1, 0.2, 0.3], np.float32), np.array([0.5, 2.0, 0.25], np.float32)
    model = normalized(plain, parse_statistics('0.1|0.2|0.3/0.5|2|0.25'))
    got, raw = (m.apply(variables, jnp.asarray(x), mask, False, key).logits for m in (model, plain))
    wanted = plain.apply(variables, jnp.asarray((x - mean) / std), mask, False, key).logits
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    assert np.abs(got - raw).max() > 1e-3


def test_runs_predict_through_it():
    """The same weights: raw images through the run are normalised images through the plain network."""
    experiment, plain = prepare(CONFIG), prepare(dataclasses.replace(CONFIG, normalize=''))
    x = experiment.federation.x[:4]
    mean, std = (np.array(values, np.float32) for values in KNOWN['imagenet'])
    state = experiment.algorithm.init(jax.random.key(0))
    got = experiment.algorithm.predict(state, jnp.asarray(x))
    wanted = plain.algorithm.predict(state, jnp.asarray((x / np.float32(255) - mean) / std))
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)


def test_names_stand_for_the_published_values():
    assert parse_statistics('retina') == parse_statistics('0.5007|0.5010|0.5019/0.0342|0.0535|0.0484')


@pytest.mark.parametrize(
    'text',
    [
        'mine',
        '0.5',
        '0.5/0',
        '0.5|0.5/0.2',
        '0.5/-1',
        '0.5/x',
        '0.5/nan',
        '0.5/inf',
        '/',
        'nan/1',
        'inf/1',
        '0.5/1e-320',
    ],
)
def test_what_is_not_means_and_deviations_is_named(text):
    with pytest.raises(ValueError, match=r'^normalize=.* is not one of imagenet, retina, nor MEAN/STD') as raised:
        parse_statistics(text)
    assert '\n' not in str(raised.value)


@pytest.mark.parametrize('changes', [{'normalize': '0.5/0.2'}, {'scenario': 'digits_labels', 'data': {}}])
def test_other_numbers_of_channels_are_refused(changes):
    with pytest.raises(ValueError, match=r'normalize=.* is for images of \d channels?, not for shape'):
        prepare(dataclasses.replace(CONFIG, **changes))


def test_augmentations_that_blend_pixels_are_refused_for_masks():
    with pytest.raises(ValueError, match=r'augment=flip\+resized_crop: resized_crop would blend masks'):
        prepare(CONFIG.changed(task='segmentation', augment='flip+resized_crop'))
