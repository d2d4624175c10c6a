"""Deterministic runs of every recipe give the same bytes on one device, on two and on four."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from lab import assert_same_bytes

from fedjax_fair.methods import RECIPES
from fedjax_fair.training import Config, prepare

pytestmark = pytest.mark.long

SMALL = {'num_clients': 8, 'client_sizes': (7, 4, 6, 3), 'test_size': 3}  # two clients of each of four domains
# A convolution and batch norm: most of all that XLA may fuse in one way or another.
NETWORK = {'model': 'cnn', 'norm': 'batch', 'model_options': {'widths': (4,)}}


def outcome(*kinds, **settings):
    """States, what the rounds say, and metrics of the models after three rounds of some of the clients."""
    how = {'participation': 0.6, 'dropout': 0.1, 'rounds': 3, 'batch_size': 4, 'local_epochs': 1}
    this = prepare(Config(data=SMALL, deterministic=True, checkpoint_every=0, **how, **NETWORK, **settings))
    program, data = this.program, this.examples()
    states, said = program.advance(this.lanes, program.init(this.lanes), data, jnp.int32(3))
    tests = jax.tree.map(jnp.asarray, this.federation.tests)
    scores = program.evaluate(this.lanes, states, tests, data, kinds=kinds or this.kinds)
    return jax.device_get((states, said, scores))


@pytest.mark.parametrize('recipe', {factory: name for name, factory in reversed(RECIPES.items())}.values())
def test_every_recipe_gives_the_same_bytes(recipe):
    one, *others = (outcome(recipe=recipe, devices=devices) for devices in (1, 2, 4))
    for other in others:
        assert_same_bytes(one, other)


@pytest.mark.parametrize('recipe', ['fedavg', 'ditto'])
def test_other_seeds_and_devices_change_no_byte_of_adapted_models(recipe):
    together = outcome('adapted', recipe=recipe, seeds=(0, 1, 2, 3), devices=2)
    alone = outcome('adapted', recipe=recipe, seeds=(2,), devices=4)
    assert_same_bytes(jax.tree.map(lambda leaf: leaf[2:3], together), alone)


def test_commands_with_all_optimisations_give_the_same_bytes(tmp_path):
    """In processes of their own: what tests leave out of compilation is in, and pools of threads differ in size."""
    flags = [
        '--recipe=fedavg+fedheal', '--num_clients=8', '--client_sizes=7,4,6,3', '--test_size=3', '--participation=0.6',
        '--model=cnn', '--norm=batch', '--model_options=widths=4x8', '--rounds=6', '--eval_every=2', '--batch_size=4',
        '--seeds=0,1', '--checkpoint_every=0', '--deterministic', '--quiet',
    ]  # fmt: skip
    results = []
    for devices, available in ((1, 1), (2, 2), (4, 4), (2, 7)):
        out = tmp_path / f'{devices} of {available}'
        # The command line itself makes the two devices of which one works.
        virtual = f'--xla_force_host_platform_device_count={available}' if available > 1 else ''
        command = [sys.executable, '-m', 'fedjax_fair', 'run', *flags, f'--devices={devices}', f'--out={out}']
        subprocess.run(command, check=True, env=os.environ | {'XLA_FLAGS': virtual})
        results.append((out / 'metrics.jsonl').read_bytes())
    assert all(other == results[0] for other in results[1:])
