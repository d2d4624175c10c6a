"""Files about the project agree with each other."""

import pathlib
import re
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']


def name_of(requirement: str) -> str:
    """``array-record`` of ``array_record>=0.8.1; sys_platform != 'win32'``."""
    return re.sub(r'[-_.]+', '-', re.match(r'[\w.-]+', requirement)[0]).lower()


def test_constraints_pin_every_dependency():
    pins = [line for line in (ROOT / 'constraints.txt').read_text().splitlines() if line]
    assert all(re.fullmatch(r'[\w.-]+==[\w.+!]+', pin) for pin in pins)
    wanted = [*PROJECT['dependencies']]
    for extra in ('medical', 'dev'):
        wanted += PROJECT['optional-dependencies'][extra]
    assert {name_of(one) for one in wanted} - {'fedjax-fair'} <= {name_of(pin) for pin in pins}


def test_citation_names_the_version_and_the_licence():
    citation = (ROOT / 'CITATION.cff').read_text()
    assert re.search(r'^version: (.*)$', citation, re.MULTILINE)[1] == PROJECT['version']
    assert re.search(r'^license: (.*)$', citation, re.MULTILINE)[1] == PROJECT['license']


def test_the_changelog_knows_the_version_and_what_comes():
    headings = re.findall(r'^## \[(.*)\]', (ROOT / 'CHANGELOG.md').read_text(), re.MULTILINE)
    assert headings[0] == 'Unreleased'
    assert PROJECT['version'] in headings


def test_the_guided_tour_names_every_package():
    layout = (ROOT / 'BUILD.md').read_text().partition('## Layout')[2]
    packages = {path.parent.name for path in ROOT.glob('fedjax_fair/*/__init__.py')}
    assert packages <= set(re.findall(r'^  (\w+)/', layout, re.MULTILINE))


def test_hooks_before_a_commit_need_no_network():
    hooks = (ROOT / '.pre-commit-config.yaml').read_text()
    assert set(re.findall(r'- repo: (\S+)', hooks)) == {'local'}
    assert set(re.findall(r'language: (\S+)', hooks)) == {'system'}
