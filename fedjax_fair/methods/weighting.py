"""Scores and rows that several methods weigh clients with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from fedjax_fair.core.hooks import Commit, Idle, Score
from fedjax_fair.core.idle import Effect, Setting
from fedjax_fair.core.method import View
from fedjax_fair.core.types import Array, PyTree, Run, Variables, default_float

TINY = 1e-10
NEVER = -1.0  # the remembered weight of a client that has not taken part yet


def one_vote_each(view: View, updates: PyTree) -> Array:
    """The log-score under which clients count the same."""
    return jnp.zeros_like(view.n)


def equal_votes_at_zero(value: Any, option: str) -> Idle:
    """The ``idle`` hook of a method under which clients count the same where its option is 0."""

    def idle(setting: Setting) -> Effect | None:
        return setting.votes(f'{option} is 0') if value == 0 else None

    return idle


def power_of_loss(q: Any) -> Score:
    """The log-score of weights ``F_k^q``; the method must measure ``loss``."""

    def score(view: View, updates: PyTree) -> Array:
        return q * jnp.log(view.measured['loss'] + TINY)

    return score


def log_of(weights: Callable[[View], Array]) -> Score:
    """The ``score`` hook of weights that the view alone tells."""

    def score(view: View, updates: PyTree) -> Array:
        return jnp.log(weights(view))

    return score


def keep_rows(rows: Callable[[View], PyTree]) -> Commit:
    """The ``commit`` hook that gives the cohort these rows."""

    def commit(view: View, updates: PyTree, weights: Array, update: PyTree) -> tuple[PyTree, PyTree]:
        return None, rows(view)

    return commit


def keep_on_server(state: Callable[[View], PyTree]) -> Commit:
    """The ``commit`` hook that makes this the method's state on the server."""

    def commit(view: View, updates: PyTree, weights: Array, update: PyTree) -> tuple[PyTree, PyTree]:
        return state(view), None

    return commit


def no_weight_yet(variables: Variables, run: Run) -> tuple[None, Array]:
    """``init`` of a method whose row is the client's last weight."""
    return None, jnp.asarray(NEVER, default_float())
