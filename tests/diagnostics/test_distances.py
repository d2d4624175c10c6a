"""FedHEAL's objective (Eq. 10): by hand on a line, by a general minimiser, and of the model that was made."""

import jax.numpy as jnp
import numpy as np
import scipy.optimize

from fedjax_fair.diagnostics.distances import VARIANCES, variance_objective
from fedjax_fair.methods import make_methods
from fedjax_fair.testing import scripted_rounds


def watched(recipe, moves, sizes, mask=None):
    """What the diagnostic holds after rounds with the updates ``moves[R, C, D]``."""
    shown = jnp.asarray(moves, jnp.float32)
    start = {'w': jnp.zeros(shown.shape[2:])}
    mask = np.ones(shown.shape[:2], bool) if mask is None else mask
    played = scripted_rounds(make_methods(f'{recipe}+watch_distances'), start, {'w': shown}, {}, sizes, mask=mask)
    return {name: np.asarray(table[-1]) for name, table in played.server['watch_distances'].items()}


def spread_of(point, models):
    return np.var(((models - point) ** 2).sum(-1))


def test_three_clients_on_a_line_by_hand():
    """Models at 0 and 2 of 6 and 2 examples: U is 1/2, and 1 with equal weights. Then a third at 4."""
    seen = watched('fedavg', [[[0.0], [2.0], [4.0]]], [6, 2, 2], np.array([[True, True, False]]))
    by_examples = np.var([0.25, 2.25])
    assert seen['distances'][0].tolist()[:2] == [0.25, 2.25] and np.isnan(seen['distances'][0, 2])
    np.testing.assert_allclose([seen['aggregated'][0], seen['by_examples'][0]], by_examples, rtol=1e-6)
    np.testing.assert_allclose([seen['by_votes'][0], seen['least'][0]], 0, atol=1e-6)
    three = watched('uniform', [[[0.0], [2.0], [4.0]]], [6, 2, 2])
    assert three['distances'][0].tolist() == [4, 0, 4]
    np.testing.assert_allclose(three['aggregated'][0], 32 / 9, rtol=1e-6)  # of 4, 0, 4
    np.testing.assert_allclose(three['by_examples'][0], np.var([1.2**2, 0.8**2, 2.8**2]), rtol=1e-5)
    np.testing.assert_allclose(three['least'][0], 32 / 9, rtol=1e-5)  # the derivative of Eq. 10 is 0 in the middle


def test_the_best_weights_are_those_of_a_search():
    rng = np.random.default_rng(0)
    moves = rng.normal(size=(4, 3, 5)).astype(np.float32)
    moves[:, 0] *= 3
    seen = watched('fedavg', moves, [1, 2, 5])
    simplex = {'type': 'eq', 'fun': lambda p: p.sum() - 1}
    for t, models in enumerate(moves.astype(np.float64)):
        found = scipy.optimize.minimize(
            lambda p, models=models: spread_of(p @ models, models),
            np.full(3, 1 / 3), bounds=[(0, 1)] * 3, constraints=simplex, options={'ftol': 1e-14},
        )  # fmt: skip
        np.testing.assert_allclose(seen['least'][t], found.fun, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(seen['by_votes'][t], spread_of(models.mean(0), models), rtol=1e-4)
        np.testing.assert_allclose(seen['aggregated'][t], seen['by_examples'][t], rtol=1e-4)
    assert (seen['least'] < seen['by_votes']).all() and (seen['least'] < seen['by_examples']).all()


def test_the_model_that_is_measured_is_the_one_that_was_made():
    """Under FedHEAL neither examples nor masks are left out; absent clients do not count."""
    rng = np.random.default_rng(1)
    moves = rng.normal(size=(5, 4, 6)).astype(np.float32)
    online = np.ones((5, 4), bool)
    online[3, 1] = False
    sizes = [1, 2, 3, 4]
    start = {'w': jnp.zeros(6)}
    methods = make_methods('fedheal+watch_distances')
    played = scripted_rounds(methods, start, {'w': jnp.asarray(moves)}, {}, sizes, mask=online)
    seen = {name: np.asarray(table[-1]) for name, table in played.server['watch_distances'].items()}
    before = np.concatenate([np.zeros((1, 6)), np.asarray(played.variables['w'])[:-1]])
    for t in range(5):
        update, own = np.asarray(played.variables['w'])[t] - before[t], moves[t, online[t]]
        np.testing.assert_allclose(seen['distances'][t, online[t]], ((own - update) ** 2).sum(1), rtol=1e-4)
        np.testing.assert_allclose(seen['aggregated'][t], spread_of(update, own), rtol=1e-3)
        shares = np.array(sizes)[online[t]] / np.array(sizes)[online[t]].sum()
        np.testing.assert_allclose(seen['by_examples'][t], spread_of(shares @ own, own), rtol=1e-3)
    assert np.isnan(seen['distances'][3, 1]) and not np.isnan(seen['distances'][online]).any()
    assert abs(seen['aggregated'] - seen['by_examples']).max() > 0.1
    assert set(seen) == {*VARIANCES, 'distances'}


def test_one_client_is_as_far_as_itself():
    objective = variance_objective(jnp.array([[4.0, 1.0], [1.0, 9.0]]), jnp.array([True, False]))
    assert objective.tolist() == [[0, 0], [0, 0]]
