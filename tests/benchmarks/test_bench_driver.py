"""The driver of the benchmarks against scripted workers: protocol, order of turns, and peers that fail."""

import dataclasses
import io
import json
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from benchmarks.peers import compare, environment, peak, processes
from benchmarks.peers.compare import ROOT, WARM_UP, measure
from benchmarks.peers.contenders import CONTENDERS, OURS, Contender
from benchmarks.peers.job import JOBS, Job
from benchmarks.peers.protocol import Worker, WorkerError, serve

JOB = Job('tiny', 'a tiny job', clients=3, samples=7, tests=2, image=(2, 2, 1), classes=3, cohort=2, epochs=3, batch=4)
FAKE = """
import sys
from benchmarks.peers.protocol import main

class Fake:
    def __init__(self, job, data, name, diary):
        self.job, self.name, self.diary, self.rounds = job, name, diary, 0
        print('noise of a library')
    def facts(self):
        return {'parameters': 5, 'how': self.name, 'versions': {}, 'image': self.job.image}
    def round(self):
        self.rounds += 1
        if self.name == 'broken' and self.rounds == 2:
            sys.exit('out of luck')
        with open(self.diary, 'a') as file:
            file.write(self.name[0])
    def check(self):
        work = {'examples': self.job.examples_per_round, 'steps': self.job.steps_per_round}
        return {'loss': (4 if self.name == 'slow' else 1) / (1 + self.rounds), **work}

main(Fake)
"""


def fake_command(name: str, diary: pathlib.Path, python: str = sys.executable) -> list[str]:
    return [python, '-c', FAKE, JOB.to_json(), 'unused', f'name={name}', f'diary={diary}']


@pytest.fixture
def start(tmp_path: pathlib.Path):
    """Start fake workers that write the first letter of their name into one diary at every round."""
    running = []

    def one(name: str) -> Worker:
        running.append(Worker(name, fake_command(name, tmp_path / 'diary'), cwd=ROOT))
        return running[-1]

    yield one
    for worker in running:
        worker.close()


def test_workers_take_turns_and_keep_their_own_answers(start, tmp_path):
    sides, left_out = measure(start, ['a', 'b'], rounds=3)
    assert left_out == {}
    assert (tmp_path / 'diary').read_text() == 'ab' * (1 + WARM_UP + 3)
    for name, found in sides.items():
        assert found.facts['how'] == name
        assert found.facts['image'] == [2, 2, 1]
        assert len(found.seconds) == len(found.cpu_seconds) == 3
        assert min(found.seconds) > 0
        assert min(found.cpu_seconds) >= 0
        assert found.peak_mib > 1
        assert found.before['loss'] == 1
        assert found.after['loss'] == 1 / (1 + 1 + WARM_UP + 3)


def test_a_peer_that_dies_is_left_out_and_the_others_go_on(start, tmp_path):
    sides, left_out = measure(start, ['a', 'broken', 'c'], rounds=2)
    assert list(sides) == ['a', 'c']
    assert left_out == {'broken': 'failed: broken ended with code 1 before it answered: out of luck'}
    assert (tmp_path / 'diary').read_text() == 'abc' + 'ac' * (WARM_UP + 2)


def test_ours_must_not_fail(tmp_path):
    def start(name: str) -> Worker:
        raise WorkerError('failed: no luck')

    with pytest.raises(WorkerError, match='no luck'):
        measure(start, [OURS, 'a'], rounds=1)


def test_a_worker_is_stopped_between_requests(start):
    worker = start('a')
    worker.ask('check')
    deadline = time.monotonic() + 10  # the signal arrives when a busy machine gets round to it
    while (now := state_of(worker._process.pid)) != 'T' and time.monotonic() < deadline:
        time.sleep(0.01)
    assert now == 'T'


DRIVER = """
import json, sys, time
from benchmarks.peers import compare
compare.end_workers_when_terminated()
with compare.Worker('a', json.loads(sys.argv[1]), alone='alone' in sys.argv) as worker:
    print(worker._process.pid, flush=True)
    time.sleep(60)
"""


def test_no_worker_is_left_behind_when_the_driver_is_terminated(tmp_path):
    command = [sys.executable, '-c', DRIVER, json.dumps(fake_command('a', tmp_path / 'diary'))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as driver:
        worker = pathlib.Path('/proc') / driver.stdout.readline().strip()
        assert worker.exists()
        driver.terminate()
        assert driver.wait(timeout=30) == 128 + signal.SIGTERM
    assert not worker.exists()


def test_a_worker_that_is_alone_ends_with_a_driver_that_is_killed(tmp_path):
    command = [sys.executable, '-c', DRIVER, json.dumps(fake_command('a', tmp_path / 'diary')), 'alone']
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as driver:
        pid = int(driver.stdout.readline())
        driver.kill()
    deadline = time.monotonic() + 30
    while pid in processes.table() and state_of(pid) != 'Z' and time.monotonic() < deadline:
        time.sleep(0.01)
    assert pid not in processes.table() or state_of(pid) == 'Z', 'nobody may have asked for its exit code'


def state_of(pid: int) -> str:
    try:
        return pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0]
    except OSError:  # it ended meanwhile
        return 'Z'


def test_an_unknown_request_is_refused():
    class Nothing:
        def facts(self):
            return {}

    with pytest.raises(ValueError, match="request 'rest' is not one of round, check"):
        serve(Nothing(), ['rest\n'], io.StringIO())


def test_a_run_writes_its_results_and_says_who_could_not_take_part(tmp_path, monkeypatch):
    scripts = {'worker_ours': 'ours', 'worker_torch': 'broken', 'worker_fedjax': 'slow', 'worker_pfl': 'pfl'}

    def command(self: Contender, python: str, job: Job, data: pathlib.Path) -> list[str]:
        return fake_command(scripts[self.module], tmp_path / 'diary', python)

    monkeypatch.setitem(JOBS, JOB.name, JOB)
    monkeypatch.setattr(Contender, 'command', command)
    missing = {'flower': 'not installed: no such wheel'}
    pythons = {peer: sys.executable for peer in ('torch', 'fedjax', 'pfl')}
    monkeypatch.setattr(environment, 'ensure_all', lambda peers: (pythons, missing))
    monkeypatch.setattr(peak, 'measure', lambda *args, **kwargs: {'gflops': 100.0, 'library': 'by hand'})
    summary = compare.compare(JOB, [OURS, 'torch_1', 'fedjax_jit', 'pfl_2', 'flower'], rounds=1)
    text = compare.write(summary, tmp_path / 'results')
    assert list(summary['sides']) == [OURS, 'pfl_2']
    assert summary['sides'][OURS]['warm_start_seconds'] >= 0
    assert '| flower | not installed: no such wheel |' in text
    assert '| torch_1 | failed: torch_1 ended with code 1 before it answered: out of luck |' in text
    assert '| fedjax_jit | not comparable: it learns differently: test loss 1.0000 after equally many rounds' in text
    assert json.loads((tmp_path / 'results' / 'tiny.json').read_text()) == json.loads(json.dumps(summary))
    assert (tmp_path / 'results' / 'tiny.md').read_text() == text
    assert (tmp_path / 'results' / 'peers.png').read_bytes().startswith(b'\x89PNG')


def test_a_peer_that_cannot_be_installed_is_reported_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, 'HOME', tmp_path)
    monkeypatch.setattr(environment, 'HERE', tmp_path)
    (tmp_path / 'ghost-requirements.txt').write_text('./ghost-1.0-py3-none-any.whl\n')
    pythons, missing = environment.ensure_all(['ghost'])
    assert pythons == {}
    assert missing['ghost'].startswith('not installed: ')
    assert 'ghost-1.0-py3-none-any.whl' in missing['ghost']
    assert '\n' not in missing['ghost']


def test_an_environment_is_made_again_only_where_its_requirements_changed(tmp_path, monkeypatch):
    runs = []

    def run(*command: str) -> None:
        runs.append(command)
        (tmp_path / 'e').mkdir(exist_ok=True)

    monkeypatch.setattr(environment, '_run', run)
    requirements = tmp_path / 'r.txt'
    for text, expected in (('a==1\n', 2), ('a==1\n', 2), ('a==2\n', 4)):
        requirements.write_text(text)
        assert environment.ensure(tmp_path / 'e', requirements) == str(tmp_path / 'e' / 'bin' / 'python')
        assert len(runs) == expected


def test_every_peer_has_a_worker_and_pinned_requirements():
    folder = ROOT / 'benchmarks' / 'peers'
    for name, contender in CONTENDERS.items():
        assert (folder / f'{contender.module}.py').exists()
        if name != OURS:
            lines = (folder / f'{contender.peer}-requirements.txt').read_text().splitlines()
            pins = [line for line in lines if line and not line.startswith('#')]
            assert pins
            assert all('==' in pin for pin in pins)


def test_a_job_survives_its_way_to_the_worker():
    for job in JOBS.values():
        assert Job.from_json(job.to_json()) == job
        assert hash(Job.from_json(job.to_json())) == hash(job)
    contender = Contender('worker_x', {'threads': 2, 'channels_last': 1})
    command = contender.command('py', JOB, pathlib.Path('d.npz'))
    assert command == ['py', '-m', 'benchmarks.peers.worker_x', JOB.to_json(), 'd.npz', 'threads=2', 'channels_last=1']
    assert dataclasses.asdict(JOB)['image'] == (2, 2, 1)
