"""When code from outside may register a law, an event, a mechanism, a procedure, a synthesizer, an engine or a protocol.

Registering is code in the curator's own process, before its first table is opened: never an entry point, a project file,
SQL, a request or a stored record. So what a plan means does not change between two questions, and no code that a question
or a visitor brings along can change it.
"""

from __future__ import annotations

from typing import Any

from sordino.core.errors import DeclarationError

_first_table = ""  # nothing until a table is opened


def is_own(thing: Any) -> bool:
    """Return whether a class or a function is Sordino's own."""
    return str(getattr(thing, "__module__", "")).startswith("sordino.")


def check_registering(thing: Any, what: str) -> None:
    """Raise DeclarationError where code from outside registers after the first table was opened; `what` names it.

    Sordino's own modules register what they hold when they are imported, which is when it is first used.
    """
    if _first_table and not is_own(thing):
        raise DeclarationError(
            f"{what} cannot be registered any more: table {_first_table!r} is open in this process. Register in the curator's "
            "own code before the first table is opened: before sd.protect(...) and sd.connect(...), in a new process"
        )


def name_provider(thing: Any, what: str, module: str, version: str) -> str:
    """Return whose code something is: nothing for Sordino's own; raises DeclarationError for other code without a name."""
    if not is_own(thing) and not (module and version):
        raise DeclarationError(
            f"{what} that is not Sordino's own states its module and version, such as module='mypackage', version='1.0': "
            "plans and releases name them"
        )
    return f"{module} {version}".strip()


def close_registries(table: str) -> None:
    """End registering from outside: this table is opened."""
    global _first_table
    _first_table = _first_table or table
