"""Where texts are printed for people: always as they are, whatever names of data and recipes hold."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import TextColumn


def plain_console(**options: Any) -> Console:
    """A console for which ``:ten:`` is no picture and ``[red]`` no colour: both may be parts of names."""
    return Console(highlight=False, markup=False, emoji=False, **options)


def plain_column(template: str) -> TextColumn:
    """A text in a progress display, with the same care."""
    return TextColumn(template, markup=False)
