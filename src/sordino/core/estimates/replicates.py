"""Replicates: what SQL makes of released answers when their noise is drawn again, and the intervals that follow.

The outside of a statement is run over replicates of its blocks' answers, noise drawn anew around what was released. It may
not know any exact answer, nor any generator of a mechanism: it draws by released values and public facts alone.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np

from sordino.core.estimates.choices import Choices, Ranks
from sordino.core.estimates.estimate import ESTIMATES, ColumnEstimate, Number, estimate_to_dict
from sordino.core.estimates.formula import combine_parts, has_joint_law, mix_draws, noise_places, noisy_parts
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.selected import ShownCount
from sordino.core.estimates.table_cells import TableCells
from sordino.core.estimates.time_values import TimeValues
from sordino.core.estimates.weighted_sum import WeightedSum
from sordino.core.lazy import load_feature
from sordino.core.noise.rng import ReplicateStream
from sordino.core.time_zones import labels_from_dict, labels_to_dict

# 2.5% of 400 is whole: at 95%, the tenth of 399 replicates from either end.
_FEWEST = 399
_MOST = 1_999
_ROWS = 400_000
_MOST_ROWS = 8_000_000
# Cells of public tables that a release keeps.
_MOST_PUBLIC = 1_000_000
# Noise is taken to move a value where the share of replicates on one side of it exceeds one half by this: .1 of the normal law
# is a shift of a quarter of the deviation, which costs a 95% interval two hundredths of its coverage.
_MOVED = 0.1
# The relative difference that sums in another order may have.
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class BlockAnswer:
    """The answer of a private block: its columns in order, keys as labels and aggregates as estimates, with their SQL types.

    `chosen` describes how noisy values chose its rows, such as private keys by a threshold; else it is empty.
    """

    name: str
    columns: tuple[tuple[str, str, tuple[Any, ...] | ColumnEstimate], ...]
    chosen: str = ""

    @property
    def drawn(self) -> int:
        """Its rows, or the numbers that a replicate of them is drawn from where these are many more."""
        of_tables = [column.drawn_numbers for _, _, column in self.columns if isinstance(column, TableCells)]
        most = max(of_tables, default=0)
        return max(self.height, most) if most * _FEWEST > _MOST_ROWS else self.height

    @property
    def height(self) -> int:
        """The number of its rows."""
        return max((len(cells_of(c)) for _, _, c in self.columns), default=0)


@dataclass(frozen=True, slots=True)
class ReleasedStatement:
    """The blocks' answers of a statement, the SQL around them, and the rows of the public tables that it reads.

    `identity` is a text for each row of the answer, made of what has no noise in it, by which the rows of replicates are found.
    """

    outside: str
    blocks: tuple[BlockAnswer, ...]
    public: tuple[BlockAnswer, ...]
    identity: tuple[str, ...]
    _found: dict[int, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_small(self) -> bool:
        """Whether its replicates fit in memory, and its public tables in a release."""
        rows = len(self.identity) + sum(block.drawn for block in self.blocks)
        public = sum(block.height * len(block.columns) for block in self.public)
        return rows * _FEWEST <= _MOST_ROWS and public <= _MOST_PUBLIC

    def __hash__(self) -> int:
        return hash((self.outside, self.identity))

    def replicates(self, confidence: float) -> Any:
        """Return the values of all columns and rows in each replicate, the released first: an array (replicates, columns, rows).

        None where the statement could not be run; what has no value, or whose divisor noise carries past 0, is NaN.
        """
        count = self._count(confidence)
        if count is None:
            return None
        if self.is_centered:
            count += 1
        if count not in self._found:
            blocks = {block.name: draw_block(block, count, self._stream(block)) for block in self.blocks}
            # Those of another confidence need not stay in memory.
            self._found.clear()
            self._found[count] = load_feature("run_replicates")(self, blocks, count)
        return self._found[count]

    @property
    def is_centered(self) -> bool:
        """Whether the first replicate is what the others lie around: where the cells shown are not, as they were made whole."""
        columns = (column for block in self.blocks for _, _, column in block.columns)
        return any(isinstance(column, TableCells) and column.linear for column in columns)

    def _count(self, confidence: float) -> int | None:
        """Return how many replicates are drawn; None where that would be too many."""
        rows = max(1, len(self.identity) + sum(block.drawn for block in self.blocks))
        needed = math.ceil(2 / (1.0 - confidence)) - 1
        count = max(_FEWEST, min(_MOST, _ROWS // rows), needed)
        return count if count * rows <= _MOST_ROWS else None

    def _stream(self, block: BlockAnswer) -> ReplicateStream:
        record = json.dumps([_block_to_dict(block), self.outside], ensure_ascii=True, sort_keys=True, default=str)
        return ReplicateStream(record.encode())

    def check(self) -> None:
        """Raise ValueError, or an error of an incomplete record, unless its noise can be drawn."""
        for block in (*self.blocks, *self.public):
            draws = draw_block(block, 1, self._stream(block))
            heights = {len(cells_of(column)) for _, _, column in block.columns}
            if len(heights) > 1 or any(values.shape != (1, block.height) for values in draws.values()):
                raise ValueError("the columns of a block are of one height")

    def to_dict(self) -> dict[str, Any]:
        """Return the statement as JSON data."""
        return {
            "outside": self.outside,
            "blocks": [_block_to_dict(block) for block in self.blocks],
            "public": [_block_to_dict(block) for block in self.public],
            "identity": list(self.identity),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ReleasedStatement:
        """Return the statement that `to_dict` wrote."""
        blocks = tuple(map(_block_from_dict, data["blocks"]))
        public = tuple(map(_block_from_dict, data["public"]))
        return cls(str(data["outside"]), blocks, public, tuple(map(str, data["identity"])))


def cells_of(column: tuple[Any, ...] | ColumnEstimate) -> Sequence[Any]:
    """Return the released cells of a block's column."""
    return column if isinstance(column, tuple) else column.values()


def explain_no_replicate(estimate: ColumnEstimate) -> str:
    """Return in words why the noise of an estimate cannot be drawn again; empty where it can."""
    if has_joint_law(estimate) or (isinstance(estimate, TableCells) and estimate.noise_law_is_known):
        return ""
    if isinstance(estimate, TimeValues):
        return explain_no_replicate(estimate.of) or "it is computed from a noisy date"
    if isinstance(estimate, (Ranks, Choices)):
        return "it is computed from a value that was selected, such as a quantile, and not noised"
    if isinstance(estimate, ShownCount):
        return "it is computed from the count that its private key was selected by"
    return "it is computed from a value whose noise has no law to draw it from"


def draw_block(block: BlockAnswer, count: int, stream: ReplicateStream) -> dict[str, Any]:
    """Return each noisy column of a block with its noise drawn again `count` times: arrays (count, rows).

    Vectors that columns share are drawn once. What is not noised is left out.
    """
    noisy = {n: c for n, _, c in block.columns if not isinstance(c, tuple) and has_joint_law(c)}
    estimates = list(noisy.values())
    vectors: dict[int, Any] = {}
    draws: dict[str, Any] = {}
    for (name, estimate), places in zip(noisy.items(), noise_places(estimates), strict=True):
        parts = []
        for part, place in zip(noisy_parts(estimate), places, strict=True):
            if place not in vectors:
                vectors[place] = _draw_steps(part, count, stream)
            parts.append(vectors[place])
        draws[name] = _draw_values(estimate, parts)
    for name, _, column in block.columns:
        if isinstance(column, TableCells) and column.noise_law_is_known:
            draws[name] = _draw_table_cells(column, count, stream)
    return draws


def _draw_table_cells(of: TableCells, count: int, stream: ReplicateStream) -> Any:
    """Return the cells of tables in each replicate; where they were made whole, the first are the linear estimates themselves."""
    if not of.linear:
        return of.draw(count, stream.points)
    centers = np.array([[of.linear[place] for place in of.places or ()]])
    values = np.concatenate([centers, of.draw(count - 1, stream.points)])
    # A sum over a range of an ordered column may have less noise than the roundings of its cells.
    rounds = of.unit.denominator == 1 and not (of.strategy and of.strategy.ordered)
    return np.rint(values) if rounds else values


def _draw_steps(of: Noisy, count: int, stream: ReplicateStream) -> Any:
    """Return a noisy vector less noise of its law, which is symmetric: possible true values, given the released ones."""
    released = np.array([float(s) for s in of.steps])
    noise = of.law.quantiles(stream.points(count * len(released)))
    return released[None, :] - np.asarray(noise).reshape(count, len(released))


def _draw_values(estimate: ColumnEstimate, parts: Sequence[Any]) -> Any:
    """Return the values of an estimate if its noisy vectors were these."""
    if isinstance(estimate, Noisy):
        return parts[0] * float(estimate.unit)
    if isinstance(estimate, WeightedSum):
        return np.rint(mix_draws([estimate.weights], parts)[0]) * float(estimate.scale)
    return combine_parts(estimate, parts)


def find_ends(
    values: Sequence[Any], replicates: Any, confidence: float, *, centered: bool = False
) -> list[tuple[Number | None, Number | None]]:
    """Return the interval of each value from its replicates, an array (replicates + 1, rows), the released one first.

    Theorem: for a function that is linear in the noise, the truth and the R replicates are exchangeable around the value, so
    the k-th from either end cover it with probability 1 - 2k / (R + 1), whatever R (Davison, Hinkley 1997, section 5.2.2);
    and so do those of an increasing function of one. For others it holds as far as they are linear within reach of the noise.
    So there is no interval where noise leaves no value in too many replicates, or moves it to one side.

    Where `centered`, the first replicate is computed from unbiased estimates, and the values from what was made of these:
    the interval is that of the unbiased value, and reaches further to the value that is shown.
    """
    released = replicates[0]
    # NaN sorts last
    draws = np.sort(replicates[2 if centered else 1 :], axis=0)
    centers = replicates[1] if centered else released
    counts = np.isfinite(draws).sum(axis=0)
    ends: list[tuple[Number | None, Number | None]] = []
    for i, value in enumerate(values):
        count = int(counts[i])
        rank = math.floor((count + 1) * (1.0 - confidence) / 2 + _CLOSE)
        numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not numeric or rank < 1 or count < len(draws) * (1 - (1.0 - confidence) / 2):
            ends.append((None, None))
            continue
        # The replicates' SQL must compute the answer from the released values, or it is not the same question.
        slack = _CLOSE * max(1.0, abs(value))
        same = abs(released[i] - value) <= slack
        row = draws[:count, i]
        below = np.searchsorted(row, centers[i] - slack, "left") / count
        above = 1 - np.searchsorted(row, centers[i] + slack, "right") / count
        if not same or max(below, above) > 0.5 + _MOVED:
            ends.append((None, None))
            continue
        low = float(row[rank - 1])
        high = float(row[count - rank])
        whole = isinstance(value, int) and low.is_integer() and high.is_integer()
        low = min(low, value)
        high = max(high, value)
        ends.append((int(low), int(high)) if whole else (low, high))
    return ends


def _block_to_dict(block: BlockAnswer) -> dict[str, Any]:
    columns = [
        {"name": name, "sql": kind, **(labels_to_dict(c) if isinstance(c, tuple) else {"estimate": c.to_dict()})}
        for name, kind, c in block.columns
    ]
    return {"name": block.name, "columns": columns, "chosen": block.chosen}


def _block_from_dict(data: Mapping[str, Any]) -> BlockAnswer:
    columns = tuple(
        (c["name"], c["sql"], ESTIMATES.from_dict(c["estimate"]) if "estimate" in c else tuple(labels_from_dict(c)))
        for c in data["columns"]
    )
    return BlockAnswer(data["name"], columns, data["chosen"])


def _write_cells(cells: tuple[Any, ...]) -> list[Any]:
    return [{"day": cell.isoformat()} if isinstance(cell, datetime.date) else cell for cell in cells]


def _read_cells(data: Any) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise ValueError("computed cells are a list")
    cells: list[Any] = []
    for cell in data:
        if isinstance(cell, dict):
            text = cell["day"]
            cells.append(datetime.datetime.fromisoformat(text) if "T" in text else datetime.date.fromisoformat(text))
        elif cell is None or isinstance(cell, (str, int, float, bool)):
            cells.append(cell)
        else:
            raise ValueError("a computed cell is a number, text, a truth value, a day or nothing")
    return tuple(cells)


@ESTIMATES.register("computed")
@dataclass(frozen=True, slots=True)
class Computed:
    """Cells that were computed from released values: numbers, text, truth values, days, or None.

    `column` is the column's place in the answer of the statement, where it has replicates, and `places` those of its rows;
    `statement` is what they are drawn from. It stands once in a release, for all of its columns. Without it there is no
    interval, and `no_ends` says why.
    """

    cells: Annotated[tuple[Any, ...], _write_cells, _read_cells]
    no_ends: str = "no interval: computed from released values"
    column: int | None = None
    statement: ReleasedStatement | None = None
    places: tuple[int, ...] = ()

    per_row: ClassVar[tuple[str, ...]] = ("cells", "places")

    def values(self) -> list[Any]:
        """Return the cells."""
        return list(self.cells)

    def errors(self, confidence: float) -> list[Number | None]:
        """Return the larger distance from each value to an end of its interval; None where there is no end."""
        return [
            None if low is None or high is None else max(value - low, high - value)
            for value, (low, high) in zip(self.cells, self.intervals(confidence), strict=True)
        ]

    def intervals(self, confidence: float) -> list[tuple[Number | None, Number | None]]:
        """Return the interval of each cell by itself: the quantiles of its replicates; (None, None) where it has none."""
        replicates = None
        if self.statement is not None and self.column is not None:
            replicates = self.statement.replicates(confidence)
        if replicates is None:
            return [(None, None)] * len(self.cells)
        assert self.statement is not None
        rows = replicates[:, self.column, list(self.places)]
        return find_ends(self.cells, rows, confidence, centered=self.statement.is_centered)

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON data, without the statement, which the release holds."""
        data = estimate_to_dict(Computed(self.cells, self.no_ends))
        del data["column"], data["statement"], data["places"]
        if self.column is None:
            return data
        # places are stored only where rows were reordered or left out afterwards
        moved = self.places != tuple(range(len(self.cells)))
        return {**data, "column": self.column, **({"places": list(self.places)} if moved else {})}
