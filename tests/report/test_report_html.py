"""The HTML report: complete, alone, and safe whatever names hold."""

import html.parser

import pytest

from fedjax_fair import report, results


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

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def write(paths, out):
    return report.write_report(paths, out).read_text()


def test_report_stands_alone(make_run, tmp_path):
    out = tmp_path / 'made' / 'report'
    text = write([make_run('fedavg'), make_run('ditto', personal=True)], out)
    page = Page(text)
    assert not page.open  # every tag is closed
    assert 'http://' not in text
    assert 'https://' not in text
    assert '@import' not in text
    assert not {'script', 'link', 'iframe', 'object'} & {tag for tag, _ in page.tags}
    links = [value for _, attributes in page.tags for name, value in attributes.items() if name in ('src', 'href')]
    assert len(links) == 5
    assert all(link.startswith('data:image/png;base64,') for link in links)
    names = ('plane', 'accuracy', 'clients', 'clients_global', 'loss')
    assert sorted(p.name for p in out.glob('*.png')) == sorted(f'digits_{name}.png' for name in names)


def test_report_shows_the_table_the_settings_and_how_to_read(make_run, tmp_path):
    paths = [make_run('fedavg'), make_run('afl', gap=0.05)]
    text = ' '.join(Page(write(paths, tmp_path / 'out')).text)
    table = report.make_table(report.load_runs(paths))
    for row in table.rows:
        assert f'{row.cells[0].mean:.2f} ± {row.cells[0].std:.2f}' in text
    for words in ('ddof 1', 'ddof 0', 'versions.jax', '0.10.2', '0123abc', 'flags.lr', 'fedjax-fair run --recipe=afl'):
        assert words in text
    assert report.to_markdown(table) in (tmp_path / 'out' / 'table.md').read_text()
    assert (tmp_path / 'out' / 'table.csv').read_text() == report.to_csv(table)


def test_all_text_of_users_is_escaped(make_run, tmp_path):
    evil = '<script>alert("x")</script>&\'"'
    path = make_run(
        evil,
        directory='evil',
        scenario=f'../{evil}',
        groups=(evil, 'b'),
        config_changes={'note': evil, evil: {evil: evil}},
        summary_changes={'failures': {evil: evil}},
    )
    out = tmp_path / 'out'
    page = Page(write([path], out))
    assert 'script' not in {tag for tag, _ in page.tags}
    assert ''.join(page.text).count(evil) >= 8
    assert {p.parent for p in tmp_path.rglob('*.png')} == {out}  # a scenario's name cannot leave the directory


def test_remarks_and_runs_left_out_are_told_in_all_dresses(make_run, tmp_path):
    path = make_run(summary_changes={'failures': {'dropped': 3, 'non_finite': 0, 'empty_rounds': 1}})
    left_out = [results.LeftOut(tmp_path / 'half', 'the run is not finished')]
    page = report.write_report([path], tmp_path / 'out', left_out).read_text()
    said = '3 times a client dropped out, 1 rounds were empty'
    assert page.index('half is left out: the run is not finished') < page.index('<table>') < page.index(said)
    assert 'non-finite' not in page
    assert f'- fedavg: {said}' in (tmp_path / 'out' / 'table.md').read_text()
    clean = write([make_run()], tmp_path / 'clean')
    assert 'Remarks' not in clean and 'left out' not in clean


def test_the_head_of_a_table_says_what_was_run(make_run, tmp_path):
    tests = {'names': list('ab'), 'examples': [30, 40], 'patients': None}
    path = make_run(seeds=2, rounds=10, summary_changes={'clients': 20, 'tests': tests}, config_changes={'lr': 0.5})
    lines = ['20 clients; 2 test sets: a (30 examples), b (40 examples)', 'network mlp; 10 rounds; 2 seeds: 0, 1']
    page, table = write([path], tmp_path / 'out'), (tmp_path / 'out' / 'table.md').read_text()
    for line in (*lines, 'data: digits', 'local training: learning rate 0.5'):
        assert page.index(f'>{line}<') < page.index('<table>')
        assert table.index(f'- {line}\n') < table.index('| recipe')


@pytest.mark.parametrize(
    'options',
    [{'seeds': 1, 'rounds': 1, 'every': 1, 'clients': 4}, {'groups': (), 'clients': 100, 'seeds': 1}],
)
def test_small_and_ungrouped_runs(make_run, tmp_path, options):
    text = write([make_run(**options)], tmp_path / 'out')
    assert '1 run · 1 scenario · 1 seed' in text
    assert '±' not in text.split('How to read')[0].split('</style>')[1]


def test_scenarios_have_sections_of_their_own(make_run, tmp_path):
    paths = [make_run('fedavg', scenario='digits'), make_run('fedavg', scenario='two classes', groups=(), seeds=1)]
    text = write(paths, tmp_path / 'out')
    assert text.index('<h2>digits</h2>') < text.index('<h2>two classes</h2>') < text.index('How to read')
    assert (tmp_path / 'out' / 'two_classes_plane.png').exists()
