"""What tables are about, in words: which rounds, which models, over what deviations are, and which score."""

from __future__ import annotations

from collections.abc import Sequence

from fedjax_fair.escaping import visible
from fedjax_fair.results.runs import Run
from fedjax_fair.results.schema import MODEL_KINDS
from fedjax_fair.results.selection import reported_in_words

SCORE_WORDS = {
    'balanced_accuracy': 'balanced accuracy',
    'dice': 'foreground Dice',
    'dice_with_background': 'Dice with background',
    'iou': 'IoU',
    'auc': 'AUC',
}
MODEL_WORDS = {
    'global': 'the global model',
    'deployed': 'the models that clients would use',
    'adapted': 'the locally adapted models',
}


def rounds_words(runs: Sequence[Run]) -> str:
    """In words, which rounds the numbers of these runs are about; by run where they differ."""
    words = [reported_in_words(run.rounds_reported) for run in runs]
    if len(set(words)) == 1:
        return words[0]
    return '; '.join(f'{run.label}: {own}' for run, own in zip(runs, words, strict=True))


def model_words(runs: Sequence[Run]) -> str:
    """In words, whose numbers these runs show: of the global model, or of those that clients would use.

    Empty where it is the global model of all.
    """
    kinds = {kind: [run.label for run in runs if run.headline == kind] for kind in MODEL_KINDS}
    kinds = {kind: labels for kind, labels in kinds.items() if labels}
    if list(kinds) == ['global']:
        return ''
    return '; '.join(f'{", ".join(labels)}: numbers of {MODEL_WORDS[kind]}' for kind, labels in kinds.items())


def repeats_words(runs: Sequence[Run]) -> str:
    """In words, over what deviations are, where runs have several data seeds; else empty."""
    several = [run for run in runs if len(run.data_seeds) > 1]
    if not several:
        return ''
    seeds, data_seeds = max(len(run.seeds) for run in several), max(len(run.data_seeds) for run in several)
    return f'seed sd is over {data_seeds} data seeds; the number of each is the mean over {seeds} seeds'


def joined_words(runs: Sequence[Run]) -> list[str]:
    """In words, which folders were read as one run with more seeds: a line for each such run."""
    return [
        f'{run.label}: seeds {", ".join(map(str, run.seeds))} are joined from '
        + ', '.join(visible(str(path)) for path in (run.path, *run.more))
        for run in runs
        if run.more
    ]


def score_of(runs: Sequence[Run], metric: str | None = None) -> str:
    """In words, what the numbers of these runs are about: the score of fairness, or another ``metric``."""
    scores = [run.score for run in runs] if metric is None else [metric]
    return ' or '.join(dict.fromkeys(SCORE_WORDS.get(score, score) for score in scores))
