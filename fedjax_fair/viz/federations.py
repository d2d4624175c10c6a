"""Pictures of data: who holds what, and sheets of images."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from fedjax_fair.data.federation import Federation
from fedjax_fair.data.federation_overview import (
    SHOWN_CLASSES,
    class_counts,
    class_flags,
    class_names_of,
    group_names,
    labels_of,
)
from fedjax_fair.data.pool import Pool
from fedjax_fair.data.pool_overview import SIDES, class_names
from fedjax_fair.errors import UserError
from fedjax_fair.viz import style
from fedjax_fair.viz.canvas import draw_image, image_grid, new_figure, save

SHOWN_GROUPS = 20  # the rest is not drawn
WIDE = 6  # columns that a sheet of few classes has
MANY_SITES = 6  # with more sites than these every site has one row of images


def draw_partition(federation: Federation, path: str | os.PathLike) -> None:
    """Draw who holds what: a bubble per client and class (area = examples), and the clients' sizes, coloured by group.

    Clients stand in the order of their groups, so that domains and sites show as blocks.
    """
    counts = class_counts(federation)
    order = (
        np.argsort(federation.group_of, kind='stable') if federation.group_of is not None else np.arange(len(counts))
    )
    counts, group = counts[order], [group_names(federation)[n] for n in order]
    colour = {name: style.colour(k) for k, name in enumerate(federation.groups or ('',))}
    colours = [colour[name] for name in group]
    width = min(16.0, max(6.0, 2.0 + 0.32 * len(counts)))
    height = 2.2 + min(6.0, max(1.2, 0.3 * counts.shape[1]))
    figure = new_figure(width, height)
    bubbles, bars = figure.subplots(2, 1, sharex=True, height_ratios=[height - 2.0, 1.4])
    sides = 72 * (width - 1.5) / len(counts), 72 * (height - 2.4) / counts.shape[1]
    cell = min(max(sides), 1.6 * min(sides))  # points; in narrow cells large bubbles may touch
    client, label = np.nonzero(counts)
    area = (0.8 * cell) ** 2 * counts[client, label] / counts.max()
    bubbles.scatter(client, label, area, [colours[c] for c in client], linewidths=0)
    _label_axes(federation, bubbles, bars, order)
    bars.bar(np.arange(len(counts)), counts.sum(1), width=0.8 if len(counts) > 8 else 0.4, color=colours)
    bubbles.set_title(f'{federation.name}: examples per client and class (largest bubble {counts.max()})', fontsize=10)
    if federation.groups:
        handles = [bars.bar([0], [0], color=colour[name], label=name) for name in federation.groups]
        figure.legend(
            handles=handles, loc='outside lower center', ncols=min(6, len(handles)), frameon=False, fontsize=8
        )
    save(figure, path)


def _label_axes(federation: Federation, bubbles, bars, order: np.ndarray) -> None:
    classes = range(len(class_names_of(federation)))
    step = max(1, len(classes) // 24)
    bubbles.set_yticks(list(classes)[::step], class_names_of(federation)[::step], fontsize=8)
    bubbles.set_ylim(-0.7, len(classes) - 0.3)
    bubbles.set_ylabel('class')
    bubbles.grid(color='0.93', linewidth=0.6)
    bubbles.set_axisbelow(True)
    bubbles.tick_params(length=0)
    step = max(1, len(order) // 25)
    bars.set_xticks(np.arange(len(order))[::step], order[::step], fontsize=8)
    bars.set_xlim(-0.7, len(order) - 0.3)
    bars.set(xlabel='client', ylabel='examples')
    for axes in (bubbles, bars):
        axes.tick_params(labelsize=8)
        axes.spines[['top', 'right']].set_visible(False)


def contact_sheet(federation: Federation, path: str | os.PathLike, per_class: int = 2) -> None:
    """Draw ``per_class`` rows of training images of every class (at most 12) for every group, or for the whole.

    Features without an image shape are an error, points in the plane are drawn as points.
    """
    if federation.x.ndim == 2 and federation.x.shape[1] == 2:
        return _draw_points(federation, path)
    if federation.x.ndim != 4:
        raise UserError(f'{federation.name} holds features of shape {federation.x.shape[1:]}, not images to draw')
    groups = federation.groups or ('all clients',)
    rows = [_rows(federation, g) for g in range(len(groups))]
    masks = federation.y if federation.y.ndim == 3 else None
    names = class_names_of(federation)
    flags = class_flags(labels_of(federation), min(SHOWN_CLASSES, len(names)))
    draw_sheet(path, federation.x, flags, rows, groups, names, per_class, masks)


def draw_sheet(
    path: str | os.PathLike,
    x: np.ndarray,
    flags: np.ndarray,
    rows_of: Sequence[np.ndarray],
    groups: Sequence[str],
    class_names: Sequence[str],
    per_class: int,
    masks: np.ndarray | None = None,
) -> None:
    """Draw images of every class among the rows of every group, ``per_class`` rows of them, outlined by their masks.

    ``flags[T, classes]`` says which of the first classes an image has. Only the first classes and groups are drawn;
    where there are few classes, each has several columns.
    """
    classes, shown = min(SHOWN_CLASSES, len(class_names)), min(SHOWN_GROUPS, len(groups))
    across = max(1, WIDE // classes)
    figure, grid = image_grid([shortened(name, 24) for name in groups[:shown]], classes * across, per_class)
    for g, rows in enumerate(rows_of[:shown]):
        places = grid[g * per_class : (g + 1) * per_class]
        for label in range(classes):
            own = places[:, label * across : (label + 1) * across].ravel()
            for axes, example in zip(own, rows[flags[rows, label] > 0], strict=False):
                draw_image(axes, x[example], None if masks is None else masks[example])
    for axes, name in zip(grid[0, ::across], class_names, strict=False):
        axes.set_title(shortened(name, 11 * across), fontsize=8)
    save(figure, path)


def shortened(name: str, length: int) -> str:
    """A name of at most so many letters.

    >>> shortened('adenocarcinoma', 11)
    'adenocarci…'
    """
    return name if len(name) <= length else name[: length - 1] + '…'


def _rows(federation: Federation, group: int) -> np.ndarray:
    """The training examples held by clients of one group, or by all where there are no groups."""
    chosen = np.flatnonzero(federation.group_of == group) if federation.groups else np.arange(federation.num_clients)
    return np.concatenate([federation.index[n, : federation.sizes[n]] for n in chosen])


def _draw_points(federation: Federation, path: str | os.PathLike) -> None:
    figure = new_figure(3.4 * federation.num_clients, 3.4)
    panels = figure.subplots(1, federation.num_clients, squeeze=False, sharex=True, sharey=True)[0]
    for n, axes in enumerate(panels):
        rows = federation.index[n, : federation.sizes[n]]
        for label, name in enumerate(class_names_of(federation)):
            points = federation.x[rows[federation.y[rows] == label]]
            axes.scatter(*points.T, s=12, color=style.colour(label), label=name, alpha=0.7, linewidths=0)
        axes.set(title=f'client {n}', aspect='equal')
        axes.spines[['top', 'right']].set_visible(False)
    panels[0].legend(frameon=False, fontsize=8)
    save(figure, path)


def pool_sheet(pool: Pool, path: str | os.PathLike) -> None:
    """Draw images of every class for every site, or for training and testing where there are no sites.

    They are drawn at random, since neighbours in a file are often alike; masks that are to be learned are outlined.
    """
    order = np.random.default_rng(0).permutation(len(pool.y))
    side = pool.site_index if pool.sites else pool.held_out.astype(int)
    rows_of = pool.sites or SIDES
    per_class = 2 if len(rows_of) <= MANY_SITES else 1
    rows = [order[side[order] == g] for g in range(len(rows_of))]
    names = class_names(pool)
    masks = pool.masks if pool.task == 'segmentation' else None
    flags = class_flags(pool.y, min(SHOWN_CLASSES, len(names)))
    draw_sheet(path, pool.x, flags, rows, rows_of, names, per_class, masks)
