"""PhysicalColumn: how a database or a cluster stores one column, as its catalog states it. It knows no cells."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PhysicalColumn:
    """How one column is stored: the kind, by a name that engines share, and of an array the kind of its items.

    `digits` of a decimal, where they are stated: all, and after the point.
    """

    kind: str
    item: str = ""
    digits: tuple[int, int] | None = None
