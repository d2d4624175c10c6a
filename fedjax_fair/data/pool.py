"""The pool: examples before they are dealt to clients, and how test examples are drawn from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from fedjax_fair.data.memory_map import chosen_rows
from fedjax_fair.errors import UserError
from fedjax_fair.escaping import visible

TEST_SHARE = 0.2  # held out where a source has no test set of its own


class ExampleNames(NamedTuple):
    """What a source calls its examples from place ``start`` on: a name for each, or one name for an array of rows."""

    start: int
    names: Sequence[str] | str

    def name(self, place: int) -> str:
        """What the source calls the example at this place."""
        row = place - self.start
        return visible(f'{self.names}[{row}]' if isinstance(self.names, str) else str(self.names[row]))


class Pool(NamedTuple):
    """What a data source gives: ``T`` examples, which are for testing, and where each comes from.

    ``x[T, ...]`` is uint8 or float32, ``y[T]`` int32 class labels (``[T, K]`` zeros and ones for a multi-label task),
    ``held_out[T]`` True for test examples, ``site_of[T]`` the site of each as an index into ``sites`` (None where there
    are no sites, -1 for test examples that test all clients alike), ``masks`` pixel labels ``[T, H, W]`` where a source
    has them, ``task`` what is to be learned.
    Examples of one patient (or slide) have the same number in ``patient_of[T]``, where a source tells. The source has
    ``left_out`` more examples, which are for validation. ``tests_drawn``: it does not say of all examples what they are
    for, and :func:`stratified_split` held some of these out. ``place[T]`` is where an example stood in the source, and
    ``example_names`` say what it is called there.
    """

    x: np.ndarray
    y: np.ndarray
    held_out: np.ndarray
    site_of: np.ndarray | None = None
    sites: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    masks: np.ndarray | None = None
    task: str = 'classification'
    patient_of: np.ndarray | None = None
    left_out: int = 0
    place: np.ndarray | None = None
    example_names: tuple[ExampleNames, ...] = ()
    tests_drawn: bool = False

    def name(self, example: SupportsIndex) -> str:
        """What the source calls an example; its number where it does not say."""
        if self.place is None:
            return str(example)
        place = int(self.place[example])
        return next(names for names in reversed(self.example_names) if names.start <= place).name(place)

    @property
    def num_classes(self) -> int:
        """The number of classes of an example or of its pixels, or of labels it may have."""
        if self.targets is not self.y:
            return max(2, int(self.targets.max()) + 1)
        return len(self.class_names) or (self.y.shape[1] if self.y.ndim > 1 else int(self.y.max()) + 1)

    @property
    def targets(self) -> np.ndarray:
        """What is to be learned of every example."""
        return self.masks if self.task == 'segmentation' and self.masks is not None else self.y

    @property
    def strata(self) -> np.ndarray:
        """One class per example, to split by: of several labels the first; no label at all is a class too."""
        if self.y.ndim == 1:
            return self.y
        return np.where(self.y.any(1), self.y.argmax(1), self.y.shape[1]).astype(np.int32)

    @property
    def site_index(self) -> np.ndarray:
        """The site of every example; all zero where there are no sites."""
        return np.zeros(len(self.y), np.int32) if self.site_of is None else self.site_of

    def take(self, chosen: np.ndarray) -> Pool:
        """The examples that the boolean mask ``chosen`` marks; files are not read, and all examples not copied."""
        if chosen.all():
            return self
        x, y, held_out = (chosen_rows(a, chosen) for a in (self.x, self.y, self.held_out))
        maybe = ('site_of', 'masks', 'patient_of', 'place')
        others: dict[str, Any] = {name: own[chosen] for name in maybe if (own := getattr(self, name)) is not None}
        return self._replace(x=x, y=y, held_out=held_out, **others)


def stratified_split(
    y: np.ndarray, seed: int, site_of: np.ndarray | None = None, patient_of: np.ndarray | None = None
) -> np.ndarray:
    """Hold out 20 % of the examples, of each class of each site: a boolean ``[T]``.

    All examples of a patient stay on the same side; a patient has the site and class of its first example. A site of
    two or more patients always gets a test example; a class of very few examples may stay wholly in training.

    >>> int(stratified_split(np.repeat([0, 1], 50), seed=0).sum())
    20
    """
    rng = np.random.default_rng(seed)
    count = len(y)
    site_of = np.zeros(count, int) if site_of is None else site_of
    _, first, patient, sizes = np.unique(
        np.arange(count) if patient_of is None else patient_of, True, return_inverse=True, return_counts=True
    )
    held = np.zeros(len(first), bool)
    for site in np.unique(site_of[first]):
        in_site = site_of[first] == site
        for label in np.unique(y[first][in_site]):
            chosen = rng.permutation(np.flatnonzero(in_site & (y[first] == label)))
            held[chosen[_fill(sizes[chosen])]] = True
        if not held[in_site].any() and in_site.sum() > 1:
            held[rng.choice(np.flatnonzero(in_site))] = True
    return held[patient]


def _fill(sizes: np.ndarray) -> np.ndarray:
    """Positions of the first patients whose sizes together come nearest to the share wanted; never all of them."""
    before = np.cumsum(sizes) - sizes
    wanted = before + sizes / 2 <= TEST_SHARE * sizes.sum()
    wanted[-1] &= len(sizes) > 1
    return np.flatnonzero(wanted)


def kept_tests(pool: Pool, test_size: int | None, seed: int) -> np.ndarray:
    """Which test examples are kept: at most ``test_size``, drawn at random, of every site; all where it is None."""
    return _kept(pool, pool.held_out, 'test_size', test_size, seed)


def kept_training(pool: Pool, train_size: int | None, seed: int) -> np.ndarray:
    """Which training examples are kept: at most ``train_size``, drawn at random, of every site; all where None."""
    return _kept(pool, ~pool.held_out, 'train_size', train_size, seed)


def _kept(pool: Pool, among: np.ndarray, option: str, size: int | None, seed: int) -> np.ndarray:
    if size is None:
        return among
    if size < 1:
        raise UserError(f'`{option}`={size} must be at least 1')
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.flatnonzero(among))
    site = pool.site_index[order]
    dropped = [order[site == s][size:] for s in np.unique(site)]
    kept = among.copy()
    kept[np.concatenate([*dropped, np.zeros(0, int)])] = False
    return kept
