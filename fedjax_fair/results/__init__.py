"""The files of a run: one schema, written here while a run goes on and read here afterwards.

>>> import tempfile
>>> folder = tempfile.mkdtemp()
>>> log = History(folder)
>>> log.append([{'round': 1, 'seed': 0, 'global': {'avg': 0.5}}])
>>> rounds, values = series(history(folder), lambda line: line['global']['avg'])
>>> rounds.tolist(), values.tolist()
([1], [[0.5]])
"""

from fedjax_fair.results.captions import model_words, repeats_words, rounds_words, score_of
from fedjax_fair.results.choice import BY_TEST, BY_VALIDATION, SWEEP, chosen_point, write_sweep
from fedjax_fair.results.data_seeds import unit_name
from fedjax_fair.results.evaluations import (
    Curve,
    History,
    curve,
    evaluation_line,
    history,
    is_whole,
    mean_score,
    repair_finished,
    series,
    validation_scores,
)
from fedjax_fair.results.facts import (
    DIRTY,
    FACTS,
    git_commit,
    read_config,
    settings,
    versions,
    with_former_score,
    write_config,
)
from fedjax_fair.results.federation_facts import federation_facts
from fedjax_fair.results.files import CONFIG, FRONTIER, HISTORY, SUMMARY, TUNING, holds_run, point_name, write_json
from fedjax_fair.results.folders import frontiers, run_folders, tuning
from fedjax_fair.results.joining import joined_runs
from fedjax_fair.results.prediction_file import Predictions, example_scores, predictions
from fedjax_fair.results.run_description import head_facts
from fedjax_fair.results.runs import LeftOut, Run, load, load_readable, load_runs
from fedjax_fair.results.schema import MODEL_KINDS
from fedjax_fair.results.selection import SELECTIONS, reported
from fedjax_fair.results.summaries import make_summary, summary, write_summary
from fedjax_fair.results.tallies import costs, failure_lines, failure_words, never_sampled

__all__ = [
    'BY_TEST',
    'BY_VALIDATION',
    'CONFIG',
    'DIRTY',
    'FACTS',
    'FRONTIER',
    'HISTORY',
    'MODEL_KINDS',
    'SELECTIONS',
    'SUMMARY',
    'SWEEP',
    'TUNING',
    'Curve',
    'History',
    'LeftOut',
    'Predictions',
    'Run',
    'chosen_point',
    'costs',
    'curve',
    'evaluation_line',
    'example_scores',
    'failure_lines',
    'failure_words',
    'federation_facts',
    'frontiers',
    'git_commit',
    'head_facts',
    'history',
    'holds_run',
    'is_whole',
    'joined_runs',
    'load',
    'load_readable',
    'load_runs',
    'make_summary',
    'mean_score',
    'model_words',
    'never_sampled',
    'point_name',
    'predictions',
    'read_config',
    'repair_finished',
    'repeats_words',
    'reported',
    'rounds_words',
    'run_folders',
    'score_of',
    'series',
    'settings',
    'summary',
    'tuning',
    'unit_name',
    'validation_scores',
    'versions',
    'with_former_score',
    'write_config',
    'write_json',
    'write_summary',
    'write_sweep',
]
