"""Checkpoints with Orbax: atomic, asynchronous, the newest few kept."""

from __future__ import annotations

import pathlib
from typing import Any

import jax
import orbax.checkpoint as ocp

from fedjax_fair.core.types import FedState

FOLDER = 'checkpoints'


class Checkpoints:
    """Saves and restores all that changes during a run: the states of every lane, and the runner's own tallies.

    Seeds, sampler position and optimisers need nothing else: keys derive from the seed and the round in the state.
    """

    def __init__(self, run_dir: pathlib.Path, keep: int = 2):
        options = ocp.CheckpointManagerOptions(max_to_keep=keep, create=True)
        self._manager = ocp.CheckpointManager((run_dir / FOLDER).absolute(), options=options)

    @property
    def latest(self) -> int | None:
        """The round of the newest checkpoint."""
        return self._manager.latest_step()

    def save(self, round: int, states: FedState, tallies: dict[str, Any]) -> None:
        """Start saving; the states may be donated as soon as this returns."""
        if self._manager.latest_step() == round:
            return
        args = ocp.args.Composite(state=ocp.args.StandardSave(states._asdict()), tallies=ocp.args.JsonSave(tallies))
        self._manager.save(round, args=args)

    def restore(self, like: FedState) -> tuple[FedState, dict[str, Any]]:
        """The newest checkpoint, placed on devices as ``like`` is."""
        shapes = jax.tree.map(ocp.utils.to_shape_dtype_struct, like._asdict())
        args = ocp.args.Composite(state=ocp.args.StandardRestore(shapes), tallies=ocp.args.JsonRestore())
        found = self._manager.restore(self.latest, args=args)
        return FedState(**found['state']), found['tallies']

    def close(self) -> None:
        """Wait for what is still being written."""
        self._manager.wait_until_finished()
        self._manager.close()
