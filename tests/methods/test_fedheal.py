"""FedHEAL against its authors' code, the paper's equations, and a NumPy reading of every switch."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import GOLDEN

from fedjax_fair.core.types import Method
from fedjax_fair.methods import make_methods
from fedjax_fair.ops.consistency import consistent, counted
from fedjax_fair.registry import recipes
from fedjax_fair.testing import scripted_rounds
from fedjax_fair.training import Config, checked

CODE, PAPER = (np.load(GOLDEN / f'fedheal_{kind}_full.npz') for kind in ('code', 'paper'))
TENSOR, IS_PARAM = CODE['tensor_id'], CODE['is_param']


def unflat(flat):
    """``[..., 94]`` as the variables of a small network with batch statistics."""
    parts = {str(t): (flat[..., t == TENSOR], IS_PARAM[t == TENSOR][0]) for t in np.unique(TENSOR)}
    kinds = (('params', True), ('batch_stats', False))
    return {kind: {k: jnp.asarray(v) for k, (v, own) in parts.items() if own == flag} for kind, flag in kinds}


def flat(variables):
    both = variables['params'] | variables['batch_stats']
    return np.concatenate([np.asarray(both[str(t)]) for t in np.unique(TENSOR)], -1)


def spy(like):
    """Keeps what is gone after a round: masks, weights and distances."""
    kept, number = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, bool), like), jnp.zeros((), jnp.zeros(0).dtype)

    def commit(view, updates, weights, update):
        kept, distance = view.reports_of('fphl')['kept'], view.reports_of('fael')['distance']
        return None, {'kept': kept, 'p': weights, 'distance': distance}

    return Method(
        'spy', init=lambda variables, run: (None, {'kept': kept, 'p': number, 'distance': number}), commit=commit
    )


def play(recipe, hyper, start, delta, n, online=None):
    """Models ``[R, G]``, masks ``[R, M, G]`` and weights ``[R, M]`` of scripted rounds, and all that was kept."""
    start, updates = unflat(start), unflat(delta)
    out = scripted_rounds([*make_methods(recipe, hyper), spy(start)], start, updates, {}, n, mask=online)
    return flat(out.variables), flat(out.clients['spy']['kept']), np.asarray(out.clients['spy']['p']), out


# --- golden vectors --------------------------------------------------------------------------------------------------


def shares(kept, p):
    """``q[R, M, G]``: what a move of 1 by one client alone, where it is kept, adds to the aggregate."""
    reduce = make_methods('fphl')[0].reduce

    def of_round(kept, p):
        view = types.SimpleNamespace(reports={'kept': kept})
        alone = jnp.eye(len(p), dtype=p.dtype)[:, :, None] * kept[None].astype(p.dtype)
        return jax.vmap(lambda updates: reduce(view, updates, p))(alone)

    return jax.vmap(of_round)(jnp.asarray(kept), jnp.asarray(p))


def assert_shares(kept, p, golden, **tolerance):
    """Where anybody keeps a parameter; elsewhere they multiply nothing."""
    someone = np.broadcast_to(golden['mask'].any(1, keepdims=True), golden['mask'].shape)
    np.testing.assert_allclose(np.asarray(shares(kept, p))[someone], golden['q'][someone], **tolerance)


def test_the_authors_code():
    hyper = {'fedheal.tau': float(CODE['tau']), 'fedheal.beta': float(CODE['beta'])}
    models, kept, p, out = play('fedheal', hyper, CODE['w0'], CODE['delta'], [1] * 6)
    np.testing.assert_array_equal(kept, CODE['mask'])
    np.testing.assert_allclose(p, CODE['p'], rtol=0, atol=1e-6)
    np.testing.assert_allclose(models, CODE['global_after'], rtol=0, atol=1e-5)
    np.testing.assert_allclose(out.clients['fael']['weight'], CODE['p_raw'], rtol=0, atol=1e-6)
    np.testing.assert_allclose(out.clients['fael']['change'], CODE['dp'], rtol=0, atol=1e-6)
    np.testing.assert_allclose(out.clients['spy']['distance'], CODE['dist'], rtol=1e-6)
    assert_shares(kept, p, CODE, rtol=0, atol=1e-6)
    rounds = np.arange(1, 15)[:, None, None]
    np.testing.assert_allclose(flat(out.clients['fphl']['past']) / rounds, CODE['hist_after'], rtol=0, atol=1e-6)


def test_the_papers_equations():
    hyper = {'fedheal.tau': float(PAPER['tau']), 'fedheal.beta': float(PAPER['beta']), 'fedheal.semantics': 'paper'}
    with jax.enable_x64(True):
        args = (a.astype(np.float64) for a in (PAPER['w0'], PAPER['delta']))
        models, kept, p, out = play('fedheal', hyper, *args, PAPER['N'])
        np.testing.assert_array_equal(kept, PAPER['mask'])
        np.testing.assert_allclose(p, PAPER['p'], rtol=1e-9)
        np.testing.assert_allclose(out.clients['fael']['change'], PAPER['dp'], rtol=1e-9)
        np.testing.assert_allclose(out.clients['spy']['distance'], PAPER['dist'], rtol=1e-9)
        assert_shares(kept, p, PAPER, rtol=1e-9)
        np.testing.assert_allclose(models, PAPER['global_after'], rtol=1e-9, atol=1e-12)
        rounds = np.arange(1, 15)[:, None, None]
        np.testing.assert_allclose(1 - flat(out.clients['fphl']['past']) / rounds, PAPER['l'], atol=1e-12)


# --- every switch, in NumPy ------------------------------------------------------------------------------------------

READINGS = {
    'code': dict(
        mask_history='before', mask_cmp='>', zero_sign='down', distance='tensors', weight_state='sum', p_init='uniform'
    ),
    'paper': dict(
        mask_history='including',
        mask_cmp='>=',
        zero_sign='up',
        distance='squared',
        weight_state='normalised',
        p_init='sizes',
    ),
}
REST = dict(distance_scope='trainable', no_important='keep', bn_stats='masked', compat_partial=False)


def numpy_fedheal(w, delta, sizes, online, tau, beta, semantics='code', **switches):
    """Plain loops over rounds and clients; ``online[R, M]``."""
    on = READINGS[semantics] | REST | switches
    clients, shape = range(len(sizes)), delta.shape[2:]
    falls, seen = np.zeros((len(sizes), *shape)), np.zeros(len(sizes))
    share, raw, change, last = falls.copy(), {}, np.zeros(len(sizes)), np.zeros(len(sizes))
    models, masks, weights = [], [], []
    for t, moves in enumerate(delta.astype(float)):
        here = [m for m in clients if online[t, m]]
        kept = np.zeros(moves.shape, bool)
        for m in here:
            down = moves[m] <= 0 if on['zero_sign'] == 'down' else moves[m] < 0
            first, before = seen[m] == 0, falls[m] / max(seen[m], 1)
            if on['compat_partial']:
                before, share[m] = share[m].copy(), (share[m] * t + down) / (t + 1)
            falls[m], seen[m] = falls[m] + down, seen[m] + 1
            past = before if on['mask_history'] == 'before' else falls[m] / seen[m]
            c = np.round(np.where(down, past, 1 - past), 9)
            kept[m] = c > tau if on['mask_cmp'] == '>' else c >= tau
            kept[m] |= first and on['mask_history'] == 'before'
        if on['bn_stats'] == 'mean':
            kept[np.ix_(here, ~IS_PARAM)] = True
        masked = kept * moves
        for m in here:
            scope = range(8) if on['distance_scope'] == 'all' else np.unique(TENSOR[IS_PARAM])
            norms = np.array([np.linalg.norm(masked[m, j == TENSOR]) for j in scope])
            whole = (norms**2).sum()
            last[m] = {'tensors': norms.sum(), 'squared': whole, 'l2': np.sqrt(whole)}[on['distance']]
        total = last.sum() if on['compat_partial'] else last[here].sum()
        first_weight = sizes / sizes.sum() if on['p_init'] == 'sizes' else np.full(len(sizes), 1 / len(here))
        for m in here:
            change[m] = (1 - beta) * change[m] + beta * last[m] / total
            raw[m] = raw.get(m, first_weight[m]) + change[m]
        p = np.zeros(len(sizes))
        p[here] = [raw[m] for m in here] / sum(raw[m] for m in here)
        if on['weight_state'] == 'normalised':
            raw |= {m: p[m] for m in here}
        mass = p @ kept
        otherwise = p @ moves if on['no_important'] == 'mean' else 0
        w = w + np.where(mass > 0, (p @ masked) / np.where(mass > 0, mass, 1), otherwise)
        models.append(w), masks.append(kept), weights.append(p)
    return np.array(models), np.array(masks), np.array(weights)


FULL = np.ones((14, 6), bool)
PARTIAL = np.random.default_rng(5).random((14, 6)) < 0.6
PARTIAL[0], PARTIAL[:, 0] = True, True
LATE = PARTIAL & ~((np.arange(14) < 4)[:, None] & (np.arange(6) == 5))  # a client that comes after the first rounds
CASES = {
    'office': (0.4, 0.4, {}, FULL),
    'a bar that leaves parameters to nobody': (0.8, 0.4, {}, FULL),
    'high bar': (0.6, 0.4, {}, FULL),
    'beta 0': (0.3, 0.0, {}, FULL),
    'beta 1': (0.3, 1.0, {}, FULL),
    'weights alone': (-1.0, 0.4, {}, FULL),
    'paper, high bar': (0.6, 0.4, {'semantics': 'paper'}, FULL),
    'partial participation': (0.3, 0.4, {}, LATE),
    'partial participation as released': (0.3, 0.4, {'compat_partial': True}, PARTIAL),
    'partial, paper': (0.4, 0.4, {'semantics': 'paper'}, LATE),
    'one norm, all entries, sizes': (0.3, 0.4, {'distance': 'l2', 'distance_scope': 'all', 'p_init': 'sizes'}, FULL),
    'fallbacks': (0.8, 0.4, {'no_important': 'mean', 'bn_stats': 'mean', 'zero_sign': 'up'}, FULL),
    'a mean where nobody keeps': (0.8, 0.4, {'no_important': 'mean'}, FULL),
}


@pytest.mark.parametrize('case', CASES)
def test_every_switch_against_numpy(case):
    tau, beta, switches, online = CASES[case]
    sizes = PAPER['N']
    hyper = {f'fedheal.{k}': v for k, v in (switches | {'tau': tau, 'beta': beta}).items()}
    models, kept, p, _ = play('fedheal', hyper, CODE['w0'], CODE['delta'], sizes, online)
    expected = numpy_fedheal(CODE['w0'], CODE['delta'], sizes, online, tau, beta, **switches)
    np.testing.assert_array_equal(kept[online], expected[1][online])
    np.testing.assert_allclose(p * online, expected[2], rtol=0, atol=1e-6)
    np.testing.assert_allclose(models, expected[0], rtol=0, atol=1e-5)


def test_the_cases_are_not_all_alike():
    """A bar of 0.8 leaves parameters to nobody; stale distances and shares change weights and masks."""
    runs = {
        name: numpy_fedheal(CODE['w0'], CODE['delta'], PAPER['N'], online, tau, beta, **switches)
        for name, (tau, beta, switches, online) in CASES.items()
    }
    models, kept, weights = runs['a bar that leaves parameters to nobody']
    assert (~kept.any(1)).any()
    fallen = runs['a mean where nobody keeps']
    np.testing.assert_array_equal(fallen[1], kept)  # the same masks and weights, another model
    np.testing.assert_array_equal(fallen[2], weights)
    assert np.abs(fallen[0] - models).max() > 1e-3
    own = numpy_fedheal(CODE['w0'], CODE['delta'], PAPER['N'], PARTIAL, 0.3, 0.4)
    released = runs['partial participation as released']
    assert (own[1] != released[1]).any() and np.abs(own[2] - released[2]).max() > 1e-3


# --- identities and limits -------------------------------------------------------------------------------------------


def models_of(recipe, hyper=None):
    start, updates = unflat(CODE['w0']), unflat(CODE['delta'])
    return flat(scripted_rounds(make_methods(recipe, hyper), start, updates, {}, PAPER['N']).variables)


def test_without_bar_and_momentum_nothing_but_the_mean_is_left():
    np.testing.assert_allclose(models_of('fphl', {'fphl.tau': -1.0}), models_of('fedavg'), rtol=0, atol=1e-6)
    fixed = {'fael.beta': 0.0}
    np.testing.assert_allclose(models_of('fael', fixed), models_of('uniform'), rtol=0, atol=1e-6)
    sizes = models_of('fael', fixed | {'fael.p_init': 'sizes'})
    np.testing.assert_allclose(sizes, models_of('fedavg'), rtol=0, atol=1e-6)
    alone = models_of('fedheal', {'fedheal.tau': -1.0})
    np.testing.assert_allclose(alone, models_of('fael'), rtol=0, atol=1e-6)


def test_masks_alone_weigh_by_examples():
    """One parameter, kept by clients 0 and 2: their mean by size."""
    sizes, moves = np.array([1.0, 2.0, 3.0]), np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 2.0]], np.float32)[..., None]
    out = scripted_rounds(make_methods('fphl'), {'w': jnp.zeros(1)}, {'w': moves}, {}, sizes)
    np.testing.assert_allclose(out.variables['w'][:, 0], [1, 1 + (1 * 1 + 3 * 2) / 4], rtol=1e-6)


def test_counts_are_bytes_exact_for_255_rounds_and_then_fade():
    rng = np.random.default_rng(0)
    signs = rng.random((300, 1, 3)) < np.array([0.1, 0.5, 1.0])
    moves = np.where(signs, -1.0, 1.0).astype(np.float32)
    out = scripted_rounds(make_methods('fphl'), {'w': jnp.zeros(3)}, {'w': moves}, {}, [1]).clients['fphl']
    count, seen = (np.asarray(leaf)[:, 0] for leaf in (out['past']['params']['w'], out['seen']))
    assert count.dtype == seen.dtype == np.uint8
    np.testing.assert_array_equal(count[:255], np.cumsum(signs[:255, 0], 0))
    np.testing.assert_array_equal(seen[:255], np.arange(1, 256))
    assert int(seen[255]) == 128
    np.testing.assert_array_equal(count[255], count[254] // 2 + signs[255, 0])
    assert (count <= seen[:, None]).all() and (count[:, 2] == seen).all()


def test_ties_are_exact_at_every_count():
    """A share that is exactly the bar is not above it, whatever float32 makes of the product."""
    for tenths in range(1, 10):
        seen = np.arange(10, 251, 10)
        same = seen * tenths // 10
        assert not consistent(jnp.asarray(same), jnp.asarray(seen), np.float32(tenths / 10)).any()
        assert consistent(jnp.asarray(same), jnp.asarray(seen), np.float32(tenths / 10), strict=False).all()
    assert [int(v) for v in counted(jnp.uint8(254), jnp.uint8(254), jnp.array(True))] == [255, 255]


@pytest.mark.parametrize(
    ('part', 'switch'), [('fphl', 'mask_cmp'), ('fael', 'distance'), ('fael', 'distance_scope'), ('fphl', 'bn_stats')]
)
def test_a_wrong_switch_is_named(part, switch):
    with pytest.raises(ValueError, match=f"{part}.{switch}='no' is not one of "):
        make_methods(part, {f'{part}.{switch}': 'no'})
    with pytest.raises(ValueError, match=f"{part}.semantics='mine' is not one of 'code', 'paper'"):
        make_methods(part, {f'{part}.semantics': 'mine'})


@pytest.mark.parametrize('part', ['fedheal', 'fphl', 'fael'])
def test_an_empty_switch_follows_the_reading(part):
    """As older command lines and config files write it."""
    switches = [name for name in ('mask_history', 'distance') if name in recipes.options(part)]
    empty = {f'{part}.{name}': '' for name in switches}
    assert checked(Config(recipe=part, hyper=empty)).hyper == dict.fromkeys(empty)
