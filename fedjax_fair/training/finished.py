"""A finished run, ready to be looked into."""

from __future__ import annotations

import os
import pathlib

from fedjax_fair.core.types import FedState
from fedjax_fair.training import results
from fedjax_fair.training.checkpoint import Checkpoints
from fedjax_fair.training.setup import Experiment, prepare


def finished(folder: str | os.PathLike) -> tuple[Experiment, FedState]:
    """The experiment of a run directory and its last states, ``[lanes, ...]``: one lane for every seed.

    ``experiment.algorithm`` then evaluates, predicts and measures with them.
    """
    path = pathlib.Path(folder)
    if not (path / 'config.json').exists():
        raise ValueError(f'{path} holds no run (no config.json)')
    config, store = results.read_config(path), Checkpoints(path)
    if store.latest != config.rounds:
        raise ValueError(f'{path} holds no checkpoint of its last round; run it with --checkpoint_every above 0')
    experiment = prepare(config)
    states, _ = store.restore(experiment.program.init(experiment.lanes))
    store.close()
    return experiment, states
