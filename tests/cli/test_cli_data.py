"""``fedjax-fair data``: its subcommands, their help, and mistakes in one line."""

import sys

import pytest

from fedjax_fair.cli import data, main


def leave(monkeypatch, capsys, *words):
    """Exit code, standard output and standard error of ``fedjax-fair data`` with these words."""
    monkeypatch.setattr(sys, 'argv', ['fedjax-fair', 'data', *words])
    with pytest.raises(SystemExit) as left:
        main.console()
    return left.value.code, *capsys.readouterr()


@pytest.mark.parametrize(('words', 'code'), [(['--help'], 0), (['help'], 0), ([], 2)])
def test_usage_names_every_subcommand(monkeypatch, capsys, words, code):
    left, shown, _ = leave(monkeypatch, capsys, *words)
    assert left == code and all(f'\n  {name} ' in shown for name in data.SUBCOMMANDS)


@pytest.mark.parametrize('name', data.SUBCOMMANDS)
def test_help_names_the_argument_and_exactly_the_flags_it_reads(monkeypatch, capsys, name):
    code, shown, _ = leave(monkeypatch, capsys, name, '--help')
    subcommand = data.SUBCOMMANDS[name]
    assert code == 0 and f'fedjax-fair data {name} {subcommand.argument} ' in shown
    flags = [line.split()[0] for line in shown.splitlines() if line.startswith('  --')]
    assert sorted(flags) == sorted(f'--{flag}' for flag in (*subcommand.settings, *subcommand.own))


def test_data_is_a_command_of_the_usage(monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['fedjax-fair', '--help'])
    with pytest.raises(SystemExit):
        main.console()
    assert f'\n  data     {data.data.__doc__}' in capsys.readouterr().out


@pytest.mark.parametrize(
    ('words', 'told'),
    [
        (['nope'], "unknown command 'data nope'; choose one of data inspect, data partition"),
        (['inspect'], 'data inspect needs one argument, '),
        (['inspect', 'npz:a.npz', 'npz:b.npz'], 'npz:a.npz npz:b.npz'),
        (['inspect', 'npz:a.npz', '--lr=1'], "data inspect: Unknown command line flag 'lr'"),
        (['partition', 'gaussian_toy_1', '--num_clients=two'], '--num_clients=two'),
        (['partition', 'digits_common', '--alpha=0'], '--alpha=0.0 must be above 0'),
    ],
)
def test_mistakes_are_one_line(monkeypatch, capsys, words, told):
    code, shown, error = leave(monkeypatch, capsys, *words)
    assert (code, shown) == (2, '') and error.startswith('fedjax-fair: error: ') and error.count('\n') == 1
    assert told in error
