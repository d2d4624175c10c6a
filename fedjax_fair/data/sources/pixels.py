"""One image file into one array of bytes."""

from __future__ import annotations

import contextlib
import io
import pathlib
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from PIL import ExifTags, Image, ImageOps

from fedjax_fair.data.resize import place, resize_images
from fedjax_fair.data.sources.checks import check_pixels
from fedjax_fair.errors import DataError

# The formats that images may have; Pillow knows forty more, some of which start other programs.
FORMATS = ('PNG', 'JPEG', 'BMP', 'GIF', 'TIFF', 'WEBP', 'JPEG2000', 'PPM')
SIXTEEN_BITS = ('I;16', 'I;16L', 'I;16B', 'I;16N', 'I')  # 'I' has 32, but is what 16-bit .pgm files become
GREY = ('1', 'L', 'LA', *SIXTEEN_BITS)
COLOUR = ('P', 'RGB', 'RGBA', 'CMYK')
LOSSY = ('JPEG', 'MPO')  # formats that smear values
SIDEWAYS = (5, 6, 7, 8)  # orientations of a camera that was turned by 90 degrees


class Header(NamedTuple):
    """What is known of an image before it is decoded."""

    size: tuple[int, int]  # height, width
    channels: int


def _holds_array(path: pathlib.Path) -> bool:
    return path.suffix.lower() == '.npy'


def read_header(path: pathlib.Path) -> Header:
    """The size of an image, as it is to be seen, and its channels."""
    if _holds_array(path):
        shape = _array(path).shape
        return Header(shape[:2], 1 if len(shape) == 2 else shape[2])
    with opened(path) as image:
        check_mode(image)
        width, height = image.size[::-1] if _turned(image) else image.size
        return Header((height, width), 1 if image.mode in GREY else 3)


def opened(source: pathlib.Path | io.BytesIO) -> Image.Image:
    """An image of one of the formats that are read, not yet decoded."""
    return Image.open(source, formats=FORMATS)


def check_mode(image: Image.Image) -> None:
    """Refuse modes that have no meaning in bytes."""
    if image.mode not in GREY + COLOUR:
        raise DataError(f'its mode {image.mode} is not one of {", ".join(GREY + COLOUR)}')


@contextlib.contextmanager
def bombs_refused() -> Iterator[None]:
    """Within this context Pillow refuses images that are too large; by default it only warns of some of them.

    It warns of nothing else: a file that cannot be read is named by us, in one line.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings('ignore', category=UserWarning, module=r'PIL\.')
        warnings.simplefilter('error', Image.DecompressionBombWarning)
        yield


def _turned(image: Image.Image) -> bool:
    """Whether decoding will turn this opened image by 90 degrees."""
    if image.format == 'TIFF':  # Pillow gives the size of the upright image
        return False
    late = image.format == 'PNG' and 'exif' not in image.info  # if at all behind the pixels, which are not read yet
    return not late and image.getexif().get(ExifTags.Base.Orientation) in SIDEWAYS


def read_image(path: pathlib.Path, channels: int) -> np.ndarray:
    """The pixels ``[H, W, channels]`` of an image, upright, without transparency, as bytes."""
    if _holds_array(path):
        pixels = _bytes(_array(path))
    else:
        with opened(path) as image:
            pixels = opaque(ImageOps.exif_transpose(image))
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    return np.repeat(pixels, channels // pixels.shape[2], axis=2)


def read_mask(path: pathlib.Path) -> np.ndarray:
    """The class numbers ``[H, W]`` of a mask, upright."""
    if _holds_array(path):
        return _classes(np.asarray(_array(path)), lossy=False)
    with opened(path) as image:
        return classes_in(ImageOps.exif_transpose(image), image.format in LOSSY)


def classes_in(image: Image.Image, lossy: bool) -> np.ndarray:
    """The class numbers ``[H, W]`` of a mask: its values; of an image with a palette the indices, not the colours.

    A format that smears numbers (``lossy``) can only hold black and white.
    """
    values = np.asarray(image.convert('L') if image.mode == '1' else image)  # a bit is black or white
    return _classes(values[..., :-1] if image.mode in ('LA', 'RGBA') else values, lossy)


def _classes(mask: np.ndarray, lossy: bool) -> np.ndarray:
    if mask.ndim == 3:
        if np.ptp(mask, axis=2).max() > (64 if lossy else 0):
            raise DataError('it is coloured; a mask holds one class number per pixel')
        mask = mask[..., 0]
    if not (mask.min() >= 0 and mask.max() <= 255) or (mask % 1).any():
        raise DataError(f'it holds {mask.min()} to {mask.max()}; a mask holds classes 0 to 255')
    return np.where(mask > 127, 255, 0).astype(np.uint8) if lossy else mask.astype(np.uint8)


def fit(pixels: np.ndarray, out: np.ndarray) -> None:
    """Draw an image into ``out``, which is black, as :func:`~fedjax_fair.data.resize.resize_images` would.

    Pillow has the same filter in fixed point: values differ by a level at most, in about an eighth of the time. It
    knows grey and colour; of other channels it would take one for transparency.
    """
    if pixels.shape == out.shape or pixels.shape[2] not in (1, 3):
        out[:] = resize_images(pixels[None], out.shape[:2])[0]
        return
    height, width, top, left = place(pixels.shape[:2], out.shape[:2])
    image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    resized = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
    out[top : top + height, left : left + width] = resized.reshape(height, width, -1)


def opaque(image: Image.Image) -> np.ndarray:
    """Pixels over black, of grey images ``[H, W]``, of others ``[H, W, 3]``; 16 bits become 8."""
    if image.mode in SIXTEEN_BITS:
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise DataError(f'it holds {values.min()} to {values.max()}; expected are 0 to 65535')
        return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)
    grey = image.mode in GREY
    if not image.has_transparency_data:
        return np.asarray(image.convert('L' if grey else 'RGB'))
    pixels = np.asarray(image.convert('LA' if grey else 'RGBA')).astype(np.uint32)
    over_black = ((pixels[..., :-1] * pixels[..., -1:] + 127) // 255).astype(np.uint8)
    return over_black[..., 0] if grey else over_black


def _array(path: pathlib.Path) -> np.ndarray:
    """An array file, mapped and not yet read."""
    array = np.load(path, mmap_mode='r', allow_pickle=False)
    channels = array.shape[2:] or (1,)
    if array.ndim not in (2, 3) or channels not in ((1,), (3,)) or array.dtype.kind not in 'biuf':
        raise DataError(f'it holds {array.dtype} {array.shape}; expected are numbers [H, W], [H, W, 1] or [H, W, 3]')
    check_pixels(*array.shape[:2])
    return array


def _bytes(array: np.ndarray) -> np.ndarray:
    """Numbers from 0 to 255, rounded; those from 0 to 1 would all become black."""
    if array.dtype == np.uint8:
        return np.asarray(array)
    if array.dtype == bool:
        return array * np.uint8(255)
    low, high = float(array.min()), float(array.max())
    if not (low >= 0 and high <= 255) or (high <= 1 and (array % 1).any()):
        raise DataError(f'it holds {low:g} to {high:g}; expected are 0 to 255')
    return np.round(array).astype(np.uint8)
