"""Tables, figures and an HTML page from run directories."""

from fedjax_fair.report.html import write_report
from fedjax_fair.report.load import RunData, curve, load_run, load_runs
from fedjax_fair.report.plots import (
    accuracy_over_rounds,
    client_distribution,
    fairness_plane,
    save_png,
    training_loss,
)
from fedjax_fair.report.table import Table, make_table, to_csv, to_markdown, to_rich

__all__ = [
    'RunData',
    'Table',
    'accuracy_over_rounds',
    'client_distribution',
    'curve',
    'fairness_plane',
    'load_run',
    'load_runs',
    'make_table',
    'save_png',
    'to_csv',
    'to_markdown',
    'to_rich',
    'training_loss',
    'write_report',
]
