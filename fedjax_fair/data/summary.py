"""A federation at a glance: text, the client x class matrix, and a sheet of its images."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from fedjax_fair.data.canvas import draw_image, image_grid, new_figure, save
from fedjax_fair.data.federation import Federation

SHOWN_CLIENTS, SHOWN_CLASSES, SHOWN_GROUPS = 20, 12, 20  # the rest is abbreviated, or not drawn
WIDE = 6  # columns that a sheet of few classes has
COLOURS = ('#4477aa', '#ee6677', '#228833', '#ccbb44', '#66ccee', '#aa3377', '#bbbbbb', '#994455', '#004488', '#ddaa33')


def class_counts(federation: Federation) -> np.ndarray:
    """How many training examples of each class every client holds, ``[N, classes]``; of several labels all count."""
    flags = _class_flags(federation)
    rows = (flags[row[:size]] for row, size in zip(federation.index, federation.sizes, strict=True))
    return np.stack([held.sum(0) for held in rows])


def _class_flags(federation: Federation) -> np.ndarray:
    """``[T, classes]``: which classes every training example has; its own where its target is a mask."""
    y = federation.y if federation.labels is None else federation.labels
    return class_flags(y, len(_class_names(federation)))


def class_flags(y: np.ndarray, classes: int) -> np.ndarray:
    """``[T, classes]`` zeros and ones of labels ``[T]``, or of several labels each, which are that already."""
    return y if y.ndim == 2 else np.eye(classes, dtype=np.int64)[y]


def _group_names(federation: Federation) -> list[str]:
    """Each client's group; one empty name for all where there are no groups."""
    if federation.group_of is None:
        return [''] * federation.num_clients
    return [federation.groups[g] for g in federation.group_of]


def _class_names(federation: Federation) -> list[str]:
    known = federation.num_classes if federation.labels is None else int(federation.labels.max()) + 1
    return list(federation.class_names) or [str(c) for c in range(known)]


# --- text ------------------------------------------------------------------------------------------------------------


def describe(federation: Federation) -> str:
    """Clients, sizes, groups, test sets and the table of examples per client and class, as plain text."""
    sizes, tested = federation.sizes, federation.tests.mask.sum(1)
    lines = [
        f'{federation.name}: {federation.description}'.rstrip(': '),
        f'  examples  {sizes.sum()} for training, {"x".join(map(str, federation.x.shape[1:]))} {federation.x.dtype}, '
        f'{len(_class_names(federation))} classes' + f', {federation.task}' * (federation.task != 'classification'),
        f'  clients   {len(sizes)}, sizes min {sizes.min()}, median {np.median(sizes):g}, max {sizes.max()}',
        f'  test sets {len(tested)}, sizes min {tested.min()}, median {np.median(tested):g}, max {tested.max()}',
    ]
    return '\n'.join([*lines, *_describe_groups(federation), '', *_table(federation)])


def _describe_groups(federation: Federation) -> list[str]:
    if federation.group_of is None:
        return []
    width = max(map(len, federation.groups))
    tested = federation.tests.mask.sum(1)
    lines = ['  groups']
    for g, name in enumerate(federation.groups):
        own = federation.group_of == g
        sizes, test = federation.sizes[own], tested[federation.tests.test_of[own][0]]
        clients = f'{len(sizes)} client' + 's' * (len(sizes) > 1)
        lines.append(f'    {name:<{width}}  {clients}, {sizes.sum()} training, {test} test examples')
    return lines


def _table(federation: Federation) -> list[str]:
    """The first clients and classes of :func:`class_counts`, with totals of all."""
    counts = class_counts(federation)
    names = [name[:8] for name in _class_names(federation)[:SHOWN_CLASSES]]
    more_classes = counts.shape[1] > SHOWN_CLASSES
    groups = _group_names(federation)
    width = max(len('group'), *map(len, groups)) if federation.groups else 0

    def line(client, group, values, total) -> str:
        cells = ' '.join(f'{v:>{max(5, len(n))}}' for v, n in zip(values, names, strict=True)) + ' ...' * more_classes
        return f'  {client:>6}  ' + (f'{group:<{width}}  ' if width else '') + f'{cells}  {total:>6}'

    rows = [
        line(n, groups[n], counts[n, :SHOWN_CLASSES], federation.sizes[n])
        for n in range(min(SHOWN_CLIENTS, len(counts)))
    ]
    skipped = len(counts) - len(rows)
    rows += [f'  ... and {skipped} more clients'] if skipped else []
    last = line('all', '', counts.sum(0)[:SHOWN_CLASSES], counts.sum())
    return [line('client', 'group', names, 'total'), *rows, last]


# --- pictures --------------------------------------------------------------------------------------------------------


def draw_partition(federation: Federation, path: str | os.PathLike) -> None:
    """Draw who holds what: a bubble per client and class (area = examples), and the clients' sizes, coloured by group.

    Clients stand in the order of their groups, so that domains and sites show as blocks.
    """
    counts = class_counts(federation)
    order = (
        np.argsort(federation.group_of, kind='stable') if federation.group_of is not None else np.arange(len(counts))
    )
    counts, group = counts[order], [_group_names(federation)[n] for n in order]
    colour = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(federation.groups or ('',))}
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
    classes = range(len(_class_names(federation)))
    step = max(1, len(classes) // 24)
    bubbles.set_yticks(list(classes)[::step], _class_names(federation)[::step], fontsize=8)
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
        raise ValueError(f'{federation.name} holds features of shape {federation.x.shape[1:]}, not images to draw')
    groups = federation.groups or ('all clients',)
    rows = [_rows(federation, g) for g in range(len(groups))]
    masks = federation.y if federation.y.ndim == 3 else None
    draw_sheet(path, federation.x, _class_flags(federation), rows, groups, _class_names(federation), per_class, masks)


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

    ``flags[T, classes]`` says which classes an image has. Of many classes or groups the first are drawn; a class of few
    has several columns.
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
        for label, name in enumerate(_class_names(federation)):
            points = federation.x[rows[federation.y[rows] == label]]
            axes.scatter(*points.T, s=12, color=COLOURS[label % len(COLOURS)], label=name, alpha=0.7, linewidths=0)
        axes.set(title=f'client {n}', aspect='equal')
        axes.spines[['top', 'right']].set_visible(False)
    panels[0].legend(frameon=False, fontsize=8)
    save(figure, path)
