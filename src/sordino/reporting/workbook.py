"""Releases as one Excel workbook: a sheet of contents, and a sheet for each with its notes. Released things alone."""

from __future__ import annotations

import datetime
import importlib.util
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sordino.core.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.core.release import Release

# Excel's own limits: characters of a sheet's name, rows of a sheet, characters of a cell.
_NAME_LENGTH = 31
_MOST_ROWS = 1_048_576
_MOST_CHARACTERS = 32_767
# Excel's calendar begins in 1900, with a leap day in February that there was not; its numbers are doubles.
_FIRST_DAY = datetime.date(1900, 3, 1)
_LARGEST_WHOLE = 2**53
# The widest column, in characters.
_WIDEST = 60


@dataclass(frozen=True, slots=True)
class Sheet:
    """A sheet: its name, the title above its table, the table, and the lines below it. `width` is the fewest characters."""

    name: str
    title: str
    table: pa.Table
    notes: tuple[str, ...] = ()


def encode_workbook_of(releases: Sequence[Release], *, confidence: float) -> bytes:
    """Return releases as the bytes of a workbook; each number stands beside the ends of its interval.

    Raises SourceError without the extra `excel`.
    """
    sheets = [release_sheet(release, place, confidence=confidence) for place, release in enumerate(releases, start=1)]
    return encode_workbook(sheets, title=describe_total(releases))


def release_sheet(release: Release, place: int, *, confidence: float) -> Sheet:
    """Return the sheet of one release, named by its place among several."""
    seal = () if release.private else ("NOT PRIVATE: its noise was seeded",)
    paid = () if release.model is not None or release.practice else (f"charge {release.charge}",)
    facts = (
        *seal,
        *release.remarks,
        f"intervals at {100 * confidence:g}%",
        f"cost: {release.cost.describe()}; privacy unit: {release.privacy_unit}, {release.neighbors.replace('_', '/')}",
        *paid,
        f"answered {release.time}",
    )
    table = release.to_arrow(intervals=True, confidence=confidence)
    return Sheet(f"{place} {_short(release)}", release.question, table, facts)


def describe_total(releases: Sequence[Release]) -> str:
    """Return how many answers there are, and what they cost in all: the sum of what each was charged.

    It sums what the ledger charged for each, in the currency of the budget.
    """
    from sordino.core.loss import format_number

    totals: dict[str, Any] = {}
    for release in releases:
        if release.model is None and not release.practice:
            for name, amount in release.cost.amounts().items():
                totals[name] = totals.get(name, 0) + amount
    count = f"{len(releases):,} answer{'s' * (len(releases) != 1)}"
    cost = ", ".join(f"{name} {format_number(amount)}" for name, amount in totals.items() if amount or len(totals) == 1)
    return f"{count}, {cost} in all" if cost else f"{count}, at no cost"


def need_workbooks() -> None:
    """Raise SourceError without the extra `excel`."""
    if importlib.util.find_spec("xlsxwriter") is None:
        raise SourceError("a workbook needs xlsxwriter: pip install 'sordino[excel]'")


def encode_workbook(sheets: Sequence[Sheet], *, title: str) -> bytes:
    """Return sheets as the bytes of a workbook, with a sheet of contents before several.

    A text is written as text, also one that begins with =: nothing in an answer becomes a formula. Raises SourceError
    without the extra `excel`, and for a table with more rows than a sheet has.
    """
    need_workbooks()
    import xlsxwriter

    sink = io.BytesIO()
    options = {
        "in_memory": True,
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
        "default_date_format": "yyyy-mm-dd",
        "remove_timezone": True,
        "nan_inf_to_errors": True,
    }
    names = _distinct([sheet.name for sheet in sheets])
    with xlsxwriter.Workbook(sink, options) as book:
        book.set_properties({"title": title, "comments": "made by Sordino"})
        # a fixed day, so that equal answers make equal files
        book.set_properties({"created": datetime.datetime(2000, 1, 1)})
        bold = book.add_format({"bold": True})
        moment = book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
        if len(sheets) > 1:
            _write_contents(book.add_worksheet("Contents"), sheets, names, title, bold)
        for sheet, name in zip(sheets, names, strict=True):
            _write_sheet(book.add_worksheet(name), sheet, bold, moment)
    return sink.getvalue()


def _write_contents(page: Any, sheets: Sequence[Sheet], names: Sequence[str], title: str, bold: Any) -> None:
    page.write_string(0, 0, title, bold)
    page.write_row(2, 0, ["sheet", "rows", "question"], bold)
    for row, (sheet, name) in enumerate(zip(sheets, names, strict=True), start=3):
        quoted = name.replace("'", "''")
        page.write_url(row, 0, f"internal:'{quoted}'!A1", string=name)
        page.write_number(row, 1, sheet.table.num_rows)
        page.write_string(row, 2, sheet.title[:_MOST_CHARACTERS])
    page.set_column(0, 0, max(len(name) for name in names) + 2)
    page.set_column(2, 2, _WIDEST)


def _write_sheet(page: Any, sheet: Sheet, bold: Any, moment: Any) -> None:
    table = sheet.table
    if table.num_rows + len(sheet.notes) + 5 > _MOST_ROWS:
        raise SourceError(f"{table.num_rows:,} rows are more than a sheet of Excel has: write CSV or Parquet")
    page.write_string(0, 0, sheet.title[:_MOST_CHARACTERS], bold)
    for place, name in enumerate(table.column_names):
        cells = table.column(name).to_pylist()
        page.write_string(2, place, name, bold)
        for row, cell in enumerate(cells, start=3):
            _write_cell(page, row, place, cell, moment)
        page.set_column(place, place, _width(name, cells))
    page.freeze_panes(3, 0)
    for row, note in enumerate(sheet.notes, start=table.num_rows + 4):
        page.write_string(row, 0, note[:_MOST_CHARACTERS])


def _write_cell(page: Any, row: int, place: int, cell: Any, moment: Any) -> None:
    """Write a cell as what it is; days before Excel's calendar, and whole numbers that it would round, as their text."""
    if cell is None:
        return
    if isinstance(cell, bool):
        page.write_boolean(row, place, cell)
    elif isinstance(cell, float) or (isinstance(cell, int) and abs(cell) <= _LARGEST_WHOLE):
        page.write_number(row, place, cell)
    elif isinstance(cell, datetime.datetime) and cell.date() >= _FIRST_DAY:
        page.write_datetime(row, place, cell, moment)
    elif isinstance(cell, datetime.date) and not isinstance(cell, datetime.datetime) and cell >= _FIRST_DAY:
        page.write_datetime(row, place, cell)
    else:
        page.write_string(row, place, str(cell)[:_MOST_CHARACTERS])


def _width(name: str, cells: Sequence[Any]) -> int:
    longest = max((len(f"{cell:.6g}" if isinstance(cell, float) else str(cell)) for cell in cells[:1000]), default=0)
    return min(max(len(name), longest) + 2, _WIDEST)


def _short(release: Release) -> str:
    """Return what a release has, in a few words: its outputs by its keys."""
    outputs = ", ".join(output.name for output in release.outputs)
    keys = ", ".join(key.name for key in release.keys)
    return f"{outputs} by {keys}" if keys else outputs


def _distinct(names: Iterable[str]) -> list[str]:
    """Return names that Excel takes for sheets: without its signs, short, and different in more than case."""
    taken: set[str] = set()
    result: list[str] = []
    for name in names:
        clean = re.sub(r"[\[\]:*?/\\]", " ", name).strip().strip("'")[:_NAME_LENGTH] or "sheet"
        tries = 2
        new = clean
        while new.lower() in taken or new.lower() in ("contents", "history"):
            suffix = f" {tries}"
            new = clean[: _NAME_LENGTH - len(suffix)] + suffix
            tries += 1
        taken.add(new.lower())
        result.append(new)
    return result
