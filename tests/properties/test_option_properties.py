"""Options of factories: what is written is read back, and nothing outside of the range gets through."""

from typing import Annotated, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedjax_fair.errors import UserError
from fedjax_fair.options import above, at_least, between, options_of, resolve
from fedjax_fair.ranges import fits_float32
from fedjax_fair.registry import Registry


def factory(
    rate: Annotated[float, 'a number', between(-4, 4)] = 0.5,
    count: Annotated[int, 'a whole number', at_least(0)] = 3,
    share: Annotated[float | None, above(0, 1)] = None,
    flag: bool = False,
    kind: Literal['a', 'b'] = 'a',
    widths: tuple[int, ...] = (8, 8),
):
    """A factory that returns its options."""
    return {'rate': rate, 'count': count, 'share': share, 'flag': flag, 'kind': kind, 'widths': widths}


OPTIONS = options_of(factory)
VALUES = {
    'rate': st.floats(-4, 4).filter(fits_float32),
    'count': st.integers(0, 10**9),
    'share': st.floats(0, 1, exclude_min=True).filter(fits_float32),
    'flag': st.booleans(),
    'kind': st.sampled_from(['a', 'b']),
    'widths': st.lists(st.integers(0, 999), min_size=1, max_size=4).map(tuple),
}
SETTINGS = st.fixed_dictionaries({}, optional=VALUES)


def written(value):
    """A value as the command line has it."""
    return ','.join(map(str, value)) if isinstance(value, tuple) else str(value)


@given(SETTINGS)
def test_texts_and_values_mean_the_same(values):
    texts = {name: written(value) for name, value in values.items()}
    defaults = {name: option.default for name, option in OPTIONS.items()}
    assert resolve('factory', OPTIONS, texts) == resolve('factory', OPTIONS, values) == defaults | values


@given(SETTINGS)
def test_a_registry_makes_what_the_factory_makes(values):
    registry = Registry('thing')
    registry.register(factory)
    assert registry.make('factory', **{name: written(value) for name, value in values.items()}) == factory(**values)


@given(st.floats())
@example(1e-320)
@example(1e39)
def test_numbers_outside_of_the_range_are_refused(number):
    option = OPTIONS['rate']
    if fits_float32(number) and -4 <= number <= 4:
        assert option.parse(str(number)) == option.check(number) == number
        return
    for read in (lambda: option.parse(str(number)), lambda: option.check(number)):
        with pytest.raises(UserError, match=r'^rate='):
            read()


@given(st.sampled_from(['rate', 'count', 'flag', 'widths']), st.text('abcxyz', min_size=1))
@example('widths', 'x')
def test_texts_of_another_kind_are_refused_by_name(name, text):
    with pytest.raises(UserError, match=rf'^part\.{name}='):
        OPTIONS[name].parse(text, f'part.{name}')


@given(st.sampled_from([*VALUES, 'word']), st.sampled_from([True, 2.5, 7, 'text', (1, 2), [3], ('a',), {'a': 1}]))
def test_values_of_another_kind_are_refused_by_name(name, value):
    kinds = {'rate': (7, 2.5), 'count': (7,), 'share': (7, 2.5), 'flag': (True,), 'kind': (), 'widths': ((1, 2), [3])}
    option = options_of(lambda word='a': word)['word'] if name == 'word' else OPTIONS[name]._replace(range=None)
    if any(value == fits and type(value) is type(fits) for fits in kinds.get(name, ('text',))):
        assert option.check(value) == value
        return
    with pytest.raises(UserError, match=rf'^part\.{name}='):
        option.check(value, f'part.{name}')


@given(st.text('abcd', min_size=1))
def test_a_choice_is_one_of_the_choices(text):
    if text in ('a', 'b'):
        assert OPTIONS['kind'].parse(text) == text
        return
    with pytest.raises(UserError, match="is not one of 'a', 'b'"):
        OPTIONS['kind'].parse(text)
