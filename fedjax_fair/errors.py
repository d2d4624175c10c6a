"""Mistakes of users: one line explains them, and the command line shows no traceback."""

from __future__ import annotations

import ast
import re

from fedjax_fair.escaping import visible

LINES = re.compile(r'\s*[\r\n]\s*')  # ends of lines, from names or from what other libraries say
QUOTED = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?!\w)"""  # as repr writes texts; a mark in it is none of ours
MARKUP = re.compile(
    rf"""
    (?<![^\s(\[]) ` (?P<option> [A-Za-z_][\w.]* ) ` (?![^\s=,;:.?)\]])  # an option stands between words
    (?: (?P<key> (?:=|:\ )[\w.]+ )? = (?P<word> {QUOTED} ) )?          # and a word that is given to it
    | (?<=is\ not\ one\ of\ ) (?P<words> {QUOTED} (?: ,\ {QUOTED} )* )
    | (?<![\w`]) {QUOTED}
    """,
    re.VERBOSE,
)


class OneLine(Exception):
    """What a user is told in one line.

    The message writes the names of options in backquotes, so that Python code and the command line can each show them,
    and words given to them, in their own way. What is in quotes is shown as it is:

    >>> error = OneLine("`rule`='all' is not one of 'seq', 'frozen'; so is recipe '`rule`'")
    >>> print(error)
    rule='all' is not one of 'seq', 'frozen'; so is recipe '`rule`'
    >>> print(error.with_flags())
    --rule=all is not one of seq, frozen; so is recipe '`rule`'
    """

    def __init__(self, message: str):
        self.message = visible(LINES.sub(' ', message))  # names in it may hold what a terminal obeys
        super().__init__(MARKUP.sub(_as_name, self.message))

    def with_flags(self) -> str:
        """The message as the command line shows it: options are flags, and words have no quotes."""
        return MARKUP.sub(_as_flag, self.message)


def shown(value: object) -> str:
    """A text of a user or of a file as a message may hold it: in quotes where it has marks like those of a message.

    >>> print(shown('site.npz'), shown('a `lr` b'))
    site.npz 'a `lr` b'
    """
    text = str(value)
    return repr(text) if re.search('[`\'"]', text) else text


def _as_name(found: re.Match[str]) -> str:
    return found[0].replace('`', '', 2) if found['option'] else found[0]


def _as_flag(found: re.Match[str]) -> str:
    if found['option']:
        word = f'{found["key"] or ""}={_bare(found["word"])}' if found['word'] else ''
        return f'--{found["option"]}{word}'
    return re.sub(QUOTED, lambda word: _bare(word[0]), found[0]) if found['words'] else found[0]


def _bare(quoted: str) -> str:
    """A text without the quotes that ``repr`` has put around it."""
    try:
        return visible(ast.literal_eval(quoted))
    except (SyntaxError, ValueError):  # somebody else wrote the quotes
        return quoted[1:-1]


class UserError(OneLine, ValueError):
    """Something that was asked for cannot be done."""


class DataError(UserError):
    """Data cannot be read: a file is missing or damaged, or does not hold what its kind of source expects."""
