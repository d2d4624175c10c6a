"""The contents of a source: examples in memory, image files to decode, or other sources to read."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fedjax_fair.data.blocks import Block


class Arrays(NamedTuple):
    """Examples in memory, in blocks that may differ in image size; ``class_names`` may be empty."""

    blocks: Sequence[Block]
    class_names: tuple[str, ...] = ()


class Files(NamedTuple):
    """Image files below ``root`` and what is known of each of them: sequences of one length.

    ``labels`` are classes ``[T]`` or zeros and ones ``[T, K]``; ``split`` holds TRAIN, TEST, VAL or UNKNOWN; ``site``
    names where an image comes from; images of equal ``patient`` (or slide, or lesion) are never divided; ``masks`` are
    image files too, one per image.
    """

    root: pathlib.Path
    images: Sequence[str]
    labels: np.ndarray
    split: np.ndarray
    site: np.ndarray | None = None
    patient: np.ndarray | None = None
    masks: Sequence[str] | None = None
    class_names: tuple[str, ...] = ()
    unlabelled: bool = False  # labels are all zero because there are none
    anywhere: bool = False  # names may leave the folder, as those of a user's own table may


class Domains(NamedTuple):
    """Sources, each of them one domain: the kind and the path behind it by the domain's name."""

    argument: str
    sources: dict[str, tuple[str, str]]


class Encoded(NamedTuple):
    """Examples that their source decodes itself, given the size of images (None: as they are).

    The result depends on the files ``names`` below ``root`` and on ``settings`` only, so that it can be cached.
    """

    root: pathlib.Path
    names: Sequence[str]
    settings: str
    decode: Callable[[int | None], Arrays]


Contents = Arrays | Files | Encoded | Domains
