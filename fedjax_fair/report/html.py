"""A report in one HTML file that loads nothing from outside, with the table and figures beside it as files."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from fedjax_fair.report.costs import costs_section
from fedjax_fair.report.frontier import frontier_section
from fedjax_fair.report.head import head_of
from fedjax_fair.report.page import GUIDE, STYLE
from fedjax_fair.report.pieces import DPI, image
from fedjax_fair.report.remarks import remarks_of, with_remarks
from fedjax_fair.report.table import ARROWS, Table, cell_text, make_table, row_names, to_csv, to_markdown
from fedjax_fair.report.tuning import tuning_section
from fedjax_fair.results import LeftOut, Run, chosen_point, load_runs, model_words, score_of
from fedjax_fair.viz import figures as draw
from fedjax_fair.viz import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_report(
    run_dirs: Iterable[str | pathlib.Path],
    out: str | pathlib.Path,
    left_out: Sequence[LeftOut] = (),
    swept: bool = False,
) -> pathlib.Path:
    """Write report.html, table.md, table.csv and the figures as PNG into ``out``; returns the path of report.html.

    Frontiers and the record of tuning that lie in ``out`` get sections of their own.

    Args:
        run_dirs: directories of finished runs, of one or several scenarios.
        out: a directory, made if need be.
        left_out: runs that the page names as left out, and why.
        swept: the runs are the points of a sweep. Figures show the one that validation data choose, if there are any.
    """
    runs, out = load_runs(run_dirs), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    table = make_table(runs, swept)
    (out / 'table.md').write_text(with_remarks(to_markdown(table), runs), encoding='utf-8')
    (out / 'table.csv').write_text(to_csv(table), encoding='utf-8')
    scenarios = list(dict.fromkeys(run.scenario for run in runs))
    sections = [_scenario(scenario, [r for r in runs if r.scenario == scenario], out, swept) for scenario in scenarios]
    more = [frontier_section(out, runs), tuning_section(out)]
    parts = [
        _header(runs, scenarios),
        _left_out(left_out),
        *sections,
        *more,
        GUIDE,
        costs_section(runs),
        _settings(runs),
    ]
    page = out / 'report.html'
    page.write_text(_page(f'Results: {", ".join(scenarios)}', parts), encoding='utf-8')
    return page


def _page(title: str, parts: Sequence[str]) -> str:
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    text = '\n'.join(parts)
    body = f'<body><main>\n{text}\n</main></body>'
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n{body}</html>\n'


def _header(runs: Sequence[Run], scenarios: Sequence[str]) -> str:
    data_seeds = max(len(run.data_seeds) for run in runs)
    facts = [
        _count(len(runs), 'run'),
        _count(len(scenarios), 'scenario'),
        *([_count(data_seeds, 'data seed')] if data_seeds > 1 else []),
        _count(max(len(run.seeds) for run in runs), 'seed'),
        _count(max(run.summary['rounds'] for run in runs), 'round'),
    ]
    return f'<header><h1>Fair federated learning: results</h1><p class="lead">{" · ".join(facts)}</p></header>'


def _left_out(runs: Sequence[LeftOut]) -> str:
    """Runs that the page does not show, said before all numbers."""
    return f'<aside><b>Runs left out</b>{_list([run.sentence for run in runs])}</aside>' if runs else ''


def _remarks(runs: Sequence[Run]) -> str:
    """What a reader must know before believing the table."""
    sentences = remarks_of(runs)
    return f'<aside class="remarks"><b>Remarks</b>{_list(sentences)}</aside>' if sentences else ''


def _list(sentences: Sequence[str]) -> str:
    return f'<ul>{"".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)}</ul>'


def _scenario(scenario: str, runs: Sequence[Run], out: pathlib.Path, swept: bool) -> str:
    table = make_table(runs, swept)
    chosen = chosen_point([run.validation for run in runs]) if swept else None
    shown = runs if chosen is None else [runs[chosen]]
    figures = ''.join(_figure(figure, name, caption, scenario, out) for name, caption, figure in _figures(shown))
    figures += ''.join(_pictures(run) for run in shown)
    title = f'<h2>{escape(scenario)}</h2>' + ''.join(f'<p class="head">{escape(line)}</p>' for line in head_of(runs))
    below = f'{_legend(table)}{_remarks(runs)}<div class="figures">{figures}</div>'
    return f'<section>{title}{_table(table)}{below}</section>'


def _figures(runs: Sequence[Run]) -> list[tuple[str, str, Figure]]:
    band = 'Bands and bars are ± one standard deviation over seeds.' if any(r.repeats > 1 for r in runs) else ''
    score = score_of(runs)
    name = score[:1].upper() + score[1:]
    figures = [
        ('plane', f'{name} and fairness: runs on the dotted line are beaten by no other in both. {band}',
         draw.fairness_plane(runs)),
        ('accuracy', f'{name} over rounds. {band}', draw.accuracy_over_rounds(runs)),
    ]  # fmt: skip
    whose = model_words(runs)
    dots = 'a dot per client (mean over seeds), boxes are quartiles.'
    caption = f'Clients at the end: {dots} {whose}'.strip()
    figures.append(('clients', caption, draw.client_distribution(runs)))
    others = {'global': bool(whose), 'adapted': any(run.differs('adapted') for run in runs)}
    for kind in (kind for kind, shown in others.items() if shown):
        caption = f'Clients at the end, {kind} model: {dots}'
        figures.append((f'clients_{kind}', caption, draw.client_distribution(runs, kind)))
    return [*figures, ('loss', f'Training loss over rounds. {band}', draw.training_loss(runs))]


def _figure(figure: Figure, name: str, caption: str, scenario: str, out: pathlib.Path) -> str:
    stem = re.sub(r'[^A-Za-z0-9._-]+', '_', scenario).strip('._') or 'scenario'
    return image(save(figure, out / f'{stem}_{name}.png', DPI), name, caption)


def _pictures(run: Run) -> str:
    """The pictures a run drew itself, of what its model sees in test images for example."""
    known = [(run.folders[0] / name, about) for name, about in (run.summary.get('pictures') or {}).items()]
    return ''.join(image(path, path.stem, f'{run.label}: {about}') for path, about in known if path.is_file())


def _table(table: Table) -> str:
    heads = [f'<th>{escape(head)}</th>' for head in table.heads]
    heads += [
        f'<th title="{escape(c.about)}">{escape(c.name)}{ARROWS[c.better].replace(" ", "&nbsp;")}</th>'
        for c in table.columns
    ]
    rows = []
    for row in table.rows:
        cells = [f'<th>{escape(name)}</th>' for name in row_names(table, row)]
        for column, cell in zip(table.columns, row.cells, strict=True):
            cells.append(f'<td{" class=best" if cell.best else ""}>{escape(cell_text(column, cell))}</td>')
        rows.append(f'<tr>{"".join(cells)}</tr>')
    return (
        f'<div class="wide"><table><thead><tr>{"".join(heads)}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _legend(table: Table) -> str:
    told = '; '.join(f'<b>{escape(column.name)}</b> {escape(column.about)}' for column in table.columns)
    marks = '↑ higher is better, ↓ lower is better; the best value is <span class="best">marked</span>'
    notes = ''.join(f'<p class="note"><b>{escape(note)}</b></p>' for note in table.notes)
    return f'{notes}<p class="note">{told}. {marks}.</p>'


def _settings(runs: Sequence[Run]) -> str:
    """Every setting of every run: the command, versions and commit among them."""
    blocks = []
    for run in runs:
        rows = ''.join(
            f'<tr><th>{escape(name)}</th><td><code>{escape(value)}</code></td></tr>'
            for name, value in _flat(run.config)
        )
        title = f'{escape(run.label)} <span>{escape(run.scenario)} · {escape(run.path.name)}</span>'
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
