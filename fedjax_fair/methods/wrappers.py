"""Wrappers of the objective and of its gradient that several methods are made with."""

from __future__ import annotations

from collections.abc import Callable

from fedjax_fair.core.hooks import Grad, GradFn, Loss, LossFn, Reported
from fedjax_fair.core.method import Aux, Context
from fedjax_fair.core.types import Array, Batch, PyTree, Run, Variables

Term = Callable[[Context, Variables, Batch, Aux], Array]
Gradient = Callable[[Context, Callable[[PyTree], tuple], PyTree], tuple]


def row_of_the_model(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
    """The ``init`` hook of a method whose row is a model of the client's own."""
    return None, variables


def keep_trained(ctx: Context, scratch: PyTree, before: Variables, after: Variables) -> tuple[PyTree, Reported]:
    """The ``report`` hook that makes the trained model the client's row."""
    return after, {}


def plus(term: Term) -> Loss:
    """The ``loss`` hook that adds ``term(ctx, variables, batch, aux)`` to the objective."""

    def loss(inner: LossFn) -> LossFn:
        def with_term(ctx: Context, variables: Variables, batch: Batch) -> tuple[Array, Aux]:
            value, aux = inner(ctx, variables, batch)
            return value + term(ctx, variables, batch, aux), aux

        return with_term

    return loss


def taken_by(gradient: Gradient) -> Grad:
    """The ``grad`` hook of training by ``gradient(ctx, value_and_grad, params)``, such as SAM's or GSAM's."""

    def grad(inner: GradFn) -> GradFn:
        def elsewhere(ctx: Context, variables: Variables, batch: Batch) -> tuple[tuple[Array, Aux], PyTree]:
            def at(params: PyTree) -> tuple[tuple[Array, Aux], PyTree]:
                return inner(ctx, {**variables, 'params': params}, batch)

            return gradient(ctx, at, variables['params'])

        return elsewhere

    return grad
