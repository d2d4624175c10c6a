"""Images to read; decoded ones are kept in a folder of their own, never in the user's."""

import pytest
from pictures import save


@pytest.fixture(autouse=True)
def cache_home(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp('cache')
    monkeypatch.setenv('XDG_CACHE_HOME', str(folder))
    return folder


@pytest.fixture
def scans(tmp_path):
    """Three images of two classes, in folders."""
    for name in ('a', 'b'):
        for number in range(3):
            save(tmp_path / 'scans' / name / f'{number}.png', seed=number)
    return tmp_path / 'scans'
