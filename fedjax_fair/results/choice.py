"""Which point of a grid is chosen: by validation data, never by test scores."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from fedjax_fair.results.files import Folder, point_name, write_json

SWEEP = 'sweep.json'  # what was swept, and which point is chosen
BY_TEST = 'test scores: choosing a setting by them is selection on test data; use `validation`=0.2'
BY_VALIDATION = 'chosen: the best mean validation score over seeds; only its test scores are shown'


def write_sweep(folder: Folder, points: Sequence[Mapping[str, float]], summaries: Sequence[Mapping[str, Any]]) -> None:
    """sweep.json: every point with its folder, its validation and test scores, and whether it is chosen."""
    chosen = chosen_point([one['validation'] for one in summaries])
    lines = [
        {
            'point': dict(point),
            'folder': point_name(point),
            'validation': one['validation'],
            'test': {name: one[one['headline']][name] for name in ('avg', 'std', 'worst')},
            'chosen': None if chosen is None else number == chosen,
        }
        for number, (point, one) in enumerate(zip(points, summaries, strict=True))
    ]
    write_json(pathlib.Path(folder) / SWEEP, {'chosen': chosen, 'points': lines})


def chosen_point(validation: Sequence[dict[str, Any] | None]) -> int | None:
    """The point with the best mean validation score over seeds, the first of equals; None where it is unknown.

    A point whose model diverged has no score, None or NaN, and is not chosen.

    >>> chosen_point([{'mean': 0.5}, {'mean': 0.7}, {'mean': 0.7}]), chosen_point([{'mean': 0.5}, None])
    (1, None)
    >>> chosen_point([{'mean': None}, {'mean': 0.7}]), chosen_point([{'mean': math.nan}, {'mean': 0.7}])
    (1, 1)
    """
    means = [score['mean'] for score in validation if score is not None]
    scored = [place for place, mean in enumerate(means) if mean is not None and math.isfinite(mean)]
    if not scored or len(means) < len(validation):
        return None
    return max(scored, key=lambda place: means[place])
