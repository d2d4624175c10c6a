"""metrics.jsonl: a line per evaluation and seed, and numbers over rounds."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_fair.core.evaluate import MODEL_KINDS
from fedjax_fair.errors import UserError
from fedjax_fair.metrics import group_means, summarise
from fedjax_fair.results.files import HISTORY, Folder, parse, read_text
from fedjax_fair.results.schema import LINE_FIELDS, checked_record, modern_kinds

Line = dict[str, Any]


# --- writing ---------------------------------------------------------------------------------------------------------


class History:
    """metrics.jsonl of a run that goes on: lines are appended as evaluations happen."""

    def __init__(self, folder: Folder, upto: int = 0):
        """Keep the lines of rounds up to ``upto`` and drop what a stopped run wrote after its checkpoint."""
        self._path = pathlib.Path(folder) / HISTORY
        old = self._path.read_text().splitlines(keepends=True) if self._path.exists() else []
        whole = [
            modern_kinds(json.loads(line)) for line in old if line.endswith('\n')
        ]  # a run that was killed leaves half a line
        self.lines = [line for line in whole if line['round'] <= upto]
        self._path.write_text(_json_lines(self.lines))

    def append(self, lines: Sequence[Line]) -> None:
        """Add the lines of one evaluation."""
        self.lines.extend(lines)
        with self._path.open('a') as file:
            file.write(_json_lines(lines))

    def of(self, seed: int, kind: str, rounds: Sequence[int] | None = None) -> list[dict[str, Any]]:
        """The summaries of one seed and kind of model, in order: of all rounds, or of those given."""
        own = [line for line in self.lines if line['seed'] == seed and kind in line]
        return [line[kind] for line in own if rounds is None or line['round'] in rounds]

    def best(self, seed: int) -> Line:
        """The evaluation of one seed with the best validation score, the first of equals."""
        own = [line for line in self.lines if line['seed'] == seed]
        return max(own, key=lambda line: -np.inf if line['validation'] is None else line['validation'])


def _json_lines(lines: Sequence[Line]) -> str:
    return ''.join(json.dumps(line, allow_nan=False) + '\n' for line in lines)


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
        scores = np.asarray(validation[score], np.float64)
        line['validation'] = mean_score(scores)
        line['validation_worst'] = worst_score(scores, federation.groups, federation.group_of)
    for kind, values in metrics.items():
        own = MODEL_KINDS[kind].own
        line[kind] = summarise(values, federation.tests.test_of, federation.groups, federation.group_of, own, score)
    return line


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
            place = f'{path} line {number}'
            line = modern_kinds(checked_record(parse(text, place), LINE_FIELDS, place))
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
