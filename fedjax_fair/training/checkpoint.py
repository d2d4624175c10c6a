"""Checkpoints with Orbax: atomic, asynchronous, the newest few kept. Orbax is imported with the first of them.

Rows that are kept away from the device may be larger than memory, of which Orbax would take a copy: they are written
as files beside its checkpoint, before it, so that a checkpoint that exists is whole.
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
KEPT = 2  # checkpoints


class Checkpoints:
    """Saves and restores all that changes during a run: the states of every lane, and the runner's own tallies.

    Seeds, sampler position and optimisers need nothing else: keys derive from the seed and the round in the state.
    """

    def __init__(self, run_dir: pathlib.Path):
        self._folder, self._rows = (run_dir / FOLDER).absolute(), run_dir / ROWS

    @functools.cached_property
    def _manager(self) -> Any:
        import orbax.checkpoint as ocp

        options = ocp.CheckpointManagerOptions(max_to_keep=KEPT, create=True)
        return ocp.CheckpointManager(self._folder, options=options)

    @property
    def latest(self) -> int | None:
        """The round of the newest checkpoint."""
        return self._manager.latest_step() if self._folder.exists() else None

    def save(self, round: int, states: FedState, tallies: dict[str, Any]) -> None:
        """Start saving; the states may be donated and the tallies go on as soon as this returns."""
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
        """The newest checkpoint, placed on devices as ``like`` is; rows that are on none there stay in their files."""
        import orbax.checkpoint as ocp

        parts, files = like._asdict(), self._rows / str(self.latest)
        rows = {'clients': _read_rows(files, parts.pop('clients'))} if files.exists() else {}
        shapes = jax.tree.map(ocp.utils.to_shape_dtype_struct, parts)
        args = ocp.args.Composite(state=ocp.args.StandardRestore(shapes), tallies=ocp.args.JsonRestore())
        found = self._manager.restore(self.latest, args=args)
        return FedState(**found['state'], **rows), found['tallies']

    def _forget_rows(self) -> None:
        """Remove the files of checkpoints that are gone, or never came to be."""
        if self._rows.exists():
            self.wait()  # what is still being written is there, too
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
        """Wait for what is still being written."""
        if '_manager' in vars(self):
            self._manager.wait_until_finished()

    def close(self) -> None:
        """Wait, and give back what saving needs."""
        self.wait()
        if '_manager' in vars(self):
            self._manager.close()


def _on_host(rows: PyTree) -> bool:
    return any(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(rows))


def _read_rows(folder: pathlib.Path, like: PyTree) -> PyTree:
    """Rows mapped from their files, or on the device where those of ``like`` are."""
    leaves, structure = jax.tree.flatten(like)

    def read(number: int, leaf: Array | np.ndarray) -> Array | np.ndarray:
        table = np.load(folder / f'{number}.npy', mmap_mode='r', allow_pickle=False)
        return table if isinstance(leaf, np.ndarray) else jax.device_put(table, leaf.sharding)

    return jax.tree.unflatten(structure, map(read, range(len(leaves)), leaves))
