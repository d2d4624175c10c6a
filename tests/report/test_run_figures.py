"""Figures show the numbers of the runs, for every shape of run."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.colors import to_hex

from fedjax_fair import report, results
from fedjax_fair.report.pictures import drawn
from fedjax_fair.results.findings import findings, global_levels
from fedjax_fair.results.prediction_file import write_predictions
from fedjax_fair.results.recalls import class_recalls
from fedjax_fair.results.report_files import FIGURES
from fedjax_fair.viz import fairness, figures, heatmaps, save, style


def load(*paths):
    return report.load_runs(paths)


def legend(figure):
    return [text.get_text() for found in figure.legends for text in found.get_texts()]


def test_all_figures_are_named_in_the_closed_list(make_run):
    """`overwrite` deletes these names alone."""
    options = {'groups': ('north', 'south', 'west'), 'clients': 6, 'images': 40, 'personal': True}
    names = [name for name, _, _ in drawn(findings(load(*(make_run(name, **options) for name in ('one', 'two')))))]
    assert {'forest_spread', 'forest_site3', 'clients_global'} <= set(names) <= set(FIGURES)


def test_accuracy_has_a_panel_per_domain_and_a_line_per_run(make_run):
    runs = load(make_run('fedavg'), make_run('afl', gap=0.05))
    figure = report.accuracy_over_rounds(runs)
    assert [ax.get_title(loc='left') for ax in figure.axes] == [
        'Average of groups',
        'photo',
        'sketch',
        'cartoon',
        'art',
    ]
    assert legend(figure) == ['fedavg', 'afl']
    expected = results.curve(runs[1].history, lambda line: line['global']['group_accuracy'][2])
    line = figure.axes[3].lines[1]
    np.testing.assert_array_equal(line.get_xdata(), expected.rounds)
    np.testing.assert_allclose(line.get_ydata(), 100 * expected.mean)
    band = figure.axes[3].collections[1].get_paths()[0].vertices[:, 1]
    half = 4.302653 * expected.std / np.sqrt(2)  # the t of three seeds, and sd / sqrt(3) from the population's
    np.testing.assert_allclose(band.max(), 100 * (expected.mean + half).max(), rtol=1e-6)


def test_two_seeds_are_drawn_instead_of_a_band(make_run):
    runs = load(make_run(seeds=2, rounds=10, every=5))
    figure = report.accuracy_over_rounds(runs)
    assert not figure.axes[0].collections and len(figure.axes[0].lines) == 3
    assert figures.band_words(runs) == figures.SEED_LINES and figures.band_words(load(make_run(seeds=1))) == ''


def test_accuracy_without_groups_shows_the_mean_and_the_worst_clients(make_run):
    figure = report.accuracy_over_rounds(load(make_run(groups=(), clients=100, seeds=1)))
    assert [ax.get_title(loc='left') for ax in figure.axes] == ['Mean over clients', 'Worst 10 % of clients']
    assert not figure.axes[0].collections  # one seed has no band


def test_distribution_has_a_dot_per_client_coloured_by_group(make_run):
    (run,) = load(make_run(clients=8, seeds=2))
    figure = report.client_distribution([run])
    (dots,) = figure.axes[0].collections
    np.testing.assert_allclose(dots.get_offsets()[:, 0], 100 * np.array(run.result()['client_accuracy']['mean']))
    assert len(np.unique(dots.get_facecolors(), axis=0)) == 4
    assert legend(figure) == ['photo', 'sketch', 'cartoon', 'art']


def test_distribution_shows_runs_that_have_the_kind(make_run):
    runs = load(make_run('fedavg'), make_run('ditto', personal=True))
    figure = report.client_distribution(runs, 'deployed')
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ['ditto']


def test_bars_of_clients_are_those_of_their_run(make_run):
    """Also where somebody gave two runs the same label."""
    options = {'clients': 8, 'images': 20}
    runs = [
        dataclasses.replace(run, label='same')
        for run in load(make_run('one', **options), make_run('two', level=0.6, **options))
    ]
    found = findings(runs)
    errors = 100 * np.sqrt(found.comparison.clients.sample.variances.mean(1))
    assert not np.allclose(*errors)
    for run, own in zip(runs, errors, strict=True):
        np.testing.assert_allclose(fairness.client_errors(found, run, 8), own)


def test_bars_of_clients_are_the_errors_of_their_tests(make_run):
    runs = load(make_run('one', clients=8, images=20), make_run('two', clients=8, images=20))
    found = findings(runs)
    figure = report.client_distribution(runs, found=found)
    bars = figure.axes[0].collections[0].get_segments()
    errors = 100 * np.sqrt(found.comparison.clients.sample.variances[0].mean(0))
    np.testing.assert_allclose([bar[1, 0] - bar[0, 0] for bar in bars], 2 * errors)


def test_plane_places_runs_and_joins_the_unbeaten(make_run):
    runs = load(
        make_run('beaten', level=0.7, gap=0.12), make_run('accurate', level=0.95, gap=0.08), make_run('fair', gap=0.01)
    )
    figure = report.fairness_plane(runs)
    points = [(100 * run.result()['worst']['mean'], 100 * run.result()['avg']['mean']) for run in runs]
    drawn = [tuple(line.get_xydata()[0]) for line in figure.axes[0].lines if line.get_marker() in style.MARKERS]
    np.testing.assert_allclose(drawn, points)
    (front,) = [line.get_xydata() for line in figure.axes[0].lines if line.get_linestyle() == ':']
    unbeaten = [p for p in points if not any(q[0] > p[0] and q[1] > p[1] for q in points)]
    np.testing.assert_allclose(front, sorted(unbeaten))
    assert legend(figure) == ['beaten', 'accurate', 'fair']


def test_plane_has_ellipses_and_chances_where_runs_kept_predictions(make_run):
    options = {'clients': 8, 'images': 20, 'seeds': 4}
    runs = load(make_run('poor', level=0.5, **options), make_run('good', level=0.9, **options))
    figure = report.fairness_plane(runs)
    poor, good = [patch.get_xy() for patch in figure.axes[0].patches]
    assert (good.max(0) > poor.max(0)).all()
    assert legend(figure) == ['poor (front 0 %)', 'good (front 100 %)']
    centre = [100 * findings(runs).comparison.analysis.outcomes[name].values[1].mean() for name in ('worst', 'avg')]
    np.testing.assert_allclose((good.max(0) + good.min(0)) / 2, centre, rtol=1e-3)


def test_models_that_did_not_learn_are_on_no_front(make_run):
    options = {'clients': 8, 'images': 20, 'seeds': 4, 'summary_changes': {'chance': {'global': 0.4, 'own': 0.4}}}
    good, uneven = make_run('good', gap=0.05, **options), make_run('uneven', level=0.85, gap=0.2, **options)
    runs = load(good, uneven, make_run('even', level=0.35, gap=0.0, **options))
    worst = {run.label: run.result()['worst']['mean'] for run in runs}
    assert worst['even'] > worst['uneven']
    figure = report.fairness_plane([runs[1], runs[2]])
    assert legend(figure) == ['uneven', 'even (did not learn)']
    assert not [line for line in figure.axes[0].lines if line.get_linestyle() == ':']
    good, uneven, even = legend(report.fairness_plane(runs))
    assert good.startswith('good (front ') and uneven.startswith('uneven (front ') and even == 'even (did not learn)'


def test_forest_shows_differences_intervals_and_verdicts(make_run):
    options = {'clients': 8, 'images': 40, 'seeds': 4}
    runs = load(make_run('base', level=0.9, **options), make_run('poor', level=0.6, **options))
    found = findings(runs)
    figure = report.forest(found, 'avg')
    one = found.measures['avg'].differences[1]
    thin, thick, point = figure.axes[0].lines[1:]
    np.testing.assert_allclose(thin.get_xdata(), [one.lo, one.hi])
    np.testing.assert_allclose(thick.get_xdata(), [one.lo90, one.hi90])
    assert point.get_xdata()[0] == one.estimate and legend(figure) == ['worse']
    seeds, patients = [bar.get_width() for bar in figure.axes[1].patches]
    assert seeds == pytest.approx(one.a / (one.a + one.kappa)) and seeds + patients == pytest.approx(1)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ['poor']


def test_forest_calls_equal_models_and_sites_with_few_patients_by_their_names(make_run):
    options = {'clients': 4, 'images': 12, 'seeds': 3}
    runs = load(*(make_run('base', directory=f'base{k}', **options) for k in range(2)), make_run('other', **options))
    found = findings(runs)
    assert legend(report.forest(found, 'avg'))[0] == 'no difference above the margin'
    assert legend(report.forest(found, found.units[0].key)) == ['too few patients']


def test_heat_maps_show_scores_by_site_and_recalls_by_class(make_run):
    runs = load(make_run('one', clients=4, images=30, seeds=2), make_run('old', clients=4))
    found = findings(runs)
    shown = [text.get_text() for text in heatmaps.site_map(found).axes[0].texts]
    assert shown[:4] == [f'{site.levels[0].estimate:.1f}' for site in found.units]
    recalls = class_recalls(runs)
    kept = results.predictions(runs[0].path)
    wanted = [100 * (kept.prediction == kept.label)[..., kept.label == k].mean() for k in range(3)]
    np.testing.assert_allclose(recalls[0], wanted)
    assert np.isnan(recalls[1]).all() and class_recalls(runs[1:]) is None
    heatmaps.heat_map(['one', 'old'], ['a', 'b', 'c'], recalls)  # missing numbers stay empty
    many = load(make_run(groups=tuple(f'site{i}' for i in range(41)), clients=41, gap=0.001, seeds=1))
    assert heatmaps.site_map(findings(many)) is None


def test_heat_maps_name_classes_as_the_source_does(make_run):
    options = {'images': 8, 'seeds': 2}
    (run,) = load(make_run('named', **options))
    count = class_recalls([run]).shape[1]
    names = [f'kind {k}' for k in range(count)]
    (named,) = load(make_run('other', summary_changes={'class_names': names}, **options))
    figures_of = {name: figure for name, _, figure in drawn(findings([named]))}
    assert [text.get_text() for text in figures_of['classes'].axes[0].get_xticklabels()] == names


def test_panels_have_room_for_every_group_and_none_beyond_what_is_possible(make_run):
    runs = load(make_run('fedavg', gap=0.25, level=0.99, summary_changes={'chance': {'global': 0.6, 'own': 0.6}}))
    figure = report.accuracy_over_rounds(runs)
    drawn = np.concatenate([ax.lines[0].get_ydata() for ax in figure.axes])
    low, high = figure.axes[0].get_ylim()
    assert -2 < low < drawn.min() and drawn.max() < high < 102
    (ax,) = report.fairness_plane(load(make_run('a', images=2, clients=4), make_run('b', images=2, clients=4))).axes
    assert min(*ax.get_xlim(), *ax.get_ylim()) > -2 and max(*ax.get_xlim(), *ax.get_ylim()) < 102


def test_the_chance_line_is_drawn_and_told_where_it_lies_outside(make_run):
    runs = load(make_run('fedavg', summary_changes={'chance': {'global': 0.6, 'own': 0.6}}))
    (_, line) = report.accuracy_over_rounds(runs).axes[0].lines
    assert list(line.get_ydata()) == [60, 60]
    runs = load(make_run('afl', summary_changes={'chance': {'global': 0.01, 'own': 0.01}}), make_run('other'))
    (ax,) = report.fairness_plane(runs).axes
    assert 'chance 1.0 % lies outside' in [text.get_text() for text in ax.texts]


@pytest.fixture
def mixed(make_run):
    """A recipe with a global model and one with models of clients' own, whose chance levels differ."""
    options = {'summary_changes': {'chance': {'global': 0.5, 'own': 0.6}}, 'clients': 8, 'images': 20}
    return load(make_run('fedavg', **options), make_run('ditto', personal=True, **options))


def chance_marks(figure):
    (ax, *_), names = figure.axes, [text for text in legend(figure) if text.startswith('chance')]
    lines = [line for line in ax.lines if line.get_color() == style.FAINT and len(line.get_xdata()) == 2]
    return sorted(level for line in lines for level in {*line.get_xdata(), *line.get_ydata()} - {0, 1}), names


def test_chance_is_that_of_the_models_that_a_figure_shows(mixed):
    both = ['chance, global model 50.0 %', 'chance, own models 60.0 %']
    for figure in (report.client_distribution(mixed), report.accuracy_over_rounds(mixed)):
        levels, names = chance_marks(figure)
        assert names == both and {50, 60} <= set(levels)
        assert not [text for text in figure.axes[0].texts if 'chance' in text.get_text()]
    for kind, told in (('global', 'chance 50.0 %'), ('deployed', 'chance 60.0 %')):
        figure = report.client_distribution(mixed, kind)
        assert [text.get_text() for text in figure.axes[0].texts] == [told] and chance_marks(figure)[1] == []


def test_the_global_model_of_a_personal_recipe_is_shown_beside_it(mixed):
    levels = global_levels(mixed[1])
    figure = report.fairness_plane(mixed)
    (hollow,) = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == 'none']
    assert hollow.get_xydata().tolist() == [[levels['worst'].estimate, levels['avg'].estimate]]
    assert hollow.get_color() == style.colour(1) and fairness.GLOBAL_MODEL in legend(figure)
    figure = report.accuracy_over_rounds(mixed)
    (thin,) = [line for line in figure.axes[0].lines if line.get_linestyle() == ':']
    curve = results.curve(mixed[1].history, lambda line: line['global']['avg'])
    np.testing.assert_allclose(thin.get_ydata(), 100 * curve.mean)
    assert thin.get_color() == style.colour(1) and figures.GLOBAL_MODEL in legend(figure)
    assert fairness.GLOBAL_MODEL not in legend(report.fairness_plane(mixed[:1]))


def test_the_plane_says_that_worst_is_raw(make_run):
    (ax,) = report.fairness_plane(load(make_run(clients=8, images=20))).axes
    assert ax.get_xlabel().startswith('raw worst group')


def test_no_axis_has_ticks_beyond_what_is_possible(make_run):
    runs = load(*(make_run(name, level=1, gap=0.01, images=20, clients=8) for name in ('a', 'b')))
    shown = {'x': report.client_distribution, 'xy': report.fairness_plane, 'y': report.accuracy_over_rounds}
    for names, figure in ((names, draw(runs)) for names, draw in shown.items()):
        for axis in (getattr(figure.axes[0], f'{name}axis') for name in names):
            assert min(axis.get_ticklocs()) >= 0 and max(axis.get_ticklocs()) <= 100
            assert max(axis.get_view_interval()) <= 100 + style.EDGE


def test_clients_without_a_judgement_are_grey_and_said_to_be_left_out(make_run):
    path = make_run(groups=(), clients=4, images=8)
    kept = results.predictions(path)
    write_predictions(path, dataclasses.replace(kept, cluster=np.where(kept.set == 3, 999, kept.cluster)))
    runs = load(path)
    found = findings(runs)
    assert list(found.comparison.clients.sample.left_out) == ['site 3']
    figure = report.client_distribution(runs, found=found)
    dots = figure.axes[0].collections[-1]
    grey = [to_hex(colour).lower() == style.FAINT for colour in dots.get_facecolors()]
    assert grey == [False, False, False, True] and legend(figure) == [fairness.LEFT_OUT]
    assert legend(report.client_distribution(runs)) == []  # nobody asked for statistics


def test_clients_with_one_model_and_one_test_set_are_all_judged(make_run):
    path = make_run(groups=(), clients=4, images=8)
    kept = results.predictions(path)
    write_predictions(path, dataclasses.replace(kept, test_of=np.zeros(4, int)))
    runs = load(path)
    found = findings(runs)
    assert found.comparison.clients.sample.names == ('everybody',)
    errors = fairness.client_errors(found, runs[0], 4)
    assert fairness.judged_clients(found, runs[0], 4).all() and len(set(errors)) == 1 and errors[0] > 0


def test_equal_numbers_have_a_colour_bar_of_a_point(make_run):
    for value in (0.0, 37.5, 100.0):
        figure = heatmaps.heat_map(['one'], ['a', 'b'], np.full((1, 2), value))
        low, high = figure.axes[0].collections[0].get_clim()
        assert high - low == 1 and 0 <= low <= value <= high <= 100


def test_loss_axis_is_logarithmic_over_decades(make_run):
    run = load(make_run(seeds=1))[0]
    assert report.training_loss([run]).axes[0].get_yscale() == 'linear'
    for line in run.history:
        line['train_loss'] = 10.0 ** (-line['round'] / 10)
    figure = report.training_loss([run])
    (ax,) = figure.axes
    assert ax.get_yscale() == 'log'
    figure.canvas.draw()
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels and all(float(label.replace('\N{MINUS SIGN}', '-')) > 0 for label in labels), (
        'numbers, no mathematics'
    )


@pytest.mark.parametrize(
    'options',
    [
        {'seeds': 1, 'rounds': 1, 'every': 1, 'clients': 4},
        {'groups': ('only',), 'clients': 1, 'seeds': 2},
        {'groups': (), 'clients': 100, 'seeds': 1},
        {'groups': tuple(f'site{i}' for i in range(20)), 'clients': 20, 'gap': 0.01},
        {'recipe': 'costs $5 and $6_x'},
    ],
)
def test_every_shape_of_run_is_drawn(make_run, tmp_path, options):
    runs = load(make_run(**options))
    drawings = (report.accuracy_over_rounds, report.client_distribution, report.fairness_plane, report.training_loss)
    for draw in drawings:
        path = save(draw(runs), tmp_path / f'{draw.__name__}.png')
        assert path.read_bytes().startswith(b'\x89PNG')


def test_undefined_losses_do_not_stop_a_figure(make_run, tmp_path):
    (run,) = load(make_run(seeds=1))
    for line in run.history:
        line['train_loss'] = None
    save(report.training_loss([run]), tmp_path / 'loss.png')
    assert (tmp_path / 'loss.png').read_bytes().startswith(b'\x89PNG')


def test_many_runs_keep_distinct_lines():
    looks = {(style.colour(place), style.dash(place)) for place in range(28)}
    assert len(looks) == 28


@pytest.mark.parametrize('package', ['training', 'data', 'report', 'results', 'viz', 'viz.figures', 'viz.overlays'])
def test_matplotlib_waits_until_something_is_drawn(package):
    code = f"import fedjax_fair.{package}, sys; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, '-c', code], timeout=120).returncode == 0
