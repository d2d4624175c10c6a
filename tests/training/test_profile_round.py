"""A trace of one round, and what it tells."""

import pytest

from fedjax_fair.training import profile, run


@pytest.mark.parametrize('rounds', [1, 3])
def test_one_round_is_traced_and_its_operations_are_listed(toy, tmp_path, read, rounds, capsys):
    plain, traced = tmp_path / 'plain', tmp_path / 'traced'
    run(toy(rounds=rounds), plain, quiet=True)
    run(toy(rounds=rounds), traced, profiled=True)
    assert read(traced / 'metrics.jsonl') == read(plain / 'metrics.jsonl')  # watching changes nothing
    assert not (plain / profile.FOLDER).exists()
    found = profile.longest(traced / profile.FOLDER)
    shares = [share for _, _, share in found]
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) <= 1 + 1e-9
    assert all(not name.startswith(profile.CONTAINERS) for name, _, _ in found)
    shown = capsys.readouterr().err
    assert all(name in shown for name, _, _ in found)
