"""Parts of the model that stay with their clients."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp

from fedjax_fair.core import tree
from fedjax_fair.core.hooks import Reported
from fedjax_fair.core.idle import Effect, Setting
from fedjax_fair.core.method import Context, Method, Stage, View
from fedjax_fair.core.types import PyTree, Run, Variables


def at_home(
    name: str, choose: Callable[[Variables], set[str]], nothing: str = '', claims: tuple[str, ...] = ()
) -> Method:
    """Leaves that never leave their client: it takes them up again in every round, and deploys them.

    They are withheld from the upload, so that nothing of them enters the server's mean or its optimiser, and they count
    as no communication. The global model that is evaluated has their plain mean over the clients that took part so far:
    what a newcomer would get. ``nothing`` says why, where ``choose(variables)`` finds no such leaf.
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
        return None if choose(setting.variables) else Effect(nothing)

    return Method(
        name,
        stage=Stage.OWN,
        claims=claims,
        keeps=choose,
        idle=idle,
        init=init,
        download=own,
        upload=withheld,
        report=report,
        serve=serve,
    )
