"""Several sources as the domains of one federation: ``domains:NAME=KIND:PATH,NAME=KIND:PATH``."""

from __future__ import annotations

from collections.abc import Callable

from fedjax_fair.data.blocks import at_site
from fedjax_fair.data.sources.contents import Arrays, Domains
from fedjax_fair.errors import DataError
from fedjax_fair.registry import register


@register.source('domains', argument='NAME=KIND:PATH[,...]', about='several sources, each a domain')
def read_domains(argument: str) -> Domains:
    """The sources that the argument names.

    >>> read_domains('hand=idx:mnist,street=svhn:data').sources
    {'hand': ('idx', 'mnist'), 'street': ('svhn', 'data')}
    """
    sources: dict[str, tuple[str, str]] = {}
    pieces = [piece.strip() for piece in argument.split(',') if piece.strip()]
    for piece in pieces:
        name, equals, spec = (word.strip() for word in piece.partition('='))
        kind, colon, path = spec.partition(':')
        if not all((name, equals, kind, colon, path)):
            raise DataError(f'`scenario`=domains:{argument}: {piece!r} is not written NAME=KIND:PATH')
        sources[name] = kind, path
    if len(sources) < len(pieces) or not pieces:
        raise DataError(f'`scenario`=domains:{argument} must name one or more domains, each once')
    return Domains(argument, sources)


def join_domains(domains: Domains, read: Callable[[str, str], Arrays]) -> Arrays:
    """All examples of the domains; ``read(kind, path)`` reads one.

    Classes must have the same names everywhere, or no names at all.
    """
    blocks, names = [], []
    where = f'`scenario`=domains:{domains.argument}'
    for name, (kind, path) in domains.sources.items():
        arrays = read(kind, path)
        if any(block.site is not None for block in arrays.blocks):
            raise DataError(f'{where}: {kind}:{path} has sites of its own; give it alone')
        blocks += [at_site(block, name) for block in arrays.blocks]
        names += [arrays.class_names] * bool(arrays.class_names)
    if len(set(names)) > 1:
        raise DataError(f'{where}: domains name their classes differently: {sorted(set(names))}')
    return Arrays(blocks, names[0] if names else ())
