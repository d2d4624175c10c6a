"""Which methods of a recipe change nothing in a setting, or do no more than a simpler recipe: each method says it.

A method declares it in its hook ``idle``, beside the hooks that would do the work. It is asked before a run, with the
values of its options: these are never traced there.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_fair.core.hooks import Idle
from fedjax_fair.core.local import Local
from fedjax_fair.core.method import Method
from fedjax_fair.core.types import Run, Variables

NAMES = ('name', 'part', 'stage', 'claims', 'idle')  # fields of a method that make it do nothing


class Effect(NamedTuple):
    """All that a method does in a setting: nothing, or what the recipe ``same_as`` does; and why."""

    reason: str
    same_as: str = ''


class IdlePart(NamedTuple):
    """A method without an effect of its own: its part of the recipe, how it is called, and its :class:`Effect`.

    >>> IdlePart('fedbn', 'fedbn', 'the network has no batch normalisation').sentence
    'fedbn changes nothing here: the network has no batch normalisation'
    >>> IdlePart('fedism', 'saga of fedism', 'q is 0', 'uniform').sentence
    'saga of fedism is the same as uniform here: q is 0'
    """

    part: str
    subject: str
    reason: str
    same_as: str = ''

    @property
    def sentence(self) -> str:
        """What users are told."""
        effect = f'is the same as {self.same_as}' if self.same_as else 'changes nothing'
        return f'{self.subject} {effect} here: {self.reason}'


@dataclasses.dataclass(frozen=True)
class Setting:
    """What the hook ``idle`` may read.

    ``run`` has the facts of the run, ``variables`` the shapes of the model's variables, ``local`` how clients train,
    ``steps[N]`` how many local steps each client makes in a round, and ``others`` are the other methods of the recipe.
    ``everybody`` says that all clients take part in every round.
    """

    run: Run
    variables: Variables
    local: Local
    steps: np.ndarray
    everybody: bool = True
    others: tuple[Method, ...] = ()

    @property
    def equal_sizes(self) -> bool:
        """Whether all clients that have training examples have the same number of them."""
        return len({int(n) for n in self.run.sizes if n > 0}) <= 1

    @property
    def equal_steps(self) -> bool:
        """Whether all clients that train make the same number of local steps."""
        return len({int(n) for n in self.steps if n > 0}) <= 1

    @property
    def single_step(self) -> bool:
        """Whether no client makes more than one local step in a round."""
        return int(np.max(self.steps, initial=0)) <= 1

    @property
    def has_statistics(self) -> bool:
        """Whether the model keeps batch statistics."""
        return bool(jax.tree.leaves(self.variables['batch_stats']))

    @property
    def weighed(self) -> bool:
        """Whether another method of the recipe weighs the clients."""
        return any(m.score is not None for m in self.others)

    def votes(self, reason: str) -> Effect:
        """The effect of a score that is the same for all clients."""
        return Effect(reason, '' if self.weighed or self.equal_sizes else 'uniform')

    def by_examples(self, reason: str) -> Effect | None:
        """The effect of a score of ``log n``: none where no other score joins it, or where all clients are equal."""
        return Effect(reason) if self.equal_sizes or not self.weighed else None


def zero_strength(value: Any, option: str, first_round: str = '') -> Idle:
    """The hook ``idle`` of a method that does nothing where its option is 0.

    ``first_round`` says why it does nothing in the first round either, if that is so: then a single round is all idle.
    """

    def idle(setting: Setting) -> Effect | None:
        if value == 0:
            return Effect(f'{option} is 0')
        return Effect(f'{first_round}, and there is no other') if first_round and setting.run.rounds == 1 else None

    return idle


def idle_parts(methods: Sequence[Method], setting: Setting) -> list[IdlePart]:
    """The methods that have no effect of their own in a setting; ``setting.others`` is filled in.

    Where none of the methods does anything, each of them is the same as ``fedavg``.
    """
    effects = {m.name: _effect(m, methods, setting) for m in methods}
    alone = setting.equal_sizes or sum(m.score is not None for m in methods) <= 1  # two scores replace ``log n``
    plain = alone and all(_does_nothing(m) or _is_nothing(effects[m.name]) for m in methods)
    subject = _subjects(methods)
    return [
        IdlePart(m.part, subject[m.name], effect.reason, 'fedavg' if plain else effect.same_as)
        for m in methods
        if (effect := effects[m.name]) is not None
    ]


def _effect(method: Method, methods: Sequence[Method], setting: Setting) -> Effect | None:
    if method.idle is None:
        return None
    return method.idle(dataclasses.replace(setting, others=tuple(m for m in methods if m is not method)))


def _is_nothing(effect: Effect | None) -> bool:
    return effect is not None and not effect.same_as


def _does_nothing(method: Method) -> bool:
    """Whether a method has no hook at all, as FedAvg's."""
    bare = Method(method.name)
    return all(getattr(method, field) == getattr(bare, field) for field in Method._fields if field not in NAMES)


def _subjects(methods: Sequence[Method]) -> dict[str, str]:
    """How methods are called in sentences: by their part of the recipe, and by name too where the part has several."""
    count = Counter(m.part for m in methods)
    return {m.name: (f'{m.name} of {m.part}' if count[m.part] > 1 else m.part) or m.name for m in methods}
