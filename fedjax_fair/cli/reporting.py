"""What commands show at their end, and the commands that read finished runs: report and verdict."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

from absl import flags
from rich.console import Console

from fedjax_fair import results
from fedjax_fair.cli.settings import MARGIN_FLAG, METRIC_FLAG
from fedjax_fair.consoles import plain_console
from fedjax_fair.errors import UserError
from fedjax_fair.options import not_one_of
from fedjax_fair.publishing import behind_links, make_folder, publish, refuse_root
from fedjax_fair.report import (
    draw_report,
    frontier_text,
    head_of,
    load_runs,
    make_tables,
    remarks_on,
    to_rich,
    tuning_text,
    verdict_of,
)
from fedjax_fair.results.files import read_json
from fedjax_fair.results.findings import MARGIN
from fedjax_fair.results.report_files import TABLE


def show(
    folders: Sequence[pathlib.Path],
    out: pathlib.Path,
    left_out: Sequence[results.LeftOut] = (),
    baseline: str | None = None,
    margin: float = MARGIN,
    swept: bool = False,
    metric: str | None = None,
) -> None:
    """Print the tables of runs with what they are about above and remarks below, and write their report."""
    console = plain_console()
    if not console.is_terminal:  # a file or a pipe has room for all columns
        console = plain_console(width=240)
    if tuned := tuning_text(out):
        print(tuned)
    tables = make_tables(load_runs(folders), baseline, margin, swept, metric)
    for table in tables:
        _print_lines(console, head_of(table.found.runs))
        console.print(to_rich(table, console.width))
    _print_lines(console, [*remarks_on(*(table.found for table in tables)), *(run.sentence for run in left_out)])
    curves = results.frontiers(out)
    if told := frontier_text(out, curves, tables[0].found.metric):
        print(told)
    print(f'report: {draw_report(tables, out, left_out, curves)}')


def _print_lines(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(line, soft_wrap=True)


def margin_of(values: flags.FlagValues, recipes: Sequence[str] | None = None) -> float:
    """The margin that was asked for, in points; refuses a baseline that is not among ``recipes``."""
    if recipes is not None and values.baseline is not None and values.baseline not in recipes:
        raise UserError(f'`baseline`={values.baseline!r} {not_one_of(values.baseline, recipes, repr)}')
    return MARGIN_FLAG.parse(values.margin)


def metric_of(values: flags.FlagValues) -> str | None:
    """The score that was asked for in place of that of the runs."""
    metric = None if values.metric is None else METRIC_FLAG.parse(values.metric)
    if metric is not None and 'keep_predictions' in values and values.keep_predictions is False:
        raise UserError(f'`metric`={metric} needs what every test example got; leave out `keep_predictions`=false')
    return metric


def report(values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """Draw the report of the runs below --out again."""
    if values.out is None or not pathlib.Path(values.out).is_dir():
        raise UserError(f'`out`={values.out} must be a directory with results')
    out = pathlib.Path(values.out)
    refuse_root(out, out)
    margin, earlier = margin_of(values), _earlier(out)
    runs, left_out = results.load_readable(results.run_folders(out))
    if not runs:
        why = f': {left_out[0].sentence}' if left_out else f' (no {results.SUMMARY})'
        raise UserError(f'`out`={out} holds no finished run{why}')
    folders = [folder for run in runs for folder in (run.path, *run.more)]
    order = {folder: place for place, folder in enumerate(earlier.get('folders', []))}
    folders.sort(key=lambda folder: order.get(str(folder.resolve()), len(order)))
    if not values['margin'].present:
        margin = earlier.get('margin', margin)
    known = {name for run in runs for name in (run.label, run.summary['recipe'])}
    before = earlier.get('baseline')
    show(
        folders,
        out,
        left_out,
        values.baseline or (before if before in known else None),
        margin,
        (out / results.SWEEP).exists(),
        metric_of(values) or _unless_recorded(earlier.get('score'), runs),
    )


def _unless_recorded(score: Any, runs: Sequence[results.Run]) -> str | None:
    """The score of the report that is there, if it was asked for: the runs say another one."""
    asked = score in METRIC_FLAG.choices and score not in [run.score for run in runs]
    return score if asked else None


def _earlier(out: pathlib.Path) -> dict[str, Any]:
    """Order of runs, baseline, margin and score of the report that is there; nothing where there is none."""
    try:
        scenarios = read_json(out / TABLE)['scenarios']
        folders = [
            str(pathlib.Path(path).resolve()) for one in scenarios for r in one['recipes'] for path in r['folders']
        ]
        first = scenarios[0]
        return {'folders': folders, 'baseline': first['baseline'], 'margin': first['margin'], 'score': first['score']}
    except (UserError, KeyError, IndexError, TypeError):
        return {}


def verdict(values: flags.FlagValues, hyper: dict[str, str]) -> None:
    """Say whether one run is better or fairer than another: verdict RUN_A RUN_B [--margin=1.0] [--json]."""
    if len(values.runs) < 2:
        raise UserError('verdict needs two run directories: fedjax-fair verdict RUN_A RUN_B')
    margin, metric = margin_of(values), metric_of(values)
    found = verdict_of(load_runs(values.runs), margin, metric)
    print(found.to_json() if values.json else found.text, end='' if values.json else '\n')
    if values.out is not None:
        path = behind_links(values.out)
        make_folder(path.parent)
        publish(path, found.to_json())
