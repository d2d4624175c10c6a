"""predictions.npz: what every test example got at the evaluations that are reported.

One file per kind of model: predictions.npz of the global model, predictions_deployed.npz, predictions_adapted.npz. The
arrays, with S seeds, E evaluations and R rows:

version, task, metric, kind   the version of this format; the task; its score; the kind of model
seed [S], round [S, E]        the seeds, and the rounds of their evaluations
set [R], client [R]           the test set of a row; the client whose own model it is, -1 for the global model
example [R]                   which example of the source it is; without a source, a fingerprint of what it holds
cluster [R]                   the patient; -1 where patients are unknown
label [R] or [R, K]           the truth; absent for segmentation
prediction [S, E, R, ...]     predicted class, or labels
score [S, E, R, K]            probabilities or logits, float32; K = 1 for two classes. NaN: the model diverged, and its
                              predictions mean nothing
dice, iou [S, E, R, C]        of every image and class, background first, float32; NaN: neither in prediction nor truth
sets, groups                  names of the test sets and of the groups of clients
test_of [N], group_of [N]     the test set and the group of every client

:func:`example_scores` gives what every row adds to the score. The metric ``dice`` is the Dice of the foreground, the
mean over the classes without the background, NaN counting as 1; ``dice_with_background`` is the mean over all classes,
NaN counting as 0. The score of a test set is the mean over its rows.
"""

from __future__ import annotations

import dataclasses
import pathlib
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_fair.core.evaluate import MODEL_KINDS
from fedjax_fair.errors import UserError
from fedjax_fair.escaping import visible
from fedjax_fair.foreign import check_plain, npz_array
from fedjax_fair.metrics.segmentation import of_images
from fedjax_fair.options import not_one_of
from fedjax_fair.publishing import published
from fedjax_fair.results.files import Folder

VERSION = 2
READABLE = (1, VERSION)  # in version 1 the dice of segmentations includes the background, with 0 for an absent class
MOST_BYTES = 200e6  # bytes of one file before compression; scores are left out of a larger one
RECORDS = ('prediction', 'score', 'dice', 'iou')


@dataclasses.dataclass(frozen=True)
class Predictions:
    """What every test example got; see the head of this module for the arrays. Absent ones are None."""

    task: str
    metric: str
    kind: str
    seed: np.ndarray
    round: np.ndarray
    set: np.ndarray
    client: np.ndarray
    example: np.ndarray
    cluster: np.ndarray
    sets: tuple[str, ...]
    groups: tuple[str, ...]
    test_of: np.ndarray
    group_of: np.ndarray
    label: np.ndarray | None = None
    prediction: np.ndarray | None = None
    score: np.ndarray | None = None
    dice: np.ndarray | None = None
    iou: np.ndarray | None = None


def file_name(kind: str) -> str:
    """The file of one kind of model.

    >>> file_name('global'), file_name('deployed')
    ('predictions.npz', 'predictions_deployed.npz')
    """
    return f'predictions_{kind}.npz' if MODEL_KINDS[kind].own else 'predictions.npz'


def write_predictions(folder: Folder, found: Predictions) -> int:
    """Write the file of one kind of model, so that a reader never sees half of it; returns its size in bytes."""
    path = pathlib.Path(folder) / file_name(found.kind)
    arrays = {name: value for name, value in vars(found).items() if value is not None}
    arrays = {name: np.asarray(value) for name, value in arrays.items()}
    with published(path) as draft, draft.open('wb') as file:
        np.savez_compressed(file, version=np.asarray(VERSION), **arrays)
    return path.stat().st_size


def predictions(folder: Folder, kind: str = 'global') -> Predictions:
    """What every test example of a run got; ``folder`` is that of the run."""
    if kind not in MODEL_KINDS:
        raise UserError(f'`kind`={kind!r} {not_one_of(kind, MODEL_KINDS, repr)}')
    path = pathlib.Path(folder) / file_name(kind)
    check_plain(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: npz_array(file, name) for name in file.files}
    except FileNotFoundError:
        raise UserError(f'{path}: no such file; the run was made with `keep_predictions`=false or before 0.2') from None
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f'{path}: cannot be read ({error})') from None
    version = int(arrays.pop('version', 0))
    if version not in READABLE:
        known = ' and '.join(map(str, READABLE))
        raise UserError(f'{path}: its format has version {version}; this program reads versions {known}')
    found = _of_arrays(arrays, path)
    old_dice = version == 1 and found.metric == 'dice'
    return dataclasses.replace(found, metric='dice_with_background') if old_dice else found


def example_scores(found: Predictions) -> np.ndarray:
    """``[S, E, R]``: what every row adds to a score that is a mean over examples (accuracy, Dice)."""
    if found.dice is not None:
        return of_images(found.dice, found.metric)
    if found.metric != 'accuracy' or found.prediction is None or found.label is None:
        raise ValueError(f'the metric {found.metric!r} is not a mean over examples')
    return (found.prediction == found.label).astype(np.float64)


def _of_arrays(arrays: Mapping[str, np.ndarray], path: pathlib.Path) -> Predictions:
    fields = {field.name: field for field in dataclasses.fields(Predictions)}
    missing = [n for n, field in fields.items() if field.default is dataclasses.MISSING and n not in arrays]
    if missing:
        raise UserError(f'{path}: lacks the array {missing[0]!r}')
    texts: dict[str, Any] = {name: str(arrays[name]) for name in ('task', 'metric', 'kind')}
    names: dict[str, Any] = {name: tuple(visible(str(one)) for one in arrays[name]) for name in ('sets', 'groups')}
    return Predictions(**{name: arrays[name] for name in fields if name in arrays} | texts | names)


def records_that_fit(shapes: Mapping[str, tuple[int, str]], cells: int) -> tuple[tuple[str, ...], str]:
    """Which records are kept of ``cells`` (seed, evaluation, row), and what is told about those that are not.

    ``shapes`` has the numbers of a cell and their type by record. Scores are left out first; a file that is too large
    without them is not written.

    >>> records_that_fit({'prediction': (1, 'uint8'), 'score': (10, 'float32')}, 10_000_000)
    (('prediction',), 'scores of test examples would need 400 MB and are not kept: no interval of an AUC')
    """
    sizes = {name: count * np.dtype(kind).itemsize * cells for name, (count, kind) in shapes.items()}
    if sum(sizes.values()) <= MOST_BYTES:
        return tuple(sizes), ''
    rest = {name: size for name, size in sizes.items() if name != 'score'}
    if rest and len(rest) < len(sizes) and sum(rest.values()) <= MOST_BYTES:
        megabytes = round(sizes['score'] / 1e6)
        return tuple(rest), (
            f'scores of test examples would need {megabytes} MB and are not kept: no interval of an AUC'
        )
    megabytes = round(sum(sizes.values()) / 1e6)
    return (), f'predictions of test examples would need {megabytes} MB and are not kept: no intervals'
