"""Batch normalisation that stays with its client (FedBN, SiloBN), or is fitted to it (AdaBN)."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedjax_fair.core import tree
from fedjax_fair.core.hooks import Reported
from fedjax_fair.core.idle import Effect, Setting
from fedjax_fair.core.method import Context, Method, Stage, View
from fedjax_fair.core.types import Array, PyTree, Run, Variables
from fedjax_fair.errors import UserError
from fedjax_fair.methods.personal import OWN_MODEL
from fedjax_fair.registry import register

NO_BATCH_NORM = 'the network has no batch normalisation that keeps statistics; norm=batch gives it one'


def at_home(name: str, choose: Callable[[Variables], set[str]]) -> Method:
    """Leaves that never leave their client: it takes them up again in every round, and deploys them.

    They are withheld from the upload, so that nothing of them enters the server's mean or its optimiser. The global
    model that is evaluated has their plain mean over the clients that took part so far: what a newcomer would get.
    """

    def init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
        return None, tree.pick(variables, choose(variables))

    def own(ctx: Context, variables: Variables) -> Variables:
        return tree.put(variables, ctx.row)

    def withheld(ctx: Context, scratch: PyTree, before: Variables, after: Variables) -> Variables:
        return tree.put(after, tree.pick(before, set(ctx.row)))

    def report(ctx: Context, scratch: PyTree, before: Variables, after: Variables) -> tuple[PyTree, Reported]:
        return tree.pick(after, set(ctx.row)), {}

    def serve(view: View, clients: PyTree) -> Variables:
        mean = {k: view.mean(table) for k, table in clients.items()}
        some = jnp.any(view.mask)
        now = tree.pick(view.variables, set(clients))
        return tree.put(view.variables, tree.select(some, {k: mean[k] for k in now}, now))

    def idle(setting: Setting) -> Effect | None:
        return None if choose(setting.variables) else Effect(NO_BATCH_NORM)

    return Method(
        name,
        stage=Stage.OWN,
        idle=idle,
        init=init,
        download=own,
        upload=withheld,
        report=report,
        serve=serve,
    )


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

    return [at_home('fedbn', choose)]


@register.recipe
def silobn() -> list[Method]:
    """SiloBN: the statistics of batch normalisation stay with the client, its parameters are averaged.

    Reference: Andreux et al., Siloed Federated Learning for Multi-Centric Histopathology Datasets, DCL 2020.
    """
    return [
        at_home('silobn', lambda variables: set(jax.tree.leaves(tree.paths({'batch_stats': variables['batch_stats']}))))
    ]


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
