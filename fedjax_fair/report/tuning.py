"""What tuning searched, tried and chose: from tuning.json to Markdown and to a section of the page."""

from __future__ import annotations

import pathlib
from typing import Any

from fedjax_fair.escaping import as_html, as_markdown
from fedjax_fair.publishing import publish
from fedjax_fair.report.pieces import html_table, markdown_table
from fedjax_fair.results import TUNING, tuning
from fedjax_fair.results.chance import NOT_LEARNED

Record = dict[str, Any]
Texts = tuple[list[str], list[list[str]]]


def tuning_text(out: pathlib.Path) -> str:
    """What tuning.json of a folder says, as Markdown; empty if there is none."""
    if not (out / TUNING).exists():
        return ''
    record = tuning(out)
    parts = [f'# Tuning\n\n{as_markdown(budget_in_words(record))}\n']
    for recipe, found in record['recipes'].items():
        parts.append(f'## {as_markdown(recipe)}\n\n{markdown_table(*_space(found), left=2)}')
        parts.append(markdown_table(*_trials(record, found)))
        parts.append(f'{as_markdown(f"{recipe}: {_chosen(found)}")}\n')
    return '\n'.join(parts)


def tuning_section(out: pathlib.Path) -> str:
    """Write tuning.md into a folder in which recipes were tuned; returns the section of the page."""
    if not (out / TUNING).exists():
        return ''
    record = tuning(out)
    publish(out / 'tuning.md', tuning_text(out))
    blocks = [
        f'<details class="trials"><summary>{as_html(recipe)} <span>{as_html(_chosen(found))}</span></summary>'
        f'{html_table(*_space(found))}{html_table(*_trials(record, found))}</details>'
        for recipe, found in record['recipes'].items()
    ]
    return f'<section><h2>Tuning</h2><p>{as_html(budget_in_words(record))}</p>{"".join(blocks)}</section>'


def budget_in_words(record: Record) -> str:
    """The budget of every recipe, and by what trials were judged."""
    rungs, seeds = record['rungs'], len(record['trial_seeds'])
    steps = ', then '.join(f'{rung["trials"]} trials of {rung["rounds"]} rounds' for rung in rungs)
    total = seeds * sum(rung['trials'] * rung['rounds'] for rung in rungs)
    judged = {'mean': 'the mean score of the clients', 'worst': 'the score of the worst group (client, without groups)'}
    return (
        f'Every recipe has the same budget: {steps}, with {seeds} seed{"s" * (seeds > 1)}, {total} rounds in all. '
        f'Trials are judged by {judged[record["objective"]]} on validation data, {record["validation"]:.0%} of each '
        f"client's training examples. They use no test example. The final runs have other seeds than the trials."
    )


def _space(found: Record) -> Texts:
    return ['setting', 'search space'], [[name, space] for name, space in found['space'].items()]


def _trials(record: Record, found: Record) -> Texts:
    """A row per trial: its settings and its validation score after the rounds of every rung."""
    rounds = [str(rung['rounds']) for rung in record['rungs']]
    rows = []
    for number, trial in enumerate(found['trials']):
        name = 'as given' if number == 0 else str(number)
        mark = ' (chosen)' if number == found.get('chosen') else ''
        scores = [_percent(trial['scores'].get(length)) + _doubt(trial, length) for length in rounds]
        rows.append([name + mark, *(f'{value:g}' for value in trial['point'].values()), *scores])
    return ['trial', *found['space'], *(f'validation score after {length} rounds' for length in rounds)], rows


def _percent(score: float | None) -> str:
    return '–' if score is None else f'{100 * score:.2f}'


def _doubt(trial: Record, rounds: str) -> str:
    """The mark of a trial whose models learned nothing in so many rounds."""
    return '' if trial.get('learned', {}).get(rounds, True) else f' ({NOT_LEARNED})'


def _chosen(found: Record) -> str:
    if found.get('chosen') is None:
        return 'not finished'
    trial = found['trials'][found['chosen']]
    point = ', '.join(f'{name}={value:g}' for name, value in trial['point'].items())
    which = 'the settings as given' if found['chosen'] == 0 else f'trial {found["chosen"]}'
    judged = f' by {_sets(found)}' if 'validation_examples' in found else ''
    lost = [one for one in found['trials'] if any(not up for up in one.get('learned', {}).values())]
    words = f'chosen is {which} ({point}){judged}; trials were trained on {found["examples_trained"]:,.0f} examples'
    if any(trial is one for one in lost):
        return f'{words}; no trial learned anything: AVG on validation data is not above chance'
    return f'{words}; {_avoided(len(lost))}' if lost else words


def _sets(found: Record) -> str:
    sets = found['validation_sets']
    return f'{found["validation_examples"]:,} validation examples in {sets} set{"s" * (sets > 1)}'


def _avoided(count: int) -> str:
    what = 'one trial' if count == 1 else f'{count} trials'
    return f'{what} did not learn (AVG on validation data is not above chance) and could not be chosen'
