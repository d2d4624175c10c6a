"""FedPAC: features drawn to common prototypes, and classifiers that help each other."""

from __future__ import annotations

from typing import Annotated, Any

import jax
import jax.numpy as jnp

from fedjax_fair.core.hooks import Reported
from fedjax_fair.core.masking import masked_mean
from fedjax_fair.core.method import Aux, Context, Method, Phase, Stage, View
from fedjax_fair.core.tree import flat_rows, paths, pick, put, weighted_sum
from fedjax_fair.core.types import Array, Batch, PyTree, Run, Variables
from fedjax_fair.errors import UserError
from fedjax_fair.methods.fednova import STEPS
from fedjax_fair.methods.personal import OWN_MODEL
from fedjax_fair.methods.wrappers import plus
from fedjax_fair.ops import class_means, collaboration_weights, feature_statistics
from fedjax_fair.options import NonNegative, Positive, search
from fedjax_fair.registry import register

BODY = 'body'  # the phase after that of the head


@register.recipe
def fedpac(
    lam: Annotated[NonNegative, search(0.1, 10, log=True)] = 1.0,
    head_lr: Annotated[Positive, search(0.01, 1, log=True)] = 0.1,
    head: str = 'head',
) -> list[Method]:
    """FedPAC: a shared body whose features follow global class means, and a head of its own for every client.

    Clients train the head for one epoch at ``head_lr``, then the body on ``loss + lam mean (f(x) - c_y)^2`` where
    ``c_y`` is the global mean feature of the class (the client's own before training where nobody sent one; no such
    term before any was sent). Bodies are averaged. Client ``i``'s next head is ``sum_a alpha_a head_a`` with ``alpha``
    from :func:`~fedjax_fair.ops.collaboration_weights`: the combination of least estimated risk on its features.
    ``lam = 0`` leaves features alone; ``lam -> inf`` collapses them. The layer called ``head`` is the classifier.

    Clients deploy the shared body with their own head; the global head is the mean of all, to compare.

    Reference: Xu et al., Personalized Federated Learning with Feature Alignment and Classifier Collaboration,
    ICLR 2023, as JianXu95/FedPAC runs it. Class means that a later cohort lacks are kept.
    """

    def is_head(path: str) -> bool:
        return head in path.split('/')

    def head_of(params: PyTree) -> dict[str, Array]:
        return pick(params, set(filter(is_head, jax.tree.leaves(paths(params)))))

    def init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
        return _init(head, head_of(variables['params']), variables, run)

    def report(ctx: Context, scratch: PyTree, before: Variables, after: Variables) -> tuple[PyTree, Reported]:
        means, counts = class_means(*_labelled_features(ctx, after))
        return None, {'prototypes': means, 'class_counts': counts, 'head': head_of(after['params'])}

    def finish(view: View, updates: PyTree, weights: Array, update: PyTree) -> PyTree:
        """The global head is the mean of the trained heads: updates are relative to what each client downloaded."""
        sent = head_of(view.variables['params'])
        mean = weighted_sum(weights, view.reports['head'])
        return put(update, {path: mean[path] - leaf for path, leaf in sent.items()})

    return [
        Method(
            'fedpac',
            stage=Stage.OWN,
            claims=(OWN_MODEL, STEPS),
            phases=(Phase('head', 1, head_lr, is_head), Phase(BODY, trainable=lambda path: not is_head(path))),
            broadcasts=True,
            init=init,
            download=_with_own_head,
            probe=_probe,
            loss=plus(lambda ctx, variables, batch, aux: _away_from_means(ctx, batch, aux, lam)),
            report=report,
            finish=finish,
            commit=_commit,
        )
    ]


def _init(name: str, head: dict[str, Array], variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
    every = jax.tree.leaves(paths(variables['params']))
    if not head or len(head) == len(every):
        layers = ', '.join(sorted({path.split('/')[0] for path in every}))
        raise UserError(f'`fedpac.head`={name!r} must be one of several layers; the network has {layers}')
    zero = jnp.zeros((run.num_classes, run.feature_dim), jax.tree.leaves(head)[0].dtype)
    return {'means': zero, 'counts': zero[:, 0]}, head


def _with_own_head(ctx: Context, variables: Variables) -> Variables:
    return {**variables, 'params': put(variables['params'], ctx.row)}


def _labelled_features(ctx: Context, variables: Variables) -> tuple[Array, Array, int, Array]:
    y = jnp.take(ctx.data.y, ctx.data.index, axis=0, mode='clip')
    return ctx.features(variables), y, ctx.run.num_classes, ctx.data.ex_mask


def _probe(ctx: Context) -> Reported:
    features = _labelled_features(ctx, ctx.variables)
    variance, reference = feature_statistics(*features)
    return {'feature_variance': variance, 'feature_reference': reference, 'own_means': class_means(*features)[0]}


def _away_from_means(ctx: Context, batch: Batch, aux: Aux, lam: Any) -> Array:
    """``lam`` times the mean squared distance of features to the mean of their class, while the body trains."""
    if ctx.phase != BODY:
        return jnp.zeros((), aux.losses.dtype)
    known = ctx.server['counts'] > 0
    target = jnp.where(known[:, None], ctx.server['means'], ctx.probe.get('own_means', 0))
    away = jnp.mean((flat_rows(aux.features) - jax.lax.stop_gradient(target)[batch.y]) ** 2, 1)
    return jnp.where(jnp.any(known), lam, 0) * masked_mean(away, batch.mask)


def _commit(view: View, updates: PyTree, weights: Array, update: PyTree) -> tuple[PyTree, PyTree]:
    """The global class means, and the next head of every client of the cohort."""
    reports, counts = view.reports, view.reports['class_counts']
    total = jnp.sum(counts, 0)
    new = jnp.sum(counts[:, :, None] * reports['prototypes'], 0) / jnp.maximum(total, 1)[:, None]
    held = total > 0
    means = jnp.where(held[:, None], new, view.server['means'])
    shares = collaboration_weights(reports['feature_variance'], reports['feature_reference'], view.mask)
    shares = shares / jnp.maximum(jnp.sum(shares, 1, keepdims=True), jnp.finfo(shares.dtype).tiny)
    heads = jax.vmap(weighted_sum, (0, None))(shares, reports['head'])
    return {'means': means, 'counts': jnp.where(held, total, view.server['counts'])}, heads
