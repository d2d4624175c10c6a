"""All tables and figures of the five studies by one command, and what they say to the papers' claims.

``python -m experiments.papers --preset=tiny --out=runs/papers`` makes them one after another, with an index page. A
program that was stopped goes on with the same command. Before it begins it tells how many parts there are and about how
long they take, by the times of earlier calls and those in experiments/papers.json. That file is the papers.json of a
run on two cores; it may have several presets. ``--only=fedism,fedld`` chooses papers, and ``--claims`` writes
docs/claims.md and its summary in README from the recorded results of this repository, without any run.
"""

from __future__ import annotations

import importlib
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from absl import app, flags

from experiments import claims_page
from experiments.published import HERE, PAPERS, preset_config
from experiments.study import Study, show_part
from fedjax_fair import results
from fedjax_fair.cli import guarded
from fedjax_fair.errors import UserError
from fedjax_fair.escaping import as_html
from fedjax_fair.options import not_one_of
from fedjax_fair.publishing import make_folder, publish
from fedjax_fair.report.html import page
from fedjax_fair.report.pieces import html_table
from fedjax_fair.results.files import read_json
from fedjax_fair.training import use_compilation_cache, use_host_devices

LISTS = {'table': 'TABLES', 'figure': 'FIGURES'}  # in tables.py and figures.py of every paper
PRESETS = ('smoke', 'tiny')
INDEX, DONE = 'index.html', 'papers.json'
TIMES = HERE / DONE  # of an earlier run, kept in the repository
MINUTE = 60  # seconds
RECORDED = {'files', 'seconds', 'commit', 'command'}  # what the record says of every part


class Part(NamedTuple):
    """One table or figure of a paper, and the preset that its data are of."""

    paper: str
    kind: str
    choice: str
    preset: str

    @property
    def name(self) -> str:
        """How it is called on the index page and in the record of what is done."""
        return f'{self.paper} {self.kind} {self.choice}, preset {self.preset}'

    @property
    def command(self) -> str:
        """The command that makes this part alone."""
        return f'python -m experiments.{self.paper}.{self.kind}s --{self.kind}={self.choice} --preset={self.preset}'


def module_of(paper: str, kind: str) -> Any:
    """The program that shows the tables or the figures of a paper."""
    return importlib.import_module(f'experiments.{paper}.{kind}s')


def parts(papers: tuple[str, ...], preset: str) -> Iterator[Part]:
    """Everything that the studies show, but for tables that have presets of their own."""
    for paper in papers:
        for kind, shown in LISTS.items():
            module = module_of(paper, kind)
            own: Mapping[str, str | None] = getattr(module, 'PRESETS', {})  # '{}_segmentation', or None: not here
            for choice in getattr(module, shown):
                fitting = own.get(choice, '{}')
                if fitting is not None:
                    yield Part(paper, kind, choice, fitting.format(preset))


def make(part: Part, out: pathlib.Path, quiet: bool) -> dict[str, Any]:
    """Run one part; returns what is recorded of it."""
    module, begun = module_of(part.paper, part.kind), time.time()
    arrange: Callable[[Study, str], Study] = getattr(module, 'arranged', lambda study, choice: study)
    study = Study(preset_config(part.paper, part.preset), out / f'{part.paper}-{part.preset}', quiet)
    show_part(getattr(module, LISTS[part.kind]), part.choice, arrange(study, part.choice))
    files = [path for path in study.out.glob('*.*') if path.suffix in ('.md', '.png') and path.stat().st_mtime >= begun]
    return {
        'files': sorted(path.relative_to(out).as_posix() for path in files),
        'seconds': round(time.time() - begun, 1),
        'commit': results.git_commit(),
    }


def share_devices(papers: tuple[str, ...], preset: str) -> None:
    """Make one device per core before JAX starts; every part uses as many of them as its preset asks for."""
    used = {(part.paper, part.preset) for part in parts(papers, preset)}
    use_host_devices(None, any(preset_config(*one).deterministic for one in used))


def read_done(record: pathlib.Path) -> dict[str, Any]:
    """What earlier calls made, by the names of parts."""
    done = read_json(record) if record.exists() else {}
    if not isinstance(done, dict) or not all(isinstance(one, dict) and one.keys() >= RECORDED for one in done.values()):
        raise UserError(f'{record}: is no record of what is made; delete it, and everything is made again')
    return done


def is_done(part: Part, done: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the code as it is has made a part; what files that differ from their commit made is not known."""
    if part.name not in done:
        return False
    commit = results.git_commit()
    return done[part.name]['commit'] == commit and not (commit or '').endswith(results.DIRTY)


def forecast(everything: Sequence[Part], done: Mapping[str, Mapping[str, Any]]) -> str:
    """How many parts there are to make and about how long that takes, as far as earlier calls or ``TIMES`` tell."""
    recorded = {**read_done(TIMES), **done}
    names = [part.name for part in everything if not is_done(part, done)]
    seconds = [recorded[name]['seconds'] for name in names if name in recorded]
    minutes = f'about {sum(seconds) / MINUTE:.0f} minutes' if seconds else ''
    without = len(names) - len(seconds)
    missing = f'{without} of them have no recorded time' if without else ''
    return ', '.join(filter(None, [f'{len(everything)} parts, {len(names)} to make', minutes, missing]))


def regenerate(papers: tuple[str, ...], preset: str, out: pathlib.Path, quiet: bool) -> None:
    """Make every part that is not yet done by this commit, with a line of progress for each."""
    everything, begun = list(parts(papers, preset)), time.time()
    make_folder(out)
    record = out / DONE
    done = read_done(record)
    print(forecast(everything, done), file=sys.stderr, flush=True)
    for number, part in enumerate(everything):
        if not is_done(part, done):
            told = f'[{number + 1}/{len(everything)}] {part.name}'
            print(told, file=sys.stderr, flush=True)
            done[part.name] = {**make(part, out, quiet), 'command': part.command}
            took = f'{done[part.name]["seconds"]:.0f} s, {(time.time() - begun) / MINUTE:.1f} minutes in all'
            print(f'{told}: {took}', file=sys.stderr, flush=True)
            results.write_json(record, done)
            jax.clear_caches()  # programs of one part serve no other, and their memory adds up
        publish(out / INDEX, index(done))
    print(f'written: {out / INDEX}')


def index(done: Mapping[str, Mapping[str, Any]]) -> str:
    """The page that leads to all tables and figures."""
    minutes = sum(one['seconds'] for one in done.values()) / MINUTE
    heads = ['part', 'command', 'seconds']
    rows = [[name, one['command'], f'{one["seconds"]:.0f}'] for name, one in done.items()]
    lists = [
        f'<h2>{as_html(name)}</h2><ul>'
        + ''.join(f'<li><a href="{as_html(file)}">{as_html(file)}</a></li>' for file in one['files'])
        + '</ul>'
        for name, one in done.items()
    ]
    return page(
        'Tables and figures of five papers',
        [
            '<h1>Tables and figures of five papers</h1>',
            f'<p>{len(done)} parts, {minutes:.0f} minutes.</p>',
            html_table(heads, rows),
            *lists,
        ],
    )


def chosen_papers(argv: list[str], values: flags.FlagValues) -> tuple[str, ...]:
    """The papers that the flag ``only`` names; refuses words that are no flags, and other papers."""
    if len(argv) > 1:
        raise UserError(f'{argv[1]!r} is no flag; flags have the form --name=value')
    if unknown := [paper for paper in values.only if paper not in PAPERS]:
        raise UserError(f'`only`={unknown[0]} {not_one_of(unknown[0], PAPERS)}')
    return tuple(values.only)


def main(argv: list[str]) -> None:
    """Check the flags, then regenerate, or write the claims."""
    values = flags.FLAGS
    with guarded(values):
        chosen = chosen_papers(argv, values)
        if values.claims:
            for path, text in claims_page.pages().items():
                publish(path, text)
                print(f'written: {path.relative_to(HERE.parent)}')
            return
        share_devices(chosen, values.preset)
        use_compilation_cache()
        regenerate(chosen, values.preset, pathlib.Path(values.out or f'runs/papers-{values.preset}'), values.quiet)


if __name__ == '__main__':
    flags.DEFINE_list('only', list(PAPERS), 'papers to regenerate')
    flags.DEFINE_enum('preset', 'smoke', PRESETS, 'how large the studies are')
    flags.DEFINE_string('out', '', 'folder of the results; by default runs/papers-PRESET')
    flags.DEFINE_bool('quiet', True, 'show no progress of single runs')
    flags.DEFINE_bool('claims', False, 'write docs/claims.md, and its summary in README, from recorded results')
    app.run(main)
