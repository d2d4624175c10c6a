"""``fedjax-fair data inspect`` and ``data partition``: what data hold, and who would hold them."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
from collections.abc import Collection, Iterator

import numpy as np
from absl import flags
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedjax_fair.cli import catalogue, settings
from fedjax_fair.consoles import plain_console
from fedjax_fair.data import (
    Federation,
    data_options,
    describe,
    read_pool,
    scenario_options,
)
from fedjax_fair.data.partition.file import write_partition
from fedjax_fair.data.pool import Pool
from fedjax_fair.data.pool_overview import SIDES, class_names, counts_of_classes, counts_of_sites, facts
from fedjax_fair.data.problems import Problem, find_problems
from fedjax_fair.data.sources.recognition import recognise
from fedjax_fair.errors import DataError, UserError
from fedjax_fair.escaping import visible
from fedjax_fair.options import Option, options_of
from fedjax_fair.publishing import behind_links, refuse_root
from fedjax_fair.training import load_federation
from fedjax_fair.training.checks import checked
from fedjax_fair.viz.federations import contact_sheet, draw_partition, pool_sheet

PATH = '[KIND:]PATH'
SHEET = Option('out', None, str, 'picture of some images (default: runs/inspect-<name>.png)')
PARTITION_OUT = Option('out', None, str, 'FILE.json for the partition, or a directory (default: runs/partition-<name>)')


def reading() -> tuple[str, ...]:
    """The settings that decide what is read."""
    return tuple(options_of(read_pool))


def splitting() -> tuple[str, ...]:
    """The settings that decide who holds what."""
    return tuple(dict.fromkeys(('data_seed', *data_options())))


def inspect(argument: str, values: flags.FlagValues) -> int:
    """Show what data hold and what is wrong with them; exit code 1 if results would be wrong.

    That is so where data cannot be read, or where a problem is grave, see :mod:`fedjax_fair.data.problems`; warnings
    leave it 0.
    """
    if values.out and not values.out.lower().endswith('.png'):
        raise UserError(f'`out`={values.out}: the picture is a PNG; name a file that ends in .png')
    if values.out:
        refuse_root(pathlib.Path(values.out).parent, values.out)
    sources = catalogue.items('sources')
    spec = source_of(argument, sources)
    kind, _, path = spec.partition(':')
    console = _console()
    if spec != argument:
        console.print(f'{argument} looks like {kind}: {sources[kind].about}')
    config = checked(settings.config_of(values, {}))
    try:
        pool = read_pool(kind, path, data_seed=config.data_seed, **config.data)
    except DataError as error:
        _print_problems(console, [Problem(f'the data cannot be read: {error.with_flags()}', 1, (), grave=True)])
        for file in getattr(error, 'files', ()):
            console.print(f'  {file}', soft_wrap=True)
        return 1
    _print_facts(console, spec, pool)
    if pool.x.ndim == 4:
        out = _made(values.out or f'runs/inspect-{_file_name(spec)}.png')
        with _writing(out):
            pool_sheet(pool, behind_links(out))
        console.print(f'images: {out}')
    problems = find_problems(pool)
    _print_problems(console, problems)
    return int(any(problem.grave for problem in problems))


def partition(argument: str, values: flags.FlagValues) -> int:
    """Show who would hold what, and write the partition to a file that --partition=FILE reads."""
    scenario = source_of(argument, [*catalogue.items('scenarios'), *catalogue.items('sources')])
    config = checked(dataclasses.replace(settings.config_of(values, {}), scenario=scenario))
    out = pathlib.Path(values.out or f'runs/partition-{_file_name(scenario)}')
    base = out.with_suffix('') if out.suffix == '.json' else out / 'partition'
    refuse_root(base.parent, out)
    shared = 'partition' in scenario_options(scenario.partition(':')[0])
    if out.suffix == '.json' and not shared:
        raise UserError(
            f'`out`={out}: {scenario} generates its data, so its partition follows from the flags and cannot be saved'
        )
    federation = load_federation(config)
    print(describe(federation), '\n')
    for path in _pictures(federation, base):
        print(f'picture: {path}')
    if shared and federation.partition is not None:
        file = _made(f'{base}.json')
        given = {'data_seed': config.data_seed, **config.data}
        write_partition(file, federation.partition, federation.name, given)
        print(f'partition: {file}')
    return 0


def source_of(argument: str, known: Collection[str]) -> str:
    """What is to be read, ``KIND:PATH`` or one of ``known``; a path alone gets the kind it looks like."""
    if argument.partition(':')[0] in known:
        return argument
    return f'{recognise(argument, catalogue.items("sources"))}:{argument}'


def _pictures(federation: Federation, base: pathlib.Path) -> list[pathlib.Path]:
    clients, images = (_made(f'{base}-{what}.png') for what in ('clients', 'images'))
    with _writing(clients):
        draw_partition(federation, behind_links(clients))
    if federation.x.ndim != 4 and federation.x.shape[1:] != (2,):
        return [clients]
    with _writing(images):
        contact_sheet(federation, behind_links(images))
    return [clients, images]


def _made(name: str) -> pathlib.Path:
    """A file's path, its folder made."""
    path = pathlib.Path(name)
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise UserError(f'`out`={name} is a directory; name a file')
    return path


@contextlib.contextmanager
def _writing(path: pathlib.Path) -> Iterator[None]:
    """A file that the system refuses to write is a mistake of the user."""
    try:
        yield
    except OSError as error:
        raise UserError(f'`out`={path} cannot be written: {error.strerror or error}') from None


def _file_name(spec: str) -> str:
    """A short name for files: the kind, and the end of each path."""
    kind, _, rest = spec.partition(':')
    stems = '+'.join(pathlib.Path(path).stem for path in rest.split(',') if path)
    return re.sub(r'[^\w.+=-]+', '-', f'{kind}-{stems}'.rstrip('-'))[:80]


# --- on the screen ---------------------------------------------------------------------------------------------------


def _console() -> Console:
    console = plain_console()
    return console if console.is_terminal else plain_console(width=120)  # a file or a pipe has no width of its own


def _print_facts(console: Console, spec: str, pool: Pool) -> None:
    console.print(f'\n{spec}', style='bold')
    for name, value in facts(pool).items():
        console.print(f'  {name:9} {value}')
    console.print('', _table('class', class_names(pool), counts_of_classes(pool)), '')
    if pool.sites:
        console.print(_table('site', pool.sites, counts_of_sites(pool)), '')


def _table(title: str, names, counts: np.ndarray) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    table.add_column(title, style='cyan')
    for split in SIDES:
        table.add_column(split, justify='right')
    for name, row in zip(names, counts.tolist(), strict=True):
        table.add_row(Text(visible(name)), *map(str, row))  # a name is no markup
    return table


def _print_problems(console: Console, problems: list[Problem]) -> None:
    if not problems:
        console.print('no problems found', style='green')
    for problem in problems:
        style = 'red' if problem.grave else 'yellow'
        console.print(problem.sentence, style=style, soft_wrap=True)
