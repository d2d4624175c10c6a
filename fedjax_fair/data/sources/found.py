"""What a source finds: examples in memory, images that are still to be decoded, or other sources to be read."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fedjax_fair.data.parts import Part


class Arrays(NamedTuple):
    """Examples in memory, in parts that may differ in image size; ``class_names`` may be empty."""

    parts: Sequence[Part]
    class_names: tuple[str, ...] = ()


class Files(NamedTuple):
    """Image files below ``root`` and what is known of each of them: sequences of one length.

    ``labels`` are classes ``[T]`` or zeros and ones ``[T, K]``; ``split`` holds TRAIN, TEST, VAL or UNKNOWN; ``site``
    names where an image comes from; images of equal ``group`` (slide, patient, lesion) belong together; ``masks`` are
    image files too, one per image.
    """

    root: pathlib.Path
    images: Sequence[str]
    labels: np.ndarray
    split: np.ndarray
    site: np.ndarray | None = None
    group: np.ndarray | None = None
    masks: Sequence[str] | None = None
    class_names: tuple[str, ...] = ()
    unlabelled: bool = False  # labels are all zero because there are none


class Domains(NamedTuple):
    """Sources, each of them one domain: the kind and the path behind it by the domain's name."""

    argument: str
    sources: dict[str, tuple[str, str]]


class Encoded(NamedTuple):
    """Examples that their source decodes, once it is known how large images are to be (None: as they are).

    It does so from the files ``names`` below ``root``, as ``settings`` tell: what comes of the same is kept.
    """

    root: pathlib.Path
    names: Sequence[str]
    settings: str
    decode: Callable[[int | None], Arrays]


Found = Arrays | Files | Encoded | Domains
