"""Batch normalisation that stays with its client (FedBN, SiloBN), or is fitted to it (AdaBN)."""

from __future__ import annotations

import jax

from fedjax_fair.core import tree
from fedjax_fair.core.hooks import Reported
from fedjax_fair.core.idle import Effect, Setting
from fedjax_fair.core.method import Context, Method, Stage, View
from fedjax_fair.core.types import Array, PyTree, Run, Variables
from fedjax_fair.errors import UserError
from fedjax_fair.methods.at_home import at_home
from fedjax_fair.methods.personal import OWN_MODEL
from fedjax_fair.registry import register

NO_BATCH_NORM = 'the network has no batch normalisation that keeps statistics; norm=batch gives it one'


@register.recipe
def fedbn(match: str = '') -> list[Method]:
    """FedBN: all of batch normalisation, its parameters and its statistics, stays with the client.

    Everything else is averaged as in FedAvg. What belongs to batch normalisation is every leaf of a module that keeps
    batch statistics; ``match`` keeps the leaves whose path contains it instead, as the published code does with
    ``'bn'``. A model without batch statistics has none of it (``norm=group``, ``stateless``): then it is FedAvg.

    Reference: Li et al., FedBN: Federated Learning on Non-IID Features via Local Batch Normalization, ICLR 2021.
    """

    def choose(variables: Variables) -> set[str]:
        if not match:
            return tree.norm_paths(variables)
        every = jax.tree.leaves(tree.paths(variables))
        if not any(match in path for path in every):
            raise UserError(f'`fedbn.match`={match!r} is in no path of the model; it has {", ".join(every)}')
        return {path for path in every if match in path}

    return [at_home('fedbn', choose, NO_BATCH_NORM)]


@register.recipe
def silobn() -> list[Method]:
    """SiloBN: the statistics of batch normalisation stay with the client, its parameters are averaged.

    Reference: Andreux et al., Siloed Federated Learning for Multi-Centric Histopathology Datasets, DCL 2020.
    """

    def statistics(variables: Variables) -> set[str]:
        return set(jax.tree.leaves(tree.paths({'batch_stats': variables['batch_stats']})))

    return [at_home('silobn', statistics, NO_BATCH_NORM)]


@register.recipe
def adabn() -> list[Method]:
    """AdaBN: every client uses the shared model with batch statistics that are taken anew on its own training data.

    Training is not changed. Whoever takes part runs the model that it receives once over its training set
    (:meth:`Context.statistics <fedjax_fair.core.method.Context.statistics>`) and keeps the statistics as its row. What
    it deploys is that received model with them, so it is older than the global model by one aggregation. A client that
    was absent from the last round deploys the same parameters as all others, with older statistics: those of the last
    model that it received.

    Reference: Li et al., Revisiting Batch Normalization for Practical Domain Adaptation, arXiv 1603.04779, 2016.
    """

    def init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
        return variables['params'], variables['batch_stats']

    def report(ctx: Context, scratch: PyTree, before: Variables, after: Variables) -> tuple[PyTree, Reported]:
        return ctx.statistics(before), {}

    def commit(view: View, updates: PyTree, weights: Array, update: PyTree) -> tuple[PyTree, PyTree]:
        return view.variables['params'], None

    def deploy(ctx: Context, variables: Variables) -> Variables:
        return {**variables, 'params': ctx.server, 'batch_stats': ctx.row}

    def idle(setting: Setting) -> Effect | None:
        return None if setting.has_statistics else Effect(NO_BATCH_NORM)

    return [
        Method(
            'adabn',
            stage=Stage.OWN,
            claims=(OWN_MODEL,),
            idle=idle,
            init=init,
            report=report,
            commit=commit,
            deploy=deploy,
        )
    ]
