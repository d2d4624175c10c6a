"""Plans: what a run would take on a machine that need not be there."""

from fedjax_fair.planning.plan import Plan, in_words_of, plan
from fedjax_fair.planning.topologies import KINDS, Topology, topology

__all__ = ['KINDS', 'Plan', 'Topology', 'in_words_of', 'plan', 'topology']
