"""Image files into arrays."""

from __future__ import annotations

import numpy as np
from PIL import Image

from fedjax_fair.data.parts import Part
from fedjax_fair.data.resize import resize_images
from fedjax_fair.data.sources.found import Arrays, Files


def decode(files: Files, image_size: int | None = None) -> Arrays:
    """All images of one shape; ``image_size`` is the side of a square they are fitted into."""
    images = [np.asarray(Image.open(files.root / name).convert('RGB')) for name in files.images]
    size = (image_size, image_size) if image_size else images[0].shape[:2]
    x = np.concatenate([resize_images(image[None], size) for image in images])
    part = Part(files.root.name, x, files.labels, files.split, files.site, files.group, None, files.unlabelled)
    return Arrays([part], files.class_names)
