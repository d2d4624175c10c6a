"""A finished run, ready to be looked into."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from fedjax_fair import results
from fedjax_fair.core.types import FedState
from fedjax_fair.errors import UserError
from fedjax_fair.training.checkpoint import Checkpoints, history_copy
from fedjax_fair.training.config import Config
from fedjax_fair.training.prediction_log import FOLDER as EVALUATED
from fedjax_fair.training.prediction_log import forget_pieces
from fedjax_fair.training.progress import Display
from fedjax_fair.training.setup import Experiment, prepare
from fedjax_fair.training.writer_lock import LOCK, is_writer, writing


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
    states, _ = store.read(config.rounds, experiment.listed(experiment.program.init(experiment.lanes)))
    store.close()
    return experiment, states


def summaries(out: pathlib.Path, folders: Sequence[pathlib.Path]) -> list[dict[str, Any]]:
    """The summaries of the points of a finished run; a metrics.jsonl that has changed since is restored or refused."""
    found = [results.summary(folder) for folder in folders]
    _tidy(out, folders)
    for number, (folder, summary) in enumerate(zip(folders, found, strict=True)):
        seal = summary.get('history')  # runs of older versions have none
        if seal is None or not is_writer() or results.is_whole(folder, seal):
            continue
        with writing(out):
            note = results.repair_finished(folder, seal, history_copy(out, number))
        Display(f'{summary["recipe"]} on {summary["scenario"]}', summary['rounds'], quiet=True).warn(note)
    return found


def _tidy(out: pathlib.Path, folders: Sequence[pathlib.Path]) -> None:
    """Remove what a process left that was killed right after its summaries: its lock, and what evaluations kept."""
    left = [out / LOCK, *(folder / EVALUATED for folder in folders)]
    if is_writer() and any(path.exists() for path in left):
        with contextlib.suppress(UserError), writing(out):  # it still writes, or nobody may
            for folder in folders:
                forget_pieces(folder)
