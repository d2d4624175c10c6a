"""Inputs with mean 0 and deviation 1: the first thing a network does, in training and in evaluation.

What comes before it (augmentation, outliers, the transforms of methods) sees images in [0, 1], and so a turned image is
filled up with black, as where the publishers' pipelines normalise last.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from fedjax_fair.core.types import Array, Model, Output, Variables
from fedjax_fair.errors import UserError
from fedjax_fair.parsing import number
from fedjax_fair.ranges import fits_float32


class Statistics(NamedTuple):
    """Mean and standard deviation of every channel, of images in [0, 1]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


KNOWN = {
    'imagenet': Statistics((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    'retina': Statistics((0.5007, 0.5010, 0.5019), (0.0342, 0.0535, 0.0484)),  # of SSL-FL, which FedLD takes over
}


def parse_statistics(text: str) -> Statistics:
    """A name of :data:`KNOWN`, or ``MEAN/STD`` with one number per channel, joined by ``|``.

    >>> parse_statistics('0.5|0.4/0.2|0.1')
    Statistics(mean=(0.5, 0.4), std=(0.2, 0.1))
    """
    if text in KNOWN:
        return KNOWN[text]
    mean, _, std = text.partition('/')
    try:
        statistics = Statistics(*(tuple(map(number, side.split('|'))) for side in (mean, std)))
    except ValueError:
        statistics = Statistics((), ())
    numbers = (*statistics.mean, *statistics.std)
    whole = len(statistics.mean) == len(statistics.std) > 0 and min(statistics.std) > 0
    if not whole or not all(map(fits_float32, numbers)):
        raise UserError(
            f'`normalize`={text} is not one of {", ".join(KNOWN)}, nor MEAN/STD with as many (finite) means as '
            '(positive) deviations, such as 0.5|0.5|0.5/0.2|0.2|0.2'
        )
    return statistics


def normalized(model: Model, statistics: Statistics) -> Model:
    """``model`` on inputs less the mean and over the standard deviation of their channel.

    >>> from fedjax_fair.models import make_model
    >>> model = normalized(make_model('lenet', 10), KNOWN['imagenet'])
    """

    def apply(variables: Variables, x: Array, mask: Array, train: bool, key: Array) -> Output:
        mean, std = (jnp.asarray(values, x.dtype).reshape(*[1] * (x.ndim - 1), -1) for values in statistics)
        return model.apply(variables, (x - mean) / std, mask, train, key)

    return model._replace(apply=apply)
