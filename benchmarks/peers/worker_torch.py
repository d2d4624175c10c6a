"""A plain PyTorch loop, as the code of most papers has it; runs in the environment made for it.

With one process, clients train one after the other. With two, each takes half of them; the model and the sums of the
trained parameters lie in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, multiprocessing

from benchmarks.peers.job import Job
from benchmarks.peers.protocol import main, versions
from benchmarks.peers.training_torch import Data, Trainer, load, parameters, test_loss


class Torch:
    """FedAvg with ``threads`` threads in each of ``processes`` processes."""

    def __init__(
        self, job: Job, data: str, processes: str = '1', threads: str = '1', channels_last: str = '', compiled: str = ''
    ):
        torch.manual_seed(0)
        self.job, self.data = job, load(data, job, bool(channels_last)).share()
        options: dict[str, Any] = {'threads': int(threads), 'channels_last': bool(channels_last)}
        options['compiled'] = bool(compiled)
        self.trainer = Trainer(job, self.data, **options)
        self.model = [p.detach().clone().share_memory_() for p in self.trainer.network.parameters()]
        self.helpers = [Helper(job, self.data, self.model, options) for _ in range(int(processes) - 1)]
        self.rng = np.random.default_rng(0)
        self.how = _describe(int(processes), **options)
        self.work = (0, 0)

    def facts(self) -> dict[str, Any]:
        return {'how': self.how, 'parameters': parameters(self.trainer.network), 'versions': versions('torch', 'numpy')}

    def round(self) -> None:
        cohort = self.rng.choice(self.job.clients, self.job.cohort, replace=False).tolist()
        shares = [cohort[first :: 1 + len(self.helpers)] for first in range(1 + len(self.helpers))]
        for helper, share in zip(self.helpers, shares[1:], strict=True):
            helper.begin(share)
        totals, self.work = train_all(self.trainer, self.model, shares[0])
        for helper in self.helpers:
            work = helper.wait()
            self.work = self.work[0] + work[0], self.work[1] + work[1]
            _add(totals, helper.totals)
        for parameter, total in zip(self.model, totals, strict=True):
            torch.div(total, len(cohort), out=parameter)

    def check(self) -> dict[str, Any]:
        _assign(self.trainer, self.model)
        examples, steps = self.work
        return {'loss': test_loss(self.trainer.network, self.data), 'examples': examples, 'steps': steps}


def train_all(trainer: Trainer, model: list[Tensor], clients: Sequence[int]) -> tuple[list[Tensor], tuple[int, int]]:
    """Train every client from the same model; the sums of their parameters, and the examples and steps it took."""
    totals = [torch.zeros_like(parameter) for parameter in model]
    trainer.examples = trainer.steps = 0
    for client in clients:
        _assign(trainer, model)
        trainer.train(client)
        _add(totals, trainer.network.parameters())
    return totals, (trainer.examples, trainer.steps)


@torch.no_grad()
def _add(totals: list[Tensor], values: Iterable[Tensor]) -> None:
    for total, value in zip(totals, values, strict=True):
        total += value


@torch.no_grad()
def _assign(trainer: Trainer, model: list[Tensor]) -> None:
    for parameter, value in zip(trainer.network.parameters(), model, strict=True):
        parameter.copy_(value)


class Helper:
    """A second process that trains clients at the same time; ``totals`` holds what it found when ``wait`` returns."""

    def __init__(self, job: Job, data: Data, model: list[Tensor], options: dict[str, Any]):
        context = multiprocessing.get_context('spawn')
        self.totals = [torch.zeros_like(parameter).share_memory_() for parameter in model]
        self.pipe, end = context.Pipe()
        context.Process(target=_help, args=(end, job, data, model, self.totals, options), daemon=True).start()
        end.close()  # so that a helper that dies is noticed

    def begin(self, clients: Sequence[int]) -> None:
        self.pipe.send(clients)

    def wait(self) -> tuple[int, int]:
        return self.pipe.recv()


def _help(pipe: Any, job: Job, data: Data, model: list[Tensor], totals: list[Tensor], options: dict[str, Any]) -> None:
    trainer = Trainer(job, data, **options)
    while True:
        found, work = train_all(trainer, model, pipe.recv())
        for total, value in zip(totals, found, strict=True):
            total.copy_(value)
        pipe.send(work)


def _describe(processes: int, threads: int, channels_last: bool, compiled: bool) -> str:
    words = [f'{processes} process(es) of {threads} thread(s)']
    words += ['channels last'] * channels_last + ['torch.compile'] * compiled
    return ', '.join(words)


if __name__ == '__main__':
    main(Torch)
