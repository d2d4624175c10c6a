"""Ditto: a shared model, and a personal model near it for every client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from fedjax_fair.core.method import Method
from fedjax_fair.methods.fedtilt import tilted_server
from fedjax_fair.methods.personal import Pull, personal
from fedjax_fair.registry import register


def _uniform_mean() -> list[Method]:
    """Of updates; it is what Ditto asks for, so that nobody is told that it changes nothing."""
    return [method._replace(idle=None) for method in tilted_server()]


AGGREGATES: dict[str, tuple[dict[str, Any], Callable[[], list[Method]]]] = {  # of the personal model; of the server
    'no': ({}, _uniform_mean),
    'served': ({'serve': 'v'}, _uniform_mean),
    'fed_back': ({'upload': 'v'}, list),
}


@register.recipe
def ditto(
    mu: Pull = 1.0, implicit: bool = False, aggregate: Literal['no', 'served', 'fed_back'] = 'no'
) -> list[Method]:
    """Ditto: the uniform mean of local models, and a :func:`personal` model near it for every client.

    A table of one global model needs one: by default it is the shared one. ``aggregate='served'`` evaluates the mean of
    the personal models, by examples, and trains as ever; ``'fed_back'`` makes that mean the next shared model.
    What clients deploy is their personal model in any case.

    >>> [method.name for method in ditto(aggregate='fed_back')]
    ['personal']
    """
    options, server = AGGREGATES[aggregate]
    return [*personal(mu, implicit=implicit, **options), *server()]
