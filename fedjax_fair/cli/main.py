"""The commands ``fedjax-fair run|compare|sweep|tune|plan|list|report|verdict|data|check-method``."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import logging as python_logging
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import app, flags, logging

from fedjax_fair import planning
from fedjax_fair.cli import data, listing, reporting, settings
from fedjax_fair.cli.check_method import check_method
from fedjax_fair.cli.help import asks_for_help, help_text
from fedjax_fair.cli.mistakes import fail, one_line, output_may_fail
from fedjax_fair.errors import UserError
from fedjax_fair.interruption import exit_code, of_program
from fedjax_fair.options import Option, not_one_of
from fedjax_fair.results import holds_run, point_name
from fedjax_fair.training import Config, Interrupted, run_data_seeds, use_compilation_cache, use_host_devices
from fedjax_fair.training import compare as run_all
from fedjax_fair.training import run as train
from fedjax_fair.training import tune as search
from fedjax_fair.training.grid import grid_points
from fedjax_fair.training.tuning import FINAL, tuned_folder

DEFAULT_RECIPES = 'fedavg,fedprox,scaffold,qfedavg,fedadam'


def run(values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """Run one recipe and write its results and report."""
    config = settings.config_of(values, hyper)
    out, data_seeds = _out(values, 'run', config), settings.data_seeds_of(values)
    if data_seeds is None:
        _train(config, out, values)
    elif values.profile:
        raise UserError('`profile` traces one run; leave out `data_seeds`')
    else:
        _start(config)
        run_data_seeds(config, out, data_seeds, **_how(values))
    reporting.show([out], out)


def compare(values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """Run several recipes under the same settings and compare them."""
    metric = reporting.metric_of(values)
    recipes, margin, config, out = _comparison(values, hyper, 'compare')
    frontiers, data_seeds = settings.grid_of(values.frontier, 'frontier'), settings.data_seeds_of(values)
    run_all(config, recipes, out, frontiers=frontiers, data_seeds=data_seeds, metric=metric, **_how(values))
    folders = [out / recipe for recipe in recipes]
    reporting.show(folders, out, baseline=values.baseline, margin=margin, metric=metric)


def _comparison(
    values: flags.FlagValues, hyper: dict[str, str], command: str, runs: str = ''
) -> tuple[list[str], float, Config, pathlib.Path]:
    """Recipes, margin, settings and output folder of a command that compares; ``runs`` is the folder of its runs."""
    recipes = (values.recipes or DEFAULT_RECIPES).split(',')
    margin = reporting.margin_of(values, recipes)
    config = settings.config_of(values, hyper)
    out = _out(values, command, config)
    if not values['seeds'].present:
        config = dataclasses.replace(config, seeds=_compared_seeds(out / runs, recipes, values.resume))
    _start(config)
    return recipes, margin, config, out


def _compared_seeds(out: pathlib.Path, recipes: Sequence[str], resume: bool) -> tuple[int, ...]:
    """Five seeds, or those with which a comparison to resume was started."""
    started = [out / recipe for recipe in recipes if resume and holds_run(out / recipe)]
    return Config.of_run(started[0]).seeds if started else settings.COMPARED_SEEDS


def sweep(values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """Run a grid of float hyper-parameters times all seeds as one compiled program."""
    grid = settings.grid_of(values.grid)
    if not grid:
        raise UserError('sweep needs `grid`=name=v1,v2,... such as `grid`=fedprox.mu=0,0.01,0.1')
    config, points = settings.config_of(values, hyper), grid_points(grid)
    out = _out(values, 'sweep', config)
    _train(config, out, values, points)
    reporting.show([out / point_name(point) for point in points], out, swept=True)


def tune(values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """Tune recipes with the same budget on validation data, then compare them as given and as tuned."""
    recipes, margin, config, out = _comparison(values, hyper, 'tune', FINAL)
    search(config, recipes, out, **settings.tuning_of(values), **_how(values))
    finals = [out / FINAL / recipe for recipe in recipes]
    folders = [folder for final in finals for folder in (final, tuned_folder(final))]
    reporting.show(folders, out, baseline=values.baseline, margin=margin)


def plan(values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """Tell what a run would take on a machine that need not be there: memory, time and traffic."""
    if not values.topology:
        raise UserError('plan needs `topology`, such as `topology`=v5e:2x4, `topology`=gpu:4 or `topology`=cpu:8')
    there = planning.topology(values.topology, settings.memory_of(values))
    found = planning.plan(settings.config_of(values, hyper), there, values.shapes)
    print(json.dumps(dataclasses.asdict(found), indent=2) if values.json else planning.in_words_of(found))


def list_(values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """List recipes with their hyper-parameters, scenarios, models and more; list NAME explains one of them."""
    if values.name:
        print(listing.explained(values.name))
    else:
        print(listing.as_json() if values.json else listing.as_text())


COMMANDS: dict[str, Callable[[flags.FlagValues, dict[str, str]], int | None]] = {
    'run': run,
    'compare': compare,
    'sweep': sweep,
    'tune': tune,
    'plan': plan,
    'list': list_,
    'report': reporting.report,
    'verdict': reporting.verdict,
    'check-method': check_method,
}


def console() -> None:
    """Entry point of ``fedjax-fair COMMAND``."""
    words = sys.argv[1:]
    with output_may_fail():
        if not words or words[0] == 'help' or asks_for_help(words[0]):
            print(_usage())
            sys.exit(0 if words else 2)
        if words[0] == 'data':  # has commands of its own, each with its own flags
            with guarded(flags.FlagValues()):
                sys.exit(data.data(words[1:]))
        if words[0] not in COMMANDS:
            fail(f'command {words[0]!r} {not_one_of(words[0], (*COMMANDS, "data"))}')
        binary(words[0], words[1:])


def _usage() -> str:
    described = {name: command.__doc__ or '' for name, command in COMMANDS.items()} | {'data': data.data.__doc__ or ''}
    abouts = '\n'.join(f'  {name:12} {about}' for name, about in described.items())
    return f'usage: fedjax-fair COMMAND [--flag=value ...]\n\ncommands (COMMAND --help shows the flags):\n{abouts}'


def binary(command: str, words: Sequence[str] | None = None) -> None:
    """Run one command as an absl program."""
    words = sys.argv[1:] if words is None else list(words)
    if any(map(asks_for_help, words)):
        with output_may_fail(), one_line():
            settings.load_plugins(settings.expanded([*itertools.filterfalse(asks_for_help, words)], command))
            print(f'{COMMANDS[command].__doc__}\n\n{help_text(command)}')
            sys.exit(0)
    hyper: dict[str, str] = {}

    def parser(argv: Sequence[str]) -> Sequence[str]:
        with one_line():
            hyper.update(settings.parse(argv[1:], flags.FLAGS, command))
        return argv[:1]

    app.run(
        lambda argv: execute(command, flags.FLAGS, hyper), argv=[f'fedjax-fair {command}', *words], flags_parser=parser
    )


def program(
    work: Callable[[Config, dict[str, str], flags.FlagValues], None],
    own: Sequence[Option] = (),
    words_of: Callable[[list[str]], list[str]] = lambda words: words,
) -> None:
    """Run an absl program that has all flags of a run, and some of its ``own``.

    ``work(config, hyper, values)`` gets the settings, the hyper-parameters ``part.key`` as texts, and the values of all
    flags. ``words_of`` may put words before those that the user gives, such as the file of a preset.
    """
    values, hyper = flags.FLAGS, {}
    settings.define_flags(values)
    for option in own:
        settings.define_flag(option, values)

    def parser(argv: Sequence[str]) -> Sequence[str]:
        with guarded(values):
            hyper.update(settings.parse(words_of(list(argv[1:])), values))
            for option in own:
                option.check(values[option.name].value)
        return argv[:1]

    def main(argv: Sequence[str]) -> None:
        with guarded(values):
            work(settings.config_of(values, {}), hyper, values)

    app.run(main, argv=list(sys.argv), flags_parser=parser)


def execute(command: str, values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """Run a command whose flags are parsed."""
    with guarded(values):
        if code := COMMANDS[command](values, hyper):
            sys.exit(code)


@contextlib.contextmanager
def guarded(values: flags.FlagValues) -> Iterator[None]:
    """Around a program's work: mistakes and interruptions end in one line, and libraries keep quiet."""
    if 'verbosity' not in values or not values['verbosity'].present:
        logging.set_verbosity(logging.WARNING)  # absl programs show INFO, and libraries say a lot
        python_logging.getLogger('matplotlib').setLevel(python_logging.ERROR)  # of folders for its fonts, for instance
    try:
        with of_program(), output_may_fail(), one_line():
            yield
    except Interrupted as stopped:
        print(f'fedjax-fair: {stopped.with_flags()}', file=sys.stderr)
        sys.exit(stopped.exit_code)
    except KeyboardInterrupt as stop:
        print('fedjax-fair: interrupted; --resume goes on from the last checkpoint, if any', file=sys.stderr)
        sys.exit(exit_code(stop))


def _out(values: flags.FlagValues, command: str, config: Config) -> pathlib.Path:
    name = config.scenario.partition(':')[0]
    return pathlib.Path(values.out or f'runs/{command}-{name}')


def _start(config: Config) -> None:
    use_host_devices(config.devices, config.deterministic)
    use_compilation_cache()


def _train(config: Config, out: pathlib.Path, values: flags.FlagValues, points: Sequence[dict] = ({},)) -> None:
    _start(config)
    train(config, out, points=points, profiled=values.profile, **_how(values))


def _how(values: flags.FlagValues) -> dict[str, Any]:
    return {name: getattr(values, name) for name in ('resume', 'overwrite', 'quiet')}
