"""What is computed: a job says it once for all sides, and brings its own data."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np


@dataclasses.dataclass(frozen=True)
class Job:
    """FedAvg with SGD on a federation of equally large clients.

    ``samples`` and ``tests`` are examples per client, ``cohort`` the clients that train in a round. ``model`` is a name
    that every worker translates into the same network, as the number of parameters shows.
    """

    name: str
    title: str
    model: str = 'mlp'
    clients: int = 100
    samples: int = 200
    tests: int = 10
    image: tuple[int, ...] = (28, 28, 1)
    classes: int = 10
    cohort: int = 10
    epochs: int = 10
    batch: int = 10
    lr: float = 0.01

    @property
    def examples_per_round(self) -> int:
        return self.cohort * self.epochs * self.samples

    @property
    def steps_per_round(self) -> int:
        return self.cohort * self.epochs * -(-self.samples // self.batch)


JOBS = {
    job.name: job
    for job in [
        Job('w1', 'MLP 784-200-200-10 on 28x28 images, 10 of 100 clients x 200 examples, 10 epochs, batch 10'),
    ]
}


def write_data(job: Job, folder: pathlib.Path) -> pathlib.Path:
    """Write the job's federation as one npz file that all sides read, and return its path.

    Images are uniform noise; a random linear teacher labels them, so that there is something to learn.
    """
    rng = np.random.default_rng(0)
    each = job.samples + job.tests
    images = rng.random((job.clients * each, *job.image), np.float32)
    teacher = rng.standard_normal((int(np.prod(job.image)), job.classes), np.float32)
    labels = np.argmax((images.reshape(len(images), -1) - 0.5) @ teacher, 1).astype(np.int32)
    site = np.repeat([f'client{n:05d}' for n in range(job.clients)], each)
    split = np.tile(np.repeat(['train', 'test'], [job.samples, job.tests]), job.clients)
    path = folder / f'{job.name}.npz'
    np.savez(path, images=images, labels=labels, site=site, split=split)
    return path
