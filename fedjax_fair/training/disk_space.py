"""Whether the results of a run will fit on the disk, estimated before its first round."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from fedjax_fair.core.tree import num_bytes
from fedjax_fair.core.types import FedState
from fedjax_fair.errors import UserError
from fedjax_fair.publishing import free_bytes
from fedjax_fair.sizes import in_words
from fedjax_fair.training.checkpoint import CHECKPOINTS_KEPT, DAMAGED, FOLDER, ROWS
from fedjax_fair.training.prediction_log import count_evaluations, plan

if TYPE_CHECKING:
    from fedjax_fair.training.setup import Experiment

BYTES_OF_LINE, BYTES_OF_NUMBER = 1500, 20  # of metrics.jsonl: the numbers of a kind of model, and one of each client
STORES = ('rows', 'examples')  # folders of what is kept on disk while a run goes on
BYTES_BESIDE_ARRAYS = 100_000  # of a checkpoint: Orbax's 15 small files in 8 folders, each a block of 4 kB


def bytes_of_checkpoint(states: FedState) -> int:
    """What a checkpoint of these states takes on the disk."""
    return num_bytes(states) + BYTES_BESIDE_ARRAYS


class Space(NamedTuple):
    """Bytes that a run will write: of one checkpoint (0: none are written), of rows and examples that are kept on disk
    while it goes on, and of all else together.
    """

    checkpoint: int
    rest: int
    kept: int = 0


def space_of(experiment: Experiment) -> Space:
    """What an experiment will write."""
    config, federation, storage = experiment.config, experiment.federation, experiment.storage
    predictions = plan(config, federation, experiment.task, experiment.kinds).bytes
    files = len(experiment.points) * len(experiment.kinds)
    lines = count_evaluations(config) * len(config.seeds)
    line = BYTES_OF_LINE + BYTES_OF_NUMBER * federation.num_clients
    histories = 2 * lines * line  # each beside its copy
    states = experiment.program.shapes(experiment.lanes)
    sizes = {'rows': num_bytes(states.clients), 'examples': num_bytes((federation.x, federation.y))}
    return Space(
        bytes_of_checkpoint(states) if config.checkpoint_every else 0,
        files * (histories + 2 * predictions),  # predictions of each evaluation, then of all
        sum(sizes[name] for name in storage.on_disk),
    )


def check_space(out: pathlib.Path, space: Space, overwrite: bool = False) -> str:
    """Refuse a run whose rows and examples do not fit, or no checkpoint beside them; nothing must be written before.

    Returns what is told where the end of the run may not fit. With ``overwrite`` what is there is deleted first.
    """
    free = free_bytes(out)
    if free is None:
        return ''
    held, left = _held(out, (FOLDER, ROWS)), _held(out, STORES)  # what is left there is written anew
    room = free + left + held * overwrite
    if space.kept > room:  # a mapped file that outgrows its disk would kill the process without a message
        raise UserError(
            f'{out}: rows and examples on disk need {in_words(space.kept)} and {in_words(room)} are free; make room, '
            'or keep them elsewhere by `rows`=host and `examples`=host'
        )
    if space.checkpoint and space.kept + space.checkpoint > room:
        beside = f', beside {in_words(space.kept)} of rows and examples,' * bool(space.kept)
        raise UserError(
            f'{out}: a checkpoint needs {in_words(space.checkpoint)}{beside} and {in_words(room)} are free; make room, '
            'or train without checkpoints by `checkpoint_every`=0'
        )
    copies = CHECKPOINTS_KEPT + 1  # one more while it is being written
    needed = copies * space.checkpoint + space.kept + space.rest - left - held
    if needed <= free:
        return ''
    return f'{out} may become full: the run will need about {in_words(needed)} and {in_words(free)} are free'


def _held(out: pathlib.Path, names: Sequence[str]) -> int:
    """What the checkpoints, rows and examples of a run hold already; they will make room for new ones.

    Damaged checkpoints, which were set aside, stay.
    """
    places = (path for name in names for path in (out / name).glob('*') if not path.name.startswith(DAMAGED))
    files = (path for place in places for path in (place, *place.rglob('*')))
    return sum(path.stat().st_size for path in files if path.is_file())
