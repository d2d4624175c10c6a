"""A file to which lines are appended, and which knows how long it is and what it holds.

The seal of a journal, its length and checksum, is kept in every checkpoint. It tells whether the file still begins with
what was written before the checkpoint.
"""

from __future__ import annotations

import pathlib
import zlib

from fedjax_fair.foreign import check_plain
from fedjax_fair.publishing import CannotWrite, publish, to_disk

Seal = dict[str, int]  # as JSON holds it


class Journal:
    """An append-only file; one that is not ``written`` here only counts what another process writes there."""

    def __init__(self, path: pathlib.Path, content: bytes = b'', written: bool = True):
        """Begin with ``content``; a file that holds anything else or more is replaced."""
        self.path, self._length, self._checksum, self._written = path, len(content), zlib.crc32(content), written
        if written and _read(path) != content:
            publish(path, content)

    def append(self, text: bytes) -> None:
        """Add to the end; a file that somebody else has changed is refused."""
        if self._written:
            self._write(text)
        self._length, self._checksum = self._length + len(text), zlib.crc32(text, self._checksum)

    def _write(self, text: bytes) -> None:
        try:
            with self.path.open('r+b') as file:
                if file.seek(0, 2) != self._length:
                    raise OSError('another program has changed it while the run went on')
                file.write(text)
        except OSError as error:
            raise CannotWrite(self.path, error) from None

    def seal(self) -> Seal:
        """Length and checksum of all that was written; a checkpoint that holds them must not be older than the file."""
        try:
            if self._written:
                to_disk(self.path)
        except OSError as error:
            raise CannotWrite(self.path, error) from None
        return {'bytes': self._length, 'checksum': self._checksum}


def sealed_content(path: pathlib.Path, seal: Seal) -> tuple[bytes, bytes] | None:
    """What a file held when it was sealed, and what follows; None where it is lost or changed."""
    content = _read(path) or b''
    sealed, later = content[: seal['bytes']], content[seal['bytes'] :]
    return (sealed, later) if {'bytes': len(sealed), 'checksum': zlib.crc32(sealed)} == seal else None


def _read(path: pathlib.Path) -> bytes | None:
    check_plain(path)
    try:
        return path.read_bytes()
    except OSError:
        return None
