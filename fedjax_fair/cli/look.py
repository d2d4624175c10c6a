"""``fedjax-fair data inspect`` and ``data partition``: what data hold, and who would hold them."""

from __future__ import annotations

import dataclasses

from absl import flags

from fedjax_fair.cli import settings
from fedjax_fair.data import describe, read_pool
from fedjax_fair.data.options import given
from fedjax_fair.training.config import DATA_OPTIONS
from fedjax_fair.training.setup import checked, load_federation

PATH = 'KIND:PATH'
READING = ('npz_keys', 'source_options', 'image_size', 'task', 'join_sites', 'data_seed')
SPLITTING = ('data_seed', *DATA_OPTIONS)
SHEET = 'picture to write (default: inspect/<name>.png)'
FOLDER = 'FILE.json or a directory for the partition'


def inspect(argument: str, values: flags.FlagValues) -> int:
    """Show what data hold and what is wrong with them, before anything is trained."""
    kind, _, path = argument.partition(':')
    pool = read_pool(kind, path, **given({name: getattr(values, name) for name in READING}))
    print(f'{len(pool.y)} examples')
    return 0


def partition(argument: str, values: flags.FlagValues) -> int:
    """Show who would hold what, and write the partition down for others."""
    config = dataclasses.replace(settings.config_of(values, {}), scenario=argument)
    print(describe(load_federation(checked(config))))
    return 0
