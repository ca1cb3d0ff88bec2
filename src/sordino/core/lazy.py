"""Lazy exports: a package names what it offers, and each module is imported when one of its names is first used."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
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


def export_lazily(
    package: str,
    exports: Mapping[str, str],
    *,
    packages: Sequence[str] = (),
    removed: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package.

    `exports` maps a module to the names that it offers, separated by blanks; `packages` are sub-packages and modules
    that are offered whole; `removed` maps a name that was offered once to what to use instead. Raises AttributeError, as
    a plain module does, for any other name, with those words for a removed one.
    """
    modules = {name: module for module, names in exports.items() for name in names.split()}
    known = sorted([*modules, *packages])

    def load(name: str) -> Any:
        if name in modules:
            found = getattr(importlib.import_module(modules[name]), name)
        elif name in packages:
            found = importlib.import_module(f"{package}.{name}")
        elif name in removed:
            raise AttributeError(f"{package}.{name} was removed: {removed[name]}")
        else:
            near = [] if name.startswith("_") else difflib.get_close_matches(name, known, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        setattr(sys.modules[package], name, found)
        return found

    return load, lambda: list(known), known
