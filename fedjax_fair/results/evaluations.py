"""metrics.jsonl: a line per evaluation and seed, and numbers over rounds."""

from __future__ import annotations

import itertools
import json
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_fair.core.evaluate import MODEL_KINDS
from fedjax_fair.errors import UserError
from fedjax_fair.metrics import diverged, group_means, summarise
from fedjax_fair.publishing import make_folder, publish
from fedjax_fair.results.files import HISTORY, Folder, parse, read_text
from fedjax_fair.results.journal import Journal, Seal, sealed_content
from fedjax_fair.results.schema import LINE_FIELDS, LINE_SHAPES, checked_record, modern_kinds

Line = dict[str, Any]

BEGINNING = b'{"round": '  # of every line
LOST = ': bring the file back, or start again with `overwrite`'


# --- writing ---------------------------------------------------------------------------------------------------------


class History:
    """metrics.jsonl of a run that goes on: lines are appended as evaluations happen."""

    def __init__(
        self,
        folder: Folder,
        upto: int = 0,
        seal: Seal | None = None,
        copy: pathlib.Path | None = None,
        written: bool = True,
    ):
        """Keep the lines of rounds up to ``upto`` and drop what a stopped run wrote after its checkpoint.

        ``seal`` is that of the checkpoint of round ``upto``: a file that has changed since is repaired from its
        ``copy``, and ``note`` says so. Checkpoints of older versions have none. Where another process of the same run
        writes the files, they are not ``written`` here.
        """
        path = pathlib.Path(folder) / HISTORY
        self.note = ''
        if seal is None:
            self.lines = _lines_upto(path, upto)
            content = _json_lines(self.lines)
        else:
            content, self.note = _sealed_or_repaired(path, upto, seal, copy)
            self.lines = [modern_kinds(json.loads(line)) for line in content.splitlines()]
        self._file, self._copy_path = Journal(path, content, written), copy if written else None
        self._copy: Journal | None = None
        self._uncopied = [content]

    def check_complete(self, rounds: Iterable[int], seeds: Sequence[int]) -> None:
        """Refuse to go on where an evaluation of these rounds is lost: the means of the run would be others."""
        there = {(line['round'], line['seed']) for line in self.lines}
        for round, seed in itertools.product(rounds, seeds):
            if (round, seed) not in there:
                raise UserError(f'{self._file.path} has lost the evaluation of round {round}, seed {seed}{LOST}')

    def append(self, lines: Sequence[Line]) -> None:
        """Add the lines of one evaluation."""
        text = _json_lines(lines)
        self._file.append(text)
        self._uncopied.append(text)
        self.lines.extend(lines)

    def seal_with_copy(self) -> Seal:
        """The seal for a checkpoint; the copy beside the checkpoints is brought up to date."""
        text = b''.join(self._uncopied)
        if self._copy is not None:
            self._copy.append(text)
            self._copy.seal()
        elif self._copy_path is not None:
            self._copy = Journal(make_folder(self._copy_path.parent) / self._copy_path.name, text)
        self._uncopied.clear()
        return self.seal()

    def seal(self) -> Seal:
        """Length and checksum of the file."""
        return self._file.seal()

    def of(self, seed: int, kind: str, rounds: Sequence[int] | None = None) -> list[dict[str, Any]]:
        """The summaries of one seed and kind of model, in order: of all rounds, or of those given."""
        own = [line for line in self.lines if line['seed'] == seed and kind in line]
        return [line[kind] for line in own if rounds is None or line['round'] in rounds]

    def best(self, seed: int) -> Line:
        """The evaluation of one seed with the best validation score, the first of equals."""
        own = [line for line in self.lines if line['seed'] == seed]
        return max(own, key=lambda line: -np.inf if line['validation'] is None else line['validation'])


def is_whole(folder: Folder, seal: Seal) -> bool:
    """Whether metrics.jsonl of a finished run is what its summary was made from, and no more."""
    found = sealed_content(pathlib.Path(folder) / HISTORY, seal)
    return found is not None and not found[1]


def repair_finished(folder: Folder, seal: Seal, copy: pathlib.Path) -> str:
    """Write metrics.jsonl of a finished run as it was, from itself or its copy; returns what is told about it."""
    path = pathlib.Path(folder) / HISTORY
    own, saved = sealed_content(path, seal), sealed_content(copy, seal)
    found = own or saved
    if found is None:
        raise UserError(f'{path} was lost or changed since the run ended{LOST}')
    publish(path, found[0])
    if own:
        return f'{path}: the run did not write what follows its last line; it is dropped'
    return f'{path} was lost or changed; it is restored from {copy}'


def _json_lines(lines: Sequence[Line]) -> bytes:
    return ''.join(json.dumps(line, allow_nan=False) + '\n' for line in lines).encode()


def _lines_upto(path: pathlib.Path, upto: int) -> list[Line]:
    """The lines of rounds up to ``upto``; a run that was killed leaves half a line."""
    old = read_text(path).splitlines(keepends=True) if upto and path.exists() else []
    lines = [_checked(text, f'{path} line {number}') for number, text in enumerate(old, 1) if text.endswith('\n')]
    return [line for line in lines if line['round'] <= upto]


def _checked(text: str, place: str) -> Line:
    return modern_kinds(checked_record(parse(text, place), LINE_FIELDS, place, LINE_SHAPES))


def _sealed_or_repaired(path: pathlib.Path, upto: int, seal: Seal, copy: pathlib.Path | None) -> tuple[bytes, str]:
    """What the file held at the checkpoint of round ``upto``, from itself or its copy, and what is told about it."""
    own = sealed_content(path, seal)
    if own is not None:
        content, later = own
        known = _is_of_later_rounds(later, upto)
        return content, '' if known else f'{path}: no run wrote what follows the lines of round {upto}; it is dropped'
    saved = None if copy is None else sealed_content(copy, seal)
    if saved is None:
        raise UserError(f'{path} was lost or changed since the checkpoint of round {upto}, and so was {copy}{LOST}')
    return saved[0], f'{path} was lost or changed; it is restored from {copy}'


def _is_of_later_rounds(text: bytes, upto: int) -> bool:
    """Whether it is what a run wrote after a checkpoint and before it was killed: lines, and the beginning of one."""
    lines, _, torn = text.rpartition(b'\n')
    try:
        rounds = [_checked(line.decode(), '')['round'] for line in lines.splitlines()]
    except (UserError, UnicodeDecodeError):
        return False
    return all(round > upto for round in rounds) and torn[: len(BEGINNING)] == BEGINNING[: len(torn)]


def evaluation_line(
    round: int,
    seed: int,
    loss: float,
    metrics: Mapping[str, Mapping[str, np.ndarray]],
    federation,
    score: str,
    validation: Mapping[str, np.ndarray] | None = None,
) -> Line:
    """One line of metrics.jsonl from the metrics of every kind of model; fairness is about the ``score``.

    ``validation`` are the metrics of clients on their validation sets, of which the mean score over clients is kept,
    and the lowest score of a group, or of a client where there are no groups.
    """
    line: Line = {'round': round, 'seed': seed, 'train_loss': loss if np.isfinite(loss) else None}
    if validation is not None:
        scores = validation_scores(validation, score)
        line['validation'] = mean_score(scores)
        line['validation_worst'] = worst_score(scores, federation.groups, federation.group_of)
    for kind, values in metrics.items():
        own = MODEL_KINDS[kind].own
        line[kind] = summarise(values, federation.tests.test_of, federation.groups, federation.group_of, own, score)
    return line


def validation_scores(metrics: Mapping[str, np.ndarray], score: str) -> np.ndarray:
    """The scores of clients on their validation sets; nobody has one if a model diverged.

    The mean of the others would pass for that of all.
    """
    scores = np.asarray(metrics[score], np.float64)
    return np.full_like(scores, np.nan) if diverged(metrics).any() else scores


def mean_score(scores: np.ndarray) -> float | None:
    """The mean over the clients that have a score; None where nobody has."""
    known = scores[np.isfinite(scores)]
    return float(known.mean()) if known.size else None


def worst_score(scores: np.ndarray, groups: Sequence[str] = (), group_of: np.ndarray | None = None) -> float | None:
    """The lowest mean score of a group, or the lowest score of a client where there are no groups.

    >>> worst_score(np.array([0.5, 0.9, 0.6]), ('north', 'south'), np.array([0, 0, 1])), worst_score(np.array([0.5, 1]))
    (0.6, 0.5)
    """
    scores = np.where(np.isfinite(scores), scores, np.nan)
    values = group_means(scores, group_of, len(groups)) if groups else scores
    known = values[np.isfinite(values)]
    return float(known.min()) if known.size else None


# --- reading ---------------------------------------------------------------------------------------------------------


class Curve(NamedTuple):
    """A number over rounds: mean and population standard deviation over seeds, NaN where undefined."""

    rounds: np.ndarray
    mean: np.ndarray
    std: np.ndarray


def history(folder: Folder) -> list[Line]:
    """The evaluations of a run by round and seed; of one that was written twice (a resumed run) the later counts."""
    path, lines = pathlib.Path(folder) / HISTORY, {}
    for number, text in enumerate(read_text(path).splitlines(), 1):
        if text.strip():
            line = _checked(text, f'{path} line {number}')
            lines[line['round'], line['seed']] = line
    if not lines:
        raise UserError(f'{path}: holds no evaluation')
    return [lines[key] for key in sorted(lines)]


def series(lines: Sequence[Line], pick: Callable[[Line], Any]) -> tuple[np.ndarray, np.ndarray]:
    """Rounds ``[E]`` and what ``pick(line)`` finds, ``[seeds, E, ...]``: a number, a list, or None, which is NaN.

    >>> lines = [{'round': 5, 'seed': 0, 'loss': 1.0}, {'round': 5, 'seed': 1, 'loss': None}]
    >>> series(lines, lambda line: line['loss'])[1].tolist()
    [[1.0], [nan]]
    """
    rounds, seeds = (sorted({line[name] for line in lines}) for name in ('round', 'seed'))
    picked = {(line['seed'], line['round']): np.asarray(pick(line), np.float64) for line in lines}
    shape = max((value.shape for value in picked.values()), key=len)
    values = np.full((len(seeds), len(rounds), *shape), np.nan)
    for (seed, round), value in picked.items():
        values[seeds.index(seed), rounds.index(round)] = value
    return np.array(rounds), values


def curve(lines: Sequence[Line], pick: Callable[[Line], float | None]) -> Curve:
    """The number ``pick(line)`` over rounds, over those seeds for which it is defined."""
    rounds, values = series(lines, pick)
    defined = ~np.isnan(values)
    count = np.where(defined.any(0), defined.sum(0), np.nan)
    mean = np.where(defined, values, 0).sum(0) / count
    return Curve(rounds, mean, np.sqrt(np.where(defined, (values - mean) ** 2, 0).sum(0) / count))
