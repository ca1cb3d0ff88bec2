"""How a declaration fits its data, column by column, as text and as a page: NOT PRIVATE, for the curator's eyes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sordino.core.domain import Category, Domain
from sordino.core.release import align
from sordino.reporting.picture import render

if TYPE_CHECKING:
    from sordino.ask.curator.project_check import DataCheck

# What no comparison of cells with a declaration can see.
NOT_LOOKED_AT = (
    "that bounds and values are public knowledge, and not copied from the data",
    "that an identifier is one person, that max_rows is the most that anyone has, and that no row stands twice",
    "that cells mean what the declaration calls them: units, codes, days before months",
    "who may read the files of the source and of the ledger",
)
_HEAD = ("column", "type", "read", "clipped", "missing", "why missing")


@dataclass(frozen=True, slots=True)
class ColumnFit:
    """How many cells of a column were read, clipped to its bounds, and missing, and why; all exact: NOT PRIVATE.

    `first` names the lines of a CSV file, or the rows of another source, whose cells are the first that do not fit.
    """

    column: str
    kind: str
    read: int
    clipped: int
    missing: int
    why: str
    first: str


def fit_columns(check: DataCheck, domain: Domain) -> list[ColumnFit]:
    """Return how each declared column fits the data."""
    fits = []
    for name, counts in check.columns.items():
        column = domain[name]
        # a value that is not declared is missing, unless the column counts it as its other value
        undeclared = 0 if isinstance(column, Category) and column.other is not None else counts.undeclared
        reasons = {
            "empty": counts.missing,
            f"no {type(column).__name__.lower()}": counts.unreadable,
            "not declared": undeclared,
        }
        missing = sum(reasons.values())
        why = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
        kind = type(column).__name__.lower()
        first = ", ".join(map(str, counts.first))
        fits.append(ColumnFit(name, kind, check.rows - missing, counts.below + counts.above, missing, why, first))
    return fits


def fit_lines(check: DataCheck, domain: Domain) -> Iterator[str]:
    """Yield the table of `fit_columns` as lines of text."""
    rows = [
        [fit.column, fit.kind, f"{fit.read:,}", f"{fit.clipped:,}", f"{fit.missing:,}", fit.why, fit.first]
        for fit in fit_columns(check, domain)
    ]
    yield from align([_head(check), *rows])


def _head(check: DataCheck) -> list[str]:
    return [*_HEAD, "first rows" if check.lines is None else "first lines"]


def fit_page(checks: Mapping[str, DataCheck], domains: Mapping[str, Domain], *, mark: str) -> str:
    """Return how the tables of a project fit their data as one page of HTML, which loads nothing."""
    tables = [
        (
            name,
            check,
            _head(check),
            fit_columns(check, domains[name]),
            [(m.key, m.count, m.what, m.change) for m in check.misfits],
        )
        for name, check in checks.items()
    ]
    return render("data_check.html", tables=tables, mark=mark, not_looked_at=NOT_LOOKED_AT)
