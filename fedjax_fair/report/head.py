"""The head of a table: what was run, once for all runs of a scenario."""

from __future__ import annotations

from collections.abc import Sequence

from fedjax_fair.results import Run, head_facts

MOST_SHOWN = 3  # more different lines than this are not listed


def head_lines(run: Run) -> list[str]:
    """Data and split, clients and test sets, network, rounds and seeds, local training: a line each."""
    return list(_facts(run).values())


def head_of(runs: Sequence[Run]) -> list[str]:
    """The head of a table: the lines of each scenario once. Where runs differ in one, it has what each of them has."""
    lines: list[str] = []
    for scenario in dict.fromkeys(run.scenario for run in runs):
        facts = [_facts(run) for run in runs if run.scenario == scenario]
        for name in dict.fromkeys(name for own in facts for name in own):
            texts = list(dict.fromkeys(own[name] for own in facts if name in own))
            more = f' | and {len(texts) - MOST_SHOWN} more' if len(texts) > MOST_SHOWN else ''
            lines.append(' | '.join(texts[:MOST_SHOWN]) + more)
    return lines


def _facts(run: Run) -> dict[str, str]:
    return head_facts(run.config | {'model': run.summary['model'], 'seeds': run.seeds}, run.summary)
