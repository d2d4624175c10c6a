"""Deterministic runs give the same bytes on any number of devices, and say where they cannot."""

import jax
import numpy as np
import pytest
from lab import assert_same_bytes
from test_resume import interrupt

from fedjax_fair.core.platform import machine, made_for
from fedjax_fair.errors import UserError
from fedjax_fair.training import Config, Interrupted, checked, devices, finished, prepare, run
from fedjax_fair.training.notes import layout_notes

pytestmark = pytest.mark.xdist_group('deterministic')


@pytest.fixture(scope='module')
def config(sites):
    """Personal models in rows, four of six clients, some of which drop out; two seeds."""
    return Config(
        recipe='ditto', scenario=sites, data={'clients_per_domain': 2}, participation=0.67, dropout=0.2, seeds=(0, 3),
        rounds=4, eval_every=2, batch_size=16, model='logreg', checkpoint_every=4, deterministic=True,
    )  # fmt: skip


@pytest.fixture(scope='module')
def on_two_devices(config, tmp_path_factory):
    out = tmp_path_factory.mktemp('deterministic') / 'out'
    run(config.changed(devices=2), out, quiet=True)
    return out


@pytest.mark.parametrize(
    'how',
    [
        {'devices': 1},
        {'devices': 4},
        {'devices': 4, 'client_map': 'chunked', 'chunk': 1},
        {'devices': 3, 'examples': 'host', 'rows': 'host'},
    ],
    ids=lambda how: ' '.join(f'{name}={value}' for name, value in how.items()),
)
def test_how_a_run_is_computed_changes_no_byte(config, on_two_devices, how, tmp_path):
    run(config.changed(**how), tmp_path / 'out', quiet=True)
    assert_same_results(tmp_path / 'out', on_two_devices)


def assert_same_results(one, other):
    assert (one / 'metrics.jsonl').read_bytes() == (other / 'metrics.jsonl').read_bytes()
    assert_same_bytes(*(finished(folder)[1] for folder in (one, other)))
    for name in ('predictions.npz', 'predictions_deployed.npz', 'predictions_adapted.npz'):
        assert_same_bytes(*(dict(np.load(folder / name)) for folder in (one, other)))


def test_a_run_that_goes_on_with_other_devices_is_the_same(config, on_two_devices, tmp_path, monkeypatch, capsys, read):
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupt(patch, 2)
        run(config.changed(devices=1), tmp_path / 'out', quiet=True)
    capsys.readouterr()
    run(config.changed(devices=4), tmp_path / 'out', resume=True, quiet=True)
    assert 'goes on' not in capsys.readouterr().err, 'nothing differs, so nothing is to be told'
    assert len(read(tmp_path / 'out' / 'summary.json')['layouts']) == 2
    assert_same_results(tmp_path / 'out', on_two_devices)


def test_a_run_tells_how_it_is_computed(config, on_two_devices, read):
    layout = 'cpu, float32, clients one at a time on 2 devices, sums in a fixed order'
    assert read(on_two_devices / 'config.json')['layout'] == layout
    assert read(on_two_devices / 'summary.json')['layouts'] == [layout]
    assert prepare(config.changed(devices=1)).layout == layout.replace('2 devices', '1 device')
    usual = config.changed(deterministic=False)
    assert prepare(usual.changed(devices=2)).layout == 'cpu, float32, clients chunked by 1, lanes spread over 2 devices'
    other = usual.changed(devices=1, precision='bfloat16', conv='exact')
    assert prepare(other).layout == 'cpu, bfloat16, conv exact, clients chunked by 1'


def test_what_decides_the_bytes_of_a_deterministic_run_is_told():
    one, two = (f'cpu, float32, clients one at a time on {n}, sums in a fixed order' for n in ('1 device', '2 devices'))
    half = two.replace('float32', 'bfloat16')
    assert layout_notes([], two, deterministic=True) == layout_notes([half, one], two, deterministic=True) == ()
    assert layout_notes([one], half, deterministic=True) == (
        f'goes on as {half} after {one}: results differ by rounding that grows',
    )


@pytest.mark.parametrize(
    ('settings', 'told'),
    [
        (
            {'client_map': 'vmap'},
            'deterministic runs one client at a time on a device, and client_map=vmap all at once',
        ),
        ({'chunk': 4}, 'deterministic runs one client at a time on a device, and chunk=4 more'),
    ],
)
def test_clients_at_once_are_refused(settings, told):
    with pytest.raises(UserError) as error:
        checked(Config(deterministic=True, **settings))
    assert str(error.value) == told


def test_one_cpu_device_is_not_enough():
    """XLA compiles programs of one device in another way."""
    with made_for(machine()._replace(devices=machine().devices[:1])):
        assert devices.available_devices(Config()) == 1
        with pytest.raises(UserError, match='deterministic needs 2 CPU devices, and JAX has 1; set jax_num_cpu_dev'):
            devices.available_devices(Config(deterministic=True))


@pytest.mark.parametrize(
    ('asked', 'cores', 'deterministic', 'made'),
    [(None, 3, False, 3), (1, 3, False, 1), (1, 3, True, 2), (None, 1, True, 2), (None, 3, True, 3)],
)
def test_the_command_line_makes_devices_enough(asked, cores, deterministic, made, monkeypatch):
    told = {}
    monkeypatch.delenv('XLA_FLAGS', raising=False)
    monkeypatch.setattr(devices, 'cores', lambda: cores)
    monkeypatch.setattr(jax.config, 'update', told.__setitem__)
    devices.use_host_devices(asked, deterministic)
    assert told == {'jax_num_cpu_devices': made}
