"""google/fedjax at work: its own FedAvg, backends and client sampler; runs in the environment made for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import fedjax
import jax
import numpy as np

from benchmarks.peers.job import Job
from benchmarks.peers.networks_haiku import make_model, start
from benchmarks.peers.protocol import main, versions


class Fedjax:
    """FedAvg with the backend ``jit`` (clients one after the other) or ``pmap`` (one device per core)."""

    def __init__(self, job: Job, data: str, backend: str, pooling: str = 'reshape'):
        if backend == 'pmap':
            jax.config.update('jax_num_cpu_devices', len(os.sched_getaffinity(0)))
        fedjax.set_for_each_client_backend(backend)
        self.how = f'{backend} backend, {jax.local_device_count()} device(s)'
        self.how += f', pooling by {pooling}' if job.model == 'cnn' else ''
        self.model = make_model(job, pooling)
        self.batches = fedjax.ShuffleRepeatBatchHParams(batch_size=job.batch, num_epochs=job.epochs, seed=None)
        train, self.tests = _load(data)
        self.sampler = fedjax.client_samplers.UniformGetClientSampler(train, job.cohort, seed=0)
        self.algorithm = fedjax.algorithms.fed_avg.federated_averaging(
            fedjax.model_grad(self.model),
            fedjax.optimizers.sgd(job.lr, job.momentum or None),
            fedjax.optimizers.sgd(1.0),
            self.batches,
        )
        self.state = self.algorithm.init(start(self.model, np.random.default_rng(0)))
        self.clients: list = []

    def facts(self) -> dict[str, Any]:
        return {
            'how': self.how,
            'parameters': sum(leaf.size for leaf in jax.tree_util.tree_leaves(self.state.params)),
            'versions': versions('fedjax', 'jax', 'jaxlib', 'dm-haiku', 'optax', 'numpy'),
        }

    def round(self) -> None:
        self.clients = [(name, Epochs(data.raw_examples), key) for name, data, key in self.sampler.sample()]
        state, diagnostics = self.algorithm.apply(self.state, self.clients)
        # Since JAX 0.4.34 the pmap backend leaves the device axis, of size 1, on every update and so on the model.
        params = jax.tree_util.tree_map(lambda old, new: new.reshape(old.shape), self.state.params, state.params)
        self.state = state.replace(params=params)
        jax.block_until_ready((params, diagnostics))

    def check(self) -> dict[str, Any]:
        sizes = [len(b['y']) for _, data, _ in self.clients for b in data.shuffle_repeat_batch(self.batches)]
        batches = self.tests.padded_batch(batch_size=100)
        loss = fedjax.evaluate_model(self.model, self.state.params, batches)['loss']
        return {'loss': float(loss), 'examples': sum(sizes), 'steps': len(sizes)}


class Epochs(fedjax.ClientDataset):
    """A client's data whose epochs end with a smaller batch; fedjax fills it up, training more examples than asked."""

    def shuffle_repeat_batch(self, hparams: fedjax.ShuffleRepeatBatchHParams) -> Iterator[dict[str, np.ndarray]]:
        rng, size = np.random.default_rng(hparams.seed), hparams.batch_size
        for _ in range(hparams.num_epochs):
            order = rng.permutation(len(self))
            for first in range(0, len(order), size):
                yield {name: values[order[first : first + size]] for name, values in self.raw_examples.items()}


def _load(path: str) -> tuple[fedjax.InMemoryFederatedData, fedjax.ClientDataset]:
    """Every client's training examples, and all test examples together."""
    with np.load(path) as file:
        images, labels, site, train = file['images'], file['labels'], file['site'], file['split'] == 'train'
    owns = {name: train & (site == name) for name in np.unique(site)}
    clients = {name: {'x': images[own], 'y': labels[own]} for name, own in owns.items()}
    return fedjax.InMemoryFederatedData(clients), fedjax.ClientDataset({'x': images[~train], 'y': labels[~train]})


if __name__ == '__main__':
    main(Fedjax)
