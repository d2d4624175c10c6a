"""A model that diverged has no scores, whatever its argmax happens to hit."""

import json
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_fair.core import evaluate
from fedjax_fair.metrics import last_k, make_task, over_seeds, summarise
from fedjax_fair.metrics.reductions import ABSURD_LOSS
from fedjax_fair.report import make_tables, remarks_of, verdict
from fedjax_fair.report.cells import cell_text
from fedjax_fair.report.data_files import to_csv
from fedjax_fair.results import load_runs
from fedjax_fair.results.evaluations import evaluation_line
from fedjax_fair.training import Config, run
from fedjax_fair.training.progress import fairness_note

LABELS = {'classification': (4,), 'multilabel': (4, 2), 'segmentation': (4, 3, 3)}


def metrics_of(name, scale):
    """What a task says of logits that are wrong by ``scale`` for one example of four, and right for the others."""
    task, shape = make_task(name, 2), LABELS[name]
    y = jnp.zeros(shape, jnp.int32).at[::2].set(1)
    right = jax.nn.one_hot(y, 2) if name != 'multilabel' else 2.0 * y.astype(jnp.float32) - 1.0
    logits = right.at[0].multiply(-scale)
    metrics = task.metrics(task.record(logits, y), y, jnp.array([True, True, True, False]))
    return task, jax.tree.map(np.asarray, evaluate._without_diverged(types.SimpleNamespace(task=task), metrics))


@pytest.mark.parametrize('name', LABELS)
@pytest.mark.parametrize('scale', [np.nan, np.inf, 5.6e27, 1e9])
def test_no_task_scores_a_model_that_diverged(name, scale):
    _, metrics = metrics_of(name, scale)
    assert metrics['loss'] == np.inf and metrics['count'] == 3
    floats = [value for key, value in metrics.items() if key != 'loss' and value.dtype.kind == 'f']
    assert len(floats) >= 3 and all(np.isnan(value).all() for value in floats)
    assert not np.any(metrics.get('confusion', 0))


@pytest.mark.parametrize('name', LABELS)
def test_a_loss_that_is_merely_high_counts(name):
    task, metrics = metrics_of(name, ABSURD_LOSS / 10)
    assert 1e3 < metrics['loss'] < ABSURD_LOSS and np.isfinite(metrics[task.score])


def test_the_bound_belongs_to_the_task():
    """A loss of another unit may be large; what is not finite is never a loss."""
    task = make_task('classification', 2)._replace(absurd_loss=float('inf'))
    spec = types.SimpleNamespace(task=task)
    metrics = {'accuracy': jnp.ones(3), 'loss': jnp.array([1e30, jnp.inf, jnp.nan]), 'count': jnp.array([4, 4, 0])}
    assert np.array_equal(evaluate._without_diverged(spec, metrics)['accuracy'], [1, np.nan, 1], equal_nan=True)
    without = {'accuracy': jnp.ones(3), 'count': jnp.array([4, 4, 0])}
    assert evaluate._without_diverged(spec, without) is without


ONE_LOST = {'accuracy': [0.9, 1.0, 0.8], 'loss': [0.2, np.inf, 0.4], 'auc_ovo': [0.9, 0.9, 0.9], 'count': [10, 10, 10]}


def test_statistics_over_the_other_clients_would_pass_for_those_of_all():
    found = summarise(ONE_LOST, [0, 1, 2], ('a', 'b'), [0, 0, 1], per_client=True)
    assert found['client_accuracy'] == [0.9, None, 0.8]
    assert found['group_accuracy'] == [None, 0.8] and found['group_auc_ovo'] == [None, 0.9]
    assert {value for value in found.values() if not isinstance(value, list)} == {None}
    assert json.dumps(last_k([found, found], 2)) == json.dumps(found)
    healthy = summarise(ONE_LOST | {'loss': [0.2, 0.3, 0.4]}, [0, 1, 2], ('a', 'b'), [0, 0, 1], per_client=True)
    assert last_k([healthy, found], 2)['avg'] is None and last_k([found, healthy], 1)['avg'] == healthy['avg']
    assert over_seeds([healthy, found])['avg'] == {'mean': None, 'std': None}


def test_one_model_of_all_clients_is_lost_for_all():
    found = summarise(ONE_LOST, [0, 1, 2], ('a', 'b'), [0, 0, 1])
    assert found['client_accuracy'] == [None] * 3 and found['group_accuracy'] == [None] * 2 and found['avg'] is None


def test_validation_does_not_choose_a_model_that_is_lost_for_some():
    federation = types.SimpleNamespace(groups=(), group_of=None)
    values = {name: np.array(value) for name, value in ONE_LOST.items()}
    line = evaluation_line(5, 0, 0.1, {}, federation, 'accuracy', values)
    assert line['validation'] is None and line['validation_worst'] is None


def test_progress():
    assert fairness_note([{'avg': None, 'std': None, 'worst': None, 'loss': None}]) == 'diverged'


@pytest.fixture(scope='module')
def folders(tmp_path_factory):
    """A run that diverges and one that does not."""
    root = tmp_path_factory.mktemp('diverged')
    settings = {'scenario': 'gaussian_toy_1', 'rounds': 2, 'eval_every': 1, 'seeds': (0, 1), 'devices': 1}
    for name, rate in (('sane', 1.0), ('absurd', 1e30)):
        config = Config(recipe='scaffold', hyper={'scaffold.server_lr': rate}, **settings)
        run(config, root / name, quiet=True)
    return [root / 'sane', root / 'absurd']


def test_files_tables_and_verdicts_say_so(folders):
    assert json.loads((folders[1] / 'metrics.jsonl').read_text().splitlines()[-1])['global']['avg'] is None
    runs = load_runs(folders)
    assert [one.diverged() for one in runs] == [False, True]
    assert [one.diverged('adapted') for one in runs] == [False, True]
    (table,) = make_tables(runs)
    cells = dict(zip([column.name for column in table.columns], table.rows[1].cells, strict=True))
    assert {cells[name].word for name in ('AVG', 'spread', 'worst', 'loss')} == {'diverged'}
    assert cell_text(table.columns[0], table.rows[1].cells[0]) == 'diverged'
    assert ',level,true,,,,,,,,,,,,diverged,' in to_csv(table)
    told = [line for line in remarks_of(runs) if 'diverged: the test loss is not finite, or absurdly large' in line]
    assert len(told) == 2 and not any('identical' in line for line in remarks_of(runs))
    found = verdict(*reversed(folders))
    assert found.avg is None and found.conclusion == 'undecided' and '(absurd): diverged.' in found.text
    turned = verdict(*folders)
    assert turned.avg is None and 'undecided (scaffold (absurd) diverged)' in turned.text


def test_a_run_alone(folders):
    (table,) = make_tables(load_runs(folders[1:]))
    assert [column.name for column in table.columns][:3] == ['AVG', 'spread', 'worst']
    assert {cell.word for cell in table.rows[0].cells[:3]} == {'diverged'}
