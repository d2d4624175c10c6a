"""Messages show options in the way of their reader, and what users wrote as it is."""

import ast
import pathlib
import re

import pytest

import fedjax_fair
from fedjax_fair.data import make_scenario
from fedjax_fair.errors import MARKUP, UserError
from fedjax_fair.methods import make_methods
from fedjax_fair.options import options_of, resolve
from fedjax_fair.training import Config, checked

ROOT = pathlib.Path(fedjax_fair.__file__).parent


def prox(mu: float = 0.1):
    """Something with an option."""


@pytest.mark.parametrize(
    ('make', 'told', 'flags'),
    [
        (lambda: make_scenario('npz:`lr`.npz'), 'scenario=npz:`lr`.npz: no such', '--scenario=npz:`lr`.npz: no such'),
        (lambda: make_methods('`lr`'), "recipe '`lr`' is not one of", "recipe '`lr`' is not one of"),
        (lambda: make_methods('x `lr` y'), "recipe 'x `lr` y' is not", "recipe 'x `lr` y' is not"),
        (lambda: checked(Config(loss="a='b'")), 'loss="a=\'b\'" is not one of', "--loss=a='b' is not one of"),
        (
            lambda: checked(Config(model='resnet18', model_options={'stem': 'cifr'})),
            "model_options: stem='cifr' is not one of",
            '--model_options: stem=cifr is not one of',
        ),
        (lambda: checked(Config(loss='ddice')), "loss='ddice' is not one of", '--loss=ddice is not one of'),
        (lambda: checked(Config(loss='"`lr`"')), 'loss=\'"`lr`"\' is not', '--loss="`lr`" is not'),
        (lambda: checked(Config(loss='a\x1bb')), r"loss='a\x1bb' is not", r'--loss=a\x1bb is not'),
        (lambda: checked(Config(lr='a `lr` b')), "lr='a `lr` b': expected", '--lr=a `lr` b: expected'),
        (lambda: resolve('prox', options_of(prox), {'nu': ' `lr` '}), "nu=' `lr` ': prox has", '--nu= `lr` : prox has'),
    ],
)
def test_what_users_write_is_shown_as_it_is(make, told, flags):
    with pytest.raises(UserError) as error:
        make()
    assert str(error.value).startswith(told)
    assert error.value.with_flags().startswith(flags)


def messages():
    """All texts in the code that are no documentation, with X in the place of values."""
    for path in sorted(ROOT.rglob('*.py')):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        passed = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        passed |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in (node for node in nodes if id(node) not in passed):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else 'X' for part in node.values]
                yield f'{path.relative_to(ROOT)}:{node.lineno}', ''.join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f'{path.relative_to(ROOT)}:{node.lineno}', node.value


def test_every_option_that_the_library_names_is_read_as_one():
    named = 0
    for where, text in messages():
        meant = re.findall(r'`([A-Za-z_][\w.]*)`', text)
        assert meant == [found['option'] for found in MARKUP.finditer(text) if found['option']], (where, text)
        named += len(meant)
    assert named > 300
