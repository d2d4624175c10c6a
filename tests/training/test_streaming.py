"""Examples and client rows away from the device: the same results, bit for bit."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import assert_same

from fedjax_fair.training import Config, finished, prepare, run
from fedjax_fair.training.rows import RowStore
from fedjax_fair.training.supply import Streaming

# No rows; rows that clients write; own models that are evaluated, and rows that the server writes.
CASES = {
    'fedavg': [('host', 'device')],
    'scaffold': [('disk', 'host'), ('host', 'disk')],
    'personal+fphl': [('host', 'host')],
}


@pytest.fixture
def few(sites) -> Config:
    """Six clients of three sites, of which three take part; some drop out."""
    how = {'clients_per_domain': 2, 'participation': 0.5, 'dropout': 0.2, 'seeds': (0, 3)}
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
    run(
        dataclasses.replace(few, recipe='scaffold', examples='disk', rows='disk', rounds=1),
        tmp_path / 'out',
        quiet=True,
    )
    assert not {'examples', 'rows'} & {path.name for path in (tmp_path / 'out').iterdir()}


def test_a_stopped_run_goes_on_whatever_keeps_its_rows(few, tmp_path, read):
    few = dataclasses.replace(few, recipe='scaffold')
    run(few, tmp_path / 'whole', quiet=True)
    away = dataclasses.replace(few, examples='host', rows='disk')
    run(dataclasses.replace(away, rounds=3), tmp_path / 'part', quiet=True)
    (tmp_path / 'part' / 'summary.json').unlink()
    config = (tmp_path / 'part' / 'config.json').read_text().replace('"rounds": 3', '"rounds": 5')
    (tmp_path / 'part' / 'config.json').write_text(config)
    run(dataclasses.replace(few, examples='disk', rows='host'), tmp_path / 'part', resume=True, quiet=True)
    whole, part = (read(tmp_path / name / 'metrics.jsonl') for name in ('whole', 'part'))
    assert whole[-2:] == part[-2:]


def test_nothing_is_compiled_twice(few, tmp_path):
    experiment = prepare(dataclasses.replace(few, recipe='scaffold', examples='host', rows='host'))
    assert experiment.storage == ('host', 'host')
    supply = Streaming(experiment, tmp_path)
    states = supply.init()
    for n in (0, 1, 3):
        states, _ = supply.advance(states, n)
    assert experiment.program.advance._cache_size() == 1
    assert {leaf.shape[1] for leaf in jax.tree.leaves(states.clients)} == {3}  # the cohort's


@pytest.mark.parametrize(
    ('settings', 'message'),
    [
        ({'recipe': 'scaffold', 'rows': 'host', 'examples': 'device'}, '--rows=host needs --examples=host'),
        (
            {'recipe': 'ditto', 'hyper': {'ditto.aggregate': 'served'}, 'rows': 'disk'},
            '--rows=disk: personal makes its',
        ),
        ({'examples': 'tape'}, '--examples=tape is not one of auto, device, host, disk'),
    ],
)
def test_what_cannot_be_is_refused(few, settings, message):
    with pytest.raises(ValueError, match=message):
        prepare(dataclasses.replace(few, **settings))


def test_small_data_stays_on_the_device(few):
    assert prepare(dataclasses.replace(few, recipe='scaffold')).storage == ('device', 'device')


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
