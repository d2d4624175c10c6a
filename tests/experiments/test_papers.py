"""The program that makes all tables and figures, and the page of claims, on a paper made up for the test."""

import json
import types

import pytest

from experiments import claims, claims_page, papers
from experiments.claims import Claim, Says
from experiments.published import HERE
from fedjax_fair.errors import UserError
from fedjax_fair.training import Config

CONFIG = Config(scenario='gaussian_toy_1', model='logreg', rounds=1, devices=1)


@pytest.fixture
def made(monkeypatch):
    """A paper with a table and a figure; lists what was made."""
    calls = []

    def show(name):
        def write(study):
            calls.append((name, study.out.name))
            study.write(name, ['A line.'], {})

        return write

    modules = {
        'table': types.SimpleNamespace(TABLES={'1': show('table1'), '2': show('table2')}, PRESETS={'2': '{}_other'}),
        'figure': types.SimpleNamespace(FIGURES={'1': show('figure1'), '9': show('figure9')}, PRESETS={'9': None}),
    }
    monkeypatch.setattr(papers, 'module_of', lambda paper, kind: modules[kind])
    monkeypatch.setattr(papers, 'preset_config', lambda paper, preset: CONFIG)
    monkeypatch.setattr(papers, 'TIMES', HERE / 'no such file')
    monkeypatch.setattr(papers.results, 'git_commit', lambda: 'abc')
    monkeypatch.setattr(papers.jax, 'clear_caches', lambda: None)  # tests of this process share compiled programs
    return calls


def test_everything_is_made_once_with_an_index(made, tmp_path, capsys):
    papers.regenerate(('stub',), 'tiny', tmp_path, quiet=True)
    once = [('table1', 'stub-tiny'), ('table2', 'stub-tiny_other'), ('figure1', 'stub-tiny')]
    assert made == once
    assert '[3/3] stub figure 1, preset tiny' in capsys.readouterr().err
    page = (tmp_path / 'index.html').read_text()
    assert 'href="stub-tiny/table1.md"' in page and '--preset=tiny_other' in page
    papers.regenerate(('stub',), 'tiny', tmp_path, quiet=True)
    assert made == once


def test_the_time_is_told_before_anything_is_made(made, tmp_path, monkeypatch, capsys):
    def told():
        papers.regenerate(('stub',), 'tiny', tmp_path, quiet=True)
        return capsys.readouterr().err.splitlines()[0]

    assert told() == '3 parts, 3 to make, 3 of them have no recorded time'
    assert told() == '3 parts, 0 to make'
    done = json.loads((tmp_path / 'papers.json').read_text())
    for name, seconds in (('stub table 1, preset tiny', 90.0), ('stub figure 1, preset tiny', 30.0)):
        done[name] |= {'seconds': seconds, 'commit': 'another'}
    (tmp_path / 'papers.json').write_text(json.dumps(done))
    assert told() == '3 parts, 2 to make, about 2 minutes'
    times = tmp_path / 'times.json'
    monkeypatch.setattr(papers, 'TIMES', times)
    times.write_text(json.dumps({name: one | {'seconds': 600.0} for name, one in done.items() if 'table' in name}))
    (tmp_path / 'papers.json').unlink()
    assert told() == '3 parts, 3 to make, about 20 minutes, 1 of them have no recorded time'


def test_what_is_missing_is_made_when_the_program_goes_on(made, tmp_path):
    papers.regenerate(('stub',), 'tiny', tmp_path, quiet=True)
    done = json.loads((tmp_path / 'papers.json').read_text())
    del done['stub table 2, preset tiny_other']
    done['stub figure 1, preset tiny']['commit'] = 'another'
    (tmp_path / 'papers.json').write_text(json.dumps(done))
    papers.regenerate(('stub',), 'tiny', tmp_path, quiet=True)
    assert [name for name, _ in made[3:]] == ['table2', 'figure1']


def test_everything_is_made_outside_of_a_checkout(made, tmp_path, monkeypatch):
    monkeypatch.setattr(papers.results, 'git_commit', lambda: None)
    for _ in range(2):
        papers.regenerate(('stub',), 'tiny', tmp_path, quiet=True)
        assert len(made) == 3


def test_what_files_that_differ_from_their_commit_made_is_made_again(made, tmp_path, monkeypatch):
    monkeypatch.setattr(papers.results, 'git_commit', lambda: f'abc{papers.results.DIRTY}')
    for times in (1, 2):
        papers.regenerate(('stub',), 'tiny', tmp_path, quiet=True)
        assert len(made) == 3 * times


def test_another_preset_in_the_same_folder_is_made_beside_the_first(made, tmp_path):
    for preset in ('tiny', 'smoke'):
        papers.regenerate(('stub',), preset, tmp_path, quiet=True)
    assert [folder for _, folder in made[3:]] == ['stub-smoke', 'stub-smoke_other', 'stub-smoke']
    page = (tmp_path / 'index.html').read_text()
    assert 'href="stub-tiny/table1.md"' in page and 'href="stub-smoke/table1.md"' in page


@pytest.mark.parametrize(
    ('text', 'words'),
    [('{"stub', 'is not valid JSON'), ('[1]', 'is no record'), ('{"a": {"commit": "b"}}', 'is no record')],
)
def test_a_damaged_record_is_one_line(made, tmp_path, text, words):
    (tmp_path / 'papers.json').write_text(text)
    with pytest.raises(UserError, match=rf'papers\.json:? {words}'):
        papers.regenerate(('stub',), 'tiny', tmp_path, quiet=True)
    assert made == []


@pytest.mark.parametrize('deterministic', [False, True])
def test_presets_say_whether_devices_must_suffice_for_deterministic_runs(made, monkeypatch, deterministic):
    asked = []
    configs = {'tiny': CONFIG, 'tiny_other': CONFIG.changed(deterministic=deterministic)}
    monkeypatch.setattr(papers, 'preset_config', lambda paper, preset: configs[preset])
    monkeypatch.setattr(papers, 'use_host_devices', lambda *words: asked.append(words))
    papers.share_devices(('stub',), 'tiny')
    assert asked == [(None, deterministic)]


@pytest.mark.parametrize('paper', papers.PAPERS)
def test_every_part_of_a_paper_has_its_preset(paper):
    for part in papers.parts((paper,), 'smoke'):
        assert (papers.HERE / paper / f'{part.preset}.flags').exists(), part


DIFFERENCE = {
    'estimate': 2.0, 'lo': 0.5, 'hi': 3.5, 'lo90': 0.8, 'hi90': 3.2, 'a': 0.1, 'df_a': 4.0, 'kappa': 0.2,
    'df_kappa': 90.0, 'p': 0.01, 'p_holm': 0.01, 'verdict': 'better', 'seeds_needed': None, 'patients_needed': None,
    'certainty': 0.99, 'chance': 0.9,
}  # fmt: skip


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A repository whose only paper has one claim of each kind about one recorded difference."""
    wide = DIFFERENCE | {'lo': -3.0, 'lo90': -2.5, 'verdict': 'undecided', 'seeds_needed': 40}
    measures = {'avg': {'differences': {'new': DIFFERENCE}}, 'worst': {'differences': {'new': wide}}}
    entry = {'baseline': 'old', 'margin': 1.0, 'counts': 'seeds', 'seeds': [0, 1, 2], 'notes': [], 'measures': measures}
    record = {'evidence': {'accuracy': entry}, 'data': {'name': 'digits'}, 'command': 'python -m x', 'commit': 'abc'}
    folder = tmp_path / 'experiments' / 'fedism' / 'results'
    folder.mkdir(parents=True)
    (folder / 'table1.json').write_text(json.dumps(record))
    made = tuple(
        Claim(words, 'Table 1', 'table1.json', 'accuracy', measure, 'new', says)
        for words, measure, says in (
            ('new is higher', 'avg', Says.HIGHER),
            ('new is lower', 'avg', Says.LOWER),
            ('its worst is higher', 'worst', Says.HIGHER),
        )
    )
    made += (made[0]._replace(words='new is fairer', record='table2.json'),)
    monkeypatch.setattr(claims, 'HERE', tmp_path / 'experiments')
    monkeypatch.setattr(claims, 'PAPERS', ('fedism',))
    monkeypatch.setattr(claims, 'claims_of', lambda paper: made)
    monkeypatch.setattr(claims_page, 'REPOSITORY', tmp_path)


def test_the_page_of_claims_shows_verdicts_of_records(recorded):
    page = claims_page.text(claims.outcomes())
    assert '4 claims: 1 contradicted, 1 not recorded, 1 supported, 1 undecided.' in page
    rows = {
        line.split('|')[1].strip(): [cell.strip() for cell in line.split('|')]
        for line in page.splitlines()
        if '|' in line
    }
    assert rows['new is higher'][3:5] == ['+2.00 [0.50, 3.50] (avg: new minus old)', 'supported']
    assert rows['new is lower'][4] == 'contradicted'
    assert rows['its worst is higher'][4:6] == ['undecided', 'about 40 seeds would decide a difference of 1 point']
    assert rows['new is higher'][7] == 'experiments/fedism/results/table1.json'
    assert rows['new is fairer'][3:5] == ['', 'not recorded']
    path = 'experiments/fedism/results/table1.json'
    assert f'\n- [{path}](../{path}): `python -m x` (commit abc)\n' in page


@pytest.mark.parametrize('lacking', ['bound', 'difference', 'measure', 'entry'])
def test_a_record_without_a_usable_difference_decides_nothing(recorded, lacking, tmp_path):
    """An interval without an end, one seed, a baseline that diverged."""
    path = tmp_path / 'experiments' / 'fedism' / 'results' / 'table1.json'
    record = json.loads(path.read_text())
    entry = record['evidence']['accuracy']
    match lacking:
        case 'bound':
            entry['measures']['avg']['differences']['new']['hi90'] = None
        case 'difference':
            entry['measures']['avg']['differences'] = {}
        case 'measure':
            del entry['measures']['avg']
        case 'entry':
            record['evidence']['accuracy'] = {}
    path.write_text(json.dumps(record))
    claims.record_of.cache_clear()
    found = claims.outcomes()
    assert [one.verdict for one in found['fedism']] == [*3 * ['undecided'], 'not recorded']
    (row,) = [line for line in claims_page.text(found).splitlines() if line.startswith('| new is lower')]
    cells = [cell.strip() for cell in row.split('|')]
    assert cells[3:7] == ['no interval', 'undecided', 'several seeds of models that do not diverge', 'digits']


def test_the_summary_counts_verdicts(recorded):
    heads, _, row = claims_page.summary(claims.outcomes()).splitlines()
    assert [cell.strip() for cell in heads.split('|')[2:-1]] == list(claims_page.VERDICTS)
    assert [cell.strip() for cell in row.split('|')[1:-1]] == ['FedISM', '1', '1', '1', '1']


def test_papers_have_some_headline_claims_each():
    counts = {paper: len(claims.claims_of(paper)) for paper in papers.PAPERS}
    assert all(4 <= count <= 8 for count in counts.values()), counts


def test_the_page_of_claims_and_its_summary_are_up_to_date():
    assert len(claims_page.SUMMARY.findall(claims_page.README.read_text())) == 1
    assert all(path.read_text() == text for path, text in claims_page.pages().items())
