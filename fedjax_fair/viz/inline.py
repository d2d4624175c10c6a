"""Figures inside an HTML page: SVG that takes its colours from the page, so that it reads well in light and dark."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from fedjax_fair.viz import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The variables of the page, and the colours that figures have in their place.
VARIABLES = {
    'ink': style.INK, 'soft': style.SOFT, 'faint': style.FAINT, 'line': style.GRID, 'band': style.BAND,
    'box': style.BOX_FACE, 'card': '#ffffff', **{f'c{place}': colour for place, colour in enumerate(style.PALETTE)},
}  # fmt: skip
_OF_COLOUR = {colour.lower(): f'var(--{name})' for name, colour in VARIABLES.items()}


def svg(figure: Figure) -> str:
    """The figure as an SVG element of a page: text stays text, and nothing is loaded from outside."""
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({'svg.fonttype': 'none', 'svg.hashsalt': 'fedjax_fair'}):
        figure.savefig(out, format='svg', transparent=True, metadata={'Date': None})
    text = out.getvalue()
    text = text[text.index('<svg') :]
    text = re.sub(r'<metadata>.*?</metadata>|<style.*?</style>', '', text, flags=re.DOTALL)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', '', text)
    text = re.sub(r'<svg([^>]*?) height="[^"]*"', r'<svg\1', text, count=1)
    text = re.sub(r'(<svg[^>]*?) width="([\d.]+)pt"', r'\1 style="width:\2pt"', text, count=1)
    return re.sub(r'#[0-9a-f]{6}\b', lambda match: _OF_COLOUR.get(match[0], match[0]), text).strip()
