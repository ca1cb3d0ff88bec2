"""How far published rows lie from the closest row they were made of, and from the closest one of others: NOT PRIVATE."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.text_table import columns_of
from sordino.lab.audit.attack import Attack, Attacked
from sordino.lab.audit.row_distances import Released, common_columns, read_claim, row_distances

if TYPE_CHECKING:
    import pyarrow as pa

_LEVELS = (0.05, 0.25, 0.5)
_HEAD = ("release", "loss", "copies", "of others", *(f"{q:.0%} within" for q in _LEVELS), "50%, of others")
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Closeness:
    """Hold, of one release, the distances of its rows from the closest member and the closest other, sorted."""

    release: str
    epsilon: float | None
    delta: float
    members: tuple[float, ...]
    others: tuple[float, ...]
    nearer: float

    def copies(self) -> tuple[float, float]:
        """Return the share of rows that are copies of a member, and of another one."""
        a, b = (float((np.array(side) <= _TIE).mean()) for side in (self.members, self.others))
        return a, b

    def quantiles(self) -> tuple[float, ...]:
        """Return how far the closest 5%, 25% and half of rows lie from a member at the most, and half from another one."""
        return (*(float(np.quantile(self.members, q)) for q in _LEVELS), float(np.median(self.others)))


@dataclass(frozen=True, slots=True, repr=False)
class ClosestRecords:
    """Hold the closest records of several releases of the same `members` rows, beside `others` rows that were in none."""

    results: tuple[Closeness, ...]
    members: int
    others: int

    @property
    def attack(self) -> Attack:
        """How many published rows are closer to a member than to any other one, beside what theory allows.

        Theorem: where people are parted into n members and m others by lot, what is (epsilon, delta)-private under replace
        publishes a row whose closest person (ties by lot) is a member with probability at most
        n (e^epsilon + m delta) / (n e^epsilon + m).
        Proof: let q be that probability. People are fixed, so who is closest is a function of what is published. Parting
        by lot, with x a member, and then putting somebody in its place by lot, parts by lot with x another one: a
        replacement, so P(x is closest | member) <= e^epsilon P(x is closest | other) + delta. Sum over all n + m people:
        q / n <= e^epsilon (1 - q) / m + delta. Randomized response that publishes a person, each member e^epsilon times
        as often as each other one, attains it at delta 0.
        """
        n, m = self.members, self.others
        found = []
        for one in self.results:
            allowed = 1.0
            if one.epsilon is not None and one.epsilon < math.log(1e300):
                allowed = min(1.0, n * (math.exp(one.epsilon) + m * one.delta) / (n * math.exp(one.epsilon) + m))
            found.append(Attacked(one.release, one.epsilon, one.nearer, n / (n + m), allowed))
        words = "published rows that lie closer to a member than to anyone else"
        return Attack("Distance to the closest record", words, tuple(found))

    def table(self) -> tuple[tuple[str, ...], list[list[str]]]:
        """Return the distances as a table: its head, and a line a release."""
        rows = []
        for one in self.results:
            loss = "not private" if one.epsilon is None else f"epsilon {one.epsilon:g}"
            shares, far = (f"{x:.1%}" for x in one.copies()), (f"{x:.3f}" for x in one.quantiles())
            rows.append([one.release, loss, *shares, *far])
        return _HEAD, rows

    def describe(self) -> str:
        """Return the distances in lines."""
        head, rows = self.table()
        words = (
            f"Distance of published rows from the closest of {self.members:,} members, and of {self.others:,} others"
        )
        return "\n".join(
            [f"{words}, NOT PRIVATE:", *(f"  {x}" for x in columns_of(head, rows, right=[False, False, *[True] * 6]))]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {**asdict(self), "attack": self.attack.to_dict(), "private": False}

    def __repr__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        return f"<p><b>NOT PRIVATE.</b></p>{self.html_table()}"

    def html_table(self) -> str:
        """Return the table in HTML, escaped."""
        head, rows = self.table()
        lines = "".join(f"<tr>{''.join(f'<td>{escape(c)}</td>' for c in row)}</tr>" for row in rows)
        return f"<table><tr>{''.join(f'<th>{escape(c)}</th>' for c in head)}</tr>{lines}</table>"


def closest_records(releases: Mapping[str, Released], members: pa.Table, outsiders: pa.Table) -> ClosestRecords:
    """Measure how far each published row lies from the closest member, and from the closest other one of the same kind.

    A column counts 1 where it differs, numbers by how much of their range. Rows that lie closer to members than to others
    were copied, or nearly: it is not enough that they lie far from members, since everybody of one kind may be alike. The
    bound of `ClosestRecords.attack` wants people parted by lot. It reads true rows and says what they are near: NOT PRIVATE.

    Raises DeclarationError for tables without rows or common columns.
    """
    if not releases:
        raise DeclarationError("closest_records needs a release: a name, its rows and its loss, or None")
    found = []
    for name, (rows, loss) in releases.items():
        epsilon, delta = read_claim(loss)
        columns = common_columns(rows, members, outsiders)
        inside, outside = row_distances(rows, (members, outsiders), columns)
        near, far = (tuple(np.sort(d.min(axis=0)).tolist()) for d in (inside, outside))
        found.append(Closeness(name, epsilon, delta, near, far, _share_nearer(inside, outside)))
    return ClosestRecords(tuple(found), len(members), len(outsiders))


def _share_nearer(inside: Any, outside: Any) -> float:
    """Return the share of rows whose closest person is a member; several who are as close share the row."""
    least = np.minimum(inside.min(axis=0), outside.min(axis=0)) + _TIE
    ours, theirs = ((d <= least).sum(axis=0) for d in (inside, outside))
    return float((ours / (ours + theirs)).mean())
