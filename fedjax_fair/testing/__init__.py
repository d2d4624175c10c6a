"""What our tests and other people's share: a tiny federation, a tiny model, and scripted rounds."""

from fedjax_fair.testing.scripted import Scripted, scripted_rounds
from fedjax_fair.testing.tiny import tiny_federation, tiny_mlp

__all__ = ['Scripted', 'scripted_rounds', 'tiny_federation', 'tiny_mlp']
