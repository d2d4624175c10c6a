"""fedjax_fair at work: the programs that its own run loop runs, made by the settings a user would give."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from benchmarks.engine.session import Session
from benchmarks.peers.job import Job
from benchmarks.peers.protocol import main, versions
from fedjax_fair.training.compilation_cache import use_compilation_cache
from fedjax_fair.training.config import Config
from fedjax_fair.training.devices import use_host_devices

ROUNDS = 100  # planned, with one evaluation at the end: none of them falls into a measurement


class Ours(Session):
    """One lane of FedAvg, clients spread over the cores as ``auto`` decides; ``cached`` keeps compiled programs.

    ``settings`` take the place of those that the job has.
    """

    def __init__(self, job: Job, data: str, cached: str = '', **settings: Any):
        use_host_devices(None)
        if cached:
            use_compilation_cache()
        self.job = job
        super().__init__(config_of(job, data).changed(**settings))

    def facts(self) -> dict[str, Any]:
        return {
            'how': self.x.client_map.describe(),
            'parameters': sum(leaf[0].size for leaf in jax.tree.leaves(self.states.variables['params'])),
            'versions': versions('fedjax-fair', 'jax', 'jaxlib', 'flax', 'optax', 'numpy'),
        }

    def check(self) -> dict[str, Any]:
        return {
            'loss': float(np.mean(self.evaluate('global')['global']['loss'])),
            'examples': round(self.log.get('examples', 0)),
            'steps': round(self.log.get('steps', 0)),
        }


def config_of(job: Job, data: str) -> Config:
    """The job as the settings a user would give."""
    return Config(
        recipe='fedavg',
        scenario=f'npz:{data}',
        data={'split_by': 'site'},
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
