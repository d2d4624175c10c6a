"""What the sides on PyTorch share: the federation as tensors, a client's local training and the test loss."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.peers.job import Job
from benchmarks.peers.networks_torch import make_network

TEST_BATCH = 100


@dataclasses.dataclass(frozen=True)
class Data:
    """Training examples ``x[N, M, C, H, W]``, ``y[N, M]`` of N clients, and the test examples of all."""

    x: Tensor
    y: Tensor
    test_x: Tensor
    test_y: Tensor

    def share(self) -> Data:
        """Move the training examples to shared memory, where other processes can use them."""
        self.x.share_memory_(), self.y.share_memory_()
        return self


def load(path: str, job: Job, channels_last: bool = False) -> Data:
    """Read the federation; ``channels_last`` keeps the memory layout of the file, otherwise channels come first."""
    with np.load(path) as file:
        images, labels, train = file['images'], file['labels'].astype(np.int64), file['split'] == 'train'

    def tensors(chosen: np.ndarray) -> tuple[Tensor, Tensor]:
        x = torch.from_numpy(images[chosen]).permute(0, 3, 1, 2)
        return x if channels_last else x.contiguous(), torch.from_numpy(labels[chosen])

    (x, y), tests = tensors(train), tensors(~train)
    return Data(x.unflatten(0, (job.clients, -1)), y.unflatten(0, (job.clients, -1)), *tests)


class Trainer:
    """Trains clients one after the other on one scratch network; ``examples`` and ``steps`` count what was done."""

    def __init__(self, job: Job, data: Data, *, threads: int = 1, channels_last: bool = False, compiled: bool = False):
        torch.set_num_threads(threads)
        self.job, self.data = job, data
        self.network = make_network(job, channels_last)
        self.forward = torch.compile(self.network, dynamic=False) if compiled else self.network
        self.loss = nn.CrossEntropyLoss()
        self.examples = self.steps = 0

    def train(self, client: int) -> None:
        """Local epochs of a client, starting from the network's present parameters."""
        x, y, job = self.data.x[client], self.data.y[client], self.job
        optimizer = torch.optim.SGD(self.network.parameters(), job.lr, job.momentum)
        for _ in range(job.epochs):
            for chosen in torch.randperm(len(y)).split(job.batch):
                optimizer.zero_grad()
                self.loss(self.forward(x[chosen]), y[chosen]).backward()
                optimizer.step()
                self.examples, self.steps = self.examples + len(chosen), self.steps + 1


@torch.no_grad()
def test_loss(network: nn.Module, data: Data) -> float:
    """Mean cross-entropy over the test examples."""
    batches = zip(data.test_x.split(TEST_BATCH), data.test_y.split(TEST_BATCH), strict=True)
    total = sum(nn.functional.cross_entropy(network(x), y, reduction='sum').item() for x, y in batches)
    return total / len(data.test_y)


def suits_channels_last(job: Job) -> bool:
    """Whether the memory layout with channels last is the faster one: it is for convolutions."""
    return job.model != 'mlp'


def parameters(network: nn.Module) -> int:
    """How many numbers the network learns."""
    return sum(p.numel() for p in network.parameters())
