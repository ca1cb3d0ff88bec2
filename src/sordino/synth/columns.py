"""Columns as synthesizers see them: a public list of keys each, and how a value is drawn from a key. Knows no data.

Rules, all public: a category or a boolean has a key a value; whole numbers and days have one each up to 1,024, else 256 runs
of equal width over the declared bounds, in which zero and the two bounds keep runs of their own; reals likewise, on their
lattice. A missing value is a key of its own in a model, unless the declaration fills it; in a histogram where the column
keeps it. A value is drawn from a run uniformly over the column's own steps, and told on the declared resolution.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sordino.domain import Boolean, Category, Column, Date, Domain, Identifier, Integer, Real
from sordino.errors import QuestionRefused
from sordino.neighbors import Neighbors
from sordino.noise.rng import Rng
from sordino.queries.adaptive.marginal import Axis
from sordino.queries.expressions.bound_number import EPOCH
from sordino.queries.expressions.compile import bind_number
from sordino.queries.expressions.nodes import Name
from sordino.synth.sampler import Codes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EncodedColumn", "encode_columns", "histogram_column", "label_of", "model_column", "steps_of", "values_of"]

_MOST_KEYS = 1024
_MOST_RUNS = 256  # an engine compares each cell with the edges of runs


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """One column: its name and declaration, the runs of steps its keys stand for, and how many keys there are.

    `edges` is None where each declared value is a key; else key i holds the steps in [edges[i], edges[i + 1]), the last
    one its upper edge too. `ordered` says that neighboring keys are alike; `missing` that the last key is a missing value.
    """

    name: str
    column: Column
    edges: tuple[int, ...] | None
    size: int
    ordered: bool
    missing: bool

    @property
    def axis(self) -> Axis:
        """The axis of the column's keys."""
        return Axis(self.name, self.edges, missing=self.dropped)

    def with_codes(self, codes: Sequence[int]) -> Axis:
        """Return the axis of public codes of the keys."""
        return Axis(self.name, self.edges, tuple(np.asarray(codes, dtype=np.int64).tolist()), missing=self.dropped)

    @property
    def dropped(self) -> bool:
        """Whether a row with a missing value takes no part where the column does, as declared."""
        return self.missing and self.column.missing == "drop"  # type: ignore[union-attr]  # identifiers have no keys


def encode_columns(domain: Domain, names: Sequence[str] | None, neighbors: Neighbors) -> list[EncodedColumn]:
    """Return the keys of the columns named, or of all that are declared but identifiers and the privacy unit's.

    Raises UnknownName for one that is not declared, QuestionRefused for one whose values are not public.
    """
    unit = None if neighbors.unit is None else neighbors.unit.column
    chosen = names
    if chosen is None:
        chosen = [n for n in domain if n != unit and not isinstance(domain[n], Identifier)]
    if not chosen or len(set(chosen)) != len(chosen):
        raise QuestionRefused("a synthetic table takes one column or more, each once")
    return [model_column(name, domain) for name in chosen]


def histogram_column(name: str, domain: Domain) -> EncodedColumn:
    """Return the keys of one column, missing where it is kept; raises QuestionRefused where they are not public."""
    return _keyed(name, domain, kept=("keep",))


def model_column(name: str, domain: Domain) -> EncodedColumn:
    """Return the keys of one column, missing too unless it is filled; raises QuestionRefused where they are not public."""
    return _keyed(name, domain, kept=("keep", "drop"))


def _keyed(name: str, domain: Domain, *, kept: Sequence[str]) -> EncodedColumn:
    column = domain[name]
    if isinstance(column, Identifier):
        raise QuestionRefused(
            f"{name!r} is declared as an identifier, whose values are not public: a synthetic table has no column of them; "
            "leave it out of the columns, or declare it as a category with its values"
        )
    missing = column.missing in kept
    if isinstance(column, (Category, Boolean)):
        count = len(column.values) if isinstance(column, Category) else 2
        return EncodedColumn(name, column, None, count + missing, False, missing)
    of = bind_number(Name(name), domain)
    if of.interval.lower is None or of.interval.upper is None:
        raise QuestionRefused(f"{name!r} has no declared bounds, so its keys are not public: declare lower and upper")
    low, high = int(of.interval.lower), int(of.interval.upper)
    if not isinstance(column, Real) and high - low < _MOST_KEYS:
        return EncodedColumn(name, column, None, high - low + 1 + missing, True, missing)
    edges = _edges(low, high)
    return EncodedColumn(name, column, edges, len(edges) - 1 + missing, True, missing)


def values_of(column: EncodedColumn, keys: Codes, steps: Codes) -> pa.Array:
    """Return the value of each row from its key and its step on the column's lattice; null for missing."""
    import pyarrow as pa

    declared = column.column
    absent = keys == column.size - 1 if column.missing else None
    if isinstance(declared, (Category, Boolean)):
        labels = pa.array([*(declared.values if isinstance(declared, Category) else (False, True))])
        places = pa.array(keys, mask=absent)
        return labels.take(places)
    if isinstance(declared, Integer):
        return pa.array(steps, mask=absent)
    if isinstance(declared, Date):
        return pa.array(steps.astype(np.int32), mask=absent).cast(pa.date32())
    return pa.array(_reals(declared, steps), mask=absent)  # type: ignore[arg-type]  # identifiers have no keys


def label_of(column: EncodedColumn, key: int) -> str | int | bool | None:
    """Return the label of one key: its value, or its run."""
    declared = column.column
    if column.missing and key == column.size - 1:
        return None
    if isinstance(declared, Category):
        return declared.values[key]
    if isinstance(declared, Boolean):
        return bool(key)
    if column.edges is None:
        low = _lowest(declared)
        return (EPOCH + datetime.timedelta(days=low + key)).isoformat() if isinstance(declared, Date) else low + key
    return f"[{column.edges[key]}, {column.edges[key + 1]})"


def _lowest(declared: Column) -> int:
    if isinstance(declared, Date):
        return (declared.lower - EPOCH).days
    if isinstance(declared, Integer) and declared.lower is not None:
        return declared.lower
    raise ValueError("a column without declared values")


def steps_of(column: EncodedColumn, keys: Codes, rng: Rng) -> Codes:
    """Return a whole step of the column's lattice for each key: the declared value's, or one drawn evenly from its run."""
    if isinstance(column.column, (Category, Boolean)):
        return keys
    if column.edges is None:
        return keys + _lowest(column.column)
    edges = np.asarray(column.edges, dtype=np.int64)
    place = np.minimum(keys, len(edges) - 2)
    width = edges[place + 1] - edges[place]
    width[place == len(edges) - 2] += 1  # the last run is closed
    offset = np.floor(rng.uniform_doubles(len(keys)) * width).astype(np.int64)
    made: Codes = edges[place] + np.minimum(offset, width - 1)
    return made


def _reals(declared: Real, steps: Codes) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return steps as numbers on the declared resolution, within the declared bounds."""
    step = declared.step or Fraction(1)
    near = steps.astype(np.float64) * float(step.numerator) / float(step.denominator)
    low = -math.inf if declared.lower is None else float(declared.lower)
    high = math.inf if declared.upper is None else float(declared.upper)
    return np.clip(near, low, high)


def _edges(low: int, high: int) -> tuple[int, ...]:
    """Return edges of at most 256 runs of near equal width, with runs of one step at both bounds and at zero."""
    inner = _MOST_RUNS - 8
    cuts = {low, high, min(low + 1, high)} | {c for c in (0, 1) if low <= c <= high}
    cuts |= (
        set(range(low, high + 1)) if high - low <= inner else {low + (high - low) * i // inner for i in range(inner)}
    )
    return (*sorted(cuts), high)  # the last run is [high, high], closed
