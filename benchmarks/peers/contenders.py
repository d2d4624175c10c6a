"""The sides of the comparison: which worker with which options, in whose environment, for which networks."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping

from benchmarks.peers.job import Job

CONVOLUTIONAL = ('cnn', 'resnet10')


@dataclasses.dataclass(frozen=True)
class Contender:
    """A worker module with its options; ``peer`` names the environment it needs, None being our own."""

    module: str
    options: Mapping[str, object] = dataclasses.field(default_factory=dict)
    peer: str | None = None
    models: tuple[str, ...] = ('mlp', *CONVOLUTIONAL)

    def command(self, python: str, job: Job, data: pathlib.Path) -> list[str]:
        """How its worker is started."""
        options = [f'{name}={value}' for name, value in self.options.items()]
        return [python, '-m', f'benchmarks.peers.{self.module}', job.to_json(), str(data), *options]


def _torch(models: tuple[str, ...] = ('mlp', *CONVOLUTIONAL), **options: int) -> Contender:
    return Contender('worker_torch', options, 'torch', models)


OURS = 'fedjax_fair'
CACHED = Contender('worker_ours', {'cached': 1})  # ours with the compilation cache that its command line uses
CONTENDERS = {
    OURS: Contender('worker_ours'),
    'fedjax_jit': Contender('worker_fedjax', {'backend': 'jit'}, 'fedjax'),
    'fedjax_pmap': Contender('worker_fedjax', {'backend': 'pmap'}, 'fedjax'),
    'fedjax_window': Contender('worker_fedjax', {'backend': 'jit', 'pooling': 'window'}, 'fedjax', ('cnn',)),
    'torch_1': _torch(),
    'torch_2': _torch(threads=2),
    'torch_2_last': _torch(CONVOLUTIONAL, threads=2, channels_last=1),
    'torch_2x1': _torch(processes=2),
    'torch_2x1_last': _torch(CONVOLUTIONAL, processes=2, channels_last=1),
    'torch_2x1_compile': _torch(processes=2, compiled=1),
    'pfl_1': Contender('worker_pfl', {'processes': 1}, 'pfl'),
    'pfl_2': Contender('worker_pfl', {'processes': 2}, 'pfl'),
    'flower': Contender('worker_flower', {}, 'flower'),
}
