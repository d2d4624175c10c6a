"""What a method is: its hooks, the stage at which they run, and what they may read."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_fair.core import hooks, training_set, tree
from fedjax_fair.core.types import Array, Batch, Losses, Output, PyTree, Run, Variables

if TYPE_CHECKING:
    from fedjax_fair.core.spec import ClientData, Spec

AUGMENTED = 2**31 - 1  # sets the keys of an augmented training set apart from those of training


class Phase(NamedTuple):
    """One stretch of local training. Leaves for which ``trainable(path)`` is False do not move at all."""

    name: str
    epochs: int | None = None
    lr: Any = None
    trainable: Callable[[str], bool] = lambda path: True


class Aux(NamedTuple):
    """What a loss function gives beside its value; ``notes`` are by method, see :meth:`Context.note`."""

    losses: Array
    logits: Array
    features: Array
    batch_stats: PyTree
    notes: Mapping[str, PyTree] = {}


class Stage(enum.IntEnum):
    """Where in the chain of a round a method belongs. Hooks run in this order, within a stage by name.

    So ``a+b`` and ``b+a`` are the same algorithm. A method that does not say gets CORRECTION where it wraps gradients,
    TERM where it wraps the objective, else WEIGHT.
    """

    INPUT = 0, 'what the network sees'
    EXAMPLE = 1, 'what one example costs'
    BATCH = 2, 'how the losses of a batch become one number'
    PENALTY = 3, 'what else the objective of the task charges'
    NETWORK = 4, 'how the network runs in training'
    POINT = 5, 'at which point the gradient is taken'
    MIXTURE = 6, 'what takes the place of a part of the objective'
    TERM = 7, 'terms that tie the shared model to the federation'
    CORRECTION = 8, 'what is added to the gradient of the shared model'
    UPDATE = 9, 'which part of an update counts'
    WEIGHT = 10, 'how much each client counts, and the length of the step'
    OWN = 11, 'which part of the model stays with its client'

    about: str

    def __new__(cls, value: int, about: str):
        stage = int.__new__(cls, value)
        stage._value_, stage.about = value, about
        return stage

    @property
    def every_model(self) -> bool:
        """Whether it also concerns a second model that a client trains, such as a personal one."""
        return self <= Stage.POINT


class Method(NamedTuple):
    """One idea of federated learning as a set of optional hooks, see :mod:`fedjax_fair.core.hooks`.

    Fields that are no hooks:

    - ``part``: the part of a recipe that brought it; ``make_methods`` fills it in. ``stage``: where the hooks run.
    - ``claims``: what only one method of a recipe may decide.
    - ``local``: parts of the local optimiser that it fixes; ``phases``: the phases of local training.
    - ``measures``: the shared measurements that it reads in ``view.measured``: ``loss`` of the received model and
      ``local_loss`` of the trained one, both over the client's whole training set.
    - ``server_opt``: an optax transformation, the optimiser of the server.
    - ``needs_all``: it needs stacked updates. ``whole``: ``revise`` and ``reduce`` see batch statistics too.
    - ``ignores_weights``: its ``reduce`` would silently drop the scores of other methods.
    - ``broadcasts``: its state on the server travels to the clients, so that it counts as communication.
    - ``keeps``: ``keeps(variables)`` are the paths of leaves that stay with their clients, so that they do not count.
    """

    name: str
    part: str = ''  # of the recipe, which brought it
    stage: Stage | None = None
    claims: tuple[str, ...] = ()
    local: Mapping[str, Any] = {}
    phases: tuple[Phase, ...] = ()
    measures: tuple[str, ...] = ()
    server_opt: Any = None
    needs_all: bool = False
    ignores_weights: bool = False
    whole: bool = False
    broadcasts: bool = False
    keeps: Callable[[Variables], set[str]] | None = None
    # before the first round
    idle: hooks.Idle | None = None
    init: hooks.Init | None = None
    # client
    download: hooks.Download | None = None
    probe: hooks.Probe | None = None
    start: hooks.Start | None = None
    transform: hooks.Transform | None = None
    loss: hooks.Loss | None = None
    grad: hooks.Grad | None = None
    observe: hooks.Observe | None = None
    report: hooks.Report | None = None
    upload: hooks.Upload | None = None
    deploy: hooks.Deploy | None = None
    # server
    revise: hooks.Revise | None = None
    score: hooks.Score | None = None
    statistics: hooks.Statistics | None = None
    reduce: hooks.Reduce | None = None
    scale: hooks.Scale | None = None
    finish: hooks.Finish | None = None
    commit: hooks.Commit | None = None
    serve: hooks.Serve | None = None

    @property
    def place(self) -> Stage:
        """The stage it declares, or the one that its hooks suggest."""
        if self.stage is not None:
            return self.stage
        return Stage.CORRECTION if self.grad else Stage.TERM if self.loss else Stage.WEIGHT


class Reports(dict):
    """Arrays by name; asking for a missing one names those that are there."""

    def __init__(self, values: Mapping[str, PyTree] | None = None, whose: str = 'no client'):
        super().__init__(values or {})
        self.whose = whose

    def __missing__(self, name: str):
        raise KeyError(f'{self.whose} reported {name!r}; reported: {", ".join(sorted(self)) or "nothing"}')


class Measured(Reports):
    """Shared measurements; asking for one that no method measures tells how to get it."""

    def __missing__(self, name: str):
        there = f'no client reported {name!r}; reported: {", ".join(sorted(self)) or "nothing"}'
        services = ', '.join(training_set.SERVICES)
        raise KeyError(f'{there} (a method names what it reads in `measures`, of {services})')


def pair(method: Method, hook: str, value: Any) -> tuple[Any, Any]:
    """What a hook returned, which must be two things."""
    if isinstance(value, tuple) and len(value) == 2:
        return value
    raise TypeError(
        f'{hook} of method {method.name!r} must return a pair, not {type(value).__name__}: see docs/hooks.md'
    )


@dataclasses.dataclass(frozen=True)
class Context:
    """What a client hook may read.

    ``server``, ``row`` and ``probe`` are the entries of the hook's own method; ``variables`` is the model after
    download; ``measured`` has the shared measurements; ``steps`` is this round's number of optimisation steps. ``run``
    has facts about the run, ``round`` is the number of the round, ``id`` that of the client, ``key`` its random key and
    ``data`` its training set. ``train`` is False while evaluating; in training ``mask`` marks the real examples of the
    step's batch. ``loss``, ``loss_and_gradient``, ``balanced_accuracy`` and ``features`` run over the client's whole
    training set in evaluation mode.
    """

    spec: Spec
    round: Array
    id: Array
    key: Array
    servers: Mapping[str, PyTree]
    rows: Mapping[str, PyTree]
    variables: Variables
    data: ClientData
    steps: Any = 0
    probes: Mapping[str, hooks.Reported] = dataclasses.field(default_factory=dict)
    measured: Mapping[str, Array] = dataclasses.field(default_factory=dict)
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

    @property
    def probe(self) -> hooks.Reported:
        return self.probes.get(self.me, {})

    def note(self, aux: Aux, value: PyTree) -> Aux:
        """Tell the ``observe`` of the same method something from inside of its loss wrapper."""
        return aux._replace(notes={**aux.notes, self.me: value})

    def noted(self, aux: Aux) -> PyTree:
        """What the loss wrapper of this method told."""
        return aux.notes[self.me]

    def apply(self, variables: Variables, x: Array, mask: Array, train: bool) -> Output:
        """Forward pass on inputs that are already transformed."""
        return self.spec.model.apply(variables, x, mask, train, self.key)

    def grad(self, variables: Variables, batch: Batch) -> tuple[tuple[Array, Aux], PyTree]:
        """``((loss, aux), gradient)`` for a second model of this client.

        It goes through the methods that concern every model (:attr:`Stage.every_model`).
        """
        return self.spec.grad(self, variables, batch, second_model=True)

    def training_time(self, params: PyTree) -> PyTree:
        """Steps times learning rate of this round, for every leaf: phases may train some leaves and not others."""
        return self.spec.training_time(self, params)

    def loss(self, variables: Variables, losses: Losses | None = None) -> Array:
        """Mean of the task's plain losses, or of those given: ``losses(logits, y, mask)``."""
        if losses is not None or self.memo is None or variables is not self.variables:
            return training_set.loss(self, variables, losses)
        if 'loss' not in self.memo:  # several hooks ask for it at the received model
            self.memo['loss'] = training_set.loss(self, variables)
        return self.memo['loss']

    def loss_and_gradient(self, variables: Variables, losses: Losses | None = None) -> tuple[Array, PyTree]:
        """:meth:`loss` and its gradient with respect to the parameters, from the same passes."""
        return training_set.loss_and_gradient(self, variables, losses)

    def augmented(self, number: int) -> Context:
        """The same client with its training set as augmentation shows it; every number is another draw."""
        key = jax.random.fold_in(jax.random.fold_in(self.key, AUGMENTED), number)
        return dataclasses.replace(self, augment_key=key, memo=None)

    def balanced_accuracy(self, variables: Variables) -> Array:
        """Mean recall over the classes this client holds."""
        return training_set.balanced_accuracy(self, variables)

    def features(self, variables: Variables) -> Array:
        """``[M, F]`` features in the order of ``data.index``; rows of padding examples are zero."""
        return training_set.features(self, variables)

    def statistics(self, variables: Variables) -> PyTree:
        """The ``batch_stats`` that the model has on the training set, in place of those that it keeps."""
        return training_set.statistics(self, variables)

    @property
    def label_counts(self) -> Array:
        """``[K]`` examples (pixels, where every pixel has a class) of each class in this client's training set."""
        return training_set.label_counts(self)


@dataclasses.dataclass(frozen=True)
class View:
    """What a server hook may read.

    ``server``, ``rows[C]`` and ``reports`` belong to the hook's own method, the first two as they were before the
    round. ``measured`` has the shared measurements, ``[C]`` each. ``ids[C]`` are the numbers of the clients, and
    ``mask[C]`` says which of them take part. ``n[C]`` and ``steps[C]`` are the examples and optimisation steps of each
    client, ``sent`` the updates as uploaded, ``variables`` the model sent out.
    """

    run: Run
    round: Array
    key: Array
    servers: Mapping[str, PyTree]
    all_rows: Mapping[str, PyTree]
    ids: Array
    mask: Array
    n: Array
    steps: Array
    variables: Variables
    measured: Measured = dataclasses.field(default_factory=Measured)
    all_reports: Mapping[str, hooks.Reported] = dataclasses.field(default_factory=dict)
    sent: PyTree = None
    me: str = ''

    def of(self, method: Method) -> View:
        """The same view as this method sees it."""
        return dataclasses.replace(self, me=method.name)

    @property
    def server(self) -> PyTree:
        return self.servers.get(self.me)

    @property
    def rows(self) -> PyTree:
        return self.all_rows.get(self.me)

    @property
    def reports(self) -> Reports:
        return self.reports_of(self.me)

    def reports_of(self, method: str) -> Reports:
        """What another method reported; empty where the recipe does not have it."""
        return Reports(self.all_reports.get(method), f'{method} has not')

    def with_reports(self, method: Method, report: hooks.Reported) -> View:
        """The view after a method has reported more."""
        own = {**self.all_reports.get(method.name, {}), **report}
        return dataclasses.replace(self, all_reports={**self.all_reports, method.name: own}) if report else self

    @property
    def count(self) -> Array:
        """Number of clients that take part, never the number of slots."""
        return jnp.sum(self.mask.astype(self.n.dtype))

    @property
    def places(self) -> Array:
        """``[C]`` the number of each client that takes part; past the end for the others."""
        return jnp.where(self.mask, self.ids, self.run.num_clients)

    def scatter(self, table: PyTree, rows: PyTree) -> PyTree:
        """Tables ``[num_clients, ...]`` with the rows ``[C, ...]`` of the clients that take part put in place."""
        return tree.put_rows(table, self.places, rows)

    def gather(self, table: PyTree) -> PyTree:
        """Rows ``[C, ...]`` of tables ``[num_clients, ...]``; those of clients that do not take part mean nothing."""
        return tree.take_rows(table, self.ids)

    def shares(self, values: Array | None = None) -> Array:
        """``values[C]`` (the numbers of examples) over their sum, of the clients that take part; 0 for the others."""
        values = jnp.where(self.mask, self.n if values is None else values, 0)
        total = jnp.sum(values)
        return values / jnp.where(total == 0, 1, total)

    def mean(self, values: PyTree) -> PyTree:
        """Plain mean of ``values[C, ...]`` over the clients that take part."""
        weights = self.mask.astype(self.n.dtype) / jnp.maximum(self.count, 1)
        return tree.weighted_sum(weights, tree.keep_rows(self.mask, values))
