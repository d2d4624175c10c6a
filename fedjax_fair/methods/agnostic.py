"""Fairness baselines that move the clients' weights: agnostic federated learning, FairFed, FedGA and FedCE."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from fedjax_fair.core.types import Method
from fedjax_fair.methods.options import one_of
from fedjax_fair.methods.weights import NEVER, probe_loss, remember_nothing
from fedjax_fair.ops import gram, project_simplex


def afl(
    gamma: float = 0.01,
    average: bool = False,
    floor: float = 0.0,
    restart: bool = False,
    lagged: bool = False,
    at: str = 'global',
) -> list[Method]:
    """Agnostic federated learning: weights climb towards the clients that lose most.

    ``lambda <- Proj_simplex(lambda + gamma F)``, ``W+ = sum_k lambda_k w_k``, with ``F_k`` the mean training loss of
    the incoming model and ``lambda`` starting uniform. ``gamma = 0`` is the uniform mean, ``gamma -> inf`` the worst
    client alone (:func:`afl_worst`). ``average`` serves the mean of all models so far instead of the last.

    One lambda for all clients is kept on the server. Those absent climb by nothing, and a cohort shares by its own.

    Reference: Mohri et al., Agnostic Federated Learning, ICML 2019, with local epochs in place of one gradient. easyFL
    aggregates with lambda as it was before the step (``lagged``). WenkeHuang/MarsFL starts it afresh in every round,
    uniform over the cohort (``restart``), from losses of the trained models (``at='local'``; there of a test set, here
    of training data), and gives nobody less than ``floor = 1e-3``.
    """
    one_of('afl', at=(at, ('global', 'local')))
    name = 'loss' if at == 'global' else 'local_loss'

    def local_loss(ctx, scratch, before, after):
        return ctx.row, {'local_loss': ctx.loss(after)}

    def init(variables, run):
        start = jnp.zeros(run.num_clients) + 1 / run.num_clients
        return (start, optax.tree.zeros_like(variables) if average else ()), None

    def climbed(view):
        before, places = view.server[0], jnp.where(view.mask, view.ids, view.run.num_clients)
        here = jnp.zeros(before.shape, bool).at[places].set(True, mode='drop')
        before = jnp.where(here, 1 / jnp.maximum(view.count, 1).astype(before.dtype), 0) if restart else before
        steps = (gamma * view.reports[name]).astype(before.dtype)
        return project_simplex(before.at[places].add(steps, mode='drop'), here if restart else None)

    def score(view, updates):
        chosen = jnp.take(view.server[0] if lagged else climbed(view), view.ids, mode='clip')
        return jnp.log(jnp.maximum(chosen, floor))

    def commit(view, updates, weights, update):
        past = view.server[1]
        if average:  # of the models sent out; the first one was drawn, not learned
            past = jax.tree.map(lambda total, sent: total + jnp.where(view.round > 0, sent, 0), past, view.variables)
        return (climbed(view), past), None

    def serve(view, clients):
        count = jnp.maximum(view.round, 1).astype(jnp.zeros(0).dtype)
        return jax.tree.map(
            lambda total, last: (total + last) / count.astype(last.dtype), view.server[1], view.variables
        )

    return [
        Method(
            'afl',
            init=init,
            probe=probe_loss if at == 'global' else None,
            report=local_loss if at == 'local' else None,
            needs_all=at == 'local' and not lagged,
            score=score,
            commit=commit,
            serve=serve if average else None,
        )
    ]


def afl_worst() -> list[Method]:
    """All weight on the client with the largest loss of the incoming model (on all of them, if several are equal).

    The limit of :func:`~fedjax_fair.methods.weights.qfedavg` as ``q -> inf``: what wnn2000/FFL4MIA calls Agnostic-FL.
    """

    def score(view, updates):
        loss = jnp.where(view.mask, view.reports['loss'], -jnp.inf)
        return jnp.where(loss >= jnp.max(loss), 0.0, -jnp.inf)

    return [Method('afl_worst', probe=probe_loss, score=score)]


def fairfed(beta: float = 1.0, fixed: bool = False) -> list[Method]:
    """FairFed: weights move away from clients whose accuracy is far from the federation's.

    ``w_k <- max(w_k - beta (d_k - mean d), 0)``, normalised, from ``w_k = n_k / n``. ``d_k = a_k (1 - n_k / n)`` as
    wnn2000/FFL4MIA computes it, where the sum over clients of the global accuracy is missing: the less accurate gain.
    ``fixed`` is the rule that was meant, ``d_k = |a_k - sum_j n_j a_j / n|``, by which every outlier loses. ``a_k`` is
    the balanced accuracy of the incoming model on the client's training set; ``beta = 0`` is FedAvg. A client that
    takes part for the first time weighs ``n_k / n``, of its cohort.

    Reference: Ezzeldin et al., FairFed: Enabling Group Fairness in Federated Learning, AAAI 2023.
    """

    def moved(view):
        share, accuracy = view.shares(), view.reports['balanced_accuracy']
        away = jnp.abs(accuracy - jnp.sum(share * accuracy)) if fixed else accuracy * (1 - share)
        new = jnp.maximum(view.rows - beta * (away - view.mean(away)), 0)
        return view.shares(jnp.where(view.rows < 0, share, new))

    return [
        Method(
            'fairfed',
            init=remember_nothing,
            probe=lambda ctx: {'balanced_accuracy': ctx.balanced_accuracy(ctx.variables)},
            score=lambda view, updates: jnp.log(moved(view)),
            commit=lambda view, updates, weights, update: (None, moved(view)),
        )
    ]


def fedga(step: float = 0.05) -> list[Method]:
    """FedGA: clients whose loss rose most by aggregation gain weight.

    ``g_k = F_k(W+) - F_k(w_k)``, centred over clients; ``w_k <- w_k + (step / K) (1 - t / T) g_k / max |g|``, divided
    by the sum and then cut off at 0, from ``w_k = 1 / K``. ``step = 0`` is the uniform mean. ``F_k(W+)`` is the loss of
    the model that comes in the next time the client takes part; one that never did has no gap and weighs ``1 / K``.

    Reference: Zhang et al., Federated Domain Generalization with Generalization Adjustment, CVPR 2023, as
    wnn2000/FFL4MIA runs it; the original has step 0.2, no centring, and cuts before it divides.
    """

    def init(variables, run):
        weight = jnp.asarray(1 / run.num_clients, jnp.zeros(0).dtype)
        return None, {'weight': weight, 'local_loss': jnp.full_like(weight, NEVER)}

    def adjusted(view):
        before, known = view.rows['weight'], view.mask & (view.rows['local_loss'] >= 0)
        gap = view.reports['loss'] - view.rows['local_loss']
        mean = jnp.sum(jnp.where(known, gap, 0)) / jnp.maximum(jnp.sum(known.astype(gap.dtype)), 1)
        gap = jnp.where(known, gap - mean, 0)
        left = 1 - view.round.astype(gap.dtype) / view.run.rounds
        largest = jnp.max(jnp.abs(gap))
        size = step * left / view.run.num_clients / jnp.where(largest > 0, largest, 1)
        new = jnp.where(view.mask, before + size * gap, 0)
        # A cohort keeps its part of the weight of all, so that weights of different rounds compare.
        part = view.count / view.run.num_clients
        return jnp.maximum(new / jnp.where(jnp.any(known), jnp.sum(new) / part, 1), 0)

    def report(ctx, scratch, before, after):
        return ctx.row, {'local_loss': ctx.loss(after)}

    def commit(view, updates, weights, update):
        return None, {'weight': adjusted(view), 'local_loss': view.reports['local_loss']}

    def score(view, updates):
        return jnp.log(adjusted(view))

    return [Method('fedga', init=init, probe=probe_loss, report=report, score=score, commit=commit)]


def fedce(combine: str = 'times') -> list[Method]:
    """FedCE: clients count by how much they add: by direction, and by what the model lacks without them.

    With ``c`` the weights so far: ``e_k = 1 - mean_t A_k((W - c_k w_k) / (1 - c_k))``, the error of the model less the
    client's last one, and ``r_k = 1 - mean_t cos(D_k, sum_j c_j D_j - c_k D_k)`` over the updates ``D``. Both are
    normalised; ``new = r e`` (``combine='times'``) or ``r + e`` (``'plus'``), normalised; ``c`` is the mean of ``new``
    over rounds, from ``1 / K``. ``A`` is balanced accuracy on the client's training set; in its first round a client's
    error is 1. Means are over the rounds a client took part in, shares over the cohort.

    Reference: Jiang et al., Fair Federated Medical Image Segmentation via Client Contribution Estimation, CVPR 2023,
    which measures Dice on a validation set; training set and balanced accuracy are wnn2000/FFL4MIA's.
    """
    one_of('fedce', combine=(combine, ('times', 'plus')))

    def init(variables, run):
        zero = jnp.zeros(run.num_clients)
        return {
            'c': zero + 1 / run.num_clients,
            'new': zero,
            'accuracy': zero,
            'cosine': zero,
            'rounds': zero,
        }, variables

    def probe(ctx):
        c = ctx.server['c'][ctx.id]
        without = jax.tree.map(lambda w, own: (w - c * own) / jnp.maximum(1 - c, 1e-6), ctx.variables, ctx.row)
        return {'balanced_accuracy': ctx.balanced_accuracy(without)}

    def revise(view, updates):
        """Each update's cosine to what the others say together."""
        c = jnp.where(view.mask, jnp.take(view.server['c'], view.ids, mode='clip'), 0)
        overlap = gram(updates, view.mask)
        rest = c @ overlap - c * jnp.diagonal(overlap)  # <D_k, sum_j c_j D_j - c_k D_k>
        square = c @ overlap @ c - 2 * c * (c @ overlap) + c**2 * jnp.diagonal(overlap)
        cosine = rest / jnp.maximum(jnp.sqrt(jnp.diagonal(overlap) * jnp.maximum(square, 0)), 1e-12)
        return updates, {'cosine': cosine}

    def contribution(view):
        """The entries of this cohort after the round."""
        own = jax.tree.map(lambda table: jnp.take(table, view.ids, mode='clip'), view.server)
        rounds = own['rounds'] + 1
        accuracy = jnp.where(own['rounds'] > 0, view.reports['balanced_accuracy'], 0)
        sums = {'accuracy': own['accuracy'] + accuracy, 'cosine': own['cosine'] + view.reports['cosine']}
        error, apart = (view.shares(1 - sums[name] / rounds) for name in ('accuracy', 'cosine'))
        new = own['new'] + view.shares(apart * error if combine == 'times' else apart + error)
        return {**sums, 'new': new, 'rounds': rounds, 'c': new / rounds}

    def commit(view, updates, weights, update):
        places = jnp.where(view.mask, view.ids, view.run.num_clients)
        found = contribution(view)
        return jax.tree.map(lambda table, rows: table.at[places].set(rows, mode='drop'), view.server, found), None

    return [
        Method(
            'fedce',
            init=init,
            probe=probe,
            report=lambda ctx, scratch, before, after: (after, {}),
            revise=revise,
            score=lambda view, updates: jnp.log(contribution(view)['c']),
            commit=commit,
        )
    ]
