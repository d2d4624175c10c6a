"""FedHEAL: parameters a client moves to and fro do not count, and clients with larger updates count more."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp

from fedjax_fair.core import tree
from fedjax_fair.core.hooks import Idle, Reported
from fedjax_fair.core.idle import Effect, Setting
from fedjax_fair.core.method import Method, Stage, View
from fedjax_fair.core.types import Array, PyTree, Run, Variables, default_float
from fedjax_fair.methods.weighting import NEVER, keep_rows, log_of, no_weight_yet
from fedjax_fair.ops.consistency import consistent, counted
from fedjax_fair.options import Share, between, search
from fedjax_fair.registry import register

Reading = Literal['code', 'paper']
# Switches whose default depends on the reading: what the authors' code does, or what the paper says.
MaskHistory = Literal['before', 'including']
MaskComparison = Literal['>', '>=']
ZeroSign = Literal['down', 'up']
Distance = Literal['tensors', 'squared', 'l2']
WeightState = Literal['sum', 'normalised']
FirstWeight = Literal['uniform', 'sizes']
READINGS: dict[Reading, dict[str, str]] = {
    'code': {
        'mask_history': 'before',
        'mask_cmp': '>',
        'zero_sign': 'down',
        'distance': 'tensors',
        'weight_state': 'sum',
        'p_init': 'uniform',
    },
    'paper': {
        'mask_history': 'including',
        'mask_cmp': '>=',
        'zero_sign': 'up',
        'distance': 'squared',
        'weight_state': 'normalised',
        'p_init': 'sizes',
    },
}
FALLS = {'down': operator.le, 'up': operator.lt}  # whether an update lowers a parameter: ``update <= 0`` or ``< 0``
COUNTS_ITSELF = {'before': False, 'including': True}  # whether the history has the round that is judged
SCOPES: dict[str, Callable[[PyTree], PyTree]] = {'trainable': lambda all: all['params'], 'all': lambda all: all}
DISTANCES: dict[str, Callable[[Array], Array]] = {  # from the squared norms of tensors, [tensors, clients]
    'tensors': lambda squares: jnp.sum(jnp.sqrt(squares), 0),
    'squared': lambda squares: jnp.sum(squares, 0),
    'l2': lambda squares: jnp.sqrt(jnp.sum(squares, 0)),
}
CARRIED: dict[str, Callable[[View, Array], Array]] = {  # the weight that a client keeps
    'sum': lambda view, weight: weight,
    'normalised': lambda view, weight: view.shares(weight),
}
Threshold = Annotated[float, between(-1, 1), search(0, 0.8)]
Momentum = Annotated[Share, search(0, 1)]


def _read(semantics: Reading, **given: str | None) -> dict[str, str]:
    """The switches that are given, and for the others what the authors' code or the paper says."""
    return {name: value or READINGS[semantics][name] for name, value in given.items()}


@register.recipe
def fphl(
    tau: Threshold = 0.3,
    semantics: Reading = 'code',
    mask_history: MaskHistory | None = None,
    mask_cmp: MaskComparison | None = None,
    zero_sign: ZeroSign | None = None,
    no_important: Literal['keep', 'mean'] = 'keep',
    bn_stats: Literal['masked', 'mean'] = 'masked',
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
    on = _read(semantics, mask_history=mask_history, mask_cmp=mask_cmp, zero_sign=zero_sign)

    def init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
        return _no_signs_yet(variables, compat_partial)

    def revise(view: View, updates: PyTree) -> tuple[PyTree, Reported]:
        kept, row = _masks(view, updates, tau, on, compat_partial)
        kept = STATISTICS[bn_stats](kept)
        masked = jax.tree.map(lambda k, u: jnp.where(k, u, 0), kept, updates)
        whole = {'unmasked': updates} if no_important == 'mean' else {}
        return masked, {'kept': kept, 'row': row, **whole}

    return [
        Method(
            'fphl',
            stage=Stage.UPDATE,
            idle=_keeps_all(tau, on['mask_cmp'] == '>'),
            init=init,
            revise=revise,
            reduce=_mean_of_kept,
            commit=keep_rows(lambda view: view.reports['row']),
            whole=True,
        )
    ]


def _with_all_statistics(kept: dict[str, PyTree]) -> dict[str, PyTree]:
    return jax.tree.map(jnp.ones_like, kept) | {'params': kept['params']}


STATISTICS: dict[str, Callable[[dict[str, PyTree]], dict[str, PyTree]]] = {  # which of them count
    'masked': lambda kept: kept,
    'mean': _with_all_statistics,
}


def _keeps_all(tau: Any, strict: bool) -> Idle:
    def idle(setting: Setting) -> Effect | None:
        if setting.has_statistics and any(m.statistics is not None for m in setting.others):
            return None  # batch statistics get the weights of parameters
        if tau < 0 or (tau == 0 and not strict):
            return Effect(f'tau={tau:g} keeps every parameter')
        first = 'in the first round all parameters count, and there is no other'
        return Effect(first) if setting.run.rounds == 1 and tau < 1 else None

    return idle


def _no_signs_yet(variables: Variables, compat_partial: bool) -> tuple[PyTree, PyTree]:
    """Per client one byte for every parameter, or the running share of the authors' code."""
    kind = default_float() if compat_partial else jnp.uint8
    past = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, kind), variables)
    return None, {'past': past, 'seen': jnp.zeros((), jnp.uint8)}


def _masks(view: View, updates: PyTree, tau: Any, on: dict[str, str], compat_partial: bool) -> tuple[PyTree, PyTree]:
    """Which parameters of which client count, and the rows after this round."""
    row, including, falls = view.rows, COUNTS_ITSELF[on['mask_history']], FALLS[on['zero_sign']]
    first = row['seen'] == 0

    def of_leaf(update: Array, past: Array) -> tuple[Array, Array]:
        sign = falls(update, 0)
        new = _signs_after(past, row['seen'], sign, view.round, compat_partial)
        times, seen = _same_sign(past, row['seen'], sign, compat_partial)
        if including and compat_partial:
            times = jnp.where(sign, new, 1 - new)
        elif including:
            times, seen = times + 1, seen + 1
        kept = consistent(times, seen, tau, on['mask_cmp'] == '>')
        return kept if including else kept | tree.per_row(first, kept), new

    both = jax.tree.map(of_leaf, updates, row['past'])
    kept, past = jax.tree.transpose(jax.tree.structure(updates), None, both)
    return kept, {'past': past, 'seen': counted(row['seen'], row['seen'], jnp.array(False))[1]}


def _same_sign(past: Array, seen: Array, sign: Array, compat_partial: bool) -> tuple[Array, Array]:
    """How often, or what share of the time, the sign was as it is now; of how many."""
    if compat_partial:
        return jnp.where(sign, past, 1 - past), jnp.ones_like(past)
    counts = past.astype(jnp.int32), tree.per_row(seen, past).astype(jnp.int32)
    return jnp.where(sign, counts[0], counts[1] - counts[0]), counts[1]


def _signs_after(past: Array, seen: Array, sign: Array, round: Array, compat_partial: bool) -> Array:
    """The row's entry for one leaf after this round."""
    if compat_partial:  # divides by the number of the round, whether the client took part in all of them or not
        number = round.astype(past.dtype)
        return (past * number + sign.astype(past.dtype)) / (number + 1)
    return counted(past, tree.per_row(seen, past), sign)[0]


def _mean_of_kept(view: View, updates: PyTree, weights: Array) -> PyTree:
    """Every parameter's mean over the clients that keep it; where nobody does, 0 or the mean of all."""

    def mean(update: Array, kept: Array, *unmasked: Array) -> Array:
        total, mass = (tree.weighted_sum(weights, leaf) for leaf in (update, kept.astype(update.dtype)))
        otherwise = tree.weighted_sum(weights, *unmasked) if unmasked else 0
        return jnp.where(mass > 0, total / jnp.where(mass > 0, mass, 1), otherwise)

    rest = [view.reports['unmasked']] if 'unmasked' in view.reports else []
    return jax.tree.map(mean, updates, view.reports['kept'], *rest)


@register.recipe
def fael(
    beta: Momentum = 0.4,
    semantics: Reading = 'code',
    distance: Distance | None = None,
    distance_scope: Literal['trainable', 'all'] = 'trainable',
    weight_state: WeightState | None = None,
    p_init: FirstWeight | None = None,
    compat_partial: bool = False,
) -> list[Method]:
    """FedHEAL's client weights: clients with larger updates get larger weights, smoothed by momentum.

    ``dP_m <- (1 - beta) dP_m + beta d_m / sum_j d_j``, ``P_m <- P_m + dP_m``, weights ``P_m / sum_j P_j``, with sums
    over the cohort. ``d_m`` adds up the norms of the tensors of the update, as :func:`fphl` masks it where the recipe
    has both (``distance='squared'``: one squared norm, ``'l2'``: one norm; ``distance_scope='all'``: with
    batch statistics). ``beta = 0`` keeps the first weights, ``1 / |S|`` of a client's first cohort or its share of
    all examples (``p_init='sizes'``: FedAvg under full participation); ``beta = 1`` has no momentum.

    ``semantics='paper'`` means squared norms, weights that start at the clients' sizes, and normalised weights that are
    carried from round to round (``weight_state``). ``compat_partial`` adds the last distances of absent clients to
    ``sum_j d_j``, as the authors' code does.

    Reference: see :func:`fphl`. The paper says that ``beta = 0`` is FedAvg, and ``beta = 1`` the current round alone.

    >>> [method.name for method in fael(0.4)]
    ['fael']
    """
    on = _read(semantics, distance=distance, weight_state=weight_state, p_init=p_init)

    def init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
        weight = no_weight_yet(variables, run)[1]
        row = {'weight': weight, 'change': jnp.zeros_like(weight)}
        return (jnp.zeros(run.num_clients) if compat_partial else None), row

    def revise(view: View, updates: PyTree) -> tuple[PyTree, Reported]:
        seen = SCOPES[distance_scope](updates)
        return updates, {'distance': _distances(seen, on['distance']).astype(view.n.dtype)}

    def moved(view: View) -> tuple[Array, Array]:
        return _moved_weights(view, beta, FIRST_WEIGHTS[on['p_init']](view), compat_partial)

    def commit(view: View, updates: PyTree, weights: Array, update: PyTree) -> tuple[PyTree, PyTree]:
        weight, change = moved(view)
        row = {'weight': CARRIED[on['weight_state']](view, weight), 'change': change}
        return _last_distances(view) if compat_partial else None, row

    return [
        Method(
            'fael',
            stage=Stage.WEIGHT,
            idle=_keeps_first_weights(beta, on['p_init'] == 'sizes'),
            init=init,
            revise=revise,
            score=log_of(lambda view: moved(view)[0]),
            commit=commit,
            whole=True,
        )
    ]


def _keeps_first_weights(beta: Any, by_size: bool) -> Idle:
    def idle(setting: Setting) -> Effect | None:
        if beta != 0 or not setting.everybody:
            return None
        reason = 'beta is 0, so that the first weights stay'
        return setting.by_examples(reason) if by_size else setting.votes(reason)

    return idle


def _distances(updates: PyTree, distance: str) -> Array:
    """How far each client's update reaches, ``[C]``."""
    squares = jnp.stack([jnp.sum(leaf**2, tuple(range(1, leaf.ndim))) for leaf in jax.tree.leaves(updates)])
    return DISTANCES[distance](squares)


def _last_distances(view: View) -> Array:
    """The last distance of every client there was, this round's included."""
    return view.scatter(view.server, view.reports['distance'].astype(view.server.dtype))


def _by_cohort(view: View) -> Array:
    return 1 / jnp.maximum(view.count, 1)


def _by_size(view: View) -> Array:
    sizes = jnp.asarray(view.run.sizes, view.n.dtype)
    return view.gather(sizes / jnp.maximum(jnp.sum(sizes), 1))


FIRST_WEIGHTS = {'uniform': _by_cohort, 'sizes': _by_size}


def _moved_weights(view: View, beta: Any, first: Array, compat_partial: bool) -> tuple[Array, Array]:
    """``P_m`` and ``dP_m`` of the cohort after this round; ``first`` are the weights of clients that are new."""
    far = view.reports['distance']
    share = view.shares(far)
    if compat_partial:
        total = jnp.sum(_last_distances(view)).astype(far.dtype)
        share = far / jnp.where(total == 0, 1, total)
    change = (1 - beta) * view.rows['change'] + beta * share
    return jnp.where(view.rows['weight'] == NEVER, first, view.rows['weight']) + change, change


@register.recipe
def fedheal(
    tau: Threshold = 0.3,
    beta: Momentum = 0.4,
    semantics: Reading = 'code',
    mask_history: MaskHistory | None = None,
    mask_cmp: MaskComparison | None = None,
    zero_sign: ZeroSign | None = None,
    distance: Distance | None = None,
    distance_scope: Literal['trainable', 'all'] = 'trainable',
    weight_state: WeightState | None = None,
    p_init: FirstWeight | None = None,
    no_important: Literal['keep', 'mean'] = 'keep',
    bn_stats: Literal['masked', 'mean'] = 'masked',
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
