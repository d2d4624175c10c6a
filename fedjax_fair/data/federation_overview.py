"""A federation at a glance, as text: sizes, groups, and how many examples of each class every client holds."""

from __future__ import annotations

import numpy as np

from fedjax_fair.data.federation import Federation

SHOWN_CLIENTS, SHOWN_CLASSES = 20, 12  # the rest is abbreviated


def class_counts(federation: Federation) -> np.ndarray:
    """How many training examples of each class every client holds, ``[N, classes]``; of several labels all count."""
    y, classes = labels_of(federation), len(class_names_of(federation))
    rows = (row[:size] for row, size in zip(federation.index, federation.sizes, strict=True))
    return np.stack([count_classes(y[held], classes) for held in rows])


def labels_of(federation: Federation) -> np.ndarray:
    """The labels of all training examples; of an example with a mask its own class."""
    return federation.y if federation.labels is None else federation.labels


def count_classes(y: np.ndarray, classes: int) -> np.ndarray:
    """How many of the labels ``[T]`` or zeros and ones ``[T, classes]`` are of each class."""
    return y.sum(0) if y.ndim == 2 else np.bincount(y, minlength=classes)


def class_flags(y: np.ndarray, classes: int) -> np.ndarray:
    """Which of the first ``classes`` an example has, ``[T, classes]``, from labels ``[T]`` or zeros and ones."""
    return y[:, :classes] if y.ndim == 2 else y[:, None] == np.arange(classes)


def group_names(federation: Federation) -> list[str]:
    """Each client's group; one empty name for all where there are no groups."""
    if federation.group_of is None:
        return [''] * federation.num_clients
    return [federation.groups[g] for g in federation.group_of]


def class_names_of(federation: Federation) -> list[str]:
    """The names of the classes, numbers where they have none."""
    known = federation.num_classes if federation.labels is None else int(federation.labels.max()) + 1
    return list(federation.class_names) or [str(c) for c in range(known)]


def describe(federation: Federation) -> str:
    """Clients, sizes, groups, test sets and the table of examples per client and class, as plain text."""
    sizes, tested = federation.sizes, federation.tests.mask.sum(1)
    lines = [
        f'{federation.name}: {federation.description}'.rstrip(': '),
        f'  examples  {sizes.sum()} for training, {"x".join(map(str, federation.x.shape[1:]))} {federation.x.dtype}, '
        f'{len(class_names_of(federation))} classes' + f', {federation.task}' * (federation.task != 'classification'),
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
    names = [name[:8] for name in class_names_of(federation)[:SHOWN_CLASSES]]
    more_classes = counts.shape[1] > SHOWN_CLASSES
    groups = group_names(federation)
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
