"""``overwrite`` deletes what our commands wrote and nothing else; any empty folder is a good place for results."""

import json
import os
import pathlib
import types

import pytest

from fedjax_fair import results
from fedjax_fair.errors import UserError
from fedjax_fair.report import write_report
from fedjax_fair.training import Config, compare, comparison, loop, run, run_data_seeds, tune
from fedjax_fair.training.output import check_out, claimed, make_out
from fedjax_fair.training.output_files import HERE, LIST, read_list, write_list
from fedjax_fair.training.writer_lock import LOCK

pytestmark = pytest.mark.xdist_group('overwrite')


def begun(folder, listed=(), **settings):
    """A folder in which a run was begun; ``listed=None``: by an older version, which kept no list."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'config.json').write_text(json.dumps({'recipe': 'fedavg'} | settings))
    (folder / 'metrics.jsonl').write_text('')
    (folder / 'checkpoints' / '3').mkdir(parents=True)
    if listed is not None:
        write_list(folder, [HERE, *listed])
    return folder


def with_rows_on_disk(sites, **settings):
    how = {'recipe': 'scaffold', 'model': 'logreg', 'examples': 'disk', 'rows': 'disk', 'participation': 0.5}
    return Config(scenario=sites, rounds=1, devices=1, data={'clients_per_domain': 2}, **how, **settings)


def files(folder):
    """All files below a folder but for lists."""
    return {p.relative_to(folder).as_posix() for p in folder.rglob('*') if p.is_file() and p.name != LIST}


def overwrite(out, runs=(HERE,)):
    check_out(out, resume=False, overwrite=True, runs=runs)
    make_out(out, resume=False, runs=runs)


def assert_refused(out, message, runs=(HERE,), how='overwrite'):
    before = files(out)
    with pytest.raises(UserError, match=message) as raised:
        check_out(out, resume=how == 'resume', overwrite=how == 'overwrite', runs=runs)
    assert '\n' not in str(raised.value) and files(out) == before


# --- what is not ours ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('listed', [(), None])
@pytest.mark.parametrize('how', ['overwrite', 'resume'])
def test_a_folder_that_merely_contains_runs_is_refused(tmp_path, listed, how):
    begun(tmp_path / 'myrun', listed)
    assert_refused(tmp_path, f'^{how}: out=.* holds other files and no run', how=how)
    (tmp_path / 'thesis.tex').write_text('years of work')
    assert_refused(tmp_path, f'^{how}: out=.* holds other files and no run', how=how)
    assert_refused(tmp_path, '^overwrite: out=.* holds other files and no run', runs=['fedavg', 'fedprox'])


@pytest.mark.parametrize('listed', [(), None])
def test_other_files_in_a_run_folder_stay(tmp_path, listed):
    begun(tmp_path, listed)
    begun(tmp_path / 'another')
    for name in ('thesis.tex', 'my_loss.png', 'data/config.json', 'summary.json.bak'):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('mine')
    overwrite(tmp_path)
    kept = {'thesis.tex', 'my_loss.png', 'data/config.json', 'summary.json.bak'}
    assert files(tmp_path) == kept | {'another/config.json', 'another/metrics.jsonl'}
    assert (tmp_path / 'another' / 'checkpoints' / '3').is_dir() and not (tmp_path / 'checkpoints').exists()
    overwrite(tmp_path)  # an interrupted one goes on


DEEP = ('checkpoints/3/thesis.tex', 'checkpoints/3/state/d/mine.npz', 'checkpoints/2024-data/x', 'profile/plugins/mine')
DRAFTS = (
    f'.examples.{"0f" * 8}/mine.npz',
    '.examples.x7_abcde/mine.npz',
    'evaluated_examples/my-3.npz',
    'checkpointed_rows/3/notes.txt',
)


@pytest.mark.parametrize(
    'name', ['checkpoints/notes.txt', 'rows/table.csv', 'examples/mine.npz', 'profile', *DEEP, *DRAFTS]
)
def test_other_files_in_the_folders_of_a_run_are_refused(tmp_path, name):
    begun(tmp_path)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text('mine')
    first = name.removesuffix('/x')
    assert_refused(tmp_path, f'^overwrite: no run wrote .*{first}; move it, or name another out$')


def test_only_the_exact_names_of_drafts_are_deleted(tmp_path):
    begun(tmp_path)
    mine = {'predictions_of_mine.tmp', 'config.json.copy0001.tmp', '.examples.backup/data', '.examples.txt'}
    drafts = {
        'predictions.npz.tmp',
        'config.json.0f1e2d3c0f1e2d3c.tmp',
        'checkpoints/history-0.jsonl.0f1e2d3c0f1e2d3c.tmp',
        'checkpoints/3/file_checksums.json.0f1e2d3c0f1e2d3c.tmp',
    }
    for name in (*mine, *drafts, '.examples.x7_abcde/examples/layout.json', f'.examples.{"0f" * 8}/layout.json'):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('')
    overwrite(tmp_path)
    assert files(tmp_path) == mine


def test_a_checkpoint_that_was_being_written_is_deleted(tmp_path):
    step = (
        tmp_path / 'checkpoints' / '4.orbax-checkpoint-tmp' / 'state.orbax-checkpoint-tmp-17' / 'ocdbt.process_0' / 'd'
    )
    begun(tmp_path)
    step.mkdir(parents=True)
    (step / f'{"0f" * 16}.__lock').write_text('')
    overwrite(tmp_path)
    assert files(tmp_path) == set()


def test_a_listed_run_that_is_a_link_out_of_the_folder_is_refused(tmp_path):
    victim, out = begun(tmp_path / 'victim'), tmp_path / 'out'
    out.mkdir()
    (out / 'v').symlink_to(victim)
    write_list(out, ['v'])
    assert_refused(out, '^overwrite: .*v leads out of out=.*; remove the link, or name another out$')
    assert files(victim) == {'config.json', 'metrics.jsonl'}


def test_a_run_in_the_place_of_a_comparison_spares_what_no_run_wrote(tmp_path):
    write_list(tmp_path, ['fedavg'])
    begun(tmp_path / 'fedavg')
    (tmp_path / 'config.json').write_text('{"of": "another program"}')
    assert_refused(tmp_path, '^overwrite: no run wrote .*config.json')
    (tmp_path / 'config.json').unlink()
    overwrite(tmp_path)
    assert files(tmp_path) == set() and read_list(tmp_path) == [HERE]


def test_a_link_in_a_run_folder_goes_and_its_target_stays(tmp_path):
    out = begun(tmp_path / 'out')
    (tmp_path / 'elsewhere' / '7').mkdir(parents=True)
    (out / 'rows').symlink_to(tmp_path / 'elsewhere')
    (out / 'summary.json').symlink_to(begun(tmp_path / 'kept') / 'config.json')
    (tmp_path / 'elsewhere' / '7').rename(tmp_path / 'elsewhere' / '0.npy')
    overwrite(out)
    assert (tmp_path / 'elsewhere' / '0.npy').exists() and (tmp_path / 'kept' / 'config.json').exists()
    assert files(out) == set() and not (out / 'rows').is_symlink()


@pytest.mark.parametrize(
    'text',
    ['{"runs": ["../other"]}', '{"runs": ["/other"]}', '[]', '{"runs": 3}', 'x', '{"runs": ["./"]}', '{"runs": [""]}'],
)
def test_a_list_that_leads_out_of_the_folder_is_refused(tmp_path, text):
    out = begun(tmp_path / 'out')
    begun(tmp_path / 'other')
    (out / LIST).write_text(text)
    assert_refused(out, 'is not (a list of runs|valid JSON)')
    assert_refused(out, 'is not (a list of runs|valid JSON)', how='resume')


# --- several runs in one folder --------------------------------------------------------------------------------------


def test_a_comparison_is_overwritten_and_all_else_stays(tmp_path):
    write_list(tmp_path, ['fedavg', 'frontier/fedprox.mu', 'scaffold/data_seed=0'])
    begun(tmp_path / 'fedavg')
    begun(tmp_path / 'scaffold' / 'data_seed=0')
    write_list(begun(tmp_path / 'frontier/fedprox.mu'), [HERE, 'fedprox.mu=0'])
    begun(tmp_path / 'frontier/fedprox.mu/fedprox.mu=0', None)
    begun(tmp_path / 'handmade')
    for name in ('thesis.tex', 'fedavg/notes.txt', 'table.json', 'table.csv', 'report.html', 'frontier.md'):
        (tmp_path / name).write_text('{"scenarios": [{"scenario": "npz:a b"}]}')
    reported = {f'npz_a_b_{name}.png' for name in ('forest_avg', 'forest_site3', 'clients_adapted', 'loss')}
    mine = {f'npz_a_b_{name}.png' for name in ('mine', 'forest_paper', 'forest_site4', 'clients_paper')}
    for name in (
        *reported,
        *mine,
        'b_loss.png',
        'report.html.0123abcd0123abcd.tmp',
        'report.html.tmp',
        'report.html.mine.tmp',
    ):
        (tmp_path / name).write_text('')
    overwrite(tmp_path, runs=['fedavg', 'fedprox'])
    kept = {'thesis.tex', *mine, 'b_loss.png', 'report.html.mine.tmp', 'fedavg/notes.txt'}
    assert files(tmp_path) == kept | {'handmade/config.json', 'handmade/metrics.jsonl'}
    assert read_list(tmp_path) == [] and not (tmp_path / 'frontier').exists() and not (tmp_path / 'scaffold').exists()
    check_out(tmp_path / 'fedavg', resume=False, overwrite=True)  # the run may begin beside the notes


def test_a_comparison_of_an_older_version_is_overwritten_by_one_that_writes_its_runs(tmp_path):
    for name in ('fedavg', 'fedprox', 'frontier/q/q=1'):
        begun(tmp_path / name, None)
    for name in ('thesis.tex', 'report.html', 'fedavg/notes.txt'):
        (tmp_path / name).write_text('')
    assert_refused(tmp_path, '^overwrite: out=.* holds other files and no run')
    assert_refused(tmp_path, 'also holds the run fedprox', runs=['fedavg', 'frontier/q'])
    overwrite(tmp_path, runs=['fedavg', 'fedprox', 'scaffold', 'frontier/q'])
    assert files(tmp_path) == {'thesis.tex', 'fedavg/notes.txt'}
    check_out(tmp_path / 'fedavg', resume=False, overwrite=True)


def test_a_sweep_of_an_older_version_is_overwritten(tmp_path):
    begun(tmp_path / 'lr=1', None)
    (tmp_path / 'sweep.json').write_text('{}')
    (tmp_path / 'checkpoints' / '3').mkdir(parents=True)
    assert_refused(tmp_path, '^overwrite: out=.* holds other files and no run')
    overwrite(tmp_path, runs=[HERE, 'lr=1', 'lr=2'])
    assert files(tmp_path) == set() and read_list(tmp_path) == [HERE, 'lr=1', 'lr=2']


def test_a_run_that_is_being_written_is_not_overwritten_from_above(tmp_path):
    write_list(tmp_path, ['fedavg'])
    begun(tmp_path / 'fedavg')
    (tmp_path / 'fedavg' / LOCK).write_text('{}')
    assert_refused(tmp_path, 'out=.*fedavg is being written by', runs=['fedavg'])


def test_a_run_does_not_go_on_in_a_comparison_nor_the_reverse(tmp_path):
    write_list(tmp_path / begun(tmp_path / 'fedavg').parent, ['fedavg'])
    assert_refused(tmp_path, '^resume: out=.* holds other files and no run', how='resume')
    assert_refused(tmp_path / 'fedavg', '^resume: ', runs=['fedavg'], how='resume')
    check_out(tmp_path, resume=True, overwrite=False, runs=['fedavg', 'fedprox'])


def test_every_command_lists_its_runs_and_overwrite_leaves_nothing(toy, sites, tmp_path):
    """The closed list of names is complete: what real commands wrote is gone, and nothing of them is left."""
    config = toy(rounds=1, eval_every=1, checkpoint_every=1)
    out = {name: tmp_path / name for name in ('compare', 'seeds', 'run')}
    compare(config, ['ditto'], out['compare'], frontiers={'fedprox.mu': [0, 1]}, quiet=True)
    run_data_seeds(config, out['seeds'], [0, 1], quiet=True)
    run(with_rows_on_disk(sites, checkpoint_every=1), out['run'], quiet=True, profiled=True)
    write_report(results.run_folders(out['compare']), out['compare'])
    assert read_list(out['compare']) == ['ditto', 'frontier/fedprox.mu']
    assert read_list(out['seeds']) == ['data_seed=0', 'data_seed=1']
    assert read_list(out['compare'] / 'frontier' / 'fedprox.mu') == [HERE, 'fedprox.mu=0', 'fedprox.mu=1']
    assert read_list(out['run']) == [HERE] and not list(tmp_path.rglob(LOCK))
    for folder in out.values():
        overwrite(folder)
        assert [path.name for path in folder.rglob('*')] == [LIST]


def test_tuning_is_done_again_in_its_folder(toy, tmp_path):
    config, notes = toy(rounds=1, eval_every=1), tmp_path / 'final' / 'fedprox' / 'notes.txt'
    tune(config, ['fedprox'], tmp_path, budget=2, quiet=True)
    assert read_list(tmp_path) == ['trials/fedprox/rounds=1', 'final/fedprox', 'final/fedprox_tuned']
    notes.write_text('mine')
    before = (notes.parent / 'summary.json').stat().st_mtime_ns
    tune(config, ['fedprox'], tmp_path, budget=2, quiet=True, overwrite=True)
    assert (notes.parent / 'summary.json').stat().st_mtime_ns > before and notes.exists()
    overwrite(tmp_path)
    assert files(tmp_path) == {'final/fedprox/notes.txt'}


# --- places ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('name', ['link', 'mount', '.'])
def test_a_link_a_mount_point_and_the_working_folder_are_good_places(tmp_path, monkeypatch, name):
    """None of them can be removed; the lost+found of a file system is nobody's work."""
    target = tmp_path / 'target'
    (target / 'lost+found').mkdir(parents=True)
    (tmp_path / 'link').symlink_to(target)
    kept = os.rmdir

    def busy(path, *args, **kwargs):
        if pathlib.Path(path).resolve() == target:
            raise OSError(16, 'Device or resource busy')
        return kept(path, *args, **kwargs)

    monkeypatch.setattr(os, 'rmdir', busy)
    monkeypatch.chdir(target)
    out = {'link': tmp_path / 'link', 'mount': target, '.': pathlib.Path()}[name]
    for how in ({}, {'resume': True}, {'overwrite': True}):
        how = {'resume': False, 'overwrite': False} | how
        with claimed(out, **how):
            make_out(out, resume=how['resume'])
            (out / 'config.json').write_text('{"recipe": "fedavg"}')
    overwrite(out)
    assert [path.name for path in target.iterdir() if path.name != 'lost+found'] == [LIST]
    assert (tmp_path / 'link').is_symlink()


def test_a_run_in_the_working_folder(toy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(toy(rounds=1), '.', quiet=True)
    before = (tmp_path / 'summary.json').stat().st_mtime_ns
    run(toy(rounds=1), '', quiet=True, overwrite=True)
    assert (tmp_path / 'summary.json').stat().st_mtime_ns > before


@pytest.mark.parametrize('flag', ['resume', 'overwrite'])
def test_a_run_that_was_killed_before_its_settings_were_written_goes_on(sites, tmp_path, monkeypatch, flag):
    """Rows on disk are there before config.json."""
    few = with_rows_on_disk(sites, checkpoint_every=0)

    class Killed(BaseException):
        pass

    def kill(*args, **kwargs):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(loop.results, 'write_config', kill)
        with pytest.raises(Killed):
            run(few, tmp_path / 'out', quiet=True)
    assert {path.name for path in (tmp_path / 'out').iterdir()} == {LIST, 'examples', 'rows'}
    with pytest.raises(UserError, match='exists; pass resume, overwrite'):
        run(few, tmp_path / 'out', quiet=True)
    run(few, tmp_path / 'out', quiet=True, **{flag: True})
    assert (tmp_path / 'out' / 'summary.json').exists() and not (tmp_path / 'out' / 'rows').exists()


def test_what_a_run_set_aside_is_overwritten_too(tmp_path):
    begun(tmp_path)
    for name in ('checkpoints/damaged-5', 'checkpoints/damaged-5-again', 'checkpointed_rows/damaged-5'):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / 'checkpoints' / 'history-0.jsonl').write_text('')
    overwrite(tmp_path)
    assert not files(tmp_path) and not (tmp_path / 'checkpoints').exists()


def test_a_mistake_after_the_list_was_written_leaves_the_folder_free(tmp_path):
    make_out(tmp_path, resume=False)
    (tmp_path / f'{LIST}.0f1e2d3c0f1e2d3c.tmp').write_text('')  # of a writer that was killed
    check_out(tmp_path, resume=False, overwrite=False)


def test_a_comparison_that_was_killed_before_its_first_run_goes_on(toy, tmp_path, monkeypatch):
    prepared = {'title': 'fedavg', 'points': ({},), 'idle': ((),)}
    monkeypatch.setattr(
        comparison, 'prepare', lambda config, points=({},): types.SimpleNamespace(config=config, **prepared)
    )
    monkeypatch.setattr(comparison, 'run', lambda *args, **how: [how])
    write_list(tmp_path, [])
    (tmp_path / 'notes.txt').write_text('mine')
    for flag in ('resume', 'overwrite'):
        assert set(compare(toy(), ['fedavg'], tmp_path, **{flag: True})) == {'fedavg'}
    assert files(tmp_path) == {'notes.txt'}
