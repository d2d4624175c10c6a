"""Tables, figures and an HTML page from run directories."""

from fedjax_fair.report.data_files import to_csv, to_json
from fedjax_fair.report.frontier import frontier_text
from fedjax_fair.report.head import head_lines, head_of
from fedjax_fair.report.html import draw_report, write_report
from fedjax_fair.report.identical_runs import identical_runs
from fedjax_fair.report.latex import to_latex
from fedjax_fair.report.markdown import to_markdown
from fedjax_fair.report.remarks import remarks_of, remarks_on
from fedjax_fair.report.table import Table, make_table, make_tables
from fedjax_fair.report.terminal import to_rich
from fedjax_fair.report.tuning import tuning_text
from fedjax_fair.report.verdict_paragraph import Verdict, verdict, verdict_of
from fedjax_fair.results import load_runs
from fedjax_fair.results.chance import chance_level, did_not_learn, unlearned
from fedjax_fair.viz.fairness import client_distribution, fairness_plane
from fedjax_fair.viz.figures import accuracy_over_rounds, training_loss
from fedjax_fair.viz.forest import forest
from fedjax_fair.viz.frontier import frontier_figure

__all__ = [
    'Table',
    'Verdict',
    'accuracy_over_rounds',
    'chance_level',
    'client_distribution',
    'did_not_learn',
    'draw_report',
    'fairness_plane',
    'forest',
    'frontier_figure',
    'frontier_text',
    'head_lines',
    'head_of',
    'identical_runs',
    'load_runs',
    'make_table',
    'make_tables',
    'remarks_of',
    'remarks_on',
    'to_csv',
    'to_json',
    'to_latex',
    'to_markdown',
    'to_rich',
    'training_loss',
    'tuning_text',
    'unlearned',
    'verdict',
    'verdict_of',
    'write_report',
]
