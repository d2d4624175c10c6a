"""What was run, in a few lines: the head of a log, of a table and of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedjax_fair.data.pool import TEST_SHARE

MOST_SETS = 6  # more test sets than this are told by their smallest and largest size


def head_facts(settings: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, str]:
    """One line on the data, the clients, the network and local training; what is not known is left out.

    ``settings`` are those of config.json; ``facts`` are ``scenario``, ``split``, ``clients`` and ``tests`` as in
    summary.json.

    >>> tests = {'names': ['a', 'b'], 'examples': [40, 25], 'patients': [4, 5]}
    >>> split = {'options': {'split_by': 'site'}, 'tests_drawn': True}
    >>> facts = {'scenario': 'npz:scans', 'clients': 2, 'tests': tests, 'split': split}
    >>> settings = {'data': {'image_size': 28}, 'model': 'mlp', 'rounds': 5, 'seeds': [0, 1], 'lr': 0.1}
    >>> for line in head_facts(settings, facts).values():
    ...     print(line)
    data: npz:scans, split_by=site, image_size=28; 20 % of the examples drawn for testing
    2 clients; 2 test sets: a (40 examples, 4 patients), b (25 examples, 5 patients)
    network mlp; 5 rounds; 2 seeds: 0, 1
    local training: learning rate 0.1
    """
    lines = {
        'data': _data(settings, facts),
        'clients': '; '.join(filter(None, [_counted(facts.get('clients'), 'client'), _tests(facts.get('tests'))])),
        'network': _network(settings),
        'training': _local(settings),
    }
    return {name: line for name, line in lines.items() if line}


def _data(settings: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    split = facts.get('split') or {'options': {}, 'tests_drawn': False}
    options = {**split['options'], **(settings.get('data') or {})}
    seed = settings.get('data_seed')
    shown = options | ({} if seed is None else {'data_seed': seed})
    told = ', '.join([f'data: {facts["scenario"]}', *(f'{name}={_written(value)}' for name, value in shown.items())])
    return told + f'; {100 * TEST_SHARE:.0f} % of the examples drawn for testing' * split['tests_drawn']


def _tests(tests: Mapping[str, Any] | None) -> str:
    if not tests:
        return ''
    names, examples, patients = tests['names'], tests['examples'], tests.get('patients')
    if len(examples) > MOST_SETS or len(names) != len(examples):
        held = f' ({_range(patients)} patients)' if patients else ''
        return f'{_counted(len(examples), "test set")} of {_range(examples)} examples{held}'
    if not patients and len(set(examples)) == 1:
        return f'{_counted(len(examples), "test set")} of {_counted(examples[0], "example")}: {", ".join(names)}'
    of = [f', {_counted(n, "patient")}' for n in patients] if patients else [''] * len(examples)
    each = [f'{name} ({_counted(n, "example")}{own})' for name, n, own in zip(names, examples, of, strict=True)]
    return f'{_counted(len(examples), "test set")}: {", ".join(each)}'


def _network(settings: Mapping[str, Any]) -> str:
    options = settings.get('model_options') or {}
    extra = {**(options if isinstance(options, Mapping) else {'options': options}), 'norm': settings.get('norm')}
    told = ', '.join(f'{name}={_written(value)}' for name, value in extra.items() if value is not None)
    model, seeds = settings.get('model'), settings.get('seeds')
    parts = [
        '' if model is None else f'network {model}' + f' ({told})' * bool(told),
        _counted(settings.get('rounds'), 'round'),
        f'{_counted(len(seeds), "seed")}: {", ".join(map(str, seeds))}' if isinstance(seeds, Sequence) else '',
    ]
    return '; '.join(filter(None, parts))


def _local(settings: Mapping[str, Any]) -> str:
    steps, epochs, share = (settings.get(name) for name in ('local_steps', 'local_epochs', 'participation'))
    parts = [
        _counted(epochs, 'epoch') if steps is None else _counted(steps, 'step'),
        f'batches of {settings["batch_size"]}' if 'batch_size' in settings else '',
        str(settings.get('local_optimizer') or ''),
        f'learning rate {settings["lr"]:g}' if settings.get('lr') is not None else '',
        f'{share:.0%} of the clients per round' if share not in (None, 1) else '',
    ]
    known = ', '.join(filter(None, parts))
    return f'local training: {known}' if known else ''


def _counted(count: Any, noun: str) -> str:
    return '' if count is None else f'{count} {noun}{"" if count == 1 else "s"}'


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f'{low} to {high}'


def _written(value: Any) -> str:
    return ','.join(map(str, value)) if isinstance(value, list | tuple) else str(value)
