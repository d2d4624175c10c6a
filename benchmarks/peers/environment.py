"""A virtual environment per peer, made once from its pinned requirements."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

STAMP = 'installed.txt'


def ensure(folder: pathlib.Path, requirements: pathlib.Path) -> str:
    """The Python of the environment in ``folder``; it is made anew where the requirements have changed."""
    python, stamp = folder / 'bin' / 'python', folder / STAMP
    wanted = requirements.read_text()
    if stamp.exists() and stamp.read_text() == wanted:
        return str(python)
    shutil.rmtree(folder, ignore_errors=True)
    print(f'installing {requirements.name} into {folder}', file=sys.stderr)
    subprocess.run([sys.executable, '-m', 'venv', folder], check=True)
    subprocess.run([python, '-m', 'pip', 'install', '--quiet', '--requirement', requirements], check=True)
    stamp.write_text(wanted)
    return str(python)
