"""A type checker sees a decorated factory as it was written, in the package and in plug-ins."""

import pathlib
import re

import pytest
from mypy import api

import fedjax_fair

CONFIG = '[mypy]\nfollow_imports = silent\nignore_missing_imports = True\n[mypy-jax.*]\nfollow_imports = skip\n'
NAMES = ('recipe', 'diagnostic', 'model', 'task', 'source', 'scenario', 'partition', 'augmentation', 'sampler')
FACTORY = 'def {}(mu: float = 0.1) -> list[int]: return []'


@pytest.fixture(scope='module')
def revealed(tmp_path_factory):
    """The types of factories under every decorator, without and with arguments."""
    folder = tmp_path_factory.mktemp('typed')
    (folder / 'mypy.ini').write_text(CONFIG)
    lines = ['from fedjax_fair.registry import register']
    for name in NAMES:
        bare, named = FACTORY.format(f'{name}_a'), FACTORY.format(f'{name}_b')
        lines += [f'@register.{name}', bare, f'@register.{name}("x", about="y", note=1)', named]
        lines += [f'reveal_type({name}_a)', f'reveal_type({name}_b)']
    (folder / 'plugin.py').write_text('\n'.join([*lines, 'recipe_a(mu="x")', '']))
    root = str(pathlib.Path(fedjax_fair.__file__).parent.parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('MYPYPATH', root)
        told, errors, _ = api.run(
            [str(folder / 'plugin.py'), f'--config-file={folder}/mypy.ini', f'--cache-dir={folder}/cache']
        )
    assert not errors
    return told


def test_decorated_factories_keep_their_types(revealed):
    types = re.findall(r'Revealed type is "(.*)"', revealed)
    assert len(types) == 2 * len(NAMES), revealed
    assert {one.replace('builtins.', '') for one in types} == {'def (mu: float =) -> list[int]'}


def test_a_wrong_argument_of_a_decorated_factory_is_an_error(revealed):
    assert revealed.count('error:') == 1
    assert 'Argument "mu" to "recipe_a" has incompatible type "str"; expected "float"' in revealed
