"""The packages stand above each other: none imports one above it, and errors are recognised by their class.

Modules that are imported by a name are listed here, since no import statement shows them.
"""

import ast
import pathlib
import re

import pytest

import fedjax_fair
from fedjax_fair import cli

ROOT = pathlib.Path(fedjax_fair.__file__).parent
LAYERS = (
    {'escaping', 'cache_folder', 'consoles', 'process_marks', 'parsing', 'ranges', 'sizes'},
    {'errors'},
    {'options', 'foreign', 'publishing', 'interruption'},
    {'registry', 'stats'},
    {'core', 'plugins'},
    {'ops'},
    {'methods', 'diagnostics', 'metrics', 'models', 'data'},
    {'results'},
    {'viz'},
    {'report', 'training'},
    {'planning'},
    {'testing'},
    {'cli'},
    {'__main__'},
)
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}
FLAG = re.compile(r'(?<![\w-])--[a-z]')
NO_OPTIONS = ('tfds_store.py', 'page.py', 'facts.py')  # a command to type, a style sheet, a call of git
BY_NAME = {  # the file, and what it imports by a name when somebody asks
    '__init__.py': ["f'{__name__}.{_HOME_OF[name]}'", "f'{__name__}.{name}'"],
    'plugins.py': ["f'fedjax_fair.{package}'", 'name'],  # what comes with the package; a plug-in
    'registry.py': ['self._homes.pop()', 'PLUGINS'],  # modules that fill registries; what loads installed plug-ins
    'methods/__init__.py': ["f'{__name__}.{name}'"],  # its own modules
    'data/sources/medical.py': ['name'],  # an optional library
}
HOMES = ('fedjax_fair', 'experiments', 'benchmarks', 'tools', 'docs')
LINES_PER_FILE, LINES_PER_FUNCTION = 350, 60
IMPORTERS = ('import_module', '__import__')
MODULES = sorted(path for path in ROOT.rglob('*.py') if path != ROOT / '__init__.py')


def package_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix('.py')


def imported(path):
    """The packages of ours that a file imports when it runs."""
    tree = ast.parse(path.read_text())
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and 'TYPE_CHECKING' in ast.unparse(n.test)]
    for_types = {id(node) for block in blocks for node in ast.walk(block)}
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if '.' in node.module else [f'{node.module}.{alias.name}' for alias in node.names]
        else:
            continue
        yield from (name.split('.')[1] for name in names if name.startswith('fedjax_fair.'))


@pytest.mark.parametrize('package', sorted(LEVEL))
def test_no_package_imports_one_above_or_beside_it(package):
    for path in (path for path in MODULES if package_of(path) == package):
        for other in set(imported(path)) - {package}:
            assert LEVEL[other] < LEVEL[package], f'{path.relative_to(ROOT)} imports {other}'


def test_no_other_module_is_imported_by_a_name():
    found = {}
    for path in (*MODULES, ROOT / '__init__.py'):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition('.')[2] in IMPORTERS:
                found.setdefault(str(path.relative_to(ROOT)), []).append(ast.unparse(node.args[0]))
    assert found == BY_NAME


def test_programs_use_what_the_command_line_makes_public():
    for path in (path for home in ('experiments', 'benchmarks') for path in (ROOT.parent / home).rglob('*.py')):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or '').startswith('fedjax_fair.cli'):
                names = {alias.name for alias in node.names}
                assert node.module == 'fedjax_fair.cli' and names <= set(cli.__all__), path.relative_to(ROOT.parent)


def test_every_package_has_a_layer():
    assert {package_of(path) for path in MODULES} == set(LEVEL)


@pytest.mark.parametrize('word', ['RAISE_VARARGS', 'dict(locals())', "startswith('--')", 'jnp.zeros(0).dtype'])
def test_no_file_has_words_of_workarounds(word):
    with_word = [str(path.relative_to(ROOT)) for path in MODULES if word in path.read_text()]
    assert not with_word


def test_files_and_functions_are_small():
    """As CONTRIBUTING.md says."""
    for path in (path for home in HOMES for path in (ROOT.parent / home).rglob('*.py')):
        text = path.read_text()
        assert text.count('\n') <= LINES_PER_FILE, path.relative_to(ROOT.parent)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                lines = node.end_lineno - node.lineno + 1
                assert lines <= LINES_PER_FUNCTION, f'{path.relative_to(ROOT.parent)}:{node.lineno} {node.name}'


def test_no_two_test_files_share_a_name():
    """Pytest would import one in the place of the other, and end before the first test."""
    names = [path.name for path in (ROOT.parent / 'tests').rglob('test_*.py')]
    assert 'test_import_order.py' in names and len(names) == len(set(names))


def test_every_hook_is_annotated():
    """Mypy does not look into a lambda whose type is a Protocol, so that a hook is a function with annotations."""
    for path in (path for path in MODULES if package_of(path) in ('methods', 'diagnostics')):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == 'Method':
                hooks = [n for keyword in node.keywords for n in (keyword.value, getattr(keyword.value, 'body', None))]
                assert not any(isinstance(n, ast.Lambda) for n in hooks), f'{path.relative_to(ROOT)}:{node.lineno}'
            if isinstance(node, ast.FunctionDef):
                bare = [arg.arg for arg in node.args.args if arg.annotation is None and arg.arg != 'self']
                assert not bare and node.returns is not None, f'{path.relative_to(ROOT)}:{node.lineno}'


def test_messages_of_the_library_name_options_without_dashes():
    """The command line adds the dashes; its own files may write them."""
    for path in (path for path in MODULES if package_of(path) != 'cli'):
        tree = ast.parse(path.read_text())
        documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
                where = f'{path.relative_to(ROOT)}:{node.lineno}'
                assert not FLAG.search(node.value) or path.name in NO_OPTIONS, f'{where}: {node.value}'


def test_the_tour_has_this_order():
    tour = (ROOT.parent / 'BUILD.md').read_text()
    layers = tour.split('from the bottom to the top:\n\n```\n')[1].split('\n```')[0].splitlines()
    assert [set(line.split(', ')) for line in layers] == [set(layer) for layer in LAYERS if layer != {'__main__'}]
