"""Rules for code from outside that registers a law, an event, a mechanism, a procedure, a synthesizer, an engine or a protocol.

Registering is code in the curator's own process, before its first table is opened: never an entry point, a project file,
SQL, a request or a stored record. So the meaning of a plan does not change between two questions, and nothing that comes with
a question or a visitor can change it.
"""

from __future__ import annotations

from typing import Any

from sordino.core.errors import DeclarationError

# empty until a table is opened
_first_table = ""


def is_own(thing: Any) -> bool:
    """Return whether a class or a function is Sordino's own."""
    return str(getattr(thing, "__module__", "")).startswith("sordino.")


def check_registering(thing: Any, what: str) -> None:
    """Raise DeclarationError where code from outside registers after the first table was opened; `what` names it.

    Sordino's own modules register their classes when they are imported, which may be later.
    """
    if _first_table and not is_own(thing):
        raise DeclarationError(
            f"{what} cannot be registered any more: table {_first_table!r} is open in this process. Register in the curator's "
            "own code before the first table is opened: before sd.protect(...) and sd.connect(...), in a new process"
        )


def name_provider(thing: Any, what: str, module: str, version: str) -> str:
    """Return the module and version of code from outside, "" for Sordino's own; raises DeclarationError if they are missing."""
    if not is_own(thing) and not (module and version):
        raise DeclarationError(
            f"{what} that is not Sordino's own states its module and version, such as module='mypackage', version='1.0': "
            "plans and releases name them"
        )
    return f"{module} {version}".strip()


def close_registries(table: str) -> None:
    """End registering from outside, as this table is opened."""
    global _first_table
    _first_table = _first_table or table
