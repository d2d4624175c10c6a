"""Every setting of an experiment in one place; the command line, config files and config.json are all views of it."""

from __future__ import annotations

import dataclasses
import json
import os
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from fedjax_fair import plugins, registry, results
from fedjax_fair.core import build
from fedjax_fair.core.client_map import CLIENT_MAPS, resolve
from fedjax_fair.core.local import LOCAL, OPTIMIZERS
from fedjax_fair.data import data_options
from fedjax_fair.data.declarations import given
from fedjax_fair.data.outliers import OUTLIERS
from fedjax_fair.data.scenarios.catalogue import DATA_SEED
from fedjax_fair.errors import UserError
from fedjax_fair.metrics.segmentation import LOSSES, SCORES
from fedjax_fair.models import NORMS, PRECISIONS
from fedjax_fair.models.conv import CONVS
from fedjax_fair.models.factory import check_options
from fedjax_fair.options import AUTO, Option, Range, above, at_least, between, not_one_of, options_of, pairs
from fedjax_fair.training.setting import AS_PARTS, AS_PLUGINS, Written, setting, setting_of
from fedjax_fair.training.storage import Place

BUILD, CLIENTS = options_of(build), options_of(resolve)
STORES = (AUTO, *(place.value for place in Place))


def _data_flags(option: Option) -> Iterable[Option]:
    """An option that is a setting too, such as the seed, is given as the setting."""
    return (one._replace(default=None) for name, one in data_options().items() if name not in NAMES)


AS_TEXT = Written(
    lambda option: [option._replace(default='', kind=str)], lambda given: options_from_text(*given.values())
)
AS_OPTIONS = Written(_data_flags, lambda given: {name: value for name, value in given.items() if value is not None})


@dataclasses.dataclass(frozen=True)
class Config:
    """What is run. Two runs with equal configs (and versions, and devices) give equal numbers, bit for bit.

    With ``deterministic`` the number of devices does not matter (docs/determinism.md).

    ``data`` holds options of the scenario (see :func:`~fedjax_fair.data.data_options`), ``model_options`` those of the
    network and ``hyper`` those of methods, written ``'part.key'``.
    """

    recipe: str = setting('fedavg', 'methods joined by +, such as fedprox or scaffold+server_adam')
    scenario: str = setting('digits_domains', 'the federation: a scenario, or SOURCE:PATH (see `fedjax-fair list`)')
    model: str = setting(AUTO, 'network; auto picks one for the shape of the inputs', lambda: (AUTO, *registry.models))
    model_options: Mapping[str, Any] = setting(
        {}, 'options of the network, such as stem=cifar or features=16,depth=3', written=AS_TEXT
    )
    norm: str | None = setting(None, 'normalisation layer of the network', NORMS)
    normalize: str = setting('', 'channel means and deviations of inputs: MEAN/STD (such as 0.5/0.2), imagenet, retina')
    pretrained: str = setting('', 'PyTorch weights to start from (.safetensors or .npz); none: random weights')
    loss: str | None = setting(None, 'loss of segmentation', LOSSES)
    score: str | None = setting(None, 'score of segmentation, by default the Dice of the foreground', tuple(SCORES))
    rounds: int = setting_of(BUILD['rounds'], default=30)
    seeds: tuple[int, ...] = setting((0,), 'seeds of initialisation, batch order and client sampling')
    data_seed: int = setting_of(DATA_SEED)
    plugins: tuple[str, ...] = setting(
        (), 'Python file or module that registers recipes, models or data; repeatable', written=AS_PLUGINS
    )
    # Not a compute option: those may change when a run goes on, and this one decides the bytes of its results.
    deterministic: bool = setting(
        False, 'one client at a time on a device, sums in a fixed order: the same bytes on any number of CPU devices'
    )
    # local training
    local_epochs: int = setting_of(LOCAL['epochs'], 'local', default=2)
    local_steps: int | None = setting_of(LOCAL['steps'], 'local')
    batch_size: int = setting_of(LOCAL['batch_size'], 'local', default=16)
    lr: float = setting_of(LOCAL['lr'], 'local', default=0.1)
    lr_decay: float = setting(1.0, 'factor on the learning rate after every round', above(0), 'local')
    local_optimizer: str = setting_of(LOCAL['optimizer'], 'local', choices=tuple(OPTIMIZERS))
    momentum: float = setting_of(LOCAL['momentum'], 'local')
    adam_b1: float = setting_of(LOCAL['b1'], 'local')
    adam_b2: float = setting_of(LOCAL['b2'], 'local')
    weight_decay: float = setting_of(LOCAL['weight_decay'], 'local')
    clip_norm: float | None = setting_of(LOCAL['clip_norm'], 'local')
    keep_optimizer: bool = setting_of(LOCAL['keep_optimizer'], 'local')
    augment: str = setting('', lambda: f'random {", ".join(registry.augmentations)}, joined by +', group='local')
    outliers: str = setting('', 'how training examples are spoiled, anew in every round', OUTLIERS, 'local')
    outlier_share: float | None = setting(
        None, "share of each client's examples that are outliers (0.3)", between(0, 1), 'local'
    )
    outlier_strength: float | None = setting(
        None, 'share of pixels (0.3) or standard deviation (1)', at_least(0), 'local'
    )
    outliers_once: bool = setting(False, 'the same examples stay spoiled in all rounds', group='local')
    outliers_cumulative: bool = setting(
        False, 'every round that a client takes part in spoils what the one before has left', group='local'
    )
    # who takes part
    participation: float = setting(1.0, 'share of clients sampled each round', above(0, at_most=1), 'clients')
    sampler: str = setting('uniform', 'how the clients of a round are drawn', lambda: registry.samplers, 'clients')
    schedule: str = setting('', 'client ids per round for the sampler schedule, such as 0,1;2,3', group='clients')
    dropout: float = setting(0.0, 'chance that a sampled client drops out of the round', between(0, 1), 'clients')
    # options of data, which scenarios and sources declare
    data: Mapping[str, Any] = setting({}, 'options of the scenario', group='data', written=AS_OPTIONS)
    # evaluation
    eval_every: int = setting(5, 'rounds between evaluations', at_least(1), 'evaluation')
    last_k: int | None = setting(
        None,
        'scores are means over the last k evaluations; by default the last quarter, at most 5',
        at_least(1),
        'evaluation',
    )
    select: str = setting('last_k', 'the evaluations that are reported', results.SELECTIONS, 'evaluation')
    validation: float = setting(
        0.0, "share of each client's training examples to validate on", Range(0, 1, below=True), 'evaluation'
    )
    eval_batch_size: int = setting_of(BUILD['eval_batch_size'], 'evaluation')
    keep_predictions: bool = setting(
        True, 'keep what every test example got, for intervals and verdicts', group='evaluation'
    )
    adapt_every: int = setting(
        0, 'rounds between evaluations of locally adapted models; 0: only at the end', at_least(0), 'evaluation'
    )
    hyper: Mapping[str, Any] = setting({}, 'options of methods, such as fedprox.mu', written=AS_PARTS)
    # how it is computed
    client_map: str = setting(AUTO, 'how clients run in parallel', CLIENT_MAPS, 'compute')
    chunk: int | None = setting_of(CLIENTS['chunk'], 'compute')
    devices: int | None = setting_of(CLIENTS['devices'], 'compute')
    conv: str = setting(
        AUTO,
        'how convolutions are computed: auto goes by platform and shape, exact is XLA',
        CONVS,
        'compute',
    )
    examples: str = setting(AUTO, 'where examples are kept', STORES, 'compute')
    rows: str = setting(AUTO, "where clients' rows are kept", STORES, 'compute')
    precision: str = setting(
        'float32', 'numbers that models compute in; their state is kept in float32', PRECISIONS, 'compute'
    )
    remat: bool = setting(
        False, 'compute normalisation and activations again in the backward pass, for less memory', group='compute'
    )
    checkpoint_every: int = setting(50, 'rounds between checkpoints; 0: none', at_least(0), 'compute')

    def to_json(self) -> str:
        """All settings as JSON."""
        return json.dumps(dataclasses.asdict(self), indent=2)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From what :meth:`to_json` wrote, today or in an earlier version."""
        values = nested(values)
        unknown = sorted(set(values) - set(NAMES))
        if unknown:
            raise UserError(f'setting {unknown[0]!r} {not_one_of(unknown[0], NAMES)}')
        return cls(**{name: _from_json(value) for name, value in values.items()})

    @classmethod
    def of_run(cls, folder: str | os.PathLike) -> Config:
        """The settings of a run folder, and its plug-ins where they are now (:func:`~fedjax_fair.plugins.located`)."""
        try:
            config = cls.from_dict(results.settings(folder))
        except UserError as error:
            place = os.path.join(folder, results.CONFIG)
            raise UserError(error.message if place in error.message else f'{place}: {error.message}') from None
        return dataclasses.replace(config, plugins=tuple(plugins.located(spec, folder) for spec in config.plugins))

    def recorded(self, model: str) -> dict[str, Any]:
        """What the files of a run say of its settings, with the network that ``auto`` chose and its options."""
        return dataclasses.asdict(self) | {'model': model, 'model_options': self.network_options(model)}

    def network_options(self, model: str) -> dict[str, Any]:
        """``model_options`` read and checked as those of a network.

        >>> Config(model_options={'widths': '64x32'}).network_options('mlp')
        {'widths': (64, 32)}
        """
        if 'norm' in self.model_options:
            raise UserError(f'`model_options`: norm is a setting of its own; write `norm`={self.model_options["norm"]}')
        values = check_options(model, self.norm, **self.model_options)
        return {name: values[name] for name in self.model_options}

    def at(self, point: Mapping[str, float]) -> Config:
        """The settings of one point of a grid, as if it had been run alone.

        >>> Config(recipe='fedprox').at({'fedprox.mu': 0.5, 'lr': 0.2}).hyper
        {'fedprox.mu': 0.5}
        """
        methods = {name: value for name, value in point.items() if '.' in name}
        local: dict[str, Any] = {name: value for name, value in point.items() if '.' not in name}
        return dataclasses.replace(self, hyper={**self.hyper, **methods}, **local)

    @property
    def tools(self) -> dict[str, registry.Registry]:
        """Besides the parts of the recipe, the names that have options ``'name.key'`` in ``hyper``."""
        augmentations = dict.fromkeys(filter(None, self.augment.split('+')), registry.augmentations)
        return {**augmentations, self.sampler: registry.samplers}

    def options_of(self, *names: str) -> dict[str, dict[str, Any]]:
        """The options in ``hyper`` of some parts or tools, by name and key.

        >>> Config(hyper={'fedprox.mu': 0.1, 'crop.padding': 2}).options_of('crop')
        {'crop': {'padding': 2}}
        """
        options: dict[str, dict[str, Any]] = {}
        for name, value in self.hyper.items():
            owner, _, key = name.partition('.')
            if owner in names:
                options.setdefault(owner, {})[key] = value
        return options

    @property
    def method_options(self) -> dict[str, Any]:
        """The hyper-parameters of the recipe, ``'part.key'``."""
        parts = self.recipe.split('+')
        return {name: value for name, value in self.hyper.items() if name.partition('.')[0] in parts}

    def changed(self, **changes: Any) -> Config:
        """A copy with some settings changed; a name that is no setting is an option of ``data``, and None removes it.

        >>> Config(data={'alpha': 0.1}).changed(lr=0.5, num_clients=5).data
        {'alpha': 0.1, 'num_clients': 5}
        """
        own = {name: value for name, value in changes.items() if name in NAMES}
        data = {**own.pop('data', self.data), **{n: v for n, v in changes.items() if n not in NAMES}}
        return dataclasses.replace(self, data={n: v for n, v in data.items() if v is not None}, **own)


NAMES = tuple(f.name for f in dataclasses.fields(Config))
BARE_NAMES = frozenset(NAMES) - {DATA_SEED.name}  # of settings that no option of data may have; all share the seed
for _registry in (registry.scenarios, registry.partitions):
    _registry.beside_settings(BARE_NAMES)
SEQUENCES = {f.name for f in dataclasses.fields(Config) if isinstance(f.default, tuple)}
MAPPINGS = {f.name for f in dataclasses.fields(Config) if f.default_factory is dict}
COMPUTE_OPTIONS = {f.name for f in dataclasses.fields(Config) if f.metadata['group'] == 'compute'}


def setting_options() -> dict[str, Option]:
    """The settings that are one value as options, each with the names that it may have now."""
    return {name: option for name, option in _options().items() if name not in MAPPINGS}


def flags_of_settings() -> dict[str, list[Option]]:
    """The flags of every setting by its name; options of data are those that plug-ins may have added to."""
    options = _options()
    return {f.name: list(f.metadata['written'].flags(options[f.name])) for f in dataclasses.fields(Config)}


def _options() -> dict[str, Option]:
    hints = typing.get_type_hints(Config)
    return {f.name: _option(f, hints[f.name]) for f in dataclasses.fields(Config)}


def _option(field: dataclasses.Field, hint: Any) -> Option:
    kind = typing.get_args(hint)[0] if isinstance(hint, types.UnionType) else hint  # int of int | None
    help, allowed = field.metadata['help'], field.metadata['allowed']
    help = help() if callable(help) else help
    if allowed is None or isinstance(allowed, Range):
        return Option(field.name, field.default, kind, help, allowed, search=field.metadata['tuned'])
    return Option(field.name, field.default, kind, help, choices=tuple(allowed() if callable(allowed) else allowed))


def options_from_text(text: str) -> dict[str, str]:
    """Options of the network as texts, which the network that has them reads.

    >>> options_from_text('features=16,widths=64x64')
    {'features': '16', 'widths': '64x64'}
    """
    return pairs('model_options', text)


def text_of_options(options: Mapping[str, Any]) -> str:
    """Options of the network as :func:`options_from_text` reads them.

    >>> text_of_options({'features': 16, 'widths': (64, 64)})
    'features=16,widths=64x64'
    """
    values = {n: 'x'.join(map(str, v)) if isinstance(v, tuple | list) else v for n, v in options.items()}
    return ','.join(f'{name}={value}' for name, value in values.items())


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a config.json in today's form.

    Runs of earlier versions have the options of data beside the other settings, with null, false or [] for those that
    were not given, and the options of the network as text.
    """
    options = data_options()
    beside = {name: values[name] for name in options if name in values and name not in NAMES}
    settings = {name: value for name, value in values.items() if name not in beside}
    if isinstance(settings.get('model_options'), str):
        settings['model_options'] = options_from_text(settings['model_options'])
    _check_shapes(settings)
    if beside:
        settings['data'] = given(beside, options) | settings.get('data', {})
    return settings


def _check_shapes(settings: Mapping[str, Any]) -> None:
    """Refuse values of a JSON file that are no mapping, no list or no single value where a setting is one."""
    for name, value in settings.items():
        if name in MAPPINGS:
            right, shape = isinstance(value, Mapping), 'an object of options'
        elif name == 'plugins':
            right = isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)
            shape = 'a list of files and modules'
        else:
            several = isinstance(value, list | tuple) and name not in SEQUENCES
            right, shape = not several and not isinstance(value, Mapping), 'a single value'
        if name in NAMES and not right:
            raise UserError(f'setting {name!r} must be {shape}, is {value!r}')


def _from_json(value: Any) -> Any:
    """Lists of JSON are tuples of settings."""
    if isinstance(value, dict):
        return {name: _from_json(one) for name, one in value.items()}
    return tuple(value) if isinstance(value, list) else value
