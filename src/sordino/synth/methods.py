"""The synthesizers by name: the one place that lists them, for Python, the command line, servers and the workbench.

A synthesizer from outside joins by `register_synthesizer`, in the curator's own process.
"""

from __future__ import annotations

import importlib
from typing import Any

from sordino.core.errors import DeclarationError, nearest

ALL_PAIRS = "all 2-way"

# Text names a class that is imported when it is first used, since the command line lists the names without numpy.
METHODS: dict[str, str | type[Any]] = {
    "auto": "sordino.synth.fitting.Automatic",
    "independent": "sordino.synth.fitting.Independent",
    "tree": "sordino.synth.fitting.Tree",
    "mst": "sordino.synth.fitting.MST",
    "aim": "sordino.synth.fitting.AIM",
    "marginals": "sordino.synth.fitting.Marginals",
}


def register_synthesizer(name: str, fitter: type[Any]) -> None:
    """Add a synthesizer from outside: a frozen dataclass with `fit(source, *, epsilon, delta, rho, rng)` and a `label`.

    Its fields are among those of a `FitRequest`: columns, constraints, cap, workload, assume_rows, and cliques for
    marginals. It sees a Queryable only, so its privacy is the curator's. Raises DeclarationError where the name is taken.
    """
    if name in METHODS:
        raise DeclarationError(f"{name!r}: a synthesizer of this name exists; choose another name")
    METHODS[name] = fitter


def load_method(name: str) -> type[Any]:
    """Return the class of a synthesizer; raises DeclarationError for another name."""
    if name not in METHODS:
        raise DeclarationError(f"has no such value; {nearest(name, METHODS)}", key="method")
    entry = METHODS[name]
    if not isinstance(entry, str):
        return entry
    module, _, attribute = entry.rpartition(".")
    fitter: type[Any] = getattr(importlib.import_module(module), attribute)
    return fitter
