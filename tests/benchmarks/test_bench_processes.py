"""CPU time and memory of a process with all that it has started."""

import subprocess
import sys
import time

from benchmarks.peers import processes

# A parent that ends a busy child, then keeps one alive that has left its session and holds 60 MiB.
PARENT = """
import subprocess, sys
busy = 'import time\\nwhile time.process_time() < 0.4: pass'
subprocess.run([sys.executable, '-c', busy])
hold = 'import sys, time; held = bytearray(60 << 20); print(1, flush=True); sys.stdin.read()'
child = subprocess.Popen([sys.executable, '-c', hold], stdin=sys.stdin, stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""

BURNER = """
import sys, time
sys.stdin.readline()
end = time.process_time() + 0.5
while time.process_time() < end: pass
print(1, flush=True)
sys.stdin.readline()
"""


def test_a_family_counts_as_one():
    command = [sys.executable, '-c', PARENT]
    pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE}
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as parent:
        child = int(parent.stdout.readline())
        assert processes.family(parent.pid, processes.table()) == {parent.pid, child}
        assert 0.4 <= processes.cpu_seconds(parent.pid) < 30
        assert 60 < processes.peak_mib(child) < processes.peak_mib(parent.pid)
        parent.stdin.close()
        parent.wait()
    assert processes.family(parent.pid, processes.table()) == set()
    assert processes.cpu_seconds(parent.pid) == 0
    assert processes.peak_mib(parent.pid) == 0


def test_cpu_time_is_what_was_burnt():
    pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE}
    with subprocess.Popen([sys.executable, '-c', BURNER], text=True, start_new_session=True, **pipes) as burner:
        time.sleep(0.3)
        before = processes.cpu_seconds(burner.pid)
        burner.stdin.write('go\n')
        burner.stdin.flush()
        burner.stdout.readline()
        assert 0.45 <= processes.cpu_seconds(burner.pid) - before <= 0.8
        burner.stdin.close()


def test_a_name_with_blanks_and_brackets_is_read():
    stat = '7 (a) b (c) S 3 7 5 0 -1 4194304 1 2 3 4 ' + ' '.join(['100', '50', '25', '25']) + ' 20 0 1 0'
    found = processes._parse(stat)
    assert (found.parent, found.session) == (3, 5)
    assert found.cpu_seconds == 200 / processes.TICKS_PER_SECOND
