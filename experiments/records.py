"""Makes the records of the deciding experiments, which docs/claims.md and the studies' READMEs rest on.

``DATA=folder python -m experiments.records`` takes some hours on two cores; the flag files tell how long their parts
take. Each record is made by the command of its own table or figure, in a process of its own, so that it says how it can
be made alone. What needs the least time for a claim comes first, and the same command goes on where an earlier one was
stopped. ``--only=fedism,fedld`` chooses papers. Records are collected below ``--out``: a file that changes in the
checkout would mark all later ones as made by changed code. ``cp -r runs/records/. experiments/`` puts them in their
places.
"""

from __future__ import annotations

import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from absl import app, flags

from experiments.papers import Part, chosen_papers
from experiments.published import PAPERS
from fedjax_fair.cli import guarded
from fedjax_fair.interruption import EXIT_CODES, on_signals

FILES = ('.json', '.md', '.png')  # of a record


class Record(NamedTuple):
    """A table or figure, and the folder below the paper's ``results`` that its record belongs to."""

    part: Part
    folder: str

    @property
    def name(self) -> str:
        """Of its files, without their endings."""
        choice = self.part.choice
        return f'{self.part.kind}{choice}' if choice[0].isdigit() else choice

    @property
    def place(self) -> str:
        """Its path below the folder of the studies."""
        return f'{self.part.paper}/results/{self.folder}/{self.name}'


def _of(paper: str, kind: str, choices: str, preset: str = 'decide', folder: str = '') -> list[Record]:
    return [Record(Part(paper, kind, choice, preset), folder or preset) for choice in choices.split()]


RECORDS = (
    *_of('fedtilt', 'table', '2 3 q'),
    *_of('harmofl', 'figure', 'drift'),
    *_of('fedtilt', 'figure', '4'),
    *_of('fedtilt', 'table', 'protocols 7 theorems'),
    *_of('fedld', 'table', '3'),
    *_of('harmofl', 'table', 'causes bands'),
    *_of('fedism', 'table', 'decide sharpness', folder='fashion-mnist'),
    *_of('fedld', 'figure', '2'),
    *_of('fedld', 'table', 'decide'),
    *_of('harmofl', 'table', 'causes', 'decide_segmentation'),
    *_of('fedheal', 'table', 'decide'),
    *_of('fedheal', 'figure', 'distances weights'),
    *_of('fedheal', 'table', 'norms', 'decide_epochs'),
    *_of('fedtilt', 'table', '2 3 7', 'decide_mnist'),
    *_of('fedtilt', 'table', 'mu'),
    *_of('fedism', 'table', 'matched radius batch_norm', folder='fashion-mnist'),
    *_of('fedism', 'table', 'tuned', folder='fashion-mnist'),
    *_of('fedheal', 'table', '3 4', 'smoke'),
    *_of('fedheal', 'figure', '2 6', 'smoke'),
)


def make(record: Record, out: pathlib.Path) -> int:
    """Run the command of a record and collect what it wrote; returns its exit code."""
    part = record.part
    code = run([sys.executable, *part.command.split()[1:]])
    if code == 0:
        (out / record.place).parent.mkdir(parents=True, exist_ok=True)
        for path in pathlib.Path('runs', f'{part.paper}-{part.preset}').glob(f'{record.name}.*'):
            if path.suffix in FILES:
                shutil.copyfile(path, (out / record.place).with_suffix(path.suffix))
    return code


def run(words: Sequence[str]) -> int:
    """The exit code of a command, which gets the signals that this program gets."""
    with subprocess.Popen(words, start_new_session=True) as process:
        before = on_signals(lambda signum, frame: process.send_signal(signum))
        try:
            return process.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def make_all(records: Sequence[Record], out: pathlib.Path) -> int:
    """Make what is not there yet, with a line of progress for each; 1 if some could not be made."""
    failed = []
    for number, record in enumerate(records):
        if (out / record.place).with_suffix('.json').exists():
            continue
        print(f'[{number + 1}/{len(records)}] {record.part.command}', file=sys.stderr, flush=True)
        code = make(record, out)
        if code in EXIT_CODES.values():
            return code
        failed += [record.part.name] * (code != 0)
    for name in failed:
        print(f'not made: {name}', file=sys.stderr)
    print(f'written: {out}')
    return 1 if failed else 0


def main(argv: list[str]) -> None:
    """Check the flags, then make the records."""
    values = flags.FLAGS
    with guarded(values):
        papers = chosen_papers(argv, values)
        sys.exit(make_all([record for record in RECORDS if record.part.paper in papers], pathlib.Path(values.out)))


if __name__ == '__main__':
    flags.DEFINE_list('only', list(PAPERS), 'papers to make records of')
    flags.DEFINE_string('out', 'runs/records', 'folder in which records are collected')
    app.run(main)
