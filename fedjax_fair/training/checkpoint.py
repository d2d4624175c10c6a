"""Checkpoints with Orbax: written atomically and in the background; the newest ones stay.

Client rows in host memory or on disk may be too large for the copy that Orbax makes. They are written as files beside
the checkpoint and before it, so that a checkpoint that exists is whole. Orbax is slow to import: only a run that saves
or restores imports it.
"""

from __future__ import annotations

import copy
import functools
import pathlib
import shutil
from typing import Any

import jax
import numpy as np

from fedjax_fair.core.types import Array, FedState, PyTree

FOLDER, ROWS = 'checkpoints', 'checkpointed_rows'
CHECKPOINTS_KEPT = 2
FORMER_NAMES = {'keep_local_models': 'local_models'}  # what older checkpoints call the rows of a method


class Checkpoints:
    """Saves and restores all that changes during a run: the states of every lane, and the tallies of the runner.

    Seeds, sampler position and optimisers need nothing else: keys derive from the seed and the round in the state.
    """

    def __init__(self, run_dir: pathlib.Path):
        self._folder, self._rows = (run_dir / FOLDER).absolute(), run_dir / ROWS

    @functools.cached_property
    def _manager(self) -> Any:
        import orbax.checkpoint as ocp

        options = ocp.CheckpointManagerOptions(max_to_keep=CHECKPOINTS_KEPT, create=True)
        return ocp.CheckpointManager(self._folder, options=options)

    @property
    def latest(self) -> int | None:
        """The round of the newest checkpoint."""
        return self._manager.latest_step() if self._folder.exists() else None

    def save(self, round: int, states: FedState, tallies: dict[str, Any]) -> None:
        """Start saving; once this returns, the states may be donated and the tallies may change."""
        import orbax.checkpoint as ocp

        if self.latest == round:
            return
        parts, now = states._asdict(), copy.deepcopy(tallies)  # written later, while the run counts on
        self._forget_rows()
        if _on_host(states.clients):
            self._write_rows(round, parts.pop('clients'))
        args = ocp.args.Composite(state=ocp.args.StandardSave(parts), tallies=ocp.args.JsonSave(now))
        self._manager.save(round, args=args)

    def restore(self, like: FedState) -> tuple[FedState, dict[str, Any]]:
        """The newest checkpoint, placed on devices as ``like`` is; rows that ``like`` has on the host stay in files."""
        import orbax.checkpoint as ocp

        parts, files = like._asdict(), self._rows / str(self.latest)
        rows = {'clients': _read_rows(files, parts.pop('clients'))} if files.exists() else {}
        former = self._former_names(parts.get('clients', {}))
        shapes = jax.tree.map(ocp.utils.to_shape_dtype_struct, _renamed(parts, former))
        args = ocp.args.Composite(state=ocp.args.StandardRestore(shapes), tallies=ocp.args.JsonRestore())
        saved = self._manager.restore(self.latest, args=args)
        parts = _renamed(saved['state'], {old: new for new, old in former.items()})
        return FedState(**parts, **rows), saved['tallies']

    def _former_names(self, clients: dict[str, Any]) -> dict[str, str]:
        """The former names that the newest checkpoint has, by the names of today."""
        import orbax.checkpoint as ocp

        if FORMER_NAMES.keys().isdisjoint(clients):
            return {}
        with ocp.StandardCheckpointer() as reader:
            saved = reader.metadata(self._folder / str(self.latest) / 'state').item_metadata['clients']
        return {new: old for new, old in FORMER_NAMES.items() if new in clients and old in saved}

    def _forget_rows(self) -> None:
        """Remove the row files of checkpoints that were deleted or never finished."""
        if self._rows.exists():
            self.wait()  # a checkpoint that is still being written needs its rows
            there = {str(round) for round in self._manager.all_steps()}
            for old in self._rows.iterdir():
                if old.name not in there:
                    shutil.rmtree(old)

    def _write_rows(self, round: int, rows: PyTree) -> None:
        unfinished = self._rows / 'unfinished'
        unfinished.mkdir(parents=True)
        for number, table in enumerate(jax.tree.leaves(rows)):
            np.save(unfinished / f'{number}.npy', table)
        unfinished.rename(self._rows / str(round))

    def wait(self) -> None:
        """Wait until the last checkpoint is written."""
        if '_manager' in vars(self):
            self._manager.wait_until_finished()

    def close(self) -> None:
        """Wait until the last checkpoint is written, then release threads and files."""
        self.wait()
        if '_manager' in vars(self):
            self._manager.close()


def _renamed(parts: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    if not names:
        return parts
    return parts | {'clients': {names.get(name, name): rows for name, rows in parts['clients'].items()}}


def _on_host(rows: PyTree) -> bool:
    return any(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(rows))


def _read_rows(folder: pathlib.Path, like: PyTree) -> PyTree:
    """Rows mapped from their files, or on the device where those of ``like`` are."""
    leaves, structure = jax.tree.flatten(like)

    def read(number: int, leaf: Array | np.ndarray) -> Array | np.ndarray:
        table = np.load(folder / f'{number}.npy', mmap_mode='r', allow_pickle=False)
        return table if isinstance(leaf, np.ndarray) else jax.device_put(table, leaf.sharding)

    return jax.tree.unflatten(structure, map(read, range(len(leaves)), leaves))
