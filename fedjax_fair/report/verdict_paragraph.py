"""Is one recipe better, or fairer, than another? One paragraph, and the numbers behind it."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

from fedjax_fair.errors import UserError
from fedjax_fair.report.data_files import scenario_record
from fedjax_fair.report.remarks import remarks_on
from fedjax_fair.report.verdict_words import conclusion, paragraph
from fedjax_fair.results import Run, load
from fedjax_fair.results.differing_settings import differing_settings, differing_words
from fedjax_fair.results.findings import MARGIN, Findings, findings
from fedjax_fair.results.measures import Difference
from fedjax_fair.results.runs import labelled

RunOrFolder = Run | str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What is known about recipe A beside recipe B; differences are A minus B, in points.

    ``avg`` and ``spread`` are None where nothing can be said, ``spread`` also where there is one test site.
    """

    text: str
    conclusion: str
    avg: Difference | None
    spread: Difference | None
    found: Findings

    @property
    def decided(self) -> bool:
        """Whether something is known about AVG or about the spread."""
        known = [one.verdict for one in (self.avg, self.spread) if one is not None]
        return any(not word.startswith('undecided') for word in known)

    def to_json(self) -> str:
        """All numbers, in the form of table.json, with the settings that differ (A, B) and the remarks."""
        record: dict[str, Any] = {
            'text': self.text,
            'conclusion': self.conclusion,
            'settings': differing_settings(*self.found.runs),
            'remarks': remarks_on(self.found),
            **scenario_record(self.found),
        }
        return json.dumps(record, indent=1, allow_nan=False) + '\n'


def verdict(run_a: RunOrFolder, run_b: RunOrFolder, margin: float = MARGIN, metric: str | None = None) -> Verdict:
    """Whether run A is better or fairer than run B, how sure that is, and what would decide it.

    Args:
        run_a: a finished run, or its folder.
        run_b: the run that A is compared with.
        margin: the smallest difference of interest, in points.
        metric: another score than the one that the runs say fairness is about: balanced_accuracy, auc, ..., as far as
            they kept what it needs.
    """
    runs = [run if isinstance(run, Run) else load(run) for run in (run_a, run_b)]
    return verdict_of(labelled(runs), margin, metric)


def verdict_of(runs: Sequence[Run], margin: float = MARGIN, metric: str | None = None) -> Verdict:
    """The verdict on two runs, the first of them against the second."""
    if len(runs) != 2:
        raise UserError(
            f'a verdict is about two runs, got {len(runs)} ({", ".join(run.label for run in runs)}); '
            'runs that differ in their seeds alone count as one'
        )
    if runs[0].scenario != runs[1].scenario:
        raise UserError(f'a verdict needs one scenario, got {runs[0].scenario} and {runs[1].scenario}')
    if margin <= 0:
        raise UserError(f'`margin`={margin:g} must be above 0')
    found = findings(runs, baseline=1, margin=margin, metric=metric)
    avg, spread = (found.measures[key].differences[0] if key in found.measures else None for key in ('avg', 'spread'))
    known = 'undecided' if avg is None else conclusion(avg, spread, margin)
    more = [line for line in (differing_words(*runs), *remarks_on(found)) if line]
    return Verdict(paragraph(found, 0, more), known, avg, spread, found)
