"""Lazy exports: a package states what it offers as imports for type checkers, and each is imported when it is first used."""

from __future__ import annotations

import difflib
import importlib
import re
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

_FEATURES: dict[str, str] = {}


def register_features(features: Mapping[str, str]) -> None:
    """Say in which module each function lives that lower packages call without importing it.

    `features` maps the name of a function to its module. A lower package offers what a higher one makes: a connection
    its page for a board, `connect` a connection to a server. It may not import them; `sordino/__init__` names them here.
    """
    _FEATURES.update(features)


def load_feature(name: str) -> Any:
    """Return a registered function, imported now. Raises KeyError for a name that nobody registered."""
    return getattr(importlib.import_module(_FEATURES[name]), name)


# `from module import name as name` is the form in which type checkers know a re-export.
_EXPORT = re.compile(r"^    from (\S+) import \(?\s*(\w+) as \2,?\s*\)?$", re.MULTILINE)


def export_lazily(
    package: str,
    *,
    removed: Mapping[str, str] = MappingProxyType({}),
    meant: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package that offers what it imports `if TYPE_CHECKING:`.

    Those imports are what type checkers read, and are never run: they are read here as text, so each name stands once, and
    the source file must be there. `removed` maps a name that was offered once to what to use instead,
    `meant` one that others have. Raises AttributeError,
    as a plain module does, for any other name, with those words for a removed one.
    """
    spec: Any = sys.modules[package].__spec__
    source = spec.loader.get_data(spec.origin).decode("utf-8").replace("\r\n", "\n")
    modules = {name: module for module, name in _EXPORT.findall(source)}
    known = sorted(modules)

    def load(name: str) -> Any:
        if name in modules:
            module = modules[name]
            if module == package:  # a sub-package, or a module of it
                found: Any = importlib.import_module(f"{package}.{name}")
            else:
                found = getattr(importlib.import_module(module), name)
        elif name in removed:
            raise AttributeError(f"{package}.{name} was removed: {removed[name]}")
        else:
            near = [] if name.startswith("_") else difflib.get_close_matches(name, known, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            hint = f": {meant[name]}" if name in meant else hint
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        setattr(sys.modules[package], name, found)
        return found

    return load, lambda: list(known), known
