"""The pool: examples before they are given to clients, and how some of them are held out for testing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from fedjax_fair.data.on_file import chosen_rows

TEST_SHARE = 0.2  # held out where a source has no test set of its own


class Origin(NamedTuple):
    """What a source calls the examples from place ``start`` on: each by its name, or rows of what has one name."""

    start: int
    names: Sequence[str] | str

    def name(self, place: int) -> str:
        """What the source calls the example at this place."""
        row = place - self.start
        return f'{self.names}[{row}]' if isinstance(self.names, str) else str(self.names[row])


class Pool(NamedTuple):
    """What a data source gives: ``T`` examples, which are for testing, and where each comes from.

    ``x[T, ...]`` is uint8 or float32, ``y[T]`` int32 class labels (``[T, K]`` zeros and ones for a multi-label task),
    ``held_out[T]`` True for test examples, ``group_of[T]`` the domain or site of each as an index into ``groups`` (None
    where there are none, -1 for test examples that test all clients alike), ``masks`` pixel labels ``[T, H, W]`` where
    a source has them, ``task`` what is to be learned.
    Examples of one slide or patient have the same number in ``cluster_of[T]``, where a source tells; ``left_out`` is
    how many more it has that are for validation. ``place[T]`` is where an example stood in the source, and ``origins``
    are what it is called there.
    """

    x: np.ndarray
    y: np.ndarray
    held_out: np.ndarray
    group_of: np.ndarray | None = None
    groups: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    masks: np.ndarray | None = None
    task: str = 'classification'
    cluster_of: np.ndarray | None = None
    left_out: int = 0
    place: np.ndarray | None = None
    origins: tuple[Origin, ...] = ()

    def name(self, example: SupportsIndex) -> str:
        """What the source calls an example; its number where it does not say."""
        if self.place is None:
            return str(example)
        place = int(self.place[example])
        return next(o for o in reversed(self.origins) if o.start <= place).name(place)

    @property
    def num_classes(self) -> int:
        """Classes of a target: of an example, of its pixels, or labels where it may have several."""
        if self.targets is not self.y:
            return max(2, int(self.targets.max()) + 1)
        return len(self.class_names) or (self.y.shape[1] if self.y.ndim > 1 else int(self.y.max()) + 1)

    @property
    def targets(self) -> np.ndarray:
        """What is to be learned of every example."""
        return self.masks if self.task == 'segmentation' and self.masks is not None else self.y

    @property
    def strata(self) -> np.ndarray:
        """One class per example, to split by: of several labels the first (and one class more for none)."""
        if self.y.ndim == 1:
            return self.y
        return np.where(self.y.any(1), self.y.argmax(1), self.y.shape[1]).astype(np.int32)

    @property
    def origin(self) -> np.ndarray:
        """The group of every example; all zero where there are no groups."""
        return np.zeros(len(self.y), np.int32) if self.group_of is None else self.group_of

    def take(self, chosen: np.ndarray) -> Pool:
        """The examples that the boolean mask ``chosen`` marks; all of them are not copied, those of a file not read."""
        if chosen.all():
            return self
        x, y, held_out = (chosen_rows(a, chosen) for a in (self.x, self.y, self.held_out))
        maybe = ('group_of', 'masks', 'cluster_of', 'place')
        others: dict[str, Any] = {name: own[chosen] for name in maybe if (own := getattr(self, name)) is not None}
        return self._replace(x=x, y=y, held_out=held_out, **others)


def stratified_split(
    y: np.ndarray, seed: int, group_of: np.ndarray | None = None, cluster_of: np.ndarray | None = None
) -> np.ndarray:
    """Hold out 20 % of the examples, of each class of each group: a boolean ``[T]``.

    Examples of one cluster (slide, patient) stay on the same side; a cluster counts where its first example belongs.
    A group of two or more clusters always gets a test example; a class with very few may stay wholly in training.

    >>> int(stratified_split(np.repeat([0, 1], 50), seed=0).sum())
    20
    """
    rng = np.random.default_rng(seed)
    count = len(y)
    group_of = np.zeros(count, int) if group_of is None else group_of
    _, first, cluster, sizes = np.unique(
        np.arange(count) if cluster_of is None else cluster_of, True, return_inverse=True, return_counts=True
    )
    held = np.zeros(len(first), bool)
    for group in np.unique(group_of[first]):
        in_group = group_of[first] == group
        for label in np.unique(y[first][in_group]):
            chosen = rng.permutation(np.flatnonzero(in_group & (y[first] == label)))
            held[chosen[_fill(sizes[chosen])]] = True
        if not held[in_group].any() and in_group.sum() > 1:
            held[rng.choice(np.flatnonzero(in_group))] = True
    return held[cluster]


def _fill(sizes: np.ndarray) -> np.ndarray:
    """Positions of the first clusters whose sizes together come nearest to the share wanted; never all of them."""
    before = np.cumsum(sizes) - sizes
    wanted = before + sizes / 2 <= TEST_SHARE * sizes.sum()
    wanted[-1] &= len(sizes) > 1
    return np.flatnonzero(wanted)


def kept_tests(pool: Pool, test_size: int | None, seed: int) -> np.ndarray:
    """Which test examples are kept: at most ``test_size``, drawn at random, of every group; all where it is None."""
    if test_size is None:
        return pool.held_out
    if test_size < 1:
        raise ValueError(f'--test_size must be at least 1, got {test_size}')
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.flatnonzero(pool.held_out))
    group = pool.origin[order]
    dropped = [order[group == g][test_size:] for g in np.unique(group)]
    kept = pool.held_out.copy()
    kept[np.concatenate([*dropped, np.zeros(0, int)])] = False
    return kept
