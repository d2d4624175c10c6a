"""The round of a run is traced once: over rounds and evaluations, over lanes, and again in a run that is resumed."""

import chex
import pytest

from fedjax_fair.core import engine
from fedjax_fair.training import Interrupted, loop, run


@pytest.fixture
def traced_once(monkeypatch):
    """From now on a second trace of the round is an error; a new program may be traced once more."""

    def allow():
        chex.clear_trace_counter()

    allow()
    monkeypatch.setattr(engine, '_round', chex.assert_max_traces(engine._round, n=1))
    return allow


def test_rounds_evaluations_and_lanes(toy, tmp_path, traced_once):
    config = toy(recipe='fedprox', rounds=6, eval_every=1, seeds=(0, 1), adapt_every=3)
    run(config, tmp_path / 'out', points=({'fedprox.mu': 0.0}, {'fedprox.mu': 1.0}), quiet=True)


def test_a_resumed_run(toy, tmp_path, traced_once, monkeypatch):
    config = toy(recipe='scaffold', rounds=4, eval_every=1, checkpoint_every=1)
    stop = loop.StopFlag.__enter__

    def asked_at_once(self):
        stop(self)
        self.asked = True
        return self

    with monkeypatch.context() as patch:
        patch.setattr(loop.StopFlag, '__enter__', asked_at_once)
        with pytest.raises(Interrupted):
            run(config, tmp_path / 'out', quiet=True)
    traced_once()
    run(config, tmp_path / 'out', resume=True, quiet=True)


def test_a_second_trace_would_be_found(toy, tmp_path, traced_once):
    run(toy(rounds=1), tmp_path / 'one', quiet=True)
    with pytest.raises(AssertionError, match='traced > 1 times'):
        run(toy(rounds=1), tmp_path / 'two', quiet=True)
