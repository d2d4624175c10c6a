"""``fedjax-fair data prepare``: a data set by name, downloaded once."""

from __future__ import annotations

from absl import flags

from fedjax_fair.data.sources import tfds_store
from fedjax_fair.options import Option

DATA_DIR = Option('data_dir', None, str, 'where data sets are kept (default: ~/tensorflow_datasets, or $TFDS_DATA_DIR)')


def prepare(argument: str, values: flags.FlagValues) -> int:
    """Download a data set of TensorFlow Datasets and prepare it for --scenario=tfds:NAME."""
    folder = tfds_store.prepare(argument, values.data_dir or '')
    options = f' --source_options=data_dir={values.data_dir}' if values.data_dir else ''
    print(f'{folder}\nread it with --scenario=tfds:{argument}{options}')
    return 0
