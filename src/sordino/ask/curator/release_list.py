"""Past releases as a list that a person can read in a notebook."""

from __future__ import annotations

from typing import Any

from sordino.core.notebook_tables import align_cells, html_table
from sordino.core.release import Release

_HEAD = ("charge", "cost", "question", "answer")


class ReleaseList(list[Release]):
    """Past releases, oldest first: a list like any other that shows as a table."""

    def _cells(self) -> list[tuple[str, ...]]:
        return [(r.charge or "", r.cost.describe(), r.question, _say_answer(r)) for r in self]

    def __str__(self) -> str:
        return align_cells(_HEAD, self._cells())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("..." if cycle else str(self))

    def _repr_html_(self) -> str:
        return html_table(f"{len(self)} past releases", _HEAD, self._cells())


def _say_answer(release: Release) -> str:
    rows = release.display_rows(0.95)
    if not release.parts:
        return "; ".join(release.notes) or "a model"
    return " ".join(rows[0]) if len(rows) == 1 else f"{len(rows)} rows"
