"""All settings are resolved and checked here, before any data is read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from fedjax_fair import plugins, registry
from fedjax_fair.core.local import WITH_BETAS, WITH_MOMENTUM
from fedjax_fair.data import data_options, scenario_options
from fedjax_fair.data.declarations import given
from fedjax_fair.errors import UserError
from fedjax_fair.methods import resolve_hyper
from fedjax_fair.models.normalize import parse_statistics
from fedjax_fair.options import AUTO, not_one_of, resolve
from fedjax_fair.ranges import LARGEST_FLOAT, SMALLEST_FLOAT
from fedjax_fair.results import SELECTIONS
from fedjax_fair.training.config import MAPPINGS, Config, setting_options


def checked(config: Config) -> Config:
    """The settings with values of the right type, after refusing all that can be refused without data.

    Loads the plug-ins that the settings name, and those that are installed.

    >>> checked(Config(recipe='fedprox', hyper={'fedprox.mu': '0.5'}, data={'num_clients': '4'})).hyper
    {'fedprox.mu': 0.5}
    """
    _check_mappings(config)
    plugins.load_all(config.plugins)
    options = setting_options()
    values = resolve('a run', options, {name: getattr(config, name) for name in options})
    config = dataclasses.replace(config, **values, hyper=_hyper(config), data=_data(config))
    if config.model != AUTO:
        config = dataclasses.replace(config, model_options=config.network_options(config.model))
    check_together(config)
    return config


def _check_mappings(config: Config) -> None:
    """Refuse what is no mapping of names, or no sequence of plug-ins."""
    for name in MAPPINGS:
        value = getattr(config, name)
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise UserError(f'`{name}`={value!r}: expected a mapping from names to values')
    if not isinstance(config.plugins, tuple | list):
        raise UserError(f'`plugins`={config.plugins!r}: expected a sequence of files or modules')


def _hyper(config: Config) -> dict[str, Any]:
    """Options that are written ``part.key``: of the recipe, of augmentations and of the sampler."""
    of_tools = config.options_of(*(set(config.tools) - set(config.recipe.split('+'))))
    methods = {name: value for name, value in config.hyper.items() if name.partition('.')[0] not in of_tools}
    full = resolve_hyper(config.recipe, methods)
    for tool, own in of_tools.items():
        settings = setting_options()  # what is a setting is given as one
        options = {key: one for key, one in config.tools[tool].entry(tool).options.items() if key not in settings}
        full[tool] = resolve(tool, options, own, label=lambda key, tool=tool: f'{tool}.{key}')  # type: ignore[misc]
    keys = {name: name.partition('.') for name in config.hyper}
    return {name: full[part][key] for name, (part, _, key) in keys.items()}


def _data(config: Config) -> dict[str, Any]:
    """Options of data that are given, read as the scenario declares them."""
    options = {**data_options(), **scenario_options(config.scenario)}
    chosen = given({name: tuple(v) if isinstance(v, list) else v for name, v in config.data.items()}, options)
    values = resolve('data', options, chosen)
    return {name: values[name] for name in chosen}


def check_together(config: Config) -> None:
    """Refuse settings that contradict each other."""
    seeds = config.seeds
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) >= 2**32:
        raise UserError(f'`seeds`={",".join(map(str, seeds))} must be different whole numbers from 0 to {2**32 - 1}')
    names = [name for name in config.augment.split('+') if name]
    for name in names:
        if name not in registry.augmentations:
            raise UserError(f'`augment`={config.augment}: {name!r} {not_one_of(name, registry.augmentations)}')
        if names.count(name) > 1:
            raise UserError(f'`augment`={config.augment}: {name} is listed twice')
    if config.schedule and config.sampler != 'schedule':
        raise UserError(f'`schedule`={config.schedule} needs `sampler`=schedule, not `sampler`={config.sampler}')
    if config.sampler == 'schedule' and config.participation != 1:
        raise UserError(f'`participation`={config.participation} does not apply to `sampler`=schedule')
    _check_optimizer(config)
    _check_last_rate(config)
    if config.client_map == 'vmap' and config.chunk is not None:
        raise UserError(f'`chunk`={config.chunk} does not apply to `client_map`=vmap, which runs all clients at once')
    if config.normalize:
        parse_statistics(config.normalize)
    if config.deterministic and config.client_map == 'vmap':
        raise UserError('`deterministic` runs one client at a time on a device, and `client_map`=vmap all at once')
    if config.deterministic and config.chunk not in (None, 1):
        raise UserError(f'`deterministic` runs one client at a time on a device, and `chunk`={config.chunk} more')
    if SELECTIONS[config.select] and not config.validation:
        raise UserError(f'`select`={config.select} needs `validation`, a share of the training examples such as 0.2')


def _check_optimizer(config: Config) -> None:
    """Refuse options of an optimiser that is not used."""
    for name, owners in {'momentum': WITH_MOMENTUM, 'adam_b1': WITH_BETAS, 'adam_b2': WITH_BETAS}.items():
        value = getattr(config, name)
        if value != getattr(Config, name) and config.local_optimizer not in owners:
            others = ' or `local_optimizer`='.join(owners)
            raise UserError(
                f'`{name}`={value:g} is of `local_optimizer`={others}; '
                f'`local_optimizer`={config.local_optimizer} has none'
            )


def _check_last_rate(config: Config) -> None:
    """Refuse a learning rate that grows until it overflows, or shrinks until nothing is left of it."""
    factor = (config.rounds - 1) * math.log10(config.lr_decay)
    for digits in (factor, math.log10(config.lr) + factor):
        if not math.log10(SMALLEST_FLOAT) <= digits <= math.log10(LARGEST_FLOAT):
            what = f'the learning rate of round {config.rounds} would be {"0" if digits < 0 else "infinite"}'
            where = f'in the 32 bits of float32, from `lr`={config.lr:g}'
            raise UserError(f'`lr_decay`={config.lr_decay:g}: {what} {where}')
