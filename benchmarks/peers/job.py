"""What is computed: a job says it once for all sides, and brings its own data."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import pathlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


@dataclasses.dataclass(frozen=True)
class Job:
    """FedAvg with SGD on a federation of equally large clients.

    ``samples`` and ``tests`` are examples per client, ``cohort`` the clients that train in a round. ``model`` and
    ``norm`` name a network that every worker builds with its own means; the number of parameters shows that it is the
    same. ``data`` says how images and labels are drawn, ``rounds`` how many rounds are measured unless asked otherwise.
    ``tolerance`` is the share of the initial loss by which final losses may differ: the sides draw their own initial
    weights, cohorts and batches, so where a loss falls steeply they reach a value up to a round earlier or later.
    """

    name: str
    title: str
    rounds: int = 30
    model: str = 'mlp'
    norm: str | None = None
    data: str = 'teacher'
    clients: int = 100
    samples: int = 200
    tests: int = 10
    image: tuple[int, ...] = (28, 28, 1)
    classes: int = 10
    cohort: int = 10
    epochs: int = 10
    batch: int = 10
    lr: float = 0.01
    momentum: float = 0.0
    tolerance: float = 0.06

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        """From what :meth:`to_json` wrote."""
        values = json.loads(text)
        return cls(**{**values, 'image': tuple(values['image'])})

    @property
    def examples_per_round(self) -> int:
        return self.cohort * self.epochs * self.samples

    @property
    def steps_per_round(self) -> int:
        return self.cohort * self.epochs * -(-self.samples // self.batch)

    @property
    def flops_per_round(self) -> int:
        """Useful floating-point operations: two per multiply-add of convolutions and dense layers, times three.

        Training costs three forward passes: one forward, one for the gradients of the activations and one for those of
        the weights. Norms, activations, the optimiser and whatever a side computes beyond this are not counted.
        """
        forward = sum(2 * layer.places * layer.inputs * layer.outputs for layer in LAYERS[self.model](self))
        return 3 * forward * self.examples_per_round


STEEP = 0.25  # about what the loss of the convolutional jobs falls in one round

JOBS = {
    job.name: job
    for job in [
        Job('w1', 'MLP 784-200-200-10 on 28x28 images, 10 of 100 clients x 200 examples, 10 epochs, batch 10'),
        Job(
            'w2',
            'CNN 32-64-128 on 32x32x3 images, 20 clients x 150 examples, 1 epoch, batch 32, momentum 0.9',
            rounds=12,
            model='cnn',
            data='templates',
            clients=20,
            samples=150,
            tests=20,
            image=(32, 32, 3),
            cohort=20,
            epochs=1,
            batch=32,
            momentum=0.9,
            tolerance=STEEP,
        ),
        Job(
            'w3',
            'ResNet-10 with group norm on 32x32x3 images, 20 clients x 64 examples, 1 epoch, batch 16, momentum 0.9',
            rounds=5,
            model='resnet10',
            norm='group',
            data='templates',
            clients=20,
            samples=64,
            tests=20,
            image=(32, 32, 3),
            cohort=20,
            epochs=1,
            batch=16,
            momentum=0.9,
            tolerance=STEEP,
        ),
    ]
}


# --- work ------------------------------------------------------------------------------------------------------------


class Layer(NamedTuple):
    """A linear map of ``inputs`` to ``outputs`` values; a convolution applies it in ``places``, its output pixels."""

    places: int
    inputs: int
    outputs: int


def _mlp_layers(job: Job) -> list[Layer]:
    sizes = (math.prod(job.image), 200, 200, job.classes)
    return [Layer(1, *pair) for pair in itertools.pairwise(sizes)]


def _cnn_layers(job: Job) -> list[Layer]:
    rows, columns, channels = job.image
    widths = (channels, 32, 64, 128)
    blocks = [
        Layer((rows >> level) * (columns >> level), 9 * inputs, outputs)
        for level, (inputs, outputs) in enumerate(itertools.pairwise(widths))
    ]
    return [*blocks, Layer(1, (rows >> 3) * (columns >> 3) * 128, job.classes)]


def _resnet10_layers(job: Job) -> list[Layer]:
    rows, columns, channels = job.image
    pixels = rows * columns
    layers = [Layer(pixels, 9 * channels, 64), Layer(pixels, 9 * 64, 64), Layer(pixels, 9 * 64, 64)]
    for level, outputs in enumerate((128, 256, 512), start=1):
        places, inputs = pixels >> 2 * level, outputs // 2
        layers += [Layer(places, fan_in, outputs) for fan_in in (9 * inputs, 9 * outputs, inputs)]  # last: shortcut
    return [*layers, Layer(1, 512, job.classes)]


LAYERS: dict[str, Callable[[Job], list[Layer]]] = {
    'mlp': _mlp_layers,
    'cnn': _cnn_layers,
    'resnet10': _resnet10_layers,
}


# --- data ------------------------------------------------------------------------------------------------------------


TEMPLATE = np.float32(1.0)  # strength of the pattern beside noise of variance 1


def write_data(job: Job, folder: pathlib.Path) -> pathlib.Path:
    """Write the job's federation as one npz file that all sides read, and return its path."""
    each = job.samples + job.tests
    images, labels = DATA[job.data](job, job.clients * each)
    site = np.repeat([f'client{n:05d}' for n in range(job.clients)], each)
    split = np.tile(np.repeat(['train', 'test'], [job.samples, job.tests]), job.clients)
    path = folder / f'{job.name}.npz'
    np.savez(path, images=images, labels=labels, site=site, split=split)
    return path


def _teacher(job: Job, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Uniform noise, labelled by a random linear teacher."""
    rng = np.random.default_rng(0)
    images = rng.random((count, *job.image), np.float32)
    teacher = rng.standard_normal((math.prod(job.image), job.classes), np.float32)
    return images, np.argmax((images.reshape(count, -1) - 0.5) @ teacher, 1).astype(np.int32)


def _templates(job: Job, count: int) -> tuple[np.ndarray, np.ndarray]:
    """A coarse pattern per class under noise: what a convolutional network learns in a few rounds, but not at once."""
    rng = np.random.default_rng(0)
    rows, columns, channels = job.image
    coarse = rng.standard_normal((job.classes, 4, 4, channels), np.float32)
    templates = coarse.repeat(-(-rows // 4), 1).repeat(-(-columns // 4), 2)[:, :rows, :columns]
    labels = rng.integers(job.classes, size=count, dtype=np.int32)
    noise = rng.standard_normal((count, *job.image), np.float32)
    return TEMPLATE * templates[labels] + noise, labels


DATA: dict[str, Callable[[Job, int], tuple[np.ndarray, np.ndarray]]] = {'teacher': _teacher, 'templates': _templates}
