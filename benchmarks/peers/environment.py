"""A virtual environment per peer, made once from its pinned requirements."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterable

HERE = pathlib.Path(__file__).resolve().parent
HOME = HERE.parent.parent / '.cache' / 'bench'
STAMP = 'installed.txt'


class NotInstalledError(RuntimeError):
    """A peer's environment could not be made; the message is the installer's last word."""


def ensure_all(peers: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The Pythons of the peers that could be installed, and why the others could not."""
    pythons, missing = {}, {}
    for peer in peers:
        try:
            pythons[peer] = ensure(HOME / peer, HERE / f'{peer}-requirements.txt')
        except NotInstalledError as error:
            missing[peer] = f'not installed: {error}'
    return pythons, missing


def ensure(folder: pathlib.Path, requirements: pathlib.Path) -> str:
    """The Python of the environment in ``folder``; it is made anew where the requirements have changed."""
    python, stamp = folder / 'bin' / 'python', folder / STAMP
    wanted = requirements.read_text()
    if stamp.exists() and stamp.read_text() == wanted:
        return str(python)
    shutil.rmtree(folder, ignore_errors=True)
    print(f'installing {requirements.name} into {folder}', file=sys.stderr)
    _run(sys.executable, '-m', 'venv', str(folder))
    _run(str(python), '-m', 'pip', 'install', '--quiet', '--requirement', str(requirements))
    stamp.write_text(wanted)
    return str(python)


def _run(*command: str) -> None:
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        lines = done.stderr.strip().splitlines() or [f'{command[2]} ended with code {done.returncode}']
        raise NotInstalledError(lines[-1].removeprefix('ERROR: '))
