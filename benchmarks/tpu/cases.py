"""The programs that are compiled for TPUs: every recipe on a small network, and the five systems as published."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from experiments.published import preset_config
from fedjax_fair import registry
from fedjax_fair.training import Config

CHIP, FOUR = 'v5e', 'v5e:2x2'
SMALL = Config(
    model='cnn',
    model_options={'widths': (16, 32)},
    norm='batch',
    rounds=10,
    batch_size=8,
    local_epochs=1,
    eval_batch_size=32,
    seeds=(0,),
)
SHAPES = 'clients=8,examples=32,tests=64,side=16,channels=3,classes=10'
CLIENTS_AT_ONCE = 2  # of the small programs, so that each is compiled once
MASKS = 'clients=4,examples=16,tests=16,side=32,channels=3,classes=2,masks=true'
PUBLISHED = {  # preset, recipe, and the sizes of its data
    'fedism': ('paper', 'fedism', 'clients=20,examples=800,tests=500,test_sets=2,side=224,classes=5'),
    'fedtilt': ('paper', 'fedtilt', 'clients=100,examples=600,tests=100,test_sets=100,side=28,channels=1'),
    'harmofl': ('paper', 'harmofl', 'clients=5,examples=2000,tests=500,test_sets=5,side=96,classes=2'),
    'harmofl, masks': (
        'paper_segmentation',
        'harmofl',
        'clients=6,examples=100,tests=50,test_sets=6,side=256,classes=2,masks=true',
    ),
    'fedheal': ('paper', 'fedavg+fedheal', 'clients=20,examples=400,tests=2000,test_sets=4,side=32'),
    'fedld': ('paper', 'fedld', 'clients=5,examples=1800,tests=3000,side=384,classes=2'),
}


class Case(NamedTuple):
    """One run that is planned: its settings, the shapes of its data, and the machine."""

    name: str
    config: Config
    shapes: str
    topology: str


def small(**changes: Any) -> Config:
    """The settings of the small programs."""
    return SMALL.changed(chunk=CLIENTS_AT_ONCE, **changes)


def cases() -> Iterator[Case]:
    """What is asked for first comes first: FedAvg, which the others are compared with, then what is published."""
    for topology in (CHIP, FOUR):
        for recipe in registry.recipes:
            yield Case(f'{recipe} on {topology}', small(recipe=recipe), SHAPES, topology)
    for name, (preset, recipe, shapes) in PUBLISHED.items():
        published = preset_config(name.partition(',')[0], preset).changed(recipe=recipe, seeds=(0,))
        yield Case(f'{name} as published', published, shapes, CHIP)
    yield Case('segmentation', small(model='unet', model_options={'features': 8}), MASKS, CHIP)
    yield Case('four seeds', small(seeds=(0, 1, 2, 3)), SHAPES, CHIP)
    yield Case('bfloat16', small(precision='bfloat16'), SHAPES, CHIP)
    yield Case('streaming', small(recipe='scaffold', examples='host', rows='host', participation=0.5), SHAPES, CHIP)
