"""Synthetic run directories, written as a finished run writes them."""

import json

import numpy as np
import pytest

from fedjax_fair.metrics import over_seeds, summarise

DOMAINS = ('photo', 'sketch', 'cartoon', 'art')


@pytest.fixture
def make_run(tmp_path):
    """``make_run(recipe, ...)`` writes a run directory and returns its path."""

    def write(recipe='fedavg', **options):
        path = tmp_path / options.pop('directory', f'{recipe}_{len(list(tmp_path.iterdir()))}'.replace('/', '_'))
        return write_run(path, recipe, **options)

    return write


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
    summary_changes=(),
    config_changes=(),
):
    """Accuracies rise towards ``level``, group g lying ``gap * g`` below group 0, with noise by seed and client."""
    rng = np.random.default_rng(sum(map(ord, recipe)))
    group_of = np.arange(clients) % len(groups) if groups else None
    base = level - gap * (group_of if groups else np.linspace(0, 3, clients))
    lines, finals, personals = [], [], []
    for seed in range(seeds):
        shift = rng.normal(0, 0.01, clients)
        for step in range(every, rounds + 1, every):
            rise = 1 - np.exp(-4 * step / rounds)
            accuracy = np.clip(base * rise + shift + rng.normal(0, 0.01, clients), 0, 1)
            line = {
                'round': step,
                'seed': seed,
                'train_loss': 2.3 * np.exp(-5 * level * step / rounds) + gap + 0.02 * seed,
            }
            line['global'] = evaluation(accuracy, groups, group_of)
            if personal:
                line['deployed'] = evaluation(np.clip(accuracy + 0.05, 0, 1), groups, group_of)
            lines.append(line)
        finals.append(lines[-1]['global'])
        personals.append(lines[-1].get('deployed'))
    summary = {
        'recipe': recipe,
        'scenario': scenario,
        'model': model,
        'rounds': rounds,
        'seeds': seeds,
        'groups': list(groups),
        'group_of': group_of.tolist() if groups else None,
        'global': over_seeds(finals),
        'deployed': over_seeds(personals) if personal else None,
        'adapted': None,
        'seconds': 12.5,
        'compile_seconds': 4.0,
        'rounds_per_second': 8.0,
        'bytes_per_round': {'down': 150_000, 'up': 100_500},
        'work_per_round': {'steps': 40.0, 'examples': 640.0, 'gradient_passes': 80.0, 'forward_passes': 0.0},
        'load_per_core': 1.5,
        'cores': 2,
        'padding_waste': 0.07,
        'failures': {'dropped': 0, 'non_finite': 0, 'empty_rounds': 0},
    } | dict(summary_changes)
    config = {
        'recipe': recipe,
        'scenario': scenario,
        'model': model,
        'rounds': rounds,
        'seeds': list(range(seeds)),
        'commit': '0123abc',
        'command': f'fedjax-fair run --recipe={recipe} --scenario={scenario}',
        'versions': {'jax': '0.10.2', 'numpy': '2.4.0'},
        'flags': {'lr': 0.05, 'batch_size': 32},
    } | dict(config_changes)
    path.mkdir(parents=True)
    (path / 'config.json').write_text(json.dumps(config))
    (path / 'summary.json').write_text(json.dumps(summary, allow_nan=False))
    (path / 'metrics.jsonl').write_text(''.join(json.dumps(line, allow_nan=False) + '\n' for line in lines))
    return path


def evaluation(accuracy, groups, group_of):
    per_client = {'accuracy': accuracy, 'count': np.full(len(accuracy), 50), 'loss': 1.5 - accuracy}
    return summarise(per_client, np.arange(len(accuracy)), groups, group_of, per_client=True)
