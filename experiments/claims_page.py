"""docs/claims.md: every claim with the paper's number, ours with its interval, the verdict and the record.

README shows how many claims of each paper have which verdict.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.claims import (
    CONTRADICTED,
    EFFECT_SHARE,
    NOT_RECORDED,
    REPOSITORY,
    SO_FAR,
    SUPPORTED,
    UNDECIDED,
    Found,
    Outcome,
    margin_of,
    outcomes,
)
from experiments.study import markdown
from fedjax_fair.report.verdict_words import advice, points
from fedjax_fair.results.measures import Difference

PATH, README = REPOSITORY / 'docs' / 'claims.md', REPOSITORY / 'README.md'
SUMMARY = re.compile(r'(?<=<!-- verdicts -->\n).*?(?=<!-- end of verdicts -->)', re.DOTALL)
VERDICTS = (SUPPORTED, SUPPORTED + SO_FAR, CONTRADICTED, CONTRADICTED + SO_FAR, UNDECIDED, NOT_RECORDED)
TITLES = {'fedism': 'FedISM', 'fedtilt': 'FedTilt', 'harmofl': 'HarmoFL', 'fedheal': 'FedHEAL', 'fedld': 'FedLD'}
CHANCE = 0.05  # that a 95 % interval misses the truth
HEAD = f"""# What the five papers claim, and what our runs say

This page is computed from the records below `experiments/*/results` by `python -m experiments.papers --claims`, and a
test compares it with them. A difference is a mean over seeds with its 95 % interval.

- **supported**: the interval lies on the side that the paper says. A claim of "not lower" or "not higher" allows the
  margin.
- **contradicted**: the interval lies on the other side, or the 90 % interval lies within the margin: there is no
  difference worth naming.
- **undecided**: neither, or there is no interval. A column says what would decide.
- **not recorded**: the run that would decide has not been recorded yet.

The margin is the smallest difference of interest of the table (1 point of a score), but at most
{100 * EFFECT_SHARE:g} % of the smallest difference that the paper prints. So a claim is never contradicted for want of
a difference while the 90 % interval holds that much of it.

Follow-ups try what may explain an outcome, by the same rule. If one says the opposite, the claim is **undecided**, and
the verdict names what it depends on. A verdict whose follow-ups are not all recorded is one **so far**. Follow-ups
that are undecided themselves change nothing.

All runs are small: other data, smaller networks and fewer rounds than in the papers. A verdict is about the claim on
the data that are named, not about the papers' own runs.
"""
NUMBERS = (
    'Intervals of this page are not corrected for their number: of {count} intervals about {missed:.0f} would miss the '
    'truth by chance.\nVerdicts in the tables of the records rest on p values that are corrected (Holm) within each '
    'measure of a table, and\ncan be more cautious.\n'
)
NEEDED = 'several seeds of models that do not diverge'  # for a difference with an interval
COLUMNS = ['claim', 'the paper', 'ours, 95 % interval', 'verdict', 'follow-ups', 'what would decide', 'data', 'record']


def pages() -> dict[pathlib.Path, str]:
    """The whole page, and README with its summary."""
    found = outcomes()
    return {PATH: text(found), README: SUMMARY.sub(lambda _: f'{summary(found)}\n', README.read_text())}


def kind(one: Outcome) -> str:
    """The verdict without what it depends on."""
    return one.verdict.partition(':')[0]


def summary(found: Mapping[str, Sequence[Outcome]]) -> str:
    """How many claims of each paper have which verdict."""
    counts = {paper: [kind(one) for one in each] for paper, each in found.items()}
    rows = [[TITLES[paper], *(str(each.count(verdict)) for verdict in VERDICTS)] for paper, each in counts.items()]
    return '\n'.join(markdown(['paper', *VERDICTS], rows))


def text(found: Mapping[str, Sequence[Outcome]]) -> str:
    """The whole page."""
    verdicts = [kind(one) for each in found.values() for one in each]
    total = ', '.join(f'{verdicts.count(verdict)} {verdict}' for verdict in sorted(set(verdicts)))
    numbers = NUMBERS.format(count=len(verdicts), missed=CHANCE * len(verdicts))
    parts = [HEAD, numbers, f'{len(verdicts)} claims: {total}.\n']
    for paper, each in found.items():
        if each:
            table = '\n'.join(markdown(COLUMNS, [_row(one) for one in each]))
            parts += [f'## {TITLES[paper]}\n', f'{table}\n', _commands(each)]
    return '\n'.join(parts)


def _row(one: Outcome) -> list[str]:
    claim, own = one.claim, one.found
    ours, needed, data = _ours(one)
    path = own.path.relative_to(REPOSITORY).as_posix()
    return [claim.words, claim.published.words, ours, one.verdict, _tried(one), needed, data, path]


def _ours(one: Outcome) -> tuple[str, str, str]:
    """Our number, what would decide, and the data."""
    own, entry = one.found, one.found.entry
    if own.verdict == NOT_RECORDED:
        return '', '', ''
    data = own.record['data'].get('name', 'several')
    if not own.is_known:
        return 'no interval', NEEDED, data
    margin = margin_of(one.claim.published, own.recorded_margin)
    about = f'{own.place.measure}: {own.place.method} minus {entry["baseline"]}; margin {margin:.2g}'
    counted = f'{data}, {len(entry["seeds"])} seeds; intervals count {entry["counts"]}'
    return f'{_difference(own)} ({about})', _advice(own, margin), counted


def _difference(found: Found) -> str:
    d = found.difference
    return f'{d["estimate"]:+.2f} [{d["lo"]:.2f}, {d["hi"]:.2f}]'


def _tried(one: Outcome) -> str:
    """What the follow-ups say, and which of them were not yet tried."""
    said, missing = [], []
    for cause, found in one.follow_ups.items():
        if found.verdict == NOT_RECORDED:
            missing.append(cause)
        else:
            said.append(f'{cause}: {f"{_difference(found)} {found.verdict}" if found.is_known else "no interval"}')
    return '; '.join([*said, *([f'not yet tried: {", ".join(missing)}'] if missing else [])])


def _advice(found: Found, margin: float) -> str:
    """What would decide an undecided claim."""
    if found.verdict != UNDECIDED:
        return ''
    known: dict[str, Any] = dict(found.difference)
    told = advice(Difference(**known), found.recorded_margin, len(found.entry['seeds'])) or 'more seeds'
    if margin == found.recorded_margin:
        return told
    return f'{told}; half the published difference, {points(round(margin, 2))}, takes more'


def _commands(each: Sequence[Outcome]) -> str:
    """Every record with the command that wrote it."""
    found = [place for one in each for place in (one.found, *one.follow_ups.values())]
    recorded = {one.path.relative_to(REPOSITORY).as_posix(): one.record for one in found if one.record}
    lines = [
        f'- [{path}](../{path}): `{record["command"]}` (commit {record["commit"]})' for path, record in recorded.items()
    ]
    return '\n'.join(['Recorded by:', '', *lines, '']) if lines else 'Nothing is recorded.\n'
