"""What a run would take on a machine that need not be there: memory, time and traffic, from its compiled programs."""

from __future__ import annotations

import dataclasses

import numpy as np

from fedjax_fair.errors import OneLine
from fedjax_fair.planning.blank_data import blank_of, without_data
from fedjax_fair.planning.topologies import Topology
from fedjax_fair.sizes import in_words
from fedjax_fair.training import Config, prepare
from fedjax_fair.training.compiled import Compiled, compiled_evaluation, compiled_round, parts_of
from fedjax_fair.training.prediction_log import count_evaluations
from fedjax_fair.training.setup import Experiment
from fedjax_fair.training.spread import MARGIN, settled

SMALLER = 'does NOT fit; try a smaller `batch_size` or `chunk`, `precision`=bfloat16 or `remat`'


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run takes on one device of a machine.

    ``sent`` are bytes that one device exchanges with others in a round. ``round_seconds`` is None where the compiler
    estimates no cycles; ``exact`` is False where memory is that of programs for CPU in the place of another processor.
    """

    topology: str
    exact: bool
    devices: int
    layout: str
    fits: bool
    memory: int | None
    notes: tuple[str, ...]
    parts: dict[str, int | None]
    gradients: float
    sent: float
    round_cycles: float
    round_seconds: float | None
    evaluation_seconds: float | None
    hours: float | None


def plan(config: Config, topology: Topology, shapes: str = '') -> Plan:
    """Compile the round and the evaluation of a run for a machine; nothing is trained.

    ``shapes`` describe data that are not there, as :func:`~fedjax_fair.planning.blank_data.blank_of` reads them.
    """
    federation = blank_of(shapes) if shapes else None
    config = config if federation is None else without_data(config)
    experiment = settled(prepare(config, platform=topology.platform, federation=federation))
    round, evaluation = compiled_round(experiment), compiled_evaluation(experiment)
    parts, memory = parts_of(experiment, (round, evaluation)), topology.platform.memory
    known = None not in (round.temporaries, evaluation.temporaries)
    seconds, evaluating = (_seconds(one, topology) for one in (round, evaluation))
    hours = None
    if seconds is not None and evaluating is not None:
        hours = (config.rounds * seconds + count_evaluations(config) * evaluating) / 3600
    return Plan(
        topology=topology.name,
        exact=topology.exact,
        devices=len(topology.platform.devices),
        layout=experiment.layout,
        fits=round.fits and evaluation.fits and known and (memory is None or parts.total <= MARGIN * memory),
        memory=memory,
        notes=experiment.notes,
        parts=parts._asdict() | ({} if known else {'temporaries': None}),
        gradients=gradients_of(experiment),
        sent=round.work.sent,
        round_cycles=round.work.cycles,
        round_seconds=seconds,
        evaluation_seconds=evaluating,
        hours=hours,
    )


def gradients_of(experiment: Experiment) -> float:
    """Gradients of one batch that a round takes, over all clients and lanes."""
    passes = experiment.algorithm.passes(np.asarray(experiment.federation.y[0]))
    steps = float(experiment.algorithm.facts['setting'].steps.mean()) * experiment.cohort
    return len(experiment.lanes.seed) * passes.step_gradients * steps


def _seconds(program: Compiled, topology: Topology) -> float | None:
    return program.work.cycles / topology.clock if topology.clock and program.work.cycles else None


def in_words_of(found: Plan) -> str:
    """A plan for people."""
    if found.fits:
        verdict = 'fits'
    else:
        verdict = OneLine(SMALLER).with_flags()
    limit = '' if found.memory is None else f' of {in_words(found.memory)}'
    known = [one for one in found.parts.values() if one is not None]
    lines = [f'{found.topology}: {found.layout}: {verdict}', f'memory of a device: {in_words(sum(known))}{limit}']
    lines[1:1] = found.notes
    lines += [f'  {name:12} {"not known" if size is None else in_words(size)}' for name, size in found.parts.items()]
    if not found.exact:
        lines.append('  (temporaries are those of a program for CPU: an estimate)')
    lines.append(f'a round: {found.gradients:g} gradients of a batch; {in_words(found.sent)} sent by a device')
    if found.round_seconds is not None:
        lines[-1] += f'; {found.round_cycles:.3g} cycles, about {found.round_seconds:.3g} s'
    if found.hours is not None:
        lines.append(f'the whole run: about {found.hours:.3g} hours on the device, without compiling and reading data')
    return '\n'.join(lines)
