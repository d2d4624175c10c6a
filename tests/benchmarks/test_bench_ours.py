"""Our own worker: what it tells of itself, and that its rounds are the work that the job asks for."""

import dataclasses
import json

import pytest

from benchmarks.peers.job import Job, write_data
from benchmarks.peers.worker_ours import Ours

JOB = Job('tiny', 'a tiny job', clients=8, samples=7, tests=2, image=(2, 2, 1), classes=3, cohort=8, epochs=2, batch=4)


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    return str(write_data(JOB, tmp_path_factory.mktemp('data')))


def test_it_answers_what_can_be_written_down_and_does_the_work_of_the_job(data):
    ours = Ours(JOB, data)
    facts = json.loads(json.dumps(ours.facts()))
    assert facts['how'] == 'sharded over 4 devices, chunked by 1 on each'
    assert facts['parameters'] == 4 * 200 + 200 + 200 * 200 + 200 + 200 * 3 + 3
    before = ours.check()
    ours.round()
    after = json.loads(json.dumps(ours.check()))
    assert after['loss'] != before['loss']
    assert (after['examples'], after['steps']) == (JOB.examples_per_round, JOB.steps_per_round)


def test_settings_replace_those_of_the_job(data):
    ours = Ours(dataclasses.replace(JOB, lr=0.5), data, chunk=2)
    assert (ours.x.config.lr, ours.x.config.chunk) == (0.5, 2)
    assert ours.facts()['how'] == 'sharded over 4 devices, chunked by 2 on each'
