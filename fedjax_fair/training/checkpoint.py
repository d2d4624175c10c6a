"""Checkpoints with Orbax: atomic, asynchronous, the newest few kept. Orbax is imported with the first of them."""

from __future__ import annotations

import copy
import functools
import pathlib
from typing import Any

import jax

from fedjax_fair.core.types import FedState

FOLDER = 'checkpoints'


class Checkpoints:
    """Saves and restores all that changes during a run: the states of every lane, and the runner's own tallies.

    Seeds, sampler position and optimisers need nothing else: keys derive from the seed and the round in the state.
    """

    def __init__(self, run_dir: pathlib.Path, keep: int = 2):
        self._folder, self._keep = (run_dir / FOLDER).absolute(), keep

    @functools.cached_property
    def _manager(self) -> Any:
        import orbax.checkpoint as ocp

        options = ocp.CheckpointManagerOptions(max_to_keep=self._keep, create=True)
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
        now = copy.deepcopy(tallies)  # written later, while the run counts on
        args = ocp.args.Composite(state=ocp.args.StandardSave(states._asdict()), tallies=ocp.args.JsonSave(now))
        self._manager.save(round, args=args)

    def restore(self, like: FedState) -> tuple[FedState, dict[str, Any]]:
        """The newest checkpoint, placed on devices as ``like`` is."""
        import orbax.checkpoint as ocp

        shapes = jax.tree.map(ocp.utils.to_shape_dtype_struct, like._asdict())
        args = ocp.args.Composite(state=ocp.args.StandardRestore(shapes), tallies=ocp.args.JsonRestore())
        found = self._manager.restore(self.latest, args=args)
        return FedState(**found['state']), found['tallies']

    def wait(self) -> None:
        """Wait for what is still being written."""
        if '_manager' in vars(self):
            self._manager.wait_until_finished()

    def close(self) -> None:
        """Wait, and give back what saving needs."""
        self.wait()
        if '_manager' in vars(self):
            self._manager.close()
