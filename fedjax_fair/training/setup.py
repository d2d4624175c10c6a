"""From settings to everything a run needs, with all checks done before anything is compiled."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core import Local, build
from fedjax_fair.core import client_map as mapping
from fedjax_fair.core.client_map import ClientMap
from fedjax_fair.core.evaluate import personalises
from fedjax_fair.core.local import OPTIMIZERS
from fedjax_fair.core.types import Algorithm, Array, Model, Outliers, Task
from fedjax_fair.data import Federation, make_scenario
from fedjax_fair.data.augment import AUGMENTATIONS, BLENDING, make_augment
from fedjax_fair.data.outliers import OUTLIERS, make_outliers
from fedjax_fair.data.samplers import SAMPLERS, Sampler, make_sampler
from fedjax_fair.data.validation import with_validation
from fedjax_fair.methods import defaults, make_methods, resolve_hyper
from fedjax_fair.metrics import TASKS, make_task
from fedjax_fair.metrics.segmentation import LOSSES
from fedjax_fair.models import MODELS, NORMS, PRECISIONS, in_precision, make_model, use_conv
from fedjax_fair.models.conv import IMPLEMENTATIONS
from fedjax_fair.models.normalize import normalized, parse_statistics
from fedjax_fair.models.pretrained import Start, load_pretrained
from fedjax_fair.training.config import DATA_OPTIONS, Config, check
from fedjax_fair.training.program import Lane, Program, make_lanes, make_program
from fedjax_fair.training.results import SELECTIONS, with_point
from fedjax_fair.training.supply import STORES, Storage, choose

CHOICES: dict[str, tuple[str, ...]] = {
    'model': ('auto', *MODELS),
    'norm': tuple(NORMS),
    'task': tuple(TASKS),
    'loss': LOSSES,
    'precision': PRECISIONS,
    'local_optimizer': tuple(OPTIMIZERS),
    'sampler': SAMPLERS,
    'client_map': mapping.KINDS,
    'select': SELECTIONS,
    'conv': ('auto', *IMPLEMENTATIONS),
    'examples': STORES,
    'rows': STORES,
}
LOCAL_FLOATS = ('lr', 'momentum', 'weight_decay')  # settings of local training that a sweep may vary


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A checked experiment: lanes are all points of the grid times all seeds, points slowest."""

    config: Config
    points: tuple[dict[str, float], ...]
    federation: Federation
    model: Model
    task: Task
    algorithm: Algorithm
    program: Program
    lanes: Lane
    kinds: tuple[str, ...]
    notes: tuple[str, ...]
    storage: Storage


def use_host_devices(devices: int | None) -> None:
    """Split the CPU into one device per core (or as many as asked for); only possible before JAX starts."""
    if 'xla_force_host_platform_device_count' in os.environ.get('XLA_FLAGS', ''):
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1
    try:
        jax.config.update('jax_num_cpu_devices', min(devices or cores, cores))
    except RuntimeError:  # JAX runs already, in a notebook for instance: use what it has
        return


def checked(config: Config) -> Config:
    """The settings with hyper-parameters of the right type, after refusing all that can be refused without data."""
    full = resolve_hyper(config.recipe, config.hyper)
    keys = {name: name.partition('.') for name in config.hyper}
    config = dataclasses.replace(config, hyper={name: full[part][key] for name, (part, _, key) in keys.items()})
    for name, choices in CHOICES.items():
        value = getattr(config, name)
        if value is not None and value not in choices:
            raise ValueError(f'--{name}={value} is not one of {", ".join(choices)}')
    for name in filter(None, config.augment.split('+')):
        if name not in AUGMENTATIONS:
            raise ValueError(f'--augment={config.augment}: {name!r} is not one of {", ".join(AUGMENTATIONS)}')
    return check(config)


def prepare(config: Config, points: Sequence[Mapping[str, float]] = ({},)) -> Experiment:
    """Check the settings, load the data and build the (not yet compiled) programs."""
    config = checked(config)
    methods = make_methods(config.recipe, config.hyper)
    _check_points(config, points)
    available = _available(config.devices)
    augment = make_augment(config.augment) if config.augment else None
    outliers = _outliers(config)
    use_conv(config.conv)
    federation = load_federation(config)
    if augment and federation.x.ndim != 4:
        raise ValueError(f'--augment={config.augment} needs images, not inputs of shape {federation.x.shape[1:]}')
    task = make_task(federation.task, federation.num_classes, config.loss)
    if blending := [name for name in config.augment.split('+') if name in BLENDING and task.name == 'segmentation']:
        others = ', '.join(name for name in AUGMENTATIONS if name not in BLENDING)
        raise ValueError(f'--augment={config.augment}: {blending[0]} would blend masks; choose from {others}')
    model = _model(config, federation, task)
    start = _start(config, federation, model)
    sampler = make_sampler(config.sampler, federation.sizes, config.participation, _schedule(config.schedule))
    cohort = jax.eval_shape(sampler, jax.random.key(0), jnp.int32(0)).shape[0]
    count = len(points) * len(config.seeds)
    clients, lanes = _spread(config, cohort, available, count)

    def factory(hyper: Mapping[str, Any]) -> Algorithm:
        return build(
            model,
            task,
            make_methods(config.recipe, {**config.hyper, **{k: v for k, v in hyper.items() if '.' in k}}),
            sizes=federation.sizes,
            example=federation.x[0],
            local=_local(config, hyper),
            rounds=config.rounds,
            client_map=clients,
            augment=augment,
            outliers=outliers,
        )

    algorithm = factory({})
    for name in set(points[0]) & set(algorithm.facts['fixed_by']):
        raise ValueError(f'--grid={name}: {algorithm.facts["fixed_by"][name]} fixes it, so there is nothing to sweep')
    storage = choose(config.examples, config.rows, federation, algorithm, cohort, count)
    where = (storage.describe(),) * storage.streams
    return Experiment(
        config=config,
        points=tuple(dict(point) for point in points),
        federation=federation,
        model=model,
        task=task,
        algorithm=algorithm,
        program=_program(config, factory, sampler, clients, lanes, start),
        lanes=make_lanes(points, config.seeds),
        kinds=('global', 'deployed') if personalises(methods) else ('global',),
        notes=(*_notes(config, federation, algorithm), *where, *start.notes),
        storage=storage,
    )


def _outliers(config: Config) -> Outliers | None:
    if config.outliers:
        return make_outliers(config.outliers, config.outlier_share, config.outlier_strength, not config.outliers_once)
    for name in ('outlier_share', 'outlier_strength', 'outliers_once'):
        if value := getattr(config, name):
            raise ValueError(f'--{name}={value} needs --outliers={" or --outliers=".join(OUTLIERS)}')
    return None


def load_federation(config: Config) -> Federation:
    """The scenario of a config, with validation sets where it asks for them."""
    federation = _load(config.scenario, config.data_seed, tuple((name, getattr(config, name)) for name in DATA_OPTIONS))
    return with_validation(federation, config.validation, config.data_seed) if config.validation else federation


@functools.lru_cache(maxsize=1)  # the recipes of a comparison share their data
def _load(scenario: str, data_seed: int, options: tuple[tuple[str, Any], ...]) -> Federation:
    return make_scenario(scenario, data_seed=data_seed, **dict(options))


def model_name(config: Config, federation: Federation) -> str:
    """The network asked for; ``auto`` is unet for masks, lenet for colour images, mlp for grey ones, else logreg."""
    if config.model != 'auto':
        return config.model
    shape = federation.x.shape[1:]
    if federation.y.ndim == 3:
        return 'unet'
    if len(shape) == 1:
        return 'logreg'
    return 'lenet' if shape[-1] == 3 else 'mlp'


def _model(config: Config, federation: Federation, task: Task) -> Model:
    name, shape = model_name(config, federation), federation.x.shape[1:]
    options = model_options(config.model_options)
    model = in_precision(make_model(name, federation.num_classes, config.norm, **options), config.precision)
    model = _normalized(config, model, shape)

    def logits() -> Array:
        x, mask, key = jnp.zeros((1, *shape)), jnp.ones(1, bool), jax.random.key(0)
        return model.apply(model.init(key, x), x, mask, False, key).logits

    try:
        out = jax.eval_shape(logits).shape
    except (ValueError, TypeError, ZeroDivisionError) as error:
        why = str(error).splitlines()[0] if isinstance(error, ValueError) else 'they are too small'
        raise ValueError(f'--model={name} cannot take inputs of shape {shape}: {why}') from None
    wanted = federation.y.shape[1:3] if federation.y.ndim == 3 else ()
    if out != (1, *wanted, federation.num_classes):
        fit = 'unet' if wanted else ', '.join(m for m in MODELS if m != 'unet')
        raise ValueError(f'--model={name} does not fit --task={task.name}; choose one of {fit}')
    return model


def _normalized(config: Config, model: Model, shape: tuple[int, ...]) -> Model:
    if not config.normalize:
        return model
    statistics = parse_statistics(config.normalize)
    channels = len(statistics.mean)
    if len(shape) != 3 or shape[-1] != channels:
        raise ValueError(f'--normalize={config.normalize} is for images of {channels} channels, not for shape {shape}')
    return normalized(model, statistics)


def model_options(text: str) -> dict[str, Any]:
    """``'stem=cifar,depth=3,widths=64x64'`` as a dict; numbers and numbers joined by x are read as such.

    >>> model_options('features=16,widths=64x64')
    {'features': 16, 'widths': (64, 64)}
    """
    found: dict[str, Any] = {}
    for pair in filter(None, text.split(',')):
        name, equals, value = (part.strip() for part in pair.partition('='))
        if not equals or not name or not value:
            raise ValueError(f'--model_options={text} must be written name=value,name=value')
        numbers = value.split('x')
        if all(n.isdigit() for n in numbers):
            found[name] = int(value) if len(numbers) == 1 else tuple(map(int, numbers))
        else:
            found[name] = value
    return found


def _start(config: Config, federation: Federation, model: Model) -> Start:
    """Weights to begin with, where a file of them is given."""
    if not config.pretrained:
        return Start({}, ())
    example = jnp.zeros((1, *federation.x.shape[1:]))
    shapes = jax.eval_shape(model.init, jax.random.key(0), example)
    return load_pretrained(config.pretrained, model_name(config, federation), shapes)


def _check_points(config: Config, points: Sequence[Mapping[str, float]]) -> None:
    floats = [f'{p}.{k}' for p in config.recipe.split('+') for k, v in defaults(p).items() if isinstance(v, float)]
    for name in points[0]:
        if name not in (*LOCAL_FLOATS, *floats):
            can = ', '.join((*LOCAL_FLOATS, *floats))
            raise ValueError(f'--grid={name}: only float settings can be swept in one program: {can}')
    for point in points:
        check(with_point(config, point))
    if len({tuple(point.items()) for point in points}) < len(points):
        raise ValueError(f'--grid: a value of {", ".join(points[0])} is given twice')


def _local(config: Config, hyper: Mapping[str, Any]) -> Local:
    lr, decay = hyper.get('lr', config.lr), config.lr_decay
    return Local(
        epochs=config.local_epochs,
        steps=config.local_steps,
        batch_size=config.batch_size,
        lr=lr if decay == 1 else lambda round: lr * decay ** jnp.asarray(round, jnp.zeros(0).dtype),
        optimizer=config.local_optimizer,
        momentum=hyper.get('momentum', config.momentum),
        weight_decay=hyper.get('weight_decay', config.weight_decay),
        clip_norm=config.clip_norm,
        keep_optimizer=config.keep_optimizer,
    )


def _schedule(text: str) -> list[list[int]] | None:
    if not text:
        return None
    try:
        return [[int(i) for i in row.split(',')] for row in text.split(';')]
    except ValueError:
        raise ValueError(f'--schedule={text!r} must be client ids per round, such as 0,1;2,3') from None


def _available(devices: int | None) -> int:
    """Devices to use; asking for more than there are is an error, not something to make do without."""
    found = jax.local_device_count()
    if devices is not None and devices > found:
        raise ValueError(f'--devices={devices} is more than the {found} available')
    return devices or found


def _spread(config: Config, cohort: int, available: int, lanes: int) -> tuple[ClientMap, ClientMap]:
    """Who gets the devices: the clients of a cohort, unless there are enough lanes to keep every device busy."""
    if config.client_map == 'auto' and available > 1 and (lanes % available == 0 or lanes >= 4 * available):
        inside = mapping.resolve('auto', devices=1, chunk=config.chunk)
        return inside, ClientMap(1, mapping.client_mesh(available))
    clients = mapping.resolve(config.client_map, devices=min(available, cohort), chunk=config.chunk)
    return clients, ClientMap(1)


def _placement(clients: ClientMap, lanes: ClientMap) -> jax.sharding.Sharding | None:
    """States live on every device that works on them."""
    mesh = lanes.mesh or clients.mesh
    return None if mesh is None else jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())


def _program(config: Config, factory: Callable, sampler: Sampler, clients, lanes, start: Start) -> Program:
    steps = [config.eval_every, config.checkpoint_every or config.rounds, config.adapt_every or config.rounds]
    horizon = min(config.rounds, *steps)
    return make_program(
        factory,
        sampler,
        dropout=config.dropout,
        horizon=horizon,
        lane_map=lanes,
        placement=_placement(clients, lanes),
        start=start.variables,
    )


def _notes(config: Config, federation: Federation, algorithm: Algorithm) -> tuple[str, ...]:
    """What a user should know: choices made by auto, settings that a method overrules, batches that teach little."""
    how = 'stacked' if algorithm.facts['stacked'] else 'accumulated'
    notes = [f'clients: {algorithm.facts["client_map"]}; updates {how}']
    for key, owner in algorithm.facts['fixed_by'].items():
        asked, used = getattr(_local(config, {}), key), getattr(algorithm.facts['local'], key)
        if asked != used:
            notes.append(f'{owner} trains with {key}={used} instead of {asked}')
    lone = int(np.sum(federation.sizes % algorithm.facts['local'].batch_size == 1))
    if lone and jax.tree.leaves(jax.eval_shape(algorithm.init, jax.random.key(0)).variables['batch_stats']):
        whose = f'the last batch of {lone} of {federation.num_clients} clients'
        notes.append(f'{whose} is a single example, of which batch norm makes little; try another --batch_size')
    return tuple(notes)
