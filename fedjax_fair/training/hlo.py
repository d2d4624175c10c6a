"""What a compiled program says of itself in its text: cycles, and bytes that devices send to each other.

Compilers for TPU write the estimated cycles of every operation into the optimised program, that of a loop's body once.
Here a body counts as often as it runs: as its condition says, where that compares with a constant, else as its name
says. Programs name such loops by ``jax.named_scope``, and the compiler keeps these names. ``turns_20`` is a loop of 20
turns; the turns of the other names are given by the caller. A loop without a name, such as one that ends when
something is found, counts once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_HEAD = re.compile(r'^(ENTRY )?%?([\w.\-]+) \(.*\{\s*$')
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_LOOP = re.compile(r' while\(.*?condition=%?([\w.\-]+), body=%?([\w.\-]+)')
_PLACE = re.compile(r'op_name="([^"]*)"')
_SAID = re.compile(r'\bturns_(\d+)\b')
_CALL = re.compile(r' call\(.*?to_apply=%?([\w.\-]+)')
_BRANCHES = re.compile(r' conditional\(.*?(?:branch_computations=\{([^}]*)\}|(true_computation=.*))')
_NAME = re.compile(r'%?([\w.\-]+)')
_CONSTANT = re.compile(r'%?([\w.\-]+) = s\d+\[\][^ ]* constant\((\d+)\)')
_LESS = re.compile(r'ROOT .* compare\([^%]*%?([\w.\-]+), [^%]*%?([\w.\-]+)\), direction=LT')
_SENT = re.compile(r' = (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\(')
_ARRAY = re.compile(r'\b([a-z]+)(\d+)[a-z0-9]*\[([\d,]*)\]')


class Work(NamedTuple):
    """What running a program takes on one device: cycles of its processor, and bytes that it exchanges."""

    cycles: float = 0.0
    sent: float = 0.0

    def plus(self, other: Work, times: float = 1.0) -> Work:
        return Work(self.cycles + times * other.cycles, self.sent + times * other.sent)


def work_of(text: str, turns: Mapping[str, float] | None = None) -> Work:
    """The work of an optimised program, given as the text of its module.

    ``turns`` are those of loops whose length only the run knows, by the names of the loops.

    >>> text = '''
    ... %body (p: s32[]) -> s32[] {
    ...   %f = f32[2] fusion(%p), backend_config={"estimated_cycles":"10"}
    ... }
    ... %until (p: s32[]) -> pred[] {
    ...   %five = s32[] constant(5)
    ...   ROOT %less = pred[] compare(%p, %five), direction=LT
    ... }
    ... ENTRY %main (p: s32[]) -> s32[] {
    ...   %w = s32[] while(%p), condition=%until, body=%body
    ... }'''
    >>> work_of(text).cycles
    50.0
    """
    computations, entry = _computations(text)
    return _work(computations, entry, turns or {})


def _computations(text: str) -> tuple[dict[str, list[str]], str]:
    """The lines of every computation by its name, and the name of the first one to run."""
    found: dict[str, list[str]] = {}
    entry, lines = '', []
    for line in text.splitlines():
        if head := _HEAD.match(line):
            lines = found.setdefault(head[2], [])
            entry = head[2] if head[1] else entry
        else:
            lines.append(line)
    return found, entry


def _work(computations: dict[str, list[str]], name: str, turns: Mapping[str, float]) -> Work:
    total = Work()
    for line in computations.get(name, ()):
        total = total.plus(Work(sum(map(float, _CYCLES.findall(line))), _bytes_sent(line)))
        if loop := _LOOP.search(line):
            known = _turns(computations.get(loop[1], ()))
            times = _named_turns(line, turns) if known is None else known
            total = total.plus(_work(computations, loop[2], turns), times)
        elif call := _CALL.search(line):
            total = total.plus(_work(computations, call[1], turns))
        elif branches := _BRANCHES.search(line):
            names = _NAME.findall(branches[1]) if branches[1] else re.findall(r'_computation=%?([\w.\-]+)', branches[2])
            total = total.plus(max((_work(computations, one, turns) for one in names), default=Work()))
    return total


def _turns(condition: Sequence[str]) -> int | None:
    """How often a loop runs whose condition counts up to a constant; None where it does not."""
    text = '\n'.join(condition)
    constants = dict(_CONSTANT.findall(text))
    less = _LESS.search(text)
    bound = constants.get(less[2]) if less else None
    return None if bound is None else int(bound)


def _named_turns(line: str, turns: Mapping[str, float]) -> float:
    """The turns of a loop by its own name: that behind the body of the loop around it."""
    place = _PLACE.search(line)
    own = place[1].rpartition('/body/')[2] if place else ''
    if said := _SAID.search(own):
        return float(said[1])
    return next((times for name, times in turns.items() if re.search(rf'\b{re.escape(name)}\b', own)), 1.0)


def _bytes_sent(line: str) -> float:
    """The bytes of what a collective operation gives."""
    sent = _SENT.search(line)
    return 0.0 if sent is None else sum(map(_bytes, _ARRAY.findall(sent[1])))


def _bytes(array: tuple[str, str, str]) -> float:
    _, bits, shape = array
    size = 1
    for length in filter(None, shape.split(',')):
        size *= int(length)
    return size * int(bits) / 8
