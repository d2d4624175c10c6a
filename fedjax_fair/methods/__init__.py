"""Federated methods as small sets of hooks. Importing this package registers them as recipes."""

import importlib

from fedjax_fair.methods.recipes import defaults, make_methods, resolve_hyper, summary
from fedjax_fair.registry import recipes as RECIPES

__all__ = ['RECIPES', 'defaults', 'make_methods', 'resolve_hyper', 'summary']

MODULES = (
    'fedavg',
    'fedprox',
    'scaffold',
    'fednova',
    'qffl',
    'afl',
    'fairfed',
    'fedga',
    'fedce',
    'fedism',
    'personal',
    'fedtilt',
    'ditto',
    'fedbn',
    'moon',
    'harmofl',
    'feddyn',
    'fedproto',
    'fedfv',
    'fedheal',
    'fedld',
    'fedgh',
    'fedpac',
    'fedopt',
)  # in the order in which recipes are listed
for name in MODULES:
    importlib.import_module(f'{__name__}.{name}')
