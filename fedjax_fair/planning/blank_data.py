"""Data of which only the shapes are known: enough to compile programs, before any image is at hand."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from fedjax_fair.core.types import Tests
from fedjax_fair.data import Federation
from fedjax_fair.options import at_least, options_of, pairs, resolve
from fedjax_fair.training import Config

WITH_DATA = {'pretrained': '', 'validation': 0.0, 'select': 'last_k'}  # settings that need data or files


def blank(
    clients: Annotated[int, 'clients', at_least(1)] = 20,
    examples: Annotated[int, 'training examples of each client', at_least(1)] = 500,
    tests: Annotated[int, 'test examples of each test set', at_least(1)] = 500,
    test_sets: Annotated[int, 'test sets', at_least(1)] = 1,
    side: Annotated[int, 'pixels on a side of an image', at_least(1)] = 32,
    channels: Annotated[int, 'channels of an image', at_least(1)] = 3,
    classes: Annotated[int, 'classes of images, or of pixels', at_least(2)] = 10,
    masks: Annotated[bool, 'segmentation: the classes are those of pixels'] = False,
) -> Federation:
    """A federation of black images, which take no memory here.

    >>> blank(clients=3, examples=4, side=8).x.shape
    (12, 8, 8, 3)
    """
    image, pixels = (side, side, channels), (side, side) if masks else ()
    index = np.arange(clients * examples, dtype=np.int32).reshape(clients, examples)
    return Federation(
        name='shapes alone',
        x=_zeros((index.size, *image), np.uint8),
        y=_zeros((index.size, *pixels), np.int32),
        index=index,
        sizes=np.full(clients, examples, np.int32),
        tests=Tests(
            _zeros((test_sets, tests, *image), np.uint8),
            _zeros((test_sets, tests, *pixels), np.int32),
            _zeros((test_sets, tests), bool),
            np.arange(clients, dtype=np.int32) % test_sets,
            tuple(map(str, range(test_sets))),
        ),
        num_classes=classes,
        task='segmentation' if masks else 'classification',
    )


def blank_of(text: str) -> Federation:
    """The federation that ``text`` describes, such as ``clients=20,examples=900,side=224,classes=5``."""
    return blank(**resolve('shapes', options_of(blank), pairs('shapes', text), lambda name: f'shapes={name}'))


def without_data(config: Config) -> Config:
    """The settings of a run for which no data, and no weights to start from, are there."""
    return config.changed(**WITH_DATA)


def _zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros that share one place in memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)
