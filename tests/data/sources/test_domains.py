"""Several sources as domains of one federation."""

import numpy as np
import pytest

from fedjax_fair.data import make_scenario


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for name, channels in (('grey', 1), ('colour', 3)):
        images = rng.integers(0, 256, (40, 6, 6, channels), dtype=np.uint8)
        np.savez(tmp_path / f'{name}.npz', images=images, labels=np.arange(40) % 4)
    return tmp_path


def test_each_source_is_a_domain_and_grey_joins_colour(files):
    data = make_scenario(f'domains:a=npz:{files}/grey.npz,b=npz:{files}/colour.npz', clients_per_domain=2)
    assert data.groups == ('a', 'b') and data.num_clients == 4
    assert data.x.shape[1:] == (6, 6, 3) and data.tests.names == ('a', 'b')


@pytest.mark.parametrize(
    ('argument', 'message'),
    [
        ('a=npz:{0}/grey.npz,a=npz:{0}/colour.npz', 'each once'),
        ('npz:{0}/grey.npz', 'NAME=KIND:PATH'),
        ('a=nowhere:{0}', "'nowhere' is not one of npz, idx"),
        ('a=npz:{0}/none.npz', 'no such file'),
    ],
)
def test_mistakes_are_named(files, argument, message):
    with pytest.raises(ValueError, match=message):
        make_scenario('domains:' + argument.format(files))
