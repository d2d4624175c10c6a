"""``fedjax-fair data inspect`` and ``data partition``: what data hold, and who would hold them."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
from collections.abc import Iterator

import numpy as np
from absl import flags
from rich.console import Console
from rich.table import Table

from fedjax_fair.cli import settings
from fedjax_fair.cli.mistakes import is_deliberate
from fedjax_fair.data import SCENARIOS, SOURCES, Federation, contact_sheet, describe, draw_partition, read_pool
from fedjax_fair.data.options import given
from fedjax_fair.data.overview import SIDES, class_names, counts_of_classes, counts_of_sites, facts, pool_sheet
from fedjax_fair.data.pool import Pool
from fedjax_fair.data.problems import Problem, find_problems
from fedjax_fair.data.sources.recognise import recognise
from fedjax_fair.data.sources.workers import UnreadableFiles
from fedjax_fair.data.written import write_partition
from fedjax_fair.training.config import DATA_OPTIONS
from fedjax_fair.training.setup import checked, load_federation

PATH = '[KIND:]PATH'
READING = ('npz_keys', 'source_options', 'image_size', 'task', 'join_sites', 'data_seed')
SPLITTING = ('data_seed', *DATA_OPTIONS)
SHEET = 'picture of some images (default: runs/inspect-<name>.png)'
FILES = 'FILE.json for the partition, or a directory (default: runs/partition-<name>)'


def inspect(argument: str, values: flags.FlagValues) -> int:
    """Show what data hold and what is wrong with them; exit code 1 if results would be wrong.

    That is so where data cannot be read, or where a problem is grave, see :mod:`fedjax_fair.data.problems`; warnings
    leave it 0.
    """
    if values.out and not values.out.lower().endswith('.png'):
        raise ValueError(f'--out={values.out}: the picture is a PNG; name a file that ends in .png')
    spec = source_of(argument, SOURCES)
    kind, _, path = spec.partition(':')
    console = _console()
    if spec != argument:
        console.print(f'{argument} looks like {kind}: {SOURCES[kind].description}', highlight=False, markup=False)
    config = checked(settings.config_of(values, {}))
    try:
        pool = read_pool(kind, path, **given({name: getattr(config, name) for name in READING}))
    except ValueError as error:
        if not is_deliberate(error) or not str(error).startswith('--scenario'):
            raise
        _print_problems(console, [Problem(f'the data cannot be read: {error}', 1, (), grave=True)])
        for file in error.files if isinstance(error, UnreadableFiles) else ():
            console.print(f'  {file}', highlight=False, markup=False, soft_wrap=True)
        return 1
    _print_facts(console, spec, pool)
    if pool.x.ndim == 4:
        out = _made(values.out or f'runs/inspect-{_file_name(spec)}.png')
        with _writing(out):
            pool_sheet(pool, out)
        console.print(f'images: {out}', highlight=False, markup=False)
    problems = find_problems(pool)
    _print_problems(console, problems)
    return int(any(problem.grave for problem in problems))


def partition(argument: str, values: flags.FlagValues) -> int:
    """Show who would hold what, and write the partition to a file that --partition=FILE reads."""
    scenario = source_of(argument, SCENARIOS)
    config = checked(dataclasses.replace(settings.config_of(values, {}), scenario=scenario))
    out = pathlib.Path(values.out or f'runs/partition-{_file_name(scenario)}')
    base = out.with_suffix('') if out.suffix == '.json' else out / 'partition'
    shared = 'partition' in SCENARIOS[scenario.partition(':')[0]].options
    if out.suffix == '.json' and not shared:
        raise ValueError(f'--out={out}: {scenario} draws its examples itself; its flags say who holds what')
    federation = load_federation(config)
    print(describe(federation), '\n')
    for path in _pictures(federation, base):
        print(f'picture: {path}')
    if shared and federation.partition is not None:
        file = _made(f'{base}.json')
        settings_given = given({name: getattr(config, name) for name in SPLITTING})
        write_partition(file, federation.partition, federation.name, settings_given)
        print(f'partition: {file}')
    return 0


def source_of(argument: str, known: dict) -> str:
    """What is to be read, ``KIND:PATH`` or one of ``known``; a path alone gets the kind it looks like."""
    if argument.partition(':')[0] in known:
        return argument
    return f'{recognise(argument, SOURCES)}:{argument}'


def _pictures(federation: Federation, base: pathlib.Path) -> list[pathlib.Path]:
    clients, images = (_made(f'{base}-{what}.png') for what in ('clients', 'images'))
    with _writing(clients):
        draw_partition(federation, clients)
    if federation.x.ndim != 4 and federation.x.shape[1:] != (2,):
        return [clients]
    with _writing(images):
        contact_sheet(federation, images)
    return [clients, images]


def _made(name: str) -> pathlib.Path:
    """A file's path, its folder made."""
    path = pathlib.Path(name)
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise ValueError(f'--out={name} is a directory; name a file')
    return path


@contextlib.contextmanager
def _writing(path: pathlib.Path) -> Iterator[None]:
    """What the system refuses is a mistake of the user, in one line."""
    try:
        yield
    except OSError as error:
        raise ValueError(f'--out={path} cannot be written: {error.strerror or error}') from None


def _file_name(spec: str) -> str:
    """A short name for files: the kind, and the end of each path."""
    kind, _, rest = spec.partition(':')
    stems = '+'.join(pathlib.Path(path).stem for path in rest.split(',') if path)
    return re.sub(r'[^\w.+=-]+', '-', f'{kind}-{stems}'.rstrip('-'))[:80]


# --- on the screen ---------------------------------------------------------------------------------------------------


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=120)  # a file or a pipe has no width of its own


def _print_facts(console: Console, spec: str, pool: Pool) -> None:
    console.print(f'\n{spec}', highlight=False, markup=False, style='bold')
    for name, value in facts(pool).items():
        console.print(f'  {name:9} {value}', highlight=False, markup=False)
    console.print('', _table('class', class_names(pool), counts_of_classes(pool)), '')
    if pool.groups:
        console.print(_table('site', pool.groups, counts_of_sites(pool)), '')


def _table(title: str, names, counts: np.ndarray) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    table.add_column(title, style='cyan')
    for split in SIDES:
        table.add_column(split, justify='right')
    for name, row in zip(names, counts.tolist(), strict=True):
        table.add_row(name, *map(str, row))
    return table


def _print_problems(console: Console, problems: list[Problem]) -> None:
    if not problems:
        console.print('no problems found', style='green')
    for problem in problems:
        mark, style = ('PROBLEM', 'red') if problem.grave else ('warning', 'yellow')
        told = f'{problem.times} {problem.what}' if problem.where else problem.what
        where = ', '.join(problem.where) + ', ...' * (problem.times > len(problem.where) > 0)
        console.print(
            f'{mark}: {told}{": " * bool(where)}{where}', style=style, highlight=False, markup=False, soft_wrap=True
        )
