"""What is written of a study: enough to repeat it, and no place of the machine it ran on."""

import hashlib
import json
import re
import subprocess

import numpy as np
import pytest

from experiments.published import HERE, PAPERS
from experiments.study import Study, portable, show_part, without_folders
from fedjax_fair.training import Config


@pytest.mark.parametrize(
    ('word', 'written'),
    [
        ('--scenario=npz:/home/me/a.npz', '--scenario=npz:a.npz'),
        ('--scenario=quality_shift:npz:/my data/a.npz,~/b.npz', '--scenario=quality_shift:npz:a.npz,b.npz'),
        ('--out=/tmp/runs/x', '--out=x'),
        ('idx:/data/mnist/', 'idx:mnist'),
        ('--scenario=npz:$DATA/a.npz,${DATA}/b.npz', '--scenario=npz:$DATA/a.npz,${DATA}/b.npz'),
        ('--scenario=npz:data/a.npz', '--scenario=npz:data/a.npz'),
        ('--npz_keys=site:hospital,split:-', '--npz_keys=site:hospital,split:-'),
    ],
)
def test_absolute_paths_are_left_with_their_names(word, written):
    assert without_folders(word) == written


@pytest.mark.parametrize('folder', ['absolute', '$DATA'])
def test_a_record_names_files_and_never_where_they_lie(folder, tmp_path, monkeypatch):
    path = tmp_path / 'own.npz'
    np.savez(path, images=np.zeros((20, 4), np.float32), labels=np.arange(20) % 2)
    monkeypatch.setenv('DATA', str(tmp_path))
    scenario = f'npz:{tmp_path if folder == "absolute" else folder}/own.npz'
    monkeypatch.setattr('sys.argv', ['tables', '--table=1', f'--scenario={scenario}', f'--out={tmp_path}/out'])
    Study(Config(scenario=scenario, data={'num_clients': 2}), tmp_path).write('table1', ['a line'], {'a': 1})
    text = (tmp_path / 'table1.json').read_text()
    record, shown = json.loads(text), 'npz:own.npz' if folder == 'absolute' else scenario
    assert str(tmp_path) not in text
    assert record['settings']['scenario'] == shown
    assert record['command'].endswith(f' --table=1 --scenario={shown} --out=out')
    assert record['data']['name'] == 'npz:own' and record['data']['train'] == [8, 8]
    assert record['data']['sha256'] == {'own.npz': hashlib.sha256(path.read_bytes()).hexdigest()}


def test_sources_of_many_files_are_known_by_their_examples(tmp_path):
    for name in ('a', 'b'):
        np.savez(tmp_path / f'{name}.npz', images=np.zeros((20, 4), np.float32), labels=np.arange(20) % 2)
    scenario = f'domains:one=npz:{tmp_path}/a.npz,two=npz:{tmp_path}/b.npz'
    before = Study(Config(scenario=scenario), tmp_path).data()['sha256']
    assert list(before) == ['training examples'] and len(before['training examples']) == 64
    np.savez(tmp_path / 'b.npz', images=np.ones((20, 4), np.float32), labels=np.arange(20) % 2)
    after = Study(Config(scenario=scenario, data_seed=1), tmp_path).data()['sha256']
    assert after != before


def test_drawn_data_are_known_by_their_examples(tmp_path):
    first, again, other = (
        Study(Config(scenario='gaussian_toy_1', data_seed=seed), tmp_path).data()['sha256'] for seed in (0, 0, 1)
    )
    assert list(first) == ['training examples'] and first == again != other


def test_settings_within_settings_name_no_folder_either():
    found = portable({'data': {'partition': '/home/me/split.json', 'alpha': 0.1}, 'plugins': ('/home/me/mine.py',)})
    assert found == {'data': {'partition': 'split.json', 'alpha': 0.1}, 'plugins': ['mine.py']}


def test_missing_weights_show_before_data_are_read(tmp_path):
    config = Config(scenario=f'npz:{tmp_path}/nowhere.npz', model='resnet18', pretrained='$DATA/resnet18.npz')
    with pytest.raises(ValueError, match=r'^pretrained=\$DATA/resnet18.npz: no such file with .*torchvision'):
        show_part({'1': None}, '1', Study(config, tmp_path))


REPOSITORY = HERE.parent
PAGES = {'calibration': REPOSITORY / 'docs' / 'statistics.md'}  # where a folder of records has no README beside it
STUDIES = sorted(path.parent.name for path in HERE.glob('*/results'))


def on_earlier_code(study):
    """What is written beside records about those of earlier code."""
    paragraphs = PAGES.get(study, HERE / study / 'README.md').read_text().split('\n\n')
    return ' '.join(text for text in paragraphs if re.search(r'recorded by\s+earlier', text))


def git(*words):
    """What git says of this checkout, and whether it says yes."""
    try:
        said = subprocess.run(['git', *words], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return '', False
    return said.stdout.strip(), said.returncode == 0


def is_known(commit, has_history):
    """Whether a commit leads to this checkout; without history, as in a shallow clone, whether it is one at all."""
    if not re.fullmatch('[0-9a-f]{40}', commit or ''):
        return False
    return not has_history or git('merge-base', '--is-ancestor', commit, 'HEAD')[1]


@pytest.mark.parametrize('study', STUDIES)
def test_records_of_unknown_commits_are_named_as_those_of_earlier_code(study):
    has_history = (REPOSITORY / '.git').exists() and git('rev-parse', '--is-shallow-repository')[0] == 'false'
    results = HERE / study / 'results'
    for path in results.rglob('*.json'):
        commit = json.loads(path.read_text()).get('commit')
        if path.name != 'summary.json' and not is_known(commit, has_history):  # a run has its commit in config.json
            name = path.name if path.parent == results else f'results/{path.relative_to(results).parts[0]}'
            assert f'`{name}`' in on_earlier_code(study), (path, commit)


def test_commits_are_known_by_history():
    assert not is_known(None, False) and not is_known('0' * 40 + '-dirty', False)
    assert is_known('0' * 40, has_history=False) and not is_known('0' * 40, has_history=True)


@pytest.mark.parametrize('paper', PAPERS)
def test_records_without_intervals_are_named_as_those_of_earlier_code(paper):
    named = on_earlier_code(paper)
    for path in (HERE / paper / 'results').glob('*/*.json'):
        if 'evidence' not in json.loads(path.read_text()):
            assert f'`results/{path.parent.name}`' in named, path


A_NUMBER = r'\b(?:\d[\d.]*|one|two|three|four|five|six|seven|eight|nine|ten)'
DIFFERENCE = re.compile(rf'{A_NUMBER} points?\b|\b(?:more|less) accurate\b')
INTERVAL = re.compile(r'-?\d[\d.]* to -?\d|\[-?\d[\d.]*, ')


def sentences(page):
    """The sentences of a page's text: not of its tables and commands."""
    blocks = re.split(r'\n\s*\n|\n(?=- )', re.sub(r'```.*?```', '', page, flags=re.DOTALL))
    texts = (' '.join(block.split()) for block in blocks if not block.lstrip().startswith('|'))
    return [sentence for text in texts for sentence in re.split(r'(?<=[.;:]) (?=[A-Z])', text)]


def lacking(page):
    """Sentences that state a difference without an interval and do not call it undecided."""
    told = [one for one in sentences(page) if DIFFERENCE.search(one)]
    return [one for one in told if not (INTERVAL.search(one) or 'undecided' in one)]


@pytest.mark.parametrize('page', sorted(HERE.glob('*/README.md')), ids=lambda page: page.parent.name)
def test_differences_have_intervals_or_are_undecided(page):
    assert lacking(page.read_text()) == []


@pytest.mark.parametrize(
    ('page', 'found'),
    [
        ('It is ten points better.', 1),
        ('A is less accurate\nthan B.', 1),
        ('It is 2.5 points (1.0 to 4.0) better. The rest is 3 points better.', 1),
        ('A gains 2 points [-1.0, 5.0].\n\n- B gains 4 points: undecided.\n- C has points.', 0),
        ('```\nof 3 points\n```\n\n| 3 points |\n', 0),
    ],
)
def test_sentences_that_lack_an_interval_are_found(page, found):
    assert len(lacking(page)) == found


def test_what_tissue_costs_is_quoted_as_recorded():
    means = {}
    for hospitals in ('alike', 'differing'):
        summary = json.loads((HERE / 'tissue' / 'results' / hospitals / 'summary.json').read_text())
        means[hospitals] = 100 * summary['global']['avg']['mean']
    lost = f'{means["alike"] - means["differing"]:.1f} points'
    for page in (REPOSITORY / 'README.md', HERE / 'tissue' / 'README.md'):
        assert lost in page.read_text(), lost


def test_what_q_does_is_quoted_as_recorded():
    text = ' '.join((HERE / 'fedtilt' / 'README.md').read_text().split())
    models = json.loads((HERE / 'fedtilt' / 'results' / 'decide' / 'q.json').read_text())['evidence']
    personal = [one for each in models['personal']['measures'].values() for one in each['differences'].values()]
    assert -1 < min(one['lo'] for one in personal) < max(one['hi'] for one in personal) < 1
    difference = models['global']['measures']['acc']['differences']['-10']
    lost, least, most = (-difference[name] for name in ('estimate', 'hi', 'lo'))
    assert (
        f'within -1 to 1 points. Global models are {lost:.1f} points ({least:.1f} to {most:.1f}) less accurate' in text
    )
