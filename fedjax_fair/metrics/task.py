"""Tasks by name: the loss per example and the metrics of a test set."""

from __future__ import annotations

from fedjax_fair import registry
from fedjax_fair.core.types import Task
from fedjax_fair.errors import UserError
from fedjax_fair.options import NUM_CLASSES, not_one_of

TASKS = registry.tasks


def make_task(name: str, num_classes: int, loss: str | None = None) -> Task:
    """A task by name; ``loss`` chooses among the losses of a task that has several."""
    if name not in TASKS:
        raise UserError(f'`task`={name} {not_one_of(name, TASKS)}')
    NUM_CLASSES.check(num_classes)
    if loss is None:
        return TASKS.make(name, num_classes)
    if 'loss' not in TASKS.options(name):
        raise UserError(f'`loss`={loss} does not apply to `task`={name}, which has one loss')
    return TASKS.make(name, num_classes, loss=loss)
