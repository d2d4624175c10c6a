"""Every recipe is among the programs that are compiled for TPU, and the table shows what they take."""

import pytest

from benchmarks.tpu import __main__ as tpu
from benchmarks.tpu.cases import CHIP, FOUR, PUBLISHED, Case, cases, small
from fedjax_fair.methods import RECIPES

SHAPES = 'clients=2,examples=4,tests=2,side=8,channels=1,classes=2'


def test_every_recipe_and_every_published_system_is_a_case():
    names = [case.name for case in cases()]
    assert len(set(names)) == len(names)
    assert {f'{recipe} on {where}' for recipe in RECIPES for where in (CHIP, FOUR)} <= set(names)
    assert {f'{name} as published' for name in PUBLISHED} <= set(names)


@pytest.mark.parametrize('recipe,told', [('fedavg', ''), ('nothing', "UserError: recipe 'nothing' is not one of")])
def test_a_case_tells_what_it_takes_or_why_it_does_not_compile(recipe, told):
    found = tpu.compiled(Case('a case', small(recipe=recipe, model_options={'widths': (2, 2)}), SHAPES, 'cpu:1'))
    assert found['fits'] == (not told) and found.get('error', '').startswith(told)
    assert 'a case' in tpu.page({'a case': found})
