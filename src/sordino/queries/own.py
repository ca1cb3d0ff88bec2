"""Own questions: those made of Sordino's classes alone, whose sensitivities and exact answers are proved and tested.

A class of the caller's would state its own sensitivity and be handed exact tables: what it returned would be
post-processing of nothing.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.domain import Domain
from sordino.errors import QuestionRefused
from sordino.source import PrivateTable, PublicTable

__all__ = ["refuse_foreign"]

_PLAIN = frozenset({int, str, bool, float, bytes, type(None), Fraction, Decimal, datetime.date, datetime.datetime})
_PLAIN |= {Domain, PrivateTable, PublicTable}  # declarations, which the curator replaces by its own


def refuse_foreign(question: object) -> None:
    """Raise QuestionRefused unless a question and all its parts are of Sordino's own classes, or plain values.

    >>> class Mine:
    ...     pass
    >>> refuse_foreign(Mine())
    Traceback (most recent call last):
    sordino.errors.QuestionRefused: a question is made of Sordino's own classes, and Mine is none of them: ...
    """
    kind = type(question)
    if kind in _PLAIN:
        return
    parts: Iterable[Any] | None = None
    if kind in (tuple, list, set, frozenset):
        parts = question  # type: ignore[assignment]  # one of these four, which mypy cannot see
    elif kind is dict:
        parts = (part for pair in question.items() for part in pair)  # type: ignore[attr-defined]
    elif kind.__module__ == "numpy" and getattr(question, "dtype", np.dtype(object)).kind != "O":
        parts = ()
    elif is_dataclass(kind) and _is_own(kind):
        parts = (getattr(question, field.name) for field in fields(kind))
    if parts is None:
        raise QuestionRefused(
            f"a question is made of Sordino's own classes, and {kind.__name__[:60]} is none of them: its sensitivity has no "
            "proof here; use sd.count, sd.sum and the like, or MarginalQuery, Distances, MagnitudeHistogram, TailCount and "
            "Contributions"
        )
    for part in parts:
        if type(part) not in _PLAIN:
            refuse_foreign(part)


def _is_own(kind: type) -> bool:
    """Return whether a class stands in one of Sordino's modules under its own name."""
    module = sys.modules.get(kind.__module__) if kind.__module__.startswith("sordino.") else None
    return module is not None and getattr(module, kind.__name__, None) is kind
