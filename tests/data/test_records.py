"""Examples written to disk come back, at any positions; files that are not whole are refused."""

import json
import os
import subprocess

import numpy as np
import pytest

from fedjax_fair.data.records import DATA, EXAMPLES_AT_ONCE, LAYOUT, Records, write_records
from fedjax_fair.process_marks import new_mark


def images(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, 5, 4, 3), dtype=np.uint8), rng.integers(0, 9, count).astype(np.int32)


@pytest.fixture
def folder(tmp_path):
    write_records(tmp_path / 'examples', *images(200))
    return tmp_path / 'examples'


def test_examples_come_back_over_several_chunks(tmp_path):
    x, y = images(EXAMPLES_AT_ONCE + 37)
    write_records(tmp_path / 'examples', x, y)
    records = Records(tmp_path / 'examples')
    assert len(records) == len(x)
    for read, written in zip(records.take(np.arange(len(x))), (x, y), strict=True):
        assert read.dtype == written.dtype
        np.testing.assert_array_equal(read, written)


def test_positions_may_repeat_and_have_any_shape(folder):
    x, y = images(200)
    places = np.array([[199, 0, 7], [7, 7, 123]])
    read_x, read_y = Records(folder).take(places)
    np.testing.assert_array_equal(read_x, x[places])
    np.testing.assert_array_equal(read_y, y[places])
    assert read_x.flags.c_contiguous and read_y.flags.aligned


def test_no_positions_are_no_examples(folder):
    x, y = Records(folder).take(np.zeros(0, int))
    assert x.shape == (0, 5, 4, 3)
    assert y.shape == (0,)


@pytest.mark.parametrize('kind', [np.float32, np.float64, np.int16, bool])
def test_numbers_of_any_type_and_several_targets_each(tmp_path, kind):
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=(9, 7)) * 3).astype(kind), rng.integers(0, 2, (9, 4)).astype(np.uint8)
    write_records(tmp_path / 'examples', x, y)
    read_x, read_y = Records(tmp_path / 'examples').take(np.arange(8, -1, -1))
    assert read_x.dtype == kind
    np.testing.assert_array_equal(read_x, x[::-1])
    np.testing.assert_array_equal(read_y, y[::-1])


def test_memory_mapped_examples_are_written_chunk_by_chunk(tmp_path):
    x, y = images(50)
    np.save(tmp_path / 'x.npy', x)
    write_records(tmp_path / 'deep' / 'examples', np.load(tmp_path / 'x.npy', mmap_mode='r'), y)
    np.testing.assert_array_equal(Records(tmp_path / 'deep' / 'examples').take(np.array([49]))[0], x[49:])


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path):
    dead = subprocess.Popen(['true'])
    dead.wait()
    gone, living = (f'.examples.{new_mark()[:8]}{pid:06x}00' for pid in (dead.pid, os.getppid()))
    for name in (gone, living, '.examples.backup'):
        (tmp_path / name).mkdir()
        (tmp_path / name / DATA).write_text('half')
    write_records(tmp_path / 'examples', *images(3))
    assert {path.name for path in tmp_path.iterdir()} == {'examples', living, '.examples.backup'}


def one_line(act, *words):
    with pytest.raises(ValueError) as caught:
        act()
    message = str(caught.value)
    assert '\n' not in message
    assert all(word in message for word in words), message


@pytest.mark.parametrize('kept', [0, 100, 0.5, -1])
def test_a_truncated_file_is_refused(folder, kept):
    raw = (folder / DATA).read_bytes()
    (folder / DATA).write_bytes(raw[: int(kept * len(raw)) if isinstance(kept, float) else kept])
    one_line(lambda: Records(folder), str(folder / DATA), '200')


def test_a_missing_file_is_refused(folder):
    (folder / DATA).unlink()
    one_line(lambda: Records(folder), DATA, 'missing')


def test_a_damaged_record_is_refused_when_it_is_read(folder):
    raw = bytearray((folder / DATA).read_bytes())
    at = raw.find(images(200)[0][120].tobytes())
    raw[at + 3] ^= 255
    (folder / DATA).write_bytes(raw)
    records = Records(folder)
    records.take(np.array([119, 121]))
    one_line(lambda: records.take(np.array([119, 120])), DATA, 'damaged')


@pytest.mark.parametrize('text', ['', '{}', '[1]', '{"count": 200, "x": ["|u1", [5]], "y": ["|O", []]}'])
def test_a_layout_that_describes_nothing_is_refused(folder, text):
    (folder / LAYOUT).write_text(text)
    one_line(lambda: Records(folder), LAYOUT)


def test_a_missing_layout_is_refused(tmp_path):
    one_line(lambda: Records(tmp_path), LAYOUT, 'No such file')


def test_a_layout_of_other_examples_is_refused(folder):
    layout = json.loads((folder / LAYOUT).read_text())
    (folder / LAYOUT).write_text(json.dumps(layout | {'x': ['|u1', [5, 4]]}))
    one_line(lambda: Records(folder).take(np.array([0])), LAYOUT)


@pytest.mark.parametrize('place', [-1, 200])
def test_positions_outside_are_refused(folder, place):
    one_line(lambda: Records(folder).take(np.array([3, place])), str(place), '0..199')


def test_lengths_must_agree(tmp_path):
    one_line(lambda: write_records(tmp_path / 'examples', images(3)[0], images(4)[1]), '3', '4')


def test_only_numbers_are_written(tmp_path):
    one_line(lambda: write_records(tmp_path / 'examples', np.array(['a', 'b']), np.zeros(2)), 'numbers')


def test_what_is_there_stays_and_nothing_half_written_is_left(folder):
    one_line(lambda: write_records(folder, *images(10)), str(folder))
    assert len(Records(folder)) == 200
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_failure_midway_leaves_no_folder(tmp_path):
    class Failing(np.ndarray):
        def __getitem__(self, key):
            if key.start:
                raise OSError('the disk is gone')
            return super().__getitem__(key)

    x, y = images(EXAMPLES_AT_ONCE + 1)
    one_line(lambda: write_records(tmp_path / 'examples', x.view(Failing), y), 'the disk is gone')
    assert not list(tmp_path.iterdir())
