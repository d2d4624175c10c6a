"""What two run folders of the same settings differ in: nothing but times, if all is well."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import jax
import numpy as np

from fedjax_fair.results import CONFIG, HISTORY, SUMMARY
from fedjax_fair.training import checksums
from fedjax_fair.training.checkpoint import FOLDER, ROWS

LEFT_OUT = {  # what the same settings need not repeat
    CONFIG: ('command', 'commit'),
    SUMMARY: ('seconds', 'compile_seconds', 'rounds_per_second', 'load_per_core'),
}


def differences(one: pathlib.Path, two: pathlib.Path, rounds: int) -> list[str]:
    """In words, what differs in histories, summaries, predictions, final states and names of files."""
    return list(_differences(one, two, rounds))


def _differences(one: pathlib.Path, two: pathlib.Path, rounds: int) -> Iterator[str]:
    for name in sorted(_names(one) ^ _names(two)):
        yield f'{name} is in one folder only'
    if _bytes(one / HISTORY) != _bytes(two / HISTORY):
        yield f'{HISTORY} differs'
    for file in LEFT_OUT:
        if (entry := checksums.difference(*(_entries(folder / file) for folder in (one, two)))) is not None:
            yield f'{file}: {entry} differs'
    for path in sorted(one.glob('predictions*.npz')):
        if (array := checksums.difference(*(_arrays(folder / path.name) for folder in (one, two)))) is not None:
            yield f'{path.name}: {array} differs'
    if (array := checksums.difference(*(_final_state(folder, rounds) for folder in (one, two)))) is not None:
        yield f'the final state differs: {array}'


def _names(folder: pathlib.Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _bytes(path: pathlib.Path) -> bytes:
    return path.read_bytes() if path.exists() else b''


def _entries(path: pathlib.Path) -> dict[str, int]:
    """The checksum of every entry of a JSON file that must be equal."""
    found = json.loads(_bytes(path) or b'{}')
    return {name: checksums.of_json(value) for name, value in found.items() if name not in LEFT_OUT[path.name]}


def _arrays(path: pathlib.Path) -> dict[str, int]:
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as file:
        return {name: checksums.of_array(file[name]) for name in file.files}


def _final_state(folder: pathlib.Path, rounds: int) -> dict[str, int]:
    """The checksum of every array of the last checkpoint and of its files of rows."""
    import orbax.checkpoint as ocp

    state = (folder / FOLDER / str(rounds) / 'state').absolute()
    if not state.exists():
        return {}
    with ocp.PyTreeCheckpointer() as reader:
        shapes = reader.metadata(state).item_metadata.tree
        plain = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), shapes)
        found = checksums.of_tree(reader.restore(state, restore_args=plain))
    rows = sorted((folder / ROWS / str(rounds)).glob('*.npy'))
    return found | {path.name: checksums.of_array(np.load(path, mmap_mode='r')) for path in rows}
