"""The commands, and how they fail: a user's mistake is one line on standard error and exit code 2."""

from __future__ import annotations

import itertools
import pathlib
import sys
from collections.abc import Callable, Sequence

from absl import app, flags
from rich.console import Console

from fedjax_fair.cli import listing, settings
from fedjax_fair.methods import resolve_hyper
from fedjax_fair.training.config import Config, check

USAGE = (
    'usage: fedjax-fair run|compare|sweep|list|report [--flag=value ...]; fedjax-fair COMMAND --help shows the flags'
)
DEFAULT_RECIPES = 'fedavg,fedprox,scaffold,qfedavg,fedadam'


def run(values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """Run one recipe and write its results and report."""
    config = _checked(settings.config_of(values, hyper))
    out = _out(values, 'run', config)
    _train(config, out, values)
    _show([out], out)


def compare(values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """Run several recipes under the same settings and compare them."""
    recipes = (values.recipes or DEFAULT_RECIPES).split(',')
    parts = {recipe: set(recipe.split('+')) for recipe in recipes}
    for name, value in hyper.items():
        if not any(name.partition('.')[0] in known for known in parts.values()):
            raise ValueError(f'--{name}={value}: no recipe in --recipes={",".join(recipes)} has this part')
    configs = []
    for recipe in recipes:
        own = {name: value for name, value in hyper.items() if name.partition('.')[0] in parts[recipe]}
        configs.append(_checked(settings.config_of(values, own, recipe)))
    out = _out(values, 'compare', configs[0])
    _claim(out, values)
    folders = [out / config.recipe for config in configs]
    for config, folder in zip(configs, folders, strict=True):
        _train(config, folder, values)
    _show(folders, out)


def sweep(values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """Run a grid of float hyper-parameters times all seeds as one compiled program."""
    grid = settings.grid_of(values.grid)
    if not grid:
        raise ValueError('sweep needs --grid=name=v1,v2,... such as --grid=fedprox.mu=0,0.01,0.1')
    config = _checked(settings.config_of(values, hyper))
    points = [dict(zip(grid, chosen, strict=True)) for chosen in itertools.product(*grid.values())]
    out = _out(values, 'sweep', config)
    from fedjax_fair.training.loop import point_name

    _train(config, out, values, points)
    _show([out / point_name(point) for point in points], out)


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


COMMANDS: dict[str, Callable] = {'run': run, 'compare': compare, 'sweep': sweep, 'list': list_, 'report': report}


def console() -> None:
    """Entry point of ``fedjax-fair COMMAND``."""
    words = sys.argv[1:]
    if not words or words[0] in ('-h', '--help', 'help'):
        print(USAGE)
        sys.exit(0 if words else 2)
    if words[0] not in COMMANDS:
        _fail(f'unknown command {words[0]!r}; choose one of {", ".join(COMMANDS)}')
    binary(words[0], words[1:])


def binary(command: str, words: Sequence[str] | None = None) -> None:
    """Run one command as an absl program."""
    words = sys.argv[1:] if words is None else list(words)
    hyper: dict[str, str] = {}

    def parser(argv: Sequence[str]) -> Sequence[str]:
        try:
            hyper.update(settings.parse(argv[1:], flags.FLAGS))
        except ValueError as error:
            _fail(str(error))
        return argv[:1]

    settings.define_flags(flags.FLAGS)
    app.run(
        lambda argv: _guarded(COMMANDS[command], hyper), argv=[f'fedjax-fair {command}', *words], flags_parser=parser
    )


def _guarded(command: Callable, hyper: dict[str, str]) -> None:
    from fedjax_fair.training.loop import Interrupted

    try:
        command(flags.FLAGS, hyper)
    except Interrupted as stopped:
        print(f'fedjax-fair: {stopped}', file=sys.stderr)
        sys.exit(130)
    except ValueError as error:
        if _is_internal(error):
            raise
        _fail(str(error))


def _is_internal(error: ValueError) -> bool:
    """Our own checks raise from fedjax_fair; an error from inside another package is a bug, and shows its traceback."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is None or 'fedjax_fair' not in last.tb_frame.f_code.co_filename


def _fail(message: str) -> None:
    print(f'fedjax-fair: error: {message}', file=sys.stderr)
    sys.exit(2)


def _checked(config: Config) -> Config:
    check(config)
    full = resolve_hyper(config.recipe, config.hyper)
    converted = {name: full[name.partition('.')[0]][name.partition('.')[2]] for name in config.hyper}
    return Config(**{**config.__dict__, 'hyper': converted})


def _out(values: flags.FlagValues, command: str, config: Config) -> pathlib.Path:
    name = config.scenario.partition(':')[0]
    return pathlib.Path(values.out or f'runs/{command}-{name}')


def _claim(out: pathlib.Path, values: flags.FlagValues) -> None:
    from fedjax_fair.training.loop import claim

    claim(out, resume=values.resume, overwrite=values.overwrite)


def _train(config: Config, out: pathlib.Path, values: flags.FlagValues, points: Sequence[dict] = ({},)) -> None:
    from fedjax_fair.training.loop import run as train
    from fedjax_fair.training.setup import use_host_devices

    use_host_devices(config.devices)
    train(config, out, points=points, resume=values.resume, overwrite=values.overwrite, quiet=values.quiet)


def _show(folders: Sequence[pathlib.Path], out: pathlib.Path) -> None:
    from fedjax_fair.report import load_runs, make_table, to_rich, write_report

    console = Console()
    console.print(to_rich(make_table(load_runs(folders)), width=console.width))
    print(f'report: {write_report(folders, out)}')
