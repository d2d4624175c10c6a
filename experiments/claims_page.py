"""docs/claims.md: every claim with the paper's number, ours with its interval, the verdict and the record.

README shows how many claims of each paper have which verdict.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.claims import CONTRADICTED, NOT_RECORDED, REPOSITORY, SUPPORTED, UNDECIDED, Outcome, outcomes
from experiments.study import markdown
from fedjax_fair.report.verdict_words import advice
from fedjax_fair.results.measures import Difference

PATH, README = REPOSITORY / 'docs' / 'claims.md', REPOSITORY / 'README.md'
SUMMARY = re.compile(r'(?<=<!-- verdicts -->\n).*?(?=<!-- end of verdicts -->)', re.DOTALL)
VERDICTS = (SUPPORTED, CONTRADICTED, UNDECIDED, NOT_RECORDED)
TITLES = {'fedism': 'FedISM', 'fedtilt': 'FedTilt', 'harmofl': 'HarmoFL', 'fedheal': 'FedHEAL', 'fedld': 'FedLD'}
HEAD = """# What the five papers claim, and what our runs say

This page is computed from the records below `experiments/*/results` by `python -m experiments.papers --claims`, and a
test compares it with them. A difference is a mean over seeds with its 95 % interval.

- **supported**: the interval lies on the side that the paper says. A claim of "not lower" or "not higher" allows the
  margin.
- **contradicted**: the interval lies on the other side, or there is no difference as large as the margin.
- **undecided**: neither, or there is no interval. The column beside the verdict says what would decide.
- **not recorded**: the run that would decide has not been recorded yet.

All runs are small: other data, smaller networks and fewer rounds than in the papers. A verdict is about the claim on
the data that are named, not about the papers' own runs.
"""
NEEDED = 'several seeds of models that do not diverge'  # for a difference with an interval
COLUMNS = ['claim', 'the paper', 'ours, 95 % interval', 'verdict', 'what would decide', 'data', 'record']


def pages() -> dict[pathlib.Path, str]:
    """The whole page, and README with its summary."""
    found = outcomes()
    return {PATH: text(found), README: SUMMARY.sub(lambda _: f'{summary(found)}\n', README.read_text())}


def summary(found: Mapping[str, Sequence[Outcome]]) -> str:
    """How many claims of each paper have which verdict."""
    counts = {paper: [one.verdict for one in each] for paper, each in found.items()}
    rows = [[TITLES[paper], *(str(each.count(verdict)) for verdict in VERDICTS)] for paper, each in counts.items()]
    return '\n'.join(markdown(['paper', *VERDICTS], rows))


def text(found: Mapping[str, Sequence[Outcome]]) -> str:
    """The whole page."""
    verdicts = [one.verdict for each in found.values() for one in each]
    total = ', '.join(f'{verdicts.count(verdict)} {verdict}' for verdict in sorted(set(verdicts)))
    parts = [HEAD, f'{len(verdicts)} claims: {total}.\n']
    for paper, each in found.items():
        if each:
            table = '\n'.join(markdown(COLUMNS, [_row(one) for one in each]))
            parts += [f'## {TITLES[paper]}\n', f'{table}\n', _commands(each)]
    return '\n'.join(parts)


def _row(one: Outcome) -> list[str]:
    claim, d = one.claim, one.difference
    path = one.path.relative_to(REPOSITORY).as_posix()
    if one.verdict == NOT_RECORDED:
        return [claim.words, claim.published, '', one.verdict, '', '', path]
    data = one.record['data'].get('name', 'several')
    if not one.is_known:
        return [claim.words, claim.published, 'no interval', one.verdict, NEEDED, data, path]
    data = f'{data}, {len(one.entry["seeds"])} seeds'
    pair = f'{claim.measure}: {claim.method} minus {one.entry["baseline"]}'
    ours = f'{d["estimate"]:+.2f} [{d["lo"]:.2f}, {d["hi"]:.2f}] ({pair})'
    return [claim.words, claim.published, ours, one.verdict, _advice(one), data, path]


def _advice(one: Outcome) -> str:
    """What would decide an undecided claim."""
    if one.verdict != UNDECIDED:
        return ''
    known: dict[str, Any] = dict(one.difference)
    return advice(Difference(**known), one.margin, len(one.entry['seeds'])) or 'more seeds'


def _commands(each: Sequence[Outcome]) -> str:
    """Every record with the command that wrote it."""
    recorded = {one.path.relative_to(REPOSITORY).as_posix(): one.record for one in each if one.record}
    lines = [
        f'- [{path}](../{path}): `{record["command"]}` (commit {record["commit"]})' for path, record in recorded.items()
    ]
    return '\n'.join(['Recorded by:', '', *lines, '']) if lines else 'Nothing is recorded.\n'
