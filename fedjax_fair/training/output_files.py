"""What our commands wrote into a folder: a list of its runs, and a closed list of names of files. No other is deleted.

The list, in a file of its own, is there before anything else is written. Folders of older versions have none: there a
run is recognised by its config.json, and several runs only where the same command would write them again.
"""

from __future__ import annotations

import contextlib
import fnmatch
import pathlib
import re
import shutil
from collections.abc import Iterator, Sequence

from fedjax_fair.core.evaluate import MODEL_KINDS
from fedjax_fair.data import records
from fedjax_fair.errors import UserError
from fedjax_fair.process_marks import MARK
from fedjax_fair.publishing import DRAFT, DRAFTS
from fedjax_fair.results import CONFIG, HISTORY, SUMMARY, SWEEP, TUNING, holds_run, write_json
from fedjax_fair.results.files import read_json
from fedjax_fair.results.prediction_file import file_name
from fedjax_fair.results.report_files import report_files
from fedjax_fair.results.runs import begun_runs
from fedjax_fair.training import checkpoint, file_checksums, prediction_log, profile
from fedjax_fair.training.writer_lock import CLAIM, LOCK, refuse_if_written
from fedjax_fair.viz.overlays import OVERLAYS

LIST = '.fedjax_fair.json'
HERE = '.'  # in a list: the folder itself has the files of a run

_LISTS = (LIST, *(LIST + draft for draft in DRAFTS))
_NO_RESULTS = (*_LISTS, LOCK, CLAIM, 'lost+found')
_NAMES = (CONFIG, HISTORY, SUMMARY, SWEEP, OVERLAYS, *{file_name(kind) for kind in MODEL_KINDS})
DRAFTS_OF_EXAMPLES = (f'.examples.{MARK}', f'.examples.{"[a-z0-9_]" * 8}')  # left by a killed process; the 2nd: older
RUN_FILES = (*_NAMES, *(name + draft for name in _NAMES for draft in DRAFTS), *DRAFTS_OF_EXAMPLES)
_STEP = rf'(\d+|{checkpoint.DAMAGED}\d+(-again)*)'
_BY_ORBAX = (  # files and folders in a checkpoint, at any depth
    r'_CHECKPOINT_METADATA|_METADATA|_sharding|_strings\.json|array_metadatas|checkpoint|commit_success\.txt|d|'
    r'default|descriptor(\.pbtxt)?|manifest\.ocdbt|metadata|ocdbt\.process_\d+|process_\d+|state|tallies|[0-9a-f]{32}'
)
_SUMS = f'{re.escape(file_checksums.NAME)}{DRAFT}?'
_UNFINISHED = r'(\.orbax-checkpoint-tmp(-\d+)?|\.__lock|\.tmp)?'
_EXAMPLES = '|'.join(map(re.escape, (records.DATA, records.LAYOUT)))
RUN_FOLDERS = {  # with the paths of all that lies in them, however deep
    checkpoint.FOLDER: rf'{_STEP}{_UNFINISHED}(/({_BY_ORBAX}|{_SUMS}){_UNFINISHED})*|history-\d+\.jsonl{DRAFT}?',
    checkpoint.ROWS: rf'({_STEP}|unfinished)(/\d+\.npy)?',
    prediction_log.FOLDER: prediction_log.PART,
    profile.FOLDER: r'plugins(/profile(/\d{4}(_\d\d){5}(/[^/]+\.(pb|json\.gz))?)?)?',
    'examples': _EXAMPLES,
    'rows': r'\d+\.npy',
}


def is_result(path: pathlib.Path) -> bool:
    """Whether a folder with this file is not empty."""
    return not _is_one_of(path, _NO_RESULTS)


def _is_one_of(path: pathlib.Path, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(path.name, pattern) for pattern in patterns)


def read_list(folder: pathlib.Path) -> list[str] | None:
    """The runs that a command wrote into a folder, by their paths in it; None where there is no list."""
    if not (folder / LIST).exists():
        return None
    record = read_json(folder / LIST)
    runs = record.get('runs') if isinstance(record, dict) else None
    if not isinstance(runs, list) or not all(isinstance(run, str) and _is_inside(run) for run in runs):
        raise UserError(f'{folder / LIST}: is not a list of runs')
    return runs


def _is_inside(run: str) -> bool:
    path = pathlib.PurePath(run)
    return run == HERE or (bool(path.parts) and not path.is_absolute() and '..' not in path.parts)


def write_list(folder: pathlib.Path, runs: Sequence[str]) -> None:
    """Write down the runs of a folder before they begin."""
    write_json(folder / LIST, {'runs': list(dict.fromkeys(runs))})


def add_to_list(folder: pathlib.Path, runs: Sequence[str]) -> None:
    """Write down more runs; makes the list if there is none."""
    known = read_list(folder)
    if known is None or not set(runs) <= set(known):
        write_list(folder, [*(known or ()), *runs])


def is_resumable(out: pathlib.Path, runs: Sequence[str]) -> bool:
    """Whether a command that writes these ``runs`` began in this folder: a run of the folder itself, or runs below."""
    known = read_list(out)
    if known is not None:
        return not known or (HERE in known) == (HERE in runs)
    if HERE in runs:
        return any(holds_run(out / run) for run in runs)
    below = any(holds_run(path.parent) for pattern in ('*', '*/*') for path in out.glob(f'{pattern}/{CONFIG}'))
    return below or (out / TUNING).is_file()


def check_clear(out: pathlib.Path, runs: Sequence[str]) -> None:
    """Refuse to overwrite what no command of ours wrote; ``runs`` are those that will be written."""
    found, is_old = written_in(out, runs), read_list(out) is None
    tuned = HERE not in runs and (out / TUNING).is_file()
    if is_old and not (any(found.values()) or tuned):
        raise UserError(f'`overwrite`: `out`={out} holds other files and no run ({CONFIG}); name another `out`')
    others = set(begun_runs(out)) - set(found) if is_old and not holds_run(out) else ()
    for other in sorted(others):
        raise UserError(f'`overwrite`: `out`={out} also holds the run {other.relative_to(out)}; name another `out`')
    for folder, is_run in found.items():
        if not folder.resolve().is_relative_to(out.resolve()):
            raise UserError(f'`overwrite`: {folder} leads out of `out`={out}; remove the link, or name another `out`')
        if folder != out:
            refuse_if_written(folder, out)
        for path in _strangers(folder) if is_run else ():
            raise UserError(f'`overwrite`: no run wrote {path}; move it, or name another `out`')
    for path in _run_paths(out) if HERE in runs and not found[out] else ():
        raise UserError(f'`overwrite`: no run wrote {path}; move it, or name another `out`')


def clear(out: pathlib.Path, runs: Sequence[str]) -> None:
    """Delete what our commands wrote; other files, and the folders they are in, stay. See :func:`check_clear`."""
    found = written_in(out, runs)
    if read_list(out) is None and any(found.values()):  # an old folder stays ours if this is interrupted
        add_to_list(out, [path.relative_to(out).as_posix() for path, is_run in found.items() if is_run])
    for folder, is_run in found.items():
        if is_run:
            add_to_list(folder, [HERE])
        for path in _paths(folder, is_run):
            _delete(path)
        if folder != out:
            _leave(folder, out)


def written_in(out: pathlib.Path, runs: Sequence[str] = ()) -> dict[pathlib.Path, bool]:
    """The folders in which our commands wrote, inner ones first, and whether they have the files of a run."""
    known = read_list(out)
    if known is None:
        known = _recognised(out, runs)
    found: dict[pathlib.Path, bool] = {}
    for run in known:
        if run != HERE:
            found |= written_in(out / run)
    return found | {out: HERE in known}


def _recognised(out: pathlib.Path, runs: Sequence[str]) -> list[str]:
    """The list of a folder that has none."""
    if holds_run(out):
        return [HERE]
    below = [path for run in runs if run != HERE for path in begun_runs(out / run)]
    names = [path.relative_to(out).as_posix() for path in below]
    return [*names, HERE] if names and HERE in runs else names


def _paths(folder: pathlib.Path, is_run: bool) -> Iterator[pathlib.Path]:
    """What our commands wrote into one folder."""
    if is_run:
        yield from _run_paths(folder)
    for name in (*report_files(folder), TUNING):
        for ending in ('', *DRAFTS):
            yield from folder.glob(name + ending)


def _run_paths(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    for pattern in RUN_FILES:
        yield from folder.glob(pattern)
    for name in RUN_FOLDERS:
        if (folder / name).exists():
            yield folder / name


def _strangers(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """What lies in the folders of a run and is not the run's; a link is deleted alone, whatever it leads to."""
    places = [(folder / name, pattern) for name, pattern in RUN_FOLDERS.items()]
    drafts = (draft for pattern in DRAFTS_OF_EXAMPLES for draft in folder.glob(pattern))
    places += [(draft, f'examples|(examples/)?({_EXAMPLES})') for draft in drafts]
    for place, pattern in places:
        if place.is_symlink():
            continue
        if place.exists() and not place.is_dir():
            yield place
        for path in sorted(place.rglob('*')):
            if not re.fullmatch(pattern, path.relative_to(place).as_posix()):
                yield path


def _delete(path: pathlib.Path) -> None:
    """A link goes, and what it leads to stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def forget_list(folder: pathlib.Path) -> None:
    """Remove the list of a folder in which nothing of ours is left; one with other files keeps it."""
    left = [path for path in folder.iterdir() if path.name not in (LOCK, CLAIM)]
    for path in left if all(_is_one_of(path, _LISTS) for path in left) else ():
        path.unlink()


def _leave(folder: pathlib.Path, out: pathlib.Path) -> None:
    """Remove an empty folder, and those around it up to ``out``; one with other files keeps its list."""
    with contextlib.suppress(OSError):
        forget_list(folder)
        while folder != out:
            folder.rmdir()
            folder = folder.parent
