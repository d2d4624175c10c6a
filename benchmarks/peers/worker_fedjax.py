"""google/fedjax at work: its own FedAvg, sampler and EMNIST networks; runs in the environment made for it."""

from __future__ import annotations

import os

import fedjax
import jax
import numpy as np

from benchmarks.peers.job import Job
from benchmarks.peers.protocol import main, versions

MODELS = {'mlp': lambda: fedjax.models.emnist.create_dense_model(only_digits=True, hidden_units=200)}


class Fedjax:
    """FedAvg with the backend ``jit`` (clients one after the other) or ``pmap`` (one device per core)."""

    def __init__(self, job: Job, data: str, backend: str):
        if backend == 'pmap':
            jax.config.update('jax_num_cpu_devices', len(os.sched_getaffinity(0)))
        fedjax.set_for_each_client_backend(backend)
        self.backend, self.model = backend, MODELS[job.model]()
        self.batches = fedjax.ShuffleRepeatBatchHParams(batch_size=job.batch, num_epochs=job.epochs, seed=None)
        train, self.tests = _load(data)
        self.sampler = fedjax.client_samplers.UniformGetClientSampler(train, job.cohort, seed=0)
        self.algorithm = fedjax.algorithms.fed_avg.federated_averaging(
            fedjax.model_grad(self.model), fedjax.optimizers.sgd(job.lr), fedjax.optimizers.sgd(1.0), self.batches
        )
        self.state = self.algorithm.init(_start(self.model))
        self.clients: list = []

    def facts(self) -> dict:
        return {
            'how': f'{self.backend} backend, {jax.local_device_count()} device(s)',
            'parameters': sum(leaf.size for leaf in jax.tree_util.tree_leaves(self.state.params)),
            'versions': versions('fedjax', 'jax', 'jaxlib', 'dm-haiku', 'optax', 'numpy'),
        }

    def round(self) -> None:
        self.clients = self.sampler.sample()
        state, diagnostics = self.algorithm.apply(self.state, self.clients)
        # Since JAX 0.4.34 the pmap backend leaves the device axis, of size 1, on every update and so on the model.
        params = jax.tree_util.tree_map(lambda old, new: new.reshape(old.shape), self.state.params, state.params)
        self.state = state.replace(params=params)
        jax.block_until_ready((params, diagnostics))

    def check(self) -> dict:
        sizes = [len(b['y']) for _, data, _ in self.clients for b in data.shuffle_repeat_batch(self.batches)]
        batches = self.tests.padded_batch(batch_size=256)
        loss = fedjax.evaluate_model(self.model, self.state.params, batches)['loss']
        return {'loss': float(loss), 'examples': sum(sizes), 'steps': len(sizes)}


def _start(model: fedjax.Model) -> dict:
    """Initial parameters drawn as ours are, uniform in +-1/sqrt(fan_in), so that the losses can be compared."""
    rng = np.random.default_rng(0)

    def layer(leaves: dict) -> dict:
        bound = np.prod(leaves['w'].shape[:-1]) ** -0.5
        return {name: rng.uniform(-bound, bound, leaf.shape).astype(leaf.dtype) for name, leaf in leaves.items()}

    drawn = {name: layer(leaves) for name, leaves in model.init(jax.random.PRNGKey(0)).items()}
    return jax.tree_util.tree_map(jax.numpy.asarray, drawn)


def _load(path: str) -> tuple[fedjax.InMemoryFederatedData, fedjax.ClientDataset]:
    """Every client's training examples, and all test examples together."""
    with np.load(path) as file:
        images, labels, site, train = file['images'], file['labels'], file['site'], file['split'] == 'train'
    owns = {name: train & (site == name) for name in np.unique(site)}
    clients = {name: {'x': images[own], 'y': labels[own]} for name, own in owns.items()}
    return fedjax.InMemoryFederatedData(clients), fedjax.ClientDataset({'x': images[~train], 'y': labels[~train]})


if __name__ == '__main__':
    main(Fedjax)
