"""A finished run, ready to be looked into."""

from __future__ import annotations

import os
import pathlib

from fedjax_fair import results
from fedjax_fair.core.types import FedState
from fedjax_fair.errors import UserError
from fedjax_fair.training.checkpoint import Checkpoints
from fedjax_fair.training.config import Config
from fedjax_fair.training.setup import Experiment, prepare


def finished(folder: str | os.PathLike) -> tuple[Experiment, FedState]:
    """The experiment of a run directory and its last states, ``[lanes, ...]``: one lane for every seed.

    ``experiment.algorithm`` then evaluates, predicts and measures with them. The plug-ins of the run are loaded again.
    """
    path = pathlib.Path(folder)
    if not (path / results.CONFIG).exists():
        raise UserError(f'{path} holds no run (no {results.CONFIG})')
    config, store = Config.of_run(path), Checkpoints(path)
    if store.latest != config.rounds:
        raise UserError(f'{path} holds no checkpoint of its last round; run it with `checkpoint_every` above 0')
    experiment = prepare(config)
    states, _ = store.restore(experiment.program.init(experiment.lanes))
    store.close()
    return experiment, states
