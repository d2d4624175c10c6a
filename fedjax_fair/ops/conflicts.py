"""Updates that contradict each other, and how to reconcile them: all in client space.

A reconciled update is a linear combination of the updates that came in, so that inner products (the Gram matrix) and
coefficients ``[C, C]`` are all that is needed; parameters are touched once, at the end.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fedjax_fair.core.types import Array
from fedjax_fair.ops.products import precise
from fedjax_fair.options import chosen

FLOOR = 1e-7  # of the hierarchical rule: added to every squared norm that divides


def _over(numerator: Array, denominator: Array) -> Array:
    return jnp.where(denominator > 0, numerator / jnp.where(denominator > 0, denominator, 1), 0)


def _as_they_are(rows: Array, sent: Array, gram: Array, i: Array, j: Array) -> tuple[Array, Array, Array]:
    return rows[i], rows[j], rows[i] @ gram @ rows[j] < 0


def _as_sent(rows: Array, sent: Array, gram: Array, i: Array, j: Array) -> tuple[Array, Array, Array]:
    return sent[i], sent[j], gram[i, j] < 0


RULES = {'seq': _as_they_are, 'frozen': _as_sent}  # two updates of a pair, and whether they conflict


@precise
def harmonized_coefficients(gram: Array, rule: str = 'seq') -> Array:
    """Row ``i``: the coefficients ``[C, C]`` of update ``i`` after every pair that conflicts has been made orthogonal.

    Pairs ``i < j`` in turn. ``'seq'``: where ``<g_i, g_j> < 0``, both as they are by then, each loses its part along
    the other. ``'frozen'``: where the updates as sent conflict, each loses its part along the other as sent. Without
    conflicts this is the identity; updates of zeros conflict with nobody.

    Reference: Zhang et al., Tackling the Non-IID Issue in Heterogeneous Federated Learning by Gradient Harmonization,
    arXiv 2309.06692, which does not say which of the two it is.

    >>> harmonized_coefficients(jnp.array([[1.0, -1.0], [-1.0, 4.0]])).tolist()
    [[1.0, 0.25], [1.0, 1.0]]
    """
    pair_of = chosen('rule', rule, RULES)
    gram, clients = jnp.asarray(gram), gram.shape[0]  # a NumPy array cannot be read at the traced places below
    sent = jnp.eye(clients, dtype=gram.dtype)
    first, second = (jnp.asarray(places) for places in jnp.triu_indices(clients, 1))

    def pair(number, rows):
        i, j = first[number], second[number]
        a, b, conflict = pair_of(rows, sent, gram, i, j)
        new_i = rows[i] - _over(rows[i] @ gram @ b, b @ gram @ b) * b
        new_j = rows[j] - _over(rows[j] @ gram @ a, a @ gram @ a) * a
        changed = rows.at[i].set(new_i).at[j].set(new_j)
        return jnp.where(conflict, changed, rows)

    return jax.lax.fori_loop(0, len(first), pair, sent)


@precise
def hierarchical_coefficients(gram: Array, along: Array, mask: Array | None = None) -> Array:
    """Coefficients ``[C]`` of the mean of updates that were reconciled pair by pair, level by level.

    ``along[C]`` are the updates' inner products with a history (its length does not matter). While more than two
    are left they are sorted by it and first and last, second and last but one, and so on, are summed, each less its
    part along the other where they conflict; an odd one in the middle waits. The last two are treated the same, save
    that the second is corrected by the first as corrected with the inner product of before.

    Reference: what Zeng-Shuang/FedLD runs as FedGH, of CityU-AIM-Group/FedDM; its code divides by the number of all
    clients, here it is those of the mask. One update alone comes back as it is.
    """
    clients = gram.shape[0]
    mask = jnp.ones(clients, bool) if mask is None else mask
    place = jnp.arange(clients)
    present = jnp.sum(mask.astype(place.dtype))

    def settled(a: Array, b: Array) -> tuple[Array, Array, Array]:
        inner = a @ gram @ b
        inner = jnp.where(inner < 0, inner, 0)
        return inner, a - inner / (b @ gram @ b + FLOOR) * b, b - inner / (a @ gram @ a + FLOOR) * a

    def level(state: tuple[Array, Array]) -> tuple[Array, Array]:
        rows, left = state
        rows = rows[jnp.argsort(jnp.where(place < left, -(rows @ along), jnp.inf), stable=True)]
        partner = rows[jnp.clip(left - 1 - place, 0, clients - 1)]
        _, a, b = jax.vmap(settled)(rows, partner)
        half = left // 2
        pairs = (place < half)[:, None]
        alone = (place == half)[:, None] & (left % 2 == 1)
        return jnp.where(pairs, a + b, jnp.where(alone, rows, 0)), (left + 1) // 2

    start = jnp.eye(clients, dtype=gram.dtype)[jnp.argsort(~mask, stable=True)]
    start = jnp.where((place < present)[:, None], start, 0)
    rows, left = jax.lax.while_loop(lambda state: state[1] > 2, level, (start, present))
    second = rows[1] if clients > 1 else jnp.zeros_like(rows[0])
    inner, a, _ = settled(rows[0], second)
    b = second - inner / (a @ gram @ a + FLOOR) * a
    return jnp.where(left > 1, a + b, rows[0]) / jnp.maximum(present, 1).astype(gram.dtype)


@precise
def project_conflicts(overlap: Array, order: Array, present: Array, keep: Array) -> Array:
    """``A[C, C]``: row ``i`` are the coefficients of vector ``i`` without its conflicts with the others.

    For every ``i`` that is not to ``keep`` its direction, and every other present ``j`` in ``order``: where
    ``<g_j, h_i> < 0``, ``h_i`` loses its component along the original ``g_j``. ``overlap`` are the inner products.

    >>> overlap = jnp.array([[1.0, -1.0], [-1.0, 2.0]])
    >>> everyone = jnp.ones(2, bool)
    >>> project_conflicts(overlap, jnp.arange(2), everyone, ~everyone).tolist()
    [[1.0, 0.5], [1.0, 1.0]]
    """
    overlap, present, keep = (jnp.asarray(given) for given in (overlap, present, keep))  # may be NumPy's
    count = overlap.shape[0]

    def visit(rows: Array, j: Array) -> tuple[Array, None]:
        dots = rows @ overlap[j]
        hit = (dots < 0) & present & present[j] & ~keep & (jnp.arange(count) != j)
        return rows.at[:, j].add(-jnp.where(hit, dots / jnp.maximum(overlap[j, j], 1e-30), 0)), None

    return jax.lax.scan(visit, jnp.eye(count, dtype=overlap.dtype), order)[0]


@precise
def leave_out(coefficients: Array, overlap: Array, members: Array) -> Array:
    """Remove the component along the sum of those ``members`` that conflict with ``coefficients[C]``, if it conflicts.

    >>> leave_out(jnp.array([1.0, 0.0]), jnp.array([[1.0, -1.0], [-1.0, 2.0]]), jnp.ones(2, bool)).tolist()
    [1.0, 0.5]
    """
    against = (members & (overlap @ coefficients < 0)).astype(overlap.dtype)
    dot = coefficients @ overlap @ against
    length = jnp.maximum(against @ overlap @ against, 1e-30)
    return coefficients - jnp.where(dot < 0, dot / length, 0) * against
