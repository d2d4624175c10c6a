"""A report in one HTML file that loads nothing from outside, with the tables and figures beside it as files."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from fedjax_fair.escaping import as_html
from fedjax_fair.publishing import make_folder, publish
from fedjax_fair.report.costs import costs_section
from fedjax_fair.report.data_files import to_csv, to_json
from fedjax_fair.report.frontier import frontier_section
from fedjax_fair.report.head import head_of
from fedjax_fair.report.html_tables import results_part
from fedjax_fair.report.latex import to_latex
from fedjax_fair.report.markdown import to_markdown
from fedjax_fair.report.page import GUIDE, STYLE
from fedjax_fair.report.pictures import figures_part
from fedjax_fair.report.remarks import remarks_on, with_remarks
from fedjax_fair.report.table import Table, make_tables
from fedjax_fair.report.tuning import tuning_section
from fedjax_fair.results import LeftOut, Run, load_runs
from fedjax_fair.results.findings import MARGIN, Findings
from fedjax_fair.results.report_files import PAGE
from fedjax_fair.viz.frontier import Curves

FORMATS = {'tex': to_latex, 'csv': to_csv, 'json': to_json}  # by the ending of table.*, beside table.md


def write_report(
    run_dirs: Iterable[str | pathlib.Path],
    out: str | pathlib.Path,
    left_out: Sequence[LeftOut] = (),
    baseline: str | None = None,
    margin: float = MARGIN,
    swept: bool = False,
    metric: str | None = None,
) -> pathlib.Path:
    """Write the report of finished runs into ``out``; returns the path of report.html.

    Args:
        run_dirs: directories of finished runs, of one or several scenarios.
        out: a directory, made if need be.
        left_out: runs that the page names as left out, and why.
        baseline: the recipe that the others are compared with, by default the first of a scenario.
        margin: the smallest difference of interest, in points.
        swept: the runs are the points of a sweep. Figures show the one that validation data choose, if there are any.
        metric: another score than the one that runs say fairness is about, see :func:`~fedjax_fair.report.make_tables`.
    """
    return draw_report(make_tables(load_runs(run_dirs), baseline, margin, swept, metric), out, left_out)


def draw_report(
    tables: Sequence[Table],
    out: str | pathlib.Path,
    left_out: Sequence[LeftOut] = (),
    curves: Curves | None = None,
) -> pathlib.Path:
    """Write report.html, the tables as table.md, .tex, .csv and .json, and the figures as PNG into ``out``.

    Frontiers and the record of tuning that lie in ``out`` get sections of their own. ``curves`` are those frontiers,
    where they were read already.
    """
    out = make_folder(out)
    runs = [run for table in tables for run in table.found.runs]
    publish(out / 'table.md', with_remarks(to_markdown(*tables), *(table.found for table in tables)))
    for ending, text in FORMATS.items():
        publish(out / f'table.{ending}', text(*tables))
    parts = [
        _header(runs, tables),
        _left_out(left_out),
        *(_scenario(table, out) for table in tables),
        frontier_section(out, [table.found for table in tables], curves, tables[0].found.metric),
        tuning_section(out),
        GUIDE,
        costs_section(runs),
        _settings(runs),
    ]
    path = out / PAGE
    publish(path, page(f'Results: {", ".join(table.scenario for table in tables)}', parts))
    return path


def page(title: str, parts: Sequence[str]) -> str:
    """A whole page of these parts in the style of reports; it loads nothing."""
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<meta charset="utf-8">{view}<title>{as_html(title)}</title>'
    text = '\n'.join(parts)
    body = f'<body><main>\n{text}\n</main></body>'
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n{body}</html>\n'


def _header(runs: Sequence[Run], tables: Sequence[Table]) -> str:
    data_seeds = max(len(run.data_seeds) for run in runs)
    facts = [
        _count(len(runs), 'run'),
        _count(len(tables), 'scenario'),
        *([_count(data_seeds, 'data seed')] if data_seeds > 1 else []),
        _count(max(len(run.seeds) for run in runs), 'seed'),
        _count(max(run.summary['rounds'] for run in runs), 'round'),
    ]
    return f'<header><h1>Fair federated learning: results</h1><p class="lead">{as_html(" · ".join(facts))}</p></header>'


def _left_out(runs: Sequence[LeftOut]) -> str:
    """Runs that the page does not show, said before all numbers."""
    return f'<aside><b>Runs left out</b>{_list([run.sentence for run in runs])}</aside>' if runs else ''


def _remarks(found: Findings) -> str:
    """What a reader must know before believing the table."""
    sentences = remarks_on(found)
    return f'<aside class="remarks"><b>Remarks</b>{_list(sentences)}</aside>' if sentences else ''


def _list(sentences: Sequence[str]) -> str:
    return f'<ul>{"".join(f"<li>{as_html(sentence)}</li>" for sentence in sentences)}</ul>'


def _scenario(table: Table, out: pathlib.Path) -> str:
    runs = table.found.runs
    head = ''.join(f'<p class="head">{as_html(line)}</p>' for line in head_of(runs))
    title = f'<h2>{as_html(table.scenario)}</h2>{head}'
    return f'<section>{title}{results_part(table)}{_remarks(table.found)}{figures_part(table, out)}</section>'


def _settings(runs: Sequence[Run]) -> str:
    """Every setting of every run: the command, versions and commit among them."""
    blocks = []
    for run in runs:
        rows = ''.join(
            f'<tr><th>{as_html(name)}</th><td><code>{as_html(value)}</code></td></tr>'
            for name, value in _flat(run.config)
        )
        title = f'{as_html(run.label)} <span>{as_html(run.scenario)} · {as_html(run.path.name)}</span>'
        blocks.append(f'<details><summary>{title}</summary><table class="settings">{rows}</table></details>')
    return f'<section><h2>Settings, versions and commands</h2>{"".join(blocks)}</section>'


def _flat(value: dict[str, Any], prefix: str = '') -> list[tuple[str, str]]:
    """Nested settings as lines of dotted names and values."""
    lines: list[tuple[str, str]] = []
    for name, item in value.items():
        if isinstance(item, dict) and item:
            lines += _flat(item, f'{prefix}{name}.')
        else:
            lines.append((f'{prefix}{name}', item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)))
    return lines


def _count(count: int, noun: str) -> str:
    return f'{count} {noun}{"" if count == 1 else "s"}'
