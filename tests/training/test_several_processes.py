"""Several processes that make one run are one writer, and share one checkpoint."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import jax
import pytest
from one_of_two import state

from fedjax_fair import results
from fedjax_fair.training import checksums, loop, output, run, writer_lock
from fedjax_fair.training.checkpoint import Checkpoints


def of_two_processes(out):
    """What each of them found."""
    with socket.socket() as free:
        free.bind(('localhost', 0))
        address = f'localhost:{free.getsockname()[1]}'
    program = [sys.executable, str(pathlib.Path(__file__).with_name('one_of_two.py'))]
    folders = os.pathsep.join([os.getcwd(), os.environ.get('PYTHONPATH', '')])
    environment = os.environ | {'XLA_FLAGS': '--xla_force_host_platform_device_count=2', 'PYTHONPATH': folders}
    both = [
        subprocess.Popen([*program, str(rank), address, str(out)], env=environment, stdout=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]
    try:
        return [json.loads(one.communicate(timeout=120)[0].splitlines()[-1]) for one in both]
    finally:
        for one in both:
            one.kill()


@pytest.mark.parametrize('points', [({},), ({'lr': 0.1}, {'lr': 0.2})])
def test_a_process_that_is_no_writer_writes_nothing(toy, tmp_path, monkeypatch, points):
    """It returns what the writer does, also when it goes on with files that the writer has begun."""
    config = toy(rounds=2, eval_every=1, last_k=2)
    expected = run(config, tmp_path / 'first', points=points, quiet=True)
    for module in (writer_lock, output, loop):
        monkeypatch.setattr(module, 'is_writer', lambda: False)
    found = run(config, tmp_path / 'second', points=points, quiet=True, profiled=True)
    assert not (tmp_path / 'second').exists()
    assert [one['global'] for one in found] == [one['global'] for one in expected]
    assert [one['history'] for one in found] == [one['history'] for one in expected]
    begun = tmp_path / 'first' / results.point_name(points[0]) / 'summary.json'
    begun.unlink()
    before = {path: path.read_bytes() for path in (tmp_path / 'first').rglob('*') if path.is_file()}
    run(config, tmp_path / 'first', points=points, quiet=True, resume=True)
    assert before == {path: path.read_bytes() for path in (tmp_path / 'first').rglob('*') if path.is_file()}


def test_two_processes_save_and_restore_one_checkpoint(tmp_path):
    """And one process reads what they saved."""
    first, second = of_two_processes(tmp_path)
    mesh = jax.make_mesh((4,), ('devices',))
    assert first['locked'] and not list(tmp_path.glob('.fedjax_fair*'))
    assert first['restored'] == second['restored'] == checksums.of_tree(state(4, mesh)._asdict())
    assert first['told'] == second['told'] == []
    assert first['again'] == second['again'] == checksums.of_tree(state(2, mesh)._asdict())
    assert all('4 is damaged' in note and note.endswith('goes on from round 2') for note in first['told_again'])
    assert len(first['told_again']) == len(second['told_again']) == 1
    assert sorted(path.name for path in (tmp_path / 'checkpoints').iterdir()) == ['2', 'damaged-4']
    store = Checkpoints(tmp_path)
    assert checksums.of_tree(store.restore(state(0, mesh))[0]._asdict()) == first['again']
    store.close()
