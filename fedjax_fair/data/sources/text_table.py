"""Tables in text files: tsv where the name ends in .tsv or .tab, else csv."""

from __future__ import annotations

import csv
import dataclasses
import io
import pathlib
from collections import Counter

from fedjax_fair.errors import DataError
from fedjax_fair.foreign import check_files, check_room

LISTED = 50  # columns that a message names
DELIMITERS = {'.tsv': '\t', '.tab': '\t'}  # any other ending: a comma


@dataclasses.dataclass(frozen=True)
class Table:
    """Columns of text by name; ``where`` begins all error messages about it."""

    where: str
    columns: tuple[str, ...]
    rows: list[list[str]]

    def __getitem__(self, column: str) -> list[str]:
        if column not in self.columns:
            raise DataError(f'{self.where} has no column {column!r}; it has {self.listed}')
        place = self.columns.index(column)
        return [row[place] for row in self.rows]

    @property
    def listed(self) -> str:
        """The names of the first columns, for messages."""
        return ', '.join(self.columns[:LISTED]) + ', ...' * (len(self.columns) > LISTED)

    def __contains__(self, column: object) -> bool:
        return column in self.columns

    def __len__(self) -> int:
        return len(self.rows)


def read_table(path: pathlib.Path, where: str, header: bool = True, root: pathlib.Path | None = None) -> Table:
    """The rows of a text file; ``where`` begins error messages.

    Spaces around values and empty lines do not count. Without a ``header`` columns are named '0', '1', and so on. The
    file must not be a link that leads out of the data folder ``root``, where there is one.
    """
    if root is not None:
        check_files(root, [str(path.relative_to(root))], where)
    where = f'{where}: {path.name}'
    reader = csv.reader(io.StringIO(_text(path, where), newline=''), delimiter=_delimiter(path), strict=True)
    rows: list[list[str]] = []
    try:
        for row in filter(None, reader):
            if rows and len(row) != len(rows[0]):
                raise DataError(f'{where} has {len(row)} values in line {reader.line_num}, not {len(rows[0])}')
            rows.append([value.strip() for value in row])
    except csv.Error as error:
        raise DataError(f'{where} cannot be read at line {reader.line_num}: {error}') from None
    if len(rows) <= header:
        raise DataError(f'{where} is empty; {"a line of column names and " * header}lines of values are expected')
    columns = tuple(rows.pop(0)) if header else tuple(map(str, range(len(rows[0]))))
    named = Counter(filter(None, columns))  # the column of row numbers that some programs write has no name
    if twice := [name for name, times in named.items() if times > 1]:
        raise DataError(f'{where} has two columns named {twice[0]!r}')
    return Table(where, columns, rows)


def _delimiter(path: pathlib.Path) -> str:
    return DELIMITERS.get(path.suffix.lower(), ',')


def _text(path: pathlib.Path, where: str) -> str:
    try:
        check_room(path.stat().st_size, where)
        text = path.read_bytes().decode('utf-8-sig')  # spreadsheets put a mark before the first name
    except OSError as error:
        raise DataError(f'{where} cannot be read: {error.strerror}') from None
    except UnicodeDecodeError:
        raise DataError(f'{where} is not text in UTF-8') from None
    if '\0' in text:
        raise DataError(f'{where} is not a text file')
    return text
