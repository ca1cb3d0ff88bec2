"""What the sensitivity laboratory found, in words: a change with its witness."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sordino.lab.sensitivity.neighborhoods import list_values
from sordino.lab.sensitivity.universe import format_value

if TYPE_CHECKING:
    from sordino.lab.sensitivity.empirical import Change


def change_entries(change: Change, neighbors: str, public: str) -> list[tuple[str, str]]:
    """Return the labelled texts of a change: its relation, the two tables of its witness, what moved, and what is public."""
    pair = zip(change.witness, change.answers, strict=True)
    tables = [f"{list_values(table, 12)}  answers {format_value(answer)}" for table, answer in pair]
    first, second = (Counter(table) for table in change.witness)
    gone, come = (sorted(left.elements()) for left in (first - second, second - first))
    moves = [f"{list_values(t, 8)} {verb}" for t, verb in ((gone, "out"), (come, "in")) if t]
    attained = "" if change.exact else f"; this pair attains {change.attained:.10g}"
    return [
        ("neighbors", f"{neighbors}, {change.because}"),
        ("witness", tables[0]),
        ("", tables[1]),
        ("moved", f"{'; '.join(moves or ['nothing moves'])}{attained}"),
        ("public", public),
    ]
