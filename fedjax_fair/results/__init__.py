"""The files of a run: one schema, written here while a run goes on and read here afterwards.

>>> import tempfile
>>> folder = tempfile.mkdtemp()
>>> log = History(folder)
>>> log.append([{'round': 1, 'seed': 0, 'global': {'avg': 0.5}}])
>>> rounds, values = series(history(folder), lambda line: line['global']['avg'])
>>> rounds.tolist(), values.tolist()
([1], [[0.5]])
"""

from fedjax_fair.results.evaluations import Curve, History, curve, evaluation_line, history, mean_score, series
from fedjax_fair.results.facts import FACTS, git_commit, read_config, settings, versions, write_config
from fedjax_fair.results.federation_facts import federation_facts
from fedjax_fair.results.files import CONFIG, FRONTIER, HISTORY, SUMMARY, TUNING, holds_run, point_name, write_json
from fedjax_fair.results.folders import frontiers, run_folders, tuning
from fedjax_fair.results.head import head_facts
from fedjax_fair.results.joining import joined_runs
from fedjax_fair.results.prediction_file import Predictions, predictions
from fedjax_fair.results.runs import LeftOut, Run, load, load_readable, load_runs, score_of
from fedjax_fair.results.schema import MODEL_KINDS
from fedjax_fair.results.summaries import SELECTIONS, summary, write_summary
from fedjax_fair.results.tallies import costs, failure_lines, failure_words

__all__ = [
    'CONFIG',
    'FACTS',
    'FRONTIER',
    'HISTORY',
    'MODEL_KINDS',
    'SELECTIONS',
    'SUMMARY',
    'TUNING',
    'Curve',
    'History',
    'LeftOut',
    'Predictions',
    'Run',
    'costs',
    'curve',
    'evaluation_line',
    'failure_lines',
    'failure_words',
    'federation_facts',
    'frontiers',
    'git_commit',
    'head_facts',
    'history',
    'holds_run',
    'joined_runs',
    'load',
    'load_readable',
    'load_runs',
    'mean_score',
    'point_name',
    'predictions',
    'read_config',
    'run_folders',
    'score_of',
    'series',
    'settings',
    'summary',
    'tuning',
    'versions',
    'write_config',
    'write_json',
    'write_summary',
]
