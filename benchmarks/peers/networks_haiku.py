"""The jobs' networks as fedjax models of Haiku modules, channels last."""

from __future__ import annotations

import math
from collections.abc import Callable

import fedjax
import haiku as hk
import jax
import jax.numpy as jnp

from benchmarks.peers.job import Job

Pool = Callable[[jax.Array], jax.Array]


def make_model(job: Job, pooling: str) -> fedjax.Model:
    """The job's network with cross-entropy; ``pooling`` names one of ``POOLING``."""
    network = NETWORKS[job.model]

    def forward(batch: dict) -> jax.Array:
        return network(batch['x'], job.classes, POOLING[pooling])

    return fedjax.create_model_from_haiku(
        transformed_forward_pass=hk.transform(forward),
        sample_batch={'x': jnp.zeros((1, *job.image)), 'y': jnp.zeros(1, jnp.int32)},
        train_loss=lambda batch, logits: fedjax.metrics.unreduced_cross_entropy_loss(batch['y'], logits),
        eval_metrics={'loss': fedjax.metrics.CrossEntropyLoss()},
    )


def window_pool(x: jax.Array) -> jax.Array:
    """2x2 max-pooling as Haiku and fedjax's own networks have it, by ``reduce_window``."""
    return hk.MaxPool(2, 2, 'VALID')(x)


def reshape_pool(x: jax.Array) -> jax.Array:
    """The same as a maximum over reshaped axes, whose gradient needs no scatter."""
    batch, rows, columns, channels = x.shape
    return x.reshape(batch, rows // 2, 2, columns // 2, 2, channels).max((2, 4))


POOLING: dict[str, Pool] = {'window': window_pool, 'reshape': reshape_pool}


def mlp(x: jax.Array, classes: int, pool: Pool) -> jax.Array:
    """Two hidden layers of 200: fedjax's own dense network for EMNIST."""
    x = hk.Flatten()(x)
    for _ in range(2):
        x = jax.nn.relu(hk.Linear(200)(x))
    return hk.Linear(classes)(x)


def cnn(x: jax.Array, classes: int, pool: Pool) -> jax.Array:
    """Three 3x3 convolutions, each followed by 2x2 max-pooling and ReLU: in this order ReLU sees a quarter of it."""
    for width in (32, 64, 128):
        x = jax.nn.relu(pool(hk.Conv2D(width, 3)(x)))
    return hk.Linear(classes)(hk.Flatten()(x))


def _normalised(x: jax.Array, features: int, size: int, stride: int = 1) -> jax.Array:
    padding = [(size // 2, size // 2)] * 2
    x = hk.Conv2D(features, size, stride, padding=padding, with_bias=False)(x)
    return hk.GroupNorm(32)(x)


def _block(x: jax.Array, features: int, stride: int) -> jax.Array:
    y = _normalised(jax.nn.relu(_normalised(x, features, 3, stride)), features, 3)
    changes = stride != 1 or x.shape[-1] != features
    return jax.nn.relu(y + (_normalised(x, features, 1, stride) if changes else x))


def resnet10(x: jax.Array, classes: int, pool: Pool) -> jax.Array:
    """Four stages of one block after a 3x3 stem, with group norm."""
    x = jax.nn.relu(_normalised(x, 64, 3))
    for features, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        x = _block(x, features, stride)
    return hk.Linear(classes)(x.mean((1, 2)))


NETWORKS = {'mlp': mlp, 'cnn': cnn, 'resnet10': resnet10}


def start(model: fedjax.Model, rng) -> dict:
    """Initial parameters drawn as all sides do, uniform in +-1/sqrt(fan_in), so that the losses can be compared."""

    def layer(leaves: dict) -> dict:
        if 'w' not in leaves:  # a norm
            return leaves
        bound = math.prod(leaves['w'].shape[:-1]) ** -0.5
        return {name: rng.uniform(-bound, bound, leaf.shape).astype(leaf.dtype) for name, leaf in leaves.items()}

    drawn = {name: layer(leaves) for name, leaves in model.init(jax.random.PRNGKey(0)).items()}
    return jax.tree_util.tree_map(jnp.asarray, drawn)
