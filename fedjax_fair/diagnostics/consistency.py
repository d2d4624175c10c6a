"""How consistently clients move parameters, what share of them masks keep, and the weights of clients over rounds."""

from __future__ import annotations

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.hooks import Reported
from fedjax_fair.core.method import Context, Method, View
from fedjax_fair.core.types import Array, PyTree, Run, Variables, default_float
from fedjax_fair.errors import UserError
from fedjax_fair.options import between
from fedjax_fair.registry import register

Span = Annotated[int, between(1, 255)]


@register.diagnostic
def watch_signs(short: Span = 10, long: Span = 100) -> list[Method]:
    """Watches the signs of clients' updates over the last rounds: how often each parameter fell.

    Rows ``watch_signs`` hold ``falls``, one table of uint8 counts for the last ``short`` and one for the last ``long``
    planned rounds, and ``seen``, in how many of them the client took part. A parameter that does not move has not
    fallen. Training is not changed.

    >>> [method.name for method in watch_signs()]
    ['watch_signs']
    """
    if short > long:
        raise UserError(f'`watch_signs.short`={short} must be at most `watch_signs.long`={long}')
    spans = {'short': short, 'long': long}

    def init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
        none = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.uint8), variables['params'])
        return None, {'falls': dict.fromkeys(spans, none), 'seen': dict.fromkeys(spans, jnp.uint8(0))}

    def report(ctx: Context, scratch: PyTree, before: Variables, after: Variables) -> tuple[PyTree, Reported]:
        fell = jax.tree.map(lambda a, b: a < b, after['params'], before['params'])
        left = ctx.run.rounds - ctx.round

        def one_more(span: str) -> tuple[PyTree, Array]:
            now = (left >= 1) & (left <= spans[span])
            falls = jax.tree.map(lambda k, f: k + (f & now).astype(k.dtype), ctx.row['falls'][span], fell)
            return falls, ctx.row['seen'][span] + now.astype(jnp.uint8)

        counts = {span: one_more(span) for span in spans}
        return {what: {span: both[i] for span, both in counts.items()} for i, what in enumerate(('falls', 'seen'))}, {}

    return [Method('watch_signs', init=init, report=report)]


@register.diagnostic
def watch_masks() -> list[Method]:
    """Watches what the server does with clients: their weights, and the share of every layer that FedHEAL keeps.

    The server entry ``watch_masks`` holds ``weights[T, N]`` and ``kept[T, N, L]`` over the planned rounds, clients and
    leaves of the parameters; NaN where a client was absent, 1 where nobody masks. Training is not changed.

    >>> [method.name for method in watch_masks()]
    ['watch_masks']
    """

    def init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
        shape = (run.rounds, run.num_clients)
        nothing = jnp.full((*shape, len(jax.tree.leaves(variables['params']))), jnp.nan)
        return {'weights': jnp.full(shape, jnp.nan), 'kept': nothing}, None

    def commit(view: View, updates: PyTree, weights: Array, update: PyTree) -> tuple[PyTree, PyTree]:
        masks = view.reports_of('fphl')
        if 'kept' in masks:
            shares = jnp.stack([_share(leaf) for leaf in jax.tree.leaves(masks['kept']['params'])], 1)
        else:
            shares = jnp.ones((len(view.ids), view.server['kept'].shape[2]))

        def put(table: Array, rows: Array) -> Array:
            return table.at[view.round, view.places].set(rows.astype(table.dtype), mode='drop')

        return {'weights': put(view.server['weights'], weights), 'kept': put(view.server['kept'], shares)}, None

    return [Method('watch_masks', init=init, commit=commit)]


def _share(kept: Array) -> Array:
    return jnp.mean(kept.astype(default_float()), tuple(range(1, kept.ndim)))


def consistency(falls: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Share of its rounds in which a parameter went the way it mostly goes, from 1/2 (to and fro) to 1.

    >>> consistency(np.array([[0, 5, 9]]), np.array([10])).tolist()
    [[1.0, 0.5, 0.9]]
    """
    seen = np.maximum(seen, 1).reshape(seen.shape + (1,) * (falls.ndim - seen.ndim))
    share = np.asarray(falls) / seen
    return np.maximum(share, 1 - share)


def sign_histogram(falls: np.ndarray, seen: np.ndarray, bins: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Share of the parameters by the share of rounds in which they rose: heights ``[bins]`` and edges.

    >>> sign_histogram(np.array([[0, 10, 5, 10]]), np.array([10]), bins=2)[0].tolist()
    [0.5, 0.5]
    """
    seen = np.maximum(seen, 1).reshape(seen.shape + (1,) * (falls.ndim - seen.ndim))
    rises = 1 - np.asarray(falls) / seen
    heights, edges = np.histogram(rises, bins, (0, 1))
    return heights / max(rises.size, 1), edges


def same_way(rows: PyTree, span: str = 'long', at_least: float = 0.9) -> dict[str, float]:
    """By layer, the share of parameters and clients that went one way in at least such a share of the rounds."""
    seen = np.asarray(rows['seen'][span])
    shares = {}
    for path, falls in jax.tree_util.tree_leaves_with_path(rows['falls'][span]):
        name = jax.tree_util.keystr(path, simple=True, separator='/')
        shares[name] = float((consistency(np.asarray(falls), seen) >= at_least).mean())
    return shares
