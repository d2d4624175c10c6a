"""The jobs' networks in PyTorch, shared by all sides that run on it; its own initial weights are those of all sides."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn

from benchmarks.peers.job import Job


def make_network(job: Job, channels_last: bool = False) -> nn.Module:
    """The network of a job; it takes images ``[B, C, H, W]``, whose channels may come last in memory, gives logits."""
    return NETWORKS[job.model](job).to(memory_format=torch.channels_last if channels_last else torch.contiguous_format)


def mlp(job: Job) -> nn.Module:
    """Two hidden layers of 200."""
    sizes = (math.prod(job.image), 200, 200)
    hidden = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(200, job.classes))


def cnn(job: Job) -> nn.Module:
    """Three 3x3 convolutions, each followed by 2x2 max-pooling and ReLU: in this order ReLU sees a quarter of it."""
    rows, columns, channels = job.image
    widths = (channels, 32, 64, 128)
    blocks = [
        layer
        for a, b in itertools.pairwise(widths)
        for layer in (nn.Conv2d(a, b, 3, padding=1), nn.MaxPool2d(2), nn.ReLU())
    ]
    return nn.Sequential(*blocks, nn.Flatten(), nn.Linear(128 * (rows // 8) * (columns // 8), job.classes))


def _normalised(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False), nn.GroupNorm(32, outputs)
    )


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.first, self.second = _normalised(inputs, outputs, 3, stride), _normalised(outputs, outputs, 3)
        changes = stride != 1 or inputs != outputs
        self.shortcut = _normalised(inputs, outputs, 1, stride) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))) + self.shortcut(x))


def resnet10(job: Job) -> nn.Module:
    """Four stages of one block after a 3x3 stem, with group norm."""
    stem = (_normalised(job.image[-1], 64, 3), nn.ReLU())
    stages = [Block(64, 64, 1), Block(64, 128, 2), Block(128, 256, 2), Block(256, 512, 2)]
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, job.classes))


NETWORKS = {'mlp': mlp, 'cnn': cnn, 'resnet10': resnet10}
