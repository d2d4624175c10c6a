"""What is fixed before the first round: a client's data, and all of an algorithm that is not data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core import hooks, training_set
from fedjax_fair.core.homes import Homes
from fedjax_fair.core.local import Local, loop_name, num_batches, num_steps
from fedjax_fair.core.masking import masked_mean
from fedjax_fair.core.method import Aux, Context, Method, Phase
from fedjax_fair.core.tree import paths
from fedjax_fair.core.types import Array, Batch, Model, Outliers, PyTree, Run, Task, Variables, default_float

OUTLIERS = 2**31 - 2  # sets their keys apart from those of training
EVAL_BATCH_SIZE = 128


class ClientData(NamedTuple):
    """One client's training set inside the flat arrays; ``drawn[M, ...]`` are its inputs where some are outliers."""

    x: Array
    y: Array
    index: Array  # type: ignore[assignment]  # nobody asks a tuple for its index
    ex_mask: Array
    n: Array
    drawn: Array | None = None

    def take(self, position: Array) -> tuple[Array, Array]:
        """The examples at positions of this client's own list."""
        places = self.index[position]
        return jnp.take(self.x, places, axis=0, mode='clip'), jnp.take(self.y, places, axis=0, mode='clip')


@dataclasses.dataclass(frozen=True)
class Spec:
    """What ``build`` fixed: everything about an algorithm that is not data.

    ``loop`` repeats the steps of local training; whoever counts what a step costs takes one. ``seats`` say where each
    client trains in a round that fills all slots of a mesh. ``homes`` are the same seats if client rows and examples
    lie there, and None if these are on all devices.
    """

    model: Model
    task: Task
    methods: tuple[Method, ...]
    local: Local
    phases: tuple[Phase, ...]
    run: Run
    preprocess: Callable[[Array], Array]
    augment: Callable[[Array, Array], Array] | None
    outliers: Outliers | None
    only_size: int | None
    eval_batch_size: int = EVAL_BATCH_SIZE
    seats: Homes | None = None
    homes: Homes | None = None
    loop: Callable[..., PyTree] = jax.lax.fori_loop

    @property
    def smallest(self) -> int:
        """The fewest examples any client with data holds."""
        return int(min((int(n) for n in self.run.sizes if n > 0), default=1))

    def with_outliers(self, data: ClientData, own: Array, client: Array, seen: Array | None) -> ClientData:
        """The client's data with its outliers drawn: by its key of this round, or once and for all seeds.

        Cumulative ones are drawn again for all of the ``seen`` rounds that the client took part in before, one upon the
        other, so that no spoiled data has to be kept.
        """
        outliers = self.outliers
        if outliers is None:
            return data

        def clean(position: Array) -> Array:
            return self.read(data._replace(drawn=None), position[None])[0][0]

        fixed = jax.random.fold_in(jax.random.key(OUTLIERS), client)
        if outliers.cumulative:
            first = self._spoiled(outliers, data, jax.random.fold_in(fixed, 0), clean)

            def again(time: Array, x: Array) -> Array:
                return self._spoiled(outliers, data, jax.random.fold_in(fixed, time), lambda position: x[position])

            return data._replace(drawn=jax.lax.fori_loop(1, 1 if seen is None else seen + 1, again, first))
        key = jax.random.fold_in(own, OUTLIERS) if outliers.persistent else fixed
        return data._replace(drawn=self._spoiled(outliers, data, key, clean))

    def _spoiled(self, outliers: Outliers, data: ClientData, key: Array, example: Callable[[Array], Array]) -> Array:
        """All examples of a client, ``example(position)`` each, of which a share is spoiled."""
        chance = jax.random.uniform(key, data.ex_mask.shape)
        rank = jnp.argsort(jnp.argsort(jnp.where(data.ex_mask, chance, jnp.inf)))
        count = jnp.round(outliers.share * data.n.astype(chance.dtype)).astype(rank.dtype)

        def drawn(position: Array) -> Array:
            x = example(position)
            return jnp.where(rank[position] < count, outliers.spoil(jax.random.fold_in(key, position), x), x)

        # Once per round, not once per step: epochs, probes and second models read the same examples again.
        everything = jnp.arange(data.index.shape[0])
        return jax.lax.map(drawn, everything, batch_size=self.eval_batch_size)

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

    def start_scratch(self, ctx: Context) -> dict[str, PyTree]:
        """Every method's working state at the start of a round."""
        return {m.name: m.start(ctx.of(m)) if m.start is not None else () for m in self.methods}

    def grad(
        self, ctx: Context, variables: Variables, batch: Batch, *, second_model: bool = False
    ) -> tuple[tuple[Array, Aux], PyTree]:
        """``((loss, aux), gradient)`` through the loss and gradient wrappers, from the first stage to the last.

        A second model of a client leaves out the methods that concern the shared model alone.
        """
        wrappers = [m for m in self.methods if m.place.every_model or not second_model]
        loss_fn: hooks.LossFn = _plain_loss
        for m in wrappers:
            if m.loss is not None:
                loss_fn = _as_own(m, m.loss(loss_fn))

        def gradient(ctx: Context, variables: Variables, batch: Batch) -> tuple[tuple[Array, Aux], PyTree]:
            def of_params(params: PyTree) -> tuple[Array, Aux]:
                return loss_fn(ctx, {**variables, 'params': params}, batch)

            return jax.value_and_grad(of_params, has_aux=True)(variables['params'])

        grad_fn: hooks.GradFn = gradient
        for m in wrappers:
            if m.grad is not None:
                grad_fn = _as_own(m, m.grad(grad_fn))
        return grad_fn(ctx, variables, batch)

    @property
    def probes(self) -> bool:
        """Whether clients measure anything before they train."""
        return any(m.probe is not None for m in self.methods) or bool(self.measures(training_set.BEFORE))

    def measures(self, services: Iterable[str]) -> tuple[str, ...]:
        """Those of the shared measurements that some method reads."""
        asked = {name for m in self.methods for name in m.measures}
        return tuple(name for name in services if name in asked)

    def steps(self, n: Any) -> Any:
        """Optimisation steps of a client with ``n`` examples, over all phases."""
        return sum(num_steps(self.local, phase, n) for phase in self.phases)

    def turns(self) -> dict[str, np.ndarray]:
        """``[N]`` turns of every client in each loop over its data, by the names of the loops."""
        sizes, where = np.unique(self.run.sizes, return_inverse=True)
        turns = {loop_name(phase): [num_steps(self.local, phase, int(n)) for n in sizes] for phase in self.phases}
        turns[training_set.PASS] = num_batches(sizes, min(self.eval_batch_size, max(1, sizes[-1])))
        return {name: np.asarray(counts)[where] for name, counts in turns.items()}

    def training_time(self, ctx: Context, params: PyTree) -> PyTree:
        """For every leaf the sum of steps times learning rate over the phases that train it."""
        usual = jnp.asarray(ctx.run.lr(ctx.round), default_float())
        only = self.phases[0] if len(self.phases) == 1 else None
        if only is not None and only.lr is None:
            return jax.tree.map(lambda _: jnp.maximum(ctx.steps, 1) * usual, params)

        def time(path: str) -> Array:
            spent = jnp.zeros((), usual.dtype)
            for phase in self.phases:
                steps = jnp.asarray(num_steps(self.local, phase, ctx.data.n)).astype(usual.dtype)
                spent = spent + (steps * (usual if phase.lr is None else phase.lr) if phase.trainable(path) else 0)
            return spent

        return jax.tree.map(time, paths(params))


def _as_own(method: Method, wrapped: Any) -> Any:
    """The wrapped function sees its own method's state, whatever context it is called with."""
    return lambda ctx, variables, batch: wrapped(ctx.of(method), variables, batch)


def _plain_loss(ctx: Context, variables: Variables, batch: Batch) -> tuple[Array, Aux]:
    out = ctx.apply(variables, batch.x, batch.mask, True)
    losses = ctx.spec.task.losses(out.logits, batch.y, batch.mask)
    return masked_mean(losses, batch.mask), Aux(losses, out.logits, out.features, out.batch_stats)
