"""Results are published whole: a reader sees the file of before or the new one, never half of it."""

import errno
import os
import pathlib
import subprocess
import time

import pytest

from fedjax_fair import process_marks, publishing
from fedjax_fair.publishing import CannotWrite, behind_links, free_bytes, make_folder, publish, published


@pytest.fixture
def full(monkeypatch):
    """A disk on which nothing more can be written for good."""

    def refuse(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(publishing, 'to_disk', refuse)


def test_a_file_appears_once_it_is_whole(tmp_path):
    path = tmp_path / 'table.md'
    publish(path, 'old')
    with published(path) as draft:
        draft.write_text('half')
        assert path.read_text() == 'old' and draft.parent == tmp_path
        draft.write_text('new')
    assert path.read_text() == 'new' and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize('error', [KeyboardInterrupt, RuntimeError])
def test_what_was_there_stays_when_writing_fails(tmp_path, error):
    publish(tmp_path / 'table.md', b'old')
    with pytest.raises(error), published(tmp_path / 'table.md') as draft:
        draft.write_text('half')
        raise error
    assert [path.name for path in tmp_path.iterdir()] == ['table.md'] and (tmp_path / 'table.md').read_text() == 'old'


def test_a_full_disk_is_one_line(tmp_path, full):
    with pytest.raises(CannotWrite, match=r'table\.md cannot be written: No space left on device \(.* are free\)$'):
        publish(tmp_path / 'table.md', 'new')
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / 'file').write_text('')
    for place in (tmp_path / 'file' / 'below', pathlib.Path('/proc/none/such')):
        with pytest.raises(CannotWrite, match=r'cannot be written: (No such file or directory|Not a directory)$'):
            make_folder(place)
        with pytest.raises(CannotWrite):
            publish(place / 'table.md', '')


def test_a_link_to_nothing_is_named(tmp_path):
    (tmp_path / 'link').symlink_to(tmp_path / 'nowhere')
    for place in (tmp_path / 'link', tmp_path / 'link' / 'below'):
        with pytest.raises(CannotWrite, match=r'link is a link to .*nowhere, which does not exist$'):
            make_folder(place)


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path):
    path = tmp_path / 'report.html'
    with published(path) as first:
        first.write_text('first')
        publish(path, 'second')
        assert path.read_text() == 'second' and first.read_text() == 'first'
    assert path.read_text() == 'first' and list(tmp_path.iterdir()) == [path]


def test_a_link_is_written_through_where_the_user_names_it(tmp_path):
    (tmp_path / 'link').symlink_to(tmp_path / 'file')
    publish(behind_links(tmp_path / 'link'), 'new')
    assert (tmp_path / 'link').is_symlink() and (tmp_path / 'file').read_text() == 'new'
    publish(tmp_path / 'link', 'newer')  # in a folder of others
    assert not (tmp_path / 'link').is_symlink() and (tmp_path / 'file').read_text() == 'new'
    assert behind_links('/dev/stdout') == pathlib.Path('/dev/stdout')


def test_an_open_file_is_written_as_it_is(tmp_path):
    """What a shell has redirected, for example."""
    with (tmp_path / 'file').open('w') as file:
        publish(behind_links(f'/dev/fd/{file.fileno()}'), 'text')
        assert os.fstat(file.fileno()).st_ino == (tmp_path / 'file').stat().st_ino
    assert [path.name for path in tmp_path.iterdir()] == ['file'] and (tmp_path / 'file').read_text() == 'text'


def test_pipes_and_devices_are_written_as_they_are():
    publish('/dev/null', 'text')
    assert pathlib.Path('/dev/null').is_char_device()


def test_free_space_is_that_of_the_nearest_folder(tmp_path):
    assert free_bytes(tmp_path / 'not' / 'yet') > 0


def left_by(process: int, number: int = 0) -> str:
    """The mark of another process on this machine."""
    return f'{process_marks.new_mark()[:8]}{process:06x}{number:02x}'


def test_what_a_killed_process_left_goes_with_the_next_file_of_that_name(tmp_path):
    dead = subprocess.Popen(['true'])
    dead.wait()
    gone, living = (tmp_path / f'table.md.{left_by(pid)}.tmp' for pid in (dead.pid, os.getppid()))
    mine, other = tmp_path / 'table.md.copy.tmp', tmp_path / f'other.md.{left_by(dead.pid)}.tmp'
    for path in (gone, living, mine, other):
        path.write_text('half')
    publish(tmp_path / 'table.md', 'new')
    assert {path.name for path in tmp_path.iterdir()} == {'table.md', living.name, mine.name, other.name}


def test_what_another_machine_writes_goes_when_it_has_been_silent(tmp_path):
    draft = tmp_path / f'table.md.{int(left_by(1)[:8], 16) ^ 1:08x}00000100.tmp'
    draft.write_text('half')
    publish(tmp_path / 'table.md', 'new')
    assert draft.exists()
    long_ago = time.time() - process_marks.SILENCE - 60
    os.utime(draft, (long_ago, long_ago))
    publish(tmp_path / 'table.md', 'newer')
    assert [path.name for path in tmp_path.iterdir()] == ['table.md']
