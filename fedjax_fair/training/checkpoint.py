"""Checkpoints with Orbax: written atomically and in the background; the newest ones stay.

Client rows in host memory or on disk may be too large for the copy that Orbax makes. They are written as files beside
the checkpoint and before it, so that a checkpoint that exists is whole. Every checkpoint holds the checksums of all its
arrays and tallies, and once it is finished those of its files: one that was damaged later is noticed, and the one
before it is used. Orbax is slow to import: only a run that saves or restores imports it.

Where several processes make one run, all of them save and restore together. They share the folder: Orbax writes the
piece of every process, and all else is written by the first.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from fedjax_fair.core.tree import num_bytes
from fedjax_fair.core.types import Array, FedState, PyTree
from fedjax_fair.errors import UserError
from fedjax_fair.publishing import CannotWrite, disk_error
from fedjax_fair.training import checksums, file_checksums
from fedjax_fair.training.orbax_noise import keep_orbax_quiet
from fedjax_fair.training.writer_lock import is_writer

FOLDER, ROWS = 'checkpoints', 'checkpointed_rows'
CHECKPOINTS_KEPT = 2
CHECKSUMS = 'checksums'  # in the tallies of a checkpoint
OLDER_TALLIES = {'seconds', 'compile_seconds', 'sums'}  # of a checkpoint without checksums; it may also hold loads
DAMAGED = 'damaged-'  # begins the name of a checkpoint that is set aside; Orbax ignores such folders
FORMER_NAMES = {'keep_local_models': 'local_models'}  # what older checkpoints call the rows of a method

Found = TypeVar('Found')


def history_copy(run_dir: pathlib.Path, number: int) -> pathlib.Path:
    """Where metrics.jsonl is copied whenever a checkpoint is saved; a grid has one for each of its points."""
    return run_dir / FOLDER / f'history-{number}.jsonl'


class Damaged(UserError):
    """A checkpoint that cannot be read, or does not hold what was saved."""


class OtherArrays(Damaged):
    """A checkpoint with other arrays than the states of this run: other code or settings made it, or it is damaged."""


class Checkpoints:
    """Saves and restores all that changes during a run: the states of every lane, and the tallies of the runner.

    Seeds, sampler position and optimisers need nothing else: keys derive from the seed and the round in the state.
    ``notes`` are what a user must know about the checkpoints that were found.
    """

    def __init__(self, run_dir: pathlib.Path):
        self._folder, self._rows = (run_dir / FOLDER).absolute(), run_dir / ROWS
        self._saved_bytes = 0
        self._unsealed: int | None = None  # the round of a checkpoint whose files have no checksums yet
        self.notes: list[str] = []

    @functools.cached_property
    def _manager(self) -> Any:
        import orbax.checkpoint as ocp

        keep_orbax_quiet()
        options = ocp.CheckpointManagerOptions(max_to_keep=CHECKPOINTS_KEPT, create=True)
        return ocp.CheckpointManager(self._folder, options=options)

    @property
    def latest(self) -> int | None:
        """The round of the newest checkpoint."""
        return self._manager.latest_step() if self._folder.exists() else None

    def saved(self) -> list[int]:
        """The rounds of all checkpoints that are on the disk now."""
        with contextlib.suppress(OSError):
            return sorted(int(path.name) for path in self._folder.iterdir() if path.name.isdecimal())
        return []

    def save(self, round: int, states: FedState, tallies: dict[str, Any]) -> None:
        """Start saving; once this returns, the states may be donated and the tallies may change."""
        import orbax.checkpoint as ocp

        if self.latest == round:
            return
        pieces, now = states._asdict(), copy.deepcopy(tallies)  # written later, while the run counts on
        now[CHECKSUMS] = _checksums(pieces, now)
        self._saved_bytes = num_bytes(states)
        if self._unsealed is not None:
            self.wait()
        with self._writing():
            self._forget_rows()
            if _on_host(states.clients):
                self._write_rows(round, pieces.pop('clients'))  # before Orbax, so that a checkpoint has its rows
            args = ocp.args.Composite(state=ocp.args.StandardSave(pieces), tallies=ocp.args.JsonSave(now))
            self._manager.save(round, args=args)
            self._unsealed = round

    def restore(self, like: FedState) -> tuple[FedState, dict[str, Any]]:
        """The newest whole checkpoint, placed as :meth:`read` does it; damaged ones that are newer are set aside."""
        damaged: dict[int, Damaged] = {}
        while (round := self._newest(damaged)) is not None:
            try:
                found = self.read(round, like)
            except Damaged as error:
                damaged[round] = error
            else:
                self._set_aside(damaged, round)
                return found
        whys = '; '.join(error.message for error in damaged.values())
        raise UserError(f'no checkpoint can be used: {whys}; nothing was deleted; start again with `overwrite`')

    def _newest(self, damaged: Mapping[int, Damaged]) -> int | None:
        """The newest round that is not known as damaged; on a shared disk others may see it later than the first."""
        newest = max(set(self._manager.all_steps()) - damaged.keys(), default=-1)
        if jax.process_count() > 1:
            newest = int(multihost_utils.broadcast_one_to_all(np.int32(newest)))
        return None if newest < 0 else newest

    def read(self, round: int, like: FedState) -> tuple[FedState, dict[str, Any]]:
        """One checkpoint, placed on devices as ``like`` is; rows that ``like`` has on the host stay in files."""
        try:
            pieces, tallies, former = _by_all(lambda: self._read(round, like))
            _by_all(lambda: _check(pieces, tallies))
        except MemoryError:
            raise
        except Exception as error:  # Orbax raises errors of many types
            why = ' '.join(str(error).split())[:120] or type(error).__name__
            kind, what = Damaged, 'is damaged'
            if isinstance(error, OtherArrays):
                kind, what = OtherArrays, 'was made by other code or settings'
            raise kind(f'the checkpoint {self._folder / str(round)} {what} ({why})') from error
        tallies.pop(CHECKSUMS, None)
        return FedState(**_renamed(pieces, {old: new for new, old in former.items()})), tallies

    def _read(self, round: int, like: FedState) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
        """The pieces of the state and the tallies as they were saved, and former names that the pieces have.

        Orbax's manager would wait for all processes, also for one that could not read its piece. Its handlers wait for
        none. They give None, or values of another type, where ``like`` has other arrays: this is looked at before.
        """
        import orbax.checkpoint as ocp
        from etils import epath

        keep_orbax_quiet()
        pieces, files, step = like._asdict(), self._rows / str(round), epath.Path(self._folder / str(round))
        if (name := file_checksums.changed(self._folder / str(round))) is not None:
            raise Damaged(f'{name} is not what was saved')
        with (
            contextlib.closing(ocp.StandardCheckpointHandler()) as arrays,
            contextlib.closing(ocp.JsonCheckpointHandler()) as json,
        ):
            tallies = json.restore(step / 'tallies', args=ocp.args.JsonRestore())
            there = arrays.metadata(step / 'state').tree
            former = _former_names(pieces['clients'], there.get('clients', {}))
            pieces = _renamed(pieces, former)
            wanted = _described(pieces)
            names = tallies.get(CHECKSUMS, wanted).keys() - {'tallies'}
            _check_arrays({name: wanted.get(name, 'an array') for name in names}, wanted)
            rows = {'clients': _read_rows(files, pieces.pop('clients'))} if files.exists() else {}
            _check_arrays(_described({**there, **rows}), wanted)
            shapes = jax.tree.map(ocp.utils.to_shape_dtype_struct, pieces)
            saved = arrays.restore(step / 'state', args=ocp.args.StandardRestore(shapes))
            return saved | rows, tallies, former

    def _set_aside(self, damaged: Mapping[int, Damaged], whole: int) -> None:
        """Keep damaged checkpoints under other names, so that the run may save these rounds again."""
        for round, error in damaged.items():
            if is_writer():
                self._rename(round)
            self.notes.append(f'{error.message}; it is set aside, and the run goes on from round {whole}')
        if damaged:
            _by_all(lambda: None)  # the folders have their new names
            self._manager.reload()

    def _rename(self, round: int) -> None:
        with self._writing():
            for folder in filter(pathlib.Path.exists, (self._folder / str(round), self._rows / str(round))):
                folder.rename(_unused(folder.with_name(f'{DAMAGED}{round}')))

    def _forget_rows(self) -> None:
        """Remove the row files of checkpoints that were deleted or never finished."""
        if is_writer() and self._rows.exists():
            there = {str(round) for round in self._manager.all_steps()}
            for old in self._rows.iterdir():
                if old.name not in there and not old.name.startswith(DAMAGED):
                    shutil.rmtree(old)

    def _write_rows(self, round: int, rows: PyTree) -> None:
        if not is_writer():
            return
        unfinished = self._rows / 'unfinished'
        unfinished.mkdir(parents=True)
        for number, table in enumerate(jax.tree.leaves(rows)):
            np.save(unfinished / f'{number}.npy', table)
        unfinished.rename(self._rows / str(round))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """A disk that is full, read-only or gone is told in one line, also where Orbax's threads found it out."""
        try:
            yield
        except CannotWrite:
            raise
        except Exception as error:
            if (why := disk_error(error, self._folder, self._saved_bytes)) is None:
                raise
            raise CannotWrite(self._folder, why) from None

    def check(self) -> None:
        """Raise the error of a checkpoint that could not be written in the background, if there is one."""
        if '_manager' in vars(self):
            with self._writing():
                self._manager.check_for_errors()
                if not self._manager.is_saving_in_progress():
                    self._seal()

    def wait(self) -> None:
        """Wait until the last checkpoint is written."""
        if '_manager' in vars(self):
            with self._writing():
                self._manager.wait_until_finished()
                self._seal()

    def _seal(self) -> None:
        """Keep the checksums of the files of a checkpoint that all processes have finished."""
        round, self._unsealed = self._unsealed, None
        if round is not None and is_writer() and (self._folder / str(round)).exists():
            file_checksums.seal(self._folder / str(round), [self._rows / str(round)])

    def close(self) -> None:
        """Wait until the last checkpoint is written, then release threads and files."""
        self.wait()
        if '_manager' in vars(self):
            self._manager.close()


def _checksums(pieces: dict[str, Any], tallies: dict[str, Any]) -> dict[str, int]:
    return {**checksums.of_tree(pieces), 'tallies': checksums.of_json(tallies)}


def _check(pieces: dict[str, Any], tallies: dict[str, Any]) -> None:
    """Refuse what was not saved like this; of an older checkpoint nobody can tell."""
    rest = {name: value for name, value in tallies.items() if name != CHECKSUMS}
    if CHECKSUMS not in tallies:
        if not OLDER_TALLIES <= rest.keys() <= OLDER_TALLIES | {'loads'}:
            raise Damaged('its checksums are lost')
    elif (name := checksums.difference(tallies[CHECKSUMS], _checksums(pieces, rest))) is not None:
        raise Damaged(f'{name} is not what was saved')


def _former_names(clients: Mapping[str, Any], saved: Mapping[str, Any]) -> dict[str, str]:
    """The former names that a checkpoint has, by the names of today."""
    return {new: old for new, old in FORMER_NAMES.items() if new in clients and old in saved}


def _described(tree: PyTree) -> dict[str, str]:
    """Type and shape of every array by its path, whatever the containers are."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    named = ((jax.tree_util.keystr(path, simple=True, separator='/'), leaf) for path, leaf in leaves)
    return {name: f'{leaf.dtype}{list(leaf.shape)}' for name, leaf in named}


def _check_arrays(saved: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Refuse a checkpoint with other arrays."""
    if (name := checksums.difference(saved, wanted)) is not None:
        raise OtherArrays(f'{name}: {saved.get(name, "nothing")} there, {wanted.get(name, "nothing")} here')


def _by_all(work: Callable[[], Found]) -> Found:
    """What every process of a run does; if one of them fails, all do, so that none waits for another."""
    if jax.process_count() == 1:
        return work()
    error: Exception | None = None
    try:
        found = work()
    except Exception as failure:
        error = failure
    if multihost_utils.process_allgather(np.asarray(error is None)).all():
        return found
    raise error or Damaged('another process cannot read its piece')


def _unused(path: pathlib.Path) -> pathlib.Path:
    """The path, or one with a number where it is taken."""
    return path if not path.exists() else _unused(path.with_name(f'{path.name}-again'))


def _renamed(pieces: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    if not names:
        return pieces
    return pieces | {'clients': {names.get(name, name): rows for name, rows in pieces['clients'].items()}}


def _on_host(rows: PyTree) -> bool:
    return any(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(rows))


def _read_rows(folder: pathlib.Path, like: PyTree) -> PyTree:
    """Rows mapped from their files, or on the device where those of ``like`` are."""
    leaves, structure = jax.tree.flatten(like)

    def read(number: int, leaf: Array | np.ndarray) -> Array | np.ndarray:
        table = np.load(folder / f'{number}.npy', mmap_mode='r', allow_pickle=False)
        return table if isinstance(leaf, np.ndarray) else jax.device_put(table, leaf.sharding)

    return jax.tree.unflatten(structure, map(read, range(len(leaves)), leaves))
