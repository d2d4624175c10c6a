"""fedjax_fair at work: the programs that its own run loop runs, made by the settings a user would give."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers.job import Job
from benchmarks.peers.protocol import main, versions
from fedjax_fair.training.cache import use_compilation_cache
from fedjax_fair.training.config import Config
from fedjax_fair.training.setup import prepare, use_host_devices

ROUNDS = 100  # planned, with one evaluation at the end: none of them falls into a measurement


class Ours:
    """One lane of FedAvg, clients spread over the cores as ``auto`` decides; ``cached`` keeps compiled programs."""

    def __init__(self, job: Job, data: str, cached: str = ''):
        use_host_devices(None)
        if cached:
            use_compilation_cache()
        self.job, self.x = job, prepare(config_of(job, data))
        self.data = self.x.federation.arrays()
        self.tests = jax.tree.map(jnp.asarray, self.x.federation.tests)
        self.states = self.x.program.init(self.x.lanes)
        self.work = {'examples': 0.0, 'examples_paid': 0.0}

    def facts(self) -> dict[str, Any]:
        return {
            'how': self.x.algorithm.facts['client_map'],
            'parameters': sum(leaf[0].size for leaf in jax.tree.leaves(self.states.variables['params'])),
            'versions': versions('fedjax-fair', 'jax', 'jaxlib', 'flax', 'optax', 'numpy'),
        }

    def round(self) -> None:
        program, one = self.x.program, jnp.asarray(1, jnp.int32)
        self.states, log = program.advance(self.x.lanes, self.states, self.data, one)
        jax.block_until_ready(self.states)
        self.work = {name: float(value[0, 0]) for name, value in jax.device_get(log).items()}

    def check(self) -> dict[str, Any]:
        found = self.x.program.evaluate(self.x.lanes, self.states, self.tests, None, kinds=('global',))
        return {
            'loss': float(np.mean(found['global']['loss'])),
            'examples': round(self.work['examples']),
            'steps': round(self.work['examples_paid'] / self.job.batch),
        }


def config_of(job: Job, data: str) -> Config:
    """The job as the settings a user would give."""
    return Config(
        recipe='fedavg',
        scenario=f'npz:{data}',
        split_by='site',
        model=job.model,
        norm=job.norm,
        rounds=ROUNDS,
        eval_every=ROUNDS,
        checkpoint_every=0,
        participation=job.cohort / job.clients,
        local_epochs=job.epochs,
        batch_size=job.batch,
        lr=job.lr,
        momentum=job.momentum,
    )


if __name__ == '__main__':
    main(Ours)
