"""Columns encoded as codes: numbers, times, categories, and the domain as it is compressed."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino.ask.queries.adaptive.marginal import Axis
from sordino.ask.queries.adaptive.round_values import RoundSet, sets_of
from sordino.ask.queries.expressions.compile import bind_number
from sordino.ask.queries.expressions.nodes import Name
from sordino.core.domain import Boolean, Category, Date, DateTime, Domain, Fill, Identifier, Integer, List, Real
from sordino.core.errors import QuestionRefused, SordinoError
from sordino.core.neighbors import Neighbors
from sordino.core.noise.lattice import scale_of, to_lattice
from sordino.core.noise.rng import Rng
from sordino.core.time_zones import EPOCH, local_time, offsets, seconds_since

if TYPE_CHECKING:
    import pyarrow as pa


# ---- The kinds of arrays that synthesizers compute with: floats for counts and shares, whole numbers for keys and
# codes

Floats = np.ndarray[Any, np.dtype[np.float64]]
Codes = np.ndarray[Any, np.dtype[np.int64]]


# ---- Datetimes of a table given or made up, as whole steps of the declared resolution, and back. Knows no engine

_MICROS = 1_000_000


def moment_steps_of(cells: Any, declared: DateTime) -> npt.NDArray[np.int64]:
    """Return the steps of an Arrow array of timestamps, days or text in ISO form; 0 where a cell is missing.

    What has no offset from UTC is read by the declared zone's clock.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    aware = pa.types.is_timestamp(cells.type) and cells.type.tz is not None
    moments = cells.cast(pa.timestamp("us", cells.type.tz if aware else None), safe=False)
    micros = np.asarray(pc.fill_null(moments.cast(pa.int64()), 0))
    low, high = (end * declared.resolution for end in declared.steps)
    if not aware:
        zone_offsets = offsets(declared.zone, int(low), int(high))
        starts = np.array([start * _MICROS for start in zone_offsets.local_starts], dtype=np.int64)
        offset_micros = np.array(zone_offsets.values, dtype=np.int64) * _MICROS
        micros = micros - offset_micros[np.searchsorted(starts, micros, side="right")]
    steps: npt.NDArray[np.int64] = micros // int(declared.resolution * _MICROS)
    return steps


def moment_cells(steps: npt.NDArray[np.int64], declared: DateTime, absent: Any) -> pa.Array:
    """Return steps as an Arrow array of timestamps of the declared zone, null where `absent`."""
    import pyarrow as pa

    micros = steps.astype(np.int64) * int(declared.resolution * _MICROS)
    return pa.array(micros, mask=absent).cast(pa.timestamp("us", declared.zone))


# ---- Columns as synthesizers see them: a public list of keys each, from values to keys and back. Knows no curator's
# table
#
# Rules, all public: a category or a boolean has a key a value; whole numbers and days have one each up to 1,024, else 256 runs
# of equal width over the declared bounds, in which zero and the two bounds keep runs of their own; reals likewise, on their
# lattice. A missing value is a key of its own in a model, unless the declaration fills it; in a histogram where the column
# keeps it. A value is drawn from a run uniformly over the column's own steps, and stated on the declared resolution.

MOST_KEYS = 1024
# An engine compares each cell with every edge of these runs.
_MOST_RUNS = 256


@dataclass(frozen=True, slots=True)
class Heaps:
    """How the rows of a run spread over its round values, by part of the column: part i begins at the step `starts[i]`.

    `sets` are numbers of sets of round values (`round_sets_of`), ascending, first 0 for all steps. Rows of a run are drawn
    from a set in proportion to `weights[part][i]`, times the values of it in the run, then evenly among these.
    """

    starts: tuple[int, ...]
    sets: tuple[int, ...]
    weights: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """One column: its name and declaration, the runs of steps its keys stand for, and how many keys there are.

    `edges` is None where each declared value is a key; else key i holds the steps in [edges[i], edges[i + 1]), the last
    one its upper edge too. `ordered` says that neighboring keys are alike; `missing` that the last key is a missing value.
    `lowest` is the step of the first key of an ordered column, `unit` the length of a step. `released` says that the edges
    are released values, and not those that follow from the declaration. `heaps` are where the rows of a run were found to be.
    `lump` is about how many rows share a value, beyond what heaps say: 1 where they lie by themselves, None where it is unknown.
    """

    name: str
    column: Integer | Real | Category | Boolean | Date | DateTime
    edges: tuple[int, ...] | None
    size: int
    ordered: bool
    missing: bool
    lowest: int = 0
    unit: Fraction = Fraction(1)
    released: bool = False
    heaps: Heaps | None = None
    lump: float | None = None

    def axis(self, codes: Codes | None = None) -> Axis:
        """Return the axis of the column's keys, or of public codes of them."""
        public = None if codes is None else tuple(codes.tolist())
        return Axis(self.name, self.edges, public, missing=self.dropped)

    def with_edges(self, edges: tuple[int, ...]) -> EncodedColumn:
        """Return the column cut at released edges."""
        return replace(self, edges=edges, size=len(edges) - 1 + self.missing, released=True)

    @property
    def dropped(self) -> bool:
        """Whether a row with a missing value takes no part where the column does, as declared."""
        return self.missing and self.column.missing == "drop"

    @property
    def equally_cut(self) -> bool:
        """Whether the keys are runs of equal width over the declared bounds, wherever the rows lie."""
        return self.edges is not None and not self.released

    @property
    def middles(self) -> Floats:
        """The middle step of each key of an ordered column that is no missing value."""
        if self.edges is None:
            return np.arange(self.lowest, self.lowest + self.value_count, dtype=np.float64)
        made: Floats = (np.asarray(self.edges[:-1]) + np.maximum(np.asarray(self.edges[1:]) - 1, self.edges[:-1])) / 2.0
        return made

    @property
    def runs(self) -> tuple[Codes, Codes]:
        """The first and the last step of each run."""
        assert self.edges is not None
        edges = np.asarray(self.edges, dtype=np.int64)
        return edges[:-1], np.append(edges[1:-1] - 1, edges[-1])

    @property
    def value_count(self) -> int:
        """The number of keys that are no missing value."""
        return self.size - self.missing

    @property
    def highest(self) -> int:
        """The last step of an ordered column."""
        return self.lowest + self.value_count - 1 if self.edges is None else self.edges[-1]


def encode_columns(domain: Domain, names: Sequence[str] | None, neighbors: Neighbors) -> list[EncodedColumn]:
    """Return the keys of the columns named, or of all that are declared but identifiers and the privacy unit's.

    Raises UnknownName for one that is not declared, QuestionRefused for one whose values are not public.
    """
    unit = neighbors.id_column
    columns = names
    if columns is None:
        columns = [n for n in domain if n != unit and not isinstance(domain[n], Identifier)]
    if not columns or len(set(columns)) != len(columns):
        raise QuestionRefused("a synthetic table takes one column or more, each once")
    return [model_column(name, domain) for name in columns]


def histogram_column(name: str, domain: Domain) -> EncodedColumn:
    """Return the keys of one column, missing where it is kept; raises QuestionRefused where they are not public."""
    return _column(name, domain, kept=("keep",))


def model_column(name: str, domain: Domain) -> EncodedColumn:
    """Return the keys of one column, missing too unless it is filled; raises QuestionRefused where they are not public."""
    return _column(name, domain, kept=("keep", "drop"))


def model_columns(domain: Domain) -> list[EncodedColumn]:
    """Return the keys of every declared column that a synthetic table can have: the others have no public keys."""
    columns = []
    for name in domain:
        if not isinstance(domain[name], (Identifier, List)):
            with suppress(SordinoError):
                columns.append(model_column(name, domain))
    return columns


def _column(name: str, domain: Domain, *, kept: Sequence[str]) -> EncodedColumn:
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
    if not isinstance(column, Real) and high - low < MOST_KEYS:
        return EncodedColumn(name, column, None, high - low + 1 + missing, True, missing, low, of.unit)
    edges = equal_runs(low, high, _MOST_RUNS)
    return EncodedColumn(name, column, edges, len(edges) - 1 + missing, True, missing, low, of.unit)


def encode_table(table: pa.Table, columns: Sequence[EncodedColumn]) -> list[Codes]:
    """Return the key of each row in each column of a given table, -1 where the declaration drops it.

    It is for evaluation that is not private, and for synthetic rows. Raises QuestionRefused without a column.
    """
    absent = [c.name for c in columns if c.name not in table.column_names]
    if absent:
        raise QuestionRefused(f"the table to compare with has no column {absent[0]!r}")
    return [_encode(c, table.column(c.name).combine_chunks()) for c in columns]


def _encode(column: EncodedColumn, cells: Any) -> Codes:
    """Return the keys of an Arrow array by the declaration: values outside the bounds are clipped to them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    declared = column.column
    fill: Any = declared.missing.value if isinstance(declared.missing, Fill) else None
    if isinstance(declared, (Category, Boolean)):
        if isinstance(declared, Category):
            kind = pa.string() if isinstance(declared.values[0], str) else pa.int64()
            indices = pc.index_in(cells.cast(kind), value_set=pa.array(list(declared.values), type=kind))
            if declared.other is not None:
                other = pa.scalar(declared.values.index(declared.other), indices.type)
                indices = pc.if_else(pc.and_(pc.is_valid(cells), pc.is_null(indices)), other, indices)
            filled = -1 if fill is None else declared.values.index(fill)
        else:
            indices = cells
            filled = -1 if fill is None else int(bool(fill))
        absent = column.size - 1 if column.missing else filled
        return np.asarray(pc.fill_null(indices.cast(pa.int64()), absent))
    numbers = cells.cast(pa.date32()).cast(pa.int32()) if isinstance(declared, Date) else cells
    if isinstance(declared, DateTime):
        numbers = pc.if_else(pc.is_valid(cells), pa.scalar(0.0), pa.scalar(None, pa.float64()))
    missing = np.asarray(pc.is_null(numbers, nan_is_null=True))
    values = np.where(missing, 0.0, np.asarray(pc.fill_null(numbers.cast(pa.float64()), 0.0)))
    op, factor = scale_of(column.unit)
    steps = np.floor((values * factor if op == "*" else values / factor) + 0.5)
    if isinstance(declared, DateTime):
        steps = moment_steps_of(cells, declared).astype(np.float64)
    steps = np.clip(steps, column.lowest, column.highest).astype(np.int64)
    if fill is not None:
        steps[missing] = _fill_step(fill, column)
        missing = np.zeros_like(missing)
    if column.edges is None:
        keys = steps - column.lowest
    else:
        keys = np.searchsorted(np.asarray(column.edges[:-1], dtype=np.int64), steps, side="right") - 1
    keys[missing] = column.size - 1 if column.missing else -1
    return keys


def _fill_step(fill: Any, column: EncodedColumn) -> int:
    if isinstance(column.column, DateTime):
        return int(seconds_since(fill, column.column.zone) // column.unit)
    return (fill - EPOCH).days if isinstance(column.column, Date) else to_lattice(Fraction(fill), column.unit)


def values_of(column: EncodedColumn, keys: Codes, steps: Codes) -> pa.Array:
    """Return the value of each row from its key and its step on the column's lattice; null for missing."""
    import pyarrow as pa

    declared = column.column
    absent = keys == column.size - 1 if column.missing else None
    if isinstance(declared, (Category, Boolean)):
        labels = pa.array([*(declared.values if isinstance(declared, Category) else (False, True))])
        return labels.take(pa.array(keys, mask=absent))
    if isinstance(declared, Integer):
        return pa.array(steps, mask=absent)
    if isinstance(declared, Date):
        return pa.array(steps.astype(np.int32), mask=absent).cast(pa.date32())
    if isinstance(declared, DateTime):
        return moment_cells(steps, declared, absent)
    return pa.array(_reals(declared, steps), mask=absent)


def label_of(column: EncodedColumn, key: int) -> str | int | bool | None:
    """Return the label of one key: its value, or its run."""
    declared = column.column
    if key == column.value_count:
        return None
    if isinstance(declared, Category):
        return declared.values[key]
    if isinstance(declared, Boolean):
        return bool(key)
    if column.edges is not None:
        return f"[{column.edges[key]}, {column.edges[key + 1]})"
    step = column.lowest + key
    if isinstance(declared, DateTime):
        return local_time(step * column.unit, declared.zone).isoformat()
    return (EPOCH + datetime.timedelta(days=step)).isoformat() if isinstance(declared, Date) else step


def steps_of(column: EncodedColumn, keys: Codes, rng: Rng) -> Codes:
    """Return a whole step of the column's lattice for each key: the declared value's, or one drawn evenly from its run."""
    if column.edges is None:
        return keys + column.lowest if column.ordered else keys
    lows, highs = column.runs
    place = np.minimum(keys, len(lows) - 1)
    if column.heaps is not None:
        return _heaped_steps(column, column.heaps, place, rng)
    width = highs[place] - lows[place] + 1
    offset = np.floor(rng.uniform_doubles(len(keys)) * width).astype(np.int64)
    steps: Codes = lows[place] + np.minimum(offset, width - 1)
    return steps


def _heaped_steps(column: EncodedColumn, heaps: Heaps, place: Codes, rng: Rng) -> Codes:
    """Return a step in each of some runs: a set of round values by its share of the run, then one of its values evenly."""
    lows = column.runs[0]
    points = points_in_runs(column, heaps.sets)
    mass = points * _set_weights(column, points)
    rising = np.cumsum(mass, axis=1)
    rising /= rising[:, -1:]
    uniform = rng.uniform_doubles(len(place))
    chosen = np.minimum((rising[place] <= uniform[:, None]).sum(axis=1), len(heaps.sets) - 1)
    within = np.floor(rng.uniform_doubles(len(place)) * points[place, chosen]).astype(np.int64)
    within = np.minimum(within, points[place, chosen].astype(np.int64) - 1)
    steps: Codes = lows[place] + within
    sets = round_sets_of(column)
    for i, number in enumerate(heaps.sets[1:], 1):
        rows = np.flatnonzero(chosen == i)
        one = sets[number - 1]
        steps[rows] = one.at(one.ordinal(lows[place[rows]] - 1) + 1 + within[rows])
    return steps


def _set_weights(column: EncodedColumn, points: Floats) -> Floats:
    """Return the weight of a value of each set in each run, beyond that of the set around it; `points` count the values."""
    heaps = column.heaps
    if heaps is None:
        return np.ones_like(points)
    part = np.searchsorted(np.asarray(heaps.starts, dtype=np.int64), column.runs[0], side="right") - 1
    weights: Floats = np.asarray(heaps.weights)[part]
    # Where a run has no value of any weight, noise has put rows into it, and they lie anywhere.
    weights[(points * weights).sum(axis=1) <= 0.0, 0] = 1.0
    return weights


def shares_before(column: EncodedColumn, step: int) -> Floats:
    """Return the share of each run's rows that lie before a step: they lie evenly, but for heaps."""
    lows, highs = column.runs
    sets = (0,) if column.heaps is None else column.heaps.sets
    points = points_in_runs(column, sets)
    weights = _set_weights(column, points)
    before = points_between(column, sets, lows, np.clip(step - 1, lows - 1, highs))
    shares: Floats = (before * weights).sum(axis=1) / (points * weights).sum(axis=1)
    return shares


def values_in_runs(column: EncodedColumn) -> Floats:
    """Return about how many values the rows of each run spread over: its steps, or those of its heaps."""
    sets = (0,) if column.heaps is None else column.heaps.sets
    points = points_in_runs(column, sets)
    weights = _set_weights(column, points)
    heaviest = np.where(points > 0, weights, 0.0).sum(axis=1)
    values: Floats = (points * weights).sum(axis=1) / heaviest
    return values


def round_sets_of(column: EncodedColumn) -> tuple[RoundSet, ...]:
    """Return the sets of round values of an ordered column; set i has the number i + 1."""
    return sets_of(bind_number(Name(column.name), Domain({column.name: column.column})))


def points_in_runs(column: EncodedColumn, numbers: Iterable[int]) -> Floats:
    """Return how many values of each set each run has, a column a set; number 0 is all steps."""
    return points_between(column, numbers, *column.runs)


def points_between(column: EncodedColumn, numbers: Iterable[int], lows: Codes, highs: Codes) -> Floats:
    """Return how many values of each set lie from each low up to its high, a column a set; number 0 is all steps."""
    sets = round_sets_of(column)
    counts = [sets[n - 1].count(lows, highs) if n else highs - lows + 1 for n in numbers]
    points: Floats = np.stack(counts, axis=1).astype(np.float64)
    return points


def _reals(declared: Real, steps: Codes) -> Floats:
    """Return steps as numbers on the declared resolution, within the declared bounds."""
    step = declared.step or Fraction(1)
    near = steps.astype(np.float64) * float(step.numerator) / float(step.denominator)
    low = -math.inf if declared.lower is None else float(declared.lower)
    high = math.inf if declared.upper is None else float(declared.upper)
    numbers: Floats = np.clip(near, low, high)
    return numbers


def equal_runs(low: int, high: int, most: int) -> tuple[int, ...]:
    """Return edges of at most `most` runs of near equal width, with runs of one step at both bounds and at zero."""
    inner = most - 8
    cuts = {low, high, min(low + 1, high)} | {c for c in (0, 1) if low <= c <= high}
    cuts |= (
        set(range(low, high + 1)) if high - low <= inner else {low + (high - low) * i // inner for i in range(inner)}
    )
    # The last run is [high, high], closed.
    return (*sorted(cuts), high)
