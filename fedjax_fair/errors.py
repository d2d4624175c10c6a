"""Mistakes of users: one line explains them, and the command line shows no traceback."""

from __future__ import annotations

import re

from fedjax_fair.escaping import visible

OPTION = re.compile(r'`([A-Za-z_][\w.]*)`')
WORD = re.compile(r"(?<==)'([^']*)'")  # a word that is given to an option
WORDS = re.compile(r"(?<=is not one of )'[^']*'(?:, '[^']*')*")

LINES = re.compile(r'\s*[\r\n]\s*')  # ends of lines, from names or from what other libraries say


class OneLine(Exception):
    """What a user is told in one line.

    The message writes the names of options in backquotes, so that Python code and the command line can each show them,
    and words given to them, in their own way:

    >>> error = OneLine("`rule`='all' is not one of 'seq', 'frozen'")
    >>> print(error)
    rule='all' is not one of 'seq', 'frozen'
    >>> print(error.with_flags())
    --rule=all is not one of seq, frozen
    """

    def __init__(self, message: str):
        self.message = visible(LINES.sub(' ', message))  # names in it may hold what a terminal obeys
        super().__init__(OPTION.sub(r'\1', self.message))

    def with_flags(self) -> str:
        """The message as the command line shows it: options are flags."""
        bare = WORDS.sub(lambda words: words[0].replace("'", ''), WORD.sub(r'\1', self.message))
        return OPTION.sub(r'--\1', bare)


class UserError(OneLine, ValueError):
    """Something that was asked for cannot be done."""


class DataError(UserError):
    """Data cannot be read: a file is missing or damaged, or does not hold what its kind of source expects."""
