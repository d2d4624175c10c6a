"""The six clients of HarmoFL's nuclei as one table: four hospitals of MoNuSAC2020, MoNuSeg, and TNBC.

::

    python -m experiments.harmofl.nuclei --monusac=MoNuSAC_images_and_annotations --monuseg=MoNuSeg \\
      --tnbc=TNBC_NucleiSegmentation --out=$DATA/nuclei

The three folders are those that the archives of the data sets unpack to. OUT gets a mask for every image, 1 inside of
nuclei, and ``nuclei.csv`` with the columns image, mask, site and patient, which ``csv:OUT/nuclei.csv`` reads.

The paper says that MoNuSAC2020 was divided by hospitals into four clients, and not which. A name such as
``TCGA-5P-A9K0-01Z-00-DX1`` tells the hospital, here ``5P``: the three hospitals with most images are clients, and all
others together are the fourth.
"""

from __future__ import annotations

import collections
import contextlib
import csv
import math
import os
import pathlib
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from absl import app, flags
from PIL import Image, ImageDraw

from fedjax_fair.cli import guarded
from fedjax_fair.data.sources.pixels import opened, read_mask
from fedjax_fair.errors import DataError
from fedjax_fair.foreign import check_plain

OUTLINES = '.xml'
PICTURES = ('.tif', '.png')
CLIENTS = 4  # of MoNuSAC2020
OTHERS = 'others'


class Annotated(NamedTuple):
    """An image, its mask and where it comes from."""

    image: pathlib.Path
    mask: np.ndarray
    site: str
    patient: str


@contextlib.contextmanager
def naming(path: pathlib.Path) -> Iterator[None]:
    """Within this context, whatever is wrong with a file is told in one line with its name."""
    check_plain(path)
    try:
        yield
    except DataError as error:
        raise DataError(f'{path}: {error.message}') from None
    except OSError as error:
        raise DataError(f'{path}: {error.strerror or "not an image, or damaged"}') from None
    except ET.ParseError as error:
        raise DataError(f'{path}: is not valid XML: {error}') from None


def outlined(path: pathlib.Path, image: pathlib.Path) -> np.ndarray:
    """The mask of an image whose nuclei are outlined in an annotation file: regions with vertices X and Y."""
    with naming(image), opened(image) as picture:
        mask = Image.new('L', picture.size)
    draw = ImageDraw.Draw(mask)
    with naming(path):
        for region in ET.parse(path).iter('Region'):
            corners = [corner(vertex) for vertex in region.iter('Vertex')]
            if len(corners) > 2:
                draw.polygon(corners, fill=1)
    return np.asarray(mask)


def corner(vertex: ET.Element) -> tuple[float, float]:
    """The place of a vertex."""
    try:
        x, y = (float(vertex.attrib[name]) for name in ('X', 'Y'))
    except (KeyError, ValueError):
        x = y = math.nan
    if not math.isfinite(x + y):
        raise DataError(f'a vertex must have numbers X and Y, and one has {vertex.attrib}')
    return x, y


def with_outlines(root: pathlib.Path) -> Iterator[tuple[pathlib.Path, np.ndarray]]:
    """Images below a folder with the masks of the annotation files of the same name, anywhere below it."""
    images = {path.stem: path for path in sorted(root.rglob('*')) if path.suffix.lower() in PICTURES}
    files = sorted(path for path in root.rglob('*') if path.suffix.lower() == OUTLINES)
    if not files:
        raise DataError(f'{root}: no annotation files, such as TCGA-5P-A9K0-01Z-00-DX1_1.xml')
    for path in files:
        if path.stem not in images:
            raise DataError(f'{root}: {path.name} has no image; expected is {path.stem}{PICTURES[0]}')
        yield images[path.stem], outlined(path, images[path.stem])


def monusac(root: pathlib.Path) -> list[Annotated]:
    """MoNuSAC2020: a patient's folder holds its images; the second part of its name tells the hospital."""
    found = [(image, mask, image.parent.name) for image, mask in with_outlines(root)]
    counts = collections.Counter(hospital_of(patient, root) for *_, patient in found)
    largest = {site for site, _ in counts.most_common(CLIENTS - 1)}

    def site(patient: str) -> str:
        own = hospital_of(patient, root)
        return f'MoNuSAC {own if own in largest else OTHERS}'

    return [Annotated(image, mask, site(patient), patient) for image, mask, patient in found]


def hospital_of(patient: str, root: pathlib.Path) -> str:
    """The second part of a patient's name."""
    parts = patient.split('-')
    if len(parts) < 2:
        raise DataError(f'{root}: the folder {patient} names no hospital, as TCGA-5P-A9K0-01Z-00-DX1 does')
    return parts[1]


def monuseg(root: pathlib.Path) -> list[Annotated]:
    """MoNuSeg: one image of every patient."""
    return [Annotated(image, mask, 'MoNuSeg', image.stem) for image, mask in with_outlines(root)]


def tnbc(root: pathlib.Path) -> list[Annotated]:
    """TNBC: ``Slide_01/01_1.png`` has its mask in ``GT_01/01_1.png``; a slide is a patient."""
    images = sorted(root.glob('Slide_*/*.png'))
    if not images:
        raise DataError(f'{root}: no images, such as Slide_01/01_1.png')
    found = []
    for image in images:
        path = root / image.parent.name.replace('Slide', 'GT') / image.name
        with naming(path):
            mask = (read_mask(path) > 0).astype(np.uint8)
        found.append(Annotated(image, mask, 'TNBC', image.parent.name))
    return found


def write(found: list[Annotated], out: pathlib.Path) -> None:
    """The masks and the table; images stay where they are."""
    (out / 'masks').mkdir(parents=True, exist_ok=True)
    rows = []
    for one in found:
        name = f'{one.site.replace(" ", "_")}_{one.image.stem}.png'
        Image.fromarray(one.mask).save(out / 'masks' / name)
        rows.append([os.path.relpath(one.image, out), f'masks/{name}', one.site, one.patient])
    with (out / 'nuclei.csv').open('w', newline='') as file:
        csv.writer(file).writerows([['image', 'mask', 'site', 'patient'], *rows])


PARTS = {'monusac': monusac, 'monuseg': monuseg, 'tnbc': tnbc}


def main(argv: list[str]) -> None:
    """Read the three data sets and write the table."""
    values = flags.FLAGS
    with guarded(values):
        found = [one for name, read in PARTS.items() for one in read(pathlib.Path(str(values[name].value)))]
        out = pathlib.Path(values.out)
        write(found, out)
    for site, count in collections.Counter(one.site for one in found).items():
        print(f'{site}: {count} images')
    print(f'written: {out / "nuclei.csv"}')


if __name__ == '__main__':
    for part in PARTS:
        flags.DEFINE_string(part, None, f'folder of {part}', required=True)
    flags.DEFINE_string('out', None, 'folder for masks and nuclei.csv', required=True)
    app.run(main)
