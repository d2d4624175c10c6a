"""Presets that bear a paper's name have its published settings, but for deviations that are listed with a reason."""

import pytest

from experiments import published
from experiments.published import HERE, PAPERS, REQUIRED, SAME, preset_config, settings_of, value_of

PRESETS = [(paper, preset) for paper in PAPERS for preset in settings_of(paper)]


@pytest.mark.parametrize(('paper', 'preset'), PRESETS)
def test_a_preset_has_the_published_settings(paper, preset):
    config, settings = preset_config(paper, preset), settings_of(paper)[preset]
    found = {name: value_of(config, name) for name in settings}
    assert found == {name: one.expected for name, one in settings.items()}


@pytest.mark.parametrize(('paper', 'preset'), PRESETS)
def test_every_setting_that_matters_is_accounted_for(paper, preset):
    settings = settings_of(paper)[preset]
    assert set(REQUIRED) <= set(settings)
    for name, one in settings.items():
        assert one.source, name
        assert bool(one.why) == (one.ours != SAME), name
        assert one.value is not None or one.ours != SAME, name


def test_every_flag_file_but_small_ones_has_published_settings():
    """Whatever a preset sets is in the table, so that no setting is added without a place in the paper."""
    for paper, preset in PRESETS:
        lines = (HERE / paper / f'{preset}.flags').read_text().splitlines()
        names = {line.partition('=')[0] for line in lines if line and not line.startswith('#')}
        assert names <= set(settings_of(paper)[preset]), (paper, preset, names - set(settings_of(paper)[preset]))


def test_deviations_are_told():
    assert all(isinstance(line, str) for paper, preset in PRESETS for line in published.deviations(paper, preset))
