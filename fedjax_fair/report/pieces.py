"""Pieces of reports: tables of texts as Markdown and as HTML, and pictures inside a page."""

from __future__ import annotations

import base64
import pathlib
from collections.abc import Sequence

from fedjax_fair.escaping import as_html, as_markdown
from fedjax_fair.viz.inline import width_style

Rows = Sequence[Sequence[str]]
DPI = 160  # of pictures, for screens and slides


def markdown_table(heads: Sequence[str], rows: Rows, left: int = 1) -> str:
    """A table of GitHub Markdown; the first ``left`` columns are words, the others numbers.

    >>> print(markdown_table(['trial', 'score'], [['0', '71.5']]), end='')
    | trial | score |
    | --- | ---: |
    | 0 | 71.5 |
    """
    rule = ['---'] * left + ['---:'] * (len(heads) - left)
    lines = [[as_markdown(text) for text in line] for line in (heads, *rows)]
    return ''.join(f'| {" | ".join(line)} |\n' for line in [lines[0], rule, *lines[1:]])


def html_table(heads: Sequence[str], rows: Rows) -> str:
    """The same table in a page."""
    head = ''.join(f'<th>{as_html(text)}</th>' for text in heads)
    body = ''.join(f'<tr>{"".join(f"<td>{as_html(text)}</td>" for text in row)}</tr>' for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def image(path: pathlib.Path, name: str, caption: str, inches: float | None = None) -> str:
    """A picture that is part of the page; a figure, so many ``inches`` wide, keeps a size that can be read."""
    data = base64.b64encode(path.read_bytes()).decode()
    width = '' if inches is None else f' {width_style(72 * inches)}'
    shown = f'<img alt="{as_html(caption)}"{width} src="data:image/png;base64,{data}">'
    shown = shown if inches is None else f'<div class="plot">{shown}</div>'
    return f'<figure class="{as_html(name)}">{shown}<figcaption>{as_html(caption)}</figcaption></figure>'
