"""The figures of the HTML report: drawn inside the page, and beside it as PNG."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fedjax_fair.escaping import as_html
from fedjax_fair.foreign import check_files, check_room
from fedjax_fair.report.pieces import DPI, image
from fedjax_fair.report.table import Table
from fedjax_fair.report.verdict_words import points
from fedjax_fair.results import SUMMARY, Run, model_words, score_of
from fedjax_fair.results.findings import Findings, findings
from fedjax_fair.results.recalls import class_recalls
from fedjax_fair.results.report_files import FEW_GROUPS, figure_file
from fedjax_fair.viz import fairness, figures, heatmaps, save
from fedjax_fair.viz.forest import forest, is_drawn
from fedjax_fair.viz.inline import svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE = 7.5  # inches; a wider figure has a row of its own
LARGEST_SVG = 400_000  # characters; a larger figure is a PNG in the page too
FOREST = (
    'the thick bar is the 90 % interval, the thin one the 95 % interval, the band the margin of {margin}. Bars on the '
    'right: the share of the variance that seeds (left part) and test patients (right part) cause.'
)


def figures_part(table: Table, out: pathlib.Path) -> str:
    """All figures of a scenario for the page; they are saved in ``out`` too."""
    found = table.found if table.found.chosen is None else _chosen(table.found, table.found.chosen)
    parts = [
        drawing(figure, out / figure_file(table.scenario, name), name, caption)
        for name, caption, figure in drawn(found)
    ]
    return '<div class="figures">' + ''.join([*parts, *(_own(run) for run in found.runs)]) + '</div>'


def _chosen(found: Findings, place: int) -> Findings:
    return findings([found.runs[place]], metric=found.metric)


def drawn(found: Findings) -> Iterator[tuple[str, str, Figure]]:
    """Name, caption and figure of everything that these runs allow to draw."""
    runs, score, recorded = found.runs, found.score, score_of(found.runs)
    yield from _forests(found)
    if len(runs) > 1:
        about = f'Mean and raw worst {score}: runs on the dotted line are beaten by no other in both.'
        yield 'plane', f'{about} {_ellipse_words(found)}'.strip(), fairness.fairness_plane(runs, found)
    yield from _clients(found)
    if (sites := heatmaps.site_map(found)) is not None:
        yield 'sites', f'{score[:1].upper()}{score[1:]} by {found.over.removesuffix("s")}, %.', sites
    recalls = class_recalls(runs)
    if recalls is not None and recalls.shape[1] <= heatmaps.MOST_COLUMNS:
        names = _class_names(runs, recalls.shape[1])
        about = 'Recall by class, %: the share of all test examples of a class that are recognised.'
        yield 'classes', about, heatmaps.heat_map([run.label for run in runs], names, recalls)
    band = figures.band_words(runs)
    yield 'accuracy', f'{recorded[:1].upper()}{recorded[1:]} over rounds. {band}', figures.accuracy_over_rounds(runs)
    yield 'loss', f'Training loss over rounds. {band}', figures.training_loss(runs)


def _class_names(runs: Sequence[Run], count: int) -> list[str]:
    """The names that the source gives to its classes, else their numbers."""
    for run in runs:
        if len(names := run.summary.get('class_names') or ()) == count:
            return list(names)
    return [f'class {k}' if count <= heatmaps.ROOM else str(k) for k in range(count)]


def _forests(found: Findings) -> Iterator[tuple[str, str, Figure]]:
    keys = ['avg', 'spread', *(one.key for one in found.units if len(found.units) <= FEW_GROUPS)]
    for number, key in enumerate(key for key in keys if key in found.measures):
        measure = found.measures[key]
        if any(map(is_drawn, measure.differences)):
            more = FOREST.format(margin=points(found.margin)) if number == 0 else 'bars as above.'
            name = 'forest_' + (key if key in ('avg', 'spread') else f'site{number - 1}')
            yield name, f'{measure.name}: difference with {found.base.label}; {more}', forest(found, key)


def _ellipse_words(found: Findings) -> str:
    seeds = 0 if found.comparison is None else len(found.comparison.seeds)
    if seeds < fairness.FEWEST_SEEDS:
        return 'No ellipses: they need predictions and three seeds.'
    return (
        'Ellipses hold the truth with 95 %, for new seeds and new patients. Front: the chance that a run is on the '
        'line; it describes and is no test.'
    )


def _clients(found: Findings) -> Iterator[tuple[str, str, Figure]]:
    runs, dots = found.runs, 'a dot per client (mean over seeds), boxes are quartiles.'
    bars = 'Bars are one standard error from the choice of test patients.' if found.comparison else ''
    whose = model_words(runs)
    about = ' '.join(filter(None, (f'Clients at the end: {dots}', bars, f'{whose}.' if whose else '')))
    yield 'clients', about, fairness.client_distribution(runs, found=found)
    others = {'global': bool(whose), 'adapted': any(run.differs('adapted') for run in runs)}
    for kind in (kind for kind, shown in others.items() if shown and found.metric is None):
        about = f'Clients at the end, {kind} model: {dots}'
        yield f'clients_{kind}', about, fairness.client_distribution(runs, kind, found)


def drawing(figure: Figure, path: pathlib.Path, name: str, caption: str) -> str:
    """A figure of the page in its colours, with its caption; it is saved as PNG too."""
    save(figure, path, DPI)
    figure.set_layout_engine('none')  # the layout stands
    text = svg(figure)
    wide = ' wide' if figure.get_figwidth() > WIDE else ''
    if len(text) > LARGEST_SVG:
        return image(path, name, caption, figure.get_figwidth())
    plot = f'<div class="plot{wide}" role="img" aria-label="{as_html(caption)}">{text}</div>'
    return f'<figure class="{name}{wide}">{plot}<figcaption>{as_html(caption)}</figcaption></figure>'


def _own(run: Run) -> str:
    """The pictures a run drew itself, of what its model sees in test images for example."""
    pictures = run.summary.get('pictures') or {}
    check_files(run.folders[0], pictures, f'{run.folders[0] / SUMMARY}: pictures')
    known = [(run.folders[0] / name, about) for name, about in pictures.items()]
    there = [(path, about) for path, about in known if path.is_file()]
    for path, _ in there:
        check_room(path.stat().st_size, f'{path}')
    return ''.join(image(path, path.stem, f'{run.label}: {about}') for path, about in there)
