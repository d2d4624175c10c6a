"""Tables, figures and an HTML page from run directories."""

from fedjax_fair.report.frontier import frontier_text
from fedjax_fair.report.head import head_lines, head_of
from fedjax_fair.report.html import write_report
from fedjax_fair.report.identical import identical_runs
from fedjax_fair.report.remarks import chance_level, did_not_learn, remarks_of
from fedjax_fair.report.table import Table, make_table, to_csv, to_markdown, to_rich
from fedjax_fair.report.tuning import tuning_text
from fedjax_fair.results import load_runs
from fedjax_fair.viz.figures import accuracy_over_rounds, client_distribution, fairness_plane, training_loss
from fedjax_fair.viz.frontier import frontier_figure

__all__ = [
    'Table',
    'accuracy_over_rounds',
    'chance_level',
    'client_distribution',
    'did_not_learn',
    'fairness_plane',
    'frontier_figure',
    'frontier_text',
    'head_lines',
    'head_of',
    'identical_runs',
    'load_runs',
    'make_table',
    'remarks_of',
    'to_csv',
    'to_markdown',
    'to_rich',
    'training_loss',
    'tuning_text',
    'write_report',
]
