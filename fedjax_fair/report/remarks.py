"""What a reader must know before believing a table: one sentence each, to be put below it."""

from __future__ import annotations

from collections.abc import Sequence

from fedjax_fair.core.idle import IdlePart
from fedjax_fair.escaping import as_markdown
from fedjax_fair.report.head import head_of
from fedjax_fair.report.identical_runs import identical_sentences
from fedjax_fair.report.training_remarks import diverges, loss_stands_still, overfits, scores_stand_still
from fedjax_fair.results import Run, failure_words
from fedjax_fair.results.captions import MODEL_WORDS
from fedjax_fair.results.chance import NOT_SHOWN, average_of, chance_level, interval_of_average, unlearned
from fedjax_fair.results.comparison import DIVERGED

CONSTANT = {'accuracy': 'always answering the most frequent class', 'balanced_accuracy': 'always answering one class'}


def remarks_of(runs: Sequence[Run]) -> list[str]:
    """All remarks on some runs: what went wrong, what did not learn, what changes nothing, and which rows agree.

    Runs are named by their labels, and by their scenario too where there are several.
    """
    scenarios = list(dict.fromkeys(run.scenario for run in runs))
    sentences: list[str] = []
    for scenario in scenarios:
        own = [run for run in runs if run.scenario == scenario]
        told = [*dict.fromkeys(problem for run in own for problem in run.summary['problems'])]
        told += [sentence for run in own for sentence in _remarks(run)]
        told += identical_sentences(own)
        sentences += [f'{scenario}: {sentence}' for sentence in told] if len(scenarios) > 1 else told
    return sentences


def with_remarks(table: str, runs: Sequence[Run]) -> str:
    """A table in Markdown between the head of its runs and the remarks on them."""
    head, below = (''.join(f'- {as_markdown(line)}\n' for line in lines) for lines in (head_of(runs), remarks_of(runs)))
    return '\n'.join(filter(None, [head, table, below]))


def _remarks(run: Run) -> list[str]:
    """The remarks on one run."""
    told = []
    if failures := failure_words(run.summary.get('failures') or {}):
        told.append(f'{run.label}: {failures}')
    for kind, words in MODEL_WORDS.items():
        if lost := diverges(run, kind):
            model = run.label if run.headline == kind else f'{words} of {run.label}'
            told.append(f'{model} {DIVERGED}: {lost}')
    if doubt := unlearned(run):
        model = run.label if run.headline == 'global' else f'the global model of {run.label}'
        told.append(f'{model} {doubt}: {_not_above(run, "global")}')
    doubt = unlearned(run, 'deployed')
    if doubt and average_of(run, 'deployed') != average_of(run, 'global'):
        told.append(f'the models that clients of {run.label} use {doubt}: {_not_above(run, "deployed")}')
    still = '' if run.diverged() else loss_stands_still(run) or scores_stand_still(run)
    if still:
        told.append(f'{run.label}: {still}; {_blame(run)}')
    if fitted := overfits(run):
        told.append(f'{run.label} over-fits: {fitted}')
    for part in (IdlePart(**remark) for remark in run.summary['remarks']):
        named = part.subject == run.label or part.subject.endswith(f' of {run.label}')
        told.append(part.sentence if named else f'{run.label}: {part.sentence}')
    return told


def _not_above(run: Run, kind: str) -> str:
    average, chance = (100 * (level or 0.0) for level in (average_of(run, kind), chance_level(run, kind)))
    above, ends = 'is not above', interval_of_average(run, kind)
    if unlearned(run, kind) == NOT_SHOWN and ends is not None:
        above = f'(95 % interval {100 * ends[0]:.1f} to {100 * ends[1]:.1f}) is not shown to be above'
    return f'AVG {average:.1f} % {above} {CONSTANT.get(run.score, "guessing")} ({chance:.1f} %)'


def _blame(run: Run) -> str:
    """Why training stands still: what has learned something may simply be done."""
    lr = run.config.get('lr')
    rate = 'the learning rate' if lr is None else f'the learning rate {lr:g}'
    if unlearned(run, run.headline) and loss_stands_still(run):
        return f'{rate} trains nothing'
    return f'{rate} may be too small or too large, or training was over by then'
