"""Experiments that compile in a second: points in the plane, and six clients of three sites."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest
from disk_cache import compile_once  # noqa: F401  (a fixture for all tests here)

from fedjax_fair.training import Config


def toy(**settings) -> Config:
    """Two clients of 200 points each, logistic regression, one device."""
    base = {'scenario': 'gaussian_toy_1', 'rounds': 4, 'eval_every': 2, 'batch_size': 64, 'devices': 1}
    return Config(**base | {'checkpoint_every': 0} | settings)


@pytest.fixture(scope='session')
def sites(tmp_path_factory) -> str:
    """A scenario of three sites of unequal size; two clients of each."""
    rng = np.random.default_rng(0)
    site = np.repeat([0, 1, 2], [90, 60, 30])
    labels = rng.integers(0, 3, len(site))
    images = rng.normal(128 + 40 * (labels - 1)[:, None, None, None] + 10 * site[:, None, None, None], 60)
    path = tmp_path_factory.mktemp('data') / 'sites.npz'
    images = np.clip(images * np.ones((1, 2, 2, 1)), 0, 255).astype(np.uint8)
    np.savez(path, images=images, labels=labels, site=site)
    return f'npz:{path}'


@pytest.fixture(name='toy')
def _toy():
    return toy


@pytest.fixture(scope='session', name='read')
def _read():
    return read


def read(path: pathlib.Path):
    """Parse a JSON or JSON-lines file, refusing NaN and Infinity, which are not JSON."""

    def refuse(word):
        raise AssertionError(f'{path} holds {word}')

    if path.suffix == '.jsonl':
        return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]
    return json.loads(path.read_text(), parse_constant=refuse)
