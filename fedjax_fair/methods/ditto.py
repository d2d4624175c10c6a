"""Ditto: a shared model, and a personal model near it for every client."""

from __future__ import annotations

from typing import Literal

from fedjax_fair.core.method import Method
from fedjax_fair.methods.fedtilt import tilted_server
from fedjax_fair.methods.personal import Pull, personal
from fedjax_fair.registry import register


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
    if aggregate == 'fed_back':
        return personal(mu, implicit=implicit, upload='v')
    mean = [method._replace(idle=None) for method in tilted_server()]  # the uniform mean is what Ditto asks for
    return [*personal(mu, implicit=implicit, serve='v' if aggregate == 'served' else 'w'), *mean]
