"""summary.json: the numbers that are reported of a run."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from fedjax_fair.metrics import last_k, over_seeds
from fedjax_fair.results.evaluations import History
from fedjax_fair.results.files import SUMMARY, Folder, read_json, write_json
from fedjax_fair.results.schema import MODEL_KINDS, checked_summary, modern_summary

SELECTIONS = ('last_k', 'best_validation')  # which evaluations are reported


def write_summary(
    folder: Folder,
    settings: Mapping[str, Any],
    federation,
    log: History,
    score: str,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """Scores averaged over the last k evaluations (or the best one), then mean and deviation over seeds.

    ``settings`` are those of config.json, ``more`` are costs and pictures.
    """
    seeds = settings['seeds']
    best = [log.best(seed) for seed in seeds] if settings['select'] == 'best_validation' else None

    def over(kind: str) -> dict | None:
        evaluations = [log.of(seed, kind) for seed in seeds]
        if not all(evaluations):
            return None
        once = MODEL_KINDS[kind].trained
        if best is not None and not once:
            evaluations = [[line[kind]] for line in best]
        k = 1 if once else settings['last_k']
        return over_seeds([last_k(one, k, score) for one in evaluations])

    summary = {
        'recipe': settings['recipe'],
        'scenario': federation.name,
        'task': federation.task,
        'score': score,
        'model': settings['model'],
        'rounds': settings['rounds'],
        'seeds': list(seeds),
        'hyper': settings['hyper'],
        'selected_rounds': None if best is None else [line['round'] for line in best],
        'clients': federation.num_clients,
        'groups': list(federation.groups),
        'group_of': None if federation.group_of is None else [int(g) for g in federation.group_of],
        **{kind: over(kind) for kind in MODEL_KINDS},
        **more,
    }
    write_json(pathlib.Path(folder) / SUMMARY, summary)
    return summary


def summary(folder: Folder) -> dict[str, Any]:
    """The summary of a finished run, of today or of older versions, after refusing one that is not whole."""
    path = pathlib.Path(folder) / SUMMARY
    return checked_summary(modern_summary(read_json(path)), path)
