"""What runs cost, as a section of the HTML report: what their methods ask for first, the clock last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedjax_fair.escaping import as_html
from fedjax_fair.results import Run

WORK = {'steps': 'steps', 'examples': 'examples', 'gradient_passes': 'gradients', 'forward_passes': 'forward'}
TIME = ('seconds', 'compile s', 'rounds/s', 'load/core', 'cores')
NOTE = (
    'Steps are those of all clients. Examples are all that clients read, for training and for measurements. Gradients '
    'are batches of which a gradient is taken (forward and backward), forward those that only run through the network; '
    'both are counted in what the recipe asks of the network. kB are of 1000 bytes. Padding is the share of training '
    'slots that hold no example.'
)
TIME_NOTE = (
    'Seconds depend on the machine and on what else it does: compare them at equal load only. Load/core is the mean '
    'number of processes that wanted a core, per core; 1 is a machine that is just busy.'
)


def costs_section(runs: Sequence[Run]) -> str:
    """Work and traffic per round and in all rounds, then time with the load of the machine."""
    work = {
        'Work of a round': [_work(run, 1) for run in runs],
        'Work in all rounds': [_work(run, run.summary['rounds']) for run in runs],
    }
    tables = ''.join(f'<h3>{title}</h3>{_table(runs, rows)}' for title, rows in work.items())
    timed = [run for run in runs if run.summary.get('load_per_core') is not None]
    time = ''
    if timed:
        time = f'<h3>Time</h3>{_table(timed, [_time(run) for run in timed])}<p class="note">{TIME_NOTE}</p>'
    return f'<section><h2>Cost</h2>{tables}<p class="note">{NOTE}</p>{time}</section>'


def _work(run: Run, rounds: int) -> dict[str, str]:
    work: Mapping[str, Any] = run.summary.get('work_per_round') or {}
    sent: Mapping[str, Any] = run.summary.get('bytes_per_round') or {}
    counts = {head: number(work.get(name), ',.0f', rounds) for name, head in WORK.items()}
    traffic = {f'kB {way}': number(sent.get(way), ',.1f', rounds / 1000) for way in ('down', 'up')}
    return counts | traffic | {'padding': number(run.summary.get('padding_waste'), '.0f', 100, ' %')}


def _time(run: Run) -> dict[str, str]:
    summary = run.summary
    names = ('seconds', 'compile_seconds', 'rounds_per_second', 'load_per_core', 'cores')
    forms = ('.1f', '.1f', '.2f', '.2f', 'd')
    return {head: number(summary.get(name), form) for head, name, form in zip(TIME, names, forms, strict=True)}


def _table(runs: Sequence[Run], rows: Sequence[Mapping[str, str]]) -> str:
    several = len({run.scenario for run in runs}) > 1
    head = ''.join(f'<th>{name}</th>' for name in ('recipe', *(['scenario'] if several else []), *rows[0]))
    lines = []
    for run, row in zip(runs, rows, strict=True):
        names = ''.join(f'<th>{as_html(name)}</th>' for name in (run.label, *([run.scenario] if several else [])))
        lines.append(f'<tr>{names}{"".join(f"<td>{as_html(fact)}</td>" for fact in row.values())}</tr>')
    body = f'<table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
    return f'<div class="wide">{body}</div>'


def number(value: float | None, form: str, scale: float = 1, unit: str = '') -> str:
    """A number in a form; a dash where there is none."""
    return '–' if value is None else f'{value * scale:{form}}{unit}'
