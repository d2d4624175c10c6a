"""Several sources as the domains of one federation: ``domains:NAME=KIND:PATH,NAME=KIND:PATH``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedjax_fair.data.sources.found import Arrays


def read_domains(argument: str, read: Callable[[str, str], Arrays]) -> Arrays:
    """One domain for every ``NAME=KIND:PATH``; ``read(kind, path)`` reads it.

    Classes must have the same names everywhere, or no names at all.
    """
    parts, names = [], []
    pieces = [piece.strip() for piece in argument.split(',') if piece.strip()]
    for piece in pieces:
        name, equals, spec = (word.strip() for word in piece.partition('='))
        kind, colon, path = spec.partition(':')
        if not all((name, equals, kind, colon, path)):
            raise ValueError(f'--scenario=domains:{argument}: {piece!r} is not written NAME=KIND:PATH')
        found = read(kind, path)
        if any(part.site is not None for part in found.parts):
            raise ValueError(f'--scenario=domains:{argument}: {spec} has sites of its own; give it alone')
        parts += [part._replace(site=np.full(len(part.labels), name)) for part in found.parts]
        names += [found.class_names] * bool(found.class_names)
    if len({piece.partition('=')[0].strip() for piece in pieces}) < len(pieces) or not pieces:
        raise ValueError(f'--scenario=domains:{argument} must name one or more domains, each once')
    if len(set(names)) > 1:
        raise ValueError(f'--scenario=domains:{argument}: domains name their classes differently: {sorted(set(names))}')
    return Arrays(parts, names[0] if names else ())
