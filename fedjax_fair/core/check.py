"""Build-time checks: a contradictory composition is refused with one line that names the methods in conflict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedjax_fair.core.cohort import OPTIMIZER_ROW
from fedjax_fair.core.local import Local
from fedjax_fair.core.method import Method, Phase, Stage
from fedjax_fair.core.training_set import SERVICES
from fedjax_fair.errors import UserError
from fedjax_fair.options import not_one_of

SINGLE = {
    'reduce': 'combine the updates',
    'serve': 'make the model that is served',
    'server_opt': 'bring an optimiser of the server',
    'phases': 'divide local training into phases',
}  # hooks that only one method of a recipe may have


def in_order(methods: Sequence[Method]) -> tuple[Method, ...]:
    """The methods in the order in which their hooks run, after refusing contradictory compositions.

    They run by stage and, within a stage, by name: the order in which they are listed changes nothing.
    """
    _refuse_doubles(methods)
    _refuse_name_of_engine(methods)
    for hook, what in SINGLE.items():
        owners = [m for m in methods if getattr(m, hook)]
        if len(owners) > 1:
            raise UserError(f'only one method may define {hook}, but {_names(owners)} both {what}{_origins(owners)}')
    _refuse_shared_claims(methods)
    scorers = [m for m in methods if m.score is not None]
    for m in methods:
        if m.reduce is not None and m.ignores_weights and scorers:
            who = f'{m.name} ignores client weights, so {_names(scorers)} would have no effect'
            raise UserError(f'{who}{_origins([m, *scorers])}')
        for name in m.measures:
            if name not in SERVICES:
                raise UserError(f'{m.name} measures {name!r}, which {not_one_of(name, SERVICES)}')
    return tuple(sorted(methods, key=lambda m: (m.place, m.name)))


def _names(methods: Sequence[Method]) -> str:
    return ' and '.join(m.name for m in methods)


def _origins(methods: Sequence[Method]) -> str:
    """The parts of the recipe that brought these methods, where they are called otherwise."""
    origins = [f'{m.name} comes with {m.part}' for m in methods if m.part not in ('', m.name)]
    return f' ({", ".join(origins)})' if origins else ''


def _refuse_doubles(methods: Sequence[Method]) -> None:
    names = [m.name for m in methods]
    for name in names:
        if names.count(name) > 1:
            same = [m for m in methods if m.name == name]
            raise UserError(f'method {name!r} is listed twice in {"+".join(names)}{_origins(same)}')


def _refuse_name_of_engine(methods: Sequence[Method]) -> None:
    for m in methods:
        if m.name == OPTIMIZER_ROW:
            raise UserError(f'a method cannot be called {m.name!r}: the engine keeps its own rows there{_origins([m])}')


def _refuse_shared_claims(methods: Sequence[Method]) -> None:
    """Some decisions have room for one method: its claims, what an example costs, how a batch becomes one number."""
    decided: dict[str, list[Method]] = {}
    for m in methods:
        alone = [m.place.about] if m.loss and m.place in (Stage.EXAMPLE, Stage.BATCH) else []
        for claim in (*m.claims, *alone):
            decided.setdefault(claim, []).append(m)
    for claim, owners in decided.items():
        if len(owners) > 1:
            raise UserError(f'{_names(owners)} both decide {claim}; keep one of them{_origins(owners)}')


def resolved_local(local: Local, methods: Sequence[Method]) -> tuple[Local, dict[str, str]]:
    """The local optimiser with what the methods fix, and who fixed what."""
    fixed_by: dict[str, str] = {}
    for m in methods:
        for key, value in m.local.items():
            if key not in Local._fields:
                raise UserError(f'{m.name} fixes {key!r}, which {not_one_of(key, Local._fields)}')
            if key in fixed_by and getattr(local, key) != value:
                both = f'{getattr(local, key)} and {value}'
                owners = [one for one in methods if one.name in (fixed_by[key], m.name)]
                raise UserError(f'{fixed_by[key]} and {m.name} fix {key} differently: {both}{_origins(owners)}')
            local, fixed_by[key] = local._replace(**{key: value}), m.name
    return local, fixed_by


def resolved_phases(methods: Sequence[Method], local: Local, fixed_by: Mapping[str, str]) -> tuple[Phase, ...]:
    """The phases of local training; one ordinary phase unless a method says otherwise."""
    owner = next((m for m in methods if m.phases), None)
    phases = (Phase('train'),) if owner is None else owner.phases
    if owner is not None and len(phases) > 1 and local.keep_optimizer:
        who = fixed_by.get('keep_optimizer', '`keep_optimizer`=True')
        both = [m for m in methods if m.name in (owner.name, who)]
        what = f'{owner.name} trains in {len(phases)} phases, but {who} keeps one optimiser for all of training'
        raise UserError(f'{what}{_origins(both)}')
    return phases
