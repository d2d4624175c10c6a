"""Partitions in files: the same federation bit for bit, and other data or broken files refused in one line."""

import json

import numpy as np
import pytest

from fedjax_fair.data import make_scenario
from fedjax_fair.data.federation import Federation
from fedjax_fair.data.partition.file import write_partition
from fedjax_fair.results import federation_facts, head_facts


def arrays(made: Federation) -> list[np.ndarray]:
    fields = (made.x, made.y, made.index, made.sizes, made.group_of, made.labels, made.patient_of)
    tests = (made.tests.x, made.tests.y, made.tests.mask, made.tests.test_of)
    return [np.asarray(field) for field in (*fields, *tests) if field is not None]


def assert_same(one: Federation, other: Federation):
    assert len(arrays(one)) == len(arrays(other))
    for a, b in zip(arrays(one), arrays(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    facts = ('name', 'groups', 'class_names', 'num_classes', 'task', 'description')
    assert all(getattr(one, fact) == getattr(other, fact) for fact in facts) and one.tests.names == other.tests.names


@pytest.fixture
def source(tmp_path):
    """Sites, patients and masks; no test set, so that one is drawn."""
    rng = np.random.default_rng(0)
    arrays = {'images': rng.integers(0, 256, (200, 6, 6, 3), np.uint8), 'labels': np.arange(200) // 4 % 3}
    arrays |= {'site': np.arange(200) % 3, 'group': np.arange(200) // 4, 'masks': rng.integers(2, size=(200, 6, 6))}
    np.savez(tmp_path / 's.npz', **arrays)
    return f'npz:{tmp_path / "s.npz"}'


@pytest.mark.parametrize(
    'options',
    [
        {},
        {'clients_per_domain': 2, 'client_sizes': (8,), 'test_size': 3},
        {'alpha': 0.5, 'num_clients': 4, 'data_seed': 5},
        {'classes_per_client': 2, 'num_clients': 3, 'truncate': True},
    ],
)
@pytest.mark.parametrize('reading', [{}, {'task': 'segmentation'}])
def test_what_was_written_gives_the_same_federation(source, tmp_path, options, reading):
    file = tmp_path / 'p.json'
    made = make_scenario(source, **options, **reading)
    write_partition(file, made.partition, source, options)
    assert_same(made, make_scenario(source, partition=str(file), **reading))


def test_the_head_of_a_run_says_how_examples_were_dealt_out_and_tests_drawn(source, tmp_path):
    def told(made, **data):
        facts = {'scenario': 'npz:s', **federation_facts(made, 'accuracy')}
        return head_facts({'data': data}, facts)['data']

    drawn = '; 20 % of the examples drawn for testing'
    assert told(make_scenario(source)) == f'data: npz:s, split_by=site{drawn}'
    how = told(make_scenario(source, num_clients=4, split_by='dirichlet'), num_clients=4)
    assert how.startswith('data: npz:s, split_by=dirichlet, ') and 'num_clients=4' in how and 'alpha=' in how
    made = make_scenario(source)
    write_partition(tmp_path / 'p.json', made.partition, source, {})
    assert told(make_scenario(source, partition=str(tmp_path / 'p.json')), partition='p.json') == (
        'data: npz:s, partition=p.json'
    )
    arrays = dict(np.load(source.removeprefix('npz:'))) | {'is_test': np.arange(200) % 5 == 0}
    np.savez(tmp_path / 's.npz', **arrays)
    assert told(make_scenario(source)) == 'data: npz:s, split_by=site'
    assert federation_facts(make_scenario('gaussian_toy_1'), 'accuracy')['split'] is None


@pytest.mark.parametrize('base', ['', 'tissue'])
def test_who_holds_worse_images(source, base, tmp_path):
    """Severity is not about who holds what; the embedded tissue is as large as the federation has clients."""
    name, how = f'quality_shift:{base or source}', {'severity': 2, 'data_seed': 3}
    made = make_scenario(name, num_clients=6, corrupted_ratio=0.5, alpha=0.7, **how)
    write_partition(tmp_path / 'p.json', made.partition, name, {})
    assert_same(made, make_scenario(name, partition=str(tmp_path / 'p.json'), **how))
    with pytest.raises(ValueError, match=r'alpha=0\.7'):
        make_scenario(name, partition=str(tmp_path / 'p.json'), alpha=0.7)


def test_a_partition_without_qualities_is_refused(source, tmp_path):
    write_partition(tmp_path / 'p.json', make_scenario(source).partition, source, {})
    with pytest.raises(ValueError, match=r"its groups are \('0', '1', '2'\); expected are \('clean', 'corrupted'\)"):
        make_scenario(f'quality_shift:{source}', partition=str(tmp_path / 'p.json'))


def test_office_caltech_where_clients_share_examples(tmp_path):
    rng = np.random.default_rng(0)
    for domain in ('a', 'b'):
        labels = np.repeat(np.arange(3), (40, 30, 4))
        np.savez(tmp_path / f'{domain}.npz', images=rng.integers(0, 256, (74, 6, 6, 3), np.uint8), labels=labels)
    name = f'office_caltech:{tmp_path / "a.npz"},{tmp_path / "b.npz"}'
    made = make_scenario(name)
    assert np.bincount(np.concatenate(made.partition.clients)).max() > 1
    write_partition(tmp_path / 'p.json', made.partition, name, {})
    assert_same(made, make_scenario(name, partition=str(tmp_path / 'p.json')))
    first, *others = made.partition.clients
    wrong = made.partition._replace(clients=[np.append(first, first[0]), *others])
    write_partition(tmp_path / 'p.json', wrong, name, {})
    with pytest.raises(ValueError, match=f'example {first[0]} is given 2 times'):
        make_scenario(name, partition=str(tmp_path / 'p.json'))


@pytest.mark.parametrize('name', ['digits_labels', 'digits_common'])
def test_digits(name, tmp_path):
    made = make_scenario(name, num_clients=5, data_seed=2)
    write_partition(tmp_path / 'p.json', made.partition, name, {})
    again = make_scenario(name, partition=str(tmp_path / 'p.json'))
    assert_same(made, again)
    assert again.partition.examples_sha256 == made.partition.examples_sha256 and again.partition.examples == 1797


def test_images_may_have_another_size(source, tmp_path):
    made = make_scenario(source, num_clients=3)
    write_partition(tmp_path / 'p.json', made.partition, source, {})
    small = make_scenario(source, partition=str(tmp_path / 'p.json'), image_size=4)
    assert small.x.shape[1:] == (4, 4, 3)
    np.testing.assert_array_equal(small.index, made.index)


def test_other_patients_are_other_data_and_other_names_of_them_are_not(tmp_path):
    """Masks without labels: nothing but the patients tells two sets of the same size apart."""
    held = {'images': np.zeros((20, 4, 4), np.uint8), 'masks': np.zeros((20, 4, 4), np.uint8)}
    patients = {'drawn': np.arange(20) // 2, 'renamed': np.char.add('P', (99 - np.arange(20) // 2).astype(str))}
    for name, group in (patients | {'other': np.arange(20) // 5}).items():
        np.savez(tmp_path / f'{name}.npz', **held, group=group)
    drawn = make_scenario(f'npz:{tmp_path}/drawn.npz', num_clients=2)
    write_partition(tmp_path / 'p.json', drawn.partition, 'npz', {})
    renamed = make_scenario(f'npz:{tmp_path}/renamed.npz', partition=str(tmp_path / 'p.json'))
    np.testing.assert_array_equal(renamed.index, drawn.index)
    with pytest.raises(ValueError, match=r'was drawn for other data: 20 examples .* with other labels or patients'):
        make_scenario(f'npz:{tmp_path}/other.npz', partition=str(tmp_path / 'p.json'))


def test_joined_sites_are_those_of_the_file(tmp_path):
    site = np.array(['north'] * 10 + ['south'] * 10 + ['east', 'west'])
    np.savez(tmp_path / 's.npz', images=np.zeros((22, 4, 4), np.uint8), labels=np.arange(22) % 2, site=site)
    made = make_scenario(f'npz:{tmp_path}/s.npz', join_sites=True)
    write_partition(tmp_path / 'p.json', made.partition, 'npz', {'join_sites': True})
    assert made.groups == ('north', 'south', 'other')
    assert_same(made, make_scenario(f'npz:{tmp_path}/s.npz', partition=str(tmp_path / 'p.json')))


def test_a_file_is_small_and_says_how_it_was_drawn(source, tmp_path):
    made = make_scenario(source, num_clients=3)
    write_partition(tmp_path / 'p.json', made.partition, source, {'num_clients': 3})
    text = (tmp_path / 'p.json').read_text()
    found = json.loads(text)
    assert (found['version'], found['scenario'], found['settings']) == (2, source, {'num_clients': 3})
    assert found['examples'] == 200 and len(found['examples_sha256']) == 64
    assert len(text) < 2200 and text.count('\n') < 30


@pytest.fixture
def written(source, tmp_path):
    file = tmp_path / 'p.json'
    write_partition(file, make_scenario(source, num_clients=3).partition, source, {})
    return file, json.loads(file.read_text())


BROKEN = [
    ({'format': 'other'}, 'is not a partition; write one with fedjax-fair data partition'),
    ({'version': 1}, 'has version 1; version 2 can be read'),
    ({'examples': 199}, 'was drawn for other data: 199 examples of npz:'),
    ({'examples_sha256': '0' * 64}, 'was drawn for other data'),
    ({'clients': [[0], [], [1]]}, 'client 1 holds no examples'),
    ({'clients': [[0], [200], [1]]}, 'client 1 holds example 200; they are numbered from 0 to 199'),
    ({'clients': [[0], [-1], [1]]}, 'client 1 holds example -1'),
    ({'clients': [[0], [1, 2], [2]]}, r'example 2 is given 2 times, to clients \[1, 2\]'),
    ({'clients': [[0], [1, 1], [2]]}, r'example 1 is given 2 times, to clients \[1\]'),
    ({'clients': [[0], ['1'], [2]]}, "'clients' must hold lists of whole numbers"),
    ({'clients': [[0], [True], [2]]}, "'clients' must hold lists of whole numbers"),
    ({'clients': {'a': 1}}, "'clients' must be a list"),
    ({'clients': []}, '0 clients and 3 test sets; both are needed'),
    ({'clients': [[0], [1], [2]], 'tests': [[2], [3], [4]]}, 'example 2 is both trained on and tested'),
    ({'tests': [[], [], []]}, 'test set 0 holds no examples'),
    ({'test_names': ['a']}, '1 test_names for 3 test sets'),
    ({'test_of': [0, 1, 3]}, "'test_of' must hold, for each of 3 clients, a number below 3"),
    ({'group_of': [0, 1]}, "'group_of' must hold, for each of 3 clients, a number below 3"),
    ({'groups': []}, "'group_of' must hold, for each of 3 clients, a number below 0"),
    ({'group_of': None}, "3 'groups' without 'group_of', the group of every client"),
    ({'groups': ['a', 'b', 'c', 'd']}, "the group 'd' has no client"),
]


@pytest.mark.parametrize(('change', 'told'), BROKEN)
def test_broken_partitions_are_refused_in_one_line(source, written, change, told):
    file, found = written
    file.write_text(json.dumps({name: value for name, value in (found | change).items() if value is not None}))
    with pytest.raises(ValueError, match=f'^partition={file}.*{told}') as caught:
        make_scenario(source, partition=str(file))
    assert '\n' not in str(caught.value)


@pytest.mark.parametrize('text', ['{', '[]', '\xff', '3'])
def test_no_json_or_no_partition(source, written, text):
    file, _ = written
    file.write_bytes(text.encode('latin-1'))
    with pytest.raises(ValueError, match=f'^partition={file} is not'):
        make_scenario(source, partition=str(file))


def test_no_file(source, tmp_path):
    with pytest.raises(ValueError, match=r'^partition=/no/such.json: No such file'):
        make_scenario(source, partition='/no/such.json')
    with pytest.raises(ValueError, match=f'^partition={tmp_path}: Is a directory'):
        make_scenario(source, partition=str(tmp_path))


@pytest.mark.parametrize(
    ('option', 'value'),
    [
        ('alpha', 0.5),
        ('split_by', 'iid'),
        ('num_clients', 3),
        ('test_size', 2),
        ('truncate', True),
        ('join_sites', True),
    ],
)
def test_a_split_beside_a_partition_is_refused(source, written, option, value):
    file, _ = written
    with pytest.raises(ValueError, match=f'{option}={value} does not apply to partition={file}'):
        make_scenario(source, partition=str(file), **{option: value})


def test_scenarios_that_draw_their_examples_read_no_partition(written):
    with pytest.raises(ValueError, match=r'partition=.* does not apply to scenario=digits_domains'):
        make_scenario('digits_domains', partition=str(written[0]))
