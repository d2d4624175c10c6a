"""Some classes of a source: their examples alone, numbered anew, whatever source and scenario they come from."""

import tracemalloc

import numpy as np
import pytest

from fedjax_fair.data import make_scenario, read_pool
from fedjax_fair.data.class_choice import only_classes
from fedjax_fair.errors import UserError


@pytest.fixture
def letters(tmp_path):
    """Forty images of four named classes; the value of an image is its number."""
    labels = np.arange(40) % 4
    images = np.broadcast_to(np.arange(40)[:, None, None], (40, 6, 6)).astype(np.uint8)
    np.savez(tmp_path / 'letters.npz', images=images, labels=labels, class_names=np.array(list('abcd')))
    return f'{tmp_path / "letters.npz"}'


def test_the_classes_chosen_are_numbered_in_the_order_given(letters):
    pool = read_pool('npz', letters, classes=(3, 1))
    numbers = pool.x[:, 0, 0, 0].astype(int)
    np.testing.assert_array_equal(numbers, [n for n in range(40) if n % 4 in (1, 3)])
    np.testing.assert_array_equal(pool.y, np.where(numbers % 4 == 3, 0, 1))
    assert pool.class_names == ('d', 'b') and pool.num_classes == 2 and pool.y.dtype == np.int32


def test_examples_are_held_out_as_without_a_choice(letters):
    both, all_four = (read_pool('npz', letters, data_seed=5, classes=chosen) for chosen in ((1, 3), None))
    kept = np.isin(all_four.y, (1, 3))
    np.testing.assert_array_equal(both.held_out, all_four.held_out[kept])
    np.testing.assert_array_equal(both.place, all_four.place[kept])


def test_scenarios_of_a_source_take_it(letters):
    plain = make_scenario(f'npz:{letters}', classes='2,0', num_clients=2)
    assert plain.num_classes == 2 and plain.class_names == ('c', 'a') and plain.sizes.sum() == 16
    corrupted = make_scenario(f'quality_shift:npz:{letters}', classes='2,0', num_clients=4, corrupted_ratio=0.5)
    assert corrupted.num_classes == 2 and corrupted.sizes.sum() == 16


@pytest.mark.parametrize(
    ('classes', 'message'),
    [
        ('7,1', 'classes`=7,1: there are no examples of class 7, but of 0, 1, 2, 3'),
        ('1,1', 'classes`=1,1 must be at least two different classes'),
        ('1', 'classes`=1 must be at least two different classes'),
        ('-1,2', 'classes`=-1,2 must be at least 0'),
    ],
)
def test_a_choice_that_cannot_be_is_one_line(letters, classes, message):
    with pytest.raises(UserError) as caught:
        make_scenario(f'npz:{letters}', classes=classes)
    assert message.replace('`', '') in str(caught.value).replace('`', '')


def test_a_large_number_that_is_no_class_needs_no_memory(letters):
    pool = read_pool('npz', letters)
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match='there are no examples of class 20000000, but of 0, 1, 2, 3'):
            only_classes(pool, (0, 20_000_000))
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_other_tasks_have_no_classes_to_choose(tmp_path):
    np.savez(tmp_path / 'many.npz', images=np.zeros((20, 4, 4), np.uint8), labels=np.eye(4, dtype=np.int32)[[0] * 20])
    with pytest.raises(UserError, match=r'does not apply to task=multilabel'):
        read_pool('npz', str(tmp_path / 'many.npz'), classes=(0, 1))
