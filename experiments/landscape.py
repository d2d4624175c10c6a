"""The loss around a model, in the plane of two random directions whose filters are as long as the model's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.types import Array, FedState, PyTree
from fedjax_fair.training import Experiment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import QuadContourSet

SIDE, REACH = 21, 1.0  # points of an axis, and its end
AXIS = np.linspace(-REACH, REACH, SIDE, dtype=np.float32)


def direction(key: Array, params: PyTree) -> PyTree:
    """A random direction in which every filter is as long as the model's; biases and norms do not move.

    ``d_f <- d_f ||w_f|| / ||d_f||``, a filter being all weights of one output.

    Reference: Li et al., Visualizing the Loss Landscape of Neural Nets, NeurIPS 2018.
    """
    leaves, treedef = jax.tree.flatten(params)

    def of_leaf(key: Array, leaf: Array) -> Array:
        if leaf.ndim < 2:
            return jnp.zeros_like(leaf)
        drawn = jax.random.normal(key, leaf.shape, leaf.dtype)
        filters = tuple(range(leaf.ndim - 1))
        length, own = (jnp.sqrt(jnp.sum(w**2, axis=filters, keepdims=True)) for w in (leaf, drawn))
        return drawn * (length / jnp.maximum(own, 1e-12))

    keys = jax.random.split(key, len(leaves))
    return jax.tree.unflatten(treedef, [of_leaf(*pair) for pair in zip(keys, leaves, strict=True)])


def surface(experiment: Experiment, state: FedState, x: np.ndarray, y: np.ndarray, seed: int = 0) -> np.ndarray:
    """``[SIDE, SIDE]``: the mean loss on some examples around the global model, over ``AXIS`` times ``AXIS``.

    Inputs are prepared as at any evaluation. The same seed gives the same directions for models of one network.
    """
    params = state.variables['params']
    one, other = (direction(key, params) for key in jax.random.split(jax.random.key(seed)))

    @jax.jit
    def losses(x: Array, y: Array) -> Array:
        def at(place: Array) -> Array:
            moved = jax.tree.map(lambda w, a, b: w + place[0] * a + place[1] * b, params, one, other)
            logits = experiment.algorithm.predict(state._replace(variables={**state.variables, 'params': moved}), x)
            return jnp.mean(experiment.task.losses(logits, y, jnp.ones(len(y), bool)))

        places = jnp.stack(jnp.meshgrid(AXIS, AXIS), -1).reshape(-1, 2)
        return jax.lax.map(at, places).reshape(SIDE, SIDE)

    return np.asarray(losses(jnp.asarray(x), jnp.asarray(y)))


def draw_surface(ax: Axes, losses: np.ndarray, top: float, extend: str = 'neither') -> QuadContourSet:
    """Draw a surface in colours from 0 to ``top``; ``extend='max'`` shows what lies above in the last one."""
    shown = ax.contourf(AXIS, AXIS, losses, levels=np.linspace(0, top, 25), cmap='viridis', extend=extend)
    ax.set(aspect='equal')
    ax.grid(visible=False)
    return shown
