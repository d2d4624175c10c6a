"""``check-method``: a line for every promise that a plug-in's recipe keeps or breaks."""

import sys
import types

import pytest
from my_plugin import MINE

pytestmark = pytest.mark.xdist_group('plugins')


class Check(types.SimpleNamespace):
    """As the conformance suite gives them."""


@pytest.fixture
def suite(monkeypatch):
    """The conformance suite replaced by one that finds what it is told to."""
    asked = []

    def check(recipe, hyper=None):
        asked.append((recipe, hyper))
        good = Check(name='padding changes nothing', passed=True, message='')
        return [good, Check(name='order of clients', passed=recipe != 'worse', message='differs by 0.5')]

    module = types.ModuleType('fedjax_fair.testing.conformance')
    module.check = check
    monkeypatch.setitem(sys.modules, 'fedjax_fair.testing.conformance', module)
    monkeypatch.setattr('fedjax_fair.testing.conformance', module, raising=False)
    return asked


def test_check_method_prints_a_line_per_promise(mine, suite, command, tmp_path):
    found = command('check-method', mine)
    assert found.code == 0 and suite == [('mine', None)]
    assert found.out == 'mine:\n  ok      padding changes nothing\n  ok      order of clients\n'
    (tmp_path / mine).write_text(MINE + '\n@register.recipe\ndef worse():\n    return mine()\n')
    found = command('check-method', '--mine.strength=2', mine)
    assert found.code == 1 and '  FAILED  order of clients: differs by 0.5\n' in found.out
    assert suite[1:] == [('mine', {'mine.strength': '2'}), ('worse', None)]
    assert command('check-method', mine, '--recipe=mine').code == 0
    found = command('check-method', mine, '--recipe=fedavg')
    assert found.code == 2 and '--recipe=fedavg is not one of mine, worse' in found.err


def test_check_method_needs_a_recipe(mine, suite, command, tmp_path):
    (tmp_path / 'other.py').write_text('from fedjax_fair.registry import register\n@register.model\ndef other(c): ...')
    found = command('check-method', 'other.py')
    assert found.code == 2 and '--plugin=other.py registers no recipe' in found.err
    assert command('check-method').code == 2
