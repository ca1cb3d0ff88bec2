"""Release: all that leaves Sordino, which is values, their errors, the question and its cost.

A release holds noisy values and public parameters only; its errors and intervals are functions of those, so they are
free. It is plain data: `to_dict` and `from_dict` are inverse, and the ledger stores it unchanged.
"""

from __future__ import annotations

import datetime
import difflib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.core.accounting.event_fields import event_from_dict, event_to_dict
from sordino.core.codec import cells_to_json
from sordino.core.errors import DeclarationError, QuestionRefused, check_confidence
from sordino.core.estimates.estimate import ColumnEstimate, explain_no_ends, interval_ends
from sordino.core.estimates.model_estimate import ModelSource
from sordino.core.estimates.registry import estimate_from_dict
from sordino.core.estimates.replicates import Computed, ReleasedStatement
from sordino.core.estimates.table_cells import BY_COLUMNS, TableCells
from sordino.core.estimates.weighted_sum import NoisyCurve, SeriesCells
from sordino.core.lazy import load_feature
from sordino.core.loss import (
    Event,
    Loss,
    currencies_to_dict,
    format_number,
    loss_from,
    loss_from_numbers,
    loss_to_numbers,
    to_fraction,
)
from sordino.core.release_exports import CONFIDENCE, ReleasedTables, arrow_table, write_csv, write_parquet
from sordino.core.time_zones import labels_from_dict, labels_to_dict

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

SCHEMA_VERSION = 1
_AS_WRITTEN = ("question", "neighbors", "privacy_unit", "declaration", "charge", "time", "private", "request")
_PRACTICE = "DUMMY DATA: a made-up table of the declared shape answered; nothing was charged, and no data was read."
# rows of a release that print shows
_SHOWN = 40

# What others call what a release has by another name.
_MEANT = {
    **dict.fromkeys(("df", "frame", "dataframe", "loc", "iloc"), "to_pandas()"),
    **dict.fromkeys(("data", "result", "results", "answer"), "value, or table"),
    **dict.fromkeys(("head", "tail", "shape"), "table, an Arrow table, or rows, a list of dicts"),
    **dict.fromkeys(
        ("sort", "sort_values", "order_by", "filter", "where", "groupby", "group_by"), 'query("SELECT ... FROM answer")'
    ),
    **dict.fromkeys(("confidence_interval", "ci", "bounds"), "interval(0.95)"),
    **dict.fromkeys(("std", "stderr", "accuracy", "margin"), "error(0.95)"),
    **dict.fromkeys(("epsilon", "price", "loss"), "cost"),
    **dict.fromkeys(("to_list", "to_dicts", "tolist", "collect"), "rows"),
    **dict.fromkeys(("write_csv", "save"), 'to_csv("answer.csv")'),
    **dict.fromkeys(("write_excel", "to_xlsx"), 'to_excel("answer.xlsx")'),
    **dict.fromkeys(("show", "hist", "chart"), "plot()"),
}

Label = str | int | float | bool | datetime.date | None


@dataclass(frozen=True, slots=True)
class Key:
    """A group-by column of a release: its name, its label in each row, and the labels' kind, also if there is no row."""

    name: str
    labels: Sequence[Label]
    kind: str = field(default="text", compare=False)


@dataclass(frozen=True, slots=True)
class Output:
    """An answered column of a release: its name, its estimate in each row, and its mechanism in words."""

    name: str
    estimate: ColumnEstimate
    mechanism: str


@dataclass(frozen=True, slots=True, repr=False)
class Release:
    """One answer: `.value`, `.table`, `.interval(0.95)`, `.error(0.95)`, `.cost`, `.question`, `.event`.

    Made by `ask`, or by a model's `answer`, at no cost: then `charge` is the one that paid for the model, and `model` describes
    the source of the answer. `private` is False only for seeded test noise, and then every view says NOT PRIVATE.
    """

    question: str
    keys: tuple[Key, ...]
    outputs: tuple[Output, ...]
    cost: Loss
    spent: Loss
    remaining: Loss
    event: Event
    neighbors: str
    privacy_unit: str
    declaration: str
    charge: str
    table_name: str
    time: str
    private: bool = True
    request: str | None = None
    notes: tuple[str, ...] = field(default=())
    # The numbers that a search chose; None where it found nothing.
    chosen: tuple[tuple[str, Fraction | None], ...] = field(default=())
    # The columns as SELECT orders them; empty for keys first.
    layout: tuple[str, ...] = field(default=())
    # Where the answer was computed from a model, and nothing was charged.
    model: ModelSource | None = None
    # Whether a made-up table answered, and nothing was charged.
    practice: bool = False
    # The spender to whose share of the budget it was charged: `spent` and `remaining` are the share's.
    spender: str | None = None
    # The keys and outputs, and their names, in the order of the columns: as SELECT has them, else keys first.
    parts: tuple[Key | Output, ...] = field(init=False, repr=False, compare=False)
    columns: tuple[str, ...] = field(init=False, repr=False, compare=False)
    # The answers of a statement's private blocks and the SQL around them, where intervals follow from these.
    statement: ReleasedStatement | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name: dict[str, Key | Output] = {k.name: k for k in self.keys}
        by_name |= {o.name: o for o in self.outputs}
        parts = tuple(by_name[n] for n in self.layout) if self.layout else tuple(by_name.values())
        statements = (getattr(o.estimate, "statement", None) for o in self.outputs)
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "columns", tuple(p.name for p in parts))
        object.__setattr__(self, "statement", next((s for s in statements if s is not None), None))

    # ---- values

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dict a row, keyed by column name."""
        return self._rows(self.columns, [o.estimate.values() for o in self.outputs])

    @property
    def value(self) -> Any:
        """The number, where the release is one; a search's numbers by name, None if it found none; else the list of rows."""
        if self.is_search:
            return {n: int_or_float(v) for n, v in self.chosen if v is not None} if self.found else None
        if not self.keys and len(self.outputs) == 1:
            return self.outputs[0].estimate.values()[0]
        return self.rows if self.keys else self.rows[0]

    @property
    def is_search(self) -> bool:
        """Whether it is a search's own release: a mean whose bounds were found has a value beside them."""
        return bool(self.chosen) and all(isinstance(o.estimate, NoisyCurve) for o in self.outputs)

    @property
    def found(self) -> bool:
        """Whether a search was successful; raises AttributeError for a release that is no search."""
        if not self.chosen:
            raise AttributeError("this release is of no search, such as find_bounds or find_contribution_bounds")
        return all(v is not None for _, v in self.chosen)

    @property
    def lower(self) -> int | float:
        """The lower bound that a search chose: QuestionRefused where it found none, AttributeError for other releases."""
        return self._chosen("lower")

    @property
    def upper(self) -> int | float:
        """The upper bound that a search chose: QuestionRefused where it found none, AttributeError for other releases."""
        return self._chosen("upper")

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on the answer: the notes, and which released values noise has carried past what is possible."""
        of_outputs = (getattr(o.estimate, "remarks", lambda _: ())(o.name) for o in self.outputs)
        source = () if self.model is None else (self.model.remark(),)
        return (*source, *self.notes, *(remark for several in of_outputs for remark in several))

    @property
    def table(self) -> pa.Table:
        """The values as an Arrow table: a column a key or output; of a series each with its interval, NAME_low and NAME_high."""
        if self.is_series:
            ends = [interval_ends(o.estimate, CONFIDENCE) for o in self.outputs]
            return self._ends(ends, values=True, sides=("low", "high"))
        return self.to_arrow()

    @property
    def is_series(self) -> bool:
        """Whether it is a step, a window or a difference of a series."""
        return any(isinstance(o.estimate, SeriesCells) for o in self.outputs)

    @property
    def tables(self) -> ReleasedTables:
        """The tables of a tabulation by their columns, each with intervals at 95%; AttributeError for other releases."""
        if not self.is_tabulation:
            raise AttributeError("this release holds one table, .table: several are asked for by sd.tabulate")
        return ReleasedTables(self)

    @property
    def is_tabulation(self) -> bool:
        """Whether it holds the tables of a tabulation, all of them."""
        estimates = [o.estimate for o in self.outputs]
        return bool(estimates) and all(isinstance(e, TableCells) and e.is_whole_release for e in estimates)

    def error(self, confidence: float = 0.95) -> Any:
        """Return the error that is not exceeded with probability `confidence`, for each value by itself.

        A number for a single value, a dict by name for several, an Arrow table for a group-by; in the value's units.
        Raises DeclarationError unless 0 < confidence < 1.
        """
        return self._shape([o.estimate.errors(check_confidence(confidence)) for o in self.outputs])

    def interval(self, confidence: float = 0.95) -> Any:
        """Return the confidence interval of each value by itself.

        A pair (lower, upper) for a single value; for several, in one row or by groups, an Arrow table with the keys and
        the columns NAME_lower and NAME_upper. Raises DeclarationError unless 0 < confidence < 1.
        """
        if not self.keys and len(self.outputs) == 1:
            return self.outputs[0].estimate.intervals(check_confidence(confidence))[0]
        return self._ends([interval_ends(o.estimate, check_confidence(confidence)) for o in self.outputs], values=False)

    # ---- a single value as the number that it is

    # A release is no sequence of rows: those are `rows`.
    __iter__ = None

    def __getitem__(self, name: str) -> Any:
        """Return the value of a column, a list of them for a group-by; raises KeyError for a column that there is not."""
        if name not in self.columns:
            names = ", ".join(map(repr, self.columns))
            raise KeyError(f"{name!r} is no column of the answer: use one of {names}; rows are in .rows")
        cells = [row[name] for row in self.rows]
        return cells if self.keys else cells[0]

    def __float__(self) -> float:
        """Return a single number; raises TypeError for several values, and for one that is no number."""
        return float(self._number())

    def __int__(self) -> int:
        """Return a single number cut to a whole one; raises TypeError as `float` does."""
        return int(self._number())

    def __round__(self, digits: int | None = None) -> int | float:
        """Return a single number rounded; raises TypeError as `float` does."""
        return round(self._number(), digits)

    def __format__(self, spec: str) -> str:
        """Format a single number by `spec`, such as ".1f"; without one, return the text of the release."""
        return format(self._number(), spec) if spec else str(self)

    def _number(self) -> int | float:
        value = self.value if not self.keys and len(self.outputs) == 1 else None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError("this release is not one number: take one of its columns, release[name], or release.value")
        return value

    def __getattr__(self, word: str) -> Any:
        """Raise AttributeError with the word that was meant."""
        # An AttributeError of a property ends here too: it is raised again with its own words.
        own = getattr(type(self), word, None)
        if isinstance(own, property) and own.fget is not None:
            return own.fget(self)
        meant = _MEANT.get(word)
        if meant is None and not word.startswith("_"):
            near = difflib.get_close_matches(word, [name for name in dir(type(self)) if not name.startswith("_")], n=1)
            meant = near[0] if near else None
        raise AttributeError(
            f"'Release' object has no attribute {word!r}" + (f": did you mean {meant}?" if meant else "")
        )

    def query(self, text: str) -> Release:
        """Return the result of a SELECT over this release, at no cost: `release.query("SELECT ... FROM answer")`.

        The one table is `answer`, with the columns of `.table`. A released column keeps its interval where no row is left out;
        computed ones have one by replicates of the noise, or state why they have none. The cost stays that of this release.

        Raises QuestionRefused for a text that is not one SELECT over `answer`, calls a function that statements may not, or
        exceeds a limit of rows, memory or seconds.
        """
        answer: Release = load_feature("query_release")(self, text)
        return answer

    # ---- other shapes

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the table to libraries that read Arrow: `pa.table(release)`, polars, pandas, DuckDB."""
        return self.table.__arrow_c_stream__(requested_schema)

    def to_arrow(self, *, intervals: bool = False, confidence: float = 0.95) -> pa.Table:
        """Return the values as an Arrow table; with `intervals`, each output is followed by NAME_lower and NAME_upper."""
        outputs = self.outputs if intervals else ()
        return self._ends([interval_ends(o.estimate, check_confidence(confidence)) for o in outputs], values=True)

    def to_pandas(self, *, intervals: bool = False, confidence: float = 0.95) -> pandas.DataFrame:
        """Return the table of `to_arrow` as a pandas frame."""
        frame: pandas.DataFrame = self.to_arrow(intervals=intervals, confidence=confidence).to_pandas()
        return frame

    def to_polars(self, *, intervals: bool = False, confidence: float = 0.95) -> polars.DataFrame:
        """Return the table of `to_arrow` as a polars frame."""
        import polars

        return polars.DataFrame(polars.from_arrow(self.to_arrow(intervals=intervals, confidence=confidence)))

    def to_csv(self, path: str | Path, *, intervals: bool = False, confidence: float = 0.95) -> None:
        """Write the table of `to_arrow` as CSV with a header line; a missing value is an empty cell."""
        write_csv(self.to_arrow(intervals=intervals, confidence=confidence), path)

    def to_excel(self, path: str | Path, *, confidence: float = 0.95) -> None:
        """Write the release as an Excel workbook: its table with the ends of intervals, and its notes below.

        Raises SourceError without the extra `excel`, pip install 'sordino[excel]'.
        """
        Path(path).write_bytes(load_feature("encode_workbook_of")([self], confidence=confidence))

    def plot(self, *, confidence: float = 0.95, title: str | None = None) -> Any:
        """Return the picture of the release: it is `sd.plot(release)`."""
        return load_feature("plot")(self, confidence=confidence, title=title)

    def to_parquet(self, path: str | Path, *, intervals: bool = False, confidence: float = 0.95) -> None:
        """Write the table of `to_arrow` as Parquet, with the release as JSON in its metadata, `sordino.release`."""
        about = self.to_json(confidence=confidence)
        write_parquet(self.to_arrow(intervals=intervals, confidence=confidence), path, about=about)

    def to_dict(self, *, confidence: float = 0.95) -> dict[str, Any]:
        """Return the release as JSON data, with errors and intervals at `confidence`; the inverse of `from_dict`."""
        cells = {
            "rows": [o.estimate.values() for o in self.outputs],
            "errors": [o.estimate.errors(confidence) for o in self.outputs],
            "intervals": [o.estimate.intervals(confidence) for o in self.outputs],
        }
        keys = [cells_to_json(k.labels) for k in self.keys]
        tables = {name: self._rows(self.columns, list(map(cells_to_json, c)), keys) for name, c in cells.items()}
        return self._data(confidence, tables)

    def to_record(self, *, event: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return `to_dict` without the tables that `from_dict` recomputes, so that each key is stored once, not four times.

        `event` is its event as plain data, where that was written for its charge already.
        """
        tables: dict[str, Any] = {"rows": None, "errors": None, "intervals": None}
        return {name: part for name, part in self._data(0.95, tables, event).items() if name not in tables}

    def _data(
        self, confidence: float, tables: Mapping[str, Any], event: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        return {
            "schema": SCHEMA_VERSION,
            "private": self.private,
            **({"practice": True} if self.practice else {}),
            **({"spender": self.spender} if self.spender is not None else {}),
            "charge": self.charge,
            "request": self.request,
            "time": self.time,
            "table": self.table_name,
            "question": self.question,
            "columns": list(self.columns),
            "rows": tables["rows"],
            "confidence": confidence,
            "errors": tables["errors"],
            "error_units": {o.name: u for o in self.outputs if (u := getattr(o.estimate, "error_unit", ""))},
            "intervals": tables["intervals"],
            "mechanism": {o.name: o.mechanism for o in self.outputs},
            "cost": loss_to_numbers(self.cost),
            "currencies": currencies_to_dict(self.event),
            # a model has no budget
            "spent": None if self.model else loss_to_numbers(self.spent),
            "remaining": None if self.model else loss_to_numbers(self.remaining),
            "neighbors": self.neighbors,
            "privacy_unit": self.privacy_unit,
            "declaration": self.declaration,
            "notes": list(self.notes),
            "remarks": list(self.remarks),
            "chosen": {n: None if v is None else format_number(v) for n, v in self.chosen},
            "event": event_to_dict(self.event) if event is None else event,
            "keys": [{"name": k.name, **labels_to_dict(k.labels), "kind": k.kind} for k in self.keys],
            "estimates": [{"name": o.name, **o.estimate.to_dict()} for o in self.outputs],
            **({} if self.statement is None else {"statement": self.statement.to_dict()}),
            **({} if self.model is None else self.model.to_dict()),
        }

    def to_json(self, *, confidence: float = 0.95) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(confidence=confidence), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Release:
        """Return the release that `to_dict` wrote; raises DeclarationError for another schema version or a malformed release."""
        version = data.get("schema") if isinstance(data, dict) else None
        if version != SCHEMA_VERSION:
            raise DeclarationError(f"this release has schema {version!r:.40}, and {SCHEMA_VERSION} is read here")
        try:
            release = cls._read(data)
            # Writing it shows what was altered deep inside; a statement's replicates are run only when intervals are needed.
            repr(release)
            if release.statement is None:
                release.to_json(), str(release)
            else:
                json.dumps(release.to_record(), allow_nan=False)
                release.statement.check()
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
            raise DeclarationError(
                "this is no whole release: it was altered, cut short, or is something else"
            ) from None
        return release

    @classmethod
    def _read(cls, data: dict[str, Any]) -> Release:
        statement = ReleasedStatement.from_dict(data["statement"]) if "statement" in data else None
        mechanisms = data["mechanism"]
        keys_first = [part["name"] for part in (*data["keys"], *data["estimates"])]
        return cls(
            keys=tuple(Key(k["name"], labels_from_dict(k), k.get("kind", "text")) for k in data["keys"]),
            layout=() if data["columns"] == keys_first else tuple(data["columns"]),
            outputs=tuple(
                Output(e["name"], _read_estimate(e, statement), mechanisms[e["name"]]) for e in data["estimates"]
            ),
            **{name: data[name] for name in _AS_WRITTEN},
            **dict[str, Any]((n, loss_from_numbers(data[n] or data["cost"])) for n in ("cost", "spent", "remaining")),
            event=event_from_dict(data["event"]),
            table_name=data["table"],
            practice=data.get("practice", False),
            spender=data.get("spender"),
            notes=tuple(data["notes"]),
            chosen=tuple((n, None if v is None else to_fraction(v, name=n)) for n, v in data.get("chosen", {}).items()),
            model=ModelSource(data["kind"], data["paid"]) if "paid" in data else None,
        )

    # ---- views

    def summary(self) -> str:
        """Return its cost, the remaining budget and the privacy unit, in one line."""
        banner = "" if self.private else "NOT PRIVATE (seeded noise). "
        if self.practice:
            return f"{_PRACTICE} It would cost {self.cost.describe()}, left: {self.remaining.describe()}"
        if self.model is not None:
            return f"{banner}{self.model.describe(self.table_name)}; charge {self.charge}"
        share = "" if self.spender is None else f" of the share of {self.spender}"
        return (
            f"{banner}cost: {self.cost.describe()}, left{share}: {self.remaining.describe()} of {self._cap().describe()}; "
            f"privacy unit: {self.privacy_unit}, {self.neighbors.replace('_', '/')}; charge {self.charge}"
        )

    def __repr__(self) -> str:
        if not self.parts and not self.chosen:
            shape = self._instead()
        elif self.is_search or not self.keys:
            shape = repr(self.value)
        else:
            shape = f"{len(self.keys[0].labels)} rows of {', '.join(self.columns)}"
        return f"<Release {self.question}: {shape}; {self.summary()}>"

    def __str__(self) -> str:
        """The question, the table with its 95% intervals (at most 40 rows), and its cost."""
        if not self.parts:
            return "\n".join([self.question, self._instead(), self.summary()])
        lines = align([show_columns(self.parts), *self.display_rows(0.95)[:_SHOWN]])
        more = [f"... {self._height() - _SHOWN:,} more rows"] if self._height() > _SHOWN else []
        beside = self.remarks if self.model is not None or (self.chosen and not self.is_search) else ()
        return "\n".join([self.question, *lines, *more, self.summary(), *beside])

    def _repr_html_(self) -> str:
        if self.is_tabulation and any(key.name == BY_COLUMNS for key in self.keys):
            html: str = load_feature("tables_html")(self)
            return html
        rows = self.display_rows(0.95)
        more = [f"{len(rows) - 200} more rows"] if len(rows) > 200 else []
        from sordino.core.text_table import html_table

        return html_table(
            self.question, show_columns(self.parts), rows[:200], notes=(*more, *self.remarks), foot=self.summary()
        )

    def display_rows(self, confidence: float) -> list[list[str]]:
        """Return each row as text cells: keys, then value and interval of each output."""
        return show_cells(self.parts, confidence)

    def _chosen(self, name: str) -> int | float:
        for parameter, value in self.chosen:
            if parameter == name:
                if value is None:
                    raise QuestionRefused(f"the search found no {name} bound to ask with: {'; '.join(self.notes)}")
                return int_or_float(value)
        raise AttributeError(f"this release chose no {name} bound: only find_bounds does")

    def _instead(self) -> str:
        """Return the text shown in place of values where there are none: the answer of a fit is its model."""
        return "; ".join(self.notes) or "no values: the answer is a model"

    def _cap(self) -> Loss:
        left = self.remaining.amounts()
        return loss_from({n: a + left[n] for n, a in self.spent.amounts().items()})

    def _height(self) -> int:
        return len(self.keys[0].labels) if self.keys else 1

    def _rows(
        self, names: Sequence[str], cells: Sequence[Sequence[Any]], keys: Sequence[Sequence[Any]] | None = None
    ) -> list[dict[str, Any]]:
        """Return one dict a row of the keys' labels, or of `keys` in their place, and of the cells of each output."""
        if not names:
            return [{} for _ in range(self._height())]
        labels = [k.labels for k in self.keys] if keys is None else keys
        parts: list[Key | Output] = [*self.keys, *self.outputs]
        columns = {part.name: column for part, column in zip(parts, (*labels, *cells), strict=True)}
        return [dict(zip(names, row, strict=True)) for row in zip(*(columns[n] for n in names), strict=True)]

    def _ends(
        self,
        ends: Sequence[tuple[Sequence[Any], Sequence[Any]]],
        *,
        values: bool,
        sides: tuple[str, str] = ("lower", "upper"),
    ) -> pa.Table:
        """Return an Arrow table of the keys, the values if `values`, and the ends of the intervals of each output."""
        cells: dict[str, dict[str, Sequence[Any]]] = {k.name: {k.name: k.labels} for k in self.keys}
        for i, o in enumerate(self.outputs):
            cells[o.name] = {o.name: o.estimate.values()} if values else {}
            for side, end in enumerate(sides if ends else ()):
                cells[o.name][f"{o.name}_{end}"] = ends[i][side]
        names = [name for columns in cells.values() for name in columns]
        if len(set(names)) < len(names):
            raise DeclarationError("a column of the answer is named as the end of an interval: give it another name")
        kinds = {n: _cell_kind(o.estimate) for o in self.outputs for n in cells[o.name]}
        kinds |= {k.name: k.kind for k in self.keys}
        return arrow_table({n: c for name in self.columns for n, c in cells[name].items()}, kinds)

    def _shape(self, cells: Sequence[Sequence[Any]]) -> Any:
        """Return the cells of each output in the release's shape: a number, a dict or an Arrow table."""
        if self.keys:
            columns = {key.name: key.labels for key in self.keys}
            columns |= {output.name: column for output, column in zip(self.outputs, cells, strict=True)}
            return arrow_table({name: columns[name] for name in self.columns}, {})
        if len(cells) == 1:
            return cells[0][0]
        return {o.name: c[0] for o, c in zip(self.outputs, cells, strict=True)}


def _read_estimate(data: Mapping[str, Any], statement: ReleasedStatement | None) -> ColumnEstimate:
    """Return the estimate of a column; computed ones share the statement that the release holds."""
    estimate = estimate_from_dict({k: data[k] for k in data if k != "name"})
    if not isinstance(estimate, Computed) or estimate.column is None:
        return estimate
    return replace(estimate, statement=statement, places=estimate.places or tuple(range(len(estimate.cells))))


def other_currencies(event: Event, cost: Loss) -> list[str]:
    """Return an event's cost in the currencies that it was not charged in, in words, where a bound is known."""
    charged = cost.amounts()
    bounds = {"rho": event.rho(), "epsilon": event.pure()}
    words = [
        f"{name} {show_number(float(bound))}"
        for name, bound in bounds.items()
        if name not in charged and bound is not None
    ]
    return [f"({', '.join(words)} in another currency)"] if words else []


def show_columns(parts: Sequence[Key | Output]) -> list[str]:
    """Return the header of the displayed table: each key, and each output with its interval."""
    return [t for p in parts for t in ([p.name] if isinstance(p, Key) else [p.name, "95% interval"])]


_FIGURE = re.compile(r"[-+]?\d.*|")


def is_figure(cell: str) -> bool:
    """Return whether a shown cell is a number or an interval, which stand on the right; an empty one is no word either."""
    return _FIGURE.fullmatch(cell) is not None


def show_cells(parts: Sequence[Key | Output], confidence: float) -> list[list[str]]:
    """Return each row as text cells: keys, then value and interval of each output."""
    columns: list[list[str]] = []
    for part in parts:
        if isinstance(part, Key):
            columns.append(show_labels(part, parts))
            continue
        columns.append([_show(v) for v in part.estimate.values()])
        pairs = part.estimate.intervals(confidence)
        instead = _in_rows(part.estimate, confidence)
        columns.append(
            [text if a is None else f"{_show(a)} - {_show(b)}" for (a, b), text in zip(pairs, instead, strict=True)]
        )
    return [list(line) for line in zip(*columns, strict=True)]


def show_labels(key: Key, parts: Sequence[Key | Output]) -> list[str]:
    """Return the labels of a key for reading: of many tables, nothing in the rows of a table that lacks the column."""
    by = next((part.labels for part in parts if isinstance(part, Key) and part.name == BY_COLUMNS), None)
    if by is None:
        return [_label(label) for label in key.labels]
    if key.name == BY_COLUMNS:
        return [_label(label) or "(in all)" for label in key.labels]
    lacks = [f", {key.name}, " not in f", {table}, " for table in by]
    return ["" if none and label is None else _label(label) for label, none in zip(key.labels, lacks, strict=True)]


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines of text, the columns below each other."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def show_number(value: float | None) -> str:
    """Return a number for reading: thousands apart, about six figures.

    >>> show_number(3417), show_number(40.2126), show_number(422876.5)
    ('3,417', '40.2126', '422,876.5')
    """
    if value is None:
        return "-"
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    if abs(value) < 1e-4:
        return f"{value:.6g}"
    places = max(0, 5 - max(0, math.floor(math.log10(abs(value)))))
    text = f"{value:,.{min(places, 12)}f}"
    return text.rstrip("0").rstrip(".") if places and "." in text else f"{value:,.1f}"


def show_rows(error: float, unit: str) -> str:
    """Return an error that is counted in rows, for reading: whole rows, rounded up.

    >>> show_rows(47.3982, "rows from the exact one")
    'at most 48 rows from the exact one'
    """
    return f"at most {math.ceil(error):,} {unit}"


def int_or_float(value: Fraction) -> int | float:
    """Return a number as JSON and tables have it: an int where it is whole."""
    return int(value) if value.denominator == 1 else float(value)


def _cell_kind(estimate: ColumnEstimate) -> str:
    """Return the kind of an output's cells, which is its column's where none has a value."""
    whole = getattr(estimate, "unit", Fraction(1, 2)).denominator == 1
    return getattr(estimate, "cell_kind", "") or ("whole" if whole else "real")


def _show(value: Any) -> str:
    return _label(value) if isinstance(value, (str, datetime.date)) else show_number(value)


def _label(label: Label) -> str:
    return "(missing)" if label is None else str(label)


def _in_rows(estimate: ColumnEstimate, confidence: float) -> list[str]:
    """Return the text for each missing interval: the error where it is counted in rows, else why there is none."""
    unit = getattr(estimate, "error_unit", "")
    why = explain_no_ends(estimate)
    return [show_rows(e, unit) if unit and e is not None else why for e in estimate.errors(confidence)]
