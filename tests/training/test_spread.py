"""How many clients run at once on an accelerator is chosen by compiled programs."""

import pytest

from fedjax_fair.core.platform import Platform, machine
from fedjax_fair.errors import UserError
from fedjax_fair.training import spread
from fedjax_fair.training.setup import prepare
from fedjax_fair.training.spread import Candidate, settled

GIGABYTE = 10**9


@pytest.fixture
def experiment(toy):
    """Two clients on a processor that is only described."""
    return prepare(toy(), platform=Platform('gpu', machine().devices[:1], GIGABYTE))


def tries(monkeypatch, outcomes):
    """Let candidates have these outcomes, by the number of clients at once; returns the numbers that are tried."""
    asked = []

    def candidate(experiment, chunk, is_here):
        asked.append(chunk)
        return Candidate(chunk, *outcomes[chunk])

    monkeypatch.setattr(spread, '_candidate', candidate)
    return asked


def test_nothing_is_compiled_on_cpu_or_where_the_user_has_chosen(toy, monkeypatch):
    asked = tries(monkeypatch, {})
    there = Platform('gpu', machine().devices[:1], GIGABYTE)
    for one in (prepare(toy()), prepare(toy(chunk=2), platform=there), prepare(toy(client_map='vmap'), platform=there)):
        assert settled(one) is one
    assert not asked


def test_the_cheapest_that_fits_is_chosen_told_and_written_into_the_settings(experiment, monkeypatch):
    asked = tries(monkeypatch, {2: (100, 5.0), 1: (60, 3.0)})
    found = settled(experiment)
    assert asked == [2, 1]
    assert found.config.chunk == 1 and found.client_map.chunk == 1
    assert '1 clients at once on a device, chosen among 2 (5 cycles a round); 1 (3 cycles a round)' in found.notes


def test_of_equal_costs_most_clients_run_at_once(experiment, monkeypatch):
    tries(monkeypatch, {2: (100, 0.0), 1: (60, 0.0)})
    assert settled(experiment).config.chunk == 2


def test_as_many_are_tried_as_fit():
    everybody, one = Candidate(20, 2000, None), Candidate(1, 100, 7.0)
    assert spread._between([everybody, one], 20, 1000) == 9, '100 + 8 x 100 of 950'
    assert spread._between([everybody._replace(cost=1.0), one], 20, 10_000) == 4, 'all fit'
    assert spread._between([everybody, one._replace(cost=None)], 20, 50) is None


def test_what_fits_for_no_client_is_refused_with_what_would_help(experiment, monkeypatch):
    tries(monkeypatch, {2: (5 * GIGABYTE, None), 1: (4 * GIGABYTE, None)})
    with pytest.raises(UserError, match='one client at a time needs 4 GB and does not fit into the memory of 1 GB'):
        settled(experiment)


def test_programs_are_compiled_and_timed_where_their_devices_are(experiment, monkeypatch):
    monkeypatch.setattr(spread, '_is_here', lambda platform: True)
    found = settled(experiment)
    assert found.config.chunk in (1, 2)
    assert ' s for 2 steps)' in found.notes[-1]


def test_programs_of_several_devices_are_timed(toy, monkeypatch):
    monkeypatch.setattr(spread, '_is_here', lambda platform: True)
    several = Platform('gpu', machine().devices[:2], GIGABYTE)
    shared = prepare(toy(scenario='digits_domains', devices=2, rounds=1), platform=several)
    timed = spread._candidate(shared, 1, is_here=True)
    assert shared.client_map.devices == 2 and timed.cost > 0


def test_programs_larger_than_the_memory_do_not_fit(toy):
    tiny = prepare(toy(), platform=Platform('gpu', machine().devices[:1], memory=1000))
    with pytest.raises(UserError, match='choose a smaller batch_size, precision=bfloat16 or remat'):
        settled(tiny)
