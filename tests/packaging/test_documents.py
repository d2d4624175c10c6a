"""What documents tell a reader to type works: Python snippets run, command lines parse, links lead to files."""

from __future__ import annotations

import pathlib
import re
import runpy
import shlex
import sys

import pytest
from absl import app, flags
from absl.testing import flagsaver

from fedjax_fair import plugins, registry
from fedjax_fair.cli import data, main, settings
from fedjax_fair.methods import make_methods
from fedjax_fair.training.comparison import recipe_of
from fedjax_fair.training.grid import swept_options

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    {
        *ROOT.glob('*.md'),
        *ROOT.glob('docs/**/*.md'),
        *ROOT.glob('benchmarks/**/README.md'),
        *ROOT.glob('experiments/*/README.md'),
    }
)
BLOCK = re.compile(r'^( *)```(\w*)\n(.*?)^ *```', re.MULTILINE | re.DOTALL)
INLINE = re.compile(r'`((?:fedjax-fair|python -m experiments\.)[^`]*)`')
SAVED = re.compile(r'Save this as `(\w+\.py)`:\n+```python\n(.*?)^```', re.MULTILINE | re.DOTALL)
LINK = re.compile(r'\]\(([^)#:\s]*)(?:#([^)]*))?\)')
REGISTERED = re.compile(r'^@register\.(\w+)', re.MULTILINE)
HEADING = re.compile(r'^#+ (.*)$', re.MULTILINE)


def shown(path: pathlib.Path) -> str:
    return str(path.relative_to(ROOT))


def commands(path: pathlib.Path) -> list[str]:
    """The command lines of a document, in blocks of code and within sentences; those with ``...`` are sketches."""
    text = path.read_text()
    lines = [line for _, _, block in BLOCK.findall(text) for line in block.replace('\\\n', ' ').splitlines()]
    spans = INLINE.findall(BLOCK.sub('', text))
    found = (' '.join(line.removeprefix('.venv/bin/').split()) for line in map(str.strip, [*lines, *spans]))
    return [line for line in found if re.match(r'fedjax-fair |python -m experiments\.', line) and '...' not in line]


COMMANDS = sorted({(shown(path), line) for path in DOCUMENTS for line in commands(path)})
SNIPPETS = [
    (shown(path), number, block)
    for path in DOCUMENTS
    for number, (_, language, block) in enumerate(BLOCK.findall(path.read_text()))
    if language == 'python'
]


def anchors(path: pathlib.Path) -> set[str]:
    """What links to headings of a document are called."""
    text = BLOCK.sub('', path.read_text())
    return {re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-') for heading in HEADING.findall(text)}


@pytest.fixture
def saved(document, tmp_path):
    """The files that a document tells its reader to save, by name; what they register is forgotten afterwards."""
    files = {name: tmp_path / name for name, _ in SAVED.findall((ROOT / document).read_text())}
    for name, text in SAVED.findall((ROOT / document).read_text()):
        files[name].write_text(text)
    yield files
    for name in files:
        plugins.unload(name)


def check_flags(command: str, words: list[str], values: flags.FlagValues) -> None:
    """Parse a command's flags, and look up its recipes and their hyper-parameters."""
    settings.define_flags(values)
    hyper = settings.parse(words, values, command)
    recipes = (values.recipes or main.DEFAULT_RECIPES).split(',') if command in ('compare', 'tune') else [values.recipe]
    for recipe in recipes:
        parts = recipe.split('+')
        own = {name: value for name, value in hyper.items() if name.partition('.')[0] in parts}
        make_methods(recipe, own)
        settings.config_of(values, own, recipe)
    assert settings.grid_of(values.grid) or command != 'sweep'
    for name in settings.grid_of(values.frontier, 'frontier'):
        assert name in swept_options(recipe_of(name, recipes))
    settings.tuning_of(values)


def check_study(module: str, words: list[str], monkeypatch) -> None:
    """Let a study's program parse its flags, and stop it there."""
    parsed = []

    def run(program, argv=None, flags_parser=None):
        parsed.append(flags_parser(argv) if flags_parser else flags.FLAGS(sys.argv))

    monkeypatch.setattr(app, 'run', run)
    monkeypatch.setattr(sys, 'argv', [module, *words])
    with flagsaver.flagsaver():  # forgets the program's flags
        runpy.run_module(module, run_name='__main__')
    assert parsed


@pytest.mark.filterwarnings('ignore:.*found in sys.modules.*:RuntimeWarning')
@pytest.mark.parametrize('document,line', COMMANDS)
def test_command_lines_parse(document, line, saved, monkeypatch):
    monkeypatch.chdir(ROOT)  # flag files are named from here
    words = shlex.split(line, comments=True)
    for file, path in saved.items():
        words = [
            re.sub(rf'(^|=){re.escape(file)}$', lambda found, path=path: f'{found[1]}{path}', word) for word in words
        ]
    if words[0] == 'python' and (name := words[2].removeprefix('experiments.')) not in main.COMMANDS:
        check_study(words[2], words[3:], monkeypatch)
        return
    name, *rest = words[1:] if words[0] == 'fedjax-fair' else [name, *words[3:]]
    if name == 'data':
        kept = data.SUBCOMMANDS[rest[0]]._replace(run=lambda argument, values: 0)
        monkeypatch.setitem(data.SUBCOMMANDS, rest[0], kept)
        assert data.data(rest) == 0
    else:
        assert name in main.COMMANDS
        check_flags(name, rest, flags.FlagValues())


@pytest.mark.parametrize('document,number,snippet', SNIPPETS, ids=[f'{d}-{n}' for d, n, _ in SNIPPETS])
def test_python_snippets_run(document, number, snippet, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for one in vars(registry).values():
        if isinstance(one, registry.Registry):  # other tests must not see what a snippet registers
            monkeypatch.setattr(one, '_entries', dict(one._entries))
    exec(compile(snippet, f'{document}, block {number}', 'exec', dont_inherit=True), {'__name__': 'snippet'})


def test_the_documents_have_commands_and_snippets():
    assert len([line for document, line in COMMANDS if document == 'README.md']) > 15
    assert any(document == 'README.md' for document, _, _ in SNIPPETS)
    registered = {kind for name, _, block in SNIPPETS for kind in REGISTERED.findall(block) if name == 'docs/extend.md'}
    assert registered >= {'recipe', 'source', 'scenario', 'partition', 'model', 'task'}


@pytest.mark.parametrize('path', DOCUMENTS, ids=shown)
def test_links_lead_to_files_and_headings(path):
    for link, anchor in LINK.findall(BLOCK.sub('', path.read_text())):
        target = path.parent / link if link else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), f'{link}#{anchor}'


@pytest.mark.parametrize('path', sorted(ROOT.glob('docs/decisions/*.md')), ids=shown)
def test_the_tour_lists_all_decisions_in_their_order(path):
    records = re.findall(r'^### (.*)$', path.read_text(), re.MULTILINE)
    listed = re.findall(
        rf'^- \[(.*)\]\(docs/decisions/{path.name}#.*\)$', (ROOT / 'BUILD.md').read_text(), re.MULTILINE
    )
    assert records and listed == records


@pytest.mark.parametrize('path', DOCUMENTS, ids=shown)
def test_no_line_waits_for_its_content(path):
    """A single word in capitals that stands alone, outside of code, was a place for numbers."""
    assert not re.search(r'^[A-Z]{3,}$', BLOCK.sub('', path.read_text()), re.MULTILINE)


def test_the_page_of_hooks_is_made_from_the_code():
    page = runpy.run_path(str(ROOT / 'docs' / 'make_hooks.py'))['page']
    assert (ROOT / 'docs' / 'hooks.md').read_text() == page(), 'run: python docs/make_hooks.py'
