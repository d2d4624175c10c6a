"""The run loop: rounds on device, evaluations, checkpoints and results in between."""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

import jax
import numpy as np

from fedjax_fair import results
from fedjax_fair.core.evaluate import KEPT
from fedjax_fair.core.types import Array, FedState
from fedjax_fair.errors import UserError
from fedjax_fair.interruption import Interrupted, StopFlag
from fedjax_fair.publishing import CannotWrite
from fedjax_fair.sizes import in_words
from fedjax_fair.training import devices, finished_run, output, profile
from fedjax_fair.training.checkpoint import FOLDER, Checkpoints, history_copy
from fedjax_fair.training.checks import checked
from fedjax_fair.training.cohort_supply import Resident, Streaming, Supply, joined
from fedjax_fair.training.config import Config
from fedjax_fair.training.disk_space import bytes_of_checkpoint, check_space, space_of
from fedjax_fair.training.network import model_name
from fedjax_fair.training.notes import head_notes, idle_notes, layout_notes
from fedjax_fair.training.prediction_log import NOTHING, PredictionLog, plan, popped
from fedjax_fair.training.progress import Display, fairness_note
from fedjax_fair.training.setup import Experiment, prepare
from fedjax_fair.training.spread import settled
from fedjax_fair.training.writer_lock import is_writer
from fedjax_fair.viz.overlays import draw_overlays

SEALS = 'seals'  # in the tallies of a checkpoint: lengths and checksums of the files that the run had written
SECONDS_PER_CALL = 2.0  # how long one call of the program may take before progress is shown


def run(
    config: Config | Experiment,
    out: str | pathlib.Path,
    *,
    points: Sequence[Mapping[str, float]] = ({},),
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    profiled: bool = False,
    facts: Mapping[str, str] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """Run one experiment, every point of ``points`` times every seed as one program; returns the summaries.

    An experiment that :func:`~fedjax_fair.training.prepare` gave may stand for its settings and its points; whoever
    prepared it tells what its recipe does not do (:func:`~fedjax_fair.training.notes.tell_idle`).
    A single point without swept values writes straight into ``out``; a grid writes one directory per point below it.
    All mistakes are found before ``out`` is touched. ``resume`` goes on from the last checkpoint, or reads a finished
    run. ``profiled`` traces the second round into ``out/profile``; ``facts`` go into config.json and summary.json.
    """
    out = pathlib.Path(out)
    if isinstance(config, Experiment):
        prepared, settings, points = config, config.config, config.points
    else:
        prepared, settings = None, checked(config)
    names = [results.point_name(p) if p else output.HERE for p in points]
    folders, runs = [out / name for name in names], tuple(dict.fromkeys([output.HERE, *names]))
    output.check_out(out, resume=resume, overwrite=overwrite, runs=runs)
    if resume and output.is_finished(folders):  # reading needs no right to write
        output.as_started(settings, points, folders)
        return finished_run.summaries(out, folders)
    with output.claimed(out, resume=resume, overwrite=overwrite, runs=runs):
        if resume:
            settings = output.as_started(settings, points, folders)
            if output.is_finished(folders):  # by another process, a moment ago
                return finished_run.summaries(out, folders)
        experiment = settled(prepared or prepare(settings, points))
        room = check_space(out, space_of(experiment), overwrite and not resume)
        output.make_out(out, resume=resume, runs=runs)
        idle = [] if prepared else idle_notes(experiment.points, experiment.idle)
        warnings = [*filter(None, [room]), *idle]
        with output.unmade(out, runs, left=resume):
            runner = _Runner(experiment, out, folders, resume, quiet, profiled, facts, warnings)
        return runner.run()


class _Runner:
    """One experiment on its way through the rounds."""

    def __init__(
        self,
        experiment: Experiment,
        out: pathlib.Path,
        folders: list,
        resume: bool,
        quiet: bool,
        traced: bool,
        facts: Mapping[str, str],
        warnings: Sequence[str],
    ):
        self.experiment, self.config, self.out, self.folders = experiment, experiment.config, out, folders
        self.model = model_name(self.config, experiment.federation)
        self.passes = experiment.algorithm.passes(np.asarray(experiment.federation.y[0]))
        self.facts = results.federation_facts(experiment.federation, experiment.task.score) | dict(facts)
        self.done, self.quiet, self.traced, self.writes = 0, quiet, traced, is_writer()
        self.tallies: dict[str, Any] = {'seconds': 0.0, 'compile_seconds': 0.0, 'sums': {}}
        self.evaluators: dict[str, Any] = {}
        self.supply: Supply = Streaming(experiment, out) if experiment.storage.streams else Resident(experiment)
        self.states = self.supply.init()
        self.checkpoints = Checkpoints(out)
        if resume and self.checkpoints.latest is not None:
            states, self.tallies = self.checkpoints.restore(self.supply.whole(self.states))
            self.states = self.supply.adopt(states)
            self.done = int(np.asarray(self.states.round)[0])
        before = self.tallies.get('layouts', [])
        self.warnings = [*warnings, *layout_notes(before, experiment.layout, self.config.deterministic)]
        self.tallies['layouts'] = [*before, *[experiment.layout] * (experiment.layout not in before[-1:])]
        if self.writes:
            output.write_settings(experiment, self.model, folders, facts)
        seals = self.tallies.pop(SEALS, [{}] * len(folders))  # checkpoints of older versions have none
        self.histories = [
            results.History(folder, self.done, seal.get('history'), history_copy(out, number), self.writes)
            for number, (folder, seal) in enumerate(zip(folders, seals, strict=True))
        ]
        for history in self.histories:
            history.check_complete(filter(self._due, range(1, self.done + 1)), self.config.seeds)
        about = (self.config, experiment.federation, experiment.task)
        self.plan = plan(*about, experiment.kinds)
        self.kept = [
            PredictionLog(folder, self.plan if self.writes else NOTHING, *about, self.done, seal.get('examples'))
            for folder, seal in zip(folders, seals, strict=True)
        ]

    def run(self) -> list[dict[str, Any]]:
        """Go on until all rounds are done; a stop request ends after a checkpoint."""
        display = Display(self.experiment.title, self.config.rounds, self.done, quiet=self.quiet)
        damaged = [*(history.note for history in self.histories), *(line for kept in self.kept for line in kept.damage)]
        with self._told(), StopFlag() as stop, display, contextlib.closing(self.supply):
            for warning in filter(None, [*self.checkpoints.notes, *damaged]):
                display.warn(warning)
            for note in (
                *head_notes(self.experiment, self.model, self.facts),
                *self.experiment.notes,
                *filter(None, [self.plan.note]),
            ):
                display.say(note)
            for warning in self.warnings:
                display.warn(warning)
            self._rounds(stop, display)
            if self.done < self.config.rounds:
                self._stop(stop)
            self.checkpoints.close()
            summaries = self._finish()
            if stop.asked:
                raise self._interrupted(stop, f'results in {self.out}')
        lost = [kept.note for kept in self.kept if kept.note]
        for line in (*results.failure_lines(summaries, self.experiment.points), *lost):
            display.warn(line)
        return summaries

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """A disk that can no longer be written ends the run in one line, and nothing that was saved is lost."""
        try:
            yield
        except CannotWrite as error:
            with contextlib.suppress(CannotWrite):
                self.checkpoints.wait()  # the one before may still be on its way
            need, saved = in_words(bytes_of_checkpoint(self.supply.whole(self.states))), self.checkpoints.saved()
            done = f'stopped after round {self.done} of {self.config.rounds}; a checkpoint needs {need}'
            kept = f'that of round {saved[-1]} is whole' if saved else 'there is none yet'
            raise UserError(f'{error.message}; {done}, {kept}; go on with the same command and `resume`') from None

    def _rounds(self, stop: StopFlag, display: Display) -> None:
        if self.done == self.config.rounds:
            return
        tests = self.experiment.test_sets(self.experiment.federation.tests)
        self._compile(display)
        pace, watched = 1, min(self.done + 1, self.config.rounds - 1) if self.traced else None
        while self.done < self.config.rounds and not stop.asked:
            n = min(pace, self._next_stop() - self.done) if watched is None or self.done > watched else 1
            with self._traced(display) if self.done == watched else contextlib.nullcontext():
                losses, seconds = self._advance(n)
            pace = max(1, min(self.experiment.program.horizon, int(SECONDS_PER_CALL / max(seconds / n, 1e-9))))
            note = self._evaluate(losses, tests, display) if self._due(self.done) else ''
            display.update(self.done, float(np.mean(losses)), note)
            self.checkpoints.check()
            self._checkpoint()

    def _compile(self, display: Display) -> None:
        """Compile the program of rounds by running no round."""
        with display.compiling('rounds') as clock:
            self.states, _ = self.supply.advance(self.states, 0)
            jax.block_until_ready(self.states)
        self.tallies['compile_seconds'] += clock.seconds

    @contextlib.contextmanager
    def _traced(self, display: Display):
        if not self.writes:
            yield
            return
        with profile.traced(self.out) as folder:
            yield
        display.say(f'trace of one round in {folder}; its longest operations:')
        for name, times, share in profile.longest(folder):
            display.say(f'{share:7.1%} {times:6}x  {name}')

    def _next_stop(self) -> int:
        every = [self.config.eval_every, self.config.checkpoint_every, self.config.adapt_every]
        return min([self.config.rounds] + [(self.done // e + 1) * e for e in every if e])

    def _advance(self, n: int) -> tuple[np.ndarray, float]:
        """Run ``n`` rounds; returns the last round's loss of every lane and the time it took."""
        start = time.perf_counter()
        self.states, log = self.supply.advance(self.states, n)
        seconds = time.perf_counter() - start
        if self.done == 0:
            self.tallies['first_losses'] = [float(x) if np.isfinite(x) else None for x in log['train_loss'][:, 0]]
        self.done += n
        self.tallies['seconds'] += seconds
        # Where nobody took part there is no loss.
        losses = np.where(log['clients'] > 0, log.pop('train_loss'), np.nan)[:, -1]
        sums = self.tallies['sums']
        for name in sums or log:  # what an older checkpoint has not counted is not counted from here on
            sums[name] = (np.asarray(sums.get(name, 0.0)) + log[name].astype(np.float64).sum(1)).tolist()
        return losses, seconds

    def _note_load(self) -> None:
        """What else the machine does decides how long rounds take."""
        if (load := devices.load()) is not None:
            self.tallies.setdefault('loads', []).append(load)

    def _due(self, round: int) -> bool:
        return round % self.config.eval_every == 0 or round == self.config.rounds or self._adapt_due(round)

    def _adapt_due(self, round: int) -> bool:
        if self.experiment.is_trial:
            return False
        every = self.config.adapt_every
        return round == self.config.rounds or bool(every and round % every == 0)

    def _evaluate(self, losses: np.ndarray, tests, display: Display) -> str:
        """Evaluate all lanes, write their lines, and say how fair the models are now."""
        self._note_load()
        metrics = self._metrics(self.experiment.kinds, display, tests, keep=self.plan.records)
        if self._adapt_due(self.done):
            metrics |= self._metrics(('adapted',), display, tests, keep=self.plan.records)
        kept = {kind: popped(values) for kind, values in metrics.items()}
        validated = self._validated(metrics, display)
        seeds, lines, federation = self.config.seeds, [], self.experiment.federation
        for lane, loss in enumerate(losses):
            own = jax.tree.map(lambda leaf, lane=lane: leaf[lane], metrics)
            seed = seeds[lane % len(seeds)]
            also = jax.tree.map(lambda leaf, lane=lane: leaf[lane], validated)
            facts = (self.done, seed, float(loss), own, federation, self.experiment.task.score, also)
            lines.append(results.evaluation_line(*facts))
        for number, history in enumerate(self.histories):
            own_lanes = slice(number * len(seeds), (number + 1) * len(seeds))
            history.append(lines[own_lanes])
            for kind, records in kept.items():
                own_records = {name: values[own_lanes] for name, values in records.items()}
                self.kept[number].add(self.done, kind, own_records, history)
        headline = self.experiment.headline
        return fairness_note([line[headline] for line in lines], headline)

    def _validated(self, metrics: Mapping[str, Any], display: Display) -> dict[str, Any] | None:
        """Metrics of the model that clients would use, on their validation sets; those of a trial are ``metrics``."""
        sets, kind = self.experiment.federation.validation, self.experiment.headline
        if sets is None:
            return None
        if self.experiment.is_trial:
            return metrics[kind]
        return self._metrics((kind,), display, self.experiment.test_sets(sets), 'validation')[kind]

    def _metrics(
        self, kinds: tuple[str, ...], display: Display, tests, why: str = 'evaluation', keep: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """Metrics of these kinds of model, and records of the examples where this evaluation may be reported.

        Their program is compiled when it is first needed.
        """
        pieces = []
        for piece in self.supply.evaluations(self.states, tests, kinds):
            name = f'{why} of {" and ".join(piece.kinds)} models'
            if name not in self.evaluators:
                with display.compiling(name) as clock:
                    lowered = self.experiment.program.evaluate.lower(*piece.arguments, kinds=piece.kinds, keep=keep)
                    self.evaluators[name] = lowered.compile()
                self.tallies['compile_seconds'] += clock.seconds
            values = self.evaluators[name](*piece.arguments)
            pieces.append((piece.ids, jax.device_get({kind: self._fetched(kind, of) for kind, of in values.items()})))
        return joined(pieces)

    def _fetched(self, kind: str, metrics: dict[str, Array]) -> dict[str, Array]:
        """Records of examples stay on the device unless this evaluation may be reported."""
        if self.kept[0].wants(self.done, kind):
            return metrics
        return {name: value for name, value in metrics.items() if not name.startswith(KEPT)}

    def _checkpoint(self) -> None:
        every = self.config.checkpoint_every
        if every and (self.done % every == 0 or self.done == self.config.rounds):
            self._save()

    def _save(self) -> None:
        files = zip(self.histories, self.kept, strict=True)
        seals = [{'history': history.seal_with_copy(), 'examples': kept.seal()} for history, kept in files]
        self.checkpoints.save(self.done, self.supply.whole(self.states), {**self.tallies, SEALS: seals})

    def _stop(self, stop: StopFlag) -> NoReturn:
        self._save()
        self.checkpoints.close()
        raise self._interrupted(stop, f'checkpoint in {self.out / FOLDER}')

    def _interrupted(self, stop: StopFlag, kept: str) -> Interrupted:
        done = f'stopped after round {self.done} of {self.config.rounds}'
        return Interrupted(f'{done}; {kept}; go on with the same command and `resume`', stop.signum)

    def _classes(self, state: FedState, x: Array) -> Array:
        return self.experiment.task.predict(self.experiment.algorithm.predict(state, x))

    def _finish(self) -> list[dict[str, Any]]:
        """Write what is reported; summaries come last, since a run that has its summary is finished."""
        experiment, count, summaries = self.experiment, len(self.config.seeds), []
        work = (self.passes, experiment.algorithm.facts['local'].batch_size, devices.cores())
        runs = zip(self.folders, experiment.points, self.histories, self.kept, strict=True)
        for number, (folder, point, history, kept) in enumerate(runs):
            lanes = slice(number * count, (number + 1) * count)
            facts = results.costs(self.tallies, lanes, self.config.rounds, *work)
            facts |= {'predictions_bytes': kept.join((*experiment.kinds, 'adapted'), history)}
            facts |= {'never_sampled': results.never_sampled(np.asarray(self.states.seen)[lanes])}
            facts |= {'headline': experiment.headline, 'score_about': experiment.task.about}
            state = jax.tree.map(lambda leaf, lane=lanes.start: leaf[lane], experiment.listed(self.states))
            drawing = (experiment.federation, self._classes, state, folder if self.writes else None)
            facts |= {'pictures': {} if experiment.is_trial else draw_overlays(*drawing)}
            facts |= {'remarks': [part._asdict() for part in experiment.idle[number]], 'history': history.seal()}
            about = (self.config.at(point).recorded(self.model), experiment.federation, history, experiment.task.score)
            summaries.append(results.make_summary(*about, {**facts, **self.facts}))
        if not self.writes:
            return summaries
        if self.folders != [self.out] and not experiment.is_trial:
            results.write_sweep(self.out, experiment.points, summaries)
        for folder, summary in zip(self.folders, summaries, strict=True):
            results.write_summary(folder, summary)
        for kept in self.kept:  # until now a run that goes on may need them again
            kept.forget()
        return summaries
