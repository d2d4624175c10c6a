"""Build-time checks: a composition that cannot be meant is refused with one line that names the culprit."""

from __future__ import annotations

from collections.abc import Sequence

from fedjax_fair.core.local import Local
from fedjax_fair.core.types import Method, Phase


def checked_methods(methods: Sequence[Method]) -> tuple[Method, ...]:
    """The methods as a tuple, after refusing duplicates, two owners of one step, and weights nobody would read."""
    names = [m.name for m in methods]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f'method {name!r} is listed twice in {"+".join(names)}')
    for hook in ('reduce', 'serve', 'server_opt', 'phases'):
        owners = [m.name for m in methods if getattr(m, hook)]
        if len(owners) > 1:
            raise ValueError(f'only one method may define {hook}, but {" and ".join(owners)} both do')
    scorers = [m.name for m in methods if m.score is not None]
    for m in methods:
        if m.reduce is not None and m.ignores_weights and scorers:
            raise ValueError(f'{m.name} ignores client weights, so {" and ".join(scorers)} would have no effect')
    return tuple(methods)


def resolved_local(local: Local, methods: Sequence[Method]) -> tuple[Local, dict[str, str]]:
    """The local optimiser with what the methods fix, and who fixed what."""
    fixed_by: dict[str, str] = {}
    for m in methods:
        for key, value in m.local.items():
            if key not in Local._fields:
                raise ValueError(f'{m.name} fixes {key!r}, which is not one of {", ".join(Local._fields)}')
            if key in fixed_by and getattr(local, key) != value:
                raise ValueError(
                    f'{fixed_by[key]} and {m.name} fix {key} differently: {getattr(local, key)} and {value}'
                )
            local, fixed_by[key] = local._replace(**{key: value}), m.name
    return local, fixed_by


def resolved_phases(methods: Sequence[Method], local: Local) -> tuple[Phase, ...]:
    """The phases of local training; one ordinary phase unless a method says otherwise."""
    phases = next((m.phases for m in methods if m.phases), (Phase('train'),))
    if len(phases) > 1 and local.keep_optimizer:
        raise ValueError('keep_optimizer=True needs a single training phase')
    return phases
