"""Every setting of an experiment in one place; the command line, config files and config.json are all views of it."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any


def setting(default: Any, help: str, group: str = 'run') -> Any:
    """A field of :class:`Config` with its help text."""
    return dataclasses.field(default=default, metadata={'help': help, 'group': group})


@dataclasses.dataclass(frozen=True)
class Config:
    """What is run. Two runs with equal configs (and versions, and devices) give equal numbers, bit for bit."""

    recipe: str = setting('fedavg', 'methods joined by +, such as fedprox or scaffold+server_adam')
    scenario: str = setting('digits_domains', 'data and its split over clients, or npz:PATH[,PATH...]')
    model: str = setting('auto', 'network; auto picks one for the shape of the inputs')
    model_options: str = setting('', 'options of the network, such as stem=cifar or features=16,depth=3')
    norm: str | None = setting(None, 'normalisation layer of the network: batch, group, none, stateless')
    normalize: str = setting('', 'channel means and deviations of inputs: MEAN/STD (such as 0.5/0.2), imagenet, retina')
    pretrained: str = setting('', 'PyTorch weights to start from (.safetensors or .npz)')
    loss: str | None = setting(None, 'of segmentation: joint, ce, dice, joint_batch or dice_batch')
    rounds: int = setting(30, 'rounds of federated training')
    seeds: tuple[int, ...] = setting((0,), 'seeds of initialisation, batch order and client sampling')
    data_seed: int = setting(0, 'seed of data and partition, the same for all seeds')
    # local training
    local_epochs: int = setting(2, 'passes over its data that a client makes per round', 'local')
    local_steps: int | None = setting(None, 'batches per round instead of epochs', 'local')
    batch_size: int = setting(16, 'examples per local step', 'local')
    lr: float = setting(0.1, 'local learning rate', 'local')
    lr_decay: float = setting(1.0, 'factor on the learning rate after every round', 'local')
    local_optimizer: str = setting('sgd', 'sgd, nesterov, adam, adamw, rmsprop or adagrad', 'local')
    momentum: float = setting(0.0, 'momentum of sgd', 'local')
    weight_decay: float = setting(0.0, 'L2 weight decay (decoupled for adamw)', 'local')
    clip_norm: float | None = setting(None, 'largest norm of a local gradient', 'local')
    keep_optimizer: bool = setting(False, "carry each client's optimiser state to its next round", 'local')
    augment: str = setting('', 'random crop, flip, affine, rotate, resized_crop, joined by +', 'local')
    outliers: str = setting('', 'training examples spoiled anew in every round: pixels or gaussian', 'local')
    outlier_share: float | None = setting(None, "share of each client's examples that are outliers (0.3)", 'local')
    outlier_strength: float | None = setting(None, 'share of pixels (0.3) or standard deviation (1)', 'local')
    outliers_once: bool = setting(False, 'the same examples stay spoiled in all rounds', 'local')
    # who takes part
    participation: float = setting(1.0, 'share of clients sampled each round', 'clients')
    sampler: str = setting('uniform', 'uniform, size (chances by examples) or schedule', 'clients')
    schedule: str = setting('', 'client ids per round for --sampler=schedule, such as 0,1;2,3', 'clients')
    dropout: float = setting(0.0, 'chance that a sampled client drops out of the round', 'clients')
    # data
    task: str | None = setting(None, 'what is learned: classification, segmentation, multilabel', 'data')
    num_clients: int | None = setting(None, 'number of clients', 'data')
    split_by: str | None = setting(None, 'how examples are dealt to clients', 'data')
    alpha: float | None = setting(None, 'concentration of a Dirichlet split', 'data')
    classes_per_client: int | None = setting(None, 'classes each client holds', 'data')
    clients_per_domain: int | None = setting(None, 'clients of every domain', 'data')
    client_sizes: tuple[int, ...] = setting((), 'training examples per client of each domain', 'data')
    test_size: int | None = setting(None, 'test examples of each domain', 'data')
    npz_keys: str | None = setting(None, 'names of arrays, such as site:hospital,split:- (- for none)', 'data')
    source_options: str | None = setting(None, 'options of the source, such as label=dx,site=hospital', 'data')
    image_size: int | None = setting(None, 'side to which images are resized', 'data')
    shift: float | None = setting(None, 'how far the hospitals of tissue differ: 0 not at all, 1 by default', 'data')
    corrupted_ratio: float | None = setting(None, 'share of clients whose images are corrupted', 'data')
    corruption: str | None = setting(None, 'gaussian_noise, motion_blur, shot_noise or contrast', 'data')
    severity: int | None = setting(None, 'how strong the corruption is, 1 to 5', 'data')
    truncate: bool = setting(False, 'cut all clients to the size of the smallest', 'data')
    join_sites: bool = setting(False, "sites that cannot be both trained on and tested become one, 'other'", 'data')
    partition: str | None = setting(None, 'FILE.json of `data partition`: who holds what, instead of a split', 'data')
    # evaluation
    eval_every: int = setting(5, 'rounds between evaluations', 'evaluation')
    last_k: int = setting(5, 'reported accuracies are means over the last k evaluations', 'evaluation')
    select: str = setting('last_k', 'what is reported: last_k, or best_validation (one evaluation)', 'evaluation')
    validation: float = setting(0.0, "share of each client's training examples to validate on", 'evaluation')
    adapt_every: int = setting(
        0, 'rounds between evaluations of locally adapted models; 0: only at the end', 'evaluation'
    )
    # hyper-parameters of methods, '--part.key=value'
    hyper: dict[str, Any] = dataclasses.field(default_factory=dict)
    # how it is computed
    client_map: str = setting('auto', 'auto, vmap, chunked or sharded', 'compute')
    chunk: int | None = setting(None, 'clients that run at once on a device', 'compute')
    devices: int | None = setting(None, 'devices to use; on CPU one per core by default', 'compute')
    conv: str = setting(
        'auto', 'convolutions: auto (by platform and shape), exact (XLA), patches, folded or winograd', 'compute'
    )
    examples: str = setting('auto', 'where examples are kept: auto, device, host or disk', 'compute')
    rows: str = setting('auto', "where clients' own states are kept: auto, device, host or disk", 'compute')
    precision: str = setting('float32', 'float32, or bfloat16: models compute in it and keep float32 state', 'compute')
    checkpoint_every: int = setting(50, 'rounds between checkpoints; 0: none', 'compute')

    def to_json(self) -> str:
        """All settings as JSON."""
        return json.dumps(dataclasses.asdict(self), indent=2)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Config:
        """From what :meth:`to_json` wrote."""
        names = {f.name for f in dataclasses.fields(cls)}
        unknown = sorted(set(values) - names)
        if unknown:
            raise ValueError(f'unknown setting {unknown[0]!r}; known: {", ".join(sorted(names))}')
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return cls(**{**values, **lists})


DATA_OPTIONS = tuple(f.name for f in dataclasses.fields(Config) if f.metadata.get('group') == 'data')
COMPUTE_OPTIONS = {f.name for f in dataclasses.fields(Config) if f.metadata.get('group') == 'compute'}

_AT_LEAST = {
    'rounds': 1,
    'local_epochs': 1,
    'local_steps': 1,
    'batch_size': 1,
    'eval_every': 1,
    'last_k': 1,
    'adapt_every': 0,
    'checkpoint_every': 0,
    'num_clients': 1,
    'chunk': 1,
    'devices': 1,
    'data_seed': 0,
    'momentum': 0,
    'weight_decay': 0,
    'image_size': 1,
    'test_size': 1,
    'classes_per_client': 1,
    'clients_per_domain': 1,
    'dropout': 0,
    'outlier_strength': 0,
    'validation': 0,
}
_ABOVE = {'lr': 0, 'lr_decay': 0, 'clip_norm': 0, 'participation': 0, 'alpha': 0}
_AT_MOST = {'participation': 1, 'dropout': 1, 'momentum': 1}


def check(config: Config) -> Config:
    """Refuse values that cannot be meant, naming the flag, the value and what is allowed."""
    values = dataclasses.asdict(config)
    for name, value in {**values, **config.hyper}.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f'--{name}={value} must be a finite number')
    for name, least in _AT_LEAST.items():
        if values[name] is not None and values[name] < least:
            raise ValueError(f'--{name}={values[name]} must be at least {least}')
    for name, bound in _ABOVE.items():
        if values[name] is not None and not values[name] > bound:
            raise ValueError(f'--{name}={values[name]} must be above {bound}')
    for name, most in _AT_MOST.items():
        if values[name] > most:
            raise ValueError(f'--{name}={values[name]} must be at most {most}')
    seeds = config.seeds
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) >= 2**32:
        raise ValueError(f'--seeds={",".join(map(str, seeds))} must be different whole numbers from 0 to {2**32 - 1}')
    if min(config.client_sizes, default=1) < 1:
        raise ValueError(f'--client_sizes={",".join(map(str, config.client_sizes))} must all be at least 1')
    if config.schedule and config.sampler != 'schedule':
        raise ValueError(f'--schedule={config.schedule} needs --sampler=schedule, not --sampler={config.sampler}')
    if config.select == 'best_validation' and not config.validation:
        raise ValueError('--select=best_validation needs --validation, a share of the training examples such as 0.2')
    if config.sampler == 'schedule' and config.participation != 1:
        raise ValueError(f'--participation={config.participation} does not apply to --sampler=schedule')
    return config
