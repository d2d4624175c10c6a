"""``python -m benchmarks.tpu`` compiles every case for a TPU that is not there, and writes what each takes.

It needs the extra ``plan`` and no TPU. A program that was stopped goes on with the same command. ``--only=fedism``
chooses cases whose names have this word, and ``--most=3`` the first three. The exit code is 1 if one does not compile
or does not fit.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time
from collections.abc import Mapping
from typing import Any

import jax

from benchmarks.engine.session import RESULTS
from benchmarks.tables import machine, table
from benchmarks.tpu.cases import CHIP, FOUR, Case, cases
from fedjax_fair import results
from fedjax_fair.planning import plan, topology
from fedjax_fair.results.files import read_json
from fedjax_fair.sizes import in_words

ABOUT = """# Every recipe compiled for TPU

Programs of a round and of an evaluation, compiled by the TPU's own compiler; nothing was run. Recipes train a small
convolutional network with batch norm, eight clients of 32 images, two at once on a chip; the five systems are as
published, with the number of clients at once that is chosen by itself. Cycles are the compiler's estimate. Loops over
local steps, and over the batches of a measurement, count as often as they turn for these clients.
"""


def compiled(case: Case) -> dict[str, Any]:
    """What a case takes, or why it does not compile."""
    begun = time.perf_counter()
    try:
        found = plan(case.config, topology(case.topology), case.shapes)
        told: dict[str, Any] = {
            'fits': found.fits,
            'layout': found.layout,
            'parts': found.parts,
            'round_cycles': found.round_cycles,
            'sent': found.sent,
            'notes': list(found.notes),
        }
    except Exception as error:  # one case that fails must not hide the others
        told = {'fits': False, 'error': f'{type(error).__name__}: {str(error).splitlines()[0]}'}
    return told | {'seconds': round(time.perf_counter() - begun, 1), 'commit': results.git_commit()}


def page(found: Mapping[str, Mapping[str, Any]]) -> str:
    """A line per case; cycles beside those of FedAvg on the same machine."""
    rows = []
    for name, one in found.items():
        base = found.get(f'fedavg on {FOUR if name.endswith(FOUR) else CHIP}', {}).get('round_cycles')
        cycles, parts = one.get('round_cycles'), one.get('parts') or {}
        needs = in_words(sum(size or 0 for size in parts.values())) if parts else ''
        beside = f'{cycles / base:.2f}' if cycles and base and ' on ' in name else ''
        told = 'yes' if one['fits'] else one.get('error', 'no')
        rows.append([name, told, needs, f'{cycles:.3g}' if cycles else '', beside, f'{one["seconds"]:.0f}'])
    heads = [
        'program',
        'compiles and fits',
        'memory of a chip',
        'cycles of a round',
        'beside FedAvg',
        'seconds to compile',
    ]
    return '\n'.join([ABOUT, *table(heads, rows), ''])


def main() -> int:
    """Compile what is not recorded yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--only', default='')
    parser.add_argument('--most', type=int)
    parser.add_argument('--out', type=pathlib.Path, default=RESULTS)
    given = parser.parse_args()
    record = given.out / 'tpu.json'
    found = read_json(record)['cases'] if record.exists() else {}
    chosen = [case for case in cases() if given.only in case.name][: given.most]
    for number, case in enumerate(chosen):
        if case.name in found:
            continue
        print(f'[{number + 1}/{len(chosen)}] {case.name}', file=sys.stderr, flush=True)
        found[case.name] = compiled(case)
        given.out.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps({'machine': machine(), 'cases': found}, indent=2) + '\n')
        (given.out / 'tpu.md').write_text(page(found))
        jax.clear_caches()
    print(page(found))
    return int(not all(found[case.name]['fits'] for case in chosen))


if __name__ == '__main__':
    sys.exit(main())
