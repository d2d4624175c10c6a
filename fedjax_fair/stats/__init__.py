"""Statistics of comparisons: intervals and verdicts that count seeds and test patients, in plain NumPy.

See docs/statistics.md for the procedure and how it was calibrated.
"""

from fedjax_fair.stats.analysis import Analysis, Outcome, analyse, analyse_sample
from fedjax_fair.stats.distribution import behrens_fisher, half_width, holm
from fedjax_fair.stats.extremes import expected_min
from fedjax_fair.stats.pareto_front import front_shares
from fedjax_fair.stats.sample import Sample, Stratum, make_sample
from fedjax_fair.stats.verdicts import chance_of_winning, patients_to_decide, seeds_to_decide, verdicts

__all__ = [
    'Analysis',
    'Outcome',
    'Sample',
    'Stratum',
    'analyse',
    'analyse_sample',
    'behrens_fisher',
    'chance_of_winning',
    'expected_min',
    'front_shares',
    'half_width',
    'holm',
    'make_sample',
    'patients_to_decide',
    'seeds_to_decide',
    'verdicts',
]
