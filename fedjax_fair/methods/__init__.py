"""Federated methods as small sets of hooks, and the registry of recipes."""

from fedjax_fair.methods.recipes import RECIPES, defaults, make_methods, resolve_hyper, summary

__all__ = ['RECIPES', 'defaults', 'make_methods', 'resolve_hyper', 'summary']
