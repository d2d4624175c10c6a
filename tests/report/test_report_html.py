"""The HTML report: complete, alone, and safe whatever names hold."""

import html.parser

import pytest

from fedjax_fair import report, results
from fedjax_fair.report import pictures
from fedjax_fair.report.cells import interval_text, value_text
from fedjax_fair.viz.inline import VARIABLES


@pytest.fixture
def no_figures(monkeypatch):
    """Pages without figures: drawing takes time."""
    monkeypatch.setattr(pictures, 'drawn', lambda found: iter(()))


class Page(html.parser.HTMLParser):
    """All tags with attributes, and the text, of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ('meta', 'img'):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):  # inside SVG
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def write(paths, out):
    return report.write_report(paths, out).read_text()


def test_report_stands_alone(make_run, tmp_path):
    out = tmp_path / 'made' / 'report'
    options = {'groups': ('clean', 'corrupted'), 'clients': 4, 'images': 20, 'gap': 0.4}
    text = write([make_run('fedavg', **options), make_run('ditto', personal=True, **options)], out)
    page = Page(text)
    assert not page.open  # every tag is closed
    assert 'http://' not in text
    assert 'https://' not in text
    assert '@import' not in text
    assert not {'script', 'link', 'iframe', 'object'} & {tag for tag, _ in page.tags}
    links = [value for _, own in page.tags for name, value in own.items() if name.endswith(('src', 'href'))]
    assert links and all(link.startswith(('#', 'data:image/png;base64,')) for link in links)
    names = [
        'forest_avg', 'forest_spread', 'forest_site1', 'forest_site2', 'plane', 'clients', 'clients_global',
        'sites', 'classes', 'accuracy', 'loss',
    ]  # fmt: skip
    assert sorted(p.name for p in out.glob('*.png')) == sorted(f'digits_{name}.png' for name in names)
    assert text.count('<svg') == len(names)
    assert {p.name for p in out.glob('table.*')} == {'table.md', 'table.tex', 'table.csv', 'table.json'}


def test_figures_take_their_colours_from_the_page(make_run, tmp_path):
    path = make_run(seeds=1, rounds=1, every=1, clients=4)
    text = write([path], tmp_path / 'out')
    figures = text.split('</style>')[1]
    assert 'var(--ink)' in figures and 'var(--c0)' in figures
    assert '#1f2933' not in figures and '#0072b2' not in figures
    style = text.split('<style>')[1].split('</style>')[0]
    dark = style.split('prefers-color-scheme: dark')[1].split('}')[0]
    assert set(VARIABLES) <= {name for name in _names(style) if f'--{name}:' in dark}


def _names(style):
    return {part.split(':')[0] for part in style.split('--')[1:]}


def test_large_figures_are_pictures(make_run, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, 'LARGEST_SVG', 10)
    text = write([make_run(seeds=1, rounds=1, every=1, clients=4)], tmp_path / 'out')
    assert '<svg' not in text and 'src="data:image/png;base64,' in text
    assert text.count('<div class="plot"><img') == text.count('style="--width:') > 3


def test_figures_keep_a_size_that_can_be_read_and_scroll_in_their_own_box(make_run, tmp_path):
    text = write([make_run(seeds=1, rounds=1, every=1, clients=4)], tmp_path / 'out')
    style, body = text.split('</style>')
    assert body.count('<svg style="--width:') == body.count('<svg') > 3
    screen, paper = style.split('@media print')
    assert 'min-width: calc(.85 * var(--width))' in screen and '.plot { overflow-x: auto; }' in screen
    assert '.plot > * { min-width: 0; }' in paper  # which cannot be scrolled


def test_report_shows_the_table_the_words_the_settings_and_how_to_read(make_run, tmp_path, no_figures):
    paths = [make_run(name, gap=gap, images=20, clients=4) for name, gap in (('fedavg', 0.1), ('afl', 0.05))]
    text = ' '.join(Page(write(paths, tmp_path / 'out')).text)
    (table,) = report.make_tables(report.load_runs(paths))
    for row in table.rows:
        for part in (value_text, interval_text):
            assert part(table.columns[0], row.cells[0]) in text
    for words in ('ddof 1', 'versions.jax', '0.10.2', '0123abc', 'flags.lr', 'fedjax-fair run --recipe=afl'):
        assert words in text
    for words in ('afl: AVG', 'margin 1 point', 'new seeds and new patients', 'undecided'):
        assert words in text
    assert '±' not in text
    for name, format in (('md', report.to_markdown), ('csv', report.to_csv), ('tex', report.to_latex)):
        assert format(table) in (tmp_path / 'out' / f'table.{name}').read_text()


def test_all_text_of_users_is_escaped(make_run, tmp_path):
    evil = '<script>alert("x")</script>&\'"'
    path = make_run(
        evil,
        directory='evil',
        scenario=f'../{evil}',
        groups=(evil, 'b'),
        config_changes={'note': evil, evil: {evil: evil}},
        summary_changes={'failures': {evil: 3}},
    )
    out = tmp_path / 'out'
    page = Page(write([path], out))
    assert 'script' not in {tag for tag, _ in page.tags}
    assert ''.join(page.text).count(evil) >= 8
    assert {p.parent for p in tmp_path.rglob('*.png')} == {out}  # a scenario's name cannot leave the directory


def test_remarks_and_runs_left_out_are_told_in_all_formats(make_run, tmp_path, no_figures):
    path = make_run(summary_changes={'failures': {'dropped': 3, 'non_finite': 0, 'empty_rounds': 1}})
    left_out = [results.LeftOut(tmp_path / 'half', 'the run is not finished')]
    page = report.write_report([path], tmp_path / 'out', left_out).read_text()
    said = '3 times a client dropped out, 1 rounds were empty'
    assert page.index('half is left out: the run is not finished') < page.index('<table') < page.index(said)
    assert 'non-finite' not in page
    assert f'- fedavg: {said}' in (tmp_path / 'out' / 'table.md').read_text()
    clean = write([make_run()], tmp_path / 'clean')
    assert 'Remarks' not in clean and 'left out' not in clean


def test_the_head_of_a_table_says_what_was_run(make_run, tmp_path, no_figures):
    tests = {'names': list('ab'), 'examples': [30, 40], 'patients': None}
    path = make_run(seeds=2, rounds=10, summary_changes={'clients': 20, 'tests': tests}, config_changes={'lr': 0.5})
    lines = ['20 clients; 2 test sets: a (30 examples), b (40 examples)', 'network mlp; 10 rounds; 2 seeds: 0, 1']
    page, table = write([path], tmp_path / 'out'), (tmp_path / 'out' / 'table.md').read_text()
    for line in (*lines, 'data: digits', 'local training: learning rate 0.5'):
        assert page.index(f'>{line}<') < page.index('<table')
        assert table.index(f'- {line}\n') < table.index('| recipe')


@pytest.mark.parametrize(
    'options',
    [{'seeds': 1, 'rounds': 1, 'every': 1, 'clients': 4}, {'groups': (), 'clients': 100, 'seeds': 1}],
)
def test_small_and_ungrouped_runs(make_run, tmp_path, options):
    text = write([make_run(**options)], tmp_path / 'out')
    assert '1 run · 1 scenario · 1 seed' in text
    assert 'no intervals and no verdicts: no predictions' in text


def test_scenarios_have_sections_of_their_own(make_run, tmp_path):
    paths = [make_run('fedavg', scenario='digits'), make_run('fedavg', scenario='two classes', groups=(), seeds=1)]
    text = write(paths, tmp_path / 'out')
    assert text.index('<h2>digits</h2>') < text.index('<h2>two classes</h2>') < text.index('How to read')
    assert (tmp_path / 'out' / 'two_classes_loss.png').exists()
