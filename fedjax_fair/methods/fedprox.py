"""FedProx: a pull towards the global model."""

from __future__ import annotations

from typing import Annotated, Literal

from fedjax_fair.core.idle import Effect, Setting
from fedjax_fair.core.method import Aux, Context, Method
from fedjax_fair.core.types import Array, Batch, Variables
from fedjax_fair.methods.wrappers import plus
from fedjax_fair.ops import proximal_term
from fedjax_fair.options import NonNegative, search
from fedjax_fair.registry import register


@register.recipe
def fedprox(
    mu: Annotated[NonNegative, search(1e-4, 1, log=True)] = 0.01, kind: Literal['squared', 'norms'] = 'squared'
) -> list[Method]:
    """FedProx: local training is pulled towards the model sent out.

    ``loss + (mu / 2) ||w - W||^2`` over trainable parameters; ``mu = 0`` is FedAvg, ``mu -> inf`` keeps every client at
    ``W``. With one local step per round it is FedAvg too: a client begins at ``W``, where nothing pulls.
    ``kind='norms'`` pulls by ``mu sum_tensors ||w - W||`` instead, as Zeng-Shuang/FedLD does.

    Reference: Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020. WenkeHuang/MarsFL multiplies its
    nominal ``mu`` by a further 0.01; pass ``mu=1e-4`` for its behaviour.
    """

    def pull(ctx: Context, variables: Variables, batch: Batch, aux: Aux) -> Array:
        return proximal_term(variables['params'], ctx.variables['params'], mu, kind)

    def idle(setting: Setting) -> Effect | None:
        if mu == 0:
            return Effect('mu is 0')
        elsewhere = any(m.grad is not None for m in setting.others)  # SAM takes its gradient away from ``W``
        if setting.single_step and not elsewhere:
            return Effect('clients make one local step, which begins where nothing pulls')
        return None

    return [Method('fedprox', idle=idle, loss=plus(pull))]
