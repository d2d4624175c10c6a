"""FedPAC: features drawn to common prototypes, and classifiers that help each other."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fedjax_fair.core.spec import masked_mean
from fedjax_fair.core.tree import paths, pick, put, weighted_sum
from fedjax_fair.core.types import Array, Method, Phase, PyTree
from fedjax_fair.ops import class_means, collaboration_weights, feature_statistics


def fedpac(lam: float = 1.0, head_lr: float = 0.1, head: str = 'head') -> list[Method]:
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

    def labelled_features(ctx, variables):
        y = jnp.take(ctx.data.y, ctx.data.where, axis=0, mode='clip')
        return ctx.features(variables), y, ctx.run.num_classes, ctx.data.ex_mask

    def init(variables, run):
        own = head_of(variables['params'])
        if not own or len(own) == len(jax.tree.leaves(variables['params'])):
            names = ', '.join(sorted(set(p.split('/')[0] for p in jax.tree.leaves(paths(variables['params'])))))
            raise ValueError(f'fedpac.head={head!r} must be one of several layers; the network has {names}')
        zero = jnp.zeros((run.num_classes, run.feature_dim), jax.tree.leaves(own)[0].dtype)
        return {'means': zero, 'counts': zero[:, 0]}, own

    def download(ctx, variables):
        return {**variables, 'params': put(variables['params'], ctx.row)}

    def probe(ctx):
        features = labelled_features(ctx, ctx.variables)
        variance, reference = feature_statistics(*features)
        return {'feature_variance': variance, 'feature_reference': reference, 'own_means': class_means(*features)[0]}

    def loss(inner):
        def aligned(ctx, variables, batch):
            value, aux = inner(ctx, variables, batch)
            if ctx.phase != 'body':
                return value, aux
            known = ctx.server['counts'] > 0
            features = aux.features.reshape(aux.features.shape[0], -1)
            target = jnp.where(known[:, None], ctx.server['means'], ctx.probe.get('own_means', 0))
            away = jnp.mean((features - jax.lax.stop_gradient(target)[batch.y]) ** 2, 1)
            return value + jnp.where(jnp.any(known), lam, 0) * masked_mean(away, batch.mask), aux

        return aligned

    def report(ctx, scratch, before, after):
        means, counts = class_means(*labelled_features(ctx, after))
        return ctx.row, {'prototypes': means, 'class_counts': counts, 'head': head_of(after['params'])}

    def finish(view, updates, weights, update):
        sent = head_of(view.variables['params'])
        mean = weighted_sum(weights, view.reports['head'])
        return put(update, {path: mean[path] - leaf for path, leaf in sent.items()})

    def commit(view, updates, weights, update):
        counts = view.reports['class_counts']
        total = jnp.sum(counts, 0)
        new = jnp.sum(counts[:, :, None] * view.reports['prototypes'], 0) / jnp.maximum(total, 1)[:, None]
        held = total > 0
        means = jnp.where(held[:, None], new, view.server['means'])
        shares = collaboration_weights(view.reports['feature_variance'], view.reports['feature_reference'], view.mask)
        shares = shares / jnp.maximum(jnp.sum(shares, 1, keepdims=True), jnp.finfo(shares.dtype).tiny)
        heads = jax.vmap(weighted_sum, (0, None))(shares, view.reports['head'])
        return {'means': means, 'counts': jnp.where(held, total, view.server['counts'])}, heads

    return [
        Method(
            'fedpac',
            phases=(Phase('head', 1, head_lr, is_head), Phase('body', trainable=lambda path: not is_head(path))),
            broadcasts=True,
            init=init,
            download=download,
            probe=probe,
            loss=loss,
            report=report,
            finish=finish,
            commit=commit,
        )
    ]
