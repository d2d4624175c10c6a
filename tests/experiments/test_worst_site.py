"""The simulation that judges tests for worst and gap."""

import numpy as np

from experiments.calibration import simulation, worst_site


def test_the_published_variant_is_the_one_of_tables():
    setting, rng = simulation.SETTINGS['A'], np.random.default_rng(0)
    (eta,) = simulation.effects(setting, 3, 1, rng)
    sample = simulation.sample_of(*simulation.answers(setting, eta, rng))
    tables, variants = simulation.as_published(sample), worst_site.judged(sample)
    for name in ('worst', 'gap'):
        np.testing.assert_allclose(variants[f'{name}: published'], tables[name])
        assert variants[f'{name}: corrected'].estimate != tables[name].estimate
        assert variants[f'{name}: kappa'].kappa < tables[name].kappa
