"""Signals: the first asks for a checkpoint or unwinds, the second ends the program, and none shows a traceback."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from fedjax_fair.interruption import EXIT_CODES, Interrupted, StopFlag, Terminated, exit_code, of_program

AT_ONCE = 'fedjax-fair: stopped at once; --resume goes on from the last checkpoint, if any\n'
HEAD = 'import gc, signal, sys, time; from fedjax_fair.interruption import *\n'
PROGRAMS = {
    'unwound twice': """
with of_program():
    try:
        signal.raise_signal({0})
    finally:
        signal.raise_signal({0})
""",
    'stopped twice': """
with of_program(), StopFlag() as stop:
    signal.raise_signal({0})
    assert stop.asked
    signal.raise_signal({0})
""",
    'stopped and then something else': """
with of_program(), StopFlag() as stop:
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal({0})
""",
    'in the middle of a checkpoint': """
import concurrent.futures
with of_program(), StopFlag() as stop, concurrent.futures.ThreadPoolExecutor(1) as pool:
    saving = pool.submit(time.sleep, 60)
    for _ in range(2):
        signal.raise_signal({0})
    saving.result()
""",
    'in a library that answers no signal': """
import hashlib, os, threading
def send():
    for _ in range(2):
        time.sleep(0.3)
        os.kill(os.getpid(), {0})
with of_program():
    threading.Thread(target=send).start()
    hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)
""",
    'in a destructor': """
class Held:
    def __del__(self):
        signal.raise_signal({0})

with of_program():
    Held()
    time.sleep(60)
""",
    'in the collection of garbage': """
gc.callbacks.append(lambda *about: signal.raise_signal({0}))
with of_program():
    gc.collect()
    time.sleep(60)
""",
    'while libraries are imported': """
class Finder:
    def find_spec(self, name, *about):
        if name == 'fedjax_fair.cli.main':
            signal.raise_signal({0})

sys.meta_path.insert(0, Finder())
from fedjax_fair.cli import console
console()
""",
}


def ended(program, signum):
    """Exit code and standard error of a program of its own."""
    code = HEAD + program.format(f'signal.Signals({int(signum)})')
    found = subprocess.run([sys.executable, '-c', code], cwd=os.getcwd(), stderr=subprocess.PIPE, text=True, timeout=50)
    return found.returncode, found.stderr


@pytest.mark.parametrize('signum', [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize('program', PROGRAMS)
def test_a_second_signal_ends_the_program_in_one_line(program, signum):
    assert ended(PROGRAMS[program], signum) == (EXIT_CODES[signum], AT_ONCE)


LATE = """
import atexit, fedjax_fair.cli.main as main
atexit.register(lambda: time.sleep(60))  # a library that takes long
def console():
    print('table')
    sys.exit(CODE)
main.console = console
from fedjax_fair.cli import console
console()
"""


@pytest.mark.parametrize('code', EXIT_CODES.values())
def test_a_stopped_program_does_not_wait_for_libraries(code):
    program = HEAD + LATE.replace('CODE', str(code))
    found = subprocess.run([sys.executable, '-c', program], cwd=os.getcwd(), capture_output=True, text=True, timeout=50)
    assert (found.returncode, found.stdout, found.stderr) == (code, 'table\n', '')


@pytest.fixture
def handlers():
    """Those of the test's own process come back."""
    before = {number: signal.getsignal(number) for number in EXIT_CODES}
    yield before
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(('signum', 'error'), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_the_first_signal_unwinds_a_program(handlers, signum, error):
    hook = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt) as raised, of_program():
        signal.raise_signal(signum)
    assert type(raised.value) is error and exit_code(raised.value) == EXIT_CODES[signum]
    assert {number: signal.getsignal(number) for number in EXIT_CODES} == handlers and sys.unraisablehook is hook


@pytest.mark.parametrize('signum', EXIT_CODES)
def test_the_first_signal_asks_a_run_to_stop(handlers, signum):
    """In a program of the user, the second one is that program's."""
    with StopFlag() as stop:
        assert not stop.asked
        signal.raise_signal(signum)
        assert stop.asked and stop.signum == signum and Interrupted('', stop.signum).exit_code == EXIT_CODES[signum]
        assert {number: signal.getsignal(number) for number in EXIT_CODES} == handlers
    assert {number: signal.getsignal(number) for number in EXIT_CODES} == handlers


def test_threads_leave_signals_alone(handlers):
    asked = []

    def work():
        with StopFlag() as stop, of_program():
            asked.append(stop.asked)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert asked == [False] and {number: signal.getsignal(number) for number in EXIT_CODES} == handlers


def test_exit_codes_are_those_that_shells_and_schedulers_know():
    assert EXIT_CODES == {signal.SIGINT: 130, signal.SIGTERM: os.EX_TEMPFAIL}
