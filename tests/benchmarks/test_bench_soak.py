"""Watching a run: what is written down, and which claims it supports."""

import json
import os
import signal
import sys
import time

import jax
import jax.numpy as jnp
import pytest

from benchmarks import soak
from benchmarks.endurance import watch


def line(number, process=1, **changed):
    steady = {'resident_mib': [600, 620], 'own_mib': [400, 410], 'open_files': [30, 40], 'mapped_files': [300, 310]}
    facts = {'process': process, 'round': 10 * number, 'compilations': 31, 'folder_mib': 9.0, 'regions': [2000, 2010]}
    return {**steady, **facts, **changed}


STEADY = [line(number) for number in range(1, 11)]


def test_a_steady_run_supports_all_claims():
    assert set(soak.verdicts(STEADY, 100).values()) == {True}
    noisy = [line(1, compilations=2, resident_mib=[9, 500]), *STEADY[1:-1], line(10, open_files=[30, 99])]
    assert set(soak.verdicts(noisy, 100).values()) == {True}, 'before the warm-up, and for a moment'


@pytest.mark.parametrize(
    'claim, changed',
    [
        ('resident memory', {'resident_mib': [640, 640]}),
        ('mapped regions', {'regions': [2100, 2100]}),
        ('open files', {'open_files': [31, 40]}),
        ('mapped files', {'mapped_files': [301, 310]}),
        ('nothing is compiled', {'compilations': 32}),
    ],
)
@pytest.mark.parametrize('process', [1, 2])
def test_what_grows_breaks_its_claim_alone(claim, changed, process):
    more = [line(number, process) for number in range(11, 15)]
    grown = [line(number, process, **changed) for number in range(15, 21)]
    found = soak.verdicts([*STEADY, *more, *grown], 100)
    assert [name for name, holds in found.items() if not holds] == [name for name in found if name.startswith(claim)]
    assert len(found) == 5


def test_the_page_shows_claims_and_lines():
    run = {'examples': 'disk', 'rounds': 100, 'lines': STEADY, 'seconds': 12.0}
    machine = {'cores': 2, 'memory_gib': 4.0, 'load': 0.5}
    text = soak.as_markdown({'machine': machine, 'commit': 'c0ffee', 'runs': [run]})
    assert 'commit c0ffee' in text and '- yes: open files do not grow' in text and 'NO' not in text
    assert '| 100 | 600 - 620 | 400 - 410 | 30 - 40 | 300 - 310 | 2,000 - 2,010 | 31 | 9.0 |' in text


def test_a_line_is_written_whenever_rounds_were_evaluated(monkeypatch, tmp_path):
    monkeypatch.setattr(watch, 'LOOK', 0.01)
    out, journal = tmp_path / 'out', tmp_path / 'journal.jsonl'
    out.mkdir()
    with watch.watched(out, journal, 2), (out / 'metrics.jsonl').open('w', buffering=1) as history:
        jax.jit(lambda x: x + 41)(jnp.zeros(3))
        for number in (1, 2, 3, 4):
            history.write(json.dumps({'round': number, 'seed': 0}) + '\n')
            deadline = time.monotonic() + 30
            while number % 2 == 0 and _rounds(journal)[-1:] != [number] and time.monotonic() < deadline:
                time.sleep(0.01)
    lines = [json.loads(text) for text in journal.read_text().splitlines()]
    assert [one['round'] for one in lines] == [2, 4] and {one['process'] for one in lines} == {os.getpid()}
    assert lines[0]['compilations'] >= 1 and lines[0]['folder_mib'] > 0
    for name in soak.COLUMNS:
        assert 0 < lines[0][name][0] <= lines[0][name][1]


def _rounds(journal):
    return [json.loads(text)['round'] for text in journal.read_text().splitlines()] if journal.exists() else []


def test_an_open_and_a_mapped_file_are_counted(tmp_path):
    import mmap

    path = tmp_path / 'file'
    path.write_bytes(bytes(4096))
    before = watch.look()
    with path.open('rb') as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        after = watch.look()
    assert after['open_files'] > before['open_files'] and after['mapped_files'] > before['mapped_files']


def test_the_run_does_not_outlive_this_program(monkeypatch, tmp_path):
    """What ends a wait for a process by an exception ends the process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.setattr(sys, 'argv', ['soak', f'--folder={tmp_path}', f'--out={tmp_path}'])
    monkeypatch.setattr(soak, 'soak', lambda *args: signal.raise_signal(signal.SIGTERM))
    try:
        with pytest.raises(SystemExit) as ended:
            soak.main()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert ended.value.code == 128 + signal.SIGTERM


@pytest.mark.parametrize('rounds', ['-1', '0', '2.5', 'x'])
def test_a_number_of_rounds_is_refused_in_one_line(rounds, monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['soak', f'--rounds={rounds}'])
    with pytest.raises(SystemExit) as left:
        soak.main()
    assert left.value.code == 2
    assert f'--rounds: {rounds} is not a whole number of 1 or more' in capsys.readouterr().err


def test_a_run_that_fails_ends_the_soak_with_its_exit_code(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, 'executable', '/bin/false')
    with pytest.raises(SystemExit) as left:
        soak.soak(tmp_path, 4, 'host')
    assert left.value.code == 1
