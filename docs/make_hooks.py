"""Writes docs/hooks.md from the Protocols of the hooks and the stages: ``python docs/make_hooks.py``."""

from __future__ import annotations

import inspect
import pathlib
import re
import typing

from fedjax_fair.core import hooks
from fedjax_fair.core.idle import Setting
from fedjax_fair.core.method import Context, Method, Stage, View

OUT = pathlib.Path(__file__).with_name('hooks.md')
FIRST, CLIENT = (
    ('idle', 'init'),
    ('download', 'probe', 'start', 'transform', 'loss', 'grad', 'observe', 'report', 'upload', 'deploy'),
)


def page() -> str:
    """The whole page."""
    parts = ['# Hooks', '', INTRODUCTION]
    names = [name for name in Method._fields if _protocol(name) is not None]
    rest = [name for name in names if name not in (*FIRST, *CLIENT)]
    sides = {'Before the first round': FIRST, 'Client': CLIENT, 'Server': rest}
    for title, chosen in sides.items():
        parts += [
            '',
            f'## {title}',
            '',
            '| hook | arguments | returns | when it runs and what it means |',
            '|---|---|---|---|',
        ]
        parts += [_row(name) for name in names if name in chosen]
    parts += [
        '',
        '## Stages',
        '',
        STAGES,
        '',
        '| stage | what it decides | also for a personal model |',
        '|---|---|---|',
    ]
    parts += [f'| `{s.name}` | {s.about} | {"yes" if s.every_model else "no"} |' for s in Stage]
    parts += ['', '## Other fields of a method', '', *_fields(Method)]
    parts += ['', '## What wrappers of the loss and the gradient get', '', WRAPPERS]
    read = (
        ('What client hooks read: `Context`', Context),
        ('What server hooks read: `View`', View),
        ('What `idle` reads: `Setting`', Setting),
    )
    for title, kind in read:
        parts += ['', f'## {title}', '', _plain(inspect.getdoc(kind) or ''), '', *_members(kind)]
    return '\n'.join(parts) + '\n'


INTRODUCTION = """A method is a `Method` with a name and some of the hooks below. All hooks are optional. Client hooks
get a `Context` first, server hooks a `View`. `variables`, `before` and `after` are models:
`{'params': ..., 'batch_stats': ...}`. `[C]` is an axis over the clients of the round, some of which may be absent: use
`view.mask`, `view.mean` and `view.shares`.

This page is made from `fedjax_fair/core/hooks.py` by `python docs/make_hooks.py`."""

STAGES = """Hooks run in the order of the stages of their methods, and within a stage by name. So `a+b` and `b+a` are
the same algorithm. A method that declares no stage gets `CORRECTION` if it has `grad`, `TERM` if it has `loss`, else
`WEIGHT`."""


WRAPPERS = """`loss` and `grad` take a function `inner` and return one with the same arguments,
`(ctx, variables, batch)`. A loss function returns `(value, aux)`, a gradient function `((value, aux), gradient)`.
`batch` has `x`, `y` and `mask`, which marks the real examples of a padded batch. `aux` has `losses` (one per example),
`logits`, `features`, `batch_stats` and `notes`. `fedjax_fair.methods.wrappers.plus` makes a `loss` hook of a term.

`updates` on the server are trees of parameters with a leading axis `[C]`; those of absent clients are zero. With
`whole=True` they are all variables. What a client reports are arrays or trees of arrays by name, each finite."""


def _fields(kind: type) -> list[str]:
    """The list in the docstring of a class."""
    text = _plain(inspect.getdoc(kind) or '')
    return text[text.index('- ') :].splitlines()


def _protocol(name: str) -> type | None:
    hint = typing.get_type_hints(Method)[name]
    kinds = [kind for kind in typing.get_args(hint) if getattr(kind, '__module__', '') == hooks.__name__]
    return kinds[0] if kinds else None


def _row(name: str) -> str:
    protocol = _protocol(name)
    assert protocol is not None
    call = inspect.signature(protocol.__call__)  # type: ignore[operator]
    arguments = ', '.join(p for p in call.parameters if p not in ('self', '/'))
    about = ' '.join(_plain(inspect.getdoc(protocol) or '').split())
    returns = str(call.return_annotation).replace('|', '\\|')
    return f'| `{name}` | `({arguments})` | `{returns}` | {about} |'


def _members(kind: type) -> list[str]:
    """One line for every public method or property of its own that has a docstring."""
    lines = []
    for name, member in vars(kind).items():
        function = member.fget if isinstance(member, property) else member
        if name.startswith('_') or not inspect.isfunction(function) or not function.__doc__:
            continue
        words = [p for p in inspect.signature(function).parameters if p != 'self']
        call = '' if isinstance(member, property) else f'({", ".join(words)})'
        lines.append(f'- `{name}{call}`: {_plain(inspect.getdoc(function) or "").splitlines()[0]}')
    return lines


def _plain(text: str) -> str:
    """Markdown instead of reStructuredText."""
    text = re.sub(r':\w+:`~?(?:[\w.]*\.)?(\w+)`', r'`\1`', text)
    return text.replace('``', '`').replace('|', '\\|') if '``' in text else text


if __name__ == '__main__':
    OUT.write_text(page())
    print(f'written: {OUT.name}')
