"""Options that several scenarios, sources and partition schemes read: each has its help text and range here, once."""

from __future__ import annotations

import enum
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from fedjax_fair.errors import UserError
from fedjax_fair.options import Option, above, at_least, between


class Mark(enum.Enum):
    """Notes on options."""

    WHO_HOLDS_WHAT = 'it decides who holds what, so it cannot be given together with a partition file'


WHO = Mark.WHO_HOLDS_WHAT

NumClients = Annotated[int, 'number of clients', at_least(1), WHO]
Alpha = Annotated[float, 'concentration of a Dirichlet split', above(0), WHO]
ClassesPerClient = Annotated[int, 'classes each client holds', at_least(1), WHO]
ExamplesPerClass = Annotated[
    int, 'training examples of each class that a client holds; all by default', at_least(1), WHO
]
FixedClasses = Annotated[
    bool, 'client 0 holds the first classes_per_client classes, client 1 the next, and so on in turn; else drawn', WHO
]
WholeTests = Annotated[bool, 'test every client on all test examples of its classes', WHO]
ClientsPerDomain = Annotated[int, 'clients of every domain', at_least(1), WHO]
ClientSizes = Annotated[tuple[int, ...], 'training examples per client of each domain', at_least(1), WHO]
Truncate = Annotated[bool, 'cut all clients to the size of the smallest', WHO]
TrainSize = Annotated[int, 'training examples that are drawn of each domain; by default all', at_least(1), WHO]
TestSize = Annotated[int, 'test examples of each domain', at_least(1), WHO]
JoinSites = Annotated[bool, "sites that cannot be both trained on and tested become one, 'other'", WHO]
PartitionFile = Annotated[str, 'FILE.json of `data partition`: who holds what, instead of a split']
TASK_HELP = 'what is learned, a task of `fedjax-fair list`'
Task = Annotated[str, TASK_HELP]
ImageSize = Annotated[int, 'side to which images are resized', between(1, 2**14)]
Classes = Annotated[tuple[int, ...], 'classes that are kept, numbered anew in this order, such as 2,6', at_least(0)]
NpzKeys = Annotated[str, 'names of arrays, such as site:hospital,patient:case,split:- (- for none)']
SourceOptions = Annotated[str, 'options of the source, such as label=dx,site=hospital']
UNDECIDED: dict[str, Any] = {  # what an option has that factories declare differently
    'default': None,
    'choices': (),
    'range': None,
    'kind': Any,
    'search': None,
}


def given(options: Mapping[str, Any], declared: Mapping[str, Option] = types.MappingProxyType({})) -> dict[str, Any]:
    """The options that say something: None and an empty sequence leave the choice to the scenario.

    So does False, unless ``declared`` has a flag of that name that is not off by default.

    >>> given({'alpha': 0.0, 'truncate': False, 'client_sizes': (), 'task': None})
    {'alpha': 0.0}
    >>> given({'bright': False}, {'bright': Option('bright', True, bool)})
    {'bright': False}
    """
    on = {name for name, option in declared.items() if option.kind in (bool, Any) and option.default is not False}
    return {
        name: value for name, value in options.items() if not _is_blank(value) and (value is not False or name in on)
    }


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, tuple | list) and not value)


def refuse_unread(options: Mapping[str, Any], reads: Iterable[str], where: str) -> None:
    """An option that nobody reads is a mistake; ``where`` names what does not read it."""
    reads = tuple(reads)
    for option, value in options.items():
        if option not in reads:
            known = ', '.join(f'`{name}`' for name in reads) or 'none'
            raise UserError(f'`{option}`={value} does not apply to {where}, which reads {known}')


def merged(options: Iterable[Mapping[str, Option]]) -> dict[str, Option]:
    """The options of several factories together.

    Where an option has different defaults its default is None: the factory decides. The same goes for its choices, its
    range and its kind.
    """
    union: dict[str, Option] = {}
    for name, option in (item for each in options for item in each.items()):
        known = union.setdefault(name, option)
        differs = {
            field: blank for field, blank in UNDECIDED.items() if getattr(option, field) != getattr(known, field)
        }
        union[name] = known._replace(**differs)
    return union
