"""Names that somebody made to do harm stay names in every format of a table."""

import csv
import io
import json
import os
import re

import pytest
from pictures import save
from rich.console import Console

from experiments.study import markdown
from fedjax_fair import Config, escaping, report, results
from fedjax_fair.errors import UserError
from fedjax_fair.report import pictures
from fedjax_fair.training import run

FORMULA, LINK, TAG = '=cmd|calc!A1', '[x](javascript:alert)', '"><img src=x onerror=alert(1)>'
CODES = 'a\x1b[2J\nb\u202e\u200e\u200f\u061c'
EVIL = (FORMULA, '+1+1', '@SUM(1)', LINK, TAG, CODES, '[x]: javascript:y', r'\input{x}', '[', '*', '$^$')
UNSEEN = re.compile('[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]')


def check_markdown(text):
    assert not UNSEEN.search(text)
    assert '<img' not in text and not re.search(r'(?<!\\)\][(:\[]', text)


def check_csv(text):
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    assert not UNSEEN.search(text) and not [cell for cell in cells if cell[:1] in '=@+' and cell]
    for cell in (cell for cell in cells if cell.startswith('-')):
        float(cell)  # a number may be negative


@pytest.fixture
def no_figures(monkeypatch):
    monkeypatch.setattr(pictures, 'drawn', lambda found: iter(()))


def test_every_format_of_a_table(make_run, tmp_path, no_figures):
    options = {'scenario': TAG + CODES, 'groups': EVIL[:6], 'clients': 6, 'seeds': 2, 'images': 6, 'rounds': 10}
    told = {'problems': [f'{LINK} {TAG} {CODES}'], 'tests': {'names': list(EVIL[:6]), 'examples': [*range(6)]}}
    paths = [make_run(name, directory=f'run{k}', summary_changes=told, **options) for k, name in enumerate(EVIL)]
    tables = report.make_tables(report.load_runs(paths))
    report.draw_report(tables, tmp_path / 'out', [results.LeftOut(paths[0] / CODES, TAG)])
    texts = {path.suffix: path.read_text() for path in (tmp_path / 'out').iterdir()}
    check_markdown(texts['.md'])
    check_csv(texts['.csv'])
    assert f"'{FORMULA}" in texts['.csv'] and '\n-' not in texts['.csv']
    assert '<img' not in texts['.html'] and not UNSEEN.search(texts['.html'])
    assert not re.search(r'\\\\\s*[\[*]', texts['.tex']) and r'\input' not in texts['.tex']
    assert json.loads(texts['.json'])['scenarios']
    console = Console(file=io.StringIO(), width=400, force_terminal=True, color_system=None)
    console.print(report.to_rich(tables[0]))
    assert not UNSEEN.search(console.file.getvalue())
    for line in (*report.head_of(tables[0].found.runs), *report.remarks_of(tables[0].found.runs)):
        assert not UNSEEN.search(line) and '\n' not in line


def test_every_name_is_a_cell_of_its_own():
    lines = markdown(['method', *EVIL], [['fedavg', *EVIL]])
    assert len({len(re.findall(r'(?<!\\)\|', line)) for line in lines}) == 1 and len(lines) == 3
    check_markdown('\n'.join(lines))


def test_numbers_of_a_spreadsheet_stay_numbers(make_run):
    table = report.make_table(report.load_runs([make_run('a', images=9), make_run('b', images=9, level=0.6)]))
    rows = csv.DictReader(io.StringIO(report.to_csv(table)))
    assert min(float(row['estimate']) for row in rows if row['kind'] == 'difference') < 0


@pytest.mark.parametrize('name', ['../secret.png', 'linked.png', '/etc/hostname'])
def test_a_run_shows_no_pictures_from_elsewhere(make_run, tmp_path, no_figures, name):
    path = make_run('fedavg', directory='mine', summary_changes={'pictures': {name: 'a picture'}})
    save(tmp_path / 'secret.png')
    (path / 'linked.png').symlink_to(tmp_path / 'secret.png')
    with pytest.raises(UserError, match=f'summary.json: pictures: {name} (lies outside|is a link that leads out)'):
        report.write_report([path], tmp_path / 'out')


def test_names_of_pictures_are_escaped(make_run, tmp_path, no_figures):
    name = 'x" onload="alert(1).png'
    path = make_run('fedavg', summary_changes={'pictures': {name: 'a picture'}})
    save(path / name)
    page = report.write_report([path], tmp_path / 'out').read_text()
    assert 'a picture' in page and 'x" onload' not in page


def test_hospitals_of_any_name_are_trained_and_reported(tmp_path, monkeypatch, capsys):
    """From folders to all files of a report."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    hospitals = [b'\xff\xfe', *(os.fsencode(name) for name in (FORMULA, LINK, '<img src=x onerror=alert(1)>', CODES))]
    for hospital in hospitals:
        for k in range(8):
            save(tmp_path / 'scans' / os.fsdecode(hospital) / 'ab'[k % 2] / f'{k}.png', seed=k)
    config = Config(scenario=f'folders:{tmp_path / "scans"}', model='logreg', rounds=1, local_epochs=1)
    run(config, tmp_path / 'out')
    page = report.write_report([tmp_path / 'out'], tmp_path / 'report').read_text(encoding='utf-8')
    assert r'\xff\xfe' in page and '&lt;img' in page and '<img src=x' not in page
    check_markdown((tmp_path / 'report' / 'table.md').read_text())
    check_csv((tmp_path / 'report' / 'table.csv').read_text())
    assert sorted(results.load(tmp_path / 'out').groups) == sorted(escaping.visible(os.fsdecode(h)) for h in hospitals)
    assert not UNSEEN.search(capsys.readouterr().out)
