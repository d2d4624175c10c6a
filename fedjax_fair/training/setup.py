"""From settings to everything a run needs, with all checks done before anything is compiled."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_fair import registry
from fedjax_fair.core import Local, build
from fedjax_fair.core.batches import inputs_divided
from fedjax_fair.core.client_map import ClientMap
from fedjax_fair.core.evaluate import personalises
from fedjax_fair.core.homes import Homes
from fedjax_fair.core.idle import IdlePart
from fedjax_fair.core.platform import Platform, current, made_for
from fedjax_fair.core.types import Algorithm, FedState, Model, Outliers, Task, Tests, default_float
from fedjax_fair.data import Federation
from fedjax_fair.data.at_home import examples_at_home
from fedjax_fair.data.augment import Augment, blends, make_augment
from fedjax_fair.data.federation import Examples
from fedjax_fair.data.outliers import OUTLIERS, make_outliers
from fedjax_fair.data.samplers import Sampler, make_sampler, parse_schedule
from fedjax_fair.errors import UserError
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import make_task
from fedjax_fair.models.pretrained import Start
from fedjax_fair.training.checks import checked
from fedjax_fair.training.config import Config
from fedjax_fair.training.devices import available_devices, layout, maps_of
from fedjax_fair.training.federations import load_federation
from fedjax_fair.training.grid import check_not_fixed, check_points
from fedjax_fair.training.network import build_model, check_weights, starting_weights
from fedjax_fair.training.notes import idle_of, notes_of, overruled_notes, platform_notes
from fedjax_fair.training.program import Lane, Program, make_lanes, make_program
from fedjax_fair.training.residence import homes_of, listed_rows, placement, settled_rows
from fedjax_fair.training.storage import Storage, choose_storage


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A checked experiment: lanes are all points of the grid times all seeds, points slowest.

    ``idle`` are the parts of the recipe without an effect of their own, for every point. ``layout`` says in words how
    ``client_map`` and ``lane_map`` spread clients and lanes over the devices of ``platform``. ``homes`` say where
    client rows and examples live; None if they are on every device that works on them. ``cohort`` clients take part in
    a round. ``algorithm`` is for states with rows by the clients' numbers, ``program`` for those at their homes.
    """

    config: Config
    points: tuple[dict[str, float], ...]
    federation: Federation
    model: Model
    task: Task
    algorithm: Algorithm
    program: Program
    lanes: Lane
    kinds: tuple[str, ...]
    idle: tuple[tuple[IdlePart, ...], ...]
    notes: tuple[str, ...]
    storage: Storage
    layout: str
    client_map: ClientMap
    lane_map: ClientMap
    homes: Homes | None
    cohort: int
    platform: Platform

    @property
    def placement(self) -> Any:
        """Where states are, as :func:`~fedjax_fair.training.devices.placement` has it."""
        return placement(self.client_map, self.lane_map, len(self.lanes.seed), self.homes)

    def examples(self) -> Examples:
        """The training examples on the devices."""
        return self.federation.arrays() if self.homes is None else examples_at_home(self.federation, self.homes)

    def test_sets(self, tests: Tests) -> Tests:
        """Test sets on the devices."""
        on_mesh = self.client_map.mesh is not None and not self.client_map.ordered
        placed = inputs_divided(tests, self.config.eval_batch_size, self.client_map) if on_mesh else tests
        return jax.tree.map(jnp.asarray, placed)

    def listed(self, states: FedState) -> FedState:
        """The states of a program with client rows by the clients' numbers."""
        return states if self.homes is None else states._replace(clients=listed_rows(self.homes, states.clients))

    def settled(self, states: FedState) -> FedState:
        """The inverse of :meth:`listed`."""
        return states if self.homes is None else states._replace(clients=settled_rows(self.homes, states.clients))

    @property
    def title(self) -> str:
        """How its lines in a log begin."""
        return f'{self.config.recipe} on {self.federation.name}'

    @property
    def headline(self) -> str:
        """The kind of model that clients would use, whose numbers come first: 'global' or 'deployed'."""
        return self.kinds[-1]

    @property
    def is_trial(self) -> bool:
        """Whether models are scored on validation sets alone, so that tuning never sees a test example."""
        return self.federation.validation is not None and self.federation.tests is self.federation.validation

    def as_trial(self) -> Experiment:
        """The same training, scored on the clients' validation sets in place of the test sets."""
        sets = self.federation.validation
        if sets is None:
            raise UserError('a trial needs `validation`, a share of the training examples such as 0.2')
        federation = dataclasses.replace(self.federation, tests=sets, test_patient_of=None)
        return dataclasses.replace(self, federation=federation)

    def at(self, points: Sequence[Mapping[str, float]]) -> Experiment:
        """The same programs for other points of the same settings; others where states would be in other places."""
        lanes = make_lanes(points, self.config.seeds)
        other = dataclasses.replace(self, points=tuple(dict(point) for point in points), lanes=lanes)
        if other.placement == self.placement:
            return other
        return prepare(self.config, points, self.platform, self.federation)


def prepare(
    config: Config,
    points: Sequence[Mapping[str, float]] = ({},),
    platform: Platform | None = None,
    federation: Federation | None = None,
) -> Experiment:
    """Check the settings, load the data and build the (not yet compiled) programs, for this machine or another one.

    ``federation`` stands in the place of the data that the settings name.
    """
    with made_for(platform):
        return _prepare(config, points, platform, federation)


def _prepare(
    config: Config, points: Sequence[Mapping[str, float]], platform: Platform | None, given: Federation | None
) -> Experiment:
    config = checked(config)
    methods = make_methods(config.recipe, config.method_options)
    check_points(config, points)
    devices = available_devices(config)
    changes = _changes(config)
    check_weights(config)
    count = len(points) * len(config.seeds)
    learned = _learned(config, count, given)
    clients = _clients(config, learned.federation, devices, count)
    factory = _factory(config, learned, changes, clients.map)
    algorithm = factory({})
    check_not_fixed(points, algorithm)
    idle = idle_of(config, points, algorithm, clients.cohort)
    federation = learned.federation
    storage = choose_storage(config.examples, config.rows, federation, algorithm, clients.cohort, count)
    homes = None if storage.streams else homes_of(algorithm)
    places = placement(algorithm.facts['client_map'], clients.lane_map, count, homes)
    return Experiment(
        config=config,
        points=tuple(dict(point) for point in points),
        federation=federation,
        model=learned.model,
        task=learned.task,
        algorithm=algorithm,
        program=_program(config, partial(factory, homes=homes), clients, learned.start, places, platform),
        lanes=make_lanes(points, config.seeds),
        kinds=('global', 'deployed') if personalises(methods) else ('global',),
        idle=idle,
        notes=(
            *notes_of(_local(config, {}), federation, algorithm),
            *overruled_notes(config),
            *platform_notes(config),
            *storage.notes,
            *learned.start.notes,
        ),
        storage=storage,
        layout=layout(config, algorithm.facts['client_map'], clients.lane_map),
        client_map=algorithm.facts['client_map'],
        lane_map=clients.lane_map,
        homes=homes,
        cohort=clients.cohort,
        platform=current(),
    )


class _Changes(NamedTuple):
    """What happens to training examples before they are learned."""

    augment: Augment | None
    outliers: Outliers | None


def _changes(config: Config) -> _Changes:
    augment = make_augment(config.augment, config.options_of(*config.tools)) if config.augment else None
    return _Changes(augment, _outliers(config))


class _Learned(NamedTuple):
    """The data, what is learned on them, and the network with its first weights."""

    federation: Federation
    task: Task
    model: Model
    start: Start


def _learned(config: Config, lanes: int, given: Federation | None) -> _Learned:
    federation = load_federation(config) if given is None else given
    task = make_task(federation.task, federation.num_classes, config.loss, config.score)
    _check_augment(config, federation, task)
    model = build_model(config, federation, task, lanes)
    return _Learned(federation, task, model, starting_weights(config, federation, model))


class _Clients(NamedTuple):
    """Who takes part in a round, how many, and how clients and lanes are spread over devices."""

    sampler: Sampler
    cohort: int
    map: ClientMap
    lane_map: ClientMap


def _clients(config: Config, federation: Federation, devices: int, lanes: int) -> _Clients:
    own = config.options_of(config.sampler).get(config.sampler, {})
    schedule = parse_schedule(config.schedule)
    sampler = make_sampler(config.sampler, federation.sizes, config.participation, schedule, **own)
    cohort = jax.eval_shape(sampler, jax.random.key(0), jnp.int32(0)).shape[0]
    return _Clients(sampler, cohort, *maps_of(config, cohort, devices, lanes))


def _factory(config: Config, learned: _Learned, changes: _Changes, client_map: ClientMap) -> Callable[..., Algorithm]:
    """Builds the algorithm for the (traced) float settings of one lane."""

    def factory(hyper: Mapping[str, Any], homes: Homes | None = None) -> Algorithm:
        swept = {name: value for name, value in hyper.items() if '.' in name}
        return build(
            learned.model,
            learned.task,
            make_methods(config.recipe, {**config.method_options, **swept}),
            sizes=learned.federation.sizes,
            example=learned.federation.x[0],
            local=_local(config, hyper),
            rounds=config.rounds,
            client_map=client_map,
            eval_batch_size=config.eval_batch_size,
            homes=homes,
            **changes._asdict(),
        )

    return factory


def _outliers(config: Config) -> Outliers | None:
    if config.outliers:
        how = {'persistent': not config.outliers_once, 'cumulative': config.outliers_cumulative}
        return make_outliers(config.outliers, config.outlier_share, config.outlier_strength, **how)
    for name in ('outlier_share', 'outlier_strength', 'outliers_once', 'outliers_cumulative'):
        if (value := getattr(config, name)) is not None and value is not False:
            raise UserError(f'`{name}`={value} needs `outliers`={" or `outliers`=".join(OUTLIERS)}')
    return None


def _check_augment(config: Config, federation: Federation, task: Task) -> None:
    if config.augment and federation.x.ndim != 4:
        raise UserError(f'`augment`={config.augment} needs images, not inputs of shape {federation.x.shape[1:]}')
    if task.name != 'segmentation':
        return
    if blending := [name for name in filter(None, config.augment.split('+')) if blends(name)]:
        others = ', '.join(name for name in registry.augmentations if not blends(name))
        raise UserError(f'`augment`={config.augment}: {blending[0]} would blend masks; choose from {others}')


def _local(config: Config, hyper: Mapping[str, Any]) -> Local:
    lr, decay = hyper.get('lr', config.lr), config.lr_decay
    return Local(
        epochs=config.local_epochs,
        steps=config.local_steps,
        batch_size=config.batch_size,
        lr=lr if decay == 1 else lambda round: lr * decay ** jnp.asarray(round, default_float()),
        optimizer=config.local_optimizer,
        momentum=hyper.get('momentum', config.momentum),
        weight_decay=hyper.get('weight_decay', config.weight_decay),
        b1=config.adam_b1,
        b2=config.adam_b2,
        clip_norm=config.clip_norm,
        keep_optimizer=config.keep_optimizer,
    )


def _program(
    config: Config, factory: Callable, clients: _Clients, start: Start, places: Any, platform: Platform | None
) -> Program:
    steps = [config.eval_every, config.checkpoint_every or config.rounds, config.adapt_every or config.rounds]
    return make_program(
        factory,
        clients.sampler,
        dropout=config.dropout,
        horizon=min(config.rounds, *steps),
        lane_map=clients.lane_map,
        placement=places,
        start=start.variables,
        platform=platform,
    )
