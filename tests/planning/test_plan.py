"""Plans: what runs would take on machines that are not there."""

import dataclasses
import importlib.util
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from fedjax_fair.cli import main
from fedjax_fair.core.platform import Platform, machine
from fedjax_fair.errors import UserError
from fedjax_fair.planning import plan, topology
from fedjax_fair.planning.blank_data import blank, blank_of, without_data
from fedjax_fair.planning.topologies import Topology
from fedjax_fair.training import Config, prepare
from fedjax_fair.training.compiled import compiled_round, turns_of
from fedjax_fair.training.hlo import work_of

SHAPES = 'clients=4,examples=6,tests=5,side=8,channels=1,classes=3'
SMALL = {'model': 'mlp', 'model_options': {'widths': (4,)}, 'batch_size': 2, 'local_epochs': 1, 'rounds': 3}
LOOPS = """
%inner (p: s32[]) -> s32[] {
  %a = f32[2,3] all-reduce(%p), backend_config={"estimated_cycles":"3"}
}
%body (p: s32[]) -> s32[] {
  %f = f32[2] fusion(%p), calls=%fused, backend_config={"estimated_cycles":"10"}
  %w = s32[] while(%p), condition=%open, body=%inner, metadata={op_name="jit(f)/while/body/vmap(steps)/while"}
}
%five (p: s32[]) -> pred[] {
  %c = s32[]{:T(128)} constant(5)
  ROOT %less = pred[]{:T(512)} compare(%p, %c), direction=LT
}
%open (p: s32[]) -> pred[] {
  ROOT %less = pred[] compare(%p, %q), direction=LT
}
%costly (p: s32[]) -> s32[] {
  %f = f32[2] fusion(%p), backend_config={"estimated_cycles":"7"}
}
%cheap (p: s32[]) -> s32[] {
  %f = f32[2] fusion(%p), backend_config={"estimated_cycles":"1"}
}
ENTRY %main (p: s32[]) -> s32[] {
  %w = s32[] while(%p), condition=%five, body=%body
  %waves = s32[] while(%p), condition=%open, body=%cheap, metadata={op_name="jit(f)/turns_6/while"}
  %found = s32[] while(%p), condition=%open, body=%cheap, metadata={op_name="jit(f)/steps/while/body/while"}
  %c = s32[] conditional(%p, %p, %p), branch_computations={%costly, %cheap}
}
"""


def test_cycles_and_bytes_count_as_often_as_loops_turn():
    """Five turns around steps; six turns by a name; once without a name; the dearer of two branches."""
    work = work_of(LOOPS, {'passes': 9, 'steps': 4})
    assert work.cycles == 5 * (10 + 4 * 3) + 6 * 1 + 1 + 7
    assert work.sent == 5 * 4 * (2 * 3 * 4)


@pytest.fixture
def uneven():
    """Clients with 20, 8 and 3 examples."""
    return dataclasses.replace(blank(clients=3, examples=20, side=8, tests=2), sizes=np.array([20, 8, 3], np.int32))


def experiment_of(federation, platform=None, **settings):
    config = without_data(Config(**{**SMALL, 'eval_batch_size': 4, **settings}))
    return prepare(config, platform=platform, federation=federation)


@pytest.mark.parametrize('chunk,steps,passes', [(1, 32 / 3, 8 / 3), (2, 12, 3), (3, 20, 5)])
def test_a_chunk_turns_as_often_as_its_longest_client(uneven, chunk, steps, passes):
    """Two epochs of batches of two: 20, 8 and 4 steps; passes in batches of four: 5, 2 and 1."""
    turns = turns_of(experiment_of(uneven, local_epochs=2, client_map='chunked', chunk=chunk, devices=1))
    assert turns == pytest.approx({'steps_of_train': steps, 'pass_over_examples': passes})


def test_loops_over_data_keep_their_names_in_compiled_programs(uneven):
    """Also inside of vmap, and beside the loops of an ordered map, which tell their turns."""
    both = experiment_of(uneven, Platform('gpu', machine().devices[:1]), recipe='qfedavg', chunk=3)
    assert {'steps_of_train', 'pass_over_examples'} <= set(loops_of(both))
    ordered = experiment_of(uneven, recipe='qfedavg', deterministic=True, devices=1)
    assert {'steps_of_train', 'pass_over_examples', 'turns_3', 'turns_1'} <= set(loops_of(ordered))


def loops_of(experiment):
    """The last words of the names of all loops of a round."""
    lines = [line for line in compiled_round(experiment).run.as_text().splitlines() if ' while(' in line]
    return re.findall(r'(\w+)\)?/while"', '\n'.join(lines))


CYCLES = """
from fedjax_fair.planning import plan, topology
from fedjax_fair.training import Config

there = topology('v5e')
for recipe, size in (('fedavg', 160), ('qfedavg', 160), ('qfedavg', 80)):
    how = {'batch_size': 16, 'local_epochs': 1, 'eval_batch_size': size, 'chunk': 2}
    settings = Config(recipe=recipe, model='mlp', model_options={'widths': (4,)}, **how)
    told = plan(settings, there, 'clients=4,examples=160,tests=5,side=8,channels=1')
    print(told.round_cycles)
"""


def test_measurements_of_clients_count_by_their_own_turns():
    """By the compiler for TPU: ten steps with a batch of 160 measured, in one pass or in two.

    In a process of its own, because that compiler ends the process at the flags of these tests.
    """
    if importlib.util.find_spec('libtpu') is None:
        pytest.skip('needs the compiler for TPU')
    here = {name: value for name, value in os.environ.items() if name != 'XLA_FLAGS'}
    done = subprocess.run([sys.executable, '-c', CYCLES], env=here, stdout=subprocess.PIPE, text=True, check=True)
    alone, once, twice = map(float, done.stdout.split())
    assert alone < once < twice
    assert once - alone < 0.1 * alone, 'by the ten turns of steps it would be ten times as much'
    assert twice - once < 0.1 * alone


def test_blank_data_takes_no_memory():
    data = blank(clients=1000, examples=10_000, side=224)
    assert data.x.nbytes > 10**12 and data.x.strides == (0, 0, 0, 0)
    assert data.num_clients == 1000 and data.sizes.sum() == 10**7


@pytest.mark.parametrize(
    'text,message',
    [
        ('v9', "`topology`=v9: 'v9' is not one of"),
        ('cpu:0', 'must be written KIND:SIZE'),
        ('gpu:2', 'needs `memory`, that of one GPU in GB'),
        ('cpu:1000000', 'needs 1000000 devices'),
    ],
)
def test_machines_that_cannot_be_are_refused(text, message):
    with pytest.raises(UserError) as error:
        topology(text)
    assert message in error.value.message


def test_shapes_that_cannot_be_are_refused():
    with pytest.raises(UserError, match='must be at least 1'):
        blank_of('clients=0')
    with pytest.raises(UserError, match='did you mean'):
        blank_of('client=3')


def test_a_plan_tells_what_stays_on_a_device():
    found = plan(Config(recipe='ditto', **SMALL), topology('cpu:1'), SHAPES)
    floats = 8 * 8 * 4 + 4 + 4 * 3 + 3
    assert found.fits and found.exact and found.devices == 1
    assert found.parts['model'] == 4 * floats
    assert found.parts['rows'] == 4 * 4 * floats, 'a personal model of each of four clients'
    assert found.parts['temporaries'] > 0
    assert found.gradients == 4 * 3 * 2, 'clients, steps, and two models of each'


def test_devices_that_share_the_work_exchange_updates():
    alone, shared = (plan(Config(**SMALL, devices=n), topology('cpu:2'), SHAPES) for n in (1, 2))
    assert alone.sent == 0 and shared.sent >= shared.parts['model']


def test_what_does_not_fit_is_told():
    small = Topology('tiny', Platform('gpu', machine().devices[:1], memory=5000), exact=False)
    assert not plan(Config(**SMALL, client_map='chunked', chunk=1), small, SHAPES).fits


def test_the_command_prints_a_plan(capsys, monkeypatch):
    words = ['--topology=gpu', '--memory=16', f'--shapes={SHAPES}', '--model=logreg', '--rounds=2', '--json']
    monkeypatch.setattr('sys.argv', ['fedjax-fair', 'plan', *words])
    with pytest.raises(SystemExit) as end:
        main.console()
    assert not end.value.code
    found = json.loads(capsys.readouterr().out)
    assert found['fits'] and not found['exact'] and found['memory'] == 16 * 10**9
