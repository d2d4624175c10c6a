"""Measuring on the devices that are there: spread first, then rounds, a table, and a file that others may read."""

from __future__ import annotations

import copy
import doctest
import json
import pathlib
import re
import subprocess
import sys

import pytest

from benchmarks.accelerators import __main__ as program
from benchmarks.accelerators import measure, record, worker
from benchmarks.peers.compare import RESULTS, ROOT
from benchmarks.peers.job import JOBS, Job, write_data
from benchmarks.peers.protocol import WorkerError
from fedjax_fair.core.platform import Platform, machine, made_for
from fedjax_fair.errors import UserError
from fedjax_fair.training import spread

JOB = Job('tiny', 'a tiny job', clients=8, samples=7, tests=2, image=(2, 2, 1), classes=3, cohort=8, epochs=2, batch=4)
GIGABYTE = 1 << 30
COMMUNITY = RESULTS / 'community'
TRIED = '8 (does not fit); 2 (0.0123 s for 2 steps); 1 (1.5e-05 s for 2 steps)'


# --- the worker ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    return str(write_data(JOB, tmp_path_factory.mktemp('data')))


def test_on_cpu_nothing_is_tried_and_memory_is_that_of_the_host(data):
    one = worker.OnDevices(JOB, data)
    facts = json.loads(json.dumps(one.facts()))
    assert facts['devices'] == {'platform': 'cpu', 'kind': 'cpu', 'count': 4, 'memory_gib': None}
    assert facts['spread'] == {'devices': 4, 'clients_at_once': 1}
    assert facts['chunk'] is facts['chosen_among'] is None
    assert one.check()['device_peak_mib'] is None


def test_several_clients_at_once_do_the_same_work(data):
    one = worker.OnDevices(JOB, data, chunk='2')
    assert one.facts()['spread'] == {'devices': 4, 'clients_at_once': 2}
    one.round()
    done = one.check()
    assert (done['examples'], done['steps']) == (JOB.examples_per_round, JOB.steps_per_round)


class Accelerator:
    """A CPU device that tells its memory, as those of accelerators do."""

    device_kind = 'Radeon XT/XTX'

    def memory_stats(self):
        return {'bytes_limit': 2 * GIGABYTE, 'peak_bytes_in_use': 5 << 20}


def test_an_accelerator_has_a_spread_that_was_chosen_and_memory_of_its_own(data, monkeypatch):
    monkeypatch.setattr(spread, '_is_here', lambda platform: True)
    with made_for(Platform('gpu', machine().devices[:1], 2 * GIGABYTE)):
        one = worker.OnDevices(JOB, data)
    one.x = one.x.__class__(**{**vars(one.x), 'platform': one.x.platform._replace(devices=(Accelerator(),))})
    facts = one.facts()
    assert facts['devices'] == {'platform': 'gpu', 'kind': 'Radeon XT XTX', 'count': 1, 'memory_gib': 2.0}
    assert facts['chunk'] == facts['spread']['clients_at_once'] in (1, 2, 8)
    assert re.fullmatch(r'8 \(.* s for 2 steps\); 2 \(.*\); 1 \(.*\)', facts['chosen_among'])
    assert one.check()['device_peak_mib'] == 5


# --- the driver ------------------------------------------------------------------------------------------------------


class Scripted:
    """A worker without a process: its facts and its losses are given."""

    started: list
    facts: dict
    losses: tuple

    def __init__(self, name, words, cwd, env, alone):
        assert alone and pathlib.Path(words[4]).exists() and not {'XLA_FLAGS', 'JAX_COMPILATION_CACHE_DIR'} & {*env}
        self.started.append(words[5:])
        self.ready_seconds, self.rounds, self.left = 3.0, 0, list(self.losses)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass

    def ask(self, request):
        if request == 'check':
            work = {'examples': JOB.examples_per_round, 'steps': JOB.steps_per_round, 'device_peak_mib': 70}
            return {'loss': self.left.pop(0), **work}
        self.rounds += 1
        return {'seconds': 5.0 if self.rounds == 1 else 1.0 + self.rounds / 8, 'cpu_seconds': 1.0, 'peak_mib': 700}


def facts_of(chosen_among=None, kind='Tesla T4'):
    devices = {'platform': 'gpu', 'kind': kind, 'count': 1, 'memory_gib': 10.9}
    spread = {'devices': 1, 'clients_at_once': 2}
    chunk = 2 if chosen_among else None
    versions = {'python': '3.12.1', 'jax': '0.10.2'}
    return {'devices': devices, 'spread': spread, 'chunk': chunk, 'chosen_among': chosen_among, 'versions': versions}


@pytest.fixture
def scripted(monkeypatch):
    monkeypatch.setitem(JOBS, JOB.name, JOB)
    monkeypatch.setattr(measure, 'Worker', Scripted)

    def script(facts, losses=(2.0, 1.0)):
        Scripted.started, Scripted.facts, Scripted.losses = [], facts, losses
        return Scripted.started

    return script


def test_a_spread_that_was_chosen_is_measured_in_a_new_process(scripted):
    started = scripted(facts_of(TRIED))
    lines: list[str] = []
    found = measure.measure(['tiny'], 0, lines.append)
    assert started == [[], ['chunk=2']] and found.left_out == {}
    assert found.record['jobs']['tiny'] == {
        'spread': {'devices': 1, 'clients_at_once': 2, 'chosen_among': TRIED},
        'rounds': 3,  # the first two were for compiling and warming up
        'seconds_per_round': {'min': 1.375, 'median': 1.5},
        'compile_seconds': 3.5,
        'memory': {'device_peak_mib': 70, 'host_peak_mib': 700},
    }
    assert lines[1:] == ['[1/1] tiny: a tiny job', '1 x Tesla T4 with 10.9 GiB; 2 at once on the device']
    assert set(found.record['machine']) == {'cores', 'memory_gib'}


def test_where_nothing_was_tried_one_process_is_enough(scripted):
    started = scripted(facts_of())
    measure.measure(['tiny'], 0, lambda line: None)
    assert started == [[]]


def test_rounds_go_on_until_the_time_is_over(scripted, monkeypatch):
    scripted(facts_of())
    clock = iter(range(100))
    monkeypatch.setattr(measure.time, 'monotonic', lambda: next(clock))
    found = measure.measure(['tiny'], 6.0, lambda line: None)
    assert found.record['jobs']['tiny']['rounds'] == 3 + 5, 'after three rounds a look at the clock costs a second'


def test_a_job_that_does_not_learn_is_left_out(scripted):
    scripted(facts_of(), losses=(2.0, 2.5))
    found = measure.measure(['tiny'], 0, lambda line: None)
    assert found.left_out == {'tiny': 'tiny does not learn: test loss 2.0000, then 2.5000'}
    assert found.record['jobs'] == {}


def test_a_job_on_other_devices_than_the_one_before_is_left_out(scripted):
    scripted(facts_of(kind='cpu'))
    with pytest.raises(WorkerError, match=r'ran on 1 x cpu with 10\.9 GiB, and what came before it on 1 x Tesla T4'):
        measure.measured(JOB, 0, facts_of(), lambda line: None)


def test_the_driver_leaves_the_devices_to_its_workers():
    """Only one process can have a TPU; JAX takes settings of its devices as long as it has not looked for them."""
    code = 'import jax, benchmarks.accelerators.__main__; jax.config.update("jax_num_cpu_devices", 3)'
    subprocess.run([sys.executable, '-c', code], cwd=ROOT, check=True)


# --- the file --------------------------------------------------------------------------------------------------------


@pytest.fixture
def whole():
    """A record as it may be sent, with two jobs."""
    job = {
        'spread': {'devices': 1, 'clients_at_once': 2, 'chosen_among': TRIED},
        'rounds': 40,
        'seconds_per_round': {'min': 0.125, 'median': 0.25},
        'compile_seconds': 0.0,
        'memory': {'device_peak_mib': 1234, 'host_peak_mib': 2345},
    }
    return {
        'devices': {'platform': 'gpu', 'kind': 'Tesla T4', 'count': 1, 'memory_gib': 10.9},
        'machine': {'cores': 2, 'memory_gib': 12.7},
        'versions': {'python': '3.12.1', 'jax': '0.10.2', 'jax-cuda12-plugin': '0.10.2', 'orbax-checkpoint': '0.1+g1'},
        'commit': 'ab081d50' * 5,
        'jobs': {'w1': job, 'w3': copy.deepcopy(job)},
    }


def test_a_whole_record_can_be_sent(whole):
    assert record.checked(whole, 'a.json') is whole
    assert record.obstacle(whole) is None
    assert record.name_of(whole) == 'tesla-t4-x1-ab081d5'


@pytest.mark.parametrize('commit,why', [(None, 'not in a git checkout'), ('ab081d50' * 5 + '-dirty', 'files differ')])
def test_a_record_of_unknown_code_is_kept_but_not_sent(whole, commit, why):
    whole['commit'] = commit
    assert why in record.obstacle(record.checked(whole, 'a.json'))


ABSENT = object()


@pytest.mark.parametrize(
    'path,value,complaint',
    [
        ('user', 'somebody', "a.json: field 'user' is not one of devices, machine, versions, commit, jobs"),
        ('devices.host', 'laptop', "field 'devices': field 'host' is not one of platform, kind, count, memory_gib"),
        ('devices.kind', '/home/somebody/card', "field 'devices.kind' must be at most 60 letters"),
        ('devices.kind', 'a@b', "field 'devices.kind' must be"),
        ('devices.platform', 'npu', "field 'devices.platform' must be cpu, gpu or tpu"),
        ('devices.count', 0, "field 'devices.count' must be a whole number above 0"),
        ('devices.count', True, "field 'devices.count' must be a whole number above 0"),
        ('machine.cores', ABSENT, "field 'machine': field 'cores' is missing"),
        ('versions.jax', 'file:///home/somebody/jax', "field 'versions.jax' must be a version"),
        ('versions.my-package', '1', "field 'versions': field 'my-package' is not one of python"),
        ('commit', 'main', "field 'commit' must be a commit or null"),
        ('jobs', {}, "field 'jobs' must be an object with fields"),
        ('jobs.w9', {}, "field 'jobs': field 'w9' is not one of w1, w2, w3"),
        ('jobs.w1.note', 'fast!', "field 'jobs.w1': field 'note' is not one of spread"),
        ('jobs.w1.spread.chosen_among', 'my words', "field 'jobs.w1.spread.chosen_among' must be clients at once"),
        ('jobs.w3.seconds_per_round.min', 0.0, "field 'jobs.w3.seconds_per_round.min' must be a number above 0"),
        ('jobs.w3.seconds_per_round.min', float('nan'), "field 'jobs.w3.seconds_per_round.min' must be"),
        ('jobs.w3.compile_seconds', -1.0, "field 'jobs.w3.compile_seconds' must be a number of at least 0"),
        ('jobs.w3.memory', [1], "field 'jobs.w3.memory' must be an object with fields"),
    ],
)
def test_anything_else_in_a_record_is_refused(whole, path, value, complaint):
    *places, name = path.split('.')
    place = whole
    for one in places:
        place = place[one]
    if value is ABSENT:
        del place[name]
    else:
        place[name] = value
    with pytest.raises(UserError, match=re.escape(complaint)):
        record.checked(whole, 'a.json')


def fields(wanted, name=''):
    """All fields of a record, with the words of the page for those that may have several names."""
    if isinstance(wanted, record.Some):
        wanted = {'JOB' if wanted.names == tuple(JOBS) else 'PACKAGE': wanted.each}
    if not isinstance(wanted, dict):
        return [name]
    return [leaf for one in wanted for leaf in fields(wanted[one], f'{name}.{one}' if name else one)]


def test_the_page_lists_all_fields():
    page = (COMMUNITY / 'README.md').read_text()
    assert re.findall(r'^\| `(.*?)` \|', page, re.MULTILINE) == fields(record.FIELDS)


def test_what_was_sent_is_whole():
    for path in COMMUNITY.iterdir():
        if path.name != 'README.md':
            assert path.suffix == '.json', path.name
            sent = record.checked(json.loads(path.read_text()), path.name)
            assert record.obstacle(sent) is None, path.name
            assert path.stem.startswith(record.name_of(sent)), path.name


# --- the command line ------------------------------------------------------------------------------------------------


def test_the_table_has_a_row_of_now_and_one_of_what_was_recorded(whole):
    before = {name: program.recorded(name) for name in JOBS}
    text = program.as_markdown(whole, before)
    times = before['w1']['median_seconds'] / 0.25
    here = '2 at once on the device | 1,234 MiB of a device |'
    assert f'| w1 | 1 x Tesla T4 with 10.9 GiB | 4 | {times:.2f} | 0.1250 | 0.2500 | {here}' in text
    assert f'| w3 | 2 CPU cores, recorded | {1 / before["w3"]["median_seconds"]:.3g} | 1.00 |' in text
    assert f'- w1: 40 rounds; 0.0 s to compile; clients at once were chosen among {TRIED}' in text
    assert {line.count('|') for line in text.splitlines() if line.startswith('|')} == {len(program.COLUMNS) + 1}


def called(monkeypatch, *words):
    monkeypatch.setattr(sys, 'argv', ['benchmarks.accelerators', *words])
    monkeypatch.setattr(program, 'end_workers_when_terminated', lambda: None)
    with pytest.raises(SystemExit) as end:
        program.main()
    return end.value.code


def test_what_was_measured_is_shown_and_written(whole, monkeypatch, tmp_path, capsys):
    out = tmp_path / 'new' / 'found.json'
    monkeypatch.setattr(program, 'measure', lambda names, seconds, tell: measure.Found(whole, {}))
    assert called(monkeypatch, '--jobs=w3,w1', '--seconds=0.5', f'--out={out}') == 0
    assert json.loads(out.read_text()) == whole
    assert f'written: {out}; send it as tesla-t4-x1-ab081d5.json' in capsys.readouterr().out


def test_a_job_that_was_left_out_shows_in_the_exit_code(whole, monkeypatch, tmp_path, capsys):
    whole['commit'] = None
    monkeypatch.setattr(program, 'measure', lambda *given: measure.Found(whole, {'w2': 'too large'}))
    assert called(monkeypatch, f'--out={tmp_path / "found.json"}') == 1
    assert 'not to be sent: its code is not in a git checkout' in capsys.readouterr().out


def test_nothing_is_written_where_nothing_was_measured(whole, monkeypatch, tmp_path, capsys):
    whole['jobs'] = {}
    monkeypatch.setattr(program, 'measure', lambda *given: measure.Found(whole, {'w1': 'w1 ended with code 1'}))
    assert called(monkeypatch, '--jobs=w1', f'--out={tmp_path / "found.json"}') == 2
    assert capsys.readouterr().err.endswith('error: nothing was measured: w1 ended with code 1\n')
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    'words,complaint',
    [
        (['--jobs=w1,w9'], '--jobs=w9 is not one of w1, w2, w3'),
        (['--jobs='], '--jobs= is not one of w1, w2, w3'),
        (['--seconds=soon'], '--seconds=soon is not a number from 0 to 3600'),
        (['--seconds=-1'], '--seconds=-1 is not a number from 0 to 3600'),
        (['--seconds=nan'], '--seconds=nan is not a number from 0 to 3600'),
        (['--out=.'], '--out=. is not the name of a .json file'),
        (['--out=found.txt'], '--out=found.txt is not the name of a .json file'),
        (['--out=taken/found.json'], 'taken cannot be written: File exists'),
        (['--job=w1'], 'unrecognized arguments: --job=w1'),
        (['w1'], 'unrecognized arguments: w1'),
    ],
)
def test_mistakes_are_one_line_before_anything_is_measured(words, complaint, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'taken').touch()
    monkeypatch.setattr(program, 'measure', lambda *given: pytest.fail('it was measured'))
    assert called(monkeypatch, *words) == 2
    assert capsys.readouterr().err == f'python -m benchmarks.accelerators: error: {complaint}\n'


def test_other_systems_are_told_what_is_needed(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(program.processes, 'PROC', tmp_path / 'proc')
    assert called(monkeypatch) == 2
    assert 'error: this needs Linux, where' in capsys.readouterr().err


@pytest.mark.parametrize('module', [measure, record, worker])
def test_examples_in_its_docstrings_are_true(module):
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 0) == (0, True)
