"""Images of one shape: smooth resizing with padding, and grey repeated to colour."""

from __future__ import annotations

import numpy as np

IMAGES_AT_ONCE = 2048  # images converted to floats at once


def triangle_weights(length: int, new: int) -> np.ndarray:
    """Rows of weights ``[new, length]`` of linear interpolation, widened to an average when shrinking.

    With pixel centres at half integers; enlarging reduces to plain linear interpolation, ``new == length`` to identity.

    >>> triangle_weights(2, 4)[:, 0].tolist()
    [1.0, 0.75, 0.25, 0.0]
    """
    ratio = length / new
    centre = (np.arange(new) + 0.5) * ratio - 0.5
    distance = np.abs(np.clip(centre, 0, length - 1)[:, None] - np.arange(length)[None, :])
    weights = np.maximum(0.0, 1.0 - distance / max(1.0, ratio))
    return weights / weights.sum(1, keepdims=True)


def place(shape: tuple[int, ...], size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Height, width, top and left of images of this shape inside ``size``, centred, their aspect ratio kept."""
    scale = min(size[0] / shape[0], size[1] / shape[1])
    height, width = (max(1, round(s * scale)) for s in shape)
    return height, width, (size[0] - height) // 2, (size[1] - width) // 2


def resize_masks(masks: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Masks ``[T, H, W]`` that go with :func:`resize_images`: the nearest pixel's class, 0 in the padding."""
    if masks.shape[1:3] == tuple(size):
        return masks
    height, width, top, left = place(masks.shape[1:3], size)
    pairs = zip(masks.shape[1:], (height, width), strict=True)
    rows, cols = ((np.arange(new) * 2 + 1) * old // (2 * new) for old, new in pairs)
    out = np.zeros((len(masks), *size), masks.dtype)
    out[:, top : top + height, left : left + width] = masks[:, rows][:, :, cols]
    return out


def resize_images(x: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Fit images ``[T, H, W, C]`` into ``size`` keeping their aspect ratio, centred, the rest padded with zeros.

    uint8 stays uint8 (rounded), float32 stays float32; images that already fit are returned as they are.
    """
    if x.shape[1:3] == tuple(size):
        return x
    height, width, top, left = place(x.shape[1:3], size)
    rows, columns = triangle_weights(x.shape[1], height), triangle_weights(x.shape[2], width)
    out = np.zeros((len(x), *size, x.shape[3]), x.dtype)
    for start in range(0, len(x), IMAGES_AT_ONCE):
        part = x[start : start + IMAGES_AT_ONCE].astype(np.float32)
        part = np.einsum('ih,thwc->tiwc', rows.astype(np.float32), part, optimize=True)
        part = np.einsum('jw,tiwc->tijc', columns.astype(np.float32), part, optimize=True)
        part = np.clip(np.round(part), 0, 255) if x.dtype == np.uint8 else part
        out[start : start + IMAGES_AT_ONCE, top : top + height, left : left + width] = part.astype(x.dtype)
    return out


def with_channels(x: np.ndarray, channels: int) -> np.ndarray:
    """Images ``[T, H, W]`` or ``[T, H, W, C]`` with ``channels`` channels, grey ones repeated."""
    x = x[..., None] if x.ndim == 3 else x
    return x if x.shape[-1] == channels else np.repeat(x, channels, axis=-1)
