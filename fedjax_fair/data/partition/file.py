"""A partition in a file, so that two papers can use the same one: the option ``partition``.

The file names every example by its place in the source. It holds the number of examples and a SHA-256 of their labels
and, where the source tells them, of their patients, so that a partition of other data is
refused; images may be of another size than when it was drawn. For data with masks but no
labels it checks only the number of images. Validation examples, which a source leaves out, are not counted.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_fair.data.federation import Partition
from fedjax_fair.data.paths import named_paths
from fedjax_fair.data.pool import Pool
from fedjax_fair.errors import UserError
from fedjax_fair.escaping import visible
from fedjax_fair.foreign import json_of, text_of
from fedjax_fair.publishing import CannotWrite, behind_links, publish

FORMAT, VERSION = 'fedjax-fair partition', 2


def fingerprint(pool: Pool) -> str:
    """A SHA-256 of labels and, where they are known, of patients, whatever these are called.

    Sites are left out of it: a partition may have been drawn after sites were joined, and is read before.
    """
    known = [pool.y]
    if pool.patient_of is not None:
        _, first, patient = np.unique(pool.patient_of, return_index=True, return_inverse=True)
        known.append(first[patient])
    parts = (f'{column.shape} int32 '.encode() + np.ascontiguousarray(column, '<i4').tobytes() for column in known)
    return hashlib.sha256(b''.join(parts)).hexdigest()


def write_partition(path: str | os.PathLike, partition: Partition, scenario: str, settings: Mapping[str, Any]) -> None:
    """Write a partition, and the scenario and settings that drew it."""
    about = {'format': FORMAT, 'version': VERSION, 'scenario': scenario, 'settings': dict(settings)}
    fields = {name: _plain(value) for name, value in partition._asdict().items() if value is not None}
    lines = (f'{json.dumps(name)}:{_compact(value)}' for name, value in (about | fields).items())
    try:
        publish(behind_links(path), '{\n' + ',\n'.join(lines) + '\n}\n')
    except CannotWrite as error:
        raise UserError(f'`out`={path} cannot be written: {error.reason}') from None


def _plain(value: Any) -> Any:
    """Arrays and tuples as lists."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _compact(value: Any) -> str:
    """JSON on one line; of a list of lists each inner list has its own line."""
    if isinstance(value, list) and value and isinstance(value[0], list):
        return '[\n' + ',\n'.join(map(_compact, value)) + '\n]'
    return json.dumps(value, separators=(',', ':'))


def count_clients(path: str) -> int:
    """The number of clients in the file of a partition; the examples are not checked."""
    return len(_list(_load(path), 'clients'))


def read_partition(path: str, pool: Pool, shared: bool = False) -> Partition:
    """The partition of these examples that a file holds, after checking it.

    With ``shared`` several clients may hold the same example.
    """
    content = _load(path)
    if (content.get('examples'), content.get('examples_sha256')) != (len(pool.y), fingerprint(pool)):
        raise UserError(
            f'`partition`={path} was drawn for other data: {content.get("examples")} examples of '
            f'{content.get("scenario")}; here are {len(pool.y)}, with other labels or patients'
        )
    try:
        partition = _parsed(content)
        _check_examples(partition, shared)
        _check_whose(partition)
    except UserError as error:
        raise UserError(f'`partition`={path}: {error.message}') from None
    return partition


def _load(path: str) -> dict[str, Any]:
    files = named_paths(path)
    if len(files) != 1:
        raise UserError(f'`partition`={path} must name one file')
    where = f'`partition`={path}'
    content = json_of(text_of(files[0], where), where)
    if not isinstance(content, dict) or content.get('format') != FORMAT:
        raise UserError(f'`partition`={path} is not a partition; write one with fedjax-fair data partition')
    if content.get('version') != VERSION:
        raise UserError(f'`partition`={path} has version {content.get("version")}; version {VERSION} can be read')
    return content


def _parsed(content: dict[str, Any]) -> Partition:
    """The fields of a partition, each of its type."""
    clients, tests = ([_numbers(name, rows) for rows in _list(content, name)] for name in ('clients', 'tests'))
    test_of = _numbers('test_of', _list(content, 'test_of')).astype(np.int32)
    group_of = _numbers('group_of', _list(content, 'group_of')).astype(np.int32) if 'group_of' in content else None
    test_names, groups = (tuple(visible(str(one)) for one in _list(content, name)) for name in ('test_names', 'groups'))
    data = content['examples'], content['examples_sha256']
    return Partition(clients, tests, test_of, test_names, groups, group_of, *data)


def _list(content: dict[str, Any], name: str) -> list:
    if not isinstance(content.get(name), list):
        raise UserError(f'{name!r} must be a list, got {content.get(name)!r}')
    return content[name]


def _numbers(name: str, values: Any) -> np.ndarray:
    if not isinstance(values, list) or not all(type(value) is int and abs(value) < 2**31 for value in values):
        raise UserError(f'{name!r} must hold lists of whole numbers')
    return np.array(values, np.int64)


def _check_examples(partition: Partition, shared: bool) -> None:
    """Every client and test set has examples that exist; none is both trained on and tested, or given away twice."""
    clients, tests, count = partition.clients, partition.tests, partition.examples
    if not clients or not tests:
        raise UserError(f'{len(clients)} clients and {len(tests)} test sets; both are needed')
    for what, sets in (('client', clients), ('test set', tests)):
        for n, rows in enumerate(sets):
            if not len(rows):
                raise UserError(f'{what} {n} holds no examples')
            if rows.min() < 0 or rows.max() >= count:
                outside = rows[(rows < 0) | (rows >= count)][0]
                raise UserError(f'{what} {n} holds example {outside}; they are numbered from 0 to {count - 1}')
    for own in clients if shared else [np.concatenate(clients)]:
        times = np.bincount(own, minlength=count)
        if len(twice := np.flatnonzero(times > 1)):
            holders = [n for n, rows in enumerate(clients) if twice[0] in rows]
            raise UserError(f'example {twice[0]} is given {times[twice[0]]} times, to clients {holders[:5]}')
    if len(both := np.intersect1d(np.concatenate(clients), np.concatenate(tests))):
        raise UserError(f'example {both[0]} is both trained on and tested')


def _check_whose(partition: Partition) -> None:
    """Every client has a test set, and a group where there are groups, each of which has clients."""
    clients, tests = len(partition.clients), len(partition.tests)
    if len(partition.test_names) != tests:
        raise UserError(f'{len(partition.test_names)} test_names for {tests} test sets')
    whose = [('test_of', partition.test_of, tests), ('group_of', partition.group_of, len(partition.groups))]
    for name, numbers, known in whose:
        if numbers is not None and (len(numbers) != clients or not np.isin(numbers, np.arange(known)).all()):
            raise UserError(f'{name!r} must hold, for each of {clients} clients, a number below {known}')
    if partition.groups and partition.group_of is None:
        raise UserError(f"{len(partition.groups)} 'groups' without 'group_of', the group of every client")
    if idle := [name for g, name in enumerate(partition.groups) if g not in np.asarray(partition.group_of)]:
        raise UserError(f'the group {idle[0]!r} has no client')
