"""What a run was doing, from the stacks of its threads as Python's faulthandler writes them."""

from __future__ import annotations

import re
from collections.abc import Callable

PHASES = (
    'start-up',
    'data and config',
    'restore',
    'compile',
    'rounds',
    'evaluation',
    'checkpoint',
    'last checkpoint',
    'summary',
    'report',
    'exit',
)
PROGRAM = 'File "<string>"'  # the outermost frame of the main thread, unless the stack is cut off
FRAME = re.compile(r'^  File "(.*)", line \d+ in (.*)$', re.MULTILINE)
CUT = re.compile(r'^  \.\.\.$', re.MULTILINE)  # a hundred frames are shown
IMPORTS = '<frozen importlib'

Frames = list[str]  # 'fedjax_fair/training/loop.py:_evaluate', innermost first


def phase_of(stacks: str) -> str:
    """One of :data:`PHASES`; a process that shows nothing has just begun.

    >>> phase_of('')
    'start-up'
    >>> phase_of('''Current thread 0x1 (most recent call first):
    ...   File "fedjax_fair/training/loop.py", line 7 in _evaluate
    ...   File "fedjax_fair/training/loop.py", line 5 in _rounds
    ...   File "<string>", line 5 in <module>''')
    'evaluation'
    """
    section = _main_section(stacks)
    frames = _frames(section)
    found = next((phase for phase, is_in in _TESTS.items() if is_in(frames)), None)
    if found is not None:
        return found
    if CUT.search(section):  # only importing and tracing are so deep
        return 'start-up' if _among(IMPORTS)(frames) else 'compile'
    return 'start-up' if not section or PROGRAM in section else 'exit'


def doing(stacks: str) -> list[str]:
    """The innermost frame of the main thread, and the innermost one of the package."""
    frames = _frames(_main_section(stacks))
    own = [frame for frame in frames if 'fedjax_fair/' in frame]
    return [*frames[:1], *own[:1]]


def writes_checkpoint(stacks: str) -> bool:
    """Whether a thread other than the main one was inside of Orbax."""
    return any(_among('orbax/')(_frames(section)) for section in _sections(stacks)[:-1])


def _sections(stacks: str) -> list[str]:
    """What each thread was doing; the main thread is the oldest and comes last."""
    return re.split(r'^(?:Current thread|Thread) .*\n', stacks, flags=re.MULTILINE)[1:]


def _main_section(stacks: str) -> str:
    return (_sections(stacks) or [''])[-1]


def _frames(section: str) -> Frames:
    return [f'{"/".join(file.split("/")[-3:])}:{name}' for file, name in FRAME.findall(section)]


def _among(*parts: str) -> Callable[[Frames], bool]:
    """Whether a frame contains one of these texts."""
    return lambda frames: any(part in frame for frame in frames for part in parts)


def _compiles(frames: Frames) -> bool:
    return _among(f'{LOOP}:_compile')(frames) or (_among(f'{LOOP}:_rounds')(frames) and _among('stages.py')(frames))


LOOP = 'training/loop.py'
_TESTS: dict[str, Callable[[Frames], bool]] = {
    'report': _among('cli/reporting.py:show'),
    'summary': _among(f'{LOOP}:_finish'),
    'last checkpoint': _among('training/checkpoint.py:close'),
    'checkpoint': _among(f'{LOOP}:_save'),
    'compile': _compiles,
    'evaluation': _among(f'{LOOP}:_evaluate'),
    'rounds': _among(f'{LOOP}:_rounds'),
    'restore': _among('training/checkpoint.py:restore'),
    'data and config': _among(f'{LOOP}:run', f'{LOOP}:__init__'),
}
