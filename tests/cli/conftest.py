"""Commands run inside the test's process, with flags of their own."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import NamedTuple

import pytest
from absl import flags
from disk_cache import compile_once  # noqa: F401  (a fixture for all tests here)
from my_plugin import MINE

from fedjax_fair import plugins
from fedjax_fair.cli import main, settings
from fedjax_fair.cli.mistakes import one_line


class Outcome(NamedTuple):
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str


def command(name: str, *words: str) -> Outcome:
    """Run a command as the command line does."""
    values, out, err, code = flags.FlagValues(), io.StringIO(), io.StringIO(), 0
    settings.define_flags(values)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            with one_line():
                hyper = settings.parse(words, values, name)
            main.execute(name, values, hyper)
        except SystemExit as stop:
            code = stop.code
    return Outcome(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope='session', name='command')
def _command():
    return command


@pytest.fixture(scope='session')
def toy():
    """Flags of an experiment that takes no time."""
    return ['--scenario=gaussian_toy_1', '--rounds=2', '--eval_every=1', '--batch_size=64', '--devices=1', '--quiet']


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The plug-in mine.py in the working folder; nothing of it is left after the test."""
    (tmp_path / 'mine.py').write_text(MINE)
    (tmp_path / 'helper_beside_it.py').write_text('MU = 0.5\n')
    monkeypatch.chdir(tmp_path)
    yield 'mine.py'
    for plugin in plugins.loaded():
        plugins.unload(plugin.name)
    sys.modules.pop('helper_beside_it', None)
