"""The server half of our methods against vectors made by other people's code; tests/golden/README.md derives them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import FFL4MIA_PARAMS as PARAMS
from lab import FFL4MIA_STATS as STATS
from lab import GOLDEN

from fedjax_fair.core.types import Method
from fedjax_fair.methods import make_methods
from fedjax_fair.testing import scripted_rounds


@pytest.mark.parametrize(('recipe', 'hyper'), [('fedavg', {}), ('qfedavg', {'qfedavg.q': 1.0})])
def test_ffl4mia_aggregation(recipe, hyper):
    golden = np.load(GOLDEN / 'ffl4mia_aggregation.npz')
    with jax.enable_x64(True):
        start = {k: jnp.asarray(golden[f'start_{k}']) for k in PARAMS + STATS}
        after = {k: golden[f'{recipe}_global_{k}'] for k in PARAMS + STATS}
        sent = {k: np.concatenate([np.asarray(start[k])[None], after[k][:-1]]) for k in PARAMS + STATS}
        updates = {k: golden[f'local_{k}'] - sent[k][:, None] for k in PARAMS + STATS}
        out = scripted_rounds(
            make_methods(recipe, hyper),
            {'params': {k: start[k] for k in PARAMS}, 'batch_stats': {k: start[k] for k in STATS}},
            {'params': {k: updates[k] for k in PARAMS}, 'batch_stats': {k: updates[k] for k in STATS}},
            {'loss': golden['loss']},
            golden['sizes'],
        )
        for kind, names in (('params', PARAMS), ('batch_stats', STATS)):
            for name in names:
                np.testing.assert_allclose(out.variables[kind][name], after[name], rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize('q', [0.0, 0.5, 1.0, 2.0])
def test_marsfl_qffl(q):
    golden = np.load(GOLDEN / 'marsfl_qffl.npz')
    updates = golden[f'q{q}_wk'] - golden['w0']
    spy = Method(
        'spy',
        init=lambda variables, run: (None, jnp.zeros(2)),
        commit=lambda view, updates, weights, update: (
            None,
            jnp.stack([weights, view.reports_of('qffl')['update_sq_norm']], 1),
        ),
    )
    out = scripted_rounds(
        [*make_methods('qffl', {'qffl.q': q}), spy],
        {'w': golden['w0']},
        {'w': updates[None]},
        {'loss': golden[f'q{q}_F'][None]},
        [15] * 4,
        lr=float(golden['lr']),
    )
    np.testing.assert_allclose(out.variables['w'][0], golden[f'q{q}_w_new'], rtol=0, atol=1e-5)
    weights, squares = np.asarray(out.clients['spy'][0], np.float64).T
    loss, steep = golden[f'q{q}_F'] + 1e-10, 1 / golden['lr']
    mass = steep * (loss**q).sum() * weights  # L F^q of every client, from our weights
    np.testing.assert_allclose(-mass[:, None] * updates, golden[f'q{q}_Delta'], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mass * (1 + q * steep * squares / loss), golden[f'q{q}_h'], rtol=1e-5)


def test_marsfl_scaffold():
    golden = np.load(GOLDEN / 'marsfl_scaffold.npz')
    out = scripted_rounds(
        make_methods('scaffold', {'scaffold.server_lr': float(golden['global_lr'])}),
        {'w': golden['w_before'][0]},
        {'w': golden['y'] - golden['w_before'][:, None]},
        {'steps': np.full((4, 4), float(golden['K']), np.float32)},
        [15] * 4,
        lr=float(golden['lr']),
    )
    np.testing.assert_allclose(out.variables['w'], golden['w_after'], rtol=0, atol=1e-5)
    np.testing.assert_allclose(out.server['scaffold']['w'], golden['c'], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(out.clients['scaffold']['w'], golden['c_i'], rtol=1e-4, atol=1e-5)


def test_scripted_rounds_with_absent_clients_and_empty_slots():
    """Rows of absent clients stay; ids, masks and sizes go where they belong."""
    updates = jnp.arange(12, dtype=jnp.float32).reshape(2, 3, 2)
    ids, mask = [[4, 1, 9], [0, 4, 1]], [[True, True, True], [True, False, True]]
    script = ({'w': jnp.zeros(2)}, {'w': updates}, {}, [1, 2, 3, 4, 5])
    out = scripted_rounds(make_methods('scaffold'), *script, num_clients=5, ids=ids, mask=mask)
    first = updates[0, :2].mean(0)
    np.testing.assert_allclose(out.variables['w'][0], first)
    np.testing.assert_allclose(out.variables['w'][1], first + updates[1, ::2].mean(0))
    rows = np.asarray(out.clients['scaffold']['w'])
    np.testing.assert_allclose(rows[0, [4, 1]], -np.asarray(updates[0, :2]))
    np.testing.assert_array_equal(rows[0, [0, 2, 3]], 0)
    np.testing.assert_array_equal(rows[1, 4], rows[0, 4])
    sizes = scripted_rounds(make_methods('fedavg'), *script, num_clients=5, ids=ids, mask=mask)
    np.testing.assert_allclose(sizes.variables['w'][0], (5 * updates[0, 0] + 2 * updates[0, 1]) / 7, rtol=1e-6)


def test_a_missing_report_is_named():
    script = ({'w': jnp.zeros(2)}, {'w': jnp.ones((1, 2, 2))}, {'sharpness': jnp.ones((1, 2))}, [1, 1])
    with pytest.raises(KeyError, match="no client reported 'loss'; reported: sharpness"):
        scripted_rounds(make_methods('qfedavg'), *script)
