"""Lazy exports: a package lists its exports as imports for type checkers, and each is imported when it is first used."""

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
    """Register the modules of functions that lower packages call without importing them.

    `features` maps the name of a function to its module. A lower package may offer what a higher one makes: a connection
    its page for a board, an expression the aggregates of itself. It may not import them; `sordino/__init__` names here those
    that it does not export: the public ones stand among its exports.
    """
    _FEATURES.update(features)


def load_feature(name: str) -> Any:
    """Return a registered function, or what `sordino` itself exports by this name, imported now; AttributeError for neither."""
    return getattr(importlib.import_module(_FEATURES.get(name, "sordino")), name)


# `from module import name as name` is the form in which type checkers know a re-export.
_EXPORT = re.compile(r"^    from (\S+) import \(?\s*(\w+) as \2,?\s*\)?$", re.MULTILINE)


def export_lazily(
    package: str,
    *,
    removed: Mapping[str, str] = MappingProxyType({}),
    meant: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package that exports what it imports `if TYPE_CHECKING:`.

    Type checkers read those imports, and they are never run: they are parsed here as text, so each name is written once, and the
    source file must exist. `removed` maps a name that was exported once to what to use instead, and `meant` a
    name that others have to ours. Raises AttributeError, as a plain module does, for any other name, with that advice for a
    removed one.
    """
    spec: Any = sys.modules[package].__spec__
    source = spec.loader.get_data(spec.origin).decode("utf-8").replace("\r\n", "\n")
    modules = {name: module for module, name in _EXPORT.findall(source)}
    known = sorted(modules)

    def load(name: str) -> Any:
        if name in modules:
            module = modules[name]
            # the package exports a sub-package, or a module of its own
            if module == package:
                value: Any = importlib.import_module(f"{package}.{name}")
            else:
                value = getattr(importlib.import_module(module), name)
        elif name in removed:
            raise AttributeError(f"{package}.{name} was removed: {removed[name]}")
        else:
            near = [] if name.startswith("_") else difflib.get_close_matches(name, known, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            hint = f": {meant[name]}" if name in meant else hint
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        # from now on it is found without this function
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: list(known), known
