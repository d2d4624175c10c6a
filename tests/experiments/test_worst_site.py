"""The simulation that judges tests for worst and gap, and how calibrations are recorded."""

import collections
import json
import pathlib
import types

import numpy as np
import pytest

from experiments.calibration import null_comparison, simulation, worst_site
from experiments.study import without_folders

RECORDS = sorted((pathlib.Path(worst_site.__file__).parent / 'results').glob('*.json'))


def test_the_published_variant_is_the_one_of_tables():
    setting, rng = simulation.SETTINGS['A'], np.random.default_rng(0)
    (eta,) = simulation.effects(setting, 3, 1, rng)
    sample = simulation.sample_of(*simulation.answers(setting, eta, rng))
    tables, variants = simulation.as_published(sample), worst_site.judged(sample)
    for name in ('worst', 'gap'):
        np.testing.assert_allclose(variants[f'{name}: published'], tables[name])
        assert variants[f'{name}: corrected'].estimate != tables[name].estimate
        assert variants[f'{name}: kappa'].kappa < tables[name].kappa


def test_calibrations_write_no_place_of_this_machine(tmp_path, monkeypatch):
    asked = types.SimpleNamespace(folder=str(tmp_path), replicates=1)
    for module in (worst_site, null_comparison):
        monkeypatch.setattr(module, 'flags', types.SimpleNamespace(FLAGS=asked))
    monkeypatch.setattr('sys.argv', ['calibration', f'--folder={tmp_path}'])
    rates = collections.defaultdict(lambda: simulation.Rates(0.0, 0.0))
    monkeypatch.setattr(worst_site, 'rates_in', lambda *words: rates)
    trained = {'command': f'null_comparison.py --folder={tmp_path}', 'commit': None}
    kept = types.SimpleNamespace(**vars(null_comparison.results))
    kept.predictions, kept.read_config = lambda folder: None, lambda folder: trained
    monkeypatch.setattr(null_comparison, 'results', kept)
    monkeypatch.setattr(null_comparison, 'run', lambda *words, **more: None)
    monkeypatch.setattr(null_comparison, 'judged', lambda kept: {'verdict on AVG': [True, False]})
    for module, name in ((worst_site, 'worst_site.json'), (null_comparison, 'null_comparison.json')):
        module.main([])
        written = json.loads((tmp_path / name).read_text())
        assert written['command'].endswith(f' --folder={tmp_path.name}')


@pytest.mark.parametrize('path', RECORDS, ids=lambda path: path.stem)
def test_recorded_calibrations_name_no_place_of_a_machine(path):
    words = json.loads(path.read_text())['command'].split()
    assert [without_folders(word) for word in words] == words
