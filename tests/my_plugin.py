"""A plug-in file that registers a recipe, a model and a scenario."""

MINE = '''
from typing import Annotated

from helper_beside_it import MU
from fedjax_fair.methods import make_methods
from fedjax_fair.options import at_least
from fedjax_fair.registry import register

@register.recipe(section='of my own')
def mine(strength: Annotated[float, 'of the pull', at_least(0)] = MU):
    """FedProx under a name of my own.

    With a long story.
    """
    if strength == 13:
        raise ValueError('13 brings bad luck')
    return make_methods('fedprox', {'fedprox.mu': strength})

@register.model
def my_model(num_classes: int, width: Annotated[int, 'hidden units', at_least(1)] = 8):
    """A small network."""
    from fedjax_fair.models import make_model
    return make_model('mlp', num_classes, widths=(width,))

@register.scenario
def my_points(data_seed: int, times: Annotated[float, 'how much larger the points are', at_least(1)] = 1.0):
    """Points of my own."""
    import dataclasses
    from fedjax_fair.data import gaussian_toy
    found = gaussian_toy(1, data_seed)
    return dataclasses.replace(found, name='my_points', x=found.x * found.x.dtype.type(times))
'''
