"""Levels, paired differences and verdicts equal those of an independent reference."""

import pathlib

import numpy as np
import pytest

from fedjax_fair import stats

GOLDEN = pathlib.Path(__file__).parents[1] / 'golden'
CASES = {
    'accuracy_r5_s3': ('correct', 'accuracy'),
    'dice_r3_s3': ('dice', 'dice'),
    'auc_r2_s4': ('score', 'auc'),
}
INPUTS = ('correct', 'dice', 'score', 'label', 'site', 'patient')


def golden(name):
    return dict(np.load(GOLDEN / f'statistics_{name}.npz', allow_pickle=False))


@pytest.mark.parametrize('case', CASES)
def test_an_analysis_equals_the_reference(case):
    wanted = golden(case)
    values, score = CASES[case]
    found = stats.analyse(
        wanted[values], wanted['site'], wanted['patient'], score=score, label=wanted.get('label'),
        delta=float(wanted['avg_delta']),
    )  # fmt: skip
    for name in wanted.keys() - set(INPUTS):
        if name.endswith('_delta'):
            continue
        if wanted[name].dtype.kind in 'Ub':
            np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)
            continue
        np.testing.assert_array_less(abs(found[name] - wanted[name]), tolerance(name, wanted), err_msg=name)


def tolerance(name, wanted):
    if name.endswith(('95', '90')):
        stem, level = name[:-4], name[-2:]
        return 1e-3 * (wanted[f'{stem}hi{level}'] - wanted[f'{stem}lo{level}']) / 2 + 1e-12
    return 1e-4 if name.endswith(('_p', 'p_holm')) else 1e-6 if name.endswith('corrected') else 1e-10


def test_two_sources_of_error_equal_the_reference():
    wanted = golden('behrens_fisher')
    sources = [wanted[name] for name in ('a', 'df_a', 'kappa', 'df_kappa')]
    np.testing.assert_allclose(stats.behrens_fisher(wanted['x'], *sources), wanted['p'], atol=1e-6)
    np.testing.assert_allclose(stats.half_width(0.95, *sources), wanted['half95'], rtol=1e-5)
    np.testing.assert_allclose(stats.half_width(0.90, *sources), wanted['half90'], rtol=1e-5)


def test_adjusted_p_values_equal_the_reference():
    wanted = golden('holm')
    np.testing.assert_allclose(stats.holm(wanted['p']), wanted['p_holm'], atol=1e-15)
