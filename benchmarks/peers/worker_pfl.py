"""apple/pfl-research at work: its simulation of its own FederatedAveraging; runs in the environment made for it.

With two processes, pfl splits the clients of a round over them and sums the updates by torch.distributed (gloo). The
first process starts the second one and passes every request on to it.
"""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.peers.job import Job
from benchmarks.peers.networks_torch import make_network
from benchmarks.peers.protocol import main, versions
from benchmarks.peers.training_torch import Data, load, parameters, suits_channels_last, test_loss

SELDOM = 10**9  # rounds between pfl's own evaluations: none of them falls into a measurement


class Learner(nn.Module):
    """A network with the loss that pfl asks for, which counts the work."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network, self.work = network, torch.zeros(2)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        self.work += torch.tensor([len(y), 1])
        return nn.functional.cross_entropy(self.network(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict:
        return {}


class Pfl:
    """FedAvg in one process, or in two of which this is the one with ``rank``; ``port`` is where they meet."""

    def __init__(self, job: Job, data: str, processes: str = '1', rank: str = '0', port: str = ''):
        self.job, self.processes, self.helper = job, int(processes), None
        if self.processes > 1:
            port = port or _free_port()
            self.helper = _start_helper(port) if rank == '0' else None
            os.environ |= {'PFL_WORKER_ADDRESSES': f'localhost:{port},localhost:{port}', 'PFL_WORKER_RANK': rank}
        torch.set_num_threads(_threads(job, self.processes))
        torch.manual_seed(0), np.random.seed(0)  # alike in all processes, as pfl wants it
        channels_last = suits_channels_last(job)
        self.data = load(data, job, channels_last)
        self.learner = Learner(make_network(job, channels_last))
        self.simulate = _simulation(job, self.data, self.learner)
        self.rounds = 0

    def facts(self) -> dict[str, Any]:
        return {
            'how': f'{self.processes} process(es) of {torch.get_num_threads()} thread(s)',
            'parameters': parameters(self.learner),
            'versions': versions('pfl', 'torch', 'numpy'),
        }

    def round(self) -> None:
        self._pass_on('round')
        self.learner.work.zero_()
        self.rounds += 1
        self.simulate(self.rounds)

    def check(self) -> dict[str, Any]:
        self._pass_on('check')
        work = self.learner.work.clone()
        if self.processes > 1:
            torch.distributed.all_reduce(work)
        examples, steps = map(int, work)
        return {'loss': test_loss(self.learner.network, self.data), 'examples': examples, 'steps': steps}

    def _pass_on(self, request: str) -> None:
        if self.helper is not None:
            print(request, file=self.helper.stdin, flush=True)


def _threads(job: Job, processes: int) -> int:
    """What was fastest: a small MLP loses by a second thread in one process, convolutions gain."""
    return 1 if processes > 1 or job.model == 'mlp' else len(os.sched_getaffinity(0))


def _free_port() -> str:
    with socket.socket() as probe:
        probe.bind(('localhost', 0))
        return str(probe.getsockname()[1])


def _start_helper(port: str) -> subprocess.Popen:
    """The second process; it ends when this one does, as that ends its input."""
    command = [sys.executable, '-m', 'benchmarks.peers.worker_pfl', *sys.argv[1:], 'rank=1', f'port={port}']
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def _simulation(job: Job, data: Data, learner: Learner) -> Callable[[int], None]:
    """A function that runs pfl's simulation until so many rounds are done in all."""
    # Processes find each other when pfl is imported, so this must not happen before the second one has been started.
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    model = PyTorchModel(
        learner,
        functools.partial(torch.optim.SGD, momentum=job.momentum),
        torch.optim.SGD(learner.parameters(), lr=1.0),
    )
    sampler = get_user_sampler('minimize_reuse', list(range(job.clients)))
    federation = FederatedDataset(lambda user: PyTorchTensorDataset((data.x[user], data.y[user]), str(user)), sampler)
    backend = SimulatedBackend(federation, federation)
    local = NNTrainHyperParams(local_batch_size=job.batch, local_num_epochs=job.epochs, local_learning_rate=job.lr)
    algorithm = FederatedAveraging()

    def run(rounds: int) -> None:
        params = NNAlgorithmParams(
            central_num_iterations=rounds,
            evaluation_frequency=SELDOM,
            train_cohort_size=job.cohort,
            val_cohort_size=0,
        )
        algorithm.run(params, backend, model, local, send_metrics_to_platform=False)

    return run


if __name__ == '__main__':
    main(Pfl)
