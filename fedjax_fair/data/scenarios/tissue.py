"""Scenarios of stained tissue, drawn by :mod:`fedjax_fair.data.scenarios.tissue_images`: one client per hospital."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from fedjax_fair.data.assembly import federate
from fedjax_fair.data.declarations import TASK_HELP, ClientSizes, ImageSize, NumClients, TestSize
from fedjax_fair.data.federation import Federation
from fedjax_fair.data.partition.split import Split
from fedjax_fair.data.scenarios.tissue_images import check_images, tissue_pool
from fedjax_fair.errors import UserError
from fedjax_fair.options import between
from fedjax_fair.registry import register

SIZES = (80, 60, 100, 50, 70, 40)  # training images per hospital
SMALLEST = 16  # pixels on a side that show a nucleus
Shift = Annotated[float, 'how far the hospitals of tissue differ: 0 not at all, 1 by default', between(0, 1)]


def _tissue(name: str, classes: int) -> Callable[..., Federation]:
    def make(
        split: Split,
        data_seed: int,
        num_clients: NumClients | None = None,
        client_sizes: ClientSizes | None = None,
        test_size: TestSize = 60,
        image_size: ImageSize = 64,
        shift: Shift = 1.0,
        task: Annotated[Literal['classification', 'segmentation'], TASK_HELP] = 'classification',
    ) -> Federation:
        """Stained tissue of hospitals that stain and scan differently, one client each.

        ``client_sizes`` are the training images per hospital (default 80, 60, 100, 50, 70, 40, and so on in turn);
        ``shift`` is how far hospitals differ, from 0 (all alike) to 1; ``task='segmentation'`` learns the nuclei, else
        the class of the whole image.
        """
        sizes = client_sizes or SIZES
        hospitals = num_clients or (len(sizes) if len(sizes) > 1 else len(SIZES))
        if client_sizes is not None and len(sizes) not in (1, hospitals):
            shown = ','.join(map(str, sizes))
            raise UserError(f'`client_sizes`={shown} must be one size or {hospitals}, one per hospital')
        if image_size < SMALLEST:
            raise UserError(f'`image_size`={image_size} must be at least {SMALLEST}')
        turns, rest = divmod(hospitals, len(sizes))
        trained = turns * sum(sizes) + sum(sizes[:rest])
        check_images(trained + hospitals * test_size, image_size, f'`scenario`={name}')
        each = [sizes[hospital % len(sizes)] for hospital in range(hospitals)]
        pool = tissue_pool(each, test_size, image_size, classes, data_seed, shift)._replace(task=task)
        return federate(pool, name, split._replace(by='site'), data_seed)

    return make


tissue = register.scenario(
    'tissue', scheme='site', about='stained tissue, normal or tumour, six hospitals that stain and scan differently'
)(_tissue('tissue', 2))
tissue_grades = register.scenario(
    'tissue_grades', scheme='site', about='tissue in four classes: normal and three grades'
)(_tissue('tissue_grades', 4))
