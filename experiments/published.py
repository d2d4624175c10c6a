"""Published settings of the papers beside those of our presets: every deviation stands there with its reason.

A paper's ``published.py`` has ``SETTINGS[preset][name]``, the value that the paper prints and where. The tests resolve
every preset as its command does and compare. A name such as ``study.ALPHAS[Split-2]`` is a constant of the paper's own
modules; what has no setting at all is None in ours. ``python -m experiments.published`` prints everything, and with
``--deviations`` only what differs from the paper.
"""

from __future__ import annotations

import dataclasses
import importlib
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from absl import app, flags

from experiments.study import known_hyper, markdown
from fedjax_fair.cli import config_from
from fedjax_fair.training import Config, checked

PAPERS = ('fedism', 'fedtilt', 'harmofl', 'fedheal', 'fedld')
HERE = pathlib.Path(__file__).parent
SAME = 'as published'


class Setting(NamedTuple):
    """The published value of a setting and its place in the paper; ``ours`` where it differs, and ``why``.

    A value of None means that neither paper nor code tells: then ``ours`` is a choice, and ``why`` gives its reason.
    """

    value: Any
    source: str
    ours: Any = SAME
    why: str = ''

    @property
    def expected(self) -> Any:
        """What the preset must have."""
        return self.value if self.ours == SAME else self.ours


Settings = Mapping[str, Mapping[str, Setting]]


def settings_of(paper: str) -> Settings:
    """``[preset][setting]`` of one paper."""
    return importlib.import_module(f'experiments.{paper}.published').SETTINGS


def preset_config(paper: str, preset: str) -> Config:
    """The settings of a preset, as the paper's programs resolve them."""
    config, hyper = config_from([f'--config={HERE / paper / preset}.flags'])
    config = checked(config)
    return dataclasses.replace(config, hyper=known_hyper(hyper, config))


def deviations(paper: str, preset: str) -> list[str]:
    """One line for every setting of a preset that is not the published one, or not published at all."""
    return [
        f'{name}={one.expected} instead of {one.value} ({one.source}): {one.why}'
        if one.value is not None
        else f'{name}={one.expected}, which is not published: {one.why}'
        for name, one in settings_of(paper)[preset].items()
        if one.ours != SAME
    ]


def main(_: list[str]) -> None:
    """Print every published setting beside ours, or only those that differ."""
    for paper in PAPERS:
        for preset, settings in settings_of(paper).items():
            print(f'\n{paper}, --preset={preset}\n')
            if flags.FLAGS.deviations:
                print('\n'.join(f'- {line}' for line in deviations(paper, preset)))
                continue
            rows = [[name, str(one.value), str(one.expected), one.source, one.why] for name, one in settings.items()]
            print('\n'.join(markdown(['setting', 'published', 'ours', 'where', 'why it differs'], rows)))


if __name__ == '__main__':
    flags.DEFINE_bool('deviations', False, 'print only the settings that are not as published, with the reasons')
    app.run(main)
