"""What `sordino check` looks at: the declaration, and where the curator asks for it the data."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sordino.ask.curator.connect import open_engine
from sordino.ask.engines.compare import CellCounts, LineCounts, count_misfits
from sordino.ask.engines.engine import EngineFailed
from sordino.ask.engines.opening import hold_source
from sordino.ask.engines.public import public_cells
from sordino.ask.project.budget import changed_declarations, open_ledger
from sordino.ask.project.edit import record_comparison
from sordino.ask.project.load import Diagnostic, Project, check_file, find_project, load_project
from sordino.ask.project.positions import dotted_key, positions
from sordino.core.domain import Boolean, Category, Date, DateTime, Domain, Identifier, Integer, Real
from sordino.core.errors import SordinoError, SourceError
from sordino.core.lazy import load_feature
from sordino.core.loss import format_number
from sordino.core.source import Csv, Source, header_line

# ---- Compare a declaration with its data, for the curator who may see both: exact counts, NOT PRIVATE, never stored
#
# Nothing is charged, as nothing is released: what it returns must not leave the curator's hands. That a project was compared is
# remembered, since until then its answers say that it never was.

MARK = "NOT PRIVATE: exact counts of the data, for the curator only; they are not stored and must not be published"


@dataclass(frozen=True, slots=True)
class Misfit:
    """One way in which data and declaration differ: the key to change, how many, what, and how to change it."""

    key: str
    count: int
    what: str
    change: str


@dataclass(frozen=True, slots=True)
class DataCheck:
    """Counts of the data that does not fit a declaration, exact: NOT PRIVATE."""

    rows: int
    columns: Mapping[str, CellCounts]
    lines: LineCounts | None
    misfits: tuple[Misfit, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that says NOT PRIVATE."""
        return {
            "mark": MARK,
            "rows": self.rows,
            "lines": None if self.lines is None else asdict(self.lines),
            "columns": {name: asdict(counts) for name, counts in self.columns.items()},
            "misfits": [asdict(misfit) for misfit in self.misfits],
        }


def check_against_data(
    source: Any, *, domain: Domain, csv: Csv | None = None, relation: str | None = None
) -> DataCheck:
    """Count the cells and lines of a source that do not fit a declaration: NOT PRIVATE, for the curator.

    `source` is what `protect` takes. Nothing is charged or stored, since nothing here may be released. Raises SourceError
    where the source cannot be read and DeclarationError where it lacks a declared column.

    >>> import pyarrow as pa
    >>> found = check_against_data(pa.table({"age": ["21.0", "1,234", "130"]}), domain=Domain({"age": Integer(0, 125)}))
    >>> [(m.count, m.what) for m in found.misfits]
    [(1, 'cells that cannot be read as integer, so they are missing'), (1, 'cells above upper, which count as it')]
    """
    rows_source = hold_source(source, domain, csv=csv, relation=relation)
    counts = None
    with contextlib.suppress(EngineFailed):
        counts = count_misfits(rows_source, domain=domain)
    if counts is None:
        raise SourceError("the source cannot be compared with its declaration: check that it is whole")
    rows, cells, lines = counts
    rules = rows_source.csv if isinstance(rows_source, Source) else None
    misfits = [
        *_of_lines(lines, rules),
        *(m for name in domain for m in _of_cells(name, domain[name], cells[name], rules)),
    ]
    return DataCheck(rows, cells, lines, tuple(m for m in misfits if m.count))


def compare_project(project: Project) -> dict[str, DataCheck]:
    """Compare every table of a project with its data, and put on record that this was done; raises as `check_against_data`.

    Recorded is the day, for each table as it is declared now, and nothing of what was found.
    """
    compared = {name: check_against_data(table.source, domain=table.domain) for name, table in project.tables.items()}
    for table in project.tables.values():
        record_comparison(table)
    return compared


def _of_lines(lines: LineCounts | None, csv: Csv | None) -> Iterator[Misfit]:
    if lines is None or csv is None:
        return
    again = "`sordino import` reads line breaks in cells, and names a row that it cannot read"
    lost = "so they are lost"
    yield Misfit("csv.quote", lines.quoted, "lines with a cell that starts with a quote", "add quote = '\"'")
    short = lost if csv.quote else "so their last columns are missing"
    yield Misfit("csv", lines.too_short, f"lines with too few cells, {short}", f"check delimiter and quote; {again}")
    long = lost if csv.quote else "of which the first are read"
    yield Misfit("csv", lines.too_long, f"lines with too many cells, {long}", f"check delimiter and quote; {again}")
    yield Misfit("csv", lines.broken, f"lines that cannot be parsed (quotes or length), {lost}", again)
    undecoded = f"lines with bytes that are not {csv.encoding.upper()}, so the cells that hold them are missing"
    change = 'state the encoding of the file, such as encoding = "cp1252"'
    yield Misfit("csv", lines.undecoded, undecoded, change)


def _of_cells(name: str, column: Any, counts: CellCounts, csv: Csv | None) -> Iterator[Misfit]:
    key = f"columns.{name}"
    kind = type(column).__name__.lower()
    yield Misfit(
        key,
        counts.unreadable,
        f"cells that cannot be read as {kind}, so they are missing",
        _way_to_read(type(column), csv),
    )
    yield Misfit(
        key, counts.below, "cells below lower, which count as it", "change lower, where public knowledge allows less"
    )
    yield Misfit(
        key, counts.above, "cells above upper, which count as it", "change upper, where public knowledge allows more"
    )
    if isinstance(column, Category):
        become = "so they are missing" if column.other is None else f"so they count as other, {column.other!r}"
        case = f" ({counts.other_case:,} of them are one in another case)" if counts.other_case else ""
        change = "change values (as the cells write them), other or missing"
        yield Misfit(key, counts.undeclared, f"cells that are no declared value{case}, {become}", change)


_READ: dict[type, str] = {
    Boolean: 'state csv.true = "J" and csv.false = "N", as the cells write them: else true, yes, on, 1 or their opposites',
    Date: 'state csv.date = "%d.%m.%Y", as days are written: else one is 2000-01-31',
    DateTime: 'state csv.date = "%d.%m.%Y %H:%M", as moments are written: else one is 2000-01-31 10:30:00, or has an offset',
}
_NUMBER = (
    'state csv.decimal = "," and csv.thousands = ".", as numbers are written, or for one column its type: csv.columns.NAME = '
    '{type = "amount"} (or "percent")'
)


def _way_to_read(kind: type, csv: Csv | None) -> str:
    """Return what to change where cells of a declared type cannot be read: how a CSV file writes them, or the type."""
    if kind is Identifier:
        return "change the file: text must be UTF-8"
    way = _READ.get(kind, _NUMBER) if csv is not None else "import the file, which reads other marks, words and days"
    return f"change type, or {way}" + ('; type = "real" where there are fractions' if kind is Integer else "")


# ---- Whether a project can be asked: its file, its sources, its ledgers, its rules. Nothing is written, asked or recorded

_AMEND = 'put it back, or: sordino ledger amend --reason "..."'


def check_project(path: str | Path | None = None) -> list[Diagnostic]:
    """Return every problem of a project: of its file, and where that has none, of its sources, ledgers and rules.

    Without a path, of the sordino.toml found upward from here. Sources are opened; nothing of the data is shown.
    """
    place = find_project() if path is None else Path(path)
    problems = check_file(place)
    if problems:
        return problems
    project = load_project(place)
    problems_of_data = [*_check_sources(project), *_check_ledgers(project)]
    placed = [Diagnostic(place, None, None, key, message) for key, message in problems_of_data]
    return [*placed, *_check_rules(project, place)]


def describe_steps(project: Project) -> Iterator[str]:
    """Yield how real columns without a declared resolution are read, or what alone reads them."""
    for name, table in project.tables.items():
        for column, declared in table.domain.columns.items():
            if not isinstance(declared, Real) or declared.resolution is not None:
                continue
            what = f"tables.{name}.columns.{column}: no resolution is declared"
            if declared.step is None:
                rule = (
                    "and no two bounds to take one from: only its AVG and quantiles, which find bounds, and `sordino bounds` "
                    "read it; add such as resolution = 0.01"
                )
                yield f"{what}, {rule}"
            else:
                step = format_number(declared.step)
                yield f"{what}: read in steps of {step}; a coarser one makes quantiles less noisy"


def _check_sources(project: Project) -> Iterator[tuple[str, str]]:
    """Yield, by key, the sources that do not open, and headers that are quoted where cells are not."""
    for name, table in project.tables.items():
        try:
            open_engine(project, table, public_cells(project.public)).close()
        except SordinoError as error:
            yield f"tables.{name}", str(error)
            continue
        if _has_quoted_header(table.source):
            yield f"tables.{name}.csv.quote", "the header line is quoted, but cells are read unquoted: add quote = '\"'"


def _has_quoted_header(source: Source) -> bool:
    csv = source.csv
    return csv is not None and csv.header and not csv.quote and '"' in header_line(source.place)


def _check_rules(project: Project, place: Path) -> Iterator[Diagnostic]:
    """Yield the rules of synthetic rows that cannot be of their table, or that contradict each other."""
    if not any(table.rules for table in project.tables.values()):
        return
    lines = positions(place.read_text(encoding="utf-8"))
    for path, message in load_feature("find_rule_problems")(project):
        yield Diagnostic(place, *lines[path], dotted_key(path), message)


def _check_ledgers(project: Project) -> Iterator[tuple[str, str]]:
    """Yield, by key, the ledgers that cannot be read, and those that hold another cap or declaration."""
    for name, budget in project.budgets.items():
        try:
            with open_ledger(budget) as ledger:
                if ledger is None:
                    continue
                if ledger.cap != budget.cap:
                    yield f"budgets.{name}.cap", f"the ledger holds a cap of {ledger.cap.describe()}; {_AMEND}"
                for table, paths in changed_declarations(project, budget, ledger).items():
                    changed = ", ".join(list(paths)[:8])
                    yield f"tables.{table}", f"declared differently from the ledger ({changed} changed); {_AMEND}"
        except SordinoError as error:
            yield f"budgets.{name}.ledger", str(error)
