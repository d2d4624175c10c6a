"""The hooks of a method: one Protocol each, with what it is given, what it returns and when it runs.

Client hooks get a :class:`~fedjax_fair.core.method.Context`, server hooks a :class:`~fedjax_fair.core.method.View`.
``docs/hooks.md`` is made from this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from fedjax_fair.core.types import Array, Batch, PyTree, Run, Variables

if TYPE_CHECKING:
    from fedjax_fair.core.idle import Effect, Setting
    from fedjax_fair.core.method import Aux, Context, View

Reported = Mapping[str, PyTree]  # what one method reports, by name

# --- before the first round ------------------------------------------------------------------------------------------


class Idle(Protocol):
    """When a run is prepared: why the method changes nothing in this setting, or is no more than a simpler recipe.

    The run tells it to the user. None means that the method acts. Options have values here and are never traced.
    """

    def __call__(self, setting: Setting, /) -> Effect | None: ...


class Init(Protocol):
    """Before the first round: the method's state on the server, and the first row of every client.

    None means that the method keeps no such state.
    """

    def __call__(self, variables: Variables, run: Run, /) -> tuple[PyTree, PyTree]: ...


# --- client ----------------------------------------------------------------------------------------------------------


class Download(Protocol):
    """When a client receives the model, and before it is evaluated: the model as this client uses it.

    The context has no training data while a model is evaluated.
    """

    def __call__(self, ctx: Context, variables: Variables, /) -> Variables: ...


class Probe(Protocol):
    """After the download, before any client trains: measurements of the received model.

    They are finite arrays by name. ``ctx.probe`` has them while this client trains, ``view.reports`` on the server.
    """

    def __call__(self, ctx: Context, /) -> Reported: ...


class Start(Protocol):
    """Before the first step of a round, and before a model is evaluated: the method's scratch, any pytree."""

    def __call__(self, ctx: Context, /) -> PyTree: ...


class Transform(Protocol):
    """On every batch, before the forward pass, in training and in evaluation (``ctx.train`` tells).

    Returns the inputs that the model sees, and the scratch.
    """

    def __call__(self, ctx: Context, scratch: PyTree, x: Array, /) -> tuple[Array, PyTree]: ...


class LossFn(Protocol):
    """The objective of one batch: its value, and what else the forward pass gave."""

    def __call__(self, ctx: Context, variables: Variables, batch: Batch, /) -> tuple[Array, Aux]: ...


class Loss(Protocol):
    """Once per compilation: wraps the objective. The wrapped functions run from the first stage to the last."""

    def __call__(self, inner: LossFn, /) -> LossFn: ...


class GradFn(Protocol):
    """The gradient of the objective with respect to the parameters: ``((value, aux), gradient)``."""

    def __call__(self, ctx: Context, variables: Variables, batch: Batch, /) -> tuple[tuple[Array, Aux], PyTree]: ...


class Grad(Protocol):
    """Once per compilation: wraps the gradient, around all wrapped objectives."""

    def __call__(self, inner: GradFn, /) -> GradFn: ...


class Observe(Protocol):
    """After every step: the new scratch. ``last`` is True during the last pass over the data."""

    def __call__(self, ctx: Context, scratch: PyTree, batch: Batch, aux: Aux, last: Array, /) -> PyTree: ...


class Report(Protocol):
    """After training: the client's new row (None keeps the old one), and what it reports to the server by name.

    ``after`` is the trained model, before any ``upload`` changes it.
    """

    def __call__(
        self, ctx: Context, scratch: PyTree, before: Variables, after: Variables, /
    ) -> tuple[PyTree, Reported]: ...


class Upload(Protocol):
    """After all reports: the model that leaves the client. The update is this model minus ``before``."""

    def __call__(self, ctx: Context, scratch: PyTree, before: Variables, after: Variables, /) -> Variables: ...


class Deploy(Protocol):
    """In evaluation: the model that this client uses in place of the one it downloads."""

    def __call__(self, ctx: Context, variables: Variables, /) -> Variables: ...


# --- server ----------------------------------------------------------------------------------------------------------


class Revise(Protocol):
    """On the stacked updates ``[C, ...]``: the changed updates, and what later hooks find in ``view.reports``."""

    def __call__(self, view: View, updates: PyTree, /) -> tuple[PyTree, Reported]: ...


class Score(Protocol):
    """Log-scores ``[C]``. Those of all methods are added; the weights are their softmax; none at all means ``log n``.

    ``updates`` is None unless some method needs stacked updates.
    """

    def __call__(self, view: View, updates: PyTree, /) -> Array: ...


class Statistics(Protocol):
    """Log-scores ``[C]`` in place of ``score`` where batch statistics are averaged."""

    def __call__(self, view: View, updates: PyTree, /) -> Array: ...


class Reduce(Protocol):
    """The aggregate of stacked updates, in place of their weighted mean. Only one method may have it."""

    def __call__(self, view: View, updates: PyTree, weights: Array, /) -> PyTree: ...


class Scale(Protocol):
    """A factor on the aggregate of the parameters. The factors of all methods are multiplied."""

    def __call__(self, view: View, weights: Array, /) -> Array: ...


class Finish(Protocol):
    """After all factors: the aggregate that the server's optimiser gets. ``updates`` is None unless stacked."""

    def __call__(self, view: View, updates: PyTree, weights: Array, update: PyTree, /) -> PyTree: ...


class Commit(Protocol):
    """At the end of a round: the method's new state on the server, and the new rows of the cohort ``[C, ...]``.

    None keeps what there was.
    """

    def __call__(self, view: View, updates: PyTree, weights: Array, update: PyTree, /) -> tuple[PyTree, PyTree]: ...


class Serve(Protocol):
    """In evaluation: the global model, from the rows of all clients. Only one method may have it."""

    def __call__(self, view: View, clients: PyTree, /) -> Variables: ...
