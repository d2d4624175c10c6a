"""Checksums of the files of a finished checkpoint: a flipped bit is noticed also where restoring would not see it.

Arrays and tallies have checksums of their own (:mod:`~fedjax_fair.training.checksums`). Marks, metadata and indices
that a restore happens not to need have none, and so every small file is checked as well. Files of more than
:data:`SMALL` bytes hold the numbers of arrays: of them the size is kept, because a CRC-32 of all bytes takes up to
8 % of a save.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import zlib
from collections.abc import Sequence

from fedjax_fair.publishing import publish

NAME = 'file_checksums.json'  # in the folder of a checkpoint
SMALL = 1 << 20

Sums = dict[str, list[int]]  # by path: the size of a file, and the checksum of a small one


def seal(folder: pathlib.Path, others: Sequence[pathlib.Path] = ()) -> None:
    """Write down the files of a checkpoint, and of ``others``, folders beside it; none may change from now on."""
    paths = [path for root in (folder, *others) for path in sorted(root.rglob('*'))]
    files = [path for path in paths if path.is_file() and path.name != NAME]
    publish(folder / NAME, _written({path.relative_to(_base(folder)).as_posix(): _sum(path) for path in files}))


def changed(folder: pathlib.Path) -> str | None:
    """The first file that was lost or changed since :func:`seal`; None where all are whole.

    Nobody can tell of a checkpoint of an older version, or of a run that was killed before it was sealed.
    """
    if not (folder / NAME).exists():
        return None
    if not (folder / NAME).is_file():
        return NAME
    content, sums = (folder / NAME).read_bytes(), {}
    with contextlib.suppress(ValueError, TypeError, KeyError):
        sums = json.loads(content)['files']
    if not sums or _written(sums) != content:
        return NAME
    places = {name: _base(folder) / name for name in sums}
    return next((name for name, path in places.items() if not path.is_file() or _sum(path) != sums[name]), None)


def _base(folder: pathlib.Path) -> pathlib.Path:
    """The folder of the run."""
    return folder.parent.parent


def _sum(path: pathlib.Path) -> list[int]:
    size = path.stat().st_size
    return [size, zlib.crc32(path.read_bytes())] if size <= SMALL else [size]


def _written(sums: Sums) -> bytes:
    """The whole file, of which every byte counts: it has a checksum of its own, and one way only to be written."""
    return json.dumps({'files': sums, 'checksum': zlib.crc32(json.dumps(sums).encode())}).encode()
