"""Verdicts in words, on made-up differences and on whole runs."""

import dataclasses
import json

import pytest

import fedjax_fair
from fedjax_fair import report
from fedjax_fair.errors import UserError
from fedjax_fair.report import verdict_words as words
from fedjax_fair.results.differing_settings import WITHOUT_EFFECT
from fedjax_fair.results.findings import Findings
from fedjax_fair.results.measures import NO_SPREAD, ONE_SEED, TOO_FEW, Difference, Measure
from fedjax_fair.results.runs import Run
from fedjax_fair.training.config import Config

NO_DIFFERENCE = 'no difference larger than delta'


def difference(estimate=1.2, verdict='better', half=0.9, **changes):
    values = dict.fromkeys(Difference._fields, None) | {
        'estimate': estimate, 'lo': estimate - half, 'hi': estimate + half, 'verdict': verdict, 'a': 1.0, 'kappa': 1.0
    }  # fmt: skip
    return Difference(**values | changes)


@dataclasses.dataclass(frozen=True)
class Compared:
    """As much of a comparison as words are about."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    patients: int = 160
    patients_known: bool = True
    notes: tuple[str, ...] = ()
    runs: tuple[str, ...] = ('fedavg', 'fedism', 'qffl')


def found(avg, spread=None, groups=None, reasons=('', ''), **changes):
    """A baseline, fedavg, and fedism, with these differences."""
    names = list(groups or {})
    summary = {'scenario': 'scans', 'groups': names, 'chance': None, 'headline': 'global', 'rounds_reported': [[5]]}
    runs = tuple(Run(None, {}, [], summary, label) for label in ('fedavg', 'fedism'))
    given = {'avg': ('AVG', avg), 'spread': ('spread', spread)}
    given |= {f'site:{name}': (name, one) for name, one in (groups or {}).items()}
    measures = {
        key: Measure(key, name, '', True, (None, None), (None, one), (None, None))
        for key, (name, one) in given.items()
        if one is not None
    }
    compared = changes.pop('comparison', Compared())
    return Findings(runs, 0, 1.0, compared, (0, 1), tuple(reasons), measures)


def line(*args, **changes):
    return words.sentences(found(*args, **changes))[0]


def test_a_line_has_average_and_spread():
    assert line(difference(1.2), difference(-2.1, 'better', 1.8)) == (
        'fedism: AVG +1.2 points over fedavg (95 % interval 0.3 to 2.1): better; '
        'spread -2.1 (-3.9 to -0.3): fairer at no cost'
    )


def test_few_groups_are_named_the_one_that_gains_most_first():
    groups = {'clean': difference(-3.2, 'worse', 1.8), 'corrupted': difference(8.1, 'better', 2.9)}
    told = line(difference(-2.5, 'worse', 1.0), difference(-5.0, 'better'), groups)
    assert told == (
        'fedism: corrupted +8.1 points over fedavg (95 % interval 5.2 to 11.0), clean -3.2 (-5.0 to -1.4): '
        'fairer, at a cost'
    )
    few = {name: one._replace(verdict=TOO_FEW) for name, one in groups.items()}
    assert line(difference(), difference(), few).startswith('fedism: AVG +1.2')
    many = {str(k): difference() for k in range(4)}
    assert line(difference(), difference(), many).startswith('fedism: AVG +1.2')


@pytest.mark.parametrize(
    'avg,spread,told',
    [
        (difference(0.2, NO_DIFFERENCE, 0.5), difference(-2, 'better'), 'fairer at no cost'),
        (difference(2.0, 'better', 0.5), difference(-2, 'better'), 'better on average and fairer'),
        (difference(-2.0, 'worse', 0.5), difference(-2, 'better'), 'fairer, at a cost'),
        (difference(-0.5, 'worse, by less than delta', 0.2), difference(-2, 'better'), 'fairer at no cost'),
        (difference(-1.0, 'undecided', 2.0), difference(-2, 'better'), 'fairer; whether at a cost is undecided'),
        (
            difference(0.2, NO_DIFFERENCE, 0.5),
            difference(-0.4, 'better, by less than delta'),
            'fairer (by less than 1 point) at no cost',
        ),
        (difference(2.0, 'better'), difference(3, 'worse'), 'better on average; less fair'),
        (difference(-2.0, 'worse'), difference(3, 'worse'), 'worse on average; less fair'),
        (difference(2.0, 'better'), difference(0, NO_SPREAD), f'better on average; {NO_SPREAD}'),
        (difference(2.0, 'better'), difference(1, 'undecided'), 'better on average; spread undecided'),
        (
            difference(0, NO_DIFFERENCE),
            difference(1, 'undecided'),
            'AVG no difference larger than 1 point; spread undecided',
        ),
        (difference(0, NO_DIFFERENCE), difference(0, NO_DIFFERENCE), 'no difference larger than 1 point'),
        (difference(0, 'undecided'), difference(0, 'undecided'), 'undecided'),
        (difference(2.0, 'better'), None, 'better on average'),
        (difference(0.0, 'undecided'), None, 'undecided'),
    ],
)
def test_conclusions(avg, spread, told):
    assert words.conclusion(avg, spread, 1.0) == told


@pytest.mark.parametrize(
    'need,cell,advice',
    [
        ({'seeds_needed': 12}, 'undecided, ~12 seeds', 'about 12 seeds would decide a difference of 1 point'),
        (
            {'patients_needed': 3.01},
            'undecided, ~3.1x patients',
            'no number of seeds decides 1 point; about 3.1 times as many test patients would',
        ),
        ({'patients_needed': 12.2}, 'undecided, ~13x patients', 'about 13 times as many test patients would'),
        ({'patients_needed': 0.9}, 'undecided', 'more than 1000 seeds would be needed to decide 1 point'),
        ({'seeds_needed': 4}, 'undecided', '5 seeds are enough to find 1 point in most cases'),
    ],
)
def test_undecided_says_what_would_decide(need, cell, advice):
    one = difference(0.4, 'undecided', **need)
    assert words.short_word(one, 1.0, 5) == cell
    assert advice in line(one, None)


def test_what_is_missing_is_named():
    assert line(None, reasons=('', 'no predictions'), comparison=None) == 'fedism: undecided (no predictions)'
    assert line(None, reasons=('no predictions', ''), comparison=None) == 'fedism: undecided (no predictions)'
    told = line(difference(verdict=ONE_SEED), comparison=Compared(seeds=(0,)))
    assert told.endswith('for these two models; one seed says nothing about the methods')
    assert line(difference(0, 'identical predictions', 0), None) == 'fedism: identical predictions to fedavg'


def test_the_foot_says_what_intervals_cover():
    told = words.foot(found(difference()))
    assert told == (
        '95 % intervals: new seeds and new patients of the same test sets; 5 seeds, 160 patients; '
        'Holm over 2 comparisons with fedavg; margin 1 point'
    )
    unknown = words.foot(found(difference(), comparison=Compared(patients_known=False)))
    assert '160 test examples (patients unknown)' in unknown
    assert 'seed sd' in words.foot(found(None, reasons=('no predictions', ''), comparison=None))


# --- verdicts on two runs --------------------------------------------------------------------------------------------


@pytest.fixture
def pair(make_run):
    options = {'seeds': 4, 'images': 40, 'clients': 8}
    return make_run('good', level=0.9, gap=0.02, **options), make_run('poor', level=0.8, gap=0.15, **options)


def test_a_verdict_has_text_and_numbers(pair):
    found = fedjax_fair.verdict(*pair)
    assert found.decided and found.conclusion.startswith('better on average')
    assert found.avg.verdict == 'better' and found.avg.lo > 0
    assert found.text.startswith(f'good: AVG {words.signed(found.avg.estimate)} points over poor')
    assert 'The chance that one run of good has a higher AVG than one run of poor: about 99 %.' in found.text
    record = json.loads(found.to_json())
    assert record['baseline'] == 'poor' and record['text'] == found.text
    assert record['recipes'][0]['statistics']['avg']['difference']['verdict'] == 'better'


def test_a_verdict_turns_round_with_its_runs(pair):
    one, other = fedjax_fair.verdict(*pair), fedjax_fair.verdict(*(report.load_runs([path])[0] for path in pair[::-1]))
    assert (one.avg.estimate, one.avg.lo) == pytest.approx((-other.avg.estimate, -other.avg.hi))
    assert other.avg.verdict == 'worse' and one.avg.p == pytest.approx(other.avg.p)


def test_a_verdict_without_predictions_is_undecided(make_run):
    found = fedjax_fair.verdict(make_run('one'), make_run('two'))
    assert not found.decided and found.avg is None and found.text.startswith('one: undecided (no predictions)')


def test_one_seed_of_equal_models_is_called_identical(make_run):
    options = {'seeds': 1, 'images': 20, 'clients': 4, 'level': 0.7}
    found = fedjax_fair.verdict(*(make_run('fedavg', directory=name, **options) for name in ('one', 'two')))
    assert found.text.startswith('fedavg (one): identical predictions to fedavg (two). 95 % intervals: new patients')


def test_names_of_recipes_keep_their_small_letters_in_a_paragraph(make_run):
    options = {'seeds': 2, 'images': 20, 'clients': 4}
    text = fedjax_fair.verdict(make_run('fedavg', **options), make_run('ditto', personal=True, **options)).text
    assert ' 50. fedavg: numbers of the global model; ditto: ' in text


def settings_of(found):
    return json.loads(found.to_json())['settings']


def test_a_verdict_names_the_settings_that_differ_beside_the_recipe(make_run):
    options = {'seeds': 2, 'images': 20, 'clients': 4}
    one = {'lr': 0.1, 'local_epochs': 2, 'data': {'alpha': 0.1}, 'hyper': {'a.x': 1}, 'chunk': 3, 'norm': None}
    two = {'lr': 0.01, 'local_epochs': 2, 'data': {}, 'hyper': {'b.x': 2}, 'chunk': 4, 'norm': 'batch', 'new': 1}
    pair = [make_run(name, config_changes=own, **options) for name, own in (('a', one), ('b', two))]
    found = fedjax_fair.verdict(*pair)
    assert (
        'a and b differ in more than the recipe: lr (0.1, 0.01), alpha (0.1, default), norm (none, batch).'
        in found.text
    )
    assert settings_of(found) == {'lr': [0.1, 0.01], 'alpha': [0.1, 'default'], 'norm': [None, 'batch']}
    same = [
        make_run('fedprox', directory=name, config_changes={'hyper': {'fedprox.mu': mu}}, **options)
        for name, mu in (('low', 0.1), ('high', 1.0))
    ]
    found = fedjax_fair.verdict(*same)
    assert 'fedprox (low) and fedprox (high) differ: fedprox.mu (0.1, 1).' in found.text
    plain = fedjax_fair.verdict(make_run('a', **options), make_run('b', **options))
    assert 'a and b differ' not in plain.text and settings_of(plain) == {}


def test_what_is_computed_otherwise_is_no_other_setting():
    compute = {name for name, one in Config.__dataclass_fields__.items() if one.metadata['group'] == 'compute'}
    assert compute - {'precision'} <= set(WITHOUT_EFFECT) <= set(Config.__dataclass_fields__)


def test_a_verdict_has_the_remarks_on_both_runs(make_run):
    problem = 'PROBLEM: 2 patients are both trained on and tested'
    idle = {'part': 'fedbn', 'subject': 'fedbn', 'reason': 'no batch norm', 'same_as': 'fedavg'}
    options = {'seeds': 2, 'images': 20, 'clients': 4}
    chance = {'chance': {'global': 0.99, 'own': 0.99}}
    pair = [
        make_run('fedbn', summary_changes={'problems': [problem], 'remarks': [idle]}, **options),
        make_run('fedavg', summary_changes=chance, **options),
    ]
    (pair[0] / 'metrics.jsonl').write_text((pair[1] / 'metrics.jsonl').read_text())
    found = fedjax_fair.verdict(*pair)
    told = json.loads(found.to_json())['remarks']
    assert told == report.remarks_of(found.found.runs) and len(told) == 4
    assert told[0] == problem and told[2].startswith('fedavg did not learn') and 'fedbn is identical to' in told[3]
    assert all(f' {line}.' in found.text for line in told)


def test_folders_that_are_joined_as_seeds_are_named(make_run, pair):
    more = make_run('good', level=0.9, gap=0.02, seeds=2, first_seed=4, images=40, clients=8)
    found = report.verdict_of(report.load_runs([pair[0], more, make_run('other', images=40, clients=8, seeds=6)]))
    told = f'good: seeds 0, 1, 2, 3, 4, 5 are joined from {pair[0]}, {more}'
    assert f' {told}.' in found.text and told in json.loads(found.to_json())['notes']
    assert 'joined' not in fedjax_fair.verdict(*pair).text


def test_a_verdict_refuses_what_it_cannot_compare(pair, make_run):
    with pytest.raises(UserError, match='needs one scenario, got digits and other'):
        fedjax_fair.verdict(pair[0], make_run('two', scenario='other'))
    with pytest.raises(UserError, match='margin=0 must be above 0'):
        fedjax_fair.verdict(*pair, margin=0)
    with pytest.raises(UserError, match=r'two runs, got 1 \(good\)'):
        report.verdict_of(report.load_runs(pair[:1]))
