"""Networks by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedjax_fair import registry
from fedjax_fair.core.types import Model
from fedjax_fair.errors import UserError
from fedjax_fair.models.conv import with_conv
from fedjax_fair.models.projection import with_projection
from fedjax_fair.options import NUM_CLASSES, Option, at_least, not_one_of, resolve

MODELS = registry.models
PROJECTION = Option('projection', None, int, 'width of a projection before the head', at_least(1))
NUMBERS = (int, float, tuple[int, ...])  # kinds of options


def make_model(
    name: str,
    num_classes: int,
    norm: str | None = None,
    conv: str = 'auto',
    projection: int | str | None = None,
    **options: Any,
) -> Model:
    """Build a network of ``MODELS`` by name.

    Args:
        name: of a network, a built-in one or one that was registered by ``@register.model``.
        num_classes: outputs, for every example or pixel.
        norm: one of ``NORMS``; None keeps the network's own (batch for resnet10, group for lenet, none for cnn).
        conv: how this model computes convolutions (:func:`~fedjax_fair.models.with_conv`).
        projection: width of a projection before the head (:func:`~fedjax_fair.models.with_projection`); None: none.
        **options: the network's own, as values or as texts: ``widths=(64, 64)`` or ``widths='64x64'`` for mlp.
    """
    NUM_CLASSES.check(num_classes)
    values = check_options(name, norm, projection, **options)
    outputs = values.pop('projection', None) or num_classes
    model = with_conv(MODELS.make(name, outputs, **values), conv)
    return model if projection is None else with_projection(model, num_classes)


def check_options(
    name: str, /, norm: str | None = None, projection: int | str | None = None, **options: Any
) -> dict[str, Any]:
    """The options that are given for a network, read and checked; see :func:`make_model`.

    >>> check_options('mlp', widths='64x32')
    {'widths': (64, 32)}
    """
    if name not in MODELS:
        raise UserError(f'`model`={name} {not_one_of(name, MODELS)}')
    known = {**MODELS.options(name), 'projection': PROJECTION}
    given = options | _norm(name, norm) | ({} if projection is None else {'projection': str(projection)})
    try:
        values = resolve(name, known, {option: _text(known, option, value) for option, value in given.items()})
    except UserError as error:
        raise UserError(f'`model_options`: {error}') from None
    return {option: values[option] for option in given}


def _norm(name: str, norm: str | None) -> dict[str, str]:
    """The option ``norm``, which is a setting of its own on the command line."""
    if norm is None:
        return {}
    able = [model for model in MODELS if 'norm' in MODELS.options(model)]
    if name not in able:
        raise UserError(f'`norm`={norm}: model {name!r} has no normalisation layers; choose one of {", ".join(able)}')
    return {'norm': MODELS.options(name)['norm'].check(norm)}


def _text(options: Mapping[str, Option], name: str, value: Any) -> Any:
    """Numbers as texts, so that a value of the wrong kind is refused like a text of the wrong kind."""
    if name not in options or options[name].kind not in NUMBERS:
        return value
    return 'x'.join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def describe_models() -> dict[str, str]:
    """One line about every network, for listings."""
    return {name: MODELS.entry(name).about for name in MODELS}
