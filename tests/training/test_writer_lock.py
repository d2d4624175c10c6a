"""One writer per folder: who is refused, which locks are left by the dead, and that no lock stays behind."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import types

import jax
import pytest

from experiments import study
from fedjax_fair.errors import UserError
from fedjax_fair.training import compare, comparison, loop, run, tune, tuning, writer_lock
from fedjax_fair.training.writer_lock import BEAT, CLAIM, LOCK, SILENCE, writing

BUSY = r'being written by process {} on .* since 20\d\d-.*; if that process is gone, delete .*lock'


def leave_lock(folder, **changes):
    """The lock of another process: the parent of this one, which lives."""
    parent = os.getppid()
    facts = writer_lock._this_process() | {'process': parent, 'started': writer_lock.start_of(parent)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LOCK).write_text(json.dumps(facts | changes))
    return folder


def silent(folder, seconds, name=LOCK):
    when = (folder / name).stat().st_mtime - seconds
    os.utime(folder / name, (when, when))


def elsewhere(work):
    """What another thread, which holds nothing, gets."""
    found = []

    def try_it():
        try:
            found.append(work())
        except UserError as error:
            found.append(error)

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    return found[0]


def enter(out):
    with writing(out):
        return 'entered'


# --- the second writer -----------------------------------------------------------------------------------------------


def test_a_second_writer_is_told_who_writes(tmp_path):
    leave_lock(tmp_path / 'out')
    with pytest.raises(UserError, match='^out=.*out is ' + BUSY.format(os.getppid())):
        enter(tmp_path / 'out')
    assert json.loads((tmp_path / 'out' / LOCK).read_text())['process'] == os.getppid()


def test_folders_below_belong_to_the_writer(tmp_path):
    leave_lock(tmp_path / 'out')
    with pytest.raises(UserError, match=r'out=.*fedavg: .*out is being written by'):
        enter(tmp_path / 'out' / 'fedavg')
    assert not (tmp_path / 'out' / 'fedavg').exists()
    assert enter(tmp_path / 'beside') == 'entered'


def test_what_a_command_writes_below_its_folder_needs_no_second_lock(tmp_path):
    with writing(tmp_path):
        for place in (tmp_path, tmp_path / 'a' / 'b'):
            assert enter(place) == 'entered'
            assert 'being written by' in str(elsewhere(lambda place=place: enter(place)))
        leave_lock(tmp_path / 'c')
        with pytest.raises(UserError, match='being written by'):
            enter(tmp_path / 'c')
    assert elsewhere(lambda: enter(tmp_path)) == 'entered'


@pytest.mark.parametrize('stop', [ValueError, KeyboardInterrupt, SystemExit])
def test_the_lock_goes_whatever_happens_and_so_do_folders_without_results(tmp_path, stop):
    (tmp_path / 'mine').mkdir()
    with pytest.raises(stop), writing(tmp_path / 'mine' / 'a' / 'b'):
        assert (tmp_path / 'mine' / 'a' / 'b' / LOCK).exists()
        raise stop
    assert list(tmp_path.rglob('*')) == [tmp_path / 'mine']
    with writing(tmp_path / 'a' / 'b'):
        (tmp_path / 'a' / 'result').write_text('')
    assert [path.name for path in (tmp_path / 'a').iterdir()] == ['result']


def test_a_folder_that_vanished_is_let_go(tmp_path):
    with writing(tmp_path / 'out'):
        (tmp_path / 'out' / LOCK).unlink()
        (tmp_path / 'out').rmdir()
    assert not (tmp_path / 'out').exists() and enter(tmp_path / 'out') == 'entered'


def test_the_lock_of_somebody_else_is_not_removed(tmp_path):
    with writing(tmp_path):
        leave_lock(tmp_path)
    assert (tmp_path / LOCK).exists()


def test_of_several_processes_that_make_one_run_the_first_has_the_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(jax.distributed, 'is_initialized', lambda: True)
    with writing(tmp_path):
        assert (tmp_path / LOCK).exists()
        monkeypatch.setattr(jax, 'process_index', lambda: 1)
        assert elsewhere(lambda: enter(tmp_path)) == 'entered'


# --- locks of the dead -----------------------------------------------------------------------------------------------


def test_the_lock_of_a_dead_process_is_replaced(tmp_path, monkeypatch):
    dead = subprocess.Popen(['true'])
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    assert writer_lock.start_of(dead.pid) == ('' if os.path.exists('/proc/self/stat') else None)
    dead.wait()
    assert enter(leave_lock(tmp_path / 'dead', process=dead.pid)) == 'entered'
    monkeypatch.setattr(writer_lock, 'start_of', lambda process: '')
    assert enter(leave_lock(tmp_path / 'not reaped', started='1')) == 'entered'
    monkeypatch.setattr(writer_lock, 'start_of', lambda process: '2')
    assert enter(leave_lock(tmp_path / 'number used again', started='1')) == 'entered'
    assert not list(tmp_path.rglob('.fedjax*'))


def test_a_killed_process_leaves_a_lock_that_the_next_one_replaces(tmp_path):
    code = 'import os, pathlib; from fedjax_fair.training.writer_lock import writing\n'
    code += f'with writing(pathlib.Path({str(tmp_path)!r})): os.kill(os.getpid(), 9)'
    assert subprocess.run([sys.executable, '-c', code], cwd=os.getcwd()).returncode == -9
    assert (tmp_path / LOCK).exists() and enter(tmp_path) == 'entered' and not (tmp_path / LOCK).exists()


def test_without_proc_the_system_is_asked_whether_a_process_lives(tmp_path, monkeypatch):
    monkeypatch.setattr(writer_lock, 'start_of', lambda process: None)
    dead = subprocess.Popen(['true'])
    dead.wait()
    assert enter(leave_lock(tmp_path / 'dead', process=dead.pid)) == 'entered'
    with pytest.raises(UserError, match='being written by'):
        enter(leave_lock(tmp_path / 'alive'))


@pytest.mark.parametrize('text', [None, '', '[1]', '{"process": "x"}'])
def test_a_writer_elsewhere_is_dead_after_a_long_silence(tmp_path, text):
    leave_lock(tmp_path, machine='another', host='node7')
    if text is not None:  # half written, or damaged
        (tmp_path / LOCK).write_text(text)
    silent(tmp_path, SILENCE - 60)
    with pytest.raises(UserError, match='on node7' if text is None else 'being written by process'):
        enter(tmp_path)
    silent(tmp_path, 120)
    assert enter(tmp_path) == 'entered'


def test_a_writer_gives_signs_of_life(tmp_path):
    leave_lock(tmp_path)
    silent(tmp_path, SILENCE)
    before = (tmp_path / LOCK).stat().st_mtime

    def beat():
        waited = []
        event = types.SimpleNamespace(wait=lambda seconds: waited.append(seconds) or len(waited) > 1)
        writer_lock._beat(tmp_path / LOCK, event)
        return waited

    assert beat() == [BEAT, BEAT] and (tmp_path / LOCK).stat().st_mtime > before
    (tmp_path / LOCK).unlink()
    assert beat() == [BEAT, BEAT] and not (tmp_path / LOCK).exists()


def test_one_of_many_gets_the_lock_of_the_dead(tmp_path):
    leave_lock(tmp_path, started='1')
    start, refused, over, entered = threading.Barrier(8), threading.Semaphore(0), threading.Event(), []

    def contend():
        start.wait()
        try:
            with writing(tmp_path):
                entered.append(threading.get_ident())
                over.wait(20)
        except UserError:
            refused.release()

    threads = [threading.Thread(target=contend) for _ in range(8)]
    for thread in threads:
        thread.start()
    told = [refused.acquire(timeout=10) for _ in range(7)]
    over.set()
    for thread in threads:
        thread.join()
    assert all(told) and len(entered) == 1 and not list(tmp_path.iterdir())


def test_a_claim_that_stays_is_named(tmp_path):
    leave_lock(tmp_path, started='1')
    (tmp_path / CLAIM).write_text('')
    with pytest.raises(UserError, match=f'being claimed by another process; if .*{CLAIM} stays, delete it'):
        enter(tmp_path)


@pytest.mark.parametrize('claim', [CLAIM, f'{CLAIM}.claim'])
def test_the_claim_of_a_dead_process_is_replaced(tmp_path, claim):
    leave_lock(tmp_path, started='1')
    for name in {CLAIM, claim}:
        (tmp_path / name).write_bytes((tmp_path / LOCK).read_bytes())
    assert enter(tmp_path) == 'entered' and not list(tmp_path.iterdir())


def test_a_claim_from_elsewhere_is_dead_after_a_long_silence(tmp_path):
    leave_lock(tmp_path, started='1')
    (tmp_path / CLAIM).write_text('{"machine": "another"}')
    silent(tmp_path, SILENCE - 60, CLAIM)
    with pytest.raises(UserError, match='being claimed by another process'):
        enter(tmp_path)
    silent(tmp_path, 120, CLAIM)
    assert enter(tmp_path) == 'entered' and not list(tmp_path.iterdir())


# --- commands --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('module', 'command'),
    [
        (loop, lambda config, out, **how: run(config, out, **how)),
        (loop, lambda config, out, **how: run(config, out, points=({'lr': 0.1}, {'lr': 0.2}), **how)),
        (comparison, lambda config, out, **how: compare(config, ['fedavg', 'fedprox'], out, **how)),
        (comparison, lambda config, out, **how: comparison.run_data_seeds(config, out, [0, 1], **how)),
        (tuning, lambda config, out, **how: tune(config, ['fedprox'], out, budget=2, **how)),
    ],
)
def test_commands_have_the_lock_before_data_are_loaded(module, command, toy, tmp_path, monkeypatch):
    def loading(config, points=({},)):
        assert (tmp_path / 'out' / LOCK).exists()
        raise UserError('a mistake in the data')

    monkeypatch.setattr(module, 'prepare', loading)
    for how in ({}, {'resume': True}, {'overwrite': True}):
        with pytest.raises(UserError, match='a mistake in the data'):
            command(toy(), tmp_path / 'out', **how)
        assert not (tmp_path / 'out').exists()
    leave_lock(tmp_path / 'out')
    for how in ({}, {'resume': True}, {'overwrite': True}):
        with pytest.raises(UserError, match='being written by process'):
            command(toy(), tmp_path / 'out', **how)


def test_the_faster_of_two_keeps_its_results(toy, tmp_path, monkeypatch):
    """Both find an empty folder; then one of them runs before the other has the lock."""
    free = loop.output.writing

    @contextlib.contextmanager
    def late(out):
        monkeypatch.setattr(loop.output, 'writing', free)
        run(toy(rounds=1), out, quiet=True)
        with free(out):
            yield

    monkeypatch.setattr(loop.output, 'writing', late)
    with pytest.raises(UserError, match='exists; pass'):
        run(toy(rounds=2), tmp_path / 'out', quiet=True)
    assert json.loads((tmp_path / 'out' / 'summary.json').read_text())['rounds'] == 1


def test_a_finished_run_is_read_while_its_folder_is_written(toy, tmp_path):
    (summary,) = run(toy(rounds=1), tmp_path / 'out', quiet=True)
    leave_lock(tmp_path)
    assert run(toy(rounds=1), tmp_path / 'out', resume=True) == [summary]


def test_a_study_holds_its_folder(tmp_path, monkeypatch):
    shown = {}

    def program(work, own, with_preset):
        shown['work'] = work

    monkeypatch.setattr(study, 'program', program)
    monkeypatch.setattr(study, 'use_host_devices', lambda *_: None)
    monkeypatch.setattr(study, 'use_compilation_cache', lambda: None)
    held = []
    study.main('table', {'1': lambda one: held.append((one.out / LOCK).exists())}, tmp_path)
    config = study.Config(scenario='gaussian_toy_1')

    class Values(dict):
        __getattr__ = dict.get

    values = Values(table=types.SimpleNamespace(value='1'), out=str(tmp_path / 'out'), overwrite=False)
    shown['work'](config, {}, values)
    assert held == [True]
    leave_lock(tmp_path / 'out')
    with pytest.raises(UserError, match='being written by'):
        shown['work'](config, {}, values)
    with pytest.raises(UserError, match=r'^overwrite: a study goes on'):
        shown['work'](config, {}, Values(values | {'overwrite': True}))
