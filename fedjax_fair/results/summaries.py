"""summary.json: the numbers that are reported of a run."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from fedjax_fair.metrics import last_k, over_seeds
from fedjax_fair.results.evaluations import History
from fedjax_fair.results.files import SUMMARY, Folder, read_json, write_json
from fedjax_fair.results.schema import MODEL_KINDS, checked_summary, modern_summary
from fedjax_fair.results.selection import SELECTIONS, rounds_reported, validation_score


def make_summary(
    settings: Mapping[str, Any],
    federation,
    log: History,
    score: str,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """Scores averaged over the evaluations that are reported, then mean and deviation over seeds.

    ``settings`` are those of config.json, ``more`` are costs, pictures, remarks and facts of the federation.
    """
    seeds, rounds = settings['seeds'], rounds_reported(log, settings)
    best = SELECTIONS[settings['select']]

    def over(kind: str) -> dict | None:
        pairs = zip(seeds, rounds, strict=True)
        evaluations = [
            log.of(seed, kind)[-1:] if MODEL_KINDS[kind].trained else log.of(seed, kind, own_rounds)
            for seed, own_rounds in pairs
        ]
        return over_seeds([last_k(one, len(one), score) for one in evaluations]) if all(evaluations) else None

    return {
        'recipe': settings['recipe'],
        'scenario': federation.name,
        'task': federation.task,
        'score': score,
        'model': settings['model'],
        'rounds': settings['rounds'],
        'seeds': list(seeds),
        'hyper': settings['hyper'],
        'rounds_reported': rounds,
        'validation': validation_score(log, seeds, rounds),
        'selected_rounds': [own_rounds[0] for own_rounds in rounds] if best else None,
        'clients': federation.num_clients,
        'groups': list(federation.groups),
        'group_of': None if federation.group_of is None else [int(g) for g in federation.group_of],
        **{kind: over(kind) for kind in MODEL_KINDS},
        **more,
    }


def write_summary(folder: Folder, summary: Mapping[str, Any]) -> None:
    """The last file of a run: one that has it is finished."""
    write_json(pathlib.Path(folder) / SUMMARY, summary)


def summary(folder: Folder) -> dict[str, Any]:
    """The summary of a finished run, of today or of older versions, after refusing one that is not whole."""
    path = pathlib.Path(folder) / SUMMARY
    return checked_summary(modern_summary(read_json(path)), path)
