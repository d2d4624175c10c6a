"""One picture of all jobs: the fastest round of every side."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from fedjax_fair.viz.style import FAINT, PALETTE

COLOURS = {True: PALETTE[0], False: FAINT}  # ours, others


def draw(summaries: Sequence[Mapping[str, Any]], ours: str, path: pathlib.Path) -> None:
    """One panel per job, one bar per side, fastest first."""
    figure = Figure(figsize=(5.2 * len(summaries), 4.6), layout='constrained')
    panels = figure.subplots(1, len(summaries), squeeze=False)[0]
    for panel, summary in zip(panels, summaries, strict=True):
        seconds = {name: side['min_seconds'] for name, side in summary['sides'].items()}
        names = sorted(seconds, key=lambda name: seconds[name])
        bars = panel.barh(names, [seconds[name] for name in names], color=[COLOURS[name == ours] for name in names])
        panel.bar_label(bars, fmt='%.3g', padding=3, fontsize=8)
        panel.invert_yaxis()
        panel.margins(x=0.15)
        panel.spines[['top', 'right']].set_visible(False)
        panel.set_xlabel('minimum seconds per round, lower is better')
        panel.set_title(_title(summary), fontsize=9)
    figure.savefig(path, dpi=150)


def _title(summary: Mapping[str, Any]) -> str:
    job, host = summary['job'], summary['machine']
    return f'{job["name"]}: {job["title"].partition(",")[0]}\n{host["cores"]} cores'
