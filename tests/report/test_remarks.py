"""Sentences below a table: each is said where it is true, and sound runs get none."""

import json

import numpy as np
import pytest

from fedjax_fair import report, results
from fedjax_fair.metrics import summarise
from fedjax_fair.report.training_remarks import losses_without_gain, overfits, scores_stand_still

REMARK = {'part': 'fedbn', 'subject': 'fedbn', 'reason': 'no batch norm', 'same_as': 'fedavg'}


def loaded(*paths):
    return results.load_runs(paths)


def remarks(*paths):
    return report.remarks_of(loaded(*paths))


def with_losses(path, train, test, scores=None):
    """Give a run of one seed these losses, evaluation by evaluation."""
    lines = []
    for number, pair in enumerate(zip(train, test, strict=True), 1):
        score = 0.5 + 0.01 * number if scores is None else scores[number - 1]
        result = summarise({'accuracy': np.full(4, score), 'count': np.full(4, 50)}, np.arange(4))
        line = {'round': 5 * number, 'seed': 0, 'train_loss': pair[0], 'global': result | {'loss': pair[1]}}
        lines.append(json.dumps(line) + '\n')
    (path / 'metrics.jsonl').write_text(''.join(lines))
    return loaded(path)[0]


def test_sound_runs_get_no_remark(make_run):
    assert remarks(make_run('fedavg'), make_run('afl', gap=0.05)) == []


# --- parts that change nothing, and rows that agree ------------------------------------------------------------------


def test_idle_parts_are_told_with_the_run_that_has_them(make_run):
    other = {**REMARK, 'subject': 'saga of fedism', 'same_as': ''}
    paths = [
        make_run('fedbn', summary_changes={'remarks': [REMARK]}),
        make_run('fedism', summary_changes={'remarks': [other]}),
        make_run('fedbn+scaffold', summary_changes={'remarks': [{**REMARK, 'same_as': ''}]}),
    ]
    assert remarks(*paths) == [
        'fedbn is the same as fedavg here: no batch norm',
        'saga of fedism changes nothing here: no batch norm',
        'fedbn+scaffold: fedbn changes nothing here: no batch norm',
    ]


def copied(make_run, source, recipe, **changes):
    """A run of another recipe with the numbers of one."""
    path = make_run(recipe, **changes)
    (path / 'metrics.jsonl').write_text((source / 'metrics.jsonl').read_text())
    return path


def test_identical_rows_are_recognised_and_the_simplest_is_named(make_run):
    base = make_run('fedavg')
    paths = [
        copied(make_run, base, 'fedbn', summary_changes={'remarks': [REMARK]}),
        base,
        copied(make_run, base, 'fedprox'),
        make_run('afl'),
    ]
    runs = loaded(*paths)
    assert [[run.label for run in group] for group in report.identical_runs(runs)] == [['fedavg', 'fedprox', 'fedbn']]
    said = 'fedprox and fedbn are identical to fedavg: every client has the same score'
    assert said in report.remarks_of(runs)


@pytest.mark.parametrize(
    'change',
    [
        lambda line: line['global']['client_accuracy'].__setitem__(3, 0.123),
        lambda line: line['global'].update(loss=0.9 * line['global']['loss']),
        lambda line: line.update(seed=line['seed'] + 1),
    ],
)
def test_rows_that_differ_in_one_client_the_loss_or_the_seeds_are_not_identical(make_run, change):
    base = make_run('fedavg', seeds=1)
    other = copied(make_run, base, 'fedprox', seeds=1)
    lines = [json.loads(text) for text in (other / 'metrics.jsonl').read_text().splitlines()]
    for line in lines:
        change(line)
    (other / 'metrics.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines))
    assert report.identical_runs(loaded(base, other)) == []


def test_runs_of_different_scenarios_are_never_identical(make_run):
    base = make_run('fedavg')
    assert report.identical_runs(loaded(base, copied(make_run, base, 'fedprox', scenario='other'))) == []


def test_personal_models_make_a_difference(make_run):
    shared = make_run('ditto', personal=True)
    lines = [json.loads(text) for text in (shared / 'metrics.jsonl').read_text().splitlines()]
    plain = make_run('fedavg')
    for line in lines:
        line.pop('deployed')
    (plain / 'metrics.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines))
    runs = loaded(plain, shared)
    assert report.identical_runs(runs) == []
    assert report.remarks_of(runs) == [
        'fedavg and ditto have the same global model; the models that their clients use differ'
    ]


# --- did it learn? ---------------------------------------------------------------------------------------------------


def test_a_model_that_is_not_above_chance_did_not_learn_and_is_best_in_nothing(make_run):
    lucky = make_run('afl', gap=0.0, level=0.1, summary_changes={'chance': {'global': 0.148, 'own': 0.2}})
    good = make_run('fedavg', summary_changes={'chance': {'global': 0.148, 'own': 0.2}})
    runs = loaded(lucky, good)
    assert [report.did_not_learn(run) for run in runs] == [True, False]
    average = 100 * runs[0].summary['global']['avg']['mean']
    said = f'afl did not learn: AVG {average:.1f} % is not above always answering the most frequent class (14.8 %)'
    assert said in report.remarks_of(runs)
    options = {'images': 30, 'clients': 8, 'seeds': 4, 'summary_changes': {'chance': {'global': 0.148, 'own': 0.2}}}
    table = report.make_table(loaded(make_run('fedavg', **options), make_run('afl', gap=0.0, level=0.1, **options)))
    good, lucky = table.rows
    assert lucky.cells[1].value < good.cells[1].value  # its spread is lower
    assert not any(cell.dot for cell in lucky.cells) and any(cell.dot for cell in good.cells)
    assert lucky.cells[4].word == 'undecided (did not learn)'
    text = report.to_markdown(table)
    assert 'afl: did not learn: AVG -' in text and 'fairer' not in text


def test_runs_without_a_chance_level_are_believed(make_run):
    for change in ({}, {'chance': None}):
        (run,) = loaded(make_run(level=0.0, summary_changes=change))
        assert report.chance_level(run) is None and not report.did_not_learn(run)


def test_clients_own_models_have_a_level_of_their_own(make_run):
    path = make_run('ditto', personal=True, level=0.5, gap=0.0)
    average = loaded(path)[0].result('deployed')['avg']['mean']
    (run,) = loaded(
        make_run('ditto', personal=True, level=0.5, gap=0.0, summary_changes={'chance': {'global': 0.1, 'own': 0.9}})
    )
    assert report.did_not_learn(run, 'deployed') and not report.did_not_learn(run)
    assert (
        'the models that clients of ditto use did not learn: '
        f'AVG {100 * average:.1f} % is not above always answering the most frequent class (90.0 %)'
    ) in report.remarks_of([run])


def test_models_of_clients_that_are_the_global_model_are_measured_like_it(make_run):
    """As those of FedBN beside a network without batch normalisation."""
    base = make_run('fedavg', level=0.5, gap=0.0)
    result = json.loads((base / 'summary.json').read_text())['global']
    changes = {'chance': {'global': 0.1, 'own': 0.9}, 'deployed': result}
    (run,) = loaded(make_run('fedavg', level=0.5, gap=0.0, summary_changes=changes))
    assert report.chance_level(run, 'deployed') == 0.1 and not report.did_not_learn(run, 'deployed')


# --- training --------------------------------------------------------------------------------------------------------

FALLING = [1.0, 0.7, 0.5, 0.3, 0.2, 0.1]


@pytest.mark.parametrize(
    ('train', 'test', 'expected'),
    [
        (FALLING, [1.0, 0.8, 0.6, 0.5, 0.6, 0.7], 'rose from 0.5 (round 20) to 0.7, while the train loss is 0.1'),
        (FALLING, [1.0, 0.9, 0.8, 0.7, 0.6, 0.5], ''),  # high, but it falls
        (FALLING, [0.1, 0.1, 0.1, 0.15, 0.16, 0.19], ''),  # it rises, but is less than twice the train loss
        (FALLING[:3], [0.5, 0.7, 2.0], ''),  # too few evaluations
        (FALLING, [1.0, 0.8, 0.6, 0.5, 0.6, None], ''),  # undefined
    ],
)
def test_over_fitting_is_a_test_loss_that_rises_far_above_the_train_loss(make_run, train, test, expected):
    found = overfits(with_losses(make_run(seeds=1, groups=()), train, test))
    assert found.endswith(expected) and bool(found) == bool(expected)


@pytest.mark.parametrize(
    ('train', 'expected'),
    [
        ([2.3, 2.3, 2.295], 'the train loss is 2.3 after round 5 and 2.29 at the end'),
        ([2.3, 2.4, 2.5], 'the train loss is 2.3 after round 5 and 2.5 at the end'),
        ([2.3, 2.2, 2.1], ''),
        ([2.3, 2.2, None], ''),
        ([2.3], ''),
    ],
)
def test_a_train_loss_that_stands_still_is_noticed(make_run, train, expected):
    run = with_losses(make_run(seeds=1, groups=()), train, [1.0] * len(train))
    found = losses_without_gain(run)
    assert ('' if found is None else found.words) == expected


@pytest.mark.parametrize(
    ('first', 'last', 'expected'),
    [(2.3, 2.29, 'the train loss is 2.3 after round 1 and 2.29 at the end'), (2.3, 1.0, '')],
)
def test_one_evaluation_is_compared_with_the_first_round(make_run, first, last, expected):
    run = with_losses(make_run(seeds=1, groups=(), summary_changes={'first_train_loss': first}), [last], [1.0])
    found = losses_without_gain(run)
    assert ('' if found is None else found.words) == expected


@pytest.mark.parametrize(('scores', 'told'), [([0.1, 0.2, 0.1], True), ([0.1, 0.2, 0.3], False), ([1.0] * 3, False)])
def test_scores_that_stand_still_are_noticed_unless_they_are_perfect(make_run, scores, told):
    run = with_losses(make_run(seeds=1, groups=()), [2.3, 2.2, 2.1], [1.0] * 3, scores)
    assert bool(scores_stand_still(run)) == told


@pytest.mark.parametrize(
    ('level', 'last', 'blamed'),
    [
        (0.99, 2.3, 'learning rate 1e-06 trains nothing'),
        (0.1, 2.3, 'may be too small or too large, or training was over by then'),
        (0.99, 4.27, 'learning rate 1e-06 is too large'),
        (0.99, 2.32, 'learning rate 1e-06 trains nothing'),  # within 1 %
        (0.1, 4.27, 'learning rate 1e-06 may be too large'),
        (0.99, 1.3, 'may be too small or too large, or training was over by then'),  # it trains, scores do not show it
    ],
)
def test_the_learning_rate_is_blamed_where_nothing_was_learned(make_run, level, last, blamed):
    changes = {'chance': {'global': level, 'own': level}}
    path = make_run(seeds=1, groups=(), summary_changes=changes, config_changes={'lr': 1e-6})
    run = with_losses(path, [2.3, last], [2.3, 2.3], [0.2, 0.2])
    assert any(sentence.endswith(blamed) for sentence in report.remarks_of([run]))


def test_one_evaluation_shows_a_learning_rate_that_trains_nothing(make_run):
    changes = {'chance': {'global': 0.99, 'own': 0.99}, 'first_train_loss': 2.3}
    path = make_run(seeds=1, groups=(), summary_changes=changes, config_changes={'lr': 1e-7})
    run = with_losses(path, [2.299], [2.3], [0.2])
    told = 'fedavg: the train loss is 2.3 after round 1 and 2.3 at the end; the learning rate 1e-07 trains nothing'
    assert told in report.remarks_of([run])


# --- the rest --------------------------------------------------------------------------------------------------------


def test_failures_and_divided_patients_are_told_with_the_scenario_where_there_are_several(make_run):
    problem = 'PROBLEM: 2 patients are both trained on and tested'
    changes = {'problems': [problem], 'failures': {'dropped': 0, 'non_finite': 4, 'empty_rounds': 0}}
    paths = [make_run(recipe, scenario='scans', summary_changes=changes) for recipe in ('fedavg', 'afl')]
    said = remarks(*paths, make_run('fedavg'))
    assert said[0] == f'scans: {problem}' and said.count(said[0]) == 1
    assert said[1].startswith('scans: fedavg: 4 times a client failed') and said[2].startswith('scans: afl: 4 times')
    assert len(said) == 3


def test_heads_of_runs_that_differ_show_what_each_has(make_run):
    paths = [make_run(directory=str(lr), config_changes={'lr': lr}) for lr in (0.1, 0.2, 0.3, 0.4)]
    assert report.head_of(loaded(*paths))[-1] == (
        'local training: learning rate 0.1 | local training: learning rate 0.2 | local training: learning rate 0.3 '
        '| and 1 more'
    )
    assert report.head_of(loaded(paths[0])) == report.head_lines(loaded(paths[0])[0])
