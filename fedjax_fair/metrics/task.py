"""Tasks by name: the loss per example and the metrics of a test set."""

from __future__ import annotations

from typing import Any

from fedjax_fair import registry
from fedjax_fair.core.types import Task
from fedjax_fair.errors import UserError
from fedjax_fair.options import NUM_CLASSES, not_one_of

TASKS = registry.tasks


def make_task(name: str, num_classes: int, loss: str | None = None, score: str | None = None) -> Task:
    """A task by name; ``loss`` and ``score`` choose where a task has several."""
    if name not in TASKS:
        raise UserError(f'`task`={name} {not_one_of(name, TASKS)}')
    NUM_CLASSES.check(num_classes)
    asked: dict[str, Any] = {'loss': loss, 'score': score}
    chosen = {option: value for option, value in asked.items() if value is not None}
    for option, value in chosen.items():
        if option not in TASKS.options(name):
            raise UserError(f'`{option}`={value} does not apply to `task`={name}, which has one {option}')
    return TASKS.make(name, num_classes, **chosen)
