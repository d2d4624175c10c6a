"""Measurements over a client's whole training set, in evaluation mode.

Some are services: a method names them in ``Method.measures``, they are taken once however many methods read them, and
they stand in ``view.measured``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedjax_fair.core import local, tree
from fedjax_fair.core.client_map import shared_max
from fedjax_fair.core.types import Array, Batch, Losses, PyTree, Variables, default_float

if TYPE_CHECKING:
    from fedjax_fair.core.method import Context

# Shared measurements before training, of the received model, and after it, of the trained one.
BEFORE: dict[str, Callable[[Context], Array]] = {'loss': lambda ctx: ctx.loss(ctx.variables)}
AFTER: dict[str, Callable[[Context, Variables], Array]] = {'local_loss': lambda ctx, trained: ctx.loss(trained)}
SERVICES = (*BEFORE, *AFTER)
PASS = 'pass_over_examples'  # names the loop of a measurement in programs


def loss(ctx: Context, variables: Variables, losses: Losses | None = None) -> Array:
    """Mean of the losses of all examples."""
    return _sum_over_batches(ctx, lambda batch: _total(ctx, variables, losses, batch)) / _count(ctx)


def _total(ctx: Context, variables: Variables, losses: Losses | None, batch: Batch) -> Array:
    out = ctx.apply(variables, batch.x, batch.mask, False)
    return jnp.sum(jnp.where(batch.mask, (losses or ctx.spec.task.losses)(out.logits, batch.y, batch.mask), 0))


def loss_and_gradient(ctx: Context, variables: Variables, losses: Losses | None = None) -> tuple[Array, PyTree]:
    """The mean loss and its gradient with respect to the parameters."""

    def of_batch(batch: Batch) -> PyTree:
        def total(params: PyTree) -> Array:
            return _total(ctx, {**variables, 'params': params}, losses, batch)

        return jax.value_and_grad(total)(variables['params'])

    count = _count(ctx)
    return jax.tree.map(lambda g: g / count.astype(g.dtype), _sum_over_batches(ctx, of_batch))


def balanced_accuracy(ctx: Context, variables: Variables) -> Array:
    """Mean recall over the classes this client holds."""
    task = ctx.spec.task

    def hits(batch: Batch) -> Array:
        guess = task.predict(ctx.apply(variables, batch.x, batch.mask, False).logits)
        right = guess == batch.y.astype(guess.dtype)
        return task.tally(batch.y, tree.per_row(batch.mask, batch.y) & right)

    held = ctx.label_counts
    recall = _sum_over_batches(ctx, hits) / jnp.maximum(held, 1)
    return jnp.sum(recall) / jnp.maximum(jnp.sum((held > 0).astype(recall.dtype)), 1)


def features(ctx: Context, variables: Variables) -> Array:
    """``[M, F]`` features in the order of ``data.index``; rows of padding examples are zero."""
    width = ctx.data.index.shape[0]
    size = min(ctx.spec.eval_batch_size, width)

    def of_batch(start: Array) -> Array:
        batch = _batch(ctx, start * size, size)
        seen = tree.flat_rows(ctx.apply(variables, batch.x, batch.mask, False).features)
        return seen * batch.mask[:, None].astype(seen.dtype)

    stacked = jax.lax.map(of_batch, jnp.arange(-(-width // size)))
    return stacked.reshape(-1, stacked.shape[-1])[:width]


def statistics(ctx: Context, variables: Variables) -> PyTree:
    """Batch statistics of a model over the training set: the mean of those of its batches, weighted by examples.

    A layer that keeps statistics moves them from ``s`` to ``(1 - m) s + m b`` by those of a batch, ``b``. From
    ``s = 0`` that is ``m b``, and its derivative in ``s`` is ``1 - m``: so ``b`` is found whatever ``m`` is. A batch of
    which nothing can be learned (``m = 0``) does not count; where none counts the statistics stay as they are.
    """
    kept = variables['batch_stats']

    def of_batch(batch: Batch) -> tuple[PyTree, PyTree]:
        def after(start: PyTree) -> PyTree:
            return ctx.apply({**variables, 'batch_stats': start}, batch.x, batch.mask, True).batch_stats

        zeros, ones = (jax.tree.map(like, kept) for like in (jnp.zeros_like, jnp.ones_like))
        moved, slope = jax.jvp(after, (zeros,), (ones,))
        of_examples = (moved, jax.tree.map(jnp.subtract, ones, slope))
        return jax.tree.map(lambda leaf: jnp.sum(batch.mask.astype(leaf.dtype)) * leaf, of_examples)

    def mean(total: Array, weight: Array, before: Array) -> Array:
        return jnp.where(weight > 0, total / jnp.where(weight > 0, weight, 1), before)

    return jax.tree.map(mean, *_sum_over_batches(ctx, of_batch), kept)


def label_counts(ctx: Context) -> Array:
    """``[K]`` examples (or pixels) of each class."""
    y = jnp.take(ctx.data.y, ctx.data.index, axis=0, mode='clip')
    return ctx.spec.task.tally(y, tree.per_row(ctx.data.ex_mask, y))


def _count(ctx: Context) -> Array:
    return jnp.maximum(ctx.data.n, 1).astype(default_float())


def _batch(ctx: Context, start: Array, size: int) -> Batch:
    place = start + jnp.arange(size)
    here = jnp.minimum(place, ctx.data.index.shape[0] - 1)
    x, y = ctx.spec.read(ctx.data, here)
    if ctx.augment_key is not None and ctx.spec.augment is not None:
        x, y = local.augmented(ctx.spec.augment, jax.random.fold_in(ctx.augment_key, start), x, y)
    quiet = dataclasses.replace(ctx, train=False)
    x, _ = ctx.spec.transform(quiet, ctx.spec.start_scratch(quiet), x)
    return Batch(x, y, (place < ctx.data.index.shape[0]) & ctx.data.ex_mask[here])


def _sum_over_batches(ctx: Context, fn: Callable[[Batch], PyTree]) -> PyTree:
    size = min(ctx.spec.eval_batch_size, ctx.data.index.shape[0])
    zero = jax.tree.map(
        lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(lambda: fn(_batch(ctx, jnp.array(0), size)))
    )

    def body(b: Array, total: PyTree) -> PyTree:
        return jax.tree.map(jnp.add, total, fn(_batch(ctx, b * size, size)))

    batches = shared_max(local.num_batches(ctx.data.n, size))
    with jax.named_scope(PASS):
        return jax.lax.fori_loop(0, batches, body, zero)
