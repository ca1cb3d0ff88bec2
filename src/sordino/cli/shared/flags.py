"""How the command line spells the arguments that errors name."""

from __future__ import annotations

# Flags that are named otherwise than the argument of the library.
_FLAGS = {"n": "rows"}


def as_flag(name: str, followed: bool) -> str:
    """Return the flag of an argument, and a blank where a value follows.

    >>> as_flag("assume_rows", False), as_flag("delta", True)
    ('--assume-rows', '--delta ')
    """
    return f"--{_FLAGS.get(name, name)}".replace("_", "-") + " " * followed
