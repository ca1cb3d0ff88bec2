"""Refusals in the words of the command line: the arguments of a Python call become the flags of a command."""

from __future__ import annotations

import re

__all__ = ["in_flags"]

_ARGUMENTS = (
    "epsilon|delta|rho|error|confidence|method|ladder|columns|csv|encoding|quote|delimiter|table|budget|query|"
    "attacker_prior|max_posterior|test_level|max_power|relative_risk|risk|share|scale"
)
_NAMED = rf"({_ARGUMENTS})=(?:\.\.\.)?(?=([^\s,;)]?))"
_GUESSED = r"\bassume_(rows|keys)\b=?|\bgive n\b"
_WORDS = re.compile(rf"\w\([^()]*\)|(?<![\w.-]){_NAMED}|{_GUESSED}")  # the first: a call is quoted as it is


def in_flags(said: str) -> str:
    """Return a message with flags for arguments.

    >>> in_flags("give epsilon= and delta=, such as delta=1e-6, or assume_rows")
    'give --epsilon and --delta, such as --delta 1e-6, or --assume-rows'
    >>> in_flags("state epsilon=..., or PrivacyUnit(column, max_rows=...)")
    'state --epsilon ..., or PrivacyUnit(column, max_rows=...)'
    """
    return _WORDS.sub(_flag, said)


def _flag(found: re.Match[str]) -> str:
    name, follows, guess = found.groups()
    if name is not None:
        return f"--{name}".replace("_", "-") + (" ..." if found.group().endswith("...") else " " if follows else "")
    if guess is not None:
        return f"--assume-{guess}"
    return "give --rows" if found.group() == "give n" else found.group()
