"""What is fixed before the first round: a client's data, and all of an algorithm that is not data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_fair.core import local as local_training
from fedjax_fair.core.types import Array, Aux, Batch, Method, Model, Outliers, Phase, PyTree, Run, Task, Variables

if TYPE_CHECKING:
    from fedjax_fair.core.client import Context

OUTLIERS = 2**31 - 2  # sets their keys apart from those of training


class ClientData(NamedTuple):
    """One client's training set inside the flat arrays; ``drawn[M, ...]`` are its inputs where some are outliers."""

    x: Array
    y: Array
    where: Array
    ex_mask: Array
    n: Array
    drawn: Array | None = None

    def take(self, position: Array) -> tuple[Array, Array]:
        """The examples at positions of this client's own list."""
        rows = self.where[position]
        return jnp.take(self.x, rows, axis=0, mode='clip'), jnp.take(self.y, rows, axis=0, mode='clip')


@dataclasses.dataclass(frozen=True)
class Spec:
    """What ``build`` fixed: everything about an algorithm that is not data."""

    model: Model
    task: Task
    methods: tuple[Method, ...]
    local: local_training.Local
    phases: tuple[Phase, ...]
    run: Run
    preprocess: Callable[[Array], Array]
    augment: Callable[[Array, Array], Array] | None
    outliers: Outliers | None
    only_size: int | None
    eval_batch_size: int = 128

    @property
    def smallest(self) -> int:
        """The fewest examples any client with data holds."""
        return int(min((int(n) for n in self.run.sizes if n > 0), default=1))

    def with_outliers(self, data: ClientData, own: Array, client: Array) -> ClientData:
        """The client's data with its outliers drawn: by its key of this round, or once and for all seeds."""
        outliers = self.outliers
        if outliers is None:
            return data
        key = jax.random.fold_in(own, OUTLIERS)
        key = key if outliers.persistent else jax.random.fold_in(jax.random.key(OUTLIERS), client)
        chance = jax.random.uniform(key, data.ex_mask.shape)
        rank = jnp.argsort(jnp.argsort(jnp.where(data.ex_mask, chance, jnp.inf)))
        count = jnp.round(outliers.share * data.n.astype(chance.dtype)).astype(rank.dtype)

        def drawn(position: Array) -> Array:
            x = self.read(data._replace(drawn=None), position[None])[0][0]
            return jnp.where(rank[position] < count, outliers.spoil(jax.random.fold_in(key, position), x), x)

        # Once per round, not once per step: epochs, probes and second models read the same examples again.
        everything = jnp.arange(data.where.shape[0])
        return data._replace(drawn=jax.lax.map(drawn, everything, batch_size=self.eval_batch_size))

    def read(self, data: ClientData, position: Array) -> tuple[Array, Array]:
        """Examples at positions of a client's own list as training sees them, before augmentation."""
        x, y = data.take(position)
        return self.preprocess(x) if data.drawn is None else data.drawn[position], y

    def transform(self, ctx: Context, scratch: dict[str, PyTree], x: Array) -> tuple[Array, dict[str, PyTree]]:
        """Run every method's input transform."""
        for m in self.methods:
            if m.transform is not None:
                x, own = m.transform(ctx.of(m), scratch[m.name], x)
                scratch = {**scratch, m.name: own}
        return x, scratch

    def observe(
        self, ctx: Context, scratch: dict[str, PyTree], batch: Batch, aux: Aux, last: Array
    ) -> dict[str, PyTree]:
        """Let every method look at the step just taken."""
        for m in self.methods:
            if m.observe is not None:
                scratch = {**scratch, m.name: m.observe(ctx.of(m), scratch[m.name], batch, aux, last)}
        return scratch

    def grad(self, ctx: Context, variables: Variables, batch: Batch, after: int = -1):
        """``((loss, aux), gradient)`` through the loss and gradient wrappers of the methods listed after one.

        Wrappers are applied from the last method to the first, so that the base of ``base+plugin`` has the last word.
        """
        wrappers = self.methods[after + 1 :]
        loss_fn = _plain_loss
        for m in reversed(wrappers):
            loss_fn = _as_own(m, m.loss, loss_fn)

        def grad_fn(ctx: Context, variables: Variables, batch: Batch):
            def of_params(params):
                return loss_fn(ctx, {**variables, 'params': params}, batch)

            return jax.value_and_grad(of_params, has_aux=True)(variables['params'])

        for m in reversed(wrappers):
            grad_fn = _as_own(m, m.grad, grad_fn)
        return grad_fn(ctx, variables, batch)


def _as_own(method: Method, wrapper: Callable | None, inner: Callable) -> Callable:
    """Wrap ``inner``; the wrapper sees its own method's state, whatever context it is called with."""
    if wrapper is None:
        return inner
    wrapped = wrapper(inner)
    return lambda ctx, variables, batch: wrapped(ctx.of(method), variables, batch)


def _plain_loss(ctx: Context, variables: Variables, batch: Batch) -> tuple[Array, Aux]:
    out = ctx.apply(variables, batch.x, batch.mask, True)
    losses = ctx.spec.task.losses(out.logits, batch.y, batch.mask)
    return masked_mean(losses, batch.mask), Aux(losses, out.logits, out.features, out.batch_stats)


def masked_mean(values: Array, mask: Array) -> Array:
    """Mean over the real examples of a batch; zero for an empty one."""
    total = jnp.sum(jnp.where(mask, values, 0))
    return total / jnp.maximum(jnp.sum(mask.astype(values.dtype)), 1)
