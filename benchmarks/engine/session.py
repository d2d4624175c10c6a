"""A prepared experiment that runs round by round: the programs of the run loop without its files."""

from __future__ import annotations

import argparse
import itertools
import json
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.tables import machine
from fedjax_fair.results.facts import git_commit
from fedjax_fair.training.config import Config
from fedjax_fair.training.setup import prepare
from fedjax_fair.training.spread import settled

RESULTS = pathlib.Path(__file__).resolve().parent.parent / 'results'


class Session:
    """The lanes of a config; ``log`` holds what the last round said of itself."""

    def __init__(self, config: Config):
        self.x = settled(prepare(config))
        self.data = self.x.examples()
        self.tests = self.x.test_sets(self.x.federation.tests)
        self.states = self.x.program.init(self.x.lanes)
        self.log: dict[str, float] = {}

    def round(self) -> None:
        """One round of every lane; returns when the new models have been computed."""
        one = jnp.asarray(1, jnp.int32)
        self.states, log = self.x.program.advance(self.x.lanes, self.states, self.data, one)
        jax.block_until_ready(self.states)
        self.log = {name: float(value[0, 0]) for name, value in jax.device_get(log).items()}

    def evaluate(self, *kinds: str) -> dict[str, Any]:
        """Metrics of these kinds of model on every test set."""
        return jax.device_get(self.x.program.evaluate(self.x.lanes, self.states, self.tests, None, kinds=kinds))


def in_turn(tasks: Mapping[str, Callable[[], Any]], turns: int) -> dict[str, list[float]]:
    """Seconds of every task, run A B C A B C; a first turn that compiles is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(turns + 1):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def on(host: Mapping[str, Any]) -> str:
    """The machine in words."""
    return f'{host["cores"]} cores, {host["memory_gib"]} GiB of memory, load {host["load"]:.1f} before the start'


def page(title: str, about: str, found: Mapping[str, Any], *parts: Sequence[str]) -> str:
    """A heading, what was measured on which machine, and then lines such as those of a table."""
    commit = f'commit {found["commit"][:7]}; ' if found.get('commit') else ''
    head = [f'# {title}\n', f'{about}; {commit}{on(found["machine"])}.\n']
    return '\n'.join(itertools.chain(head, *parts)) + '\n'


def write(folder: pathlib.Path, name: str, found: Mapping[str, Any], text: str) -> None:
    """Keep everything that was found and its tables, and show the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f'{name}.json').write_text(json.dumps(found, indent=2) + '\n')
    (folder / f'{name}.md').write_text(text)
    print(text)


def program(
    name: str,
    about: str | None,
    measure: Callable[..., Mapping[str, Any]],
    as_markdown: Callable[[Mapping[str, Any]], str],
    **flags: Any,
) -> None:
    """Measure and write ``results/NAME.json`` and ``.md``; ``flags`` are those of ``measure``, with their defaults."""
    parser = argparse.ArgumentParser(description=about)
    for flag, default in flags.items():
        parser.add_argument(f'--{flag}', type=type(default), default=default)
    parser.add_argument('--out', type=pathlib.Path, default=RESULTS)
    given = vars(parser.parse_args())
    folder = given.pop('out')
    host = machine()  # before the work, for its load
    found = {'machine': host, 'commit': git_commit(), **given, **measure(**given)}
    write(folder, name, found, as_markdown(found))
