"""FedHEAL: parameters a client moves to and fro do not count, and clients that are moved far count more."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fedjax_fair.core import tree
from fedjax_fair.core.types import Array, Method, PyTree
from fedjax_fair.methods.options import one_of
from fedjax_fair.methods.weights import NEVER, remember_nothing
from fedjax_fair.ops.consistency import consistent, counted

# Every switch: what the authors' code does, what the paper says, and other choices.
SWITCHES = {
    'mask_history': ('before', 'including'),
    'mask_cmp': ('>', '>='),
    'zero_sign': ('down', 'up'),
    'distance': ('tensors', 'squared', 'l2'),
    'weight_state': ('sum', 'normalised'),
    'p_init': ('uniform', 'sizes'),
}
OTHERS = {
    'distance_scope': ('trainable', 'all'),
    'no_important': ('keep', 'mean'),
    'bn_stats': ('masked', 'mean'),
}
READINGS = ('code', 'paper')


def _chosen(owner: str, semantics: str, **given: str) -> dict[str, str]:
    """Every switch with its value; an empty one is what ``semantics`` says."""
    one_of(owner, semantics=(semantics, READINGS))
    one_of(owner, **{n: (v, SWITCHES.get(n) or OTHERS[n]) for n, v in given.items() if v or n in OTHERS})
    place = READINGS.index(semantics)
    return {name: value or SWITCHES[name][place] for name, value in given.items()}


def _counts_or_shares(compat_partial: bool):
    """What a client row remembers of its signs: bytes, or the running shares of the authors' code."""

    def init(variables, run):
        kind = jnp.zeros(0).dtype if compat_partial else jnp.uint8
        past = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, kind), variables)
        return None, {'past': past, 'seen': jnp.zeros((), jnp.uint8)}

    def same(past, seen, sign):
        """How often, or what share of the time, the sign was as it is now; of how many."""
        if compat_partial:
            return jnp.where(sign, past, 1 - past), jnp.ones_like(past)
        counts = past.astype(jnp.int32), tree.per_row(seen, past).astype(jnp.int32)
        return jnp.where(sign, counts[0], counts[1] - counts[0]), counts[1]

    def after(past, seen, sign, round_):
        """The row's entry for one leaf after this round."""
        if compat_partial:  # divides by the number of the round, whether the client took part in all of them or not
            number = round_.astype(past.dtype)
            return (past * number + sign.astype(past.dtype)) / (number + 1)
        return counted(past, tree.per_row(seen, past), sign)[0]

    return init, same, after


def fphl(
    tau: float = 0.3,
    semantics: str = 'code',
    mask_history: str = '',
    mask_cmp: str = '',
    zero_sign: str = '',
    no_important: str = 'keep',
    bn_stats: str = 'masked',
    compat_partial: bool = False,
) -> list[Method]:
    """FedHEAL's parameter masks: what a client moves now one way, now the other, is left out of the mean.

    ``k_m`` counts, for every parameter, the rounds in which client ``m`` lowered it (or left it, ``zero_sign='down'``),
    ``n_m`` its rounds. A parameter is kept where ``c > tau``, with ``c = k_m / n_m`` if it falls now, else
    ``1 - k_m / n_m``; in a client's first round all are. With the cohort's weights ``p``,
    ``W_i+ = W_i + sum_m p_m keep_mi D_mi / sum_m p_m keep_mi``; a parameter nobody keeps stays as it is
    (``no_important='mean'``: moves as if all kept it; masks and distances stay as they are). ``tau < 0`` keeps
    everything, ``tau = 1`` nothing after a client's first round. Batch statistics are masked like parameters
    (``bn_stats='mean'``: averaged). The server keeps one byte per client and parameter, exact for 255 rounds, halved
    with ``n_m`` from there on.

    ``semantics='paper'`` counts the round that is judged (``mask_history='including'``), keeps at ``c >= tau``
    (``mask_cmp``) and counts zero moves as rises (``zero_sign='up'``). ``compat_partial`` is the authors' code under
    partial participation: shares in place of counts (four bytes), divided by the number of the round.

    Reference: Chen et al., Fair Federated Learning under Domain Skew with Local Consistency and Domain Diversity,
    CVPR 2024; code yuhangchen0/FedHEAL, in which a client must take part in the first round.

    >>> [method.name for method in fphl(0.4)]
    ['fphl']
    """
    on = _chosen(
        'fphl',
        semantics,
        mask_history=mask_history,
        mask_cmp=mask_cmp,
        zero_sign=zero_sign,
        no_important=no_important,
        bn_stats=bn_stats,
    )
    strict, including = on['mask_cmp'] == '>', on['mask_history'] == 'including'
    init, same, after = _counts_or_shares(compat_partial)

    def revise(view, updates):
        row = view.rows
        first = row['seen'] == 0

        def of_leaf(update, past):
            sign = update <= 0 if on['zero_sign'] == 'down' else update < 0
            new = after(past, row['seen'], sign, view.round)
            times, seen = same(past, row['seen'], sign)
            if including and compat_partial:
                times = jnp.where(sign, new, 1 - new)
            elif including:
                times, seen = times + 1, seen + 1
            kept = consistent(times, seen, tau, strict)
            return kept if including else kept | tree.per_row(first, kept), new

        both = jax.tree.map(of_leaf, updates, row['past'])
        kept, past = jax.tree.transpose(jax.tree.structure(updates), None, both)
        if bn_stats == 'mean':
            kept = {k: v if k == 'params' else jax.tree.map(jnp.ones_like, v) for k, v in kept.items()}
        seen = counted(row['seen'], row['seen'], jnp.array(False))[1]
        masked = jax.tree.map(lambda k, u: jnp.where(k, u, 0), kept, updates)
        whole = {'unmasked': updates} if no_important == 'mean' else {}
        return masked, {'kept': kept, 'fphl_row': {'past': past, 'seen': seen}, **whole}

    def reduce(view, updates, weights):
        def mean(update, kept, *unmasked):
            total, mass = (tree.weighted_sum(weights, leaf) for leaf in (update, kept.astype(update.dtype)))
            otherwise = tree.weighted_sum(weights, *unmasked) if unmasked else 0
            return jnp.where(mass > 0, total / jnp.where(mass > 0, mass, 1), otherwise)

        rest = [view.reports['unmasked']] if no_important == 'mean' else []
        return jax.tree.map(mean, updates, view.reports['kept'], *rest)

    def commit(view, updates, weights, update):
        return None, view.reports['fphl_row']

    return [Method('fphl', init=init, revise=revise, reduce=reduce, commit=commit, whole=True)]


def _distances(updates: PyTree, distance: str) -> Array:
    """How far each client's update reaches, ``[C]``."""
    squares = jnp.stack([jnp.sum(leaf**2, tuple(range(1, leaf.ndim))) for leaf in jax.tree.leaves(updates)])
    if distance == 'tensors':
        return jnp.sum(jnp.sqrt(squares), 0)
    total = jnp.sum(squares, 0)
    return total if distance == 'squared' else jnp.sqrt(total)


def fael(
    beta: float = 0.4,
    semantics: str = 'code',
    distance: str = '',
    distance_scope: str = 'trainable',
    weight_state: str = '',
    p_init: str = '',
    compat_partial: bool = False,
) -> list[Method]:
    """FedHEAL's client weights: those the shared model has to go far for count more, with momentum.

    ``dP_m <- (1 - beta) dP_m + beta d_m / sum_j d_j``, ``P_m <- P_m + dP_m``, weights ``P_m / sum_j P_j``, with sums
    over the cohort. ``d_m`` adds up the norms of the tensors of the update, as :func:`fphl` masked it where that is
    listed after this (``distance='squared'``: one squared norm, ``'l2'``: one norm; ``distance_scope='all'``: with
    batch statistics). ``beta = 0`` keeps the first weights, ``1 / |S|`` of a client's first cohort or its share of
    all examples (``p_init='sizes'``: FedAvg under full participation); ``beta = 1`` has no momentum.

    ``semantics='paper'`` means squared norms, weights that start at the clients' sizes, and normalised weights that are
    carried from round to round (``weight_state``). ``compat_partial`` adds the last distances of absent clients to
    ``sum_j d_j``, as the authors' code does.

    Reference: see :func:`fphl`. The paper says that ``beta = 0`` is FedAvg, and ``beta = 1`` the current round alone.

    >>> [method.name for method in fael(0.4)]
    ['fael']
    """
    on = _chosen(
        'fael', semantics, distance=distance, distance_scope=distance_scope, weight_state=weight_state, p_init=p_init
    )

    def init(variables, run):
        weight = remember_nothing(variables, run)[1]
        return (jnp.zeros(run.num_clients) if compat_partial else None), {
            'weight': weight,
            'change': jnp.zeros_like(weight),
        }

    def revise(view, updates):
        seen = updates if distance_scope == 'all' else updates['params']
        return updates, {'distance': _distances(seen, on['distance']).astype(view.n.dtype)}

    def known(view):
        """The last distance of every client there was, this round's included."""
        places = jnp.where(view.mask, view.ids, view.run.num_clients)
        return view.server.at[places].set(view.reports['distance'].astype(view.server.dtype), mode='drop')

    def moved(view):
        far = view.reports['distance']
        if compat_partial:
            total = jnp.sum(known(view)).astype(far.dtype)
            share = far / jnp.where(total == 0, 1, total)
        else:
            share = view.shares(far)
        start = 1 / jnp.maximum(view.count, 1)
        if on['p_init'] == 'sizes':
            sizes = jnp.asarray(view.run.sizes, view.n.dtype)
            start = jnp.take(sizes / jnp.maximum(jnp.sum(sizes), 1), view.ids, mode='clip')
        change = (1 - beta) * view.rows['change'] + beta * share
        return jnp.where(view.rows['weight'] == NEVER, start, view.rows['weight']) + change, change

    def commit(view, updates, weights, update):
        weight, change = moved(view)
        weight = view.shares(weight) if on['weight_state'] == 'normalised' else weight
        return known(view) if compat_partial else None, {'weight': weight, 'change': change}

    return [
        Method(
            'fael',
            init=init,
            revise=revise,
            score=lambda view, updates: jnp.log(moved(view)[0]),
            commit=commit,
            whole=True,
        )
    ]


def fedheal(
    tau: float = 0.3,
    beta: float = 0.4,
    semantics: str = 'code',
    mask_history: str = '',
    mask_cmp: str = '',
    zero_sign: str = '',
    distance: str = '',
    distance_scope: str = 'trainable',
    weight_state: str = '',
    p_init: str = '',
    no_important: str = 'keep',
    bn_stats: str = 'masked',
    compat_partial: bool = False,
) -> list[Method]:
    """FedHEAL: parameter masks by consistency and client weights by distance, on any base.

    :func:`fael` (``beta`` and how far is measured and remembered) and :func:`fphl` (``tau`` and what is kept);
    ``tau < 0`` is the first alone. ``semantics='paper'`` is the paper's literal reading of both.
    """
    return [
        *fael(beta, semantics, distance, distance_scope, weight_state, p_init, compat_partial),
        *fphl(tau, semantics, mask_history, mask_cmp, zero_sign, no_important, bn_stats, compat_partial),
    ]
