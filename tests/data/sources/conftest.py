"""Decoded images of tests are kept in a folder of their own, never in the user's."""

import pytest


@pytest.fixture(autouse=True)
def cache_home(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp('cache')
    monkeypatch.setenv('XDG_CACHE_HOME', str(folder))
    return folder
