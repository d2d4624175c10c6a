"""The only training loop: local optimisation of one client as a pure function."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_fair.core import tree
from fedjax_fair.core.client_map import row_of, shared_max, unless_finished
from fedjax_fair.core.platform import on_cpu
from fedjax_fair.core.types import Array, Batch, PyTree, default_float
from fedjax_fair.errors import UserError
from fedjax_fair.options import Decay, above, at_least, between, check_values, not_one_of, options_of, search

if TYPE_CHECKING:
    from fedjax_fair.core.method import Context, Phase
    from fedjax_fair.core.spec import Spec

OPTIMIZERS: dict[str, Callable] = {
    'sgd': lambda local: optax.trace(local.momentum) if _is_on(local.momentum) else optax.identity(),
    'nesterov': lambda local: optax.trace(local.momentum, nesterov=True),
    'adam': lambda local: optax.scale_by_adam(b1=local.b1, b2=local.b2),
    'adamw': lambda local: optax.scale_by_adam(b1=local.b1, b2=local.b2),
    'rmsprop': lambda local: optax.scale_by_rms(),
    'adagrad': lambda local: optax.scale_by_rss(),
}
WITH_MOMENTUM = ('sgd', 'nesterov')
WITH_BETAS = ('adam', 'adamw')


class WarmUp(NamedTuple):
    """A factor on the learning rate that grows from 0 to 1: ``min(1, (epochs round + step) / steps)``.

    Without ``per_step`` the factor of a round's first step holds for the whole round.
    """

    steps: Annotated[Array | float, above(0)] = 5.0
    per_step: bool = True

    def __call__(self, round: Any, epochs: int, step: Any = 0) -> Array:
        done = jnp.asarray(epochs * round + (step if self.per_step else 0), default_float())
        return jnp.minimum(1, done / self.steps)


Schedule = Array | Callable[[Any], Any]  # a learning rate that is traced, or a function of the round


class Local(NamedTuple):
    """How a client trains in one round: ``epochs`` passes over its data, or ``steps`` batches when given.

    ``optimizer`` is a name in :data:`OPTIMIZERS` or a function ``lr -> optax.GradientTransformation``; ``lr`` a float
    or a function of the round. Weight decay is coupled L2 as in PyTorch, except for ``adamw``. ``keep_optimizer``
    carries each client's optimiser state from one participation to the next instead of starting afresh. ``warm_up`` is
    a factor on ``lr``. Numbers may be traced. Settings of a run take help texts and ranges from here.
    """

    epochs: Annotated[int, 'passes over its data that a client makes per round', between(1, 10**6)] = 1
    batch_size: Annotated[int, 'examples per local step', at_least(1)] = 32
    lr: Annotated[float | Schedule, 'local learning rate', above(0), search(0.001, 1, log=True)] = 0.01
    steps: Annotated[int | None, 'batches per round instead of epochs', between(1, 10**9)] = None
    optimizer: Annotated[str | Callable[[Any], optax.GradientTransformation], 'optimiser of local training'] = 'sgd'
    momentum: Annotated[Decay | Array, 'momentum of sgd and nesterov'] = 0.0
    weight_decay: Annotated[float | Array, 'L2 weight decay (decoupled for adamw)', at_least(0)] = 0.0
    b1: Annotated[Decay | Array, 'decay of mean gradients in adam and adamw'] = 0.9
    b2: Annotated[Decay | Array, 'decay of mean squares in adam and adamw'] = 0.999
    clip_norm: Annotated[float | None, 'largest norm of a local gradient', above(0)] = None
    keep_optimizer: Annotated[bool, "carry each client's optimiser state to its next round"] = False
    warm_up: WarmUp | None = None


LOCAL = options_of(Local)
WARM_UP = options_of(WarmUp)


def _is_on(value: Any) -> bool:
    """False only for a literal zero: a traced hyper-parameter is always on."""
    return isinstance(value, jax.Array) or value != 0


def checked_local(local: Local) -> Local:
    """Refuse values outside of their ranges and unknown optimisers; functions are taken on trust."""
    check_values(LOCAL, {name: value for name, value in local._asdict().items() if not callable(value)})
    if local.warm_up is not None:
        check_values(WARM_UP, local.warm_up._asdict(), 'warm_up.{}'.format)
    if not callable(local.optimizer) and local.optimizer not in OPTIMIZERS:
        raise UserError(f'`optimizer`={local.optimizer!r} {not_one_of(local.optimizer, OPTIMIZERS)}')
    return local


def rate(local: Local) -> Callable[[Any], Any]:
    """The learning rate by round; a warm-up within rounds is left to their steps."""
    lr = local.lr if callable(local.lr) else lambda round: local.lr
    warm_up = local.warm_up
    if warm_up is None or warm_up.per_step:
        return lr
    return lambda round: lr(round) * warm_up(round, local.epochs)


def make_optimizer(local: Local, lr: Any) -> optax.GradientTransformation:
    """The optax transformation of one client, for a float or traced learning rate."""
    clip = [optax.clip_by_global_norm(local.clip_norm)] if local.clip_norm else []
    if callable(local.optimizer):
        return optax.chain(*clip, local.optimizer(lr))
    decay = [optax.add_decayed_weights(local.weight_decay)] if _is_on(local.weight_decay) else []
    core = [OPTIMIZERS[local.optimizer](local)]
    inner = core + decay if local.optimizer == 'adamw' else decay + core
    return optax.chain(*clip, *inner, optax.scale_by_learning_rate(lr))


def num_batches(n: Any, batch_size: int) -> Any:
    """Batches in one pass over ``n`` examples, the last partial one included."""
    return -(-n // batch_size)


def num_steps(local: Local, phase: Phase, n: Any) -> Any:
    """Optimisation steps of a client with ``n`` examples; none for a client without data."""
    if local.steps is not None and phase.epochs is None:
        return local.steps * (n > 0) if isinstance(n, int) else jnp.where(n > 0, local.steps, 0)
    return (phase.epochs or local.epochs) * num_batches(n, local.batch_size)


def loop_name(phase: Phase) -> str:
    """How the loop over the steps of a phase is called in programs."""
    return f'steps_of_{phase.name}'


def last_batch(local: Local, phase: Phase, n: int | None) -> int | None:
    """How large the last batch of every epoch is, if filling it up would cost a twentieth of the work or more.

    Known where all clients have ``n`` examples. A step on smaller batches is a second program to compile: worth it
    where a step costs what its examples cost, on CPU.
    """
    counts_steps = local.steps is not None and phase.epochs is None
    if n is None or counts_steps or not on_cpu():
        return None
    size = min(local.batch_size, n)
    missing = -n % size
    return size - missing if 20 * missing >= n + missing else None


def num_examples(local: Local, phase: Phase, n: Any, last: int | None) -> Any:
    """Examples that the steps of a client with ``n`` examples cost, those that fill up batches included."""
    full = num_steps(local, phase, n) * local.batch_size
    return (
        full if last is None else full - (phase.epochs or local.epochs) * (local.batch_size - last) * jnp.minimum(n, 1)
    )


def examples_paid(local: Local, phases: Sequence[Phase], longest: Array, only_size: int | None) -> Array:
    """Examples that chunks cost whose longest clients have so many: all their clients run as long as those."""
    counts = (num_examples(local, phase, longest, last_batch(local, phase, only_size)) for phase in phases)
    return jnp.asarray(sum(counts))


def epochs_needed(local: Local, phase: Phase, smallest: int) -> int:
    """How many shuffles the client with the fewest examples can use up."""
    if local.steps is not None and phase.epochs is None:
        return -(-local.steps // max(1, -(-smallest // local.batch_size)))
    return phase.epochs or local.epochs


def shuffles(key: Array, ex_mask: Array, epochs: int, width: int) -> Array:
    """``[epochs, width]`` positions: real examples first in random order, a fresh order each epoch."""

    def order(epoch):
        noise = jax.random.uniform(jax.random.fold_in(key, 2 * epoch), ex_mask.shape)  # odd numbers: the steps
        return jnp.argsort(jnp.where(ex_mask, noise, jnp.inf))

    orders = jax.vmap(order)(jnp.arange(epochs))
    return jnp.pad(orders, ((0, 0), (0, width - ex_mask.shape[0])))


def augmented(augment: Callable[[Array, Array], Array], key: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """An augmented batch. Labels that are images, one per pixel, move along as one more channel; class 0 fills in."""
    if y.ndim < 3:
        return augment(key, x), y
    both = augment(key, jnp.concatenate([x, y[..., None].astype(x.dtype)], axis=-1))
    return both[..., :-1], jnp.round(both[..., -1]).astype(y.dtype)


class Trained(NamedTuple):
    """The outcome of local training: the model, the optimiser, every method's scratch, summed loss and examples."""

    variables: PyTree
    opt: PyTree
    scratch: dict[str, PyTree]
    loss_sum: Array
    examples: Array


def train(ctx: Context, local: Local, phase: Phase, state: Trained, *, final: bool) -> Trained:
    """Train one client for one phase, starting from ``state``; ``state.opt`` None starts a fresh optimiser."""
    data, spec = ctx.data, ctx.spec
    size = min(local.batch_size, data.index.shape[0])
    lr = ctx.run.lr(ctx.round) if phase.lr is None else phase.lr
    warm_up = local.warm_up if local.warm_up is not None and local.warm_up.per_step else None
    optimizer = make_optimizer(local, lr)
    trainable = jax.tree.map(phase.trainable, tree.paths(state.variables['params']))
    # Accelerators would rather know the trip count, and where in an epoch a step is, if there is only one.
    known = spec.only_size is not None and not on_cpu()
    steps = num_steps(local, phase, data.n)
    batches = jnp.maximum(num_batches(spec.only_size if known else data.n, size), 1)
    width = -(-data.index.shape[0] // size) * size
    orders = shuffles(ctx.key, data.ex_mask, epochs_needed(local, phase, spec.smallest), width)
    if state.opt is None:
        state = state._replace(opt=optimizer.init(state.variables['params']))

    def batch_of(step, width, key):
        first, position = _positions(orders, step, batches, size, width)
        x, y = spec.read(data, position)
        x, y = (x, y) if spec.augment is None else augmented(spec.augment, key, x, y)
        return Batch(x, y, first + jnp.arange(width) < data.n)

    def body(step, old: Trained, width: int = size) -> Trained:
        """One optimisation step on a batch of ``width`` examples."""
        key = jax.random.fold_in(ctx.key, 2 * step + 1)
        batch = batch_of(step, width, jax.random.fold_in(key, 1))
        here = dataclasses.replace(ctx, key=key, train=True, mask=batch.mask, phase=phase.name, memo=None)
        x, scratch = spec.transform(here, old.scratch, batch.x)
        batch = batch._replace(x=x)
        (_, aux), grads = spec.grad(here, old.variables, batch)
        grads = _zero_frozen(trainable, grads)
        # The state of an optimiser does not depend on its learning rate.
        now = optimizer if warm_up is None else make_optimizer(local, lr * warm_up(ctx.round, local.epochs, step))
        updates, opt = now.update(grads, old.opt, old.variables['params'])
        params = optax.apply_updates(old.variables['params'], _zero_frozen(trainable, updates))
        last = jnp.asarray(final) & (step >= steps - batches)
        scratch = spec.observe(here, scratch, batch, aux, last)
        new = Trained(
            {**old.variables, 'params': params, 'batch_stats': aux.batch_stats},
            opt,
            scratch,
            old.loss_sum + jnp.sum(jnp.where(batch.mask, aux.losses, 0)),
            old.examples + jnp.sum(batch.mask.astype(old.examples.dtype)),
        )
        return proceed(step < steps, new, old)

    # A chunk stops with its longest client.
    proceed = tree.select if known else unless_finished
    bound = num_steps(local, phase, spec.only_size) if known else shared_max(steps)
    last, loop = last_batch(local, phase, spec.only_size), partial(_named_loop, spec, phase)
    if last is None:
        return loop(0, bound, body, state)

    def epoch(number, state):
        end = (number + 1) * batches - 1
        return body(end, loop(number * batches, end, body, state), last)

    return spec.loop(0, jax.lax.div(bound, batches), epoch, state)


def _positions(orders: Array, step: Array, batches: Array, size: int, width: int) -> tuple[Array, Array]:
    """Where in its epoch the batch of a step begins, and its examples."""
    epoch, batch = jax.lax.div(step, batches), jax.lax.rem(step, batches)
    if on_cpu():
        return batch * size, jax.lax.dynamic_slice(orders, (epoch, batch * size), (1, width))[0]
    return batch * size, row_of(orders.reshape(-1, size), epoch * (orders.shape[1] // size) + batch)


def _named_loop(spec: Spec, phase: Phase, lower: Any, upper: Any, body: Callable[[Any, Any], Any], state: Any) -> Any:
    with jax.named_scope(loop_name(phase)):
        return spec.loop(lower, upper, body, state)


def _zero_frozen(trainable: PyTree, values: PyTree) -> PyTree:
    return jax.tree.map(lambda moves, v: v if moves else jnp.zeros_like(v), trainable, values)
