"""Every recipe is among the programs that are compiled for TPU, and the table shows what they take."""

import pytest

from benchmarks.peers.job import JOBS
from benchmarks.tpu import __main__ as tpu
from benchmarks.tpu import yardstick
from benchmarks.tpu.cases import CHIP, FOUR, PUBLISHED, Case, cases, small
from fedjax_fair.methods import RECIPES
from fedjax_fair.planning import topology
from fedjax_fair.training.compiled import Compiled
from fedjax_fair.training.hlo import Work

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


def test_the_yardstick_judges_the_best_number_of_clients_at_once():
    w3 = JOBS['w3']
    cycles = {
        yardstick.Case(w3, None): 100.0,
        yardstick.Case(w3, 20): 190.0,
        yardstick.Case(w3, 1): 160.0,
        yardstick.Case(w3, 1, 'bfloat16'): 80.0,
    }
    page = yardstick.page({case.name: {'cycles': count} for case, count in cycles.items()})
    assert '| w3, 20 at once, float32 | 190 | 1.90 |' in page
    assert '| w3, 1 at once, float32, beside one model | 1.60 | 1.5 | not met |' in page
    assert '| w3, 1 at once, bfloat16, beside float32 | 0.50 | 0.6 | met |' in page


def test_one_model_makes_as_many_steps_on_as_many_examples(monkeypatch):
    seen = []
    monkeypatch.setattr(yardstick, 'compiled_round', lambda experiment: seen.append(experiment) or tpu_free())
    for chunk in (None, 2):
        yardstick.compiled(yardstick.Case(JOBS['w1'], chunk), topology('cpu'))
    one, many = (experiment.algorithm.facts['setting'] for experiment in seen)
    assert one.run.num_clients == 1 and many.run.num_clients == JOBS['w1'].cohort
    assert one.steps.tolist() == [200] and set(many.steps.tolist()) == {200}
    assert one.run.sizes.sum() == many.run.sizes.sum()


def tpu_free():
    """What is read of a compiled round."""
    return Compiled(0, 0, Work(), fits=True, run=None)
