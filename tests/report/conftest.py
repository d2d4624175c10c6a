"""Synthetic run directories, written as a finished run writes them."""

import dataclasses
import json

import numpy as np
import pytest
from scipy.special import ndtri

from fedjax_fair.metrics import over_seeds, summarise
from fedjax_fair.results.prediction_file import Predictions, predictions, write_predictions

DOMAINS = ('photo', 'sketch', 'cartoon', 'art')


@pytest.fixture
def make_run(tmp_path):
    """``make_run(recipe, ...)`` writes a run directory and returns its path."""

    def write(recipe='fedavg', **options):
        path = tmp_path / options.pop('directory', f'{recipe}_{len(list(tmp_path.iterdir()))}'.replace('/', '_'))
        return write_run(path, recipe, **options)

    return write


@pytest.fixture
def make_dead_run(make_run):
    """``make_dead_run(recipe, lanes, ...)``: a run that is right about no image in these seeds."""
    return lambda recipe, lanes, **options: with_nothing_right(make_run(recipe, **options), lanes)


@pytest.fixture
def make_uneven_run(make_run):
    """``make_uneven_run(recipe, site, count, ...)``: a run with so many test images at one site."""
    return lambda recipe, site, count, **options: with_few_images(make_run(recipe, **options), site, count)


@pytest.fixture
def three(make_run):
    """A fair recipe, one that is worse, and one that cannot be told from the first."""
    options = {'seeds': 5, 'images': 40, 'clients': 8}
    return [
        make_run('base', level=0.9, gap=0.1, **options),
        make_run('worse', level=0.6, gap=0.1, **options),
        make_run('same', level=0.9, gap=0.1, **options),
    ]


def write_run(
    path,
    recipe,
    scenario='digits',
    model='mlp',
    groups=DOMAINS,
    clients=20,
    seeds=3,
    rounds=50,
    every=5,
    level=0.8,
    gap=0.1,
    personal=False,
    images=0,
    patient_of=lambda image: image // 2,
    first_seed=0,
    tests='',
    summary_changes=(),
    config_changes=(),
):
    """Accuracies rise towards ``level``, group g lying ``gap * g`` below group 0, with noise by seed and client.

    With ``images`` the run keeps the predictions of so many test images of every client; ``tests`` names other ones.
    """
    group_of = np.arange(clients) % len(groups) if groups else None
    base = level - gap * (group_of if groups else np.linspace(0, 3, clients))
    seed_of = np.arange(first_seed, first_seed + seeds)
    steps = range(every, rounds + 1, every)
    lines = list(history(recipe, seed_of, steps, base, (level, gap), groups, group_of, personal))
    finals = [line for line in lines if line['round'] == steps[-1]]
    what = {'recipe': recipe, 'scenario': scenario, 'model': model, 'rounds': rounds, 'seeds': seed_of.tolist()}
    summary = {
        **what,
        'groups': list(groups),
        'group_of': group_of.tolist() if groups else None,
        'global': over_seeds([line['global'] for line in finals]),
        'deployed': over_seeds([line['deployed'] for line in finals]) if personal else None,
        'adapted': None,
        **COSTS,
    }
    path.mkdir(parents=True)
    (path / 'config.json').write_text(json.dumps(what | facts(recipe, scenario) | dict(config_changes)))
    (path / 'summary.json').write_text(json.dumps(summary | dict(summary_changes), allow_nan=False))
    (path / 'metrics.jsonl').write_text(''.join(json.dumps(line, allow_nan=False) + '\n' for line in lines))
    if images:
        got = kept(recipe, base, seed_of, groups, group_of, images, patient_of, tests)
        write_predictions(path, dataclasses.replace(got, kind='deployed', client=got.set) if personal else got)
    return path


COSTS = {
    'seconds': 12.5,
    'compile_seconds': 4.0,
    'rounds_per_second': 8.0,
    'bytes_per_round': {'down': 150_000, 'up': 100_500},
    'work_per_round': {'steps': 40.0, 'examples': 640.0, 'gradient_passes': 80.0, 'forward_passes': 0.0},
    'load_per_core': 1.5,
    'cores': 2,
    'padding_waste': 0.07,
    'failures': {'dropped': 0, 'non_finite': 0, 'empty_rounds': 0},
}


def facts(recipe, scenario):
    """What config.json says beside the settings."""
    return {
        'commit': '0123abc',
        'command': f'fedjax-fair run --recipe={recipe} --scenario={scenario}',
        'versions': {'jax': '0.10.2', 'numpy': '2.4.0'},
        'flags': {'lr': 0.05, 'batch_size': 32},
    }


def history(recipe, seeds, steps, base, level_and_gap, groups, group_of, personal):
    """The lines of metrics.jsonl: clients rise towards ``base``."""
    rng = np.random.default_rng(sum(map(ord, recipe)))
    level, gap = level_and_gap
    for seed in seeds.tolist():
        shift = rng.normal(0, 0.01, len(base))
        for step in steps:
            done = step / (steps.stop - 1)
            accuracy = np.clip(base * (1 - np.exp(-4 * done)) + shift + rng.normal(0, 0.01, len(base)), 0, 1)
            loss = 2.3 * np.exp(-5 * level * done) + gap + 0.02 * seed
            line = {'round': step, 'seed': seed, 'train_loss': loss}
            line['global'] = evaluation(accuracy, groups, group_of)
            if personal:
                line['deployed'] = evaluation(np.clip(accuracy + 0.05, 0, 1), groups, group_of)
            yield line


def kept(recipe, chance, seeds, groups, group_of, images, patient_of, tests):
    """What the images of every client got: right with its client's chance; easy images are easy for all recipes."""
    clients = len(chance)
    rows = np.repeat(np.arange(clients), images)
    easy = np.random.default_rng(0).standard_normal(len(rows))
    own = np.random.default_rng(sum(map(ord, recipe))).standard_normal((1000, len(rows)))[seeds]
    right = np.sqrt(0.8) * easy + np.sqrt(0.2) * own < ndtri(np.clip(chance, 0.001, 0.999))[rows]
    label = (np.arange(len(rows)) % 3).astype(np.int32)
    return Predictions(
        task='classification', metric='accuracy', kind='global', seed=seeds, round=np.full((len(seeds), 1), 50),
        set=rows, client=np.full(len(rows), -1), example=np.arange(len(rows)) + (10_000 if tests else 0),
        cluster=rows * images + np.array([patient_of(i) for i in range(images)] * clients),
        sets=tuple(f'site {n}' for n in range(clients)), groups=tuple(groups), test_of=np.arange(clients),
        group_of=np.full(clients, -1) if group_of is None else group_of, label=label,
        prediction=np.where(right, label, (label + 1) % 3).astype(np.uint8)[:, None],
    )  # fmt: skip


def with_nothing_right(path, lanes):
    """Make the models of some seeds of a run, by their places, wrong about every image."""
    got = predictions(path)
    answers = np.array(got.prediction)
    answers[list(lanes)] = (got.label + 1) % 3
    write_predictions(path, dataclasses.replace(got, prediction=answers))
    return path


def with_few_images(path, site, count):
    """Leave a site this many test images alone."""
    got = predictions(path)
    kept = (got.set != site) | (np.cumsum(got.set == site) <= count)
    rows = {name: getattr(got, name)[kept] for name in ('set', 'client', 'example', 'cluster', 'label')}
    write_predictions(path, dataclasses.replace(got, **rows, prediction=got.prediction[..., kept]))
    return path


def evaluation(accuracy, groups, group_of):
    per_client = {'accuracy': accuracy, 'count': np.full(len(accuracy), 50), 'loss': 1.5 - accuracy}
    return summarise(per_client, np.arange(len(accuracy)), groups, group_of, per_client=True)
