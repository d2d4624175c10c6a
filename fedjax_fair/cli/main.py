"""The commands ``fedjax-fair run|compare|sweep|list|report|data``."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence

from absl import app, flags, logging
from rich.console import Console

from fedjax_fair.cli import data, listing, settings
from fedjax_fair.cli.mistakes import fail, one_line
from fedjax_fair.report import load_runs, make_table, to_rich, write_report
from fedjax_fair.training import Config, Interrupted, output, prepare
from fedjax_fair.training import run as train
from fedjax_fair.training.cache import use_compilation_cache
from fedjax_fair.training.setup import checked, use_host_devices
from fedjax_fair.training.sweep import grid_points

DEFAULT_RECIPES = 'fedavg,fedprox,scaffold,qfedavg,fedadam'


def run(values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """Run one recipe and write its results and report."""
    config = checked(settings.config_of(values, hyper))
    out = _out(values, 'run', config)
    _train(config, out, values)
    _show([out], out)


def compare(values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """Run several recipes under the same settings and compare them."""
    recipes = (values.recipes or DEFAULT_RECIPES).split(',')
    if len(set(recipes)) < len(recipes):
        raise ValueError(f'--recipes={",".join(recipes)} names a recipe twice')
    parts = {recipe: set(recipe.split('+')) for recipe in recipes}
    for name, value in hyper.items():
        if not any(name.partition('.')[0] in known for known in parts.values()):
            raise ValueError(f'--{name}={value}: no recipe in --recipes={",".join(recipes)} has this part')
    configs = []
    for recipe in recipes:
        own = {name: value for name, value in hyper.items() if name.partition('.')[0] in parts[recipe]}
        configs.append(checked(settings.config_of(values, own, recipe)))
    out = _out(values, 'compare', configs[0])
    output.check_out(out, resume=values.resume, overwrite=values.overwrite)
    use_host_devices(configs[0].devices)
    for config in configs:  # a mistake in the last recipe shows before the first one runs
        prepare(config)
    output.make_out(out, resume=values.resume)
    folders = [out / config.recipe for config in configs]
    for config, folder in zip(configs, folders, strict=True):
        _train(config, folder, values)
    _show(folders, out)


def sweep(values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """Run a grid of float hyper-parameters times all seeds as one compiled program."""
    grid = settings.grid_of(values.grid)
    if not grid:
        raise ValueError('sweep needs --grid=name=v1,v2,... such as --grid=fedprox.mu=0,0.01,0.1')
    config = checked(settings.config_of(values, hyper))
    points = grid_points(grid)
    out = _out(values, 'sweep', config)
    _train(config, out, values, points)
    _show([out / output.point_name(point) for point in points], out)


def list_(values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """List recipes with their hyper-parameters, scenarios and models."""
    print(listing.as_json() if values.json else listing.as_text())


def report(values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """Draw the report of the runs below --out again."""
    if values.out is None or not pathlib.Path(values.out).is_dir():
        raise ValueError(f'--out={values.out} must be a directory with results')
    out = pathlib.Path(values.out)
    folders = sorted(path.parent for path in out.rglob('summary.json'))
    if not folders:
        raise ValueError(f'--out={out} holds no finished run (no summary.json)')
    _show(folders, out)


COMMANDS: dict[str, Callable[[flags.FlagValues, dict[str, str]], None]] = {
    'run': run,
    'compare': compare,
    'sweep': sweep,
    'list': list_,
    'report': report,
}


def console() -> None:
    """Entry point of ``fedjax-fair COMMAND``."""
    words = sys.argv[1:]
    if not words or words[0] in (*settings.HELP, 'help'):
        described = {name: command.__doc__ for name, command in COMMANDS.items()} | {'data': data.data.__doc__}
        abouts = '\n'.join(f'  {name:8} {about}' for name, about in described.items())
        print(f'usage: fedjax-fair COMMAND [--flag=value ...]\n\ncommands (COMMAND --help shows the flags):\n{abouts}')
        sys.exit(0 if words else 2)
    if words[0] == 'data':  # has commands of its own, each with its own flags
        with guarded(flags.FlagValues()):
            sys.exit(data.data(words[1:]))
    if words[0] not in COMMANDS:
        fail(f'unknown command {words[0]!r}; choose one of {", ".join((*COMMANDS, "data"))}')
    binary(words[0], words[1:])


def binary(command: str, words: Sequence[str] | None = None) -> None:
    """Run one command as an absl program."""
    words = sys.argv[1:] if words is None else list(words)
    settings.define_flags(flags.FLAGS)
    if set(words) & set(settings.HELP):
        print(f'{COMMANDS[command].__doc__}\n\n{settings.help_text(command)}')
        sys.exit(0)
    hyper: dict[str, str] = {}

    def parser(argv: Sequence[str]) -> Sequence[str]:
        with one_line():
            hyper.update(settings.parse(argv[1:], flags.FLAGS, command))
        return argv[:1]

    app.run(
        lambda argv: execute(command, flags.FLAGS, hyper), argv=[f'fedjax-fair {command}', *words], flags_parser=parser
    )


def execute(command: str, values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """Run a command whose flags are parsed."""
    with guarded(values):
        COMMANDS[command](values, hyper)


@contextlib.contextmanager
def guarded(values: flags.FlagValues) -> Iterator[None]:
    """Around a program's work: mistakes and interruptions end in one line, and libraries keep quiet."""
    if 'verbosity' not in values or not values['verbosity'].present:
        logging.set_verbosity(logging.WARNING)  # absl programs show INFO, and libraries say a lot
    try:
        with one_line():
            yield
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Interrupted as stopped:
        print(f'fedjax-fair: {stopped}', file=sys.stderr)
        sys.exit(130)
    except KeyboardInterrupt:
        print('fedjax-fair: interrupted; --resume goes on from the last checkpoint, if any', file=sys.stderr)
        sys.exit(130)


def _out(values: flags.FlagValues, command: str, config: Config) -> pathlib.Path:
    name = config.scenario.partition(':')[0]
    return pathlib.Path(values.out or f'runs/{command}-{name}')


def _train(config: Config, out: pathlib.Path, values: flags.FlagValues, points: Sequence[dict] = ({},)) -> None:
    use_host_devices(config.devices)
    use_compilation_cache()
    train(
        config,
        out,
        points=points,
        resume=values.resume,
        overwrite=values.overwrite,
        quiet=values.quiet,
        profiled=values.profile,
    )


def _show(folders: Sequence[pathlib.Path], out: pathlib.Path) -> None:
    console = Console()
    if not console.is_terminal:  # a file or a pipe has room for all columns
        console = Console(width=240)
    console.print(to_rich(make_table(load_runs(folders)), width=console.width))
    print(f'report: {write_report(folders, out)}')
