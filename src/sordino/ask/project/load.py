"""sordino.toml to objects: budgets, and tables with their source, domain and neighbors; every problem with its place.

It reads the project file and public code lists beside it, never a table: whether a source exists is the engine's word.

Each function that reads one declared part - a cap, a column, a source, the neighbors - takes keys of the right shape
(project/schema.py), and knows neither where the part stands in the file nor any other part. A DeclarationError names the key
at fault, dotted, where one key is.
"""

from __future__ import annotations

import csv
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sordino.ask.project.positions import Path as At
from sordino.ask.project.positions import dotted_key, positions
from sordino.ask.project.schema import shape_problems
from sordino.ask.project.serve_settings import ServeSettings, serve_settings
from sordino.ask.queries.sql.text import is_same_table
from sordino.core.domain import COLUMN_TYPES, Category, Column, Domain, Identifier, List
from sordino.core.errors import DeclarationError, UnknownName, nearest
from sordino.core.ledger.allowance import Allowance
from sordino.core.ledger.location import Place, locate
from sordino.core.ledger.records import check_share, declaration_of
from sordino.core.loss import ZCDP, Loss, loss_from, to_fraction
from sordino.core.neighbors import Neighbors, PrivacyUnit, neighbors_from
from sordino.core.source import FAR, FORMATS, Csv, PublicTable, Source, address_format, source_from

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.core.ledger.ledger import Ledger


# The most bytes of a project file or of a list of codes.
LARGEST_FILE = 16 * 2**20


def cap_from(raw: Mapping[str, Any]) -> Loss:
    """Return the loss that {epsilon}, {epsilon, delta}, {rho, delta} or {rho, delta, slack} states, or refuse.

    >>> cap_from({"epsilon": "1/3"})
    PureDP(epsilon='1/3')
    """
    keys = set(raw)
    if keys not in ({"epsilon"}, {"epsilon", "delta"}, {"rho", "delta"}, {"rho", "delta", "slack"}):
        why = "; delta is the target at which rho is converted to an epsilon" if keys == {"rho"} else ""
        rule = "must be {epsilon = ...}, {epsilon = ..., delta = ...} or {rho = ..., delta = ...}, here with slack = ... or not"
        raise DeclarationError(f"{rule}, not {{{', '.join(raw)}}}{why}")
    amounts: dict[str, Fraction] = {key: to_fraction(value, name=key) for key, value in raw.items()}
    for key, amount in amounts.items():
        if amount <= 0:
            raise DeclarationError(f"{key} must be above 0: a budget of nothing answers nothing")
    try:
        if "rho" in amounts:
            return ZCDP(**amounts)
        return loss_from(amounts)
    except DeclarationError as error:
        # Without its key: it is a problem of the cap as one value.
        raise DeclarationError(str(error)) from None


def share_from(raw: Mapping[str, Any], spender: str, *, cap: Loss) -> Loss:
    """Return the share that {epsilon}, {epsilon, delta} or {rho} states of a cap; raises DeclarationError for others.

    >>> share_from({"epsilon": "1/3"}, "research", cap=cap_from({"epsilon": 1}))
    PureDP(epsilon='1/3')
    """
    keys = set(cap.amounts())
    if set(raw) != keys:
        raise DeclarationError(f"must be of the cap's kind: {{{', '.join(f'{key} = ...' for key in cap.amounts())}}}")
    amounts = {key: to_fraction(value, name=key) for key, value in raw.items()}
    if any(amounts[key] <= 0 for key in keys - {"delta"}):
        raise DeclarationError("must be above 0: a share of nothing answers nothing")
    try:
        return check_share(spender, loss_from(amounts), of=cap)
    except DeclarationError as error:
        # Without its key: it is a problem of the share as one value.
        raise DeclarationError(str(error)) from None


def allowance_from(raw: Mapping[str, Any], *, cap: Loss) -> Allowance:
    """Return the allowance that {every = "year", rho} and the like state of a cap; raises DeclarationError for others.

    >>> allowance_from({"every": "year", "epsilon": 1}, cap=cap_from({"epsilon": 5})).describe()
    'epsilon 1 a year'
    """
    if not set(raw) & set(cap.amounts()):
        raise DeclarationError(f"must be of the cap's kind: {{{', '.join(f'{key} = ...' for key in cap.amounts())}}}")
    try:
        allowance = Allowance(**raw)
        allowance.check(cap)
    except DeclarationError as error:
        # Without its key: it is a problem of the allowance as one value.
        raise DeclarationError(str(error)) from None
    return allowance


def column_from(raw: Mapping[str, Any], *, beside: Path) -> Column | List:
    """Return the column that its keys declare; `values_from` is relative to the directory `beside`.

    >>> column_from({"type": "integer", "lower": 0, "upper": 125}, beside=Path()).upper
    125
    """
    if raw["type"] == "list":
        item = column_from(raw["of"], beside=beside)
        # The schema allows no list of lists.
        return List(cast(Column, item), max_items=raw["max_items"])
    arguments = {key: value for key, value in raw.items() if key not in ("type", "values_from", "values_header")}
    if raw["type"] == "category":
        arguments["values"] = _values(raw, beside)
    try:
        return COLUMN_TYPES[raw["type"]](**arguments)
    except DeclarationError as error:
        if error.key == "fill":
            raise DeclarationError(str(error), key="missing") from None
        if error.key == "values" and "values" not in raw:
            raise DeclarationError(error.rule, key="values_from") from None
        raise


def expand_variables(text: str, *, key: str) -> str:
    """Return text with each ${NAME} as the environment has it; raises DeclarationError for one that is not set.

    >>> expand_variables("people.parquet", key="source")
    'people.parquet'
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in os.environ:
            raise DeclarationError(f"names ${{{name}}}, and the environment has no variable {name}: set it", key=key)
        return os.environ[name]

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", value, text)


def source_of(raw: Mapping[str, Any], *, beside: Path, spark: Mapping[str, str]) -> Source:
    """Return the source that the keys of a table state; its path is relative to the directory `beside`.

    `spark` are the settings of a session, where it is Spark that reads it.
    """
    stated = expand_variables(raw["source"], key="source")
    address = address_format(stated)
    engine = raw.get("engine", "" if address is None else address.engine)
    kind = raw.get("format", ("parquet" if engine else "") if address is None else address.name)
    reader = engine or (FORMATS[kind].engine if kind in FORMATS else "")
    if "://" in stated and address is None and not stated.startswith(FAR) and not reader:
        raise DeclarationError(
            "must be a file on this machine, in S3 or behind HTTP, or the URL of a PostgreSQL server, not an address of "
            'another kind; Spark reads those that it knows: engine = "spark"',
            key="source",
        )
    rules = raw.get("csv")
    if rules is not None:
        lists = {key: tuple(rules[key]) for key in ("names", "null_values") if key in rules}
        rules = Csv(**{**rules, **lists})
    path = (
        stated
        if address is not None or "://" in stated
        else str(beside / stated) + ("/" if stated.endswith("/") else "")
    )
    try:
        if not kind:
            return source_from(path, relation=raw.get("relation"), csv=rules)
        settings = tuple(spark.items()) if reader == "spark" else ()
        return Source(path, kind, raw.get("relation"), rules, engine, settings)
    except DeclarationError as error:
        if error.key in ("format", "engine"):
            raise
        raise DeclarationError(str(error).replace(path, raw["source"]), key="source") from None


def neighbors_of(raw: Mapping[str, Any], *, columns: Mapping[str, Column | List]) -> Neighbors:
    """Return the neighbors that the keys of a table with these columns state."""
    unit = raw["privacy_unit"]
    if isinstance(unit, str):
        return neighbors_from(neighbors=raw["neighbors"], privacy_unit=unit)
    name = unit.get("column")
    if name is None and "max_rows" not in unit:
        raise DeclarationError("is missing; state the identifier column whose values are the units", key="column")
    if name is None:
        return neighbors_from(neighbors=raw["neighbors"], privacy_unit=PrivacyUnit(None, **unit))
    if name not in raw["columns"]:
        identifiers = [n for n, column in columns.items() if isinstance(column, Identifier)]
        hint = nearest(name, identifiers) if identifiers else 'add it as {type = "identifier"}'
        raise DeclarationError(f"column {name!r} is not declared in columns; {hint}", key="column")
    if not isinstance(columns.get(name, Identifier()), Identifier):
        raise DeclarationError(
            f'column {name!r} must be declared {{type = "identifier"}} to be the privacy unit', key="column"
        )
    return neighbors_from(neighbors=raw["neighbors"], privacy_unit=PrivacyUnit(**unit))


def _values(raw: Mapping[str, Any], beside: Path) -> list[Any]:
    """Return the values of a category, stated here or as the first cells of a public CSV file, trimmed."""
    if ("values" in raw) == ("values_from" in raw):
        raise DeclarationError('needs values = [...] or values_from = "codes.csv", and only one of them')
    if "values" in raw:
        if raw.get("values_header"):
            raise DeclarationError("is about the file of values_from, which is not given", key="values_header")
        return list(raw["values"])
    path = beside / expand_variables(raw["values_from"], key="values_from")
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise DeclarationError(f"{path.name!r} is too large for a list of values", key="values_from")
        rows = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
    except OSError as error:
        raise DeclarationError(f"{path.name!r} cannot be read: {error.strerror}", key="values_from") from None
    except (UnicodeDecodeError, csv.Error):
        raise DeclarationError(f"{path.name!r} is not a CSV file in UTF-8", key="values_from") from None
    return [row[0].strip() for row in rows[bool(raw.get("values_header")) :] if row and row[0].strip()]


def spark_settings(raw: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a Spark session; raises DeclarationError for one that holds a secret."""
    for name in raw:
        if re.search(r"(?i)password|secret|token|credential|access\.key|account\.key", name):
            raise DeclarationError(
                "is a secret, which does not stand in a project file: state it in spark-defaults.conf or in the environment, "
                "or open the session yourself",
                key=name,
            )
    return {name: str(value) for name, value in raw.items()}


T = TypeVar("T")

_FILE = "sordino.toml"
_MOST_PROBLEMS = 1_000


@dataclass(frozen=True, slots=True)
class Budget:
    """A cap on what may be lost, the ledger of its charges (a file, on a server, in memory), and what each spender may charge."""

    name: str
    cap: Loss
    ledger: Place | Ledger
    reason: str | None
    shares: Mapping[str, Loss] = field(default_factory=lambda: MappingProxyType({}))
    allowance: Allowance | None = None

    def share(self, spender: str) -> Loss:
        """Return what a spender may charge and no more; raises UnknownName where no share of it is declared."""
        if spender not in self.shares:
            raise UnknownName(f"budget {self.name!r} declares no share of {spender!r}; {nearest(spender, self.shares)}")
        return self.shares[spender]


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """A declared table: where it lies, on disk or in memory, its budget, what is public about it and who is protected."""

    name: str
    source: Source | pa.Table
    budget: str
    domain: Domain
    neighbors: Neighbors
    # What is known of every synthetic row, in the words of the file: `sordino.synth` reads them.
    rules: tuple[str, ...] = ()
    # What a ledger holds of it.
    declaration: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "declaration", declaration_of(self.domain, self.neighbors, self.source))


@dataclass(frozen=True, slots=True)
class Project:
    """What a project file declares, its paths absolute, or arguments do, without a path of their own."""

    path: Path | None
    budgets: Mapping[str, Budget]
    tables: Mapping[str, DeclaredTable]
    public: Mapping[str, PublicTable] = field(default_factory=lambda: MappingProxyType({}))
    dialect: str | None = None
    serve: ServeSettings | None = None

    def table(self, name: str | None = None) -> DeclaredTable:
        """Return the declared table of this name, or the only one; raises UnknownName, or DeclarationError for several.

        The name may have more of a schema than the declared one, or less of it, where only one table fits.
        """
        fitting = [] if name is None or name in self.tables else [t for t in self.tables if is_same_table(name, t)]
        if len(fitting) > 1:
            raise UnknownName(f"table {name!r} may be {' or '.join(fitting)}: say which")
        return self.tables[self._name("table", fitting[0] if fitting else name, self.tables)]

    def budget(self, name: str | None = None) -> Budget:
        """Return the declared budget of this name, or the only one; raises UnknownName, or DeclarationError for several."""
        return self.budgets[self._name("budget", name, self.budgets)]

    def budgets_named(self, name: str | None) -> list[Budget]:
        """Return the budget of this name, or all without one; raises UnknownName."""
        return list(self.budgets.values()) if name is None else [self.budget(name)]

    def _name(self, kind: str, name: str | None, declared: Mapping[str, object]) -> str:
        if name is None and len(declared) == 1:
            return next(iter(declared))
        if name is None:
            raise DeclarationError(f"state {kind}=..., one of {', '.join(declared) or 'none, as none is declared'}")
        if name not in declared:
            where = "" if self.path is None else f" in {self.path}"
            raise UnknownName(f"{kind} {name!r} is not declared{where}; {nearest(name, declared)}")
        return name


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing wrong with a project: its place in the file (line and column from 1, or None), its key, the rule it breaks.

    >>> str(Diagnostic(Path("sordino.toml"), 3, 1, "tables.adult.columns.age.lowr", "did you mean 'lower'?"))
    "sordino.toml:3:1: tables.adult.columns.age.lowr: did you mean 'lower'?"
    """

    path: Path
    line: int | None
    column: int | None
    key: str
    message: str

    def __str__(self) -> str:
        place = str(self.path) if self.line is None else f"{self.path}:{self.line}:{self.column}"
        return f"{place}: " + (f"{self.key}: " if self.key else "") + self.message

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as JSON data."""
        return {
            "file": str(self.path),
            "line": self.line,
            "column": self.column,
            "key": self.key,
            "message": self.message,
        }


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
    project, problems = _read(Path(path))
    if problems:
        more = len(problems) - 1
        tail = f" (and {more} more problem{'s' * (more > 1)}: `sordino check` lists them)" if more else ""
        raise DeclarationError(f"{problems[0]}{tail}")
    return project


def check_file(path: Path | str) -> list[Diagnostic]:
    """Return every problem of the project file at `path`, in the order of the text; none where `load_project` works.

    >>> [str(p) for p in check_file("no.toml")]
    ['no.toml:1:1: cannot be read: no such file']
    """
    return _read(Path(path))[1]


def _read(path: Path) -> tuple[Project, list[Diagnostic]]:
    reading = _Reading(path)
    project = reading.project()
    return project, sorted(reading.problems.values(), key=lambda p: (p.line or 0, p.column or 0, p.key))


class _Reading:
    """One reading of a project file: collects problems on the way, each at the place of its key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: dict[At, Diagnostic] = {}
        self._beside = path.absolute().parent
        self._text = ""
        self._places: dict[At, tuple[int, int]] = {}
        self._document: Mapping[str, Any] = {}

    def project(self) -> Project:
        self._document = self._parse()
        problems = shape_problems(self._document, most=_MOST_PROBLEMS + 1)
        for at, message in problems[:_MOST_PROBLEMS]:
            self._refuse(at, message)
        if len(problems) > _MOST_PROBLEMS:
            self._refuse(
                problems[-1][0], f"more than {_MOST_PROBLEMS:,} keys are wrong: mend those before this one first"
            )
            # Of a shape that is not known nothing more is read.
            self._document = {}
        budgets = self._each("budgets", self._budget)
        firsts: dict[Place | Ledger, str] = {}
        for name, budget in budgets.items():
            first = firsts.setdefault(budget.ledger, name)
            if first != name:
                rule = f"is the ledger of budget {first!r} too; each budget has a file of its own"
                self._refuse(("budgets", name, "ledger"), rule)
        tables = self._each("tables", self._table)
        self._check_units(tables)
        public = self._each("public", self._public)
        frozen = MappingProxyType(budgets), MappingProxyType(tables), MappingProxyType(public)
        settings = self._document.get("project")
        dialect = settings.get("dialect") if isinstance(settings, Mapping) else None
        return Project(self.path.absolute(), *frozen, dialect=dialect, serve=self._serve())

    def _serve(self) -> ServeSettings | None:
        raw = self._document.get("serve", {})
        if not isinstance(raw, Mapping) or not self._is_clean(("serve",)):
            return None
        return self._attempt(("serve",), partial(serve_settings, raw, beside=self._beside))

    def _parse(self) -> Mapping[str, Any]:
        try:
            if self.path.stat().st_size > LARGEST_FILE:
                raise DeclarationError("is too large for a project file")
            text = self.path.read_bytes().decode("utf-8")
            document = tomllib.loads(text, parse_float=Decimal)
            self._text = text
            return document
        except FileNotFoundError:
            problem = "cannot be read: no such file"
        except IsADirectoryError:
            problem = f"is a directory: name the {_FILE} in it"
        except OSError as error:
            problem = f"cannot be read: {error.strerror}"
        except UnicodeDecodeError:
            problem = "is not UTF-8 text"
        except RecursionError:
            problem = "is nested too deeply"
        except DeclarationError as error:
            problem = str(error)
        except ArithmeticError:
            problem = "has a number whose exponent is too large"
        except ValueError as error:  # TOMLDecodeError, and numbers of too many digits
            place = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
            self._places[()] = (int(place[1]), int(place[2])) if place else (1, 1)
            problem = "is not TOML: " + re.sub(r" \(at [^()]*\)$", "", str(error))
        self._refuse((), problem)
        return {}

    def _refuse(self, at: At, message: str) -> None:
        """Note a problem at a path of the document, once for each path and never below one that is refused."""
        while at and isinstance(at[-1], int):
            at = at[:-1]
        above = [at[:n] for n in range(len(at), -1, -1)]
        if not any(path in self.problems for path in above):
            # The places of the keys are looked up once there is a problem to report.
            if self._text:
                self._places = positions(self._text)
                self._text = ""
            place = next((self._places[path] for path in above if path in self._places), (1, 1))
            self.problems[at] = Diagnostic(self.path, *place, dotted_key(at), message)

    def _is_clean(self, at: At, *, but: str | None = None) -> bool:
        """Return whether nothing above, at or under `at` was refused, apart from what lies under its key `but`.

        What lies below a refusal is not noted: there the keys may be anything.
        """
        return not any(
            p == at[: len(p)] or (p[: len(at)] == at and p[len(at) : len(at) + 1] != (but,)) for p in self.problems
        )

    def _attempt(self, at: At, make: Callable[[], T], *, key: str = "") -> T | None:
        """Return what `make` returns; what it refuses stands at the key that it names, at `key` where it names none."""
        try:
            return make()
        except DeclarationError as error:
            path = error.key or key
            self._refuse((*at, *path.split(".")) if path else at, error.rule)
            return None

    def _tables_at(self, *at: str) -> dict[str, Mapping[str, Any]]:
        """Return those of the names at a path of the document that hold tables."""
        value: Any = self._document
        for part in at:
            value = value.get(part)
            if not isinstance(value, Mapping):
                return {}
        return {name: raw for name, raw in value.items() if isinstance(raw, Mapping)}

    def _each(self, kind: str, make: Callable[[str, Mapping[str, Any]], T | None]) -> dict[str, T]:
        firsts: dict[str, str] = {}
        raws = self._tables_at(kind)
        for name in raws:
            first = firsts.setdefault(name.lower(), name)
            if first != name:
                rule = f"differs from {first!r} only in case, which SQL does not see; rename one"
                self._refuse((kind, name), rule)
        return {name: part for name, raw in raws.items() if (part := make(name, raw)) is not None}

    def _budget(self, name: str, raw: Mapping[str, Any]) -> Budget | None:
        at = ("budgets", name)
        if not self._is_clean(at):
            return None
        cap = self._attempt((*at, "cap"), lambda: cap_from(raw["cap"]))
        if cap is None:
            return None
        shares: dict[str, Loss] = {}
        for who, stated in raw.get("shares", {}).items():
            share = self._attempt((*at, "shares", who), partial(share_from, stated, who, cap=cap))
            shares |= {} if share is None else {who: share}
        allowance = None
        if "allowance" in raw:
            allowance = self._attempt((*at, "allowance"), lambda: allowance_from(raw["allowance"], cap=cap))
        ledger = self._attempt(
            (*at, "ledger"), lambda: locate(expand_variables(raw["ledger"], key=""), beside=self._beside)
        )
        if ledger is None:
            return None
        return Budget(name, cap, ledger, raw.get("reason"), MappingProxyType(shares), allowance)

    def _table(self, name: str, raw: Mapping[str, Any]) -> DeclaredTable | None:
        at = ("tables", name)
        budget = raw.get("budget")
        budgets = self._tables_at("budgets")
        if isinstance(budget, str) and budget not in budgets:
            self._refuse((*at, "budget"), f"no budget {budget!r} is declared in [budgets]; {nearest(budget, budgets)}")
        source, columns = self._read_source(at, raw)
        if not self._is_clean(at, but="columns") or (*at, "columns") in self.problems:
            return None
        neighbors = self._attempt((*at, "privacy_unit"), lambda: neighbors_of(raw, columns=columns), key="column")
        if source is None or neighbors is None or not self._is_clean(at):
            return None
        ceiling = {key: raw[key] for key in ("row_ceiling",) if key in raw}
        make = partial(Domain, columns, **ceiling, unreadable_rows=source.lossy)
        domain = self._attempt(at, make, key="columns")
        if domain is None:
            return None
        return DeclaredTable(name, source, raw["budget"], domain, neighbors, tuple(raw.get("rules", ())))

    def _public(self, name: str, raw: Mapping[str, Any]) -> PublicTable | None:
        at = ("public", name)
        if name.lower() in {table.lower() for table in self._tables_at("tables")}:
            self._refuse(at, "is the name of a private table too; rename one")
        source, columns = self._read_source(at, raw)
        if source is None or not self._is_clean(at):
            return None
        return self._attempt(
            at, lambda: PublicTable(source, _as_key(raw["key"]), Domain(columns), raw.get("max_rows", 1)), key="columns"
        )

    def _read_source(self, at: At, raw: Mapping[str, Any]) -> tuple[Source | None, dict[str, Column | List]]:
        """Return a table's source, None where it is not declared well, and those of its columns that are."""
        declared = self._tables_at(*map(str, at), "columns")
        columns: dict[str, Column | List] = {}
        for name, keys in declared.items():
            here = (*at, "columns", name)
            if self._is_clean(here):
                column = self._attempt(here, partial(column_from, keys, beside=self._beside))
                columns |= {} if column is None else {name: column}
        if not self._is_clean(at, but="columns"):
            return None, columns
        source = self._attempt(at, lambda: source_of(raw, beside=self._beside, spark=self._settings()))
        if source is not None and source.csv is not None:
            self._check_csv((*at, "columns"), columns, declared, source.csv)
        return source, columns

    def _settings(self) -> Mapping[str, str]:
        """Return the stated settings of a Spark session, none where they are not well stated."""
        at = ("engine", "spark")
        raw = self._tables_at("engine").get("spark")
        if not raw or not self._is_clean(at):
            return {}
        return self._attempt(at, partial(spark_settings, raw)) or {}

    def _check_csv(self, at: At, columns: Mapping[str, Column | List], declared: Mapping[str, Any], rules: Csv) -> None:
        for name in declared:
            if rules.names is not None and name not in rules.names:
                self._refuse((*at, name), f"no such column in csv.names; {nearest(name, rules.names)}")
        if columns.keys() == declared.keys():
            self._attempt(at[:-1], partial(rules.formats, columns))
        for name, column in columns.items():
            missing = rules.missing_cells(name)
            for value in column.values if isinstance(column, Category) else ():
                if value in missing:
                    rule = f'value "{value}" means missing in this file (csv.null_values); use missing = "keep"'
                    self._refuse((*at, name), rule)
                elif isinstance(value, str) and value != value.strip():
                    self._refuse((*at, name), f'value "{value}" has spaces around it, but cells of a CSV are trimmed')

    def _check_units(self, tables: Mapping[str, DeclaredTable]) -> None:
        """Refuse tables of one budget that protect different people."""
        firsts: dict[str, DeclaredTable] = {}
        for name, table in tables.items():
            first = firsts.setdefault(table.budget, table)
            rule = f"as table {first.name!r} has, which draws on the same budget: state the same, or use another budget"
            if table.neighbors.relation != first.neighbors.relation:
                self._refuse(("tables", name, "neighbors"), f'must be "{first.neighbors.relation}", {rule}')
            if table.neighbors.people != first.neighbors.people:
                self._refuse(("tables", name, "privacy_unit"), f"must be {_unit(first)}, {rule}")


def _unit(table: DeclaredTable) -> str:
    people = table.neighbors.people
    unit = table.neighbors.unit
    if unit is not None and unit.column is None:
        return "a promise of max_rows"
    return '"row"' if people is None else f'all rows of one "{people}" (a column of that name, or of = "{people}")'


def _as_key(raw: str | list[str]) -> str | tuple[str, ...]:
    return raw if isinstance(raw, str) else tuple(raw)
