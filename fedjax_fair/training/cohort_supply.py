"""Supplies rounds with examples and client rows: all on the device, or one cohort at a time from host or disk."""

from __future__ import annotations

import functools
import pathlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.evaluate import MODEL_KINDS
from fedjax_fair.core.types import Array, FedState, PyTree, Tests
from fedjax_fair.data.stream import Streamed, gathered, in_memory, on_disk, room_for
from fedjax_fair.training.program import Lane, Program
from fedjax_fair.training.rows import RowStore
from fedjax_fair.training.storage import Place

if TYPE_CHECKING:
    from fedjax_fair.training.setup import Experiment

ROUNDS_AT_ONCE = 256  # of which it is drawn who takes part
ModelKinds = tuple[str, ...]  # global, deployed, adapted
Log = dict[str, np.ndarray]  # numbers of every round, [lanes, rounds]


class Supply(Protocol):
    """Runs rounds and evaluations, and brings examples and rows to the device."""

    def init(self) -> FedState:
        """The states at the start."""

    def advance(self, states: FedState, n: int) -> tuple[FedState, Log]:
        """Run ``n`` rounds; none of them compiles the program."""

    def evaluations(self, states: FedState, tests: Tests, kinds: ModelKinds) -> Iterator[Piece]:
        """The calls of the program of evaluation that together cover all clients."""

    def whole(self, states: FedState) -> FedState:
        """The states with the rows of all clients."""

    def adopt(self, states: FedState) -> FedState:
        """Continue from states that :meth:`whole` gave."""

    def close(self) -> None:
        """Remove the files that only the run needs."""


class Piece(NamedTuple):
    """One evaluation: of which kinds of model, of which clients (None: all), and the arguments of the program."""

    kinds: ModelKinds
    ids: np.ndarray | None
    arguments: tuple


class Resident:
    """Everything is on the devices; rounds run in a loop there."""

    def __init__(self, experiment: Experiment):
        self.experiment, self.program, self.lanes = experiment, experiment.program, experiment.lanes
        self.data = experiment.examples()

    def init(self) -> FedState:
        return self.program.init(self.lanes)

    def advance(self, states: FedState, n: int) -> tuple[FedState, Log]:
        states, log = self.program.advance(self.lanes, states, self.data, jnp.asarray(n, jnp.int32))
        return states, {name: np.asarray(value)[:, :n] for name, value in jax.device_get(log).items()}

    def evaluations(self, states: FedState, tests: Tests, kinds: ModelKinds) -> Iterator[Piece]:
        trains = any(MODEL_KINDS[kind].trained for kind in kinds)
        yield Piece(kinds, None, (self.lanes, states, tests, self.data if trains else None))

    def whole(self, states: FedState) -> FedState:
        return self.experiment.listed(states)

    def adopt(self, states: FedState) -> FedState:
        return self.experiment.settled(states)

    def close(self) -> None:
        pass


class Drawn:
    """Who takes part in every round, ``[lanes, C]``: drawn for some rounds at a time, however many there are."""

    def __init__(self, program: Program, lanes: Lane, rounds: int):
        self._rounds, self._at_once = rounds, min(rounds, ROUNDS_AT_ONCE)
        self._block = functools.lru_cache(2)(lambda first: np.asarray(program.sample(lanes, self._numbers(first))))

    def _numbers(self, first: int) -> Array:
        return jnp.arange(first, first + self._at_once, dtype=jnp.int32)  # as many each time, or it would compile again

    def __len__(self) -> int:
        return self._rounds

    def __getitem__(self, number: int) -> np.ndarray:
        place = number % self._at_once
        return self._block(number - place)[place]


class Streaming:
    """Cohorts come from host memory or disk: the next cohort is loaded while a round runs.

    The device holds the examples of two cohorts and, unless all rows are on the device, the rows of two cohorts.
    """

    def __init__(self, experiment: Experiment, out: pathlib.Path):
        self.program, self.lanes, self.federation = experiment.program, experiment.lanes, experiment.federation
        self.storage, self.ids = experiment.storage, Drawn(self.program, self.lanes, experiment.config.rounds)
        self.room = room_for(self.federation.sizes, self.cohort)
        self.folders = {name: out / name for name in self.storage.on_disk}
        on_file = 'examples' in self.folders
        self.take = on_disk(self.federation, self.folders['examples']) if on_file else in_memory(self.federation)
        self.store: RowStore | None = None
        self.upcoming: Iterator[Streamed] | None = None

    @property
    def cohort(self) -> int:
        return self.ids[0].shape[1]

    def init(self) -> FedState:
        if self.storage.rows is Place.DEVICE:
            return self.program.init(self.lanes)
        states = self.program.init(self.lanes, self.cohort)
        self.store = RowStore(states.clients, self.federation.num_clients, self.folders.get('rows'))
        return states

    def advance(self, states: FedState, n: int) -> tuple[FedState, Log]:
        """Run rounds one by one; each uses the cohort that was loaded during the round before."""
        first = int(np.asarray(states.round)[0])
        if n == 0:
            data = _on_device(self._load(first))
            return self.program.advance(self.lanes, states, data, jnp.asarray(0, jnp.int32))[0], {}
        if self.upcoming is None:
            self.upcoming = self._cohorts(first)
        logs: list[dict[str, Any]] = []
        for number in range(first, first + n):
            states, log = self._round(states, number)
            jax.block_until_ready(logs[-1:])  # at most two cohorts may be on the device
            logs.append(log)
        fetched = jax.device_get(logs)
        return states, {name: np.concatenate([log[name][:, :1] for log in fetched], 1) for name in fetched[0]}

    def _round(self, states: FedState, number: int) -> tuple[FedState, dict[str, Any]]:
        data = _on_device(next(self.upcoming))  # type: ignore[arg-type]
        if self.store is not None:
            following = self.ids[number + 1] if number + 1 < len(self.ids) else None
            states = states._replace(clients=self.store.bring(self.ids[number], following))
        states, log = self.program.advance(self.lanes, states, data, jnp.asarray(1, jnp.int32))
        if self.store is not None:
            self.store.keep(self.ids[number], states.clients)
        return states, log

    def _cohorts(self, first: int) -> Iterator[Streamed]:
        """The cohorts of all rounds from ``first`` on; one is loaded ahead."""
        import grain  # takes a second to import

        rounds = grain.MapDataset.range(first, len(self.ids)).map(self._load)
        return iter(rounds.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=1)))

    def _load(self, number: int) -> Streamed:
        return self._gathered(self.ids[min(number, len(self.ids) - 1)])

    def _gathered(self, ids: np.ndarray) -> Streamed:
        """One cohort of every lane, in host memory."""
        lanes = [gathered(self.federation, self.take, own, self.room) for own in ids]
        places = None if self.store is None else np.arange(self.cohort, dtype=np.int32)
        return jax.tree.map(lambda *leaves: np.stack(leaves), *(own._replace(places=places) for own in lanes))

    def evaluations(self, states: FedState, tests: Tests, kinds: ModelKinds) -> Iterator[Piece]:
        """Models that are on the device are evaluated at once, the others cohort by cohort."""
        about = {kind: MODEL_KINDS[kind] for kind in kinds}
        away = tuple(kind for kind, one in about.items() if one.trained or (one.own and self.store is not None))
        if here := tuple(kind for kind in kinds if kind not in away):
            yield Piece(here, None, (self.lanes, states, tests, None))
        clients = self.federation.num_clients
        for start in range(0, clients if away else 0, self.cohort):
            ids = np.arange(start, start + self.cohort, dtype=np.int32)
            everywhere = np.broadcast_to(np.minimum(ids, clients), (len(self.lanes.seed), self.cohort))
            if self.store is not None:
                states = states._replace(clients=self.store.take(everywhere))
            data = _on_device(self._gathered(everywhere))
            yield Piece(away, ids[ids < clients], (self.lanes, states, tests, data))

    def whole(self, states: FedState) -> FedState:
        return states if self.store is None else states._replace(clients=self.store.tables())

    def adopt(self, states: FedState) -> FedState:
        if self.store is None:
            return states
        self.store.load(states.clients)
        first = int(np.asarray(states.round)[0])
        return states._replace(clients=self.store.take(self.ids[min(first, len(self.ids) - 1)]))

    def close(self) -> None:
        for folder in self.folders.values():
            shutil.rmtree(folder, ignore_errors=True)


def _on_device(data: Streamed) -> Streamed:
    return jax.tree.map(jnp.asarray, data)


def joined(pieces: Sequence[tuple[np.ndarray | None, Mapping[str, PyTree]]]) -> dict[str, PyTree]:
    """The metrics of clients that were evaluated in pieces, as if all at once."""
    by_kind: dict[str, PyTree] = {}
    for ids, piece in pieces:
        for kind, metrics in piece.items():
            known = by_kind.setdefault(kind, jax.tree.map(np.array, metrics))
            for name, value in metrics.items() if ids is not None else ():
                known[name][:, ids] = value[:, ids]
    return by_kind
