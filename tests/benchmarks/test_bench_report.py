"""Statistics, refusals, table and chart of the benchmarks."""

import dataclasses
import json

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from benchmarks.peers import chart, report
from benchmarks.peers.job import Job

JOB = Job('tiny', 'a tiny job, small', clients=3, samples=7, image=(2, 2, 1), classes=3, cohort=2, epochs=3, batch=4)
HOST = {'cores': 2, 'memory_gib': 8.0, 'load': 0.25, 'peak': {'gflops': 0.5, 'library': 'numpy 2'}}
FLOPS = 3 * 2 * (4 * 200 + 200 * 200 + 200 * 3) * 42  # of a round of JOB
INSTEAD = 'after equally many rounds instead of 1.0000'


def side(seconds=(3.0, 1.0, 2.0, 10.0), parameters=5, losses=(2.0, 1.0), **work) -> report.Measurement:
    done = {'examples': JOB.examples_per_round, 'steps': JOB.steps_per_round, 'loss': losses[1]} | work
    facts = {'parameters': parameters, 'how': 'by hand', 'versions': {'python': '3'}}
    cpu = [2 * each for each in seconds]
    return report.Measurement(facts, 4.0, 6.0, seconds, cpu, 1234, {'loss': losses[0]}, done)


@pytest.fixture
def summary():
    sides = {'ours': side(), 'peer': side((5.0, 4.0, 6.0, 5.0))}
    return report.summarise(JOB, HOST, 'ours', sides, {'ghost': 'not installed: no wheel'})


def test_statistics_of_one_side_and_ratios_to_ours(summary):
    ours, peer = summary['sides']['ours'], summary['sides']['peer']
    assert ours['min_seconds'] == 1.0
    assert ours['median_seconds'] == 2.5
    assert ours['cpu_seconds'] == 8.0
    assert ours['start_seconds'] == 4.0 + 6.0 - 2.5
    assert ours['times_ours'] == {'min': 1.0, 'median': 1.0}
    assert peer['times_ours'] == {'min': 4.0, 'median': 2.0}
    assert summary['work_per_round'] == {'examples': 42, 'steps': 12, 'flops': FLOPS}
    assert peer['gflops'] == pytest.approx(FLOPS / 4e9)
    assert peer['share_of_peak'] == pytest.approx(FLOPS / 4e9 / 0.5)


def test_the_table_shows_every_side(summary):
    summary['sides']['ours']['warm_start_seconds'] = 1.25
    text = report.as_markdown(json.loads(json.dumps(summary)))
    assert '| ours | 1.000 | 2.500 | 1.00 | 1.00 | 8.00 | 0.0 | 2.1% | 7.5 (1.2 cached) | 1,234 |' in text
    assert '| peer | 4.000 | 5.000 | 4.00 | 2.00 | 10.00 | 0.0 | 0.5% | 5.0 | 1,234 | 2.000 → 1.000 |' in text
    assert '| ghost | not installed: no wheel |' in text
    assert '4 steady rounds of each side in turn; 2 cores, 8.0 GiB of memory, load 0.2 before the start.' in text
    widths = {line.count('|') for line in text.splitlines() if line.startswith('|') and 'ghost' not in line}
    assert widths == {len(report.COLUMNS) + 1}


@pytest.mark.parametrize(
    'other, message',
    [
        (side(parameters=6), 'it trains another network: 6 parameters instead of 5'),
        (side(examples=41), 'it trained 41 examples in a round instead of 42'),
        (side(steps=11), 'it trained 11 steps in a round instead of 12'),
        (side(losses=(1.0, 1.0)), 'it does not learn: test loss 1.0000, then 1.0000'),
        (side(losses=(2.0, float('nan'))), 'it does not learn: test loss 2.0000, then nan'),
        (
            side(losses=(2.0, 1.3)),
            f'it learns differently: test loss 1.3000 {INSTEAD}',
        ),
        (
            side(losses=(2.0, 0.7)),
            f'it learns differently: test loss 0.7000 {INSTEAD}',
        ),
    ],
)
def test_unequal_work_is_not_compared(other, message):
    close = side(losses=(2.1, 1.1))
    found = report.refusals(JOB, 'ours', {'ours': side(), 'close': close, 'other': other})
    assert found == {'other': f'not comparable: {message}'}


def test_a_job_with_a_steep_loss_tolerates_more():
    steep = dataclasses.replace(JOB, tolerance=0.25)
    sides = {'ours': side(), 'near': side(losses=(2.0, 1.45)), 'far': side(losses=(2.0, 1.55))}
    assert list(report.refusals(steep, 'ours', sides)) == ['far']
    assert list(report.refusals(JOB, 'ours', sides)) == ['near', 'far']


def test_nothing_is_compared_with_ours_where_ours_is_wrong():
    with pytest.raises(ValueError, match='tiny: ours trained 41 examples in a round instead of 42'):
        report.refusals(JOB, 'ours', {'ours': side(examples=41), 'peer': side()})


def test_the_chart_has_a_panel_per_job_and_shows_ours_apart(summary, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Figure, 'savefig', lambda self, path, **options: drawn.append(self))
    chart.draw([summary, summary], 'ours', tmp_path / 'peers.png')
    (figure,) = drawn
    assert len(figure.axes) == 2
    for panel in figure.axes:
        assert [label.get_text() for label in panel.get_yticklabels()] == ['ours', 'peer']
        assert [bar.get_width() for bar in panel.patches] == [1.0, 4.0]
        ours, peer = (to_hex(bar.get_facecolor()) for bar in panel.patches)
        assert ours != peer
        assert 'tiny: a tiny job' in panel.get_title()
        assert 'lower is better' in panel.get_xlabel()
