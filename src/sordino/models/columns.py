"""The columns of a model: which are numbers and which categories, and the cells of a frame as they are declared."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from sordino.ask.queries.aggregation import Grouping
from sordino.ask.queries.expressions.nodes import Arithmetic, Compare, Constant, IsNull, Name, Node, Not, When
from sordino.core.domain import Boolean, Category, Column, Domain, Fill, Integer, Real
from sordino.core.errors import DeclarationError, QuestionRefused, UnknownName, nearest
from sordino.core.loss import LossArguments
from sordino.core.neighbors import Neighbors
from sordino.core.release import Release

Floats = np.ndarray[Any, np.dtype[np.float64]]
# A column as it is named, or several columns whose product is one of the model, or, with categories, several.
Term = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """A declared value of a category as a factor of a product: 1 in the rows that have it, else 0."""

    column: str
    value: Any


# A number of the model: a column, or a product of numbers and levels.
Number = str | tuple[str | Level, ...]


class Table(Protocol):
    """A table that a model is fitted to; a Curator is one."""

    @property
    def domain(self) -> Domain:
        """What is declared about the table."""

    @property
    def neighbors(self) -> Neighbors:
        """Which tables count as neighbors."""

    @property
    def plan(self) -> Callable[..., Any]:
        """What returns the price of a question at a loss."""

    @property
    def ask(self) -> Callable[..., Any]:
        """What returns the answer of a question, charged once."""


@dataclass(frozen=True, slots=True)
class Predictors:
    """The columns that a model predicts from: `terms` as they were named, and the declaration of each column they use."""

    terms: tuple[Term, ...]
    declared: tuple[tuple[str, Column], ...]

    @property
    def numbers(self) -> tuple[Number, ...]:
        """The terms that are numbers, and products; one with a category is a number for each of its values but the first.

        The first value has one too where the rest of the product is no term, so that it has a slope of its own.
        """
        numbers: list[Number] = []
        for term in self.terms:
            if isinstance(term, str):
                numbers += [] if self.is_category(term) else [term]
                continue
            factors: list[list[str | Level]] = []
            for name in term:
                if not self.is_category(name):
                    factors.append([name])
                    continue
                rest = sorted(other for other in term if other != name)
                stands = any(sorted([other] if isinstance(other, str) else other) == rest for other in self.terms)
                values = declared_values(dict(self.declared)[name])
                first = 1 if stands or all(map(self.is_category, rest)) else 0
                factors.append([Level(name, value) for value in values[first:]])
            numbers += itertools.product(*factors)
        return tuple(numbers)

    @property
    def categories(self) -> tuple[str, ...]:
        """The terms that are categories."""
        return tuple(term for term in self.terms if isinstance(term, str) and self.is_category(term))

    def is_category(self, name: str) -> bool:
        """Return whether a column has declared values in place of numbers."""
        return isinstance(dict(self.declared)[name], (Category, Boolean))

    def numbers_of(self, frame: Any) -> Floats:
        """Return the numbers of a frame's rows, clipped to their declared bounds: (rows, numbers), nan where one is missing."""
        columns = dict(self.declared)
        table = read_frame(frame, [name for name, _ in self.declared])
        rows = len(next(iter(table.values()))) if table else 0
        result = np.ones((rows, len(self.numbers)))
        cells: dict[str | Level, Floats] = {}
        for i, number in enumerate(self.numbers):
            for factor in factors_of(number):
                if factor not in cells:
                    cells[factor] = _read_factor(factor, table, columns)
                result[:, i] *= cells[factor]
        return result

    def codes_of(self, frame: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the place of each row's value among the declared ones: (rows, categories), -1 where it is missing."""
        columns = dict(self.declared)
        table = read_frame(frame, [name for name, _ in self.declared])
        rows = len(next(iter(table.values()))) if table else 0
        result = np.zeros((rows, len(self.categories)), dtype=np.int64)
        for i, name in enumerate(self.categories):
            result[:, i] = read_codes(table[name], columns[name])
        return result

    def columns_of(self, frame: Any) -> Floats:
        """Return the numbers of a frame's rows, then 1 or 0 for each category's values but the first: (rows, columns).

        nan where a cell is missing.
        """
        codes = self.codes_of(frame)
        columns = [self.numbers_of(frame)]
        for i, name in enumerate(self.categories):
            values = np.arange(1, len(declared_values(dict(self.declared)[name])))
            indicators = (codes[:, i : i + 1] == values).astype(np.float64)
            indicators[codes[:, i] < 0] = np.nan
            columns.append(indicators)
        result: Floats = np.concatenate(columns, axis=1)
        return result

    def scores_of(self, frame: Any, values: Floats, intercept: float) -> Floats:
        """Return intercept + sum of slope * column for each row of a frame: (rows,), nan where a column is missing.

        `values` are the slopes of the numbers, then of each category's values but the first.
        """
        result: Floats = intercept + self.columns_of(frame) @ values
        return result


def factors_of(number: Number) -> tuple[str | Level, ...]:
    """Return what a number of the model is the product of."""
    return (number,) if isinstance(number, str) else number


def _read_factor(factor: str | Level, table: dict[str, list[Any]], columns: dict[str, Column]) -> Floats:
    if isinstance(factor, str):
        return read_numbers(table[factor], columns[factor])
    column = columns[factor.column]
    codes = read_codes(table[factor.column], column)
    indicators: Floats = (codes == declared_values(column).index(factor.value)).astype(np.float64)
    indicators[codes < 0] = np.nan
    return indicators


def name_level(column: str, value: Any) -> str:
    """Return the name of a category's value among coefficients."""
    return f"{column} = {'(missing)' if value is None else value}"


def name_term(number: Number) -> str:
    """Return the name of a number of the model: "area * age", "area where zone = b"."""
    numbers = " * ".join(factor for factor in factors_of(number) if isinstance(factor, str))
    levels = ", ".join(name_level(f.column, f.value) for f in factors_of(number) if isinstance(f, Level))
    return " where ".join(filter(None, (numbers, levels)))


def _names(terms: Sequence[Term]) -> list[str]:
    return list(dict.fromkeys(name for term in terms for name in ((term,) if isinstance(term, str) else term)))


def read_predictors(domain: Domain, x: Sequence[Term], *, role: str = "x", without: str | None = None) -> Predictors:
    """Return the columns that are named; raises UnknownName for others, DeclarationError for what names none, QuestionRefused.

    A tuple stands for the product of its columns. Dates and identifiers are refused, and a column that is predicted.
    """
    if isinstance(x, str) or not isinstance(x, Sequence) or not x:
        raise DeclarationError(f"is a list of columns, such as {role}=['age', 'region'], not {x!r:.60}", key=role)
    terms: list[Term] = []
    for term in x:
        parts = (term,) if isinstance(term, str) else tuple(term) if isinstance(term, (list, tuple)) else ()
        if not parts or not all(isinstance(part, str) for part in parts):
            raise DeclarationError(
                f"names columns by text, or products of columns as tuples, not {term!r:.60}", key=role
            )
        for name in parts:
            require_column(domain, name, role)
            if name == without:
                raise DeclarationError(f"{name!r} is what is predicted: leave it out", key=role)
            if isinstance(domain[name], (Category, Boolean)) and parts.count(name) > 1:
                raise DeclarationError(f"names {name!r} twice in a product, and it is a category", key=role)
        terms.append(parts[0] if len(parts) == 1 else parts)
    if len(set(map(name_term, terms))) < len(terms):
        raise DeclarationError("names a column twice", key=role)
    return Predictors(tuple(terms), tuple((name, domain[name]) for name in _names(terms)))


def domain_of(table: Any) -> Domain:
    """Return what is declared about a table; raises DeclarationError for what is none, QuestionRefused for one to be awaited."""
    if not hasattr(table, "domain") or not hasattr(table, "neighbors"):
        raise DeclarationError("is a table that answers questions, such as sd.connect(...).table(name)", key="table")
    # Its answers are coroutines, which nobody would await: a fit would end in an error of Python's, or return one as a model.
    if inspect.iscoroutinefunction(getattr(type(table), "ask", None)):
        raise QuestionRefused(
            'the calls of this table are awaited: write model = await table.fit_prediction("naive_bayes", y=..., x=[...], '
            "epsilon=1), which its server fits, or open the table by sd.connect"
        )
    domain: Domain = table.domain
    return domain


def read_numbers_of(table: Any, columns: Any, what: str) -> Predictors:
    """Return columns that are all numbers by themselves; raises QuestionRefused for others, of which there is no `what`."""
    predictors = read_predictors(domain_of(table), columns, role="columns")
    if predictors.categories or any(isinstance(term, tuple) for term in predictors.terms):
        raise QuestionRefused(f"{what} are of numbers alone: leave out categories, booleans and products")
    return predictors


def require_range(name: str, column: Column) -> None:
    """Raise QuestionRefused for a column that varies in no declared range, or has no two declared values."""
    if isinstance(column, (Category, Boolean)):
        if len(declared_values(column)) < 2:
            raise QuestionRefused(f"{name!r} is declared with one value, so nothing depends on it: leave it out")
        return
    lower = getattr(column, "lower", None)
    upper = getattr(column, "upper", None)
    if lower is None or upper is None:
        raise QuestionRefused(f"{name!r} has no declared range: declare lower and upper bounds")
    if lower >= upper:
        raise QuestionRefused(f"{name!r} is declared as constant, so nothing depends on it: leave it out")


def require_column(domain: Domain, name: Any, role: str) -> Column:
    """Return the declaration of a column that a model can use.

    Raises UnknownName for a column that is not declared, QuestionRefused for one that is neither a number nor a category.
    """
    if not isinstance(name, str):
        raise DeclarationError(f"names a column by text, not {name!r:.40}", key=role)
    if name not in domain:
        raise UnknownName(f"{role} names {name!r}, which is not declared; {nearest(name, list(domain))}")
    column = domain[name]
    if not isinstance(column, (Integer, Real, Category, Boolean)):
        kind = type(column).__name__.lower()
        raise QuestionRefused(
            f"{role} names {name!r}, which is declared as {kind}: models take numbers, categories and booleans; declare a "
            "number of days, or a category, in its place"
        )
    return column


def require_weight(domain: Domain, name: Any) -> Grouping:
    """Return the weight of rows as a column of a question; raises what `require_column` raises, QuestionRefused for no number."""
    if isinstance(require_column(domain, name, "weights"), (Category, Boolean)):
        raise QuestionRefused(f"weights names {name!r}, which is no number: a row counts by a number of 0 or more")
    return Grouping(name, Name(name))


def groups_of(terms: Sequence[Number], domain: Domain) -> tuple[Grouping, ...]:
    """Return the numbers of a model, or its categories, as columns of a question."""
    return tuple(Grouping(name_term(term), _node(term, domain)) for term in terms)


def _node(number: Number, domain: Domain) -> Node:
    nodes = [Name(f) if isinstance(f, str) else _level_node(f, domain[f.column]) for f in factors_of(number)]
    return functools.reduce(lambda product, node: Arithmetic("*", product, node), nodes)


def _level_node(level: Level, column: Column) -> Node:
    """Return 1 in the rows that have the value, 0 in others, nothing in rows that are dropped for want of one."""
    name = Name(level.column)
    if level.value is None:
        return IsNull(name)
    is_value: Node = Compare("=", name, Constant(level.value))
    if isinstance(column, Boolean):
        is_value = name if level.value else Not(name)
    zero = Constant(Fraction(0))
    return When(IsNull(name), zero, is_value) if getattr(column, "missing", None) == "keep" else is_value


def read_frame(frame: Any, names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the cells of some columns of a frame: of pandas, polars, Arrow, or a dict of lists. Other columns are ignored.

    Raises DeclarationError where a column is missing, or where it is no frame.
    """
    import pyarrow as pa

    if isinstance(frame, dict):
        columns = list(frame)
    else:
        named: Any = getattr(frame, "column_names", None) or getattr(frame, "columns", ())
        columns = list(named)
    if not columns:
        raise DeclarationError("takes a frame with named columns, of pandas, polars or Arrow", key="frame")
    missing = [name for name in names if name not in columns]
    if missing:
        raise DeclarationError(f"has no column {missing[0]!r}, which the model predicts from", key="frame")
    if isinstance(frame, dict):
        table_of_lists = {name: list(frame[name]) for name in names}
        if len({len(cells) for cells in table_of_lists.values()}) > 1:
            raise DeclarationError("has columns of several lengths", key="frame")
        return table_of_lists
    selected = frame.select(list(names)) if hasattr(frame, "select") else frame[list(names)]
    table = selected if isinstance(selected, pa.Table) else pa.table(selected)
    return {name: table.column(name).to_pylist() for name in names}


def read_numbers(cells: Sequence[Any], column: Column) -> Floats:
    """Return numbers clipped to their declared bounds, and filled as declared; nan where one is missing."""
    assert isinstance(column, (Integer, Real))
    filled: Any = column.missing.value if isinstance(column.missing, Fill) else np.nan
    fill = float(filled)
    try:
        values = np.array([fill if cell is None or cell != cell else float(cell) for cell in cells], dtype=np.float64)
    except (TypeError, ValueError):
        raise DeclarationError(
            "has cells that are no numbers in a column that is declared as one", key="frame"
        ) from None
    low = -np.inf if column.lower is None else float(column.lower)
    high = np.inf if column.upper is None else float(column.upper)
    return np.clip(values, low, high)


def declared_values(column: Column) -> list[Any]:
    """Return the values that a category's rows are told apart by, in declared order; None, the last, is a missing cell."""
    values: list[Any] = list(column.values) if isinstance(column, Category) else [False, True]
    if isinstance(column, Integer) and column.lower is not None and column.upper is not None:
        values = list(range(column.lower, column.upper + 1))
    return [*values, None] if getattr(column, "missing", None) == "keep" else values


def read_codes(cells: Sequence[Any], column: Column) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the place of each cell among the declared values; -1 where it is missing, or none of them."""
    values = declared_values(column)
    places = {_plain(value): i for i, value in enumerate(values)}
    missing: Any = getattr(column, "missing", None)
    fill = missing.value if isinstance(missing, Fill) else None
    other = places[column.other] if isinstance(column, Category) and column.other is not None else -1
    codes = []
    for cell in cells:
        value = fill if cell is None or cell != cell else _plain(cell)
        if isinstance(column, Integer) and value is not None:
            # beyond its bounds a number counts as the bound, in questions too
            value = min(max(value, values[0]), column.upper)
        codes.append(places.get(value, -1 if value is None else other))
    return np.array(codes, dtype=np.int64)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def predictor_names(predictors: Predictors) -> tuple[str, ...]:
    """Return the names of a model's coefficients: its numbers, and each category's values but the first."""
    names = [name_term(term) for term in predictors.numbers]
    for name in predictors.categories:
        values = declared_values(dict(predictors.declared)[name])
        names += [name_level(name, value) for value in values[1:]]
    return tuple(names)


def check_folds(validate: int | None) -> None:
    """Raise DeclarationError for held-out units that are not one in so many."""
    if validate is not None and (
        isinstance(validate, bool) or not isinstance(validate, int) or not 2 <= validate <= 100
    ):
        raise DeclarationError("holds one unit in so many out: a whole number from 2 to 100", key="validate")


def check_rows(assume_rows: int | None, parameters: int) -> None:
    """Raise QuestionRefused where the rows that are assumed, a public number, are fewer than a model has parameters."""
    if assume_rows is None:
        return
    if isinstance(assume_rows, bool) or not isinstance(assume_rows, int) or assume_rows < 1:
        raise DeclarationError("must be a whole number of 1 or more", key="assume_rows")
    if assume_rows <= parameters:
        raise QuestionRefused(
            f"{assume_rows:,} rows cannot tell {parameters:,} parameters: name fewer columns, or fewer values of categories"
        )


def note_rows(rows: float, parameters: int) -> tuple[str, ...]:
    """Return the note that there are hardly more rows than parameters, by a noisy count; none where there are."""
    if rows > 2 * parameters:
        return ()
    return (f"there are about {max(rows, 0):,.0f} rows for {parameters:,} parameters: too few for a model",)


def note_weights(weights: str | None) -> tuple[str, ...]:
    """Return the note of what a row counts by; none where rows count alike."""
    return () if weights is None else (f"a row counts by {weights!r}, as a part of its upper declared bound",)


def note_intervals(names: Sequence[str], noise: Floats | None) -> tuple[str, ...]:
    """Return the note of the coefficients, the intercept first, whose interval noise makes infinite, and what to do about it."""
    deviations = [] if noise is None else noise.tolist()
    hidden = [
        name for place, name in enumerate(("intercept", *names)) if place >= len(deviations) or deviations[place] < 0
    ]
    if not hidden:
        return ()
    whose = "no coefficient" if len(hidden) > len(names) else f"none of {', '.join(hidden)}"
    return (f"{whose} has an interval, as noise hides it: a larger epsilon, fewer columns or more rows make one",)


def ask_for(table: Table, question: Any, loss: LossArguments) -> Release:
    """Ask a question of a table, charged once."""
    release: Release = table.ask(question, **loss)
    return release
