"""The program that makes all tables and figures, and the page of claims, on a paper made up for the test."""

import json
import types

import pytest

from experiments import claims, claims_page, papers
from experiments.claims import Claim, Place, Published, Says
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
        Claim(words, Published('Table 1'), Place('table1.json', 'accuracy', measure, 'new'), says)
        for words, measure, says in (
            ('new is higher', 'avg', Says.HIGHER),
            ('new is lower', 'avg', Says.LOWER),
            ('its worst is higher', 'worst', Says.HIGHER),
        )
    )
    made += (made[0]._replace(words='new is fairer', place=Place('table2.json', 'accuracy', 'avg', 'new')),)
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
    assert rows['new is higher'][3:5] == ['+2.00 [0.50, 3.50] (avg: new minus old; margin 1)', 'supported']
    assert rows['new is lower'][4] == 'contradicted'
    told = ['undecided', '', 'about 40 seeds would decide a difference of 1 point']
    assert rows['its worst is higher'][4:7] == told
    assert rows['new is higher'][7:9] == [
        'digits, 3 seeds; intervals count seeds',
        'experiments/fedism/results/table1.json',
    ]
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
    assert cells[3:8] == ['no interval', 'undecided', '', 'several seeds of models that do not diverge', 'digits']


def test_the_summary_counts_verdicts(recorded):
    heads, _, row = claims_page.summary(claims.outcomes()).splitlines()
    assert [cell.strip() for cell in heads.split('|')[2:-1]] == list(claims_page.VERDICTS)
    assert [cell.strip() for cell in row.split('|')[1:-1]] == ['FedISM', '1', '0', '1', '0', '1', '1']


def shown(claim):
    """The row of a claim, by its heads."""
    lines = claims_page.text({'fedism': [claims.outcome('fedism', claim)]}).splitlines()
    heads, _, row = (line.split('|')[1:-1] for line in lines if line.startswith('|'))
    return {head.strip(): cell.strip() for head, cell in zip(heads, row, strict=True)}


@pytest.mark.parametrize(
    ('tried', 'verdict', 'told'),
    [
        ({'more rounds': 'table2.json'}, 'contradicted so far', 'not yet tried: more rounds'),
        ({'more rounds': 'table1.json'}, 'contradicted', 'more rounds: +2.00 [0.50, 3.50] contradicted'),
    ],
)
def test_follow_ups_stand_beside_the_verdict(recorded, tried, verdict, told):
    lower = claims.claims_of('fedism')[1]
    causes = {cause: lower.place._replace(record=record) for cause, record in tried.items()}
    row = shown(lower._replace(follow_ups=causes))
    assert row['verdict'] == verdict and row['follow-ups'] == told


def test_a_follow_up_that_reverses_the_sign_leaves_a_claim_undecided(recorded, tmp_path):
    path = tmp_path / 'experiments' / 'fedism' / 'results' / 'table1.json'
    record = json.loads(path.read_text())
    turned = DIFFERENCE | {'estimate': -2.0, 'lo': -3.5, 'hi': -0.5, 'lo90': -3.2, 'hi90': -0.8}
    record['evidence'] |= {
        'longer': record['evidence']['accuracy'] | {'measures': {'avg': {'differences': {'new': turned}}}}
    }
    path.write_text(json.dumps(record))
    claims.record_of.cache_clear()
    lower = claims.claims_of('fedism')[1]
    places = {'more rounds': lower.place._replace(entry='longer'), 'group norm': lower.place._replace(entry='group')}
    row = shown(lower._replace(follow_ups=places))
    assert row['verdict'] == 'undecided: depends on more rounds'
    assert row['follow-ups'] == 'more rounds: -2.00 [-3.50, -0.50] supported; not yet tried: group norm'


def test_a_claim_is_not_contradicted_while_half_of_its_published_effect_is_possible(recorded, tmp_path):
    path = tmp_path / 'experiments' / 'fedism' / 'results' / 'table1.json'
    record = json.loads(path.read_text())
    record['evidence']['accuracy']['measures']['avg']['differences']['new'] = DIFFERENCE | {
        'estimate': 0.47, 'lo': -0.05, 'hi': 0.99, 'lo90': 0.05, 'hi90': 0.9, 'verdict': 'no difference',
    }  # fmt: skip
    path.write_text(json.dumps(record))
    claims.record_of.cache_clear()
    claim = claims.claims_of('fedism')[0]
    assert shown(claim)['verdict'] == 'contradicted'  # by the margin of the table alone
    published = Published('Table 2', {'Split-3': (81.96, 81.13), 'Split-1': (84.63, 83.63)})
    row = shown(claim._replace(published=published))
    assert row['verdict'] == 'undecided'
    assert row['the paper'] == '81.96 beside 81.13 (Split-3), 84.63 beside 83.63 (Split-1); Table 2'
    assert row['ours, 95 % interval'].endswith('margin 0.41)')
    assert row['what would decide'] == 'more seeds; half the published difference, 0.41 points, takes more'


@pytest.mark.parametrize('paper', papers.PAPERS)
def test_published_differences_are_on_the_side_that_claims_say(paper):
    for claim in claims.claims_of(paper):
        sign = 1 if claim.says in (Says.HIGHER, Says.NOT_LOWER) else -1
        assert all(sign * (own - other) > 0 for own, other in claim.published.numbers.values()), claim.words
        assert claim.place not in claim.follow_ups.values()


def test_the_page_says_how_many_intervals_chance_would_spoil(recorded):
    found = {'fedism': 10 * claims.outcomes()['fedism']}
    assert 'of 40 intervals about 2 would miss the truth by chance' in ' '.join(claims_page.text(found).split())


def test_papers_have_some_headline_claims_each():
    counts = {paper: len(claims.claims_of(paper)) for paper in papers.PAPERS}
    assert all(4 <= count <= 8 for count in counts.values()), counts


def test_the_page_of_claims_and_its_summary_are_up_to_date():
    assert len(claims_page.SUMMARY.findall(claims_page.README.read_text())) == 1
    assert all(path.read_text() == text for path, text in claims_page.pages().items())
