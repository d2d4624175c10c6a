"""The run loop: rounds on device, evaluations, checkpoints and results in between."""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair import results
from fedjax_fair.core.evaluate import KEPT
from fedjax_fair.core.types import Array, FedState
from fedjax_fair.training import devices, output, profile
from fedjax_fair.training.checkpoint import FOLDER, Checkpoints
from fedjax_fair.training.checks import checked
from fedjax_fair.training.cohort_supply import Resident, Streaming, Supply, joined
from fedjax_fair.training.config import Config
from fedjax_fair.training.interruption import Interrupted, StopFlag
from fedjax_fair.training.network import model_name
from fedjax_fair.training.prediction_log import PredictionLog, plan
from fedjax_fair.training.progress import Display, fairness_note
from fedjax_fair.training.setup import Experiment, prepare
from fedjax_fair.viz.overlays import draw_overlays

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

    An experiment that :func:`~fedjax_fair.training.prepare` gave may stand for its settings and its points.
    A single point without swept values writes straight into ``out``; a grid writes one directory per point below it.
    All mistakes are found before ``out`` is touched. ``resume`` goes on from the last checkpoint; a finished run is
    only read. ``profiled`` traces the second round of this call into ``out/profile``. ``facts`` are written into
    config.json and summary.json beside the others.
    """
    out = pathlib.Path(out)
    if isinstance(config, Experiment):
        prepared, settings, points = config, config.config, config.points
    else:
        prepared, settings = None, checked(config)
    output.check_out(out, resume=resume, overwrite=overwrite)
    folders = [out / results.point_name(p) if p else out for p in points]
    if resume:
        settings = output.resumed(settings, folders[0])
        for folder, point in zip(folders, points, strict=True):
            output.check_same(settings.at(point), folder)
        if all((folder / results.SUMMARY).exists() for folder in folders):
            return [results.summary(folder) for folder in folders]
    experiment = prepared or prepare(settings, points)
    output.make_out(out, resume=resume)
    return _Runner(experiment, out, folders, resume, quiet, profiled, facts).run()


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
    ):
        self.experiment, self.config, self.out, self.folders = experiment, experiment.config, out, folders
        self.model = model_name(self.config, experiment.federation)
        self.facts = results.federation_facts(experiment.federation, experiment.task.score) | dict(facts)
        self.done, self.quiet, self.traced = 0, quiet, traced
        self.tallies: dict[str, Any] = {'seconds': 0.0, 'compile_seconds': 0.0, 'sums': {}}
        self.evaluators: dict[str, Any] = {}
        self.supply: Supply = Streaming(experiment, out) if experiment.storage.streams else Resident(experiment)
        self.states = self.supply.init()
        self.checkpoints = Checkpoints(out)
        if resume and self.checkpoints.latest is not None:
            states, self.tallies = self.checkpoints.restore(self.supply.whole(self.states))
            self.states = self.supply.adopt(states)
            self.done = int(np.asarray(self.states.round)[0])
        for folder, point in zip(folders, experiment.points, strict=True):
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / results.CONFIG).exists():
                config, files = self.config.at(point), output.plugin_files(self.config)
                results.write_config(folder, config.recorded(self.model), experiment.notes, files, facts)
        self.histories = [results.History(folder, upto=self.done) for folder in folders]
        about = (self.config, experiment.federation, experiment.task)
        self.plan = plan(*about, experiment.kinds)
        self.kept = [PredictionLog(folder, self.plan, *about, upto=self.done) for folder in folders]

    def run(self) -> list[dict[str, Any]]:
        """Go on until all rounds are done; a stop request ends after a checkpoint."""
        title = f'{self.config.recipe} on {self.experiment.federation.name}'
        display = Display(title, self.config.rounds, self.done, quiet=self.quiet)
        with StopFlag() as stop, display, contextlib.closing(self.supply):
            for note in (*self._head(), *self.experiment.notes, *filter(None, [self.plan.note])):
                display.say(note)
            self._rounds(stop, display)
            if self.done < self.config.rounds:
                self._stop()
            self.checkpoints.close()
            summaries = self._finish()
            if stop.asked:
                raise self._interrupted(f'results in {self.out}')
        for line in results.failure_lines(summaries, self.experiment.points):
            display.warn(line)
        return summaries

    def _head(self) -> list[str]:
        """What is run, in a few lines, as tables and reports show it; what a grid varies is left out."""
        federation, swept = self.experiment.federation, self.experiment.points[0]
        facts = {'scenario': federation.name, 'clients': federation.num_clients, **self.facts}
        settings = {name: value for name, value in self.config.recorded(self.model).items() if name not in swept}
        return list(results.head_facts(settings, facts).values())

    def _rounds(self, stop: StopFlag, display: Display) -> None:
        if self.done == self.config.rounds:
            return
        tests = jax.tree.map(jnp.asarray, self.experiment.federation.tests)
        self._compile(display)
        pace, watched = 1, min(self.done + 1, self.config.rounds - 1) if self.traced else None
        while self.done < self.config.rounds and not stop.asked:
            n = min(pace, self._next_stop() - self.done) if watched is None or self.done > watched else 1
            with self._traced(display) if self.done == watched else contextlib.nullcontext():
                losses, seconds = self._advance(n)
            pace = max(1, min(self.experiment.program.horizon, int(SECONDS_PER_CALL / max(seconds / n, 1e-9))))
            note = self._evaluate(losses, tests, display) if self._due() else ''
            display.update(self.done, float(np.mean(losses)), note)
            self._checkpoint()

    def _compile(self, display: Display) -> None:
        """Compile the program of rounds by running no round."""
        with display.compiling('rounds') as clock:
            self.states, _ = self.supply.advance(self.states, 0)
            jax.block_until_ready(self.states)
        self.tallies['compile_seconds'] += clock.seconds

    @contextlib.contextmanager
    def _traced(self, display: Display):
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

    def _due(self) -> bool:
        return self.done % self.config.eval_every == 0 or self.done == self.config.rounds or self._adapt_due()

    def _adapt_due(self) -> bool:
        if self.experiment.is_trial:
            return False
        every = self.config.adapt_every
        return self.done == self.config.rounds or bool(every and self.done % every == 0)

    def _evaluate(self, losses: np.ndarray, tests, display: Display) -> str:
        """Evaluate all lanes, write their lines, and say how fair the models are now."""
        self._note_load()
        metrics = self._metrics(self.experiment.kinds, display, tests, keep=self.plan.records)
        if self._adapt_due():
            metrics |= self._metrics(('adapted',), display, tests, keep=self.plan.records)
        kept = {kind: _popped(values) for kind, values in metrics.items()}
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
        return self._metrics((kind,), display, jax.tree.map(jnp.asarray, sets), 'validation')[kind]

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
        self.checkpoints.save(self.done, self.supply.whole(self.states), self.tallies)

    def _stop(self) -> None:
        self._save()
        self.checkpoints.close()
        raise self._interrupted(f'checkpoint in {self.out / FOLDER}')

    def _interrupted(self, kept: str) -> Interrupted:
        done = f'stopped after round {self.done} of {self.config.rounds}'
        return Interrupted(f'{done}; {kept}; go on with the same command and `resume`')

    def _classes(self, state: FedState, x: Array) -> Array:
        return self.experiment.task.predict(self.experiment.algorithm.predict(state, x))

    def _finish(self) -> list[dict[str, Any]]:
        summaries, count, algorithm = [], len(self.config.seeds), self.experiment.algorithm
        passes = algorithm.passes(np.asarray(self.experiment.federation.y[0]))
        work = (passes, algorithm.facts['local'].batch_size, devices.cores())
        for number, (folder, point) in enumerate(zip(self.folders, self.experiment.points, strict=True)):
            config = self.config.at(point)
            costs = results.costs(self.tallies, slice(number * count, (number + 1) * count), config.rounds, *work)
            history = self.histories[number]
            state = jax.tree.map(lambda leaf, lane=number * count: leaf[lane], self.states)
            kinds = (*self.experiment.kinds, 'adapted')
            costs |= {'predictions_bytes': self.kept[number].finish(kinds, history)}
            score, federation = self.experiment.task.score, self.experiment.federation
            drawn = {} if self.experiment.is_trial else draw_overlays(federation, self._classes, state, folder)
            settings = config.recorded(self.model)
            idle = [part._asdict() for part in self.experiment.idle[number]]
            chosen = {'headline': self.experiment.headline, 'score_about': self.experiment.task.about}
            facts = costs | chosen | {'pictures': drawn, 'remarks': idle, **self.facts}
            summaries.append(results.write_summary(folder, settings, federation, history, score, facts))
        if self.folders != [self.out] and not self.experiment.is_trial:
            results.write_sweep(self.out, self.experiment.points, summaries)
        return summaries


def _popped(values: dict[str, Any]) -> dict[str, Any]:
    """Take the records of examples, by their names, out of the metrics."""
    names = [name for name in values if name.startswith(KEPT)]
    return {name.removeprefix(KEPT): values.pop(name) for name in names}
