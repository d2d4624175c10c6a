"""Several sources as the domains of one federation: ``domains:NAME=KIND:PATH,NAME=KIND:PATH``."""

from __future__ import annotations

from collections.abc import Callable

from fedjax_fair.data.parts import at_site
from fedjax_fair.data.sources.found import Arrays, Domains


def read_domains(argument: str) -> Domains:
    """The sources that are named.

    >>> read_domains('hand=idx:mnist,street=svhn:data').sources
    {'hand': ('idx', 'mnist'), 'street': ('svhn', 'data')}
    """
    sources: dict[str, tuple[str, str]] = {}
    pieces = [piece.strip() for piece in argument.split(',') if piece.strip()]
    for piece in pieces:
        name, equals, spec = (word.strip() for word in piece.partition('='))
        kind, colon, path = spec.partition(':')
        if not all((name, equals, kind, colon, path)):
            raise ValueError(f'--scenario=domains:{argument}: {piece!r} is not written NAME=KIND:PATH')
        sources[name] = kind, path
    if len(sources) < len(pieces) or not pieces:
        raise ValueError(f'--scenario=domains:{argument} must name one or more domains, each once')
    return Domains(argument, sources)


def join_domains(domains: Domains, read: Callable[[str, str], Arrays]) -> Arrays:
    """All examples of the domains; ``read(kind, path)`` reads one.

    Classes must have the same names everywhere, or no names at all.
    """
    parts, names = [], []
    where = f'--scenario=domains:{domains.argument}'
    for name, (kind, path) in domains.sources.items():
        found = read(kind, path)
        if any(part.site is not None for part in found.parts):
            raise ValueError(f'{where}: {kind}:{path} has sites of its own; give it alone')
        parts += [at_site(part, name) for part in found.parts]
        names += [found.class_names] * bool(found.class_names)
    if len(set(names)) > 1:
        raise ValueError(f'{where}: domains name their classes differently: {sorted(set(names))}')
    return Arrays(parts, names[0] if names else ())
