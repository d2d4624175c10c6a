"""Figures inside an HTML page: SVG that takes its colours from the page, so that it reads well in light and dark."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from fedjax_fair.viz import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 'width'  # the variable of the page that holds the width of a figure
# The variables of the page, and the colours that figures have in their place.
VARIABLES = {
    'ink': style.INK, 'soft': style.SOFT, 'faint': style.FAINT, 'line': style.GRID, 'band': style.BAND,
    'box': style.BOX_FACE, 'card': '#ffffff', **{f'c{place}': colour for place, colour in enumerate(style.PALETTE)},
}  # fmt: skip
# Colours of a light and of a dark page; the light ones are those of the figures.
LIGHT = {**VARIABLES, 'page': '#f5f7fa', 'warn': '#fff8ec', 'hover': '#f5f9fc'}
DARK = {
    'ink': '#e6e9ee', 'soft': '#a7b0bb', 'faint': '#77818d', 'line': '#363d46', 'band': '#2b323a', 'box': '#2a3037',
    'card': '#1d2228', 'c0': '#58b2ea', 'c1': '#ff8f45', 'c2': '#35cfa0', 'c3': '#e6a3c9', 'c4': '#9bd5f7',
    'c5': '#ffc356', 'c6': '#b4b4b4', 'page': '#14181c', 'warn': '#3a2f1c', 'hover': '#262d35',
}  # fmt: skip
_OF_COLOUR = {colour.lower(): f'var(--{name})' for name, colour in VARIABLES.items()}


def svg(figure: Figure) -> str:
    """The figure as an SVG element of a page: text stays text, and nothing is loaded from outside.

    The page finds its width in a variable, see :func:`width_style`.
    """
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({'svg.fonttype': 'none', 'svg.hashsalt': 'fedjax_fair'}):
        figure.savefig(out, format='svg', transparent=True, metadata={'Date': None})
    text = out.getvalue()
    text = text[text.index('<svg') :]
    text = re.sub(r'<metadata>.*?</metadata>|<style.*?</style>', '', text, flags=re.DOTALL)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', '', text)
    text = re.sub(r'<svg([^>]*?) height="[^"]*"', r'<svg\1', text, count=1)
    text = re.sub(r'(<svg[^>]*?) width="([\d.]+)pt"', lambda m: f'{m[1]} {width_style(float(m[2]))}', text, count=1)
    return re.sub(r'#[0-9a-f]{6}\b', lambda match: _OF_COLOUR.get(match[0], match[0]), text).strip()


def width_style(points: float) -> str:
    """The attribute that tells the page how wide a figure is.

    >>> width_style(403.2)
    'style="--width:403.2pt"'
    """
    return f'style="--{WIDTH}:{points:g}pt"'
