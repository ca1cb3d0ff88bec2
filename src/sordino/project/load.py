"""sordino.toml to objects: budgets, and tables with their source, domain and neighbors; every problem with its place.

It reads the project file and public code lists beside it, never a table: whether a source exists is the engine's word.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sordino.domain import Category, Column, Domain, Identifier
from sordino.errors import DeclarationError, nearest
from sordino.loss import Loss
from sordino.neighbors import Neighbors, PrivacyUnit, neighbors_from
from sordino.project.columns import LARGEST_FILE, cap_from, column_from
from sordino.project.schema import (
    FILL_IN,
    BudgetShape,
    PublicShape,
    TableShape,
    UnitShape,
    json_schema,
    shape_problems,
)
from sordino.project.text import dotted, positions, write_template
from sordino.source import Csv, PublicTable, Source, source_from

__all__ = [
    "Budget",
    "Problem",
    "Project",
    "Table",
    "check_project",
    "find_project",
    "json_schema",
    "load_project",
    "write_template",
]

_FILE = "sordino.toml"

At = tuple[str | int, ...]  # where a value stands in the document


@dataclass(frozen=True, slots=True)
class Budget:
    """A cap on what may be lost, and the ledger file that holds the charges under it."""

    name: str
    cap: Loss
    ledger: Path
    reason: str | None


@dataclass(frozen=True, slots=True)
class Table:
    """A declared table: where it lies, the budget it draws on, what is public about it and who is protected."""

    name: str
    source: Source
    budget: str
    domain: Domain
    neighbors: Neighbors


@dataclass(frozen=True, slots=True)
class Project:
    """What a project file declares; paths are absolute."""

    path: Path
    budgets: Mapping[str, Budget]
    tables: Mapping[str, Table]
    public: Mapping[str, PublicTable] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a project file: its place (line and column from 1), its key, and the rule it breaks.

    >>> str(Problem(Path("sordino.toml"), 3, 1, "tables.adult.columns.age.lowr", "did you mean 'lower'?"))
    "sordino.toml:3:1: tables.adult.columns.age.lowr: did you mean 'lower'?"
    """

    path: Path
    line: int
    column: int
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: " + (f"{self.key}: " if self.key else "") + self.message


def find_project(start: Path | None = None) -> Path:
    """Return the nearest sordino.toml in `start` (the working directory if None) or a directory above it.

    Raises DeclarationError where there is none.

    >>> find_project(Path("/"))
    Traceback (most recent call last):
        ...
    sordino.errors.DeclarationError: no sordino.toml here or above; `sordino init FILE` writes one
    """
    here = (Path.cwd() if start is None else start).absolute()
    for directory in (here, *here.parents):
        if (directory / _FILE).is_file():
            return directory / _FILE
    raise DeclarationError(f"no {_FILE} here or above; `sordino init FILE` writes one")


def load_project(path: Path | str) -> Project:
    """Return what the project file at `path` declares.

    Raises DeclarationError `file:line:column: key: what is wrong; the rule; the nearest key` for the first problem,
    with the number of the others.

    >>> load_project("no.toml")
    Traceback (most recent call last):
        ...
    sordino.errors.DeclarationError: no.toml:1:1: cannot be read: no such file
    """
    reading = _Reading(Path(path))
    project = reading.project()
    problems = reading.sorted()
    if problems:
        more = len(problems) - 1
        tail = f" (and {more} more problem{'s' * (more > 1)}: `sordino check` lists them)" if more else ""
        raise DeclarationError(f"{problems[0]}{tail}")
    return project


def check_project(path: Path | str) -> list[Problem]:
    """Return every problem of the project file at `path`, in the order of the text; none where `load_project` works.

    >>> [str(p) for p in check_project("no.toml")]
    ['no.toml:1:1: cannot be read: no such file']
    """
    reading = _Reading(Path(path))
    reading.project()
    return reading.sorted()


class _Reading:
    """One reading of a project file: collects problems on the way, each at the place of its key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: dict[At, Problem] = {}
        self._places: dict[At, tuple[int, int]] = {}

    def sorted(self) -> list[Problem]:
        return sorted(self.problems.values(), key=lambda p: (p.line, p.column, p.key))

    def project(self) -> Project:
        document = self._document()
        if document is None:
            return Project(self.path.absolute(), MappingProxyType({}), MappingProxyType({}))
        for at in _placeholders(document, ()):
            self.refuse(at, _fill_in(at))
        for at, message in shape_problems(document):
            self.refuse(at, message)
        raw_budgets, raw_tables = _named(document.get("budgets")), _named(document.get("tables"))
        raw_public = _named(document.get("public"))
        for kind, raws in (("budgets", raw_budgets), ("tables", raw_tables), ("public", raw_public)):
            self._distinct(kind, raws)
        budgets = {name: self._budget(name, raw) for name, raw in raw_budgets.items()}
        self._own_ledgers({name: budget for name, budget in budgets.items() if budget is not None})
        tables = {name: self._table(name, raw, known=raw_budgets) for name, raw in raw_tables.items()}
        whole = {name: table for name, table in tables.items() if table is not None}
        self._same_people(whole)
        kept = {name: budget for name, budget in budgets.items() if budget is not None}
        made = {name: self._public(name, raw, tables=raw_tables) for name, raw in raw_public.items()}
        public = {name: table for name, table in made.items() if table is not None}
        return Project(self.path.absolute(), MappingProxyType(kept), MappingProxyType(whole), MappingProxyType(public))

    def refuse(self, at: At, message: str) -> None:
        """Note a problem at a path of the document, once for each path and never below one that is refused."""
        while at and isinstance(at[-1], int):
            at = at[:-1]
        if any(at[:n] in self.problems for n in range(len(at) + 1)):
            return
        place = next((self._places[at[:n]] for n in range(len(at), 0, -1) if at[:n] in self._places), (1, 1))
        self.problems[at] = Problem(self.path, *place, dotted(at), message)

    def clean(self, at: At, *, but: str | None = None) -> bool:
        """Tell whether nothing at or under `at` was refused, apart from what lies under its key `but`."""
        return not any(p[: len(at)] == at and p[len(at) : len(at) + 1] != (but,) for p in self.problems)

    def _document(self) -> dict[str, Any] | None:
        try:
            if self.path.stat().st_size > LARGEST_FILE:
                raise DeclarationError("is too large for a project file")
            text = self.path.read_bytes().decode("utf-8")
            document = tomllib.loads(text, parse_float=Decimal)
            self._places = positions(text)
            return document
        except FileNotFoundError:
            self.refuse((), "cannot be read: no such file")
        except IsADirectoryError:
            self.refuse((), f"is a directory: name the {_FILE} in it")
        except OSError as error:
            self.refuse((), f"cannot be read: {error.strerror}")
        except UnicodeDecodeError:
            self.refuse((), "is not UTF-8 text")
        except RecursionError:
            self.refuse((), "is nested too deeply")
        except DeclarationError as error:
            self.refuse((), str(error))
        except ValueError as error:  # TOMLDecodeError, and numbers of too many digits
            place = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
            line, column = (int(place[1]), int(place[2])) if place else (1, 1)
            said = re.sub(r" \(at [^()]*\)$", "", str(error))
            self.problems[()] = Problem(self.path, line, column, "", f"is not TOML: {said}")
        return None

    def _distinct(self, kind: str, raws: Mapping[str, Any]) -> None:
        seen: dict[str, str] = {}
        for name in raws:
            first = seen.setdefault(name.lower(), name)
            if first != name:
                self.refuse((kind, name), f"differs from {first!r} only in case, which SQL does not see; rename one")

    def _budget(self, name: str, raw: Mapping[str, Any]) -> Budget | None:
        at = ("budgets", name)
        if not self.clean(at):
            return None
        shape = BudgetShape.model_validate(raw)
        try:
            cap = cap_from(raw["cap"])
        except DeclarationError as error:
            self.refuse((*at, "cap"), str(error))
            return None
        return Budget(name, cap, self._beside(shape.ledger), shape.reason)

    def _own_ledgers(self, budgets: Mapping[str, Budget]) -> None:
        seen: dict[Path, str] = {}
        for name, budget in budgets.items():
            first = seen.setdefault(budget.ledger, name)
            if first != name:
                said = f"is the ledger of budget {first!r} too; each budget has a file of its own"
                self.refuse(("budgets", name, "ledger"), said)

    def _table(self, name: str, raw: Mapping[str, Any], *, known: Mapping[str, Any]) -> Table | None:
        at: At = ("tables", name)
        raw_columns = raw.get("columns")
        columns = self._columns(at, raw_columns)
        budget = raw.get("budget")
        if isinstance(budget, str) and budget not in known:
            self.refuse((*at, "budget"), f"no budget {budget!r} is declared in [budgets]; {nearest(budget, known)}")
        if not self.clean(at, but="columns") or (*at, "columns") in self.problems:
            return None
        shape = TableShape.model_validate({**raw, "columns": {}})
        source = self._source(at, shape)
        if source is not None and source.csv is not None:
            self._against_csv((*at, "columns"), columns, _named(raw_columns), source.csv)
        neighbors = self._neighbors(at, shape, columns, _named(raw_columns))
        ceiling = {} if shape.row_ceiling is None else {"row_ceiling": shape.row_ceiling}
        if not self.clean(at) or source is None or neighbors is None:
            return None
        try:
            domain = Domain(columns, **ceiling, unreadable_rows=source.format == "csv")
        except DeclarationError as error:
            self.refuse((*at, error.key or "columns"), str(error))
            return None
        return Table(name, source, shape.budget, domain, neighbors)

    def _columns(self, at: At, raw: object) -> dict[str, Column]:
        made = {name: self._column((*at, "columns", name), given) for name, given in _named(raw).items()}
        return {name: column for name, column in made.items() if column is not None}

    def _public(self, name: str, raw: Mapping[str, Any], *, tables: Mapping[str, Any]) -> PublicTable | None:
        at: At = ("public", name)
        if name.lower() in {t.lower() for t in tables}:
            self.refuse(at, "is the name of a private table too; rename one")
        columns = self._columns(at, raw.get("columns"))
        if not self.clean(at):
            return None
        shape = PublicShape.model_validate({**raw, "columns": {}})
        source = self._source(at, shape)
        if source is None:
            return None
        if source.csv is not None:
            self._against_csv((*at, "columns"), columns, _named(raw.get("columns")), source.csv)
        try:
            return PublicTable(source, shape.key, Domain(columns), shape.max_rows)
        except DeclarationError as error:
            self.refuse((*at, error.key or "columns"), str(error))
            return None

    def _source(self, at: At, shape: TableShape | PublicShape) -> Source | None:
        rules = None
        if "://" in shape.source:
            self.refuse((*at, "source"), "must be a file on this machine, not an address")
            return None
        try:
            if shape.csv is not None:
                names = None if shape.csv.names is None else tuple(shape.csv.names)
                nulls = tuple(shape.csv.null_values)
                rules = Csv(shape.csv.header, names, shape.csv.delimiter, nulls, shape.csv.quote)
        except DeclarationError as error:
            self.refuse((*at, *str(error.key).split(".")), error.rule)
            return None
        path = str(self._beside(shape.source))
        try:
            if shape.format is not None:
                return Source(path, shape.format, shape.relation, rules)
            return source_from(path, relation=shape.relation, csv=rules)
        except DeclarationError as error:
            said = str(error).replace(path, shape.source).replace("csv = {header = true}", f"[{at[0]}.NAME.csv] header")
            self.refuse((*at, "source"), said)
            return None

    def _neighbors(
        self, at: At, shape: TableShape, columns: Mapping[str, Column], declared: Mapping[str, Any]
    ) -> Neighbors | None:
        unit = shape.privacy_unit
        here = (*at, "privacy_unit")
        if not isinstance(unit, UnitShape):
            return neighbors_from(neighbors=shape.neighbors, privacy_unit=unit)
        if unit.column not in declared:
            identifiers = [name for name, column in columns.items() if isinstance(column, Identifier)]
            hint = nearest(unit.column, identifiers) if identifiers else 'add it as {type = "identifier"}'
            self.refuse((*here, "column"), f"column {unit.column!r} is not declared in columns; {hint}")
            return None
        if unit.column in columns and not isinstance(columns[unit.column], Identifier):
            said = f'column {unit.column!r} must be declared {{type = "identifier"}} to be the privacy unit'
            self.refuse((*here, "column"), said)
            return None
        try:
            owner = PrivacyUnit(unit.column, unit.max_rows, unit.max_groups)
            return neighbors_from(neighbors=shape.neighbors, privacy_unit=owner)
        except DeclarationError as error:
            self.refuse((*here, error.key or "column"), str(error))
            return None

    def _column(self, at: At, raw: object) -> Column | None:
        if not isinstance(raw, Mapping) or not self.clean(at):
            return None
        try:
            return column_from(raw, beside=self.path.absolute().parent)
        except DeclarationError as error:
            key = "missing" if error.key == "fill" else error.key
            if key == "values" and "values" not in raw:
                key = "values_from"
            if key is None or key not in raw:
                self.refuse(at, str(error))
            else:
                self.refuse((*at, key), str(error) if key == "missing" else error.rule)
            return None

    def _against_csv(self, at: At, columns: Mapping[str, Column], declared: Mapping[str, Any], rules: Csv) -> None:
        for name in declared:
            if rules.names is not None and name not in rules.names:
                self.refuse((*at, name), f"no such column in csv.names; {nearest(name, rules.names)}")
        for name, column in columns.items():
            for value in column.values if isinstance(column, Category) else ():
                if value in rules.null_values or value == "":
                    said = f'value "{value}" means missing in this file (csv.null_values); use missing = "keep"'
                    self.refuse((*at, name), said)
                elif isinstance(value, str) and value != value.strip():
                    self.refuse((*at, name), f'value "{value}" has spaces around it, but cells of a CSV are trimmed')

    def _same_people(self, tables: Mapping[str, Table]) -> None:
        firsts: dict[str, Table] = {}
        for name, table in tables.items():
            first = firsts.setdefault(table.budget, table)
            rule = f"as table {first.name!r} has, which draws on the same budget: state the same, or use another budget"
            if table.neighbors.relation != first.neighbors.relation:
                self.refuse(("tables", name, "neighbors"), f'must be "{first.neighbors.relation}", {rule}')
            if _unit(table) != _unit(first):
                self.refuse(("tables", name, "privacy_unit"), f"must be {_unit(first)}, {rule}")

    def _beside(self, name: str) -> Path:
        return self.path.absolute().parent / name


def _named(raw: object) -> dict[str, Any]:
    return {k: v for k, v in raw.items() if isinstance(v, Mapping)} if isinstance(raw, Mapping) else {}


def _unit(table: Table) -> str:
    unit = table.neighbors.unit
    return '"row"' if unit is None else f'all rows of one "{unit.column}"'


def _placeholders(value: object, at: At) -> list[At]:
    if isinstance(value, str):
        return [at] if value.strip().upper().startswith(FILL_IN) else []
    items: Sequence[tuple[str | int, Any]] = ()
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [place for key, child in items for place in _placeholders(child, (*at, key))]


def _fill_in(at: At) -> str:
    key = next(str(part) for part in reversed(at) if isinstance(part, str))
    return f"is still to be filled in: state {_FILL_INS.get(key, 'what holds')}"


_FILL_INS = {
    "epsilon": "the epsilon that may ever be lost, such as 1.0",
    "neighbors": '"add_remove" or "replace"',
    "privacy_unit": '"row" or {column = "user_id", max_rows = 5}',
    "lower": "the least value that is possible, from public knowledge and not from the data",
    "upper": "the greatest value that is possible, from public knowledge and not from the data",
    "resolution": "the smallest difference that counts, such as 0.01",
    "values": "every value that the column may take, from public knowledge and not from the data",
    "type": '"integer", "real", "category", "boolean", "date" or "identifier"',
}
