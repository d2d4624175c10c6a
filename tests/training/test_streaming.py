"""Examples and client rows away from the device: the same results, bit for bit."""

import contextlib
import dataclasses
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import assert_same

from fedjax_fair.core import client_map
from fedjax_fair.core.tree import num_bytes
from fedjax_fair.core.types import FedState
from fedjax_fair.training import Config, cohort_supply, finished, prepare, run
from fedjax_fair.training.checkpoint import Checkpoints
from fedjax_fair.training.cohort_supply import Streaming
from fedjax_fair.training.rows import RowStore

# No rows; rows that clients write; own models that are evaluated, and rows that the server writes.
CASES = {
    'fedavg': [('host', 'device')],
    'scaffold': [('disk', 'host'), ('host', 'disk')],
    'personal+fphl': [('host', 'host')],
}


@pytest.fixture
def few(sites) -> Config:
    """Six clients of three sites, of which three take part; some drop out."""
    how = {'data': {'clients_per_domain': 2}, 'participation': 0.5, 'dropout': 0.2, 'seeds': (0, 3)}
    return Config(scenario=sites, rounds=5, eval_every=2, batch_size=16, model='logreg', checkpoint_every=3, **how)


@pytest.mark.parametrize('recipe', CASES)
def test_where_things_are_changes_nothing(few, recipe, tmp_path, read):
    few = dataclasses.replace(few, recipe=recipe)
    run(few, tmp_path / 'device', quiet=True)
    for examples, rows in CASES[recipe]:
        here = tmp_path / f'{examples} {rows}'
        run(dataclasses.replace(few, examples=examples, rows=rows), here, quiet=True)
        assert read(tmp_path / 'device' / 'metrics.jsonl') == read(here / 'metrics.jsonl')
        assert_same(*(finished(folder)[1] for folder in (tmp_path / 'device', here)))


def test_everybody_in_another_order(few, tmp_path, read):
    """Tables of a cohort of all clients are in the order of the cohort, not of the clients' numbers."""
    few = dataclasses.replace(few, recipe='scaffold', sampler='size', participation=1.0, rounds=2, dropout=0.0)
    for name, rows in (('device', 'device'), ('host', 'host')):
        run(dataclasses.replace(few, examples=name, rows=rows), tmp_path / name, quiet=True)
    assert read(tmp_path / 'device' / 'metrics.jsonl') == read(tmp_path / 'host' / 'metrics.jsonl')


def test_nothing_is_left_of_what_was_kept_for_the_run(few, tmp_path):
    few = dataclasses.replace(few, recipe='scaffold', examples='disk', rows='disk', rounds=4, checkpoint_every=1)
    run(few, tmp_path / 'out', quiet=True)
    assert not {'examples', 'rows'} & {path.name for path in (tmp_path / 'out').iterdir()}
    for folder in ('checkpoints', 'checkpointed_rows'):
        assert {path.name for path in (tmp_path / 'out' / folder).iterdir() if path.is_dir()} >= {'3', '4'}
    assert len(list((tmp_path / 'out' / 'checkpointed_rows').iterdir())) <= 3


def test_nothing_is_left_of_a_run_that_failed(few, tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError('out of memory')

    monkeypatch.setattr(Streaming, 'evaluations', fail)
    with pytest.raises(RuntimeError, match='out of memory'):
        run(dataclasses.replace(few, examples='disk'), tmp_path / 'out', quiet=True)
    assert not (tmp_path / 'out' / 'examples').exists()


@pytest.mark.parametrize(
    ('before', 'after'),
    [
        (('host', 'disk'), ('disk', 'host')),
        (('host', 'host'), ('device', 'device')),
        (('device', 'device'), ('host', 'disk')),
    ],
)
def test_a_stopped_run_goes_on_whatever_keeps_its_rows(few, before, after, tmp_path, read):
    few = dataclasses.replace(few, recipe='scaffold')
    run(few, tmp_path / 'whole', quiet=True)
    first, second = (dataclasses.replace(few, examples=examples, rows=rows) for examples, rows in (before, after))
    run(dataclasses.replace(first, rounds=3), tmp_path / 'part', quiet=True)
    (tmp_path / 'part' / 'summary.json').unlink()
    config = (tmp_path / 'part' / 'config.json').read_text().replace('"rounds": 3', '"rounds": 5')
    (tmp_path / 'part' / 'config.json').write_text(config)
    run(second, tmp_path / 'part', resume=True, quiet=True)
    whole, part = (read(tmp_path / name / 'metrics.jsonl') for name in ('whole', 'part'))
    assert whole[-2:] == part[-2:]


def test_rows_are_checkpointed_as_files_without_a_copy_in_memory(tmp_path):
    """Orbax copies arrays of the host before it writes them, which rows that outgrow memory would not survive."""
    tables = np.lib.format.open_memmap(tmp_path / 'rows.npy', 'w+', np.float32, (1, 2000, 5000))  # 40 MB
    state = FedState(jnp.ones(1, jnp.int32), {}, {}, {}, {'a': tables}, jnp.zeros(1))
    checkpoints = Checkpoints(tmp_path)
    tracemalloc.start()
    checkpoints.save(1, state, {})
    checkpoints.close()
    assert tracemalloc.get_traced_memory()[1] < tables.nbytes / 2
    tracemalloc.stop()
    again, _ = Checkpoints(tmp_path).restore(state)
    np.testing.assert_array_equal(again.clients['a'][0, 0], 0)


def test_nothing_is_compiled_twice(few, tmp_path):
    experiment = prepare(dataclasses.replace(few, recipe='scaffold', examples='host', rows='host'))
    assert experiment.storage == ('host', 'host')
    supply = Streaming(experiment, tmp_path)
    lowered = []
    with listening(lambda event, _, **of: lowered.append(of.get('fun_name')) if event == LOWERED else None):
        states = supply.init()
        for n in (0, 1, 3):
            states, _ = supply.advance(states, n)
    assert lowered.count('jit(advance)') == 1, lowered
    assert {leaf.shape[1] for leaf in jax.tree.leaves(states.clients)} == {3}  # the cohort's


LOWERED = '/jax/core/compile/jaxpr_to_mlir_module_duration'  # every compilation begins with this event


@contextlib.contextmanager
def listening(hear):
    """Call `hear(event, seconds, **of)` for every event that JAX times."""
    jax.monitoring.register_event_duration_secs_listener(hear)
    try:
        yield
    finally:
        jax.monitoring.unregister_event_duration_listener(hear)


@pytest.mark.parametrize(
    ('settings', 'message'),
    [
        ({'recipe': 'scaffold', 'rows': 'host', 'examples': 'device'}, 'rows=host needs examples=host'),
        (
            {'recipe': 'ditto', 'hyper': {'ditto.aggregate': 'served'}, 'rows': 'disk'},
            'rows=disk: personal makes its',
        ),
        ({'examples': 'tape'}, "examples='tape' is not one of 'auto', 'device', 'host', 'disk'"),
    ],
)
def test_what_cannot_be_is_refused(few, settings, message):
    with pytest.raises(ValueError, match=message):
        prepare(dataclasses.replace(few, **settings))


def test_small_data_stays_on_the_device(few):
    assert prepare(dataclasses.replace(few, recipe='scaffold')).storage == ('device', 'device')


@pytest.mark.parametrize(
    ('share', 'settings', 'storage'),
    [
        (1 / 5, {'recipe': 'scaffold'}, ('device', 'device')),
        (1 / 3, {'recipe': 'scaffold'}, ('host', 'host')),
        (2 / 3, {'recipe': 'scaffold'}, ('host', 'disk')),
        (2 / 3, {'recipe': 'scaffold', 'participation': 1.0}, ('device', 'device')),
        (2 / 3, {'recipe': 'scaffold', 'rows': 'device'}, ('host', 'device')),
        (2 / 3, {'recipe': 'scaffold', 'examples': 'device'}, ('device', 'device')),
        (2 / 3, {'recipe': 'ditto', 'hyper': {'ditto.aggregate': 'served'}}, ('host', 'device')),
        (2 / 3, {'recipe': 'fedavg'}, ('host', 'device')),
    ],
)
def test_what_does_not_fit_is_kept_elsewhere(few, share, settings, storage, monkeypatch):
    """``share`` of the machine's memory is what the rows of SCAFFOLD take."""
    scaffold = prepare(dataclasses.replace(few, recipe='scaffold'))
    rows = num_bytes(scaffold.program.shapes(scaffold.lanes).clients)
    monkeypatch.setattr(client_map, 'host_memory', lambda: int(rows / share))
    assert prepare(dataclasses.replace(few, **settings)).storage == storage


@pytest.mark.parametrize('on_disk', [False, True])
def test_rows_of_two_cohorts_that_overlap(on_disk, tmp_path):
    """Rows are read ahead, but what the round in between changes reaches the next one all the same."""
    folder = tmp_path / 'rows' if on_disk else None
    store = RowStore({'a': jnp.zeros((1, 2, 3))}, 5, folder)
    cohorts = [np.array([[0, 1]]), np.array([[1, 4]]), np.array([[1, 5]]), np.array([[0, 1]])]  # 5: nobody
    for place, ids in enumerate(cohorts):
        rows = store.bring(ids, cohorts[place + 1] if place + 1 < len(cohorts) else None)
        store.keep(ids, {'a': rows['a'] + 1})
    np.testing.assert_array_equal(store.tables()['a'][0, :, 0], [2, 4, 0, 0, 1])


def test_rounds_are_drawn_as_they_come(few, monkeypatch):
    experiment = prepare(few)
    program, lanes = experiment.program, experiment.lanes
    asked, expected = [], np.asarray(program.sample(lanes, jnp.arange(9, dtype=jnp.int32)))

    def sample(lanes, rounds):
        asked.append(len(rounds))
        return program.sample(lanes, rounds)

    monkeypatch.setattr(cohort_supply, 'ROUNDS_AT_ONCE', 4)
    drawn = cohort_supply.Drawn(program._replace(sample=sample), lanes, 10**6)
    assert len(drawn) == 10**6 and not asked
    np.testing.assert_array_equal([drawn[number] for number in range(9)], expected)
    assert asked == [4, 4, 4]  # always so many: another number would be compiled
