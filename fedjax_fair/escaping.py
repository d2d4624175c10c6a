"""Texts that others wrote, such as names of sites, classes, recipes and files, as each kind of output may hold them.

There is one function per format of a table: terminal (:func:`visible`), HTML, Markdown, LaTeX and CSV. Whoever writes a
table uses these and nothing else.
"""

from __future__ import annotations

import html
import re
from typing import Any

# Control characters, ends of lines and paragraphs, marks that turn the direction of writing, halves of characters.
_UNSEEN = re.compile('[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]')
_BYTES = range(0xDC80, 0xDD00)  # what Python makes of bytes in file names that are not UTF-8
_LINK = re.compile(r'\](?=[(\[:])')  # the end of a link's text: its target follows, or the definition of one
_TEX = {
    '\\': r'\textbackslash{}', '~': r'\textasciitilde{}', '^': r'\textasciicircum{}', '<': r'\textless{}',
    '>': r'\textgreater{}', '|': r'\textbar{}', '"': r'\textquotedbl{}', '–': '--', '±': r'$\pm$', '•': r'$\bullet$',
    '↑': r'$\uparrow$', '↓': r'$\downarrow$', '[': '{[}', '*': '{*}',  # \\ reads a bracket or star of the next row
    **{char: f'\\{char}' for char in '&%$#_{}'},
}  # fmt: skip
_FORMULA = tuple('=+-@＝＋－＠')  # spreadsheets compute a cell that begins with one of these


def visible(text: str) -> str:
    r"""A text in one line without characters that a terminal obeys: these are written as escapes.

    Bytes that are not UTF-8 are written as bytes, so that the result can be written to any file.

    >>> print(visible('north\x1b[2J\nsouth \udcff'))
    north\x1b[2J\nsouth \xff
    """
    return _UNSEEN.sub(_written, text)


def _written(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f'\\x{number - 0xDC00:02x}' if number in _BYTES else found[0].encode('unicode_escape').decode()


def all_visible(value: Any) -> Any:
    """What a JSON file holds with every text in it, names of fields too, made :func:`visible`.

    >>> all_visible({'groups': ['a', 'b\\a'], 'rounds': 3})
    {'groups': ['a', 'b\\\\x07'], 'rounds': 3}
    """
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [all_visible(one) for one in value]
    if isinstance(value, dict):
        return {visible(name): all_visible(one) for name, one in value.items()}
    return value


def as_html(text: str) -> str:
    """A text as it may stand in a page, and in an attribute in quotes."""
    return html.escape(visible(text))


def as_markdown(text: str) -> str:
    r"""A text as it may stand in Markdown, in a cell of a table too: no tags, no links, no emphasis by stars.

    >>> print(as_markdown('[x](javascript:f) <img> a|b [1, 2]'))
    [x\](javascript:f) &lt;img> a\|b [1, 2]
    """
    plain = visible(text).replace('\\', '\\\\').replace('&', '&amp;').replace('<', '&lt;')
    for char in '|`*':
        plain = plain.replace(char, f'\\{char}')
    return _LINK.sub(r'\\]', plain)


def as_latex(text: str) -> str:
    r"""A text with everything escaped that LaTeX would read as a command.

    >>> print(as_latex('fedprox+server_adam & 5 %'))
    fedprox+server\_adam \& 5 \%
    """
    return ''.join(_TEX.get(char, char) for char in visible(text))


def as_csv(text: str) -> str:
    """A text as a cell of a table for spreadsheets: what would be computed as a formula stays text, behind a quote.

    Quotes around cells are left to the module csv. Numbers are no texts: -0.3 must not come here.

    >>> as_csv('=cmd|calc!A1'), as_csv('fedavg')
    ("'=cmd|calc!A1", 'fedavg')
    """
    plain = visible(text)
    return f"'{plain}" if plain.lstrip().startswith(_FORMULA) else plain
