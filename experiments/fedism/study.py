"""Runs of the study: one folder per setting and recipe, shared by all tables and figures, and what was measured."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import app, flags

from fedjax_fair.cli import settings
from fedjax_fair.cli.main import guarded
from fedjax_fair.cli.mistakes import fail, one_line
from fedjax_fair.training import Config, load_federation, output, results, run, use_host_devices
from fedjax_fair.training.cache import use_compilation_cache
from fedjax_fair.training.setup import checked

HERE = pathlib.Path(__file__).parent
PRESETS = tuple(sorted(path.stem for path in HERE.glob('*.flags')))
LAST = 5  # evaluations whose numbers are pooled with those of all seeds
FAIR = {
    'FedAvg': 'fedavg',
    'Agnostic-FL': 'afl_worst',
    'q-FedAvg': 'qfedavg',
    'FairFed': 'fairfed',
    'FedCE': 'fedce',
    'FedGA': 'fedga',
}
# All of the authors' methods train with adjusted logits; FedISM brings them.
METHODS = {name: f'{recipe}+logit_adjust' for name, recipe in FAIR.items()} | {'FedISM': 'fedism'}
SALTED = {name: f'{recipe}+salt' for name, recipe in METHODS.items() if name != 'FedISM'}
ABLATION = {
    'FedAvg': METHODS['FedAvg'],
    'FedAvg+SALT': SALTED['FedAvg'],
    'FedAvg+SAGA': 'saga+logit_adjust',
    'FedISM': 'fedism',
}
COLUMNS = tuple(f'{kind} {score}' for kind in ('clean', 'corrupted', 'average') for score in ('ACC', 'AUC'))
Cell = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Study:
    """The settings all runs share and where they are kept."""

    config: Config
    out: pathlib.Path
    quiet: bool = False

    def run(self, recipe: str, points: Sequence[Mapping[str, float]] = ({},), **changes: Any) -> list[pathlib.Path]:
        """Folders of a recipe's run, one for every point; a finished run is read, a stopped one goes on."""
        config = dataclasses.replace(self.config, recipe=recipe, **changes)
        name = ','.join(f'{key}={value}' for key, value in changes.items()) or 'base'
        kind = '' if points[0] == {} else ' over ' + ','.join(points[0])
        folder = self.out / 'runs' / name / (recipe + kind)
        run(config, folder, points=points, resume=True, quiet=self.quiet)
        return [folder / output.point_name(point) if point else folder for point in points]

    def scores(self, recipe: str, **changes: Any) -> dict[str, Cell]:
        """Mean and std of every column for one recipe."""
        return scores(self.run(recipe, **changes)[0])

    def write(self, name: str, lines: Sequence[str], numbers: Any) -> None:
        """Print a table and keep it, with its numbers and all that is needed to repeat them."""
        text = '\n'.join(lines) + '\n'
        print(text)
        (self.out / f'{name}.md').write_text(text)
        command = f'python -m {getattr(sys.modules["__main__"].__spec__, "name", "?")} {" ".join(sys.argv[1:])}'
        facts = {'command': command, 'commit': results.git_commit(), 'versions': results.versions()}
        shared = dataclasses.asdict(self.config)
        results.write_json(
            self.out / f'{name}.json', {'numbers': numbers, 'data': self.data(), 'settings': shared, **facts}
        )
        print(f'written: {self.out / name}.md and .json')

    def data(self) -> dict[str, Any]:
        """Which images these are: name, counts and, for files, their SHA-256; never a path."""
        federation = load_federation(self.config)
        _, npz, paths = self.config.scenario.partition('npz:')
        files = [pathlib.Path(os.path.expandvars(path)).expanduser() for path in paths.split(',')] if npz else []
        return {
            'name': federation.name,
            'train': [int(n) for n in federation.sizes],
            'test': [int(n) for n in federation.tests.mask.sum(1)],
            'shape': list(federation.x.shape[1:]),
            'sha256': {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files},
        }


def scores(folder: pathlib.Path) -> dict[str, Cell]:
    """Mean and population std, in percent, over the last five evaluations of all seeds pooled.

    ACC is balanced accuracy, AUC one against one (Hand and Till). The average of clean and corrupted is taken of each
    evaluation first.
    """
    lines = [json.loads(line) for line in (folder / 'metrics.jsonl').read_text().splitlines()]
    last = sorted({line['round'] for line in lines})[-LAST:]
    kept = [line['global'] for line in lines if line['round'] in last]
    values = np.array([[line['group_balanced_accuracy'], line['group_auc_ovo']] for line in kept], np.float64)
    table = 100 * np.concatenate([values, values.mean(2, keepdims=True)], 2)  # [evaluation, score, kind]
    flat = table.transpose(0, 2, 1).reshape(len(kept), -1)
    return dict(zip(COLUMNS, zip(flat.mean(0).tolist(), flat.std(0).tolist(), strict=True), strict=True))


def cell(value: Cell) -> str:
    """``mean (std)``; a std that is not known is left out."""
    mean, std = value
    return f'{mean:.2f}' if np.isnan(std) else f'{mean:.2f} ({std:.2f})'


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table with aligned columns."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return '| ' + ' | '.join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + ' |'

    return [line(head), line(['-' * w for w in widths]), *map(line, rows)]


def why_not_comparable(study: Study) -> str:
    """One sentence under every table."""
    data, config = study.data(), study.config
    side = 'x'.join(map(str, data['shape']))
    return (
        f'Ours: {data["name"]}, {sum(data["train"])} images of {side}, {config.model}, {config.rounds} rounds. '
        'The paper: 19998 (ICH) or 20262 (ISIC 2019) images of 224x224, ResNet-18 pretrained on ImageNet, 300 rounds. '
        'Compare methods within a column, not numbers across.'
    )


def main(show: Callable[[Study, str], None], name: str, choices: Sequence[str]) -> None:
    """An absl program that shows one of ``choices``, chosen by the flag ``name``, with all flags of a run."""
    settings.define_flags(flags.FLAGS)
    flags.DEFINE_enum('preset', 'smoke', PRESETS, 'settings to start from; other flags overrule them')
    flags.DEFINE_enum(name, None, choices, f'which {name} to show')
    words, hyper = sys.argv[1:], {}

    def parser(argv: Sequence[str]) -> Sequence[str]:
        chosen = [w.partition('=')[2] for w in argv[1:] if w.startswith('--preset=')] or ['smoke']
        if chosen[-1] not in PRESETS:
            fail(f'--preset={chosen[-1]} is not one of {", ".join(PRESETS)}')
        with one_line():
            hyper.update(settings.parse([f'--config={HERE / chosen[-1]}.flags', *argv[1:]], flags.FLAGS))
        if getattr(flags.FLAGS, name) is None:
            fail(f'--{name} is needed; choose one of {", ".join(choices)}')
        return argv[:1]

    def program(argv: Sequence[str]) -> None:
        values = flags.FLAGS
        with guarded(values):
            config = checked(settings.config_of(values, hyper))
            out = pathlib.Path(values.out or f'runs/fedism-{values.preset}')
            use_host_devices(config.devices)
            use_compilation_cache()
            study = Study(config, out, values.quiet)
            study.data()  # a mistake in the data shows before the first run
            show(study, getattr(values, name))

    app.run(program, argv=[sys.argv[0], *words], flags_parser=parser)
