"""Verdicts in words: one line for every recipe, and what stands in and below a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedjax_fair.results.chance import unlearned
from fedjax_fair.results.comparison import DIVERGED
from fedjax_fair.results.findings import Findings
from fedjax_fair.results.measures import NO_SPREAD, ONE_SEED, TOO_FEW, Difference
from fedjax_fair.results.report_files import FEW_GROUPS
from fedjax_fair.stats.verdicts import (
    BETTER,
    IDENTICAL,
    SLIGHTLY_BETTER,
    SLIGHTLY_WORSE,
    UNDECIDED,
    WORSE,
)

UP, DOWN = (BETTER, SLIGHTLY_BETTER), (WORSE, SLIGHTLY_WORSE)


WIDE = 5.0  # points: beside half an interval as wide as this, tenths of a point say nothing


def digits_beside(lo: float | None, hi: float | None, digits: int = 1) -> int:
    """How many digits a number and its interval are shown with: none where the interval is wide.

    An end that whole points would make 0 keeps its digits: it may decide.

    >>> digits_beside(80.1, 83.9), digits_beside(62.3, 87.1), digits_beside(0.3, 14.2)
    (1, 0, 1)
    """
    if lo is None or hi is None or hi - lo <= 2 * WIDE:
        return digits
    return 0 if all(end == 0 or abs(end) >= 0.5 for end in (lo, hi)) else digits


def number(value: float, digits: int = 1) -> str:
    """A number without a negative zero.

    >>> number(-0.04), number(81.26)
    ('0.0', '81.3')
    """
    return f'{round(value, digits) + 0.0:.{digits}f}'


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign; zero has none.

    >>> signed(1.94), signed(-0.32), signed(-0.04)
    ('+1.9', '-0.3', '0.0')
    """
    rounded = round(value, digits) + 0.0
    return f'{rounded:+.{digits}f}' if rounded else number(0.0, digits)


def points(margin: float) -> str:
    """A margin in words.

    >>> points(1.0), points(0.5)
    ('1 point', '0.5 points')
    """
    return f'{margin:g} point{"" if margin == 1 else "s"}'


def word(difference: Difference, margin: float) -> str:
    """The verdict, with the margin in place of delta."""
    return difference.verdict.replace('delta', points(margin))


def needed(difference: Difference, seeds: int) -> str:
    """In short, what would decide a difference of the margin; empty where that is not known or already there."""
    if difference.seeds_needed is not None:
        return f'~{difference.seeds_needed} seeds' if difference.seeds_needed > seeds else ''
    times = difference.patients_needed
    return f'~{_times(times)}x patients' if times is not None and times > 1 else ''


def short_word(difference: Difference, margin: float, seeds: int) -> str:
    """The verdict as a table has it: ``undecided, ~12 seeds``, ``no difference above 1 point``."""
    told = word(difference, margin).replace('by less than', 'below').replace('larger than', 'above')
    more = needed(difference, seeds) if difference.verdict == UNDECIDED else ''
    return f'{told}, {more}' if more else told


def advice(difference: Difference, margin: float, seeds: int) -> str:
    """In full, what would decide a difference of the margin."""
    if difference.verdict != UNDECIDED:
        return ''
    if difference.seeds_needed is not None:
        if difference.seeds_needed <= seeds:
            return f'{seeds} seeds are enough to find {points(margin)} in most cases: the difference may be smaller'
        return f'about {difference.seeds_needed} seeds would decide a difference of {points(margin)}'
    times = difference.patients_needed
    if times is not None and times > 1:
        return f'no number of seeds decides {points(margin)}; about {_times(times)} times as many test patients would'
    return f'more than 1000 seeds would be needed to decide {points(margin)}'


def _times(times: float) -> str:
    """Rounded up to two digits: the estimate of a variance bears no more.

    >>> _times(1.63), _times(56.2), _times(1763.0)
    ('1.7', '57', '1800')
    """
    step = 10.0 ** (max(0, math.floor(math.log10(times))) - 1)
    return f'{math.ceil(times / step - 1e-9) * step:.{1 if step < 1 else 0}f}'.removesuffix('.0')


def fairness(avg: Difference, spread: Difference, margin: float) -> str:
    """What a difference of spreads means, beside that of AVG.

    Fairer at no cost: the spread is smaller, and the 95 % interval of the difference of AVG lies above minus the
    margin.
    """
    if spread.verdict in UP:
        fairer = 'fairer' if spread.verdict == BETTER else f'fairer (by less than {points(margin)})'
        if avg.lo > -margin:
            return f'{fairer} at no cost'
        return f'{fairer}, at a cost' if avg.verdict in DOWN else f'{fairer}; whether at a cost is undecided'
    if spread.verdict in DOWN:
        return 'less fair' if spread.verdict == WORSE else f'less fair (by less than {points(margin)})'
    return word(spread, margin)


def conclusion(avg: Difference, spread: Difference | None, margin: float) -> str:
    """AVG and spread in one phrase."""
    slight = f' (by less than {points(margin)})'
    means = {
        **{one: f'better on average{"" if one == BETTER else slight}' for one in UP},
        **{one: f'worse on average{"" if one == WORSE else slight}' for one in DOWN},
    }
    if spread is None:
        return means.get(avg.verdict, word(avg, margin))
    fair = fairness(avg, spread, margin)
    if avg.verdict == spread.verdict and avg.verdict not in (*UP, *DOWN):
        return word(avg, margin)
    if spread.verdict in UP and avg.verdict in UP:
        return f'{means[avg.verdict]} and {fair.removesuffix(" at no cost")}'
    if spread.verdict in UP:
        return fair
    told = fair if spread.verdict in (*DOWN, NO_SPREAD) else f'spread {fair}'
    return f'{means.get(avg.verdict, f"AVG {word(avg, margin)}")}; {told}'


def interval(difference: Difference) -> str:
    """``0.3 to 2.1``"""
    digits = digits_beside(difference.lo, difference.hi)
    return f'{number(difference.lo, digits)} to {number(difference.hi, digits)}'


def shown(difference: Difference) -> str:
    """``+1.2``, with as many digits as its interval."""
    return signed(difference.estimate, digits_beside(difference.lo, difference.hi))


def sentence(found: Findings, place: int) -> str:
    """What is known about one recipe beside the baseline; empty for the baseline itself."""
    run, base = found.runs[place].label, found.base.label
    if place == found.baseline or found.swept:
        return ''
    if found.runs[place].diverged():
        return f'{run}: {DIVERGED}'
    if found.comparison is None or found.reasons[place]:
        return f'{run}: undecided ({found.reasons[place] or found.reasons[found.baseline]})'
    avg, spread = (_difference(found, key, place) for key in ('avg', 'spread'))
    assert avg is not None  # every comparison has an AVG
    if avg.verdict == ONE_SEED:
        told = f'AVG {_over(avg, base)} (95 % interval {interval(avg)})'
        return f'{run}: {told} for these two models; one seed says nothing about the methods'
    if told := _unlearned(found, place, avg, spread):
        return f'{run}: {told}'
    if avg.verdict == IDENTICAL and (spread is None or spread.verdict in (IDENTICAL, NO_SPREAD)):
        return f'{run}: identical predictions to {base}'
    return f'{run}: {_told(found, place, avg, spread, base)}{_advices(found, avg, spread)}'


def _unlearned(found: Findings, place: int, avg: Difference, spread: Difference | None) -> str:
    """What is said of a recipe that did not learn, or beside a baseline that did not; empty where both learned."""
    run, base = found.runs[place], found.base
    own, other = (unlearned(one, one.headline) for one in (run, base))
    if not (own or other):
        return ''
    told = f'AVG {_over(avg, base.label)} (95 % interval {interval(avg)})'
    parts = [f'{own}: {told}' if own else f'{told}: {word(avg, found.margin)}']
    parts += [f'{base.label} {other}'] if other else []
    if spread is not None:
        parts.append(f'{"their spreads mean" if own and other else "its spread means"} nothing')
    return '; '.join(parts)


def sentences(found: Findings) -> list[str]:
    """The lines of all recipes but the baseline."""
    return [line for place in range(len(found.runs)) if (line := sentence(found, place))]


def _told(found: Findings, place: int, avg: Difference, spread: Difference | None, base: str) -> str:
    groups = few_groups(found, place)
    if not groups:
        return _both(found, avg, spread, base)
    (name, first), *rest = groups
    told = f'{name} {_over(first, base)} (95 % interval {interval(first)})'
    more = ''.join(f', {name} {shown(own)} ({interval(own)})' for name, own in rest)
    return f'{told}{more}: {conclusion(avg, spread, found.margin)}'


def few_groups(found: Findings, place: int) -> list[tuple[str, Difference]]:
    """The groups of a scenario and their differences, the largest first, where there are so few that all are named."""
    groups = [(one.name, own) for one in found.units if (own := one.differences[place]) is not None]
    if found.over != 'groups' or not 1 < len(groups) <= FEW_GROUPS or any(own.verdict == TOO_FEW for _, own in groups):
        return []
    return sorted(groups, key=lambda pair: -pair[1].estimate)


def _both(found: Findings, avg: Difference, spread: Difference | None, base: str) -> str:
    told = f'AVG {_over(avg, base)} (95 % interval {interval(avg)}): {word(avg, found.margin)}'
    if spread is None or spread.verdict == NO_SPREAD:
        return told if spread is None else f'{told}; {NO_SPREAD}'
    return f'{told}; spread {shown(spread)} ({interval(spread)}): {fairness(avg, spread, found.margin)}'


def paragraph(found: Findings, place: int, more: Sequence[str] = ()) -> str:
    """All that a reader of a single comparison wants to know, in some sentences; ``more`` lines come last."""
    avg, spread = (_difference(found, key, place) for key in ('avg', 'spread'))
    parts = [sentence(found, place)]
    if avg is not None and avg.verdict not in (ONE_SEED, IDENTICAL):
        if few_groups(found, place) and not _unlearned(found, place, avg, spread):
            parts.append(_both(found, avg, spread, found.base.label))
        if avg.chance is not None:
            run, base = found.runs[place].label, found.base.label
            chance = f'{100 * min(0.99, max(0.01, avg.chance)):.0f} %'
            parts.append(f'The chance that one run of {run} has a higher AVG than one run of {base}: about {chance}')
    parts += [_begun(found, line) for line in (foot(found), *found.notes, *more)]
    return ' '.join(f'{part}.' for part in parts)


def _begun(found: Findings, line: str) -> str:
    """A line as a sentence: it begins with a capital letter, unless it begins with the name of a recipe or a site."""
    names = (*(run.label for run in found.runs), *(unit.name for unit in found.units))
    return line if line.startswith(names) else line[:1].upper() + line[1:]


def _over(difference: Difference, base: str) -> str:
    told = shown(difference)
    return f'{told} points {"over" if told.startswith("+") else "vs"} {base}'


def _advices(found: Findings, avg: Difference, spread: Difference | None) -> str:
    seeds = len(found.comparison.seeds) if found.comparison else 0
    told = {name: advice(one, found.margin, seeds) for name, one in (('AVG', avg), ('spread', spread)) if one}
    return ''.join(f'. {name}: {in_units(found, text)}' for name, text in told.items() if text)


def in_units(found: Findings, text: str) -> str:
    """A text about seeds, in data seeds where these take their place."""
    several = any(len(run.data_seeds) > 1 for run in found.runs)
    return text.replace(' seeds', ' data seeds').replace(' new data seeds', ' new data') if several else text


def _difference(found: Findings, key: str, place: int) -> Difference | None:
    return found.measures[key].differences[place] if key in found.measures else None


def foot(found: Findings) -> str:
    """What the intervals of a table are about."""
    comparison = found.comparison
    if comparison is None:
        return (
            f'no intervals and no verdicts: {found.reasons[found.baseline]}; seed sd is the standard deviation over '
            'seeds (ddof 1), which knows nothing of test patients'
        )
    seeds, patients = len(comparison.seeds), comparison.patients
    counted = f'{patients} patients' if comparison.patients_known else f'{patients} test examples (patients unknown)'
    about = (
        'new seeds and new patients of the same test sets'
        if seeds > 1
        else 'new patients of the same test sets, these models'
    )
    parts = [f'95 % intervals: {about}', f'{seeds} seed{"" if seeds == 1 else "s"}, {counted}']
    others = 0 if found.swept else len(comparison.runs) - 1
    if others > 1 and seeds > 1:
        parts.append(f'Holm over {others} comparisons with {found.base.label}')
    if others:
        parts.append(f'margin {points(found.margin)}')
    return in_units(found, '; '.join(parts))
