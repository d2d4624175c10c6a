"""The run loop: rounds on device, evaluations, checkpoints and results in between."""

from __future__ import annotations

import pathlib
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.training import results
from fedjax_fair.training.checkpoint import FOLDER, Checkpoints
from fedjax_fair.training.config import COMPUTE_OPTIONS, Config
from fedjax_fair.training.progress import Display
from fedjax_fair.training.setup import Experiment, model_name, prepare

SECONDS_PER_CALL = 2.0  # how long the device may be left alone before progress is shown


class Interrupted(Exception):
    """The user asked to stop; everything up to ``round`` is in a checkpoint."""


class _StopFlag:
    """Turns the first Ctrl-C into a request to stop after the rounds under way; the second one is immediate."""

    def __enter__(self) -> _StopFlag:
        self.asked = False
        try:
            self._old = signal.signal(signal.SIGINT, self._ask)
        except ValueError:  # not the main thread: leave Ctrl-C to whoever owns it
            self._old = None
        return self

    def _ask(self, signum, frame) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, self._old)

    def __exit__(self, *exc) -> None:
        if self._old is not None:
            signal.signal(signal.SIGINT, self._old)


def claim(out: pathlib.Path, *, resume: bool, overwrite: bool) -> None:
    """Make the output directory; never touch an existing one unless told to."""
    if out.exists() and not out.is_dir():
        raise ValueError(f'--out={out} is a file; name a directory')
    if out.exists() and any(out.iterdir()) and not resume:
        if not overwrite:
            raise ValueError(f'--out={out} exists; pass --resume, --overwrite or another --out')
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)


def point_name(point: Mapping[str, float]) -> str:
    """Directory name of one point of a grid, such as ``fedprox.mu=0.1``."""
    return ','.join(f'{name}={value:g}' for name, value in point.items())


def run(
    config: Config,
    out: str | pathlib.Path,
    *,
    points: Sequence[Mapping[str, float]] = ({},),
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
) -> list[dict[str, Any]]:
    """Run one experiment, every point of ``points`` times every seed as one program; returns the summaries.

    A single point without swept values writes straight into ``out``; a grid writes one directory per point below it.
    """
    out = pathlib.Path(out)
    claim(out, resume=resume, overwrite=overwrite)
    experiment = prepare(config, points)
    folders = [out / point_name(p) if p else out for p in experiment.points]
    finished = [f / 'summary.json' for f in folders]
    if resume and all(f.exists() for f in finished):
        _check_same(config, folders[0])
        return [results.read_json(f) for f in finished]
    return _Runner(experiment, out, folders, resume, quiet).run()


def _check_same(config: Config, folder: pathlib.Path) -> None:
    """A run can only be resumed with the settings it was started with."""
    if not (folder / 'config.json').exists():
        return
    old = results.read_config(folder)
    for name in Config.__dataclass_fields__:
        before, now = getattr(old, name), getattr(config, name)
        if name == 'model' and now == 'auto':
            continue
        if name not in COMPUTE_OPTIONS and before != now:
            raise ValueError(f'--resume: --{name}={now} differs from {before}, with which {folder} was started')


class _Runner:
    """One experiment on its way through the rounds."""

    def __init__(self, experiment: Experiment, out: pathlib.Path, folders: list, resume: bool, quiet: bool):
        self.x, self.config, self.out, self.folders = experiment, experiment.config, out, folders
        self.model = model_name(self.config, experiment.federation)
        self.done, self.quiet = 0, quiet
        self.tallies: dict[str, Any] = {'seconds': 0.0, 'compile_seconds': 0.0, 'sums': {}}
        self.states = experiment.program.init(experiment.lanes)
        self.checkpoints = Checkpoints(out) if self.config.checkpoint_every or resume else None
        if resume and self.checkpoints and self.checkpoints.latest is not None:
            _check_same(self.config, folders[0])
            self.states, self.tallies = self.checkpoints.restore(self.states)
            self.done = int(np.asarray(self.states.round)[0])
        for folder, point in zip(folders, experiment.points, strict=True):
            folder.mkdir(parents=True, exist_ok=True)
            config = results.with_point(self.config, point)
            results.write_config(folder, config, self.model, experiment.notes)
        self.histories = [results.History(folder, upto=self.done) for folder in folders]

    def run(self) -> list[dict[str, Any]]:
        """Go on until all rounds are done; a stop request ends after a checkpoint."""
        x, config = self.x, self.config
        data, tests = x.federation.arrays(), jax.tree.map(jnp.asarray, x.federation.tests)
        title = f'{config.recipe} on {x.federation.name}'
        with _StopFlag() as stop, Display(title, config.rounds, self.done, quiet=self.quiet) as display:
            for note in x.notes:
                display.say(f'{title}: {note}')
            self._compile(data)
            display.begin()
            pace, loss = 1, float('nan')
            while self.done < config.rounds and not stop.asked:
                n = min(pace, self._next_stop() - self.done)
                losses, seconds = self._advance(data, n)
                pace = max(1, min(x.program.horizon, int(SECONDS_PER_CALL / max(seconds / n, 1e-9))))
                loss = float(np.mean(losses))
                display.update(self.done, loss, self._evaluate(losses, data, tests) if self._due() else '')
                self._checkpoint()
            if self.done < config.rounds:
                self._stop(display)
        if self.checkpoints:
            self.checkpoints.close()
        return self._finish()

    def _compile(self, data) -> None:
        """Compile the rounds by running none of them."""
        start = time.perf_counter()
        self.states, _ = self.x.program.advance(self.x.lanes, self.states, data, jnp.asarray(0, jnp.int32))
        jax.block_until_ready(self.states)
        self.tallies['compile_seconds'] += time.perf_counter() - start

    def _next_stop(self) -> int:
        every = [self.config.eval_every, self.config.checkpoint_every, self.config.adapt_every]
        return min([self.config.rounds] + [(self.done // e + 1) * e for e in every if e])

    def _advance(self, data, n: int) -> tuple[np.ndarray, float]:
        """Run ``n`` rounds; returns the last round's loss of every lane and the time it took."""
        start = time.perf_counter()
        self.states, log = self.x.program.advance(self.x.lanes, self.states, data, jnp.asarray(n, jnp.int32))
        log = {name: np.asarray(value)[:, :n] for name, value in jax.device_get(log).items()}
        seconds = time.perf_counter() - start
        self.done += n
        self.tallies['seconds'] += seconds
        sums = self.tallies['sums']
        for name, value in log.items():
            sums[name] = (np.asarray(sums.get(name, 0.0)) + value.sum(1)).tolist()
        return log['train_loss'][:, -1], seconds

    def _due(self) -> bool:
        return self.done % self.config.eval_every == 0 or self.done == self.config.rounds or self._adapt_due()

    def _adapt_due(self) -> bool:
        every = self.config.adapt_every
        return self.done == self.config.rounds or bool(every and self.done % every == 0)

    def _evaluate(self, losses: np.ndarray, data, tests) -> str:
        """Evaluate all lanes, write their lines, and say how fair the models are now."""
        x = self.x
        kinds = (*x.kinds, 'adapted') if self._adapt_due() else x.kinds
        found = x.program.evaluate(x.lanes, self.states, tests, data if 'adapted' in kinds else None, kinds=kinds)
        found = jax.device_get(found)
        seeds, lines = self.config.seeds, []
        for lane, loss in enumerate(losses):
            own = jax.tree.map(lambda leaf, lane=lane: leaf[lane], found)
            lines.append(results.evaluation_line(self.done, seeds[lane % len(seeds)], float(loss), own, x.federation))
        for number, history in enumerate(self.histories):
            history.append(lines[number * len(seeds) : (number + 1) * len(seeds)])
        return 'avg {:.1%} std {:.1%} worst {:.1%}'.format(
            *(np.mean([line['global'][key] or 0 for line in lines]) for key in ('avg', 'std', 'worst'))
        )

    def _checkpoint(self) -> None:
        every = self.config.checkpoint_every
        if self.checkpoints and every and (self.done % every == 0 or self.done == self.config.rounds):
            self.checkpoints.save(self.done, self.states, self.tallies)

    def _stop(self, display: Display) -> None:
        self.checkpoints = self.checkpoints or Checkpoints(self.out)
        self.checkpoints.save(self.done, self.states, self.tallies)
        self.checkpoints.close()
        raise Interrupted(
            f'stopped after round {self.done} of {self.config.rounds}; checkpoint in {self.out / FOLDER}; '
            'go on with the same command and --resume'
        )

    def _finish(self) -> list[dict[str, Any]]:
        summaries, count = [], len(self.config.seeds)
        for number, (folder, point) in enumerate(zip(self.folders, self.x.points, strict=True)):
            config = results.with_point(self.config, point)
            costs = results.costs(self.tallies, slice(number * count, (number + 1) * count), config.rounds)
            history = self.histories[number]
            summaries.append(results.write_summary(folder, config, self.model, self.x.federation, history, costs))
        return summaries
