"""The data of a run."""

from __future__ import annotations

import functools
from typing import Any

from fedjax_fair.data import Federation, make_scenario
from fedjax_fair.data.validation import with_validation
from fedjax_fair.training.config import Config


def load_federation(config: Config) -> Federation:
    """The scenario of a config, with validation sets where it asks for them.

    The last one is kept in memory, and shared by all who ask for it: the recipes of a comparison have the same data.
    """
    return _load(config.scenario, config.data_seed, config.validation, tuple(config.data.items()))


@functools.lru_cache(maxsize=1)
def _load(scenario: str, data_seed: int, validation: float, options: tuple[tuple[str, Any], ...]) -> Federation:
    federation = make_scenario(scenario, data_seed=data_seed, **dict(options))
    return with_validation(federation, validation, data_seed) if validation else federation


def forget_federation() -> None:
    """Let go of the federation that is kept in memory."""
    _load.cache_clear()
