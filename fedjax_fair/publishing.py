"""Files of results: a reader sees a whole file or none, and a folder that cannot be written is told in one line."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import pathlib
import re
import shutil
from collections.abc import Iterator

from fedjax_fair.errors import UserError
from fedjax_fair.process_marks import MARK, is_dead, new_mark
from fedjax_fair.sizes import in_words

UNFINISHED = '.tmp'  # ends the name of a file that is being written
DRAFTS = (UNFINISHED, f'.{MARK}{UNFINISHED}')  # patterns of endings; older versions had the first
DRAFT = '(' + '|'.join(ending.replace('.', r'\.') for ending in DRAFTS) + ')'  # the same as a regular expression
OPEN_FILES = ('/dev', '/dev/fd', '/proc/self/fd')  # folders whose files are not replaced, such as /dev/stdout
VANISHED = 'NOT_FOUND'  # TensorStore's word for a file that was taken away while it wrote beside it
OF_LIBRARIES = (ValueError, RuntimeError)  # what TensorStore and the threads of Orbax raise, whatever has failed
OS_ERROR = re.compile(r"os_error_code='(\d+)'")  # as TensorStore names what the system has refused
OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.ENOENT, errno.EACCES, errno.EPERM)


class CannotWrite(UserError):
    """A folder of results is full, read-only or gone; ``reason`` says which."""

    def __init__(self, path: str | os.PathLike, error: OSError, more: str = ''):
        self.path, self.reason = pathlib.Path(path), reason(error, path)
        super().__init__(f'{self.path} cannot be written: {self.reason}{more}')


def reason(error: OSError, path: str | os.PathLike) -> str:
    """Why a file could not be written, and how much room there is where there is none left."""
    why = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT) and (free := free_bytes(path)) is not None:
        return f'{why} ({in_words(free)} are free)'
    if error.errno == errno.EEXIST and (link := _link_to_nothing(path)) is not None:
        return f'{link} is a link to {os.readlink(link)}, which does not exist'
    return why


def _link_to_nothing(path: str | os.PathLike) -> pathlib.Path | None:
    """The part of a path that cannot be made a folder."""
    places = (pathlib.Path(path), *pathlib.Path(path).parents)
    return next((place for place in places if place.is_symlink() and not place.exists()), None)


def free_bytes(path: str | os.PathLike) -> int | None:
    """How much may be written at a path that exists already or not; None where nobody knows."""
    there = pathlib.Path(path).absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        return shutil.disk_usage(there).free
    except OSError:
        return None


@contextlib.contextmanager
def published(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """A name under which a file may be written, of this writer alone; the file gets its own name once it is whole.

    What was there before stays until then. A link is replaced: one in a folder of somebody else leads nowhere. A path
    that is no regular file, and one such as ``/dev/stdout``, is written as it is. What killed processes left of the
    same file goes.
    """
    path = pathlib.Path(path)
    ordinary = _may_be_replaced(path)
    draft = path.with_name(f'{path.name}.{new_mark()}{UNFINISHED}') if ordinary else path
    try:
        yield draft
        if ordinary:
            to_disk(draft)
            draft.replace(path)
            _remove_dead_drafts(path)
    except BaseException as error:
        if ordinary:
            with contextlib.suppress(OSError):
                draft.unlink()
        if isinstance(error, OSError):
            raise CannotWrite(path, error) from None
        raise


def _remove_dead_drafts(path: pathlib.Path) -> None:
    for draft in path.parent.glob(f'{glob.escape(path.name)}.{MARK}{UNFINISHED}'):
        if is_dead(draft, draft.name.removesuffix(UNFINISHED).rpartition('.')[2]):
            with contextlib.suppress(OSError):
                draft.unlink()


def _may_be_replaced(path: pathlib.Path) -> bool:
    return (path.is_file() or not path.exists()) and str(path.parent) not in OPEN_FILES


def behind_links(path: str | os.PathLike) -> pathlib.Path:
    """The file that a path named by the user leads to, which is written instead of the link."""
    path = pathlib.Path(path)
    return pathlib.Path(os.path.realpath(path)) if _may_be_replaced(path) else path


def publish(path: str | os.PathLike, text: str | bytes | memoryview) -> None:
    """Write a file in one piece."""
    with published(path) as draft:
        draft.write_bytes(text.encode() if isinstance(text, str) else text)


def refuse_root(folder: str | os.PathLike, out: str | os.PathLike) -> None:
    """Files in the root of the file system are an accident; ``out`` is what the user wrote."""
    real = os.path.realpath(folder)
    if real == os.path.dirname(real):
        raise UserError(f'`out`={os.fspath(out)}: nothing is written into the root of the file system; name a folder')


def make_folder(path: str | os.PathLike) -> pathlib.Path:
    """Make a folder of results with its parents, if need be."""
    try:
        pathlib.Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(path, error) from None
    return pathlib.Path(path)


def to_disk(path: pathlib.Path) -> None:
    """Wait until a file is on its disk: after a power failure it could have a name and no content."""
    with path.open('rb') as file:
        os.fsync(file.fileno())


def disk_error(error: Exception, folder: str | os.PathLike, needed: int = 0) -> OSError | None:
    """The error of a disk that is full, read-only or gone behind an error of a library; None where it is no such thing.

    Libraries in other languages name it in their message, or not at all. Any other type of error is a bug.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error
    numbers = [int(number) for number in OS_ERROR.findall(str(error))]
    for number in (*numbers, *(number for number in OF_DISKS if os.strerror(number) in str(error))):
        return OSError(number, os.strerror(number))
    if type(error) not in (OSError, *OF_LIBRARIES):
        return None
    if VANISHED in str(error) or not pathlib.Path(folder).exists():
        return OSError(errno.ENOENT, 'the folder is gone')
    free = free_bytes(folder)
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if free is not None and free < needed else None
