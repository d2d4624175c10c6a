"""What a reader must know before believing a table: one sentence each, to be put below it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fedjax_fair.core.idle import IdlePart
from fedjax_fair.escaping import as_markdown
from fedjax_fair.report.head import head_of
from fedjax_fair.report.identical_runs import identical_sentences
from fedjax_fair.report.training_remarks import diverges, losses_without_gain, overfits, scores_stand_still
from fedjax_fair.results import Run, failure_words
from fedjax_fair.results.captions import MODEL_WORDS
from fedjax_fair.results.chance import NOT_SHOWN, average_of, chance_level, interval_of_average, unlearned
from fedjax_fair.results.comparison import DIVERGED
from fedjax_fair.results.findings import Findings

CONSTANT = {'accuracy': 'always answering the most frequent class', 'balanced_accuracy': 'always answering one class'}


def remarks_on(*found: Findings) -> list[str]:
    """All remarks on the runs of some tables, without the test numbers that these hide."""
    return remarks_of([run for one in found for run in one.runs], [run for one in found for run in one.hidden])


def remarks_of(runs: Sequence[Run], hidden: Collection[Run] = ()) -> list[str]:
    """All remarks on some runs: what went wrong, what did not learn, what changes nothing, and which rows agree.

    Runs are named by their labels, and by their scenario too where there are several. No test score or test loss is
    told of those that are ``hidden``.
    """
    scenarios = list(dict.fromkeys(run.scenario for run in runs))
    sentences: list[str] = []
    for scenario in scenarios:
        own = [run for run in runs if run.scenario == scenario]
        told = [*dict.fromkeys(problem for run in own for problem in run.summary['problems'])]
        told += [sentence for run in own for sentence in _remarks(run, run in hidden)]
        told += identical_sentences(own)
        sentences += [f'{scenario}: {sentence}' for sentence in told] if len(scenarios) > 1 else told
    return sentences


def with_remarks(table: str, *found: Findings) -> str:
    """Tables in Markdown between the head of their runs and the remarks on them."""
    told = (head_of([run for one in found for run in one.runs]), remarks_on(*found))
    head, below = (''.join(f'- {as_markdown(line)}\n' for line in lines) for lines in told)
    return '\n'.join(filter(None, [head, table, below]))


def _remarks(run: Run, hidden: bool) -> list[str]:
    """The remarks on one run, without its test numbers if these are ``hidden``."""
    told = []
    if failures := failure_words(run.summary.get('failures') or {}):
        told.append(f'{run.label}: {failures}')
    for kind, words in MODEL_WORDS.items():
        if lost := diverges(run, kind):
            model = run.label if run.headline == kind else f'{words} of {run.label}'
            told.append(f'{model} {DIVERGED}: {lost}')
    if doubt := unlearned(run):
        model = run.label if run.headline == 'global' else f'the global model of {run.label}'
        told.append(f'{model} {doubt}: {_not_above(run, "global", hidden)}')
    doubt = unlearned(run, 'deployed')
    if doubt and average_of(run, 'deployed') != average_of(run, 'global'):
        told.append(f'the models that clients of {run.label} use {doubt}: {_not_above(run, "deployed", hidden)}')
    if not run.diverged() and (bad := _bad_training(run)):
        told.append(f'{run.label}: {bad}')
    if fitted := overfits(run, hidden):
        told.append(f'{run.label} over-fits: {fitted}')
    for part in (IdlePart(**remark) for remark in run.summary['remarks']):
        named = part.subject == run.label or part.subject.endswith(f' of {run.label}')
        told.append(part.sentence if named else f'{run.label}: {part.sentence}')
    return told


def _not_above(run: Run, kind: str, hidden: bool) -> str:
    average, chance = (100 * (level or 0.0) for level in (average_of(run, kind), chance_level(run, kind)))
    doubtful, ends = unlearned(run, kind) == NOT_SHOWN, interval_of_average(run, kind)
    numbers = f' {average:.1f} %'
    if doubtful and ends is not None:
        numbers += f' (95 % interval {100 * ends[0]:.1f} to {100 * ends[1]:.1f})'
    above = f'is not {"shown to be " if doubtful else ""}above {CONSTANT.get(run.score, "guessing")}'
    return f'AVG{"" if hidden else numbers} {above} ({chance:.1f} %)'


def _bad_training(run: Run) -> str:
    """How training stands still or goes astray, and what is to blame; empty where it does neither.

    What has learned something may simply be done.
    """
    losses, scores = losses_without_gain(run), scores_stand_still(run)
    if losses is None and not scores:
        return ''
    rate = 'the learning rate' if (lr := run.config.get('lr')) is None else f'the learning rate {lr:g}'
    blame = f'{rate} may be too small or too large, or training was over by then'
    if losses is not None and losses.rose:
        blame = f'{rate} {"is" if unlearned(run, run.headline) else "may be"} too large'
    elif losses is not None and unlearned(run, run.headline):
        blame = f'{rate} trains nothing'
    return f'{scores if losses is None else losses.words}; {blame}'
