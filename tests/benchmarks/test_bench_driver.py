"""The driver of the benchmarks against a scripted worker: protocol, order of turns, statistics and refusals."""

import dataclasses
import io
import json
import pathlib
import sys

import numpy as np
import pytest

from benchmarks.peers import report
from benchmarks.peers.compare import ROOT, WARM_UP, measure
from benchmarks.peers.job import JOBS, Job, write_data
from benchmarks.peers.protocol import Worker, WorkerError, serve

JOB = Job('tiny', 'a tiny job', clients=3, samples=7, tests=2, image=(2, 2, 1), classes=3, cohort=2, epochs=3, batch=4)
HOST = {'cores': 2, 'memory_gib': 8.0, 'load': 0.25}
FAKE = """
import sys
from benchmarks.peers.protocol import main

class Fake:
    def __init__(self, job, data, name):
        self.job, self.data, self.name, self.rounds = job, data, name, 0
        print('noise of a library')
    def facts(self):
        return {'parameters': 5, 'how': self.name, 'versions': {}, 'samples': self.job.samples}
    def round(self):
        self.rounds += 1
        if self.name == 'broken' and self.rounds == 2:
            sys.exit(3)
        with open(self.data, 'a') as file:
            file.write(self.name)
    def check(self):
        return {'loss': 1 / (1 + self.rounds), 'examples': self.rounds, 'steps': self.rounds}

main(Fake)
"""


@pytest.fixture
def start(tmp_path: pathlib.Path):
    """Start fake workers that write their name into one diary at every round."""
    running = []

    def one(name: str) -> Worker:
        command = [sys.executable, '-c', FAKE, json.dumps(dataclasses.asdict(JOB)), str(tmp_path / 'diary'), name]
        running.append(Worker(name, command, cwd=ROOT))
        return running[-1]

    yield one
    for worker in running:
        worker.close()


def side(seconds=(3.0, 1.0, 2.0, 10.0), parameters=5, losses=(2.0, 1.0), **work) -> report.Measurement:
    done = {'examples': JOB.examples_per_round, 'steps': JOB.steps_per_round, 'peak_mib': 1} | work
    facts = {'parameters': parameters, 'how': 'by hand', 'versions': {'python': '3'}}
    return report.Measurement(facts, 4.0, 6.0, seconds, {'loss': losses[0]}, done | {'loss': losses[1]})


def test_workers_take_turns_and_keep_their_own_answers(start, tmp_path):
    sides = measure([start('a'), start('b')], rounds=3)
    assert (tmp_path / 'diary').read_text() == 'ab' * (1 + WARM_UP + 3)
    for name, found in sides.items():
        assert found.facts['how'] == name
        assert found.facts['samples'] == JOB.samples
        assert len(found.seconds) == 3
        assert min(found.seconds) > 0
        assert found.before['loss'] == 1
        assert found.after['steps'] == 1 + WARM_UP + 3


def test_a_worker_that_dies_is_named(start):
    worker = start('broken')
    worker.ask('round')
    with pytest.raises(WorkerError, match='worker broken ended with code 3'):
        worker.ask('round')


def test_an_unknown_request_is_refused():
    class Nothing:
        def facts(self):
            return {}

    with pytest.raises(ValueError, match="request 'rest' is not one of round, check"):
        serve(Nothing(), ['rest\n'], io.StringIO())


def test_statistics_of_one_side_and_ratios_to_ours():
    found = report.summarise(JOB, HOST, 'ours', {'ours': side(), 'peer': side((5.0, 4.0, 6.0, 5.0))})['sides']
    assert found['ours']['min_seconds'] == 1.0
    assert found['ours']['median_seconds'] == 2.5
    assert found['ours']['start_seconds'] == 4.0 + 6.0 - 2.5
    assert found['ours']['times_ours'] == {'min': 1.0, 'median': 1.0}
    assert found['peer']['times_ours'] == {'min': 4.0, 'median': 2.0}


def test_the_table_shows_every_side():
    summary = report.summarise(JOB, HOST, 'ours', {'ours': side(), 'peer': side((5.0, 4.0, 6.0, 5.0))})
    text = report.as_markdown(json.loads(json.dumps(summary)))
    assert '| ours | 1.000 | 2.500 | 1.00 | 1.00 | 7.5 | 1 | 2.000 → 1.000 |' in text
    assert '| peer | 4.000 | 5.000 | 4.00 | 2.00 | 5.0 | 1 | 2.000 → 1.000 |' in text
    assert '4 steady rounds of each side in turn; 2 cores, 8.0 GiB of memory, load 0.2 before the start.' in text


@pytest.mark.parametrize(
    'other, message',
    [
        (side(parameters=6), 'different networks'),
        (side(examples=41), 'peer trained 41 examples in a round instead of 42'),
        (side(steps=11), 'peer trained 11 steps in a round instead of 12'),
        (side(losses=(1.0, 1.0)), 'peer does not learn'),
        (side(losses=(2.0, float('nan'))), 'peer does not learn'),
        (side(losses=(2.0, 1.2)), 'after equally many rounds the sides differ'),
    ],
)
def test_unequal_work_is_not_compared(other, message):
    report.check_equal_work(JOB, {'ours': side(), 'peer': side(losses=(2.1, 1.05))})
    with pytest.raises(ValueError, match=message):
        report.check_equal_work(JOB, {'ours': side(), 'peer': other})


def test_the_first_job_is_two_thousand_steps():
    assert JOBS['w1'].examples_per_round == 20_000
    assert JOBS['w1'].steps_per_round == 2_000


def test_all_sides_read_the_same_federation(tmp_path):
    with np.load(write_data(JOB, tmp_path)) as file:
        data = dict(file)
    with np.load(write_data(JOB, tmp_path)) as file:
        np.testing.assert_array_equal(data['images'], file['images'])
    assert data['images'].shape == (27, 2, 2, 1)
    assert data['images'].dtype == np.float32
    assert set(data['labels']) == {0, 1, 2}
    for name in np.unique(data['site']):
        own = data['split'][data['site'] == name]
        assert (np.sum(own == 'train'), np.sum(own == 'test')) == (7, 2)
