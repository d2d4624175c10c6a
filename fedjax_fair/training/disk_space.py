"""Whether the results of a run will fit on the disk, estimated before its first round."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, NamedTuple

from fedjax_fair.core.tree import num_bytes
from fedjax_fair.core.types import FedState
from fedjax_fair.errors import UserError
from fedjax_fair.publishing import free_bytes
from fedjax_fair.sizes import in_words
from fedjax_fair.training.checkpoint import CHECKPOINTS_KEPT, FOLDER, ROWS
from fedjax_fair.training.prediction_log import evaluation_rounds

if TYPE_CHECKING:
    from fedjax_fair.training.setup import Experiment

BYTES_OF_LINE, BYTES_OF_NUMBER = 1500, 20  # of metrics.jsonl: the numbers of a kind of model, and one of each client
BYTES_BESIDE_ARRAYS = 100_000  # of a checkpoint: Orbax's 15 small files in 8 folders, each a block of 4 kB


def bytes_of_checkpoint(states: FedState) -> int:
    """What a checkpoint of these states takes on the disk."""
    return num_bytes(states) + BYTES_BESIDE_ARRAYS


class Space(NamedTuple):
    """Bytes that a run will write: of one checkpoint, and of all else together."""

    checkpoint: int
    rest: int


def space_of(experiment: Experiment, checkpoint: int, predictions: int) -> Space:
    """What an experiment will write, given the bytes of a checkpoint and of the predictions of one kind of model."""
    config, files = experiment.config, len(experiment.points) * len(experiment.kinds)
    lines = len(evaluation_rounds(config)) * len(config.seeds)
    line = BYTES_OF_LINE + BYTES_OF_NUMBER * experiment.federation.num_clients
    histories = 2 * lines * line  # each beside its copy
    return Space(checkpoint, files * (histories + 2 * predictions))  # predictions of each evaluation, then of all


def check_space(out: pathlib.Path, space: Space, checkpoints: bool) -> str:
    """Refuse a run of which no checkpoint fits; returns what is told where the end of the run may not."""
    free = free_bytes(out)
    if free is None:
        return ''
    if checkpoints and space.checkpoint > free:
        raise UserError(
            f'{out}: a checkpoint needs {in_words(space.checkpoint)} and {in_words(free)} are free; make room, or '
            'train without checkpoints by `checkpoint_every`=0'
        )
    copies = CHECKPOINTS_KEPT + 1 if checkpoints else 0  # one more while it is being written
    needed = copies * space.checkpoint + space.rest - _held(out)
    if needed <= free:
        return ''
    return f'{out} may become full: the run will need about {in_words(needed)} and {in_words(free)} are free'


def _held(out: pathlib.Path) -> int:
    """What the checkpoints of a run that is resumed hold already; they will make room for new ones.

    Damaged ones, which were set aside, stay.
    """
    numbered = (path for name in (FOLDER, ROWS) for path in (out / name).glob('*') if path.name.isdecimal())
    files = (path for folder in numbered for path in folder.rglob('*'))
    return sum(path.stat().st_size for path in files if path.is_file())
