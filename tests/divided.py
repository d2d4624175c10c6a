"""A small run whose clients are spread over devices, and what comes out of it."""

import jax

from fedjax_fair.training import Config, prepare
from fedjax_fair.training.cohort_supply import Resident


def outcome(recipe: str, devices: int, kinds: tuple[str, ...] | None = None, **settings):
    """The experiment, its states after two rounds, and for comparison: states by client, and losses of models."""
    data = {'num_clients': 10, 'examples_per_class': 8}
    network = {'model': 'mlp', 'model_options': {'widths': (6,)}}
    config = Config(scenario='digits_labels', data=data, rounds=2, recipe=recipe, devices=devices, **network)
    experiment = prepare(config.changed(local_epochs=1, batch_size=4, client_map='sharded', **settings))
    supply = Resident(experiment)
    states, _ = supply.advance(supply.init(), 2)
    sets, losses = experiment.test_sets(experiment.federation.tests), {}
    for piece in supply.evaluations(states, sets, experiment.kinds if kinds is None else kinds):
        found = experiment.program.evaluate(*piece.arguments, kinds=piece.kinds)
        losses |= {kind: own['loss'] for kind, own in found.items()}
    return experiment, states, jax.device_get((supply.whole(states), losses))
