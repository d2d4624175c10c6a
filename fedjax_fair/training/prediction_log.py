"""Keeps what every test example got at the evaluations that are reported, while a run goes on.

Each evaluation that may be reported is a file of its own in the run's folder, so that a stopped run loses nothing. The
end of the run joins them in the files that :mod:`fedjax_fair.results.prediction_file` describes.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import math
import pathlib
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.evaluate import KEPT
from fedjax_fair.core.types import Task
from fedjax_fair.data import Federation
from fedjax_fair.publishing import DRAFT, make_folder, publish
from fedjax_fair.results import MODEL_KINDS, SELECTIONS, History, reported
from fedjax_fair.results.prediction_file import Predictions, file_name, records_that_fit, write_predictions
from fedjax_fair.training.config import Config

FOLDER = 'evaluated_examples'  # one file per evaluation, until the run ends
PART = rf'({"|".join(MODEL_KINDS)})-\d+\.npz{DRAFT}?'  # their names


class Plan(NamedTuple):
    """What is kept: the ``records`` of the task, the ``rounds`` that are reported (None: the best one) and a note.

    ``bytes`` is the size of one file before compression.
    """

    records: tuple[str, ...]
    rounds: tuple[int, ...] | None
    note: str
    bytes: int = 0


NOTHING = Plan((), (), '')


def count_evaluations(config: Config) -> int:
    """After how many rounds a run is evaluated.

    >>> count_evaluations(Config(rounds=12, eval_every=5)), count_evaluations(Config(rounds=12, eval_every=4))
    (3, 3)
    """
    every, before = _every(config), config.rounds - 1
    twice = before // math.lcm(*every) if len(every) > 1 else 0
    return sum(before // n for n in every) - twice + 1


def reported_rounds(config: Config) -> tuple[int, ...]:
    """The rounds of the evaluations that are reported where none is chosen by validation.

    >>> reported_rounds(Config(rounds=12, eval_every=5, last_k=2))
    (10, 12)
    """
    count = len(reported(range(count_evaluations(config)), config.last_k))
    due = (r for r in range(config.rounds, 0, -1) if r == config.rounds or any(r % n == 0 for n in _every(config)))
    return tuple(itertools.islice(due, count))[::-1]


def _every(config: Config) -> list[int]:
    return [n for n in (config.eval_every, config.adapt_every) if n]


def plan(config: Config, federation: Federation, task: Task, kinds: Sequence[str]) -> Plan:
    """What a run keeps of its test examples; nothing where its settings, its task or the size say so."""
    if not config.keep_predictions or not task.kept:
        return NOTHING
    best = SELECTIONS[config.select]
    rounds = None if best else reported_rounds(config)
    lengths = federation.tests.mask.sum(1)
    rows = max(int(lengths.sum()), int(lengths[federation.tests.test_of].sum()) if len(kinds) > 1 else 0)
    cells = rows * len(config.seeds) * (1 if rounds is None else len(rounds))
    numbers = _numbers(task, federation)
    names, note = records_that_fit(numbers, cells)
    size = cells * sum(numbers[name][0] * np.dtype(numbers[name][1]).itemsize for name in names)
    return Plan(tuple(record for record, name in task.kept.items() if name in names), rounds, note, size)


def _numbers(task: Task, federation: Federation) -> dict[str, tuple[int, str]]:
    """How many numbers a record has for one example, and their type in the file."""
    pixels = federation.y.shape[1:3] if federation.y.ndim == 3 else ()
    logits = jnp.zeros((1, *pixels, federation.num_classes))
    y = jnp.zeros((1, *federation.y.shape[1:]), jnp.int32)
    records = jax.eval_shape(task.record, logits, y)
    return {name: (_compact(task, name, records[record]).size, _type(name, task)) for record, name in task.kept.items()}


def _type(name: str, task: Task) -> str:
    if name != 'prediction':
        return 'float32'
    return 'uint8' if task.num_classes <= 256 else 'int16'


def _compact(task: Task, name: str, values: Any) -> Any:
    """Of two classes one probability tells both."""
    both = name == 'score' and task.name == 'classification' and values.shape[-1] == 2
    if not both:
        return values
    return jax.eval_shape(lambda v: v[..., 1:], values) if isinstance(values, jax.ShapeDtypeStruct) else values[..., 1:]


class PredictionLog:
    """The kept evaluations of one run folder, in which all seeds are run.

    ``damage`` tells which of them were lost or changed since the checkpoint. At the end ``note`` says that no file can
    be made of them.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        plan: Plan,
        config: Config,
        federation: Federation,
        task: Task,
        upto: int,
        checksums: Mapping[str, int] | None = None,
    ):
        """Keep what was written up to a round; a file whose checksum has changed since the checkpoint is not used.

        With nothing planned the folder is left alone: this process may be another than that which writes.
        """
        self.folder, self.plan, self.config, self.federation, self.task = folder, plan, config, federation, task
        self.pieces, self.note = folder / FOLDER, ''
        files = filter(_is_piece, self.pieces.glob('*.npz')) if plan.records else ()
        found = {path: zlib.crc32(path.read_bytes()) for path in files}
        known = {path.name: checksum for path, checksum in found.items() if _round_of(path) <= upto}
        sealed = known if checksums is None or not plan.records else checksums  # older versions have no seals
        self._checksums = {name: checksum for name, checksum in known.items() if sealed.get(name) == checksum}
        for path in found:
            if path.name not in self._checksums:  # a stopped run wrote it after its checkpoint, or it was changed
                path.unlink()
        # Where the best evaluation is kept, a run deletes the others itself, also after its checkpoint.
        lost = [name for name in sealed if name not in self._checksums and (name in known or plan.rounds is not None)]
        self.damage = [
            f'{self.pieces / name} was lost or changed; what it predicted cannot be reported' for name in lost
        ]

    def seal(self) -> dict[str, int]:
        """Checksums of the files that were written, for a checkpoint."""
        return dict(self._checksums)

    def wants(self, round: int, kind: str) -> bool:
        """Whether an evaluation may be reported."""
        if not self.plan.records:
            return False
        if MODEL_KINDS[kind].trained:
            return round == self.config.rounds
        return self.plan.rounds is None or round in self.plan.rounds

    def add(self, round: int, kind: str, records: Mapping[str, np.ndarray], history: History) -> None:
        """Keep one evaluation, ``[S, sets or clients, examples, ...]`` by record; a worse one than the best is not."""
        if not records:
            return
        make_folder(self.pieces)
        mask = self._mask(kind)
        names = {self.task.kept[record]: values for record, values in records.items()}
        rows = {
            name: _compact(self.task, name, values[:, mask]).astype(_type(name, self.task))
            for name, values in names.items()
        }
        path = self.pieces / f'{kind}-{round}.npz'
        np.savez(content := io.BytesIO(), **rows)  # type: ignore[arg-type]
        publish(path, content.getbuffer())
        self._checksums[path.name] = zlib.crc32(content.getbuffer())
        if self.plan.rounds is None:
            best = {history.best(seed)['round'] for seed in self.config.seeds}
            for old in self.pieces.glob(f'{kind}-*.npz'):
                if not MODEL_KINDS[kind].trained and _round_of(old) not in best:
                    old.unlink()
                    self._checksums.pop(old.name, None)

    def join(self, kinds: Sequence[str], history: History) -> dict[str, int]:
        """Write one file for every kind of model; returns their sizes in bytes."""
        sizes = {kind: self._write(kind, history) for kind in kinds if self.plan.records}
        return {kind: size for kind, size in sizes.items() if size}

    def forget(self) -> None:
        """Remove the files of single evaluations; only a finished run does not need them."""
        forget_pieces(self.folder)

    def _write(self, kind: str, history: History) -> int:
        """0 where an evaluation is missing: the first part of the run kept none, or its file was lost."""
        rounds = self._reported(kind, history)
        paths = {number: self.pieces / f'{kind}-{number}.npz' for number in np.unique(rounds)}
        files = {number: _arrays(path) for number, path in paths.items()}
        if lost := [str(number) for number, arrays in files.items() if not arrays]:
            self.note = f'no {file_name(kind)}: {self.pieces} has lost what round {lost[0]} predicted; no intervals'
            return 0
        records = {
            name: np.stack([[files[r][name][seed] for r in of_seed] for seed, of_seed in enumerate(rounds)])
            for name in next(iter(files.values()))
        }
        return write_predictions(self.folder, self._described(kind, rounds, records))

    def _reported(self, kind: str, history: History) -> np.ndarray:
        """``[S, E]``: the rounds that are reported of every seed."""
        seeds = self.config.seeds
        if MODEL_KINDS[kind].trained:
            return np.full((len(seeds), 1), self.config.rounds, np.int32)
        if self.plan.rounds is None:
            return np.array([[history.best(seed)['round']] for seed in seeds], np.int32)
        return np.tile(np.array(self.plan.rounds, np.int32), (len(seeds), 1))

    def _mask(self, kind: str) -> np.ndarray:
        """The real examples, ``[sets, M]``, or ``[clients, M]`` where every client has a model of its own."""
        tests = self.federation.tests
        mask = np.asarray(tests.mask)
        return mask[tests.test_of] if MODEL_KINDS[kind].own else mask

    def _described(self, kind: str, rounds: np.ndarray, records: Mapping[str, np.ndarray]) -> Predictions:
        federation, mask = self.federation, self._mask(kind)
        first, place = np.nonzero(mask)
        tests, own = federation.tests, MODEL_KINDS[kind].own
        sets = np.asarray(tests.test_of)[first] if own else first
        examples, patients = _examples(federation), federation.test_patient_of
        y = np.asarray(tests.y)
        return Predictions(
            task=federation.task,
            metric=self.task.score,
            kind=kind,
            seed=np.asarray(self.config.seeds),
            round=rounds,
            set=sets.astype(np.int32),
            client=(first if own else np.full(len(first), -1)).astype(np.int32),
            example=examples[sets, place],
            cluster=(np.full(len(sets), -1) if patients is None else patients[sets, place]).astype(np.int32),
            sets=tests.names,
            groups=federation.groups,
            test_of=np.asarray(tests.test_of),
            group_of=np.zeros(0, np.int32) if federation.group_of is None else np.asarray(federation.group_of),
            label=None if y.ndim > 3 or federation.y.ndim == 3 else y[sets, place].astype(np.int32),
            **records,
        )


def popped(values: dict[str, Any]) -> dict[str, Any]:
    """Take the records of examples, by their names, out of the metrics."""
    names = [name for name in values if name.startswith(KEPT)]
    return {name.removeprefix(KEPT): values.pop(name) for name in names}


def forget_pieces(folder: pathlib.Path) -> None:
    """Remove what a run kept of its evaluations, and nothing else that lies there."""
    with contextlib.suppress(OSError):
        for path in (folder / FOLDER).iterdir():
            if re.fullmatch(PART, path.name):
                path.unlink()
        (folder / FOLDER).rmdir()


def _is_piece(path: pathlib.Path) -> bool:
    return path.is_file() and path.stem.rpartition('-')[2].isdecimal()


def _arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Nothing where the file is lost or damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        return {}


def _round_of(path: pathlib.Path) -> int:
    return int(path.stem.rpartition('-')[2])


def _examples(federation: Federation) -> np.ndarray:
    """``[sets, M]``: which example of the source it is; where there is no source, a fingerprint of what it holds.

    Generated data of another seed are other examples, and these must not count as the same ones.
    """
    mask = np.asarray(federation.tests.mask)
    table = np.zeros(mask.shape, np.int64)
    if federation.partition is None:
        for place in np.argwhere(mask):
            table[tuple(place)] = _fingerprint(np.asarray(federation.tests.x[tuple(place)]))
        return table
    for line, rows in zip(table, federation.partition.tests, strict=True):
        line[: len(rows)] = rows
    return table


def _fingerprint(example: np.ndarray) -> int:
    """A whole number of 62 bits."""
    return int.from_bytes(hashlib.blake2b(example.tobytes(), digest_size=8).digest()) >> 2
