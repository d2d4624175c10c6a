"""The registry: recipe name -> factory. One line buys a method its flags, its listing and the conformance suite."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from fedjax_fair.core.types import Method
from fedjax_fair.diagnostics import keep_local_models, watch_conflicts, watch_masks, watch_signs
from fedjax_fair.methods import (
    agnostic,
    collaboration,
    conflicts,
    contrastive,
    decomposition,
    drift,
    dynamic,
    fedheal,
    harmofl,
    normalization,
    prototypes,
    server_optimizers,
    sharpness,
    tilted,
    weights,
)

RECIPES: dict[str, Callable[..., list[Method]]] = {
    'fedavg': weights.fedavg,
    'uniform': weights.uniform,
    'fedprox': drift.fedprox,
    'scaffold': drift.scaffold,
    'fednova': weights.fednova,
    'qfedavg': weights.qfedavg,
    'qffl': weights.qffl,
    'afl': agnostic.afl,
    'afl_worst': agnostic.afl_worst,
    'fairfed': agnostic.fairfed,
    'fedga': agnostic.fedga,
    'fedce': agnostic.fedce,
    'logit_adjust': sharpness.logit_adjust,
    'salt': sharpness.salt,
    'saga': sharpness.saga,
    'fedism': sharpness.fedism,
    'fedism_plus': sharpness.fedism_plus,
    'tilted_loss': tilted.tilted_loss,
    'tilted_server': tilted.tilted_server,
    'personal': tilted.personal,
    'fedtilt': tilted.fedtilt,
    'ditto': tilted.ditto,
    'term': tilted.term,
    'local_only': tilted.local_only,
    'fedbn': normalization.fedbn,
    'silobn': normalization.silobn,
    'moon': contrastive.moon,
    'amp_norm': harmofl.amp_norm,
    'perturb': harmofl.perturb,
    'harmofl': harmofl.harmofl,
    'harmofl_release': harmofl.harmofl_release,
    'feddyn': dynamic.feddyn,
    'fedproc': prototypes.fedproc,
    'fedproto': prototypes.fedproto,
    'fedfv': conflicts.fedfv,
    'fphl': fedheal.fphl,
    'fael': fedheal.fael,
    'fedheal': fedheal.fedheal,
    'margin': decomposition.margin,
    'principal': decomposition.principal,
    'fedld': decomposition.fedld,
    'fedld_code': decomposition.fedld_code,
    'fedgh': conflicts.fedgh,
    'fedgh_pcgrad': conflicts.fedgh_pcgrad,
    'fedpac': collaboration.fedpac,
    'fedavgm': server_optimizers.server_momentum,
    'fedadam': server_optimizers.server_adam,
    'fedyogi': server_optimizers.server_yogi,
    'fedadagrad': server_optimizers.server_adagrad,
    'server_momentum': server_optimizers.server_momentum,
    'server_adam': server_optimizers.server_adam,
    'server_yogi': server_optimizers.server_yogi,
    'server_adagrad': server_optimizers.server_adagrad,
    'keep_local_models': keep_local_models,
    'watch_conflicts': watch_conflicts,
    'watch_masks': watch_masks,
    'watch_signs': watch_signs,
}


def make_methods(recipe: str, hyper: Mapping[str, Any] | None = None) -> list[Method]:
    """The methods of a recipe such as ``'fedprox+server_adam'``.

    ``hyper`` maps ``'part.key'`` to values: strings are converted to the type of the default, numbers may be traced, so
    that a whole grid of float hyper-parameters runs as one program.

    >>> [m.name for m in make_methods('fedprox+server_adam', {'fedprox.mu': 0.1})]
    ['fedprox', 'server_adam']
    """
    given = resolve_hyper(recipe, hyper or {})
    return [m for part in recipe.split('+') for m in RECIPES[part](**given[part])]


def defaults(part: str) -> dict[str, Any]:
    """The hyper-parameters of one part of a recipe with their defaults."""
    return {p.name: p.default for p in inspect.signature(RECIPES[part]).parameters.values()}


def summary(part: str) -> str:
    """First line of the documentation of one part."""
    return (inspect.getdoc(RECIPES[part]) or '').split('\n')[0]


def resolve_hyper(recipe: str, hyper: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Every part's hyper-parameters, defaults filled in; refuses names and values that do not fit.

    >>> resolve_hyper('fedprox', {'fedprox.mu': '0.5'})
    {'fedprox': {'mu': 0.5, 'kind': 'squared'}}
    """
    parts = recipe.split('+')
    for part in parts:
        if part not in RECIPES:
            raise ValueError(f'recipe {recipe!r}: {part!r} is not one of {", ".join(RECIPES)}{_did_you_mean(part)}')
    full = {part: defaults(part) for part in parts}
    for name, value in hyper.items():
        part, _, key = name.partition('.')
        if part not in full:
            raise ValueError(f'--{name}={value}: {part!r} is not a part of recipe {recipe!r} ({", ".join(parts)})')
        if key not in full[part]:
            known = ', '.join(full[part]) or 'none'
            raise ValueError(f'--{name}={value}: {part} has no hyper-parameter {key!r}; it has: {known}')
        full[part][key] = _converted(name, value, full[part][key])
    return full


def _converted(name: str, value: Any, default: Any) -> Any:
    if not isinstance(value, str) or isinstance(default, str):
        return value
    if isinstance(default, bool):
        if value.lower() not in ('true', 'false'):
            raise ValueError(f'--{name}={value}: expected true or false')
        return value.lower() == 'true'
    try:
        return type(default)(value)
    except ValueError:
        raise ValueError(f'--{name}={value}: expected a {type(default).__name__} such as {default}') from None


def _did_you_mean(part: str) -> str:
    close = difflib.get_close_matches(part, RECIPES, 1)
    return f'; did you mean {close[0]!r}?' if close else ''
