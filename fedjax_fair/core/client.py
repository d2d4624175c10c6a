"""The client's half of a round: the context its hooks read, and the order in which they run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_fair.core import local as local_training
from fedjax_fair.core import tree
from fedjax_fair.core.client_map import shared_max
from fedjax_fair.core.spec import ClientData, Spec
from fedjax_fair.core.types import Array, Batch, Losses, Method, Output, PyTree, Run, Variables

AUGMENTED = 2**31 - 1  # sets the keys of an augmented training set apart from those of training


@dataclasses.dataclass(frozen=True)
class Context:
    """What a client hook may read.

    ``server`` and ``row`` are the hook's own method's entries; ``variables`` the model after download; ``probe`` all
    that was measured before training; ``steps`` this round's number of optimisation steps. ``train`` is False while
    evaluating; in training ``mask`` marks the real examples of the step's batch. ``loss``, ``loss_and_gradient``,
    ``balanced_accuracy`` and ``features`` run over the client's whole training set in evaluation mode.
    """

    spec: Spec
    round: Array
    id: Array
    key: Array
    servers: dict[str, PyTree]
    rows: dict[str, PyTree]
    variables: Variables
    data: ClientData
    steps: Any = 0
    probe: dict[str, Array] = dataclasses.field(default_factory=dict)
    train: bool = False
    mask: Array | None = None
    phase: str = ''
    me: str = ''
    memo: dict[str, Any] | None = None
    augment_key: Array | None = None

    def of(self, method: Method) -> Context:
        """The same context as this method sees it."""
        return dataclasses.replace(self, me=method.name)

    @property
    def run(self) -> Run:
        return self.spec.run

    @property
    def server(self) -> PyTree:
        return self.servers.get(self.me)

    @property
    def row(self) -> PyTree:
        return self.rows.get(self.me)

    def apply(self, variables: Variables, x: Array, mask: Array, train: bool) -> Output:
        """Forward pass on inputs that are already transformed."""
        return self.spec.model.apply(variables, x, mask, train, self.key)

    def grad(self, variables: Variables, batch: Batch):
        """``((loss, aux), gradient)`` of the methods listed after this one: what a second model trains on."""
        index = [m.name for m in self.spec.methods].index(self.me)
        return self.spec.grad(self, variables, batch, after=index)

    # --- services over the whole training set -------------------------------------------------------------------------

    def loss(self, variables: Variables, losses: Losses | None = None) -> Array:
        """Mean of the task's plain losses, or of those given: ``losses(logits, y, mask)``."""
        if losses is not None:
            return self._loss(variables, losses)
        return self._once('loss', variables, lambda variables: self._loss(variables, self.spec.task.losses))

    def _loss(self, variables: Variables, losses: Losses) -> Array:
        return self._sum_over_batches(lambda batch: self._total(variables, losses, batch)) / self._count()

    def _total(self, variables: Variables, losses: Losses, batch: Batch) -> Array:
        out = self.apply(variables, batch.x, batch.mask, False)
        return jnp.sum(jnp.where(batch.mask, losses(out.logits, batch.y, batch.mask), 0))

    def loss_and_gradient(self, variables: Variables, losses: Losses | None = None) -> tuple[Array, PyTree]:
        """:meth:`loss` and its gradient with respect to the parameters, from the same passes."""

        def of_batch(batch):
            def total(params):
                return self._total({**variables, 'params': params}, losses or self.spec.task.losses, batch)

            return jax.value_and_grad(total)(variables['params'])

        count = self._count()
        return jax.tree.map(lambda g: g / count.astype(g.dtype), self._sum_over_batches(of_batch))

    def augmented(self, number: int) -> Context:
        """The same client, whose whole training set is seen as training augments it; each number another draw."""
        key = jax.random.fold_in(jax.random.fold_in(self.key, AUGMENTED), number)
        return dataclasses.replace(self, augment_key=key, memo=None)

    def balanced_accuracy(self, variables: Variables) -> Array:
        """Mean recall over the classes this client holds."""

        def hits(batch):
            guess = self.spec.task.predict(self.apply(variables, batch.x, batch.mask, False).logits)
            right = guess == batch.y.astype(guess.dtype)
            return self.spec.task.tally(batch.y, tree.per_row(batch.mask, batch.y) & right)

        held = self.label_counts
        recall = self._sum_over_batches(hits) / jnp.maximum(held, 1)
        return jnp.sum(recall) / jnp.maximum(jnp.sum((held > 0).astype(recall.dtype)), 1)

    def features(self, variables: Variables) -> Array:
        """``[M, F]`` features in the order of ``data.where``; rows of padding examples are zero."""
        width = self.data.where.shape[0]
        size = min(self.spec.eval_batch_size, width)

        def of_batch(start):
            batch = self._batch(start * size, size)
            found = self.apply(variables, batch.x, batch.mask, False).features
            return found.reshape(size, -1) * batch.mask[:, None].astype(found.dtype)

        stacked = jax.lax.map(of_batch, jnp.arange(-(-width // size)))
        return stacked.reshape(-1, stacked.shape[-1])[:width]

    @property
    def label_counts(self) -> Array:
        """``[K]`` examples (pixels, where every pixel has a class) of each class in this client's training set."""
        y = jnp.take(self.data.y, self.data.where, axis=0, mode='clip')
        return self.spec.task.tally(y, tree.per_row(self.data.ex_mask, y))

    def _count(self) -> Array:
        return jnp.maximum(self.data.n, 1).astype(jnp.zeros(0).dtype)

    def _batch(self, start: Array, size: int) -> Batch:
        place = start + jnp.arange(size)
        here = jnp.minimum(place, self.data.where.shape[0] - 1)
        x, y = self.spec.read(self.data, here)
        if self.augment_key is not None and self.spec.augment is not None:
            x, y = local_training.augmented(self.spec.augment, jax.random.fold_in(self.augment_key, start), x, y)
        quiet = dataclasses.replace(self, train=False)
        x, _ = self.spec.transform(quiet, start_scratch(quiet), x)
        return Batch(x, y, (place < self.data.where.shape[0]) & self.data.ex_mask[here])

    def _sum_over_batches(self, fn: Callable[[Batch], PyTree]) -> PyTree:
        size = min(self.spec.eval_batch_size, self.data.where.shape[0])
        zero = jax.tree.map(
            lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(lambda: fn(self._batch(jnp.array(0), size)))
        )

        def body(b, total):
            return jax.tree.map(jnp.add, total, fn(self._batch(b * size, size)))

        batches = shared_max(local_training.num_batches(self.data.n, size))
        return jax.lax.fori_loop(0, batches, body, zero)

    def _once(self, name: str, variables: Variables, compute: Callable) -> Any:
        """Several methods probe the same thing: measure it once."""
        if self.memo is None or variables is not self.variables:
            return compute(variables)
        if name not in self.memo:
            self.memo[name] = compute(variables)
        return self.memo[name]


def start_scratch(ctx: Context) -> dict[str, PyTree]:
    """Every method's working state at the start of a round."""
    return {m.name: m.start(ctx.of(m)) if m.start is not None else () for m in ctx.spec.methods}


def download(ctx: Context) -> Context:
    """The context with the model as this client receives it."""
    variables = ctx.variables
    for m in ctx.spec.methods:
        if m.download is not None:
            variables = m.download(dataclasses.replace(ctx.of(m), variables=variables), variables)
    return dataclasses.replace(ctx, variables=variables, memo={})


def deploy(ctx: Context) -> Variables:
    """The model this client would use: what it downloads, unless a method deploys something else."""
    ctx = download(ctx)
    variables = ctx.variables
    for m in ctx.spec.methods:
        if m.deploy is not None:
            variables = m.deploy(ctx.of(m), variables)
    return variables


def probe(ctx: Context) -> dict[str, Array]:
    """All measurements at the model just downloaded."""
    ctx = download(ctx)
    found: dict[str, Array] = {}
    for m in ctx.spec.methods:
        if m.probe is not None:
            found |= m.probe(ctx.of(m))
    return found


class Sent(NamedTuple):
    """What one client's round gives: the update it uploads, its new rows, its reports, and how training went."""

    update: Variables
    rows: dict[str, PyTree]
    reports: dict[str, Array]
    opt: PyTree
    loss_sum: Array
    examples: Array


def fit(ctx: Context, opt: PyTree) -> local_training.Trained:
    """Ordinary local training from ``ctx.variables``, phase by phase."""
    zero = jnp.zeros(())
    state = local_training.Trained(ctx.variables, opt, start_scratch(ctx), zero, zero)
    for number, phase in enumerate(ctx.spec.phases):
        here = dataclasses.replace(ctx, key=jax.random.fold_in(ctx.key, number))
        if number:  # every phase has an optimiser of its own
            state = state._replace(opt=None)
        final = number == len(ctx.spec.phases) - 1
        state = local_training.train(here, ctx.spec.local, phase, state, final=final)
    return state


def train_and_send(ctx: Context, opt: PyTree) -> Sent:
    """One client's whole round: download, train, upload, report."""
    ctx = download(ctx)
    trained = fit(ctx, opt)
    return send(ctx, trained)


def send(ctx: Context, trained: local_training.Trained) -> Sent:
    """What leaves the client after training."""
    after = trained.variables
    rows: dict[str, PyTree] = {}
    reports: dict[str, Array] = {}
    for m in ctx.spec.methods:
        if m.report is not None:
            rows[m.name], found = m.report(ctx.of(m), trained.scratch[m.name], ctx.variables, after)
            reports |= found
    for m in ctx.spec.methods:
        if m.upload is not None:
            after = m.upload(ctx.of(m), trained.scratch[m.name], ctx.variables, after)
    update = jax.tree.map(jnp.subtract, after, ctx.variables)
    return Sent(update, rows, reports, trained.opt, trained.loss_sum, trained.examples)


def finite(sent: Sent) -> Array:
    """False for a client whose training went astray."""
    return tree.all_finite((sent.update, sent.rows, sent.reports))
