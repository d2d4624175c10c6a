"""All scenarios by name: what they are, which options they read, and how they are made.

A scenario is a factory registered with ``@register.scenario``; besides, every source is the scenario ``KIND:PATH``. The
factory is called with what stands behind the colon (where the note ``argument`` says that something does), with
``data_seed`` and with its own options. A factory with a parameter ``split`` deals its examples out by a partition
scheme: it gets a :class:`~fedjax_fair.data.partition.split.Split` and reads the options of all schemes, or of the one
that its note ``scheme`` names.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from fedjax_fair.data.declarations import WHO, given, merged, refuse_unread
from fedjax_fair.data.federation import Federation
from fedjax_fair.data.partition.split import make_split, split_options
from fedjax_fair.data.scenarios.from_source import scenario_of
from fedjax_fair.errors import UserError
from fedjax_fair.options import Option, Range, not_one_of, resolve
from fedjax_fair.registry import Entry, scenarios, sources

DATA_SEED = Option('data_seed', 0, int, 'seed of data and partition, the same for all seeds', Range(0, 2**63 - 1))
SPLIT = 'split'  # the parameter of a scenario that deals its examples out


def make_scenario(spec: str, *, data_seed: int = 0, **options: Any) -> Federation:
    """The federation that ``spec`` names: ``SCENARIO``, ``SCENARIO:ARGUMENT`` or ``KIND:PATH`` of a source.

    Options may be values or texts. None or an empty sequence leaves an option to the scenario, and so does False unless
    the scenario turns it on by itself; an option that the scenario does not read is an error.

    >>> make_scenario('gaussian_toy_1').num_clients
    2
    """
    DATA_SEED.check(data_seed)
    name, colon, argument = spec.partition(':')
    entry, reads = _find(name, spec), scenario_options(spec)
    if {bool(colon), bool(argument)} != {bool(entry.notes.get('argument'))}:
        raise UserError(f'`scenario`={spec} must be written {_written(name)}')
    chosen = given(options, reads)
    refuse_unread(chosen, ('data_seed', *reads), f'`scenario`={name}')
    if 'partition' in chosen:
        allowed = [option for option in reads if WHO not in reads[option].notes]
        refuse_unread(chosen, ('data_seed', *allowed), f'`partition`={chosen["partition"]}')
    values = resolve(name, reads, chosen)
    own = {option: values[option] for option in chosen if option in entry.options}
    if _deals(entry):
        own[SPLIT] = make_split(**{option: values[option] for option in chosen if option not in entry.options})
    made = entry.make(*[argument] * bool(argument), data_seed=data_seed, **own)
    return made if made.description else dataclasses.replace(made, description=entry.about)


def scenario_names() -> tuple[str, ...]:
    """The scenarios as they are written on the command line."""
    return tuple(map(_written, (*scenarios, *sources)))


def describe_scenarios() -> dict[str, str]:
    """One line about every scenario, by its name as it is written on the command line."""
    return {_written(name): _find(name).about for name in (*scenarios, *sources)}


def scenario_options(spec: str) -> dict[str, Option]:
    """The options that a scenario reads, those of its split included; its argument changes nothing."""
    entry = _find(spec.partition(':')[0], spec)
    return {**(split_options(entry.notes.get('scheme')) if _deals(entry) else {}), **entry.options}


def data_options() -> dict[str, Option]:
    """The options of all scenarios, sources and partition schemes together.

    An option that has several defaults has the default None here, which leaves it to the scenario.
    """
    return merged([split_options(), *(scenario_options(name) for name in (*scenarios, *sources))])


def _find(name: str, spec: str | None = None) -> Entry:
    if name in scenarios:
        return scenarios.entry(name)
    if name not in sources:
        raise UserError(f'`scenario`={spec or name} {not_one_of(name, scenario_names())}')
    return scenario_of(name)


def _deals(entry: Entry) -> bool:
    return SPLIT in inspect.signature(entry.make).parameters


def _written(name: str) -> str:
    argument = _find(name).notes.get('argument')
    return f'{name}:{argument}' if argument else name
