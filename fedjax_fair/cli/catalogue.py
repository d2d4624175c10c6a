"""Everything that can be chosen by name: recipes, models, scenarios, sources and more, with their options."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import NamedTuple

from fedjax_fair import registry
from fedjax_fair.data import scenario_options
from fedjax_fair.data.sources import FLAGS
from fedjax_fair.options import Factory, Option
from fedjax_fair.registry import BUILT_IN, ROLE, Registry


class Item(NamedTuple):
    """One name: a line about it, its documentation, its options, and who registered it.

    ``argument`` is what is written behind the name, as in ``npz:PATH``; ``own`` are the options that only a source has.
    """

    name: str
    about: str
    documentation: str
    options: Mapping[str, Option]
    argument: str = ''
    section: str = ''
    origin: str = BUILT_IN
    own: Mapping[str, Option] = {}

    @property
    def written(self) -> str:
        """The name as it is written on the command line."""
        return f'{self.name}:{self.argument}' if self.argument else self.name


KINDS_LISTED = {
    'recipes': registry.recipes,
    'scenarios': registry.scenarios,
    'models': registry.models,
    'sources': registry.sources,
    'partitions': registry.partitions,
    'tasks': registry.tasks,
    'augmentations': registry.augmentations,
    'samplers': registry.samplers,
}


def catalogue() -> dict[str, dict[str, Item]]:
    """All items by kind and name."""
    return {title: items(title) for title in KINDS_LISTED}


def items(title: str) -> dict[str, Item]:
    """The items of one kind, such as ``'models'``, by name."""
    known = KINDS_LISTED[title]
    by_name = {name: _registered(name, known) for name in known}
    if title in ('scenarios', 'sources'):  # they read options of their partition scheme, too
        return {name: item._replace(options=scenario_options(name), own=_own(item)) for name, item in by_name.items()}
    return by_name


def _own(item: Item) -> dict[str, Option]:
    """The options that are given together, with ``source_options``."""
    return {name: option for name, option in item.options.items() if name not in FLAGS}


def find(name: str) -> dict[str, Item]:
    """All items of a name, by kind: a scenario and a source may share theirs."""
    return {title: known[name] for title, known in catalogue().items() if name in known}


def _registered(name: str, kind: Registry) -> Item:
    entry = kind.entry(name)
    argument = entry.notes.get('argument', '')
    return Item(name, entry.about, _plain(entry.make), entry.options, argument, entry.section, entry.origin)


def _plain(factory: Factory) -> str:
    """The documentation of a factory as plain text, without examples for Python."""
    text = ROLE.sub(r'\1', inspect.getdoc(factory) or '').replace('``', '')
    return '\n\n'.join(part for part in text.split('\n\n') if not part.lstrip().startswith('>>>'))
