"""One of two processes that make one run: ``python one_of_two.py RANK ADDRESS FOLDER``. Prints what it found as JSON.

Both save the states of rounds 2 and 4, each array spread over the devices of both. Then the piece of round 4 that the
second process holds is damaged, and both restore.
"""

from __future__ import annotations

import json
import pathlib
import sys

import jax
import numpy as np

from fedjax_fair.core.types import FedState
from fedjax_fair.training import checksums
from fedjax_fair.training.checkpoint import Checkpoints
from fedjax_fair.training.writer_lock import LOCK, writing

TABLE = np.arange(8 * 3000, dtype=np.float32).reshape(1, 8, 3000)


def state(round: int, mesh: jax.sharding.Mesh) -> FedState:
    """A model and client rows that are spread along different axes."""

    def spread(value, *axes):
        sharding = jax.NamedSharding(mesh, jax.P(*axes))
        return jax.make_array_from_callback(value.shape, sharding, lambda place: value[place])

    model, rows = (
        {'kernel': spread(TABLE * round, None, 'devices')},
        {'own': spread(TABLE + round, None, None, 'devices')},
    )
    return FedState(spread(np.full(1, round, np.int32)), model, {}, {}, rows, spread(np.zeros((1, 8), np.int32)))


def main(rank: int, address: str, out: pathlib.Path) -> None:
    jax.config.update('jax_cpu_collectives_implementation', 'gloo')
    jax.distributed.initialize(address, num_processes=2, process_id=rank)
    mesh = jax.make_mesh((4,), ('devices',))
    store = Checkpoints(out)
    with writing(out):
        found = {'locked': (out / LOCK).exists() if rank == 0 else None}
        for round in (2, 4):
            store.save(round, state(round, mesh), {'seconds': 1.0})
        store.wait()
        found['restored'], found['told'] = _restored(out, mesh)
        if rank == 1:
            pieces = out / 'checkpoints' / '4' / 'state' / 'ocdbt.process_1' / 'd'
            largest = max(pieces.iterdir(), key=lambda path: path.stat().st_size)
            content = largest.read_bytes()
            largest.write_bytes(content[: len(content) // 2])  # the end holds an index that nobody may read
        jax.experimental.multihost_utils.sync_global_devices('damaged')
        found['again'], found['told_again'] = _restored(out, mesh)
    store.close()
    print(json.dumps(found))


def _restored(out: pathlib.Path, mesh: jax.sharding.Mesh) -> tuple[dict[str, int], list[str]]:
    """Checksums of all arrays, and what is told."""
    store = Checkpoints(out)
    states, _ = store.restore(state(0, mesh))
    store.close()
    return checksums.of_tree(states._asdict()), store.notes


if __name__ == '__main__':
    main(int(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]))
