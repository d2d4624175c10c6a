"""The display: plain lines in a pipe, a live bar in a terminal."""

import io
import re
import time

import pytest
from rich.console import Console

from fedjax_fair.training.progress import Display, fairness_note

FAIRNESS = 'avg 81.0% std 3.0% worst 70.0%'


def show(terminal: bool, quiet: bool = False) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=160, highlight=False, color_system=None)
    with Display('fedavg on digits', 10, console=console, quiet=quiet) as display:
        display.say('clients: vmap')
        with display.compiling('rounds') as clock:
            time.sleep(0.02)
        display.update(1, 2.25)
        display.update(5, 1.5, FAIRNESS)
        display._live.refresh()
    assert clock.seconds >= 0.02
    return stream.getvalue()


def test_plain_lines_outside_a_terminal():
    lines = show(terminal=False).splitlines()
    assert lines[:2] == ['fedavg on digits: clients: vmap', 'fedavg on digits: compiling rounds']
    number = r'[\d.]+'
    pattern = rf'fedavg on digits: round 5/10 loss 1.5 {FAIRNESS} {number} rounds/s {number} s left'
    assert len(lines) == 3 and re.fullmatch(pattern, lines[2])
    assert '\x1b' not in show(terminal=False)


def test_live_bar_in_a_terminal():
    shown = show(terminal=True)
    assert '\x1b[' in shown and 'compiling rounds' in shown
    last = next(line for line in reversed(re.split(r'[\r\n]', shown)) if '5/10' in line)
    for part in ('fedavg on digits', 'loss 1.5', FAIRNESS, 'rounds/s', '0:00:0', '━'):
        assert part in last, part


def test_quiet_shows_warnings_only():
    assert show(terminal=False, quiet=True) == '' and show(terminal=True, quiet=True) == ''
    stream = io.StringIO()
    Display('x', 1, console=Console(file=stream), quiet=True).warn('3 rounds were empty')
    assert stream.getvalue() == 'x: 3 rounds were empty\n'


@pytest.mark.parametrize('terminal', [True, False])
def test_names_of_data_are_printed_as_they_are(capsys, monkeypatch, terminal):
    monkeypatch.setenv('FORCE_COLOR', '1') if terminal else monkeypatch.delenv('FORCE_COLOR', raising=False)
    with Display('fedavg on npz:ten:[red]one', 4) as display:
        display.say('reads npz:ten:[red]one')
        display._live.refresh()
    told = capsys.readouterr().err
    assert 'fedavg on npz:ten:[red]one: reads npz:ten:[red]one' in told.replace('\n', '')
    assert all(char.isascii() or char in '━╸╺•' for char in told)


def test_compilation_does_not_count_for_speed():
    stream = io.StringIO()
    with Display('x', 4, console=Console(file=stream, width=160)) as display:
        with display.compiling('rounds'):
            time.sleep(0.3)
        time.sleep(0.01)
        display.update(2, 1.0, FAIRNESS)
    assert float(re.search(r'([\d.]+) rounds/s', stream.getvalue())[1]) > 2 / 0.3


def test_a_resumed_run_counts_its_own_rounds_only():
    stream = io.StringIO()
    with Display('x', 100, start=90, console=Console(file=stream, width=160)) as display:
        time.sleep(0.1)
        display.update(91, 1.0, FAIRNESS)
    assert float(re.search(r'([\d.]+) rounds/s', stream.getvalue())[1]) <= 10


def test_undefined_fairness_is_no_number():
    assert fairness_note([{'avg': None, 'std': 0.5, 'worst': 0.25}]) == 'avg n/a std 50.0% worst 25.0%'
