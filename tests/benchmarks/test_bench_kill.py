"""Runs that are killed: real processes and signals, with a small program in the place of the command line."""

import json
import signal
import sys

import numpy as np
import pytest

from benchmarks import kill
from benchmarks.endurance import phases, processes
from benchmarks.endurance.differences import differences

# Writes one line per round and goes on where it was stopped; LAST is what its last line says.
RUN = """
import faulthandler, pathlib, signal, sys, time
faulthandler.register(signal.SIGURG, open(sys.argv.pop(1), 'w'), all_threads=True)
out = pathlib.Path(next(word for word in sys.argv if word.startswith('--out=')).removeprefix('--out='))
resumed, done = '--resume' in sys.argv, out / 'metrics.jsonl'
out.mkdir(parents=True, exist_ok=True)
def _rounds():
    for number in range(len(done.read_text().splitlines()) if done.exists() else 0, 20):
        with done.open('a') as file:
            file.write('last %s\\n' % LAST if number == 19 else 'round %s\\n' % number)
        end = time.process_time() + 0.01
        while time.process_time() < end: pass
_rounds()
(out / 'config.json').write_text('{"rounds": 20, "command": "%s"}' % resumed)
"""
JOB = kill.Job('scaffold', 'host', 'disk')
STOPS = (kill.Stop('SIGKILL', 0.5, 0.0), kill.Stop('SIGTERM', 0.3, 0.0), kill.Stop('SIGKILL', 9.0, 0.0))


def measured(monkeypatch, folder, last):
    monkeypatch.setattr(processes, 'PROGRAM', RUN.replace('LAST', last))
    monkeypatch.setattr(kill, 'trial', lambda number, jobs: kill.Trial(number, JOB, False, STOPS))
    return kill.measure(folder, 2, [JOB])


def test_trials_stop_real_processes_and_compare_what_they_end_with(monkeypatch, tmp_path):
    first, reference, one = measured(monkeypatch, tmp_path, '0')
    assert {'machine', 'commit'} <= first.keys() and reference['differences'] == []
    assert [(hit['signal'], hit['code']) for hit in one['kills']] == [('SIGKILL', -9), ('SIGTERM', -15)]
    assert one['failures'] == [] and not (tmp_path / 'trials' / '0').exists()
    text = kill.as_markdown([first, reference, one])
    assert '1 of 1 trials end as' in text and '| scaffold | host | disk | 1 | 2 | 1 |' in text
    assert 'every signal was answered' in text
    assert measured(monkeypatch, tmp_path, '0') == [first, reference, one]  # all of it was in the journal


def test_a_trial_that_ends_with_other_bytes_fails_in_words(monkeypatch, tmp_path):
    *_, one = journal = measured(monkeypatch, tmp_path, 'resumed')
    assert one['failures'] == ['metrics.jsonl differs'] and (tmp_path / 'trials' / '0' / 'out').exists()
    assert '- Trial 0 failed: scaffold host disk: SIGKILL' in kill.as_markdown(journal)


def test_half_a_line_of_the_journal_is_dropped(tmp_path):
    path = tmp_path / 'journal.jsonl'
    path.write_text('{"commit": "c"}\n{"number": 0, "ki')
    assert kill.read_journal(path) == [{'commit': 'c'}] and path.read_text() == '{"commit": "c"}\n'


def test_trials_cover_all_jobs_signals_and_moments():
    trials = [kill.trial(number) for number in range(100)]
    stops = [stop for one in trials for stop in one.stops]
    assert {one.job for one in trials} == set(kill.JOBS) and {one.cold for one in trials} == {True, False}
    assert {stop.signal for stop in stops} == {number.name for number in kill.SIGNALS}
    assert set(np.digitize([stop.share for stop in stops], np.linspace(0, 1, 11))) == set(range(1, 11))


LINE = '  File "/p/fedjax_fair/training/{}", line 1 in {}\n'
END = '  File "<string>", line 5 in <module>\n'


@pytest.mark.parametrize(
    'phase, frames',
    [
        ('start-up', '  File "<frozen importlib._bootstrap>", line 9 in _load\n' + END),
        ('start-up', '  File "<frozen importlib._bootstrap>", line 9 in _load\n  ...\n'),
        ('compile', '  File "/jax/pjit.py", line 9 in trace\n  ...\n'),
        ('compile', '  File "/jax/stages.py", line 9 in lower\n' + LINE.format('loop.py', '_rounds') + END),
        ('checkpoint', LINE.format('loop.py', '_save') + LINE.format('loop.py', '_rounds') + END),
        ('last checkpoint', LINE.format('checkpoint.py', 'close') + LINE.format('loop.py', 'run') + END),
        ('data and config', LINE.format('loop.py', '__init__') + LINE.format('loop.py', 'run') + END),
        ('exit', '  File "/lib/threading.py", line 9 in _shutdown\n'),
    ],
)
def test_the_phase_is_that_of_the_main_thread(phase, frames):
    other = 'Thread 0x2 (most recent call first):\n  File "/orbax/checkpoint/x.py", line 1 in _finish\n\n'
    stacks = f'{other}Current thread 0x1 (most recent call first):\n{frames}'
    assert phases.phase_of(stacks) == phase and phase in phases.PHASES
    assert phases.writes_checkpoint(stacks) and not phases.writes_checkpoint(stacks.removeprefix(other))


def test_folders_differ_in_what_is_named(tmp_path):
    for name, seconds, loss in (('one', 1, 0.5), ('two', 2, 0.5), ('three', 1, 0.25)):
        (tmp_path / name).mkdir()
        (tmp_path / name / 'summary.json').write_text(json.dumps({'seconds': seconds, 'loss': loss}))
        np.savez(tmp_path / name / 'predictions.npz', probabilities=np.full(3, loss))
    (tmp_path / 'three' / '.fedjax_fair.lock').touch()
    assert differences(tmp_path / 'one', tmp_path / 'two', 4) == []
    found = differences(tmp_path / 'one', tmp_path / 'three', 4)
    assert found == [
        '.fedjax_fair.lock is in one folder only',
        'summary.json: loss differs',
        'predictions.npz: probabilities differs',
    ]


def test_runs_answer_ctrl_c_though_this_program_is_in_the_background(monkeypatch, tmp_path):
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(sys, 'argv', ['kill', f'--folder={tmp_path}', f'--out={tmp_path}'])
    monkeypatch.setattr(processes, 'PROGRAM', 'import time; time.sleep(5)')
    found = []

    def measure(folder, wanted):
        found.append(processes.stop([], folder, folder / 'process', signal.SIGINT, 0.0, 0.5).ended.code)
        return [{'machine': 'one', 'commit': 'c'}]

    monkeypatch.setattr(kill, 'measure', measure)
    monkeypatch.setattr(kill, 'write', lambda *args: None)
    monkeypatch.setattr(kill, 'as_markdown', lambda journal: '')
    try:
        kill.main()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert found != [0]


def test_a_process_that_ends_before_its_moment_is_not_killed(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, 'PROGRAM', 'import sys; sys.exit(3)')
    found = processes.stop([], tmp_path, tmp_path / 'process', signal.SIGKILL, 100.0, 0.0)
    assert isinstance(found, processes.Ended) and found.code == 3
