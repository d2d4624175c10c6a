"""The principal aggregate: published numbers, the invariances of the closed form, clients with nothing to say."""

import importlib
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from lab import GOLDEN

from fedjax_fair.core.client_map import client_mesh
from fedjax_fair.core.tree import weighted_sum
from fedjax_fair.diagnostics import decompose
from fedjax_fair.ops import (
    gram,
    harmonized_coefficients,
    hierarchical_coefficients,
    principal_coefficients,
    principal_directions,
)
from fedjax_fair.ops.conflicts import leave_out, project_conflicts

OPTIONS = [
    {},
    {'normalizer': 'sum_top'},
    {'normalizer': 'sum_all'},
    {'length': 'sum'},
]
options = pytest.mark.parametrize('option', OPTIONS, ids=lambda o: '-'.join(o.values()) or 'paper')


def aggregate(updates, weights, mask=None, **option):
    weights = jnp.asarray(weights, updates.dtype)
    return weighted_sum(principal_coefficients(gram(updates, mask), weights, mask=mask, **option), updates)


def generic(clients=6, size=30, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=size)
    return (rng.normal(size=(clients, size)) * rng.uniform(0.5, 2, (clients, 1)) + common).astype(dtype)


def shares(clients=6):
    n = np.arange(1.0, clients + 1)
    return n / n.sum()


@pytest.mark.parametrize('case', ['random', 'conflict'])
@pytest.mark.parametrize('x64', [True, False])
def test_published_aggregates(case, x64):
    z = np.load(GOLDEN / f'fedld_agg_m5_d40_{case}.npz')
    close = {'rtol': 1e-10, 'atol': 1e-12} if x64 else {'rtol': 2e-5, 'atol': 5e-6}
    with jax.enable_x64(x64):
        g = jnp.asarray(z['grads_r1'], float)
        p = jnp.asarray(z['n_i'] / z['n_i'].sum(), float)
        flat = jnp.full(5, 0.2, float)
        np.testing.assert_allclose(gram(g), z['gram'], **close)
        np.testing.assert_allclose(aggregate(g, p), z['ref_paper_agg'], **close)
        np.testing.assert_allclose(principal_coefficients(gram(g), p), z['ref_paper_coef'], **close)
        np.testing.assert_allclose(aggregate(g, flat), z['ref_paper_agg_uniform'], **close)
        np.testing.assert_allclose(aggregate(g, p, length='sum'), z['ref_sumlen_agg'], **close)
        np.testing.assert_allclose(aggregate(g, p, normalizer='sum_top'), z['ref_sumtop_agg'], **close)
        np.testing.assert_allclose(aggregate(g, flat, normalizer='sum_all'), z['authors_out_r1'], **close)
        own = jax.vmap(lambda one: aggregate(g, one))(jnp.eye(5))
        np.testing.assert_allclose(own, z['ref_paper_revised'], **close)
        own = jax.vmap(lambda one: aggregate(g, one, length='sum'))(jnp.eye(5))
        np.testing.assert_allclose(own, z['ref_sumlen_revised'], **close)


@options
@pytest.mark.parametrize('dtype', [np.float64, np.float32])
@pytest.mark.parametrize(('clients', 'size', 'seed'), [(6, 30, 0), (6, 30, 1), (3, 7, 2), (7, 4, 3)])  # also m > d
def test_invariances(clients, size, seed, dtype, option):
    wide = dtype is np.float64
    close = {'rtol': 1e-9, 'atol': 1e-12} if wide else {'rtol': 2e-3, 'atol': 2e-4}
    with jax.enable_x64(wide):
        g, p = jnp.asarray(generic(clients, size, seed, dtype)), shares(clients)
        found = aggregate(g, p, **option)
        order = np.random.default_rng(seed + 1).permutation(clients)
        turn = np.linalg.qr(np.random.default_rng(seed + 2).normal(size=(size, size)))[0].astype(dtype)
        np.testing.assert_allclose(aggregate(g[order], p[order], **option), found, **close)
        np.testing.assert_allclose(aggregate(-g, p, **option), -found, **close)
        for scale in (1e-30, 7.0, 1e30) if wide else (1e-15, 7.0, 1e15):
            np.testing.assert_allclose(aggregate(scale * g, p, **option) / scale, found, **close)
        np.testing.assert_allclose(aggregate(g @ turn, p, **option), found @ turn, **close)
        split = {'a': g[:, : size - 3].reshape(clients, -1, 1), 'b': g[:, -3].reshape(clients), 'c': g[:, -2:]}
        np.testing.assert_allclose(gram(split), gram(g), **close)


@options
def test_one_client_and_equal_clients_are_followed(option):
    if option == {'normalizer': 'sum_all'}:
        option = {**option, 'keep': 1.0}
    one = jnp.asarray(generic(1, dtype=np.float32))
    np.testing.assert_allclose(aggregate(one, [1.0], **option), one[0], rtol=1e-5)
    same = jnp.broadcast_to(one, (5, 30))
    np.testing.assert_allclose(aggregate(same, shares(5), **option), one[0], rtol=2e-5)


@pytest.mark.parametrize('dtype', [np.float64, np.float32])
@pytest.mark.parametrize(('clients', 'size', 'seed'), [(6, 30, 0), (3, 7, 2), (7, 4, 3)])
def test_revised_updates_are_as_long_as_they_were(clients, size, seed, dtype):
    with jax.enable_x64(dtype is np.float64):
        g = jnp.asarray(generic(clients, size, seed, dtype))
        for option in ({}, {'length': 'sum'}):
            own = jax.vmap(lambda one, option=option: aggregate(g, one, **option))(jnp.eye(clients, dtype=dtype))
            close = 1e-10 if dtype is np.float64 else 1e-4
            np.testing.assert_allclose(jnp.linalg.norm(own, axis=1), jnp.linalg.norm(g, axis=1), rtol=close)
        shorter = jax.vmap(lambda one: aggregate(g, one, normalizer='sum_all'))(jnp.eye(clients, dtype=dtype))
        assert (jnp.linalg.norm(shorter, axis=1) < 0.999 * jnp.linalg.norm(g, axis=1)).all()


def test_orthogonal_updates_of_one_length_give_their_mean():
    """All axes weigh the same, all are kept: the sum of the projections is the update itself."""
    g = jnp.asarray(np.linalg.qr(np.random.default_rng(3).normal(size=(9, 4)))[0].T, jnp.float32)
    found = aggregate(g, shares(4), keep=1.0, length='sum')
    np.testing.assert_allclose(found, shares(4) @ g, atol=1e-6)


@options
def test_clients_that_are_absent_or_sent_zeros(option):
    """An absent client changes nothing, whatever it sent; one that sent zeros counts for ``m`` and says nothing."""
    g, p = jnp.asarray(generic(5, dtype=np.float32)), shares(5)
    found = aggregate(g, p, **option)
    mask = jnp.array([True, False, True, True, True, False, True])
    more = jnp.zeros((7, 30)).at[mask].set(g).at[1].set(1e3)
    weights = jnp.zeros(7).at[mask].set(p).at[1].set(5.0)
    np.testing.assert_allclose(aggregate(more, weights, mask, **option), found, rtol=2e-5, atol=1e-6)
    silent = jnp.concatenate([g, jnp.zeros((2, 30))])
    keep = 4.5 / 7  # the same four axes
    with_zeros = aggregate(silent, [*p, 0.0, 9.0], keep=keep, **option)
    np.testing.assert_allclose(with_zeros, found, rtol=2e-5, atol=1e-6)
    np.testing.assert_array_equal(aggregate(0 * g, p, **option), 0)
    np.testing.assert_array_equal(aggregate(g, p, jnp.zeros(5, bool), **option), 0)


@pytest.mark.parametrize('dtype', [np.float32, np.float64])
def test_axes_of_rounding_alone_are_dropped(dtype):
    """Five updates in a plane: the two axes there decide, though four would be kept."""
    with jax.enable_x64(dtype is np.float64):
        plane = generic(2, seed=4, dtype=dtype)
        g = jnp.asarray(np.random.default_rng(5).normal(size=(5, 2)).astype(dtype) @ plane)
        p = jnp.asarray(shares(5), g.dtype)
        found = aggregate(g, p)
        np.testing.assert_allclose(found, aggregate(g, p, keep=0.4), rtol=1e-4)
        assert np.linalg.matrix_rank(np.vstack([plane, found]), tol=1e-3) == 2


@pytest.mark.parametrize('length', ['axis', 'sum'])
@pytest.mark.parametrize('seed', range(4))
def test_an_orthogonal_client_has_no_vote_on_an_axis(seed, length):
    """In turned coordinates what it has of the axis is rounding, which must not be stretched to its length."""
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(400, 2)))[0].T
    g = jnp.asarray((np.diag([2.0, 1.0]) @ turn).astype(np.float32))
    found = aggregate(g, [0.5, 0.5], keep=0.5, length=length)
    np.testing.assert_allclose(found, g[0] / 2, atol=1e-6)
    for rounding in (1e-6, -1e-6):
        almost = jnp.array([[4.0, rounding], [rounding, 1.0]])
        found = principal_coefficients(almost, jnp.array([0.5, 0.5]), keep=0.5, length=length)
        np.testing.assert_allclose(found, [0.5, 0], atol=1e-6)


@pytest.mark.parametrize('length', ['axis', 'sum'])
def test_what_counts_as_rounding_depends_on_clients_not_on_slots(length):
    """An axis, and a voice on it, that two clients have clearly are not lost among hundreds of empty slots."""
    small = 1e-4  # of an eigenvector: above 8 * 2 and below 8 * 300 roundings
    g = np.array([[1.0, 0.0], [small, 0.1]], np.float32)
    alone = aggregate(jnp.asarray(g), [0.5, 0.5], keep=0.5, length=length)
    mask = jnp.arange(300) < 2
    among = jnp.zeros((300, 2)).at[:2].set(g)
    found = aggregate(among, jnp.zeros(300).at[:2].set(0.5), mask, keep=0.5, length=length)
    np.testing.assert_allclose(found, alone, atol=1e-5)
    assert float(alone[0]) > 0.54  # half of the first and half of the second, turned to the axis


def test_products_keep_all_digits_on_every_device():
    programs = {
        'principal': lambda k: principal_coefficients(k, k[0]),
        'sum': lambda k: principal_coefficients(k, k[0], length='sum'),
        'seq': harmonized_coefficients,
        'hierarchy': lambda k: hierarchical_coefficients(k, k[0]),
        'project': lambda k: project_conflicts(k, jnp.arange(3), k[0] > 0, k[0] < 0),
        'leave': lambda k: leave_out(k[0], k, k[0] > 0),
        'terms': lambda k: decompose(k, k[0], k[1]),
    }
    for name, program in programs.items():
        text = str(jax.make_jaxpr(program)(jnp.eye(3)))
        assert 0 < text.count('dot_general') == text.count('precision=(Precision.HIGHEST, Precision.HIGHEST)'), name


def test_directions_are_orthogonal_and_point_to_the_mean():
    with jax.enable_x64(True):
        g = jnp.asarray(generic())
        values, found = principal_directions({'w': g.reshape(6, 5, 6)}, keep=0.7)
        rows = found['w'].reshape(6, 30)
        np.testing.assert_allclose(rows @ rows.T, np.diag(values), atol=1e-9)
        singular = np.linalg.svd(g, compute_uv=False) ** 2
        np.testing.assert_allclose(values, np.where(np.arange(6) < 4, singular, 0), rtol=1e-10)
        assert (rows @ g.mean(0) >= -1e-12).all()


def test_an_absent_client_does_not_turn_directions():
    g = generic(4, dtype=np.float32)
    mask = jnp.array([True, True, False, True, True])
    with_gap = jnp.zeros((5, 30)).at[mask].set(g).at[2].set(jnp.nan)
    values, found = principal_directions(with_gap, mask=mask)
    expected, directions = principal_directions(jnp.asarray(g))
    np.testing.assert_allclose(values[:4], expected, rtol=1e-5)
    np.testing.assert_allclose(found[:4], directions, atol=1e-4)


@pytest.mark.parametrize('spec', [P('clients'), P(None, 'clients')], ids=['clients', 'parameters'])
def test_updates_on_four_devices(spec):
    """Clients or parameters are spread; where parameters are, no device sees another's: only sums travel."""
    leaves = {'w': generic(8, 64, dtype=np.float32).reshape(8, 16, 4), 'b': generic(8, 8, seed=9, dtype=np.float32)}
    weights = jnp.asarray(shares(8), jnp.float32)

    @jax.jit
    def principal(updates):
        return weighted_sum(principal_coefficients(gram(updates), weights), updates)

    spread = jax.device_put(leaves, NamedSharding(client_mesh(4), spec))
    alone, found = principal(leaves), principal(spread)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), alone, found)
    if spec != P('clients'):
        text = jax.jit(gram).lower(spread).compile().as_text()
        assert 'all-reduce' in text and 'all-gather' not in text and 'all-to-all' not in text


@pytest.mark.parametrize('shape', [(7, 3, 3, 4, 6), (7, 1, 1, 5, 11), (7, 13), (7,)], ids=str)
@pytest.mark.parametrize('slab', [1, 40, 10**9])
def test_slabs_of_any_size_sum_to_the_same(shape, slab, monkeypatch):
    leaf = generic(7, math.prod(shape[1:]), dtype=np.float32).reshape(shape)
    monkeypatch.setattr(importlib.import_module('fedjax_fair.ops.gram'), 'SLAB', slab)
    rows = leaf.reshape(7, -1).astype(np.float64)
    np.testing.assert_allclose(gram(jnp.asarray(leaf)), rows @ rows.T, rtol=1e-5, atol=1e-5)


def test_clients_on_several_devices_exchange_slabs_and_never_whole_leaves(monkeypatch):
    """What a device keeps beside its own updates is a slab, however large the leaf."""
    monkeypatch.setattr(importlib.import_module('fedjax_fair.ops.gram'), 'SLAB', 8 * 64)
    leaf = jax.ShapeDtypeStruct((8, 2, 4096), jnp.float32, sharding=NamedSharding(client_mesh(4), P('clients')))
    memory = jax.jit(gram).lower(leaf).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 4 * 8 * 2 * 4096 / 4


def test_half_precision_is_summed_in_single():
    assert gram(jnp.ones((2, 3000), jnp.bfloat16)).tolist() == [[3000.0, 3000.0]] * 2


def test_hyper_parameters_may_be_traced_and_mapped():
    overlap = gram(jnp.asarray(generic(5, dtype=np.float32)))
    weights = jnp.asarray(shares(5), jnp.float32)
    keeps = jnp.array([0.2, 0.8, 1.0])
    found = jax.vmap(lambda keep: principal_coefficients(overlap, weights, keep=keep))(keeps)
    for keep, row in zip(keeps, found, strict=True):
        np.testing.assert_allclose(row, principal_coefficients(overlap, weights, keep=float(keep)), rtol=1e-5)


@pytest.mark.parametrize(
    ('option', 'message'),
    [({'normalizer': 'max'}, "normalizer='max' is not one of 'l2_top'"), ({'length': 'no'}, "length='no' is not one")],
)
def test_mistakes(option, message):
    with pytest.raises(ValueError, match=message):
        principal_coefficients(jnp.eye(2), jnp.ones(2), **option)
