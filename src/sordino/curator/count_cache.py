"""CountCache: exact sparse counts by declared keys, kept for one session so that each grouping is scanned once.

They never leave the curator without noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sordino.curator.data_access import DataAccess
from sordino.domain import Domain
from sordino.queries.adaptive.marginal import ContingencyTable, Grouping, SparseCounts, select_groupings

__all__ = ["CountCache"]

_MOST_SETS = 19  # grouping sets in one scan: each needs a hash table of its own


class CountCache:
    """Count rows by the groupings of tables, each once."""

    def __init__(self, rows: DataAccess, domain: Domain) -> None:
        self._rows = rows
        self._domain = domain
        self._kept: dict[Grouping, SparseCounts] = {}

    def count(self, tables: Sequence[ContingencyTable]) -> list[SparseCounts]:
        """Return the sparse exact counts of each table, by raw keys (before codes)."""
        groupings = [table.grouping() for table in tables]
        orders = [tuple(sorted(g, key=repr)) for g in groupings]  # (a, b) and (b, a) as two sets would count twice
        wanted = list(dict.fromkeys(o for o in orders if o not in self._kept))
        for start in range(0, len(wanted), _MOST_SETS):
            self._scan(wanted[start : start + _MOST_SETS])
        found: list[SparseCounts] = []
        for grouping, order in zip(groupings, orders, strict=True):
            keys, counts = self._kept[order]
            found.append((keys[:, [order.index(axis) for axis in grouping]], counts))
        return found

    def clear(self) -> None:
        """Forget all counts."""
        self._kept.clear()

    def _scan(self, groupings: Sequence[Grouping]) -> None:
        """Count several groupings in one scan; rows without a key in one of a grouping's axes are left out of it."""
        found = self._rows.run(select_groupings(groupings, self._rows.primitives(), self._domain))
        axes = list(dict.fromkeys(axis for grouping in groupings for axis in grouping))
        codes = [_codes(found.column(f"k{i}")) for i in range(len(axes))]
        left_out = _codes(found.column("left_out"))
        counts = _codes(found.column("t0"))
        for grouping in groupings:
            places = [axes.index(axis) for axis in grouping]
            mask = sum(1 << (len(axes) - 1 - i) for i in range(len(axes)) if i not in places)
            rows = np.flatnonzero(left_out == mask)
            keys = np.stack([codes[i][rows] for i in places], axis=1)
            whole = (keys >= 0).all(axis=1)
            self._kept[grouping] = (keys[whole], counts[rows][whole])


def _codes(column: Any) -> Any:
    """Return a column of whole numbers as int64, -1 for NULL."""
    return column.combine_chunks().cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
