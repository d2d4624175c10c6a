"""Methods against client drift: a pull towards the global model, and control variates."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from fedjax_fair.core.types import Method
from fedjax_fair.methods.options import one_of
from fedjax_fair.ops import proximal_term
from fedjax_fair.ops.losses import PULLS


def fedprox(mu: float = 0.01, kind: str = 'squared') -> list[Method]:
    """FedProx: local training is pulled towards the model sent out.

    ``loss + (mu / 2) ||w - W||^2`` over trainable parameters; ``mu = 0`` is FedAvg, ``mu -> inf`` keeps every client at
    ``W``. ``kind='norms'`` pulls by ``mu sum_tensors ||w - W||`` instead, as Zeng-Shuang/FedLD does.

    Reference: Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020. WenkeHuang/MarsFL multiplies its
    nominal ``mu`` by a further 0.01; pass ``mu=1e-4`` for its behaviour.
    """
    one_of('fedprox', kind=(kind, PULLS))

    def loss(inner):
        def with_pull(ctx, variables, batch):
            value, aux = inner(ctx, variables, batch)
            return value + proximal_term(variables['params'], ctx.variables['params'], mu, kind), aux

        return with_pull

    return [Method('fedprox', loss=loss)]


def scaffold(server_lr: float = 1.0, control: str = 'participation') -> list[Method]:
    """SCAFFOLD (option II): gradients are corrected by the server's minus the client's control variate.

    ``y <- y - lr (g(y) - c_i + c)`` for ``K`` steps; ``c_i+ = c_i - c + (W - y) / (K lr)``;
    ``W+ = W + server_lr mean_S(y - W)``; ``c+ = c + (|S| / N) mean_S(c_i+ - c_i)``.

    Clients train without momentum, which would make ``K lr`` the wrong length. ``control='mean'`` leaves out the factor
    ``|S| / N`` as WenkeHuang/MarsFL does; under full participation both are the same.

    Reference: Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML 2020.
    """
    one_of('scaffold', control=(control, ('participation', 'mean')))

    def init(variables, run):
        zero = optax.tree.zeros_like(variables['params'])
        return zero, zero

    def grad(inner):
        def corrected(ctx, variables, batch):
            value, grads = inner(ctx, variables, batch)
            return value, jax.tree.map(lambda g, c, ci: g + (c - ci), grads, ctx.server, ctx.row)

        return corrected

    def report(ctx, scratch, before, after):
        length = jnp.maximum(ctx.steps, 1) * ctx.run.lr(ctx.round)
        back = optax.tree.scale(1 / length, optax.tree.sub(before['params'], after['params']))
        change = optax.tree.sub(back, ctx.server)
        return optax.tree.add(ctx.row, change), {'control_change': change}

    def finish(view, updates, weights, update):
        return optax.tree.scale(server_lr, update)

    def commit(view, updates, weights, update):
        change = view.mean(view.reports['control_change'])
        share = view.count / view.run.num_clients if control == 'participation' else 1.0
        return optax.tree.add(view.server, optax.tree.scale(share, change)), None

    return [
        Method(
            'scaffold',
            local={'momentum': 0.0, 'optimizer': 'sgd'},
            init=init,
            grad=grad,
            report=report,
            score=lambda view, updates: jnp.zeros_like(view.n),
            finish=finish,
            commit=commit,
            broadcasts=True,
        )
    ]
