"""Figures 1 to 4 of HarmoFL: losses around models, images before and after normalisation, outlines of nuclei."""

from __future__ import annotations

import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.harmofl.study import OURS, folder_of, need
from experiments.landscape import AXIS, draw_surface, surface
from experiments.study import Study
from fedjax_fair.core import Context
from fedjax_fair.core.engine import as_float
from fedjax_fair.core.types import Array
from fedjax_fair.data import Federation
from fedjax_fair.ops import amplitude_normalize, mean_amplitude
from fedjax_fair.training import finished, load_federation
from fedjax_fair.viz import draw_image, image_grid, style
from fedjax_fair.viz.federations import contact_sheet

AROUND = ('FedAvg, its network', 'amplitude alone', *OURS)  # of Figure 1, all with the same network
COMPARED = ('FedAvg', 'FedBN', *OURS)  # of Figure 4
CLIENTS, MOST = 2, 128  # of Figure 1, and examples of each
SHOWN = 3  # images of every hospital in Figure 2
TOGETHER = 16  # test images that are segmented at once, of which one is shown


def landscapes(study: Study) -> None:
    """Figure 1: the training loss of two clients around the last global model; a cross marks its smallest value."""
    found = {method: _surfaces(folder_of(study, method)) for method in AROUND}
    top = max(float(np.quantile(values, 0.9)) for values in found.values())
    with style.styled():
        figure, axes = style.grid(len(AROUND) * CLIENTS, CLIENTS, (2.6, 2.4))
        for ax, (method, client) in zip(axes, [(m, c) for m in AROUND for c in range(CLIENTS)], strict=True):
            losses = found[method][client]
            shown = draw_surface(ax, losses, top, extend='max')
            ax.plot(*_lowest(losses), marker='x', color='white', markersize=7)
            ax.set(title=f'client {client}' if method == AROUND[0] else '', ylabel=method if client == 0 else '')
        figure.colorbar(shown, ax=axes, orientation='horizontal', label='loss', shrink=0.6)
        study.picture(figure, 'figure1')
    middle = len(AXIS) // 2
    numbers: dict[str, dict[str, Any]] = {}
    for method, values in found.items():
        one, other = (np.array(_lowest(v)) for v in values)
        numbers[method] = {
            'centre': [float(v[middle, middle]) for v in values],
            'mean': [float(v.mean()) for v in values],
            'distance': float(np.linalg.norm(one - other)),
        }
    rows = [
        [m, *(f'{c:.3f} / {a:.3f}' for c, a in zip(n['centre'], n['mean'], strict=True)), f'{n["distance"]:.2f}']
        for m, n in numbers.items()
    ]
    head = ['method', *(f'client {c}' for c in range(CLIENTS)), 'between the lowest points']
    note = 'Loss at the global model / mean over the square; distance between the lowest points of the two clients.'
    study.table('figure1', head, rows, note, numbers)


def _surfaces(folder: pathlib.Path) -> np.ndarray:
    experiment, states = finished(folder)
    first, federation = jax.tree.map(lambda leaf: leaf[0], states), experiment.federation
    rows = [federation.index[c, : federation.sizes[c]][:MOST] for c in range(CLIENTS)]
    return np.stack([surface(experiment, first, federation.x[r], federation.y[r]) for r in rows])


def _lowest(losses: np.ndarray) -> tuple[float, float]:
    y, x = np.unravel_index(losses.argmin(), losses.shape)
    return float(AXIS[x]), float(AXIS[y])


def common_amplitude(federation: Federation) -> Array:
    """The plain mean over clients of the mean amplitude of their training images."""
    rows = (federation.index[c, :n] for c, n in enumerate(federation.sizes))
    return jnp.stack([mean_amplitude(as_float(jnp.asarray(federation.x[r]))) for r in rows]).mean(0)


def normalised(study: Study) -> None:
    """Figure 2: training images of every client as they are, with the common amplitude, and with its mean alone."""
    federation = load_federation(study.config)
    amplitude = common_amplitude(federation)
    names = federation.groups or tuple(f'client {c}' for c in range(federation.num_clients))
    owner = range(federation.num_clients) if federation.group_of is None else federation.group_of
    figure, grid = image_grid([names[g] for g in owner], 3 * SHOWN, inches=0.9)
    for client, places in enumerate(grid):
        x = as_float(jnp.asarray(federation.x[federation.index[client, :SHOWN]]))
        versions = (x, *(amplitude_normalize(x, amplitude, band=band) for band in ('full', 'dc')))
        for ax, image in zip(places, np.concatenate(versions), strict=True):
            draw_image(ax, np.round(255 * np.clip(image, 0, 1)).astype(np.uint8))
    for place, title in enumerate(('images', 'whole amplitude', 'mean alone')):
        grid[0, place * SHOWN].set_title(title, fontsize=9, loc='left')
    study.picture(figure, 'figure2')


def classes(study: Study) -> None:
    """Figure 3: training images of every hospital and class."""
    contact_sheet(load_federation(study.config), study.out / 'figure3.png')
    print(f'written: {study.out / "figure3.png"}')


def outlines(study: Study) -> None:
    """Figure 4: a test image of every client, its truth, and what the methods find with the model a client uses."""
    need(study, 'segmentation', '`figure`=4')
    found = {method: _segmented(folder_of(study, method)) for method in COMPARED}
    federation = load_federation(study.config)
    tests, own = federation.tests, np.asarray(federation.tests.test_of)
    figure, grid = image_grid([tests.names[t] for t in own], 2 + len(COMPARED), inches=1.4)
    for client, places in enumerate(grid):
        image, truth = tests.x[own[client], 0], tests.y[own[client], 0]
        for ax, mask in zip(places, (None, truth, *(classes[client, 0] for classes in found.values())), strict=True):
            draw_image(ax, image)
            if mask is not None and mask.any():
                ax.contour(mask, levels=[0.5], colors=[style.OUTLINE], linewidths=1.0)
    for ax, title in zip(grid[0], ('image', 'truth', *COMPARED), strict=True):
        ax.set_title(title, fontsize=9)
    study.picture(figure, 'figure4')


def _segmented(folder: pathlib.Path) -> np.ndarray:
    """``[clients, images, H, W]``: what each client's model sees in its first test images, after the last round."""
    experiment, states = finished(folder)
    state, federation = jax.tree.map(lambda leaf: leaf[0], states), experiment.federation
    count = min(TOGETHER, int(federation.tests.mask.sum(1).min()))
    images = jnp.asarray(federation.tests.x[np.asarray(federation.tests.test_of), :count])

    def ask(ctx: Context) -> Array:
        x, _ = ctx.spec.transform(ctx, ctx.spec.start_scratch(ctx), as_float(images[ctx.id]))
        return experiment.task.predict(ctx.apply(ctx.variables, x, jnp.ones(count, bool), False).logits)

    everyone = federation.cohort(range(federation.num_clients))
    return np.asarray(jax.jit(lambda s: experiment.algorithm.measure(s, everyone, ask))(state))
