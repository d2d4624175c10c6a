"""Where examples and client rows are kept while a run goes on."""

from __future__ import annotations

import enum
from typing import NamedTuple

import jax

from fedjax_fair.core import client_map
from fedjax_fair.core.platform import current
from fedjax_fair.core.tree import num_bytes
from fedjax_fair.core.types import Algorithm
from fedjax_fair.data.federation import Federation
from fedjax_fair.errors import UserError
from fedjax_fair.options import AUTO


class Place(enum.StrEnum):
    """Where arrays are kept."""

    DEVICE = 'device'
    HOST = 'host'
    DISK = 'disk'


class Storage(NamedTuple):
    """Where examples and client rows are kept."""

    examples: Place
    rows: Place

    @property
    def streams(self) -> bool:
        return self.examples is not Place.DEVICE

    @property
    def on_disk(self) -> tuple[str, ...]:
        """What is kept on disk: ``examples``, ``rows``, both or none."""
        return tuple(name for name, place in self._asdict().items() if place is Place.DISK)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know: nothing where all is on the device."""
        where = f'examples: {self.examples}; client rows: {self.rows}; one cohort at a time on the device'
        return (where,) if self.streams else ()


def _shares(algorithm: Algorithm) -> int:
    """Over how many memories examples and rows are divided; devices of a CPU share that of the host."""
    spread = algorithm.facts['client_map']
    return 1 if current().memory is None or spread.ordered else spread.devices


def choose_storage(
    examples: str, rows: str, federation: Federation, algorithm: Algorithm, cohort: int, lanes: int
) -> Storage:
    """Resolve ``auto``: examples or rows that need more than a quarter of the memory of their devices are streamed.

    That is so only if at most half of the clients take part in a round. Rows from which a method makes the model that
    it serves stay on the device.
    """
    row = jax.eval_shape(lambda key: algorithm.init(key, None, 1), jax.random.key(0)).clients
    row_bytes, serves = lanes * num_bytes(row) * federation.num_clients, algorithm.facts['serves']
    host = client_map.host_memory() or 2**60
    limit = (current().memory or host) // 4 * _shares(algorithm)
    partial = 2 * cohort <= federation.num_clients
    for_rows, for_examples = (None if word == AUTO else Place(word) for word in (rows, examples))
    if for_rows is None:
        away = row_bytes > limit and partial and not serves and for_examples is not Place.DEVICE
        for_rows = (Place.HOST if row_bytes < host // 2 else Place.DISK) if away else Place.DEVICE
    elif for_rows is not Place.DEVICE and serves:
        raise UserError(f'`rows`={rows}: {serves} makes its model of the rows of all clients; choose `rows`=device')
    for_rows = for_rows if row_bytes else Place.DEVICE
    if for_examples is None:
        large = federation.x.size * federation.x.dtype.itemsize > limit and partial
        for_examples = Place.HOST if large or for_rows is not Place.DEVICE else Place.DEVICE
    if for_rows is not Place.DEVICE and for_examples is Place.DEVICE:
        raise UserError(f'`rows`={for_rows} needs `examples`=host or `examples`=disk')
    return Storage(for_examples, for_rows)
