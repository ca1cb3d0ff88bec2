"""How far rows lie from one another, over the columns that tables share, and what a publication of rows claims to lose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.loss import ApproxDP, Loss, PureDP

if TYPE_CHECKING:
    import pyarrow as pa

Floats = np.ndarray[Any, np.dtype[np.float64]]
Released = tuple["pa.Table", "Loss | None"]  # rows that were published, and the loss they claim; None: not private
_BLOCK = 256


def row_distances(rows: pa.Table, tables: Sequence[pa.Table], columns: Sequence[str]) -> list[Floats]:
    """Return for each table the distance of each of its people from each published row, on one scale.

    A column counts 1 where it differs, numbers by how much of the range of all; a number that is missing on one side
    counts 1, one that is missing on both 0.
    """
    sizes = [len(t) for t in tables]
    found = np.zeros((sum(sizes), len(rows)))
    for name in columns:
        people = [cell for table in tables for cell in table.column(name).to_pylist()]
        a, b, span = _places(people, rows.column(name).to_pylist())
        for start in range(0, len(a), _BLOCK):
            apart = np.abs(a[start : start + _BLOCK, None] - b[None, :])
            if span:
                one = np.isnan(a)[start : start + _BLOCK, None] != np.isnan(b)[None, :]
                found[start : start + _BLOCK] += np.where(one, 1.0, np.nan_to_num(apart) / span)
            else:
                found[start : start + _BLOCK] += apart > 0
    return np.split(found, np.cumsum(sizes)[:-1])


def _places(ours: Sequence[Any], theirs: Sequence[Any]) -> tuple[Floats, Floats, float]:
    """Return cells as numbers and how far they reach; as codes, and 0, where they are no numbers."""
    stated = [x for x in (*ours, *theirs) if x is not None]
    if stated and all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in stated):
        a, b = (np.array([math.nan if x is None else x for x in side], dtype=np.float64) for side in (ours, theirs))
        return a, b, max(float(max(stated) - min(stated)), 1e-300)
    codes: dict[Any, int] = {}
    a, b = (np.array([codes.setdefault(x, len(codes)) for x in side], dtype=np.float64) for side in (ours, theirs))
    return a, b, 0.0


def common_columns(*tables: pa.Table) -> list[str]:
    """Return the columns that all tables have."""
    shared = [name for name in tables[0].column_names if all(name in t.column_names for t in tables)]
    if not shared or not all(len(t) for t in tables):
        raise DeclarationError("the release, the members and the others need rows, and columns of the same names")
    return shared


def read_claim(loss: Loss | None) -> tuple[float | None, float]:
    """Return the epsilon and delta that a release claims, None for one that is not private."""
    if loss is None:
        return None, 0.0
    if not isinstance(loss, (PureDP, ApproxDP)):
        raise DeclarationError("state a release's loss as sd.PureDP(epsilon), sd.ApproxDP(epsilon, delta), or None")
    amounts = loss.amounts()
    return float(amounts["epsilon"]), float(amounts.get("delta", 0))
