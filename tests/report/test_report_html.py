"""The HTML report: complete, alone, and safe whatever names hold."""

import html.parser

import pytest

from fedjax_fair import report


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
    names = ('plane', 'accuracy', 'clients_global', 'clients_deployed', 'loss')
    assert sorted(p.name for p in out.glob('*.png')) == sorted(f'digits_{name}.png' for name in names)


def test_report_shows_the_table_the_settings_and_how_to_read(make_run, tmp_path):
    paths = [make_run('fedavg'), make_run('afl', gap=0.05)]
    text = ' '.join(Page(write(paths, tmp_path / 'out')).text)
    table = report.make_table(report.load_runs(paths))
    for row in table.rows:
        assert f'{row.cells[0].mean:.2f} ± {row.cells[0].std:.2f}' in text
    for words in ('ddof 1', 'ddof 0', 'versions.jax', '0.10.2', '0123abc', 'flags.lr', 'fedjax-fair run --recipe=afl'):
        assert words in text
    assert (tmp_path / 'out' / 'table.md').read_text() == report.to_markdown(table)
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


def test_failures_are_told_first(make_run, tmp_path):
    path = make_run(summary_changes={'failures': {'dropped': 3, 'non_finite': 0, 'empty_rounds': 1}})
    text = write([path], tmp_path / 'out')
    assert 'dropped: 3, empty rounds: 1' in text
    assert 'non finite' not in text
    assert text.index('dropped: 3') < text.index('<table>')
    assert 'Failures' not in write([make_run()], tmp_path / 'clean')


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
