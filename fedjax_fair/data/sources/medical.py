"""Libraries for medical file formats, imported only where such files are read."""

from __future__ import annotations

import importlib
from types import ModuleType

from fedjax_fair.errors import DataError


def library(name: str, where: str) -> ModuleType:
    """A library of the extra ``medical``; ``where`` begins the error message."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise DataError(f"{where} needs {name.partition('.')[0]}: pip install 'fedjax-fair[medical]'") from None
