"""Checkpoints that were damaged: noticed by their checksums, set aside, and the one before them is used."""

import json
import pathlib
import random
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_fair.core.types import FedState
from fedjax_fair.errors import UserError
from fedjax_fair.training import checksums, file_checksums
from fedjax_fair.training.checkpoint import Checkpoints, Damaged

TALLIES = {'seconds': 1.5, 'sums': {'dropped': [1.0]}, 'seals': [{'history': {'bytes': 3, 'checksum': 7}}]}
ON_DEVICE, ON_HOST = jnp.asarray, np.asarray


def state(round, place):
    """Random numbers of a round; those of ``place`` are the rows of clients. Some are too long to stand in an index."""
    rng = np.random.default_rng(round)

    def table(*shape):
        return rng.normal(size=shape).astype(np.float32)

    model = {'params': {'kernel': jnp.asarray(table(1, 5, 80)), 'bias': jnp.asarray(table(1, 4))}}
    rows, seen = {'scaffold': place(table(1, 3, 400))}, jnp.arange(3, dtype=jnp.int32)[None]
    return FedState(jnp.full(1, round, jnp.int32), model, {}, {}, rows, seen)


@pytest.fixture(scope='module', params=[ON_DEVICE, ON_HOST], ids=['rows on the device', 'rows on the host'])
def saved(request, tmp_path_factory):
    """A folder with the checkpoints of rounds 2 and 4, and where their rows are."""
    folder = tmp_path_factory.mktemp('saved')
    store = Checkpoints(folder)
    for round in (2, 4):
        store.save(round, state(round, request.param), TALLIES)
    store.close()
    return folder, request.param


def copied(folder, to):
    """A copy has a name of its own: Orbax remembers what it has read under a name."""
    return pathlib.Path(shutil.copytree(folder, to))


def files_of(folder, round='*'):
    return sorted(path for path in folder.glob(f'*/{round}/**/*') if path.is_file())


def flip(path, draw):
    content = bytearray(path.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def equals(found, round, place):
    states, tallies = found
    pairs = zip(jax.tree.leaves(states), jax.tree.leaves(state(round, place)), strict=True)
    return tallies == TALLIES and all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


def restored(folder, place):
    """What is restored, and what is told."""
    store = Checkpoints(folder)
    try:
        return store.restore(state(0, place)), store.notes
    finally:
        store.close()


def assert_goes_back(folder, place):
    """The checkpoint of round 2 is used, and the run may save round 4 again."""
    found, notes = restored(folder, place)
    assert equals(found, 2, place) and len(notes) == 1 and '\n' not in notes[0]
    again = Checkpoints(folder)
    again.save(4, state(4, place), TALLIES)
    again.close()
    assert equals(restored(folder, place)[0], 4, place) and len(list(folder.glob('checkpoints/damaged-*'))) == 1
    return notes[0]


def test_every_flipped_bit_is_noticed(saved, tmp_path, capfd):
    """One random bit of every file, also of those that restoring never reads, then of files by their size."""
    folder, place = saved
    files, draw, noticed = files_of(folder, 4), random.Random(0), []
    sizes = [path.stat().st_size for path in files]
    for trial, path in enumerate(files + draw.choices(files, sizes, k=60 - len(files))):
        copy = copied(folder, tmp_path / str(trial))
        flipped = copy / path.relative_to(folder)
        flip(flipped, draw)
        with pytest.raises(Damaged, match='is not what was saved') as error:
            Checkpoints(copy).read(4, state(0, place))
        assert str(copy / 'checkpoints' / '4') in error.value.message
        noticed.append(path)
        shutil.rmtree(copy)
    assert len(noticed) == 60 and set(noticed) == set(files)
    holding_rows = 'checkpointed_rows' if place is ON_HOST else 'ocdbt.process_0'
    assert any(holding_rows in str(path) for path in noticed) and any('tallies' in str(path) for path in noticed)
    assert capfd.readouterr().err == ''


def test_a_flipped_bit_is_noticed_without_checksums_of_files_or_changes_nothing(saved, tmp_path):
    """As in a checkpoint of an older version, or of a run that was killed right after it."""
    folder, place = saved
    files, draw, noticed = files_of(folder, 4), random.Random(1), []
    for path in draw.choices(files, [path.stat().st_size for path in files], k=20):
        copy = copied(folder, tmp_path / 'copy')
        (copy / 'checkpoints' / '4' / file_checksums.NAME).unlink()
        flipped = copy / path.relative_to(folder)
        if flipped.exists():
            flip(flipped, draw)
            try:
                assert equals(Checkpoints(copy).read(4, state(0, place)), 4, place), path
            except Damaged:
                noticed.append(path)
        shutil.rmtree(copy)
    assert noticed


def test_of_a_large_file_the_size_is_kept(saved, tmp_path, monkeypatch):
    copy = copied(saved[0], tmp_path / 'copy')
    file = copy / 'checkpoints' / '4' / 'state' / '_METADATA'
    monkeypatch.setattr(file_checksums, 'SMALL', 10)
    file_checksums.seal(copy / 'checkpoints' / '4')
    assert file_checksums.changed(copy / 'checkpoints' / '4') is None
    file.write_bytes(file.read_bytes()[:-1])
    assert file_checksums.changed(copy / 'checkpoints' / '4') == 'checkpoints/4/state/_METADATA'


@pytest.mark.parametrize('harm', ['lost', 'empty', 'cut', 'garbage'])
def test_the_checkpoint_before_is_used_where_a_file_is(saved, tmp_path, capfd, harm):
    """The checksums of files alone may be lost, as a run that is killed then leaves a checkpoint."""
    folder, place = saved
    gone_back = []
    for number, path in enumerate(files_of(folder, 4)):
        copy = copied(folder, tmp_path / str(number))
        damaged, content = copy / path.relative_to(folder), path.read_bytes()
        damaged.write_bytes({'cut': content[: len(content) // 2], 'garbage': b'\xff{' * 20}.get(harm, b''))
        if harm == 'lost':
            damaged.unlink()
        found, notes = restored(copy, place)
        assert equals(found, 2 if notes else 4, place), path
        assert notes or path.name == file_checksums.NAME
        if notes:
            gone_back.append(path)
            assert [one.name for one in (copy / 'checkpoints').iterdir() if one.name != '2'] == ['damaged-4']
    assert {'manifest.ocdbt', 'metadata'} <= {path.name for path in gone_back}
    assert capfd.readouterr().err == ''


@pytest.mark.parametrize('part', ['checkpoints/4/state', 'checkpoints/4/tallies', 'checkpoints/4/state/d'])
def test_a_part_that_is_missing_is_noticed(saved, tmp_path, part):
    copy = copied(saved[0], tmp_path / 'copy')
    shutil.rmtree(copy / part)
    assert_goes_back(copy, saved[1])


def test_rows_that_are_missing_are_noticed(saved, tmp_path):
    folder, place = saved
    if place is ON_HOST:
        copy = copied(folder, tmp_path / 'copy')
        shutil.rmtree(copy / 'checkpointed_rows' / '4')
        assert_goes_back(copy, place)
    else:
        assert not (folder / 'checkpointed_rows').exists()


def test_an_empty_folder_is_no_checkpoint(saved, tmp_path):
    folder, place = saved
    copy = copied(folder, tmp_path / 'copy')
    (copy / 'checkpoints' / '99').mkdir()
    found, (note,) = restored(copy, place)
    assert equals(found, 4, place)
    assert f'{copy}/checkpoints/99 is damaged (' in note and note.endswith(
        'set aside, and the run goes on from round 4'
    )


def test_what_was_set_aside_stays(saved, tmp_path):
    """Also where the same checkpoint is damaged again."""
    folder, place = saved
    copy = copied(folder, tmp_path / 'copy')
    for _ in range(3):
        shutil.copytree(folder / 'checkpoints' / '4', copy / 'checkpoints' / '4', dirs_exist_ok=True)
        (copy / 'checkpoints' / '4' / 'state' / '_METADATA').write_text('{')
        assert len(restored(copy, place)[1]) == 1
    aside = ['damaged-4', 'damaged-4-again', 'damaged-4-again-again']
    assert sorted(path.name for path in (copy / 'checkpoints').iterdir()) == ['2', *aside]


def test_where_none_is_whole_nothing_is_deleted(saved, tmp_path):
    folder, place = saved
    copy = copied(folder, tmp_path / 'copy')
    for path in copy.glob('checkpoints/*/tallies/metadata'):
        path.write_text('{"seconds": 0}')
    before = files_of(copy)
    with pytest.raises(
        UserError, match=r'^no checkpoint can be used: .*4 is damaged .*2 is damaged .* start again'
    ) as told:
        restored(copy, place)
    assert '\n' not in str(told.value) and files_of(copy) == before


OTHERS = {  # parts of the state that a run of other code or settings has, and what is told about them
    'one more': (lambda like: {'server': {'drift': like.seen}}, 'server/drift: nothing there, int32'),
    'one less': (lambda like: {'variables': {}}, r'variables/params/bias: .* there, nothing here'),
    'another shape': (lambda like: {'seen': like.seen[:, :2]}, r'seen: int32\[1, 3\] there, int32\[1, 2\] here'),
    'another type': (
        lambda like: {'seen': like.seen.astype(jnp.float32)},
        r'seen: int32\[1, 3\] there, float32\[1, 3\] here',
    ),
    'other rows': (lambda like: {'clients': {'ditto': like.clients['scaffold']}}, 'clients/ditto: nothing there'),
    'more rows': (lambda like: {'clients': {**like.clients, 'a': like.clients['scaffold']}}, 'clients/a: nothing'),
    'shorter rows': (lambda like: {'clients': {'scaffold': like.clients['scaffold'][..., :9]}}, 'clients/scaffold: '),
}


@pytest.mark.parametrize('other', OTHERS)
def test_a_checkpoint_of_other_code_or_settings_is_refused(saved, tmp_path, other):
    """Orbax would give None for an array that it has not saved, and values of another type."""
    folder, place = saved
    copy = copied(folder, tmp_path / 'copy')
    before, (change, why) = files_of(copy), OTHERS[other]
    store, like = Checkpoints(copy), state(0, place)
    with pytest.raises(UserError, match=rf'4 was made by other code or settings \({why}.*; start again') as told:
        store.restore(like._replace(**change(like)))
    assert 'damaged' not in str(told.value) and files_of(copy) == before
    store.close()


def test_a_server_entry_that_was_none_is_no_array(tmp_path):
    store = Checkpoints(tmp_path)
    like = state(0, ON_DEVICE)
    store.save(1, like._replace(server={'track_drift': None}), {})
    store.close()
    with pytest.raises(Damaged, match=r'other code or settings \(server/track_drift: nothing there, float32\[1\] here'):
        store.read(1, like._replace(server={'track_drift': jnp.zeros(1)}))
    assert store.read(1, like._replace(server={'track_drift': None}))[0].server == {'track_drift': None}


@pytest.mark.parametrize('more', [{}, {'loads': [0.5]}])
def test_a_checkpoint_of_an_older_version_has_no_checksums(saved, tmp_path, more):
    folder, place = saved
    old = {'seconds': 1.0, 'compile_seconds': 0.5, 'sums': {}} | more
    tallies = copied(folder, tmp_path / 'copy') / 'checkpoints' / '4' / 'tallies' / 'metadata'
    tallies.write_text(json.dumps(old))
    (tmp_path / 'copy' / 'checkpoints' / '4' / file_checksums.NAME).unlink()
    (states, found), notes = restored(tmp_path / 'copy', place)
    assert found == old and not notes and equals((states, TALLIES), 4, place)


# --- checksums -------------------------------------------------------------------------------------------------------


def test_a_checksum_tells_values_shapes_types_and_places_apart():
    long = np.random.default_rng(0).integers(0, 2**31, 5 * checksums.LANES * 2 + 3, np.int32)  # five rows and a rest
    rows = long[:-3].reshape(5, -1)
    swapped = np.concatenate([rows[[0, 3, 2, 1, 4]].ravel(), long[-3:]])
    others = [long.view(np.float32), long[None], long[:-1], np.roll(long, 1), swapped, np.zeros_like(long), long[:0]]
    assert len({checksums.of_array(one) for one in [long, *others]}) == 8


def test_a_checksum_does_not_depend_on_where_an_array_is(tmp_path):
    table = np.arange(4 * 2 * checksums.LANES, dtype=np.float32).reshape(4, -1)
    np.save(tmp_path / 'table.npy', table)
    mapped = np.load(tmp_path / 'table.npy', mmap_mode='r')
    mesh = jax.make_mesh((4,), ('devices',))
    spread = [jax.NamedSharding(mesh, jax.P(*axes)) for axes in (('devices',), (None, 'devices'), ())]
    places = [mapped, np.asfortranarray(table), *(jax.device_put(table, sharding) for sharding in spread)]
    assert {checksums.of_array(one) for one in places} == {checksums.of_array(table)}


@pytest.mark.parametrize('dtype', [np.bool_, np.int8, jnp.bfloat16, np.float64])
def test_every_flipped_bit_of_an_array_changes_its_checksum(dtype):
    words = np.zeros(2 * 8 * checksums.LANES + 8, np.uint8)
    before, draw = checksums.of_array(words.view(dtype)), random.Random(0)
    for bit in [*range(64), *(draw.randrange(8 * words.size) for _ in range(40))]:
        words[bit // 8] ^= 1 << bit % 8
        assert checksums.of_array(words.view(dtype)) != before
        words[bit // 8] ^= 1 << bit % 8
    assert checksums.of_array(words.view(dtype)) == before
