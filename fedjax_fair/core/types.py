"""The vocabulary of the engine: data, models, tasks and state. Methods and their hooks are in :mod:`.method`."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

if TYPE_CHECKING:
    from fedjax_fair.core.passes import Passes

PyTree = Any
Array = jax.Array
Variables = dict[str, PyTree]  # {'params': ..., 'batch_stats': ...}
Losses = Callable[[Array, Array, Array | None], Array]  # (logits, y, mask) -> one loss per example


def default_float() -> Any:
    """The float type of new arrays: float32, or float64 where JAX is told to use 64 bits."""
    return jax.dtypes.canonicalize_dtype(float)


def __getattr__(name: str) -> Any:
    if name in ('Aux', 'Method', 'Phase'):  # older code imports them from here
        from fedjax_fair.core import method

        return getattr(method, name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


# --- models and tasks ------------------------------------------------------------------------------------------------


class Output(NamedTuple):
    """What a forward pass gives: logits, the features before the head, and the batch statistics to keep."""

    logits: Array
    features: Array
    batch_stats: PyTree


class Model(NamedTuple):
    """A network as two pure functions.

    ``init(key, x)`` returns the variables; ``apply(variables, x, mask, train, key)`` an :class:`Output`. ``mask[B]``
    marks the real examples of a padded batch: padding must not enter batch statistics.
    """

    init: Callable[[Array, Array], Variables]
    apply: Callable[[Variables, Array, Array, bool, Array], Output]
    name: str = 'model'


class Task(NamedTuple):
    """What is learned: a loss per example and metrics over a test set.

    ``losses(logits, y, mask)`` gives ``[B]``; only a loss that is not a mean over examples looks at the mask.
    ``record(logits, y)`` gives per-example facts ``[B, ...]`` and ``metrics(records, y, mask)`` turns the facts of a
    whole test set into a dict of arrays, of which ``score`` is the one that fairness is about (higher is better).
    ``predict(logits)`` gives what ``y`` should be, ``tally(y, mask)`` how often every class occurs, ``[K]``.
    ``kept`` are the records of which a run keeps what every test example got, and their names in its file. ``about``
    says in words what the score is, where its name does not. A model whose mean ``loss`` among the metrics is not
    finite, or above ``absurd_loss``, has diverged: none of its metrics means anything.
    """

    name: str
    num_classes: int
    losses: Losses
    record: Callable[[Array, Array], PyTree]
    metrics: Callable[[PyTree, Array, Array], dict[str, Array]]
    predict: Callable[[Array], Array]
    tally: Callable[[Array, Array], Array]
    score: str = 'accuracy'
    kept: Mapping[str, str] = MappingProxyType({})
    about: str = ''
    absurd_loss: float = math.inf


# --- data ------------------------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """A padded batch; ``mask[B]`` marks the real examples."""

    x: Array
    y: Array
    mask: Array


class Outliers(NamedTuple):
    """Training examples that are worse than the data: a ``share`` of each client's, drawn from the clean ones.

    ``spoil(key, x)`` spoils one example as the model would see it; its label stays. ``persistent`` draws others in
    every round, keyed by seed, round and client; else the same stay spoiled. ``cumulative`` spoils, in every round that
    a client takes part in, what the one before has left. Within a round all epochs see the same.
    """

    spoil: Callable[[Array, Array], Array]
    share: float = 0.3
    persistent: bool = True
    cumulative: bool = False


class Cohort(NamedTuple):
    """The clients of one round.

    Examples are stored once, flat (``x[T, ...]``, ``y[T, ...]``); ``index[C, M]`` lists each client's examples and
    ``ex_mask[C, M]`` marks the real ones. A padding slot has ``mask`` False and ``id == N``. No client's data is
    copied: batches are gathered straight from the flat arrays. ``places[C]`` say where the clients' rows stand in the
    tables of a state that holds only theirs; None where tables have a row for every client, by its number.
    """

    ids: Array
    mask: Array
    x: Array
    y: Array
    index: Array  # type: ignore[assignment]  # nobody asks a tuple for its index
    ex_mask: Array
    places: Array | None = None

    @property
    def rows_at(self) -> Array:
        return self.ids if self.places is None else self.places


@functools.partial(jax.tree_util.register_dataclass, data_fields=['x', 'y', 'mask', 'test_of'], meta_fields=['names'])
@dataclasses.dataclass(frozen=True)
class Tests:
    """Named test sets stored once.

    ``x[G, M, ...]``, ``y[G, M, ...]``, ``mask[G, M]``; ``test_of[N]`` is each client's own. On a mesh ``x`` may be
    batches that are divided over its devices (:mod:`fedjax_fair.core.batches`).
    """

    x: Any
    y: Any
    mask: Any
    test_of: Any
    names: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Run:
    """Facts every hook may read. ``build`` fills them in, so a factory takes only its hyper-parameters.

    ``momentum`` is that of local SGD which starts from rest in every round; else 0.
    """

    num_clients: int
    sizes: np.ndarray
    num_classes: int
    feature_dim: int
    example: Any
    rounds: int
    lr: Callable[[Any], Any]
    momentum: Any = 0.0


class FedState(NamedTuple):
    """All that changes from round to round; ``clients`` holds one row per client of every method that keeps rows."""

    round: Array
    variables: Variables
    opt: PyTree
    server: dict[str, PyTree]
    clients: dict[str, PyTree]
    seen: Array


# --- algorithms -------------------------------------------------------------------------------------------------------


class Algorithm(NamedTuple):
    """A federated algorithm as pure functions; ``facts`` says in words what ``build`` chose."""

    init: Callable[..., FedState]
    round: Callable[[FedState, Cohort, Array], tuple[FedState, dict[str, Array]]]
    evaluate: Callable[..., dict[str, dict[str, Array]]]
    predict: Callable[[FedState, Array], Array]
    measure: Callable[..., PyTree]
    run: Run
    facts: dict[str, Any]
    passes: Callable[[Any], Passes]
