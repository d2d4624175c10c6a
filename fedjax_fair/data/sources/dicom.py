"""DICOM files in class folders: ``dicom:ROOT``, in the layouts of :mod:`fedjax_fair.data.sources.folders`.

A file holds one image. Grey values are shown as the file asks (rescaled, then by its table or its first window), dark
and bright exchanged where it says MONOCHROME1, and the lowest to the highest stretched over 0..255. Images with one
``PatientID`` in one domain are those of one patient.
"""

from __future__ import annotations

import pathlib
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedjax_fair.data.blocks import Block
from fedjax_fair.data.paths import one_path
from fedjax_fair.data.resize import resize_images, with_channels
from fedjax_fair.data.sources.checks import check_pixels
from fedjax_fair.data.sources.contents import Arrays, Encoded, Files
from fedjax_fair.data.sources.folders import class_folders
from fedjax_fair.data.sources.image_paths import image_files, is_shown
from fedjax_fair.data.sources.medical import library
from fedjax_fair.data.sources.workers import for_each
from fedjax_fair.errors import DataError
from fedjax_fair.foreign import check_inflated, check_room
from fedjax_fair.registry import register

SUFFIXES = ('.dcm', '.dicom', '.ima', '')
GREY, INVERTED, COLOUR = ('MONOCHROME1', 'MONOCHROME2'), 'MONOCHROME1', ('RGB', 'YBR_')

DEFLATED = '1.2.840.10008.1.2.1.99'
LARGEST_VALUE = 8  # bytes of a number while grey values are computed
DEFLATED_AT_ONCE = 1 << 16  # bytes; they inflate to a thousand times as many


@register.source('dicom', argument='ROOT', about='DICOM files in class folders, of one or several domains')
def read_dicom(root: str) -> Encoded:
    """Images in the classes, splits and domains of their folders."""
    where = f'`scenario`=dicom:{root}'
    folder = one_path(root, where)
    files = class_folders(folder, image_files(folder, where, is_dicom), where)
    library('pydicom', where)
    layout = f'dicom of {files.class_names}'
    return Encoded(folder, files.images, layout, lambda image_size: _decode(files, folder, image_size, where))


def _decode(files: Files, folder: pathlib.Path, image_size: int | None, where: str) -> Arrays:
    """One block for all images of one shape."""
    from fedjax_fair.data.sources.pixels import bombs_refused  # an image library, for those who need it

    def fitted(k: int) -> tuple[np.ndarray, str]:
        pixels, patient = _read(folder / files.images[k], where)
        size = (image_size, image_size) if image_size else pixels.shape[:2]
        return resize_images(pixels[None], size)[0], patient  # at once: whole scans may not fit into memory

    with bombs_refused():  # images in other formats inside
        decoded = for_each(fitted, folder, files.images, 'reading DICOM files')
    pixels, patient = [image for image, _ in decoded], _patients(files, [patient for _, patient in decoded])
    shapes = np.array([f'{image.shape}' for image in pixels])
    blocks = []
    for shape in np.unique(shapes):
        rows = np.flatnonzero(shapes == shape)
        images = np.stack([pixels[row] for row in rows])
        site = None if files.site is None else files.site[rows]
        about = (files.labels[rows], files.split[rows], site, patient[rows])
        blocks.append(Block(folder.name, images, *about, names=[files.images[row] for row in rows.tolist()]))
    return Arrays(blocks, files.class_names)


def is_dicom(name: str) -> bool:
    """Whether a file's name may be that of a DICOM image: some end in numbers, some have no ending.

    >>> [is_dicom(name) for name in ('scan.DCM', 'IM0001', '1.2.840.5', 'DICOMDIR', 'notes.txt')]
    [True, True, True, False, False]
    """
    suffix = pathlib.PurePath(name).suffix.lower()
    return is_shown(name) and name != 'DICOMDIR' and (suffix in SUFFIXES or suffix[1:].isdecimal())


def _patients(files: Files, patients: Sequence[str]) -> np.ndarray:
    """The patient of every image, by domain and ``PatientID``; an image without one is a patient of its own."""
    site = [''] * len(patients) if files.site is None else files.site
    pairs = zip(files.images, site, patients, strict=True)
    return np.array([f'{place}/{patient}' if patient else image for image, place, patient in pairs])


def _read(path: pathlib.Path, where: str) -> tuple[np.ndarray, str]:
    """The pixels ``[H, W, C]`` of a file as bytes, and its patient."""
    _check_size(path, where)
    data = library('pydicom', where).dcmread(path)
    if (frames := int(data.get('NumberOfFrames') or 1)) > 1:
        raise DataError(f'it holds {frames} frames; one image is expected')
    height, width, samples = (int(data.get(name) or 0) for name in ('Rows', 'Columns', 'SamplesPerPixel'))
    check_pixels(height, width)
    check_room(height * width * max(1, samples) * LARGEST_VALUE, 'its image')
    kind = str(data.get('PhotometricInterpretation'))
    patient = str(data.get('PatientID') or '').strip()
    if kind in GREY:
        return with_channels(_shown(data, kind, where)[None], 1)[0], patient
    if not kind.startswith(COLOUR) or data.BitsAllocated != 8:
        raise DataError(f'its pixels are {kind} of {data.BitsAllocated} bits; grey or 8-bit colour is expected')
    return np.asarray(data.pixel_array), patient


def _check_size(path: pathlib.Path, where: str) -> None:
    """Refuse a file that would fill the memory: a deflated one is inflated at once, from behind its group 2 on."""
    reader, size = library('pydicom.filereader', where), path.stat().st_size
    check_room(size, 'it')
    if reader.read_file_meta_info(path).get('TransferSyntaxUID') != DEFLATED:
        return
    with path.open('rb') as file:
        reader.read_preamble(file, force=False)
        for _ in reader.data_element_generator(file, False, True, lambda tag, kind, length: tag.group != 2):
            pass
        inflater, held = zlib.decompressobj(-zlib.MAX_WBITS), 0
        while part := file.read(DEFLATED_AT_ONCE):
            held += len(inflater.decompress(part))
            check_inflated(size, held, 'it')


def _shown(data: Any, kind: str, where: str) -> np.ndarray:
    """Grey values ``[H, W]`` as a screen would show them."""
    lut = library('pydicom.pixels', where)
    values = lut.apply_voi_lut(lut.apply_modality_lut(data.pixel_array, data), data).astype(np.float64)
    low, high = values.min(), values.max()
    share = (values - low) / (high - low if high > low else 1)
    return np.round(255 * (1 - share if kind == INVERTED else share)).astype(np.uint8)
