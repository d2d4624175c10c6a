"""Libraries of medical formats, which only those need who have such files."""

from __future__ import annotations

import importlib
from types import ModuleType


def library(name: str, where: str) -> ModuleType:
    """A library of the extra ``medical``; ``where`` is the flag that needs it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ValueError(f"{where} needs {name.partition('.')[0]}: pip install 'fedjax-fair[medical]'") from None
