"""``fedjax-fair data``: its subcommands, their help, and mistakes in one line."""

import json
import pathlib
import sys

import matplotlib.image
import numpy as np
import pytest

from fedjax_fair.cli import data, main
from fedjax_fair.data import make_scenario


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
    assert sorted(flags) == sorted(f'--{flag.name}' for flag in subcommand.flags())
    assert set(subcommand.settings()) <= {flag.removeprefix('--') for flag in flags} and '--plugin' in flags


def test_data_is_a_command_of_the_usage(monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['fedjax-fair', '--help'])
    with pytest.raises(SystemExit):
        main.console()
    assert f'\n  data         {data.data.__doc__}' in capsys.readouterr().out


@pytest.mark.parametrize(
    ('words', 'told'),
    [
        (['nope'], "command of data 'nope' is not one of inspect, partition, prepare"),
        (['inspct'], "is not one of inspect, partition, prepare; did you mean 'inspect'?"),
        (['inspect', 'npz:a.npz', '--sorce_options=a=b'], '--sorce_options; --help shows all flags; did you mean'),
        (['inspect'], 'data inspect needs one argument, '),
        (['inspect', 'npz:a.npz', 'npz:b.npz'], 'npz:a.npz npz:b.npz'),
        (['inspect', 'npz:a.npz', '--lr=1'], 'data inspect: unknown flag --lr'),
        (['partition', 'gaussian_toy_1', '--num_clients=two'], '--num_clients=two'),
        (['partition', 'digits_common', '--alpha=0'], '--alpha=0.0 must be above 0'),
        (['partition', 'gaussian_toy_1', '--out=/'], '--out=/: nothing is written into the root of the file system'),
        (['partition', 'npz:no', '--out=/tmp/../p.json'], '--out=/tmp/../p.json: nothing is written into the root'),
        (['inspect', 'npz:no', '--out=/a.png'], '--out=/a.png: nothing is written into the root'),
    ],
)
def test_mistakes_are_one_line(monkeypatch, capsys, words, told):
    code, shown, error = leave(monkeypatch, capsys, *words)
    assert (code, shown) == (2, '') and error.startswith('fedjax-fair: error: ') and error.count('\n') == 1
    assert told in error


@pytest.fixture
def hospitals(tmp_path, monkeypatch):
    """Images of two hospitals and 60 patients; the working folder is empty."""
    rng = np.random.default_rng(0)
    images = np.repeat(np.repeat(rng.integers(0, 256, (240, 4, 4, 3), np.uint8), 2, 1), 2, 2)
    arrays = {'images': images, 'labels': np.arange(240) // 4 % 3, 'group': np.arange(240) // 4}
    arrays |= {'site': np.array(['north', 'south'])[np.arange(240) // 12 % 2], 'class_names': np.array(['x', 'y', 'z'])}
    np.savez(tmp_path / 'hospitals.npz', **arrays)
    (tmp_path / 'here').mkdir()
    monkeypatch.chdir(tmp_path / 'here')
    return tmp_path / 'hospitals.npz', arrays


def test_inspect_says_what_is_there(hospitals, monkeypatch, capsys):
    code, shown, error = leave(monkeypatch, capsys, 'inspect', str(hospitals[0]))
    assert (code, error) == (0, '')
    assert f'{hospitals[0]} looks like npz: ' in shown
    for line in ('240: 192 for training, 48 for testing', '8x8x3 uint8', '60, of 4 to 4 examples each'):
        assert line in shown
    counts = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.split()[0:1]}
    assert sum(int(counts[name][0]) for name in 'xyz') == 192 and sum(int(counts[name][1]) for name in 'xyz') == 48
    assert sum(int(counts[name][0]) for name in ('north', 'south')) == 192
    assert 'no problems found' in shown
    picture = pathlib.Path('runs/inspect-npz-hospitals.png')
    assert f'images: {picture}' in shown and matplotlib.image.imread(picture).std() > 0.05


def test_inspect_finds_problems_and_tells_by_its_exit_code(hospitals, monkeypatch, capsys):
    path, arrays = hospitals
    np.savez(path, **arrays, is_test=np.arange(240) % 7 == 0)
    code, shown, _ = leave(monkeypatch, capsys, 'inspect', f'npz:{path}', '--out=sheets/a.png')
    assert code == 1 and 'looks like' not in shown and pathlib.Path('sheets/a.png').exists()
    assert 'PROBLEM: 35 patients are both trained on and tested: ' in shown
    assert ' hospitals.npz images[0] and hospitals.npz images[1], ' in shown
    dull = arrays | {'images': np.where(np.arange(240)[:, None, None, None] == 3, 0, arrays['images'])}
    np.savez(path, **dull | {'images': dull['images'].astype(np.uint8)})
    code, shown, _ = leave(monkeypatch, capsys, 'inspect', f'npz:{path}')
    assert code == 0 and 'warning: 1 examples hold one value only: hospitals.npz images[3]\n' in shown


def test_inspect_reports_what_cannot_be_read(hospitals, monkeypatch, capsys):
    path, _ = hospitals
    path.write_bytes(path.read_bytes()[:2000])
    code, shown, error = leave(monkeypatch, capsys, 'inspect', str(path))
    assert (code, error) == (1, '') and shown.count('PROBLEM: the data cannot be read: --scenario=npz:') == 1
    assert not list(pathlib.Path().iterdir())


def test_inspect_names_all_files_that_cannot_be_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    for number in range(5):
        (tmp_path / 'd' / 'a').mkdir(parents=True, exist_ok=True)
        (tmp_path / 'd' / 'a' / f'{number}.png').write_bytes(b'no picture')
    code, shown, error = leave(monkeypatch, capsys, 'inspect', 'd')
    assert (code, error) == (1, '') and '5 of 5 files in d cannot be read' in shown
    assert [line.split()[0] for line in shown.splitlines()[-5:]] == [f'a/{number}.png' for number in range(5)]


def test_inspect_of_features_draws_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez('f.npz', images=np.random.default_rng(0).normal(size=(50, 5)), labels=np.arange(50) % 2)
    code, shown, _ = leave(monkeypatch, capsys, 'inspect', 'f.npz')
    assert code == 0 and '5 float32' in shown and [path.name for path in tmp_path.iterdir()] == ['f.npz']


@pytest.mark.parametrize(
    ('words', 'told'),
    [
        (['--npz_keys=site:ward'], '--npz_keys=site:ward: hospitals.npz has no such array'),
        (['--image_size=0'], '--image_size=0 must be at least 1'),
        (['--task=sorting'], '--task=sorting is not one of '),
    ],
)
def test_inspect_with_wrong_flags(hospitals, monkeypatch, capsys, words, told):
    code, shown, error = leave(monkeypatch, capsys, 'inspect', f'npz:{hospitals[0]}', *words)
    assert (code, shown) == (2, '') and told in error and error.count('\n') == 1


def test_inspect_of_nothing(hospitals, monkeypatch, capsys):
    (hospitals[0].parent / 'notes.txt').touch()
    code, _, error = leave(monkeypatch, capsys, 'inspect', str(hospitals[0].parent / 'notes.txt'))
    assert code == 2 and 'is not recognised; write KIND:PATH. Looked for were: ' in error
    code, _, error = leave(monkeypatch, capsys, 'inspect', 'digits_common')
    assert code == 2 and 'digits_common: no such file or folder, nor KIND:PATH with a kind among npz, ' in error


def test_partition_is_shown_drawn_and_written_and_gives_the_same_federation(hospitals, monkeypatch, capsys):
    words = ['partition', str(hospitals[0]), '--alpha=0.5', '--num_clients=4', '--data_seed=3']
    code, shown, error = leave(monkeypatch, capsys, *words, '--out=shared/p.json')
    assert (code, error) == (0, '') and 'clients   4, sizes ' in shown and 'partition: shared/p.json' in shown
    assert {path.name for path in pathlib.Path('shared').iterdir()} == {'p.json', 'p-clients.png', 'p-images.png'}
    settings = json.loads(pathlib.Path('shared/p.json').read_text())['settings']
    assert settings == {'alpha': 0.5, 'num_clients': 4, 'data_seed': 3}
    drawn = make_scenario(f'npz:{hospitals[0]}', alpha=0.5, num_clients=4, data_seed=3)
    again = make_scenario(f'npz:{hospitals[0]}', partition='shared/p.json')
    np.testing.assert_array_equal(drawn.x[drawn.index], again.x[again.index])
    code, read, _ = leave(monkeypatch, capsys, 'partition', str(hospitals[0]), '--partition=shared/p.json')
    assert code == 0 and shown.splitlines()[1:9] == read.splitlines()[1:9]
    assert pathlib.Path('runs/partition-npz-hospitals/partition.json').exists()


def test_partition_of_examples_that_are_drawn(hospitals, monkeypatch, capsys):
    words = ['partition', 'digits_domains', '--clients_per_domain=1', '--test_size=5']
    code, shown, _ = leave(monkeypatch, capsys, *words)
    assert code == 0 and 'partition:' not in shown
    names = {path.name for path in pathlib.Path('runs/partition-digits_domains').iterdir()}
    assert names == {'partition-clients.png', 'partition-images.png'}
    code, _, error = leave(monkeypatch, capsys, *words, '--out=p.json')
    assert code == 2 and '--out=p.json: digits_domains generates its data' in error


@pytest.mark.parametrize('out', ['sheet.txt', 'sheet'])
def test_a_sheet_is_a_png_by_name_before_anything_is_read(monkeypatch, capsys, out):
    code, shown, error = leave(monkeypatch, capsys, 'inspect', 'npz:/nowhere.npz', f'--out={out}')
    assert (code, shown) == (2, '') and f'--out={out}: the picture is a PNG; name a file that ends in .png' in error


@pytest.mark.parametrize('words', [['inspect', '--out=a.png'], ['partition', '--out=p.json']])
def test_a_picture_that_cannot_be_written(hospitals, monkeypatch, capsys, words):
    for name in ('a.png', 'p-clients.png'):
        pathlib.Path(name).symlink_to('/dev/full')
    name, out = words
    code, _, error = leave(monkeypatch, capsys, name, f'npz:{hospitals[0]}', out)
    assert code == 2 and 'cannot be written: No space left on device' in error and error.count('\n') == 1


@pytest.mark.parametrize('words', [['inspect', '--out=a.png'], ['partition', '--out=a.json']])
def test_out_may_be_a_link(hospitals, monkeypatch, capsys, words):
    name, out = words
    link = pathlib.Path(out.removeprefix('--out='))
    link.symlink_to('elsewhere')
    code, _, _ = leave(monkeypatch, capsys, name, f'npz:{hospitals[0]}', out)
    assert not code and link.is_symlink() and pathlib.Path('elsewhere').is_file()


@pytest.mark.parametrize('words', [['inspect', '--out={file}/a.png'], ['partition', '--out={file}/p.json']])
def test_out_below_a_file(hospitals, monkeypatch, capsys, words):
    name, out = words
    code, _, error = leave(monkeypatch, capsys, name, f'npz:{hospitals[0]}', out.format(file=hospitals[0]))
    assert code == 2 and 'cannot be written: ' in error and error.count('\n') == 1
