"""Draws of every kind of interval that a curator gives, through `ask` itself, of many equal groups at once.

A group's noise is its own, so one ask of 4,000 equal groups is 4,000 draws. Noise is seeded: a run can be repeated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from interval_check import Draws

import sordino as sd
from sordino import col
from sordino.ask.queries.build import Selection
from sordino.core.domain import Column

HIGHEST = 100
Loss = Mapping[str, Any]
LOSSES: tuple[Loss, ...] = ({"epsilon": "0.1"}, {"epsilon": "1"}, {"epsilon": "5"}, {"rho": "0.02"}, {"rho": "2"})
BESIDE: tuple[Loss, ...] = ({"epsilon": "1"}, {"rho": "0.5"})  # of kinds that take long, or go by the same law


class Rows(NamedTuple):
    """The rows of one group: two columns of whole numbers in 0 .. 100."""

    x: Any
    y: Any


@dataclass(frozen=True)
class Shape:
    """The rows of one group: `rows` of them, "spread" evenly, "skewed" to the lower bound, or all "high" at the upper."""

    rows: int
    data: str

    def columns(self) -> Rows:
        """Return the rows."""
        i = np.arange(self.rows)
        if self.data == "high":
            x = np.full(self.rows, HIGHEST)
        elif self.data == "skewed":
            x = np.minimum(HIGHEST, 3 * (1 / (1 - (i + 0.5) / max(1, self.rows)) - 1)).astype(np.int64)
        else:
            x = (37 * i + 11) % (HIGHEST + 1)
        return Rows(x, (x + 17 * i) % (HIGHEST + 1))

    def __str__(self) -> str:
        return "no rows" if not self.rows else f"{self.rows:,} rows, {self.data}"


SHAPES = tuple(
    Shape(rows, data)
    for rows, data in [(0, "spread"), (1, "spread"), (10, "spread"), (100, "skewed"), (100, "high"), (1000, "spread")]
)
FEW = (SHAPES[0], SHAPES[2], SHAPES[3], SHAPES[5])
Truth = Callable[[Rows], float | None]


@dataclass(frozen=True)
class Kind:
    """A kind of aggregate: how it is asked, the truth of a group's x and y (None: has none), and what it can be."""

    name: str
    asked: Any
    truth: Truth
    least: float = -math.inf
    most: float = math.inf
    losses: tuple[Loss, ...] = LOSSES
    shapes: tuple[Shape, ...] = SHAPES
    heavy: int = 1  # draws are divided by it


def _known(of: Callable[[Rows], float]) -> Truth:
    return lambda t: float(of(t)) if len(t.x) else None


def _correlation(t: Rows) -> float | None:
    return None if len(t.x) < 2 or np.std(t.x) == 0 or np.std(t.y) == 0 else float(np.corrcoef(t.x, t.y)[0, 1])


KINDS = (
    Kind("count", sd.count(), lambda t: len(t.x), least=0),
    Kind("count of different values", sd.count_distinct("x"), lambda t: len(set(t.x)), least=0),
    Kind("sum", sd.sum("x"), lambda t: float(t.x.sum()), least=0),
    Kind("sum of clipped values", sd.sum(col("x").clip(10, 30)), lambda t: float(np.clip(t.x, 10, 30).sum())),
    Kind(
        "sum with a condition in it",
        sd.sum(sd.when(col("x") > 50, col("y")).otherwise(-3)),
        lambda t: float(np.where(t.x > 50, t.y, -3).sum()),
        losses=BESIDE,
    ),
    Kind("mean", sd.mean("x"), _known(lambda t: np.mean(t.x)), 0, HIGHEST, heavy=2),
    Kind("variance", sd.variance("x"), _known(lambda t: np.var(t.x)), 0, HIGHEST**2 / 4, BESIDE, FEW, 4),
    Kind("standard deviation", sd.std("x"), _known(lambda t: np.std(t.x)), 0, HIGHEST / 2, BESIDE, FEW, 4),
    Kind(
        "covariance", sd.covariance("x", "y"), _known(lambda t: np.mean(t.x * t.y) - np.mean(t.x) * np.mean(t.y)),
        -(HIGHEST**2) / 4, HIGHEST**2 / 4, BESIDE, FEW, 4,
    ),
    Kind("correlation", sd.correlation("x", "y"), _correlation, -1, 1, BESIDE, FEW, 8),
)  # fmt: skip


def curator_draws(size: int) -> Iterator[Draws]:
    """Yield what each place of the curator's grid draws, about `size` draws each."""
    yield from group_draws(size, kinds=KINDS)
    yield from _together(size)
    yield from _formulas(size)
    yield from _units(size)
    yield from _without_bounds(size)
    yield from _private_keys(size)
    yield from _weighted_keys(size)
    yield from _selected(size)
    yield from _ranks(size)
    yield from _choices(size)


def group_draws(size: int, *, kinds: Sequence[Kind], losses: Sequence[Loss] = ()) -> Iterator[Draws]:
    """Yield the draws of one aggregate a question, at the losses given or at each kind's own."""
    for kind, neighbors in itertools.product(kinds, ("add_remove", "replace")):
        own = losses or kind.losses
        for loss in own if neighbors == "add_remove" else own[:: max(1, len(own) - 1)]:
            yield from _groups(kind, loss, neighbors, max(50, size // kind.heavy))


def say(loss: Loss, *more: object) -> str:
    return ", ".join([*(f"{name} {value}" for name, value in loss.items()), *(str(m) for m in more)])


def _table(shapes: Sequence[Shape], each: int) -> tuple[pa.Table, int]:
    """Return a table of `each` groups of every shape, numbered by k and named by name, and the number of groups."""
    columns = [s.columns() for s in shapes]
    keys = [np.repeat(np.arange(i * each, (i + 1) * each), s.rows) for i, s in enumerate(shapes)]
    k = np.concatenate(keys)
    x, y = (np.concatenate([np.tile(c[j], each) for c in columns]) for j in (0, 1))
    return pa.table({"k": k, "name": pa.array(k).cast(pa.string()), "x": x, "y": y}), each * len(shapes)


def _protect(table: pa.Table, groups: int, loss: Loss, *, neighbors: str = "add_remove", unit: Any = "row") -> Any:
    columns: dict[str, Column] = {
        "k": sd.Integer(0, max(1, groups - 1)),
        "name": sd.Identifier(),
        "x": sd.Integer(0, HIGHEST),
        "y": sd.Integer(0, HIGHEST),
        "id": sd.Identifier(),
    }
    return sd.protect(
        table,
        domain=sd.Domain({n: columns[n] for n in table.column_names}),
        neighbors=neighbors,
        privacy_unit=unit,
        budget=sd.ZCDP(10**9) if "rho" in loss else sd.ApproxDP(10**9, "0.999999"),
        ledger=None,
        rng=sd.Rng.seeded(20),
    )


def cell_ends(estimate: Any, rows: slice) -> Callable[[float], tuple[Any, Any]]:
    def ends(confidence: float) -> tuple[Any, Any]:
        pairs = np.array(estimate.intervals(confidence)[rows], dtype=float)
        return pairs[:, 0], pairs[:, 1]

    return ends


def _cells(
    kind: Kind, estimate: Any, shapes: Sequence[Shape], each: int, place: str, name: str = ""
) -> Iterator[Draws]:
    """Yield the draws of each shape of one answered column."""
    values = estimate.values()
    for i, shape in enumerate(shapes):
        truth, rows = kind.truth(shape.columns()), slice(i * each, (i + 1) * each)
        if truth is not None:
            where = f"{place}; {shape}"
            yield Draws(
                name or kind.name,
                where,
                truth,
                values[rows],
                cell_ends(estimate, rows),
                least=kind.least,
                most=kind.most,
            )


def _groups(kind: Kind, loss: Loss, neighbors: str, each: int) -> Iterator[Draws]:
    table, groups = _table(kind.shapes, each)
    release = _protect(table, groups, loss, neighbors=neighbors).ask(_by_k(kind.asked), **loss)
    yield from _cells(kind, release.outputs[0].estimate, kind.shapes, each, say(loss, neighbors))


def _by_k(*asked: Any) -> Any:
    return Selection().group_by("k").agg(*asked)


def _named(name: str) -> Kind:
    return next(k for k in KINDS if k.name == name)


def _together(size: int) -> Iterator[Draws]:
    """Several aggregates of one question, whose vectors may be shared."""
    for loss, neighbors in itertools.product(BESIDE, ("add_remove", "replace")):
        names, each = ("count", "sum", "mean"), max(50, size // 2)
        table, groups = _table(FEW, each)
        asked = _by_k(sd.count(), sd.sum("x"), sd.mean("x"))
        release = _protect(table, groups, loss, neighbors=neighbors).ask(asked, **loss)
        for name, output in zip(names, release.outputs, strict=True):
            yield from _cells(_named(name), output.estimate, FEW, each, say(loss, neighbors), f"{name}, of one ask")


FORMULAS: dict[str, Callable[[Rows], float]] = {
    "SUM(x) / COUNT(*)": lambda t: float(t.x.sum() / len(t.x)),
    "SUM(x) - 2 * SUM(y)": lambda t: float(t.x.sum() - 2 * t.y.sum()),
    "SQRT(COUNT(*))": lambda t: math.sqrt(len(t.x)),
    "ABS(SUM(x) - SUM(y))": lambda t: abs(float(t.x.sum() - t.y.sum())),
    "100.0 * SUM(x) / SUM(y)": lambda t: 100 * float(t.x.sum() / t.y.sum()),
}


def _formulas(size: int) -> Iterator[Draws]:
    """Arithmetic of released columns, which has no ends where a divisor may be 0."""
    shapes, each = (SHAPES[3], SHAPES[5]), max(50, size // 8)
    table, groups = _table(shapes, each)
    for loss, (words, truth) in itertools.product(BESIDE, FORMULAS.items()):
        release = _protect(table, groups, loss).ask(sd.sql(f"SELECT k, {words} AS v FROM data GROUP BY k"), **loss)
        estimate = release.outputs[0].estimate
        for i, shape in enumerate(shapes):
            rows = slice(i * each, (i + 1) * each)
            values = np.array([math.nan if v is None else v for v in estimate.values()[rows]], dtype=float)
            yield Draws(
                "formula", f"{words}; {say(loss)}; {shape}", truth(shape.columns()), values, _open_ends(estimate, rows)
            )


def _open_ends(estimate: Any, rows: slice) -> Callable[[float], tuple[Any, Any]]:
    """Return ends in which an interval without ends is the whole line."""

    def ends(confidence: float) -> tuple[Any, Any]:
        pairs = [
            (-1e300 if a is None else a, 1e300 if b is None else b) for a, b in estimate.intervals(confidence)[rows]
        ]
        found = np.array(pairs, dtype=float)
        return found[:, 0], found[:, 1]

    return ends


def _units(size: int) -> Iterator[Draws]:
    """Units that are a column: capped rows, units counted, and totals of one value a person."""
    units, rows = 20, 5
    k = np.repeat(np.arange(size), units * rows)
    person = np.tile(np.repeat(np.arange(units), rows), size)
    x = np.tile((37 * np.arange(units * rows) + 11) % (HIGHEST + 1), size)
    ids = pa.array(k * units + person).cast(pa.string())
    table = pa.table({"k": k, "x": x, "id": ids})
    totals = np.minimum(x[: units * rows].reshape(units, rows).sum(axis=1), 300)
    inner = "SELECT id, MIN(k) AS k, CLIP(SUM(x), 0, 300) AS t FROM data GROUP BY id"
    asked = {
        "number of units": (_by_k(sd.count_distinct("id")), units),
        "sum, 5 rows a unit": (_by_k(sd.sum("x")), float(x[: units * rows].sum())),
        "total of each unit": (sd.sql(f"SELECT k, SUM(t) AS v FROM ({inner}) AS p GROUP BY k"), float(totals.sum())),
        "mean of units' totals": (
            sd.sql(f"SELECT k, AVG(t) AS v FROM ({inner}) AS p GROUP BY k"),
            float(totals.mean()),
        ),
    }
    for (name, (question, truth)), loss in itertools.product(asked.items(), BESIDE):
        for neighbors in ("add_remove", "replace"):
            curator = _protect(table, size, loss, neighbors=neighbors, unit=sd.PrivacyUnit("id", max_rows=rows))
            estimate = curator.ask(question, **loss).outputs[0].estimate
            ends, most = cell_ends(estimate, slice(None)), 300.0 if "mean" in name else math.inf
            yield Draws(name, say(loss, neighbors), truth, estimate.values(), ends, least=0, most=most)


def _private_keys(size: int) -> Iterator[Draws]:
    """Keys that noisy counts show: intervals hold given that the key shows."""
    for rows, (epsilon, delta) in itertools.product((20, 40, 80), (("1.5", "0.000001"), ("0.8", "0.0001"))):
        shape = Shape(rows, "spread")
        table, groups = _table((shape,), size)
        curator = _protect(table, groups, {"epsilon": epsilon})
        asked = Selection().group_by("name").agg(sd.count(), sd.sum("x"), sd.mean("x"))
        release = curator.ask(asked, epsilon=epsilon, delta=delta)
        place = f"epsilon {epsilon}, delta {delta}; {shape}; {len(release.rows) / groups:.0%} show"
        for name, output in zip(("count", "sum", "mean"), release.outputs, strict=True):
            if len(release.rows) >= 50:
                kind = _named(name)
                truth = kind.truth(shape.columns())
                ends = cell_ends(output.estimate, slice(None))
                yield Draws(
                    f"{name} of a private key", place, truth, output.estimate.values(), ends,
                    least=1 if name == "count" else kind.least, most=kind.most,
                )  # fmt: skip


def _weighted_keys(size: int) -> Iterator[Draws]:
    """Keys that weights show, of people who have 8 each: their counts and sums have noise of their own."""
    names, each = max(48, size // 4), 60
    keys = np.repeat(np.arange(names), each)
    people = np.concatenate([(np.arange(each) + i // 8 * each) for i in range(names)])  # the same 60 have 8 names
    table = pa.table(
        {"name": keys.astype(str), "x": np.tile(Shape(each, "spread").columns().x, names), "id": people.astype(str)}
    )
    truths = {"count": float(each), "sum": float(Shape(each, "spread").columns().x.sum())}
    for epsilon in ("4", "8"):
        curator = _protect(table, names, {"epsilon": epsilon}, unit=sd.PrivacyUnit("id", max_rows=8))
        asked = Selection().group_by("name", keys="weighted").agg(sd.count(), sd.sum("x"))
        release = curator.ask(asked, epsilon=epsilon, delta="0.000001")
        place = f"epsilon {epsilon}, delta 0.000001; {each} units of 8 keys; {len(release.rows) / names:.0%} show"
        for (name, truth), output in zip(truths.items(), release.outputs, strict=True):
            if len(release.rows) >= 40:
                ends = cell_ends(output.estimate, slice(None))
                yield Draws(f"{name} of a key by weights", place, truth, output.estimate.values(), ends, least=0)


def _without_bounds(size: int) -> Iterator[Draws]:
    """Means of a column without bounds: of the values clipped to the bounds that were found."""
    each, rows = max(50, size // 4), 200
    x = np.exp(np.sin(np.arange(rows) * 1.7) * 2 + 3)
    table = pa.table({"k": np.repeat(np.arange(each), rows), "x": np.tile(x, each)})
    for loss in BESIDE:
        curator = sd.protect(
            table, domain=sd.Domain({"k": sd.Integer(0, each - 1), "x": sd.Real(resolution="0.01")}), neighbors="add_remove",
            privacy_unit="row", budget=sd.ZCDP(10**9) if "rho" in loss else sd.PureDP(10**9), ledger=None,
            rng=sd.Rng.seeded(20),
        )  # fmt: skip
        release = curator.ask(_by_k(sd.mean("x")), **loss)
        low, high = float(release.lower), float(release.upper)
        truth, estimate = float(np.clip(np.floor(x * 100 + 0.5) / 100, low, high).mean()), release.outputs[0].estimate
        yield Draws(
            "mean without bounds, as clipped", f"{say(loss)}; {rows} rows", truth, estimate.values(),
            cell_ends(estimate, slice(None)), least=low, most=high,
        )  # fmt: skip


CUTS: dict[str, Callable[[Any], Any]] = {
    "HAVING n > 14": lambda asked: asked.having(col("n") > 14),
    "ORDER BY n DESC LIMIT 5": lambda asked: asked.order_by(-col("n")).limit(5),
    "ORDER BY n LIMIT 3": lambda asked: asked.order_by(col("n")).limit(3),
    "ORDER BY n LIMIT 299": lambda asked: asked.order_by(col("n")).limit(299),
}


def _selected(size: int) -> Iterator[Draws]:
    """Rows that noisy values choose from 300 equal groups: all rows that show hold together."""
    shape, groups = Shape(10, "spread"), 300
    table, _ = _table((shape,), groups)
    truths = {"count": 10.0, "mean": float(shape.columns()[0].mean())}
    for words, cut in CUTS.items():
        curator, asks = _protect(table, groups, {"epsilon": "1"}), max(30, size // 8)
        plan = curator.plan(cut(_by_k(sd.count().alias("n"), sd.mean("x").alias("m"))), epsilon=1)
        releases = [r for r in (curator.ask(plan) for _ in range(asks)) if r.rows]
        family = np.repeat(np.arange(len(releases)), [len(r.rows) for r in releases])
        for place, (name, truth) in enumerate(truths.items()):
            estimates = [r.outputs[place].estimate for r in releases]
            values = np.concatenate([e.values() for e in estimates])
            yield Draws(
                f"{name} of chosen rows", f"{words}; epsilon 1", truth, values, _joined_ends(estimates),
                promise="together", least=0, most=math.inf if place == 0 else HIGHEST, family=family,
            )  # fmt: skip


def _joined_ends(estimates: Sequence[Any]) -> Callable[[float], tuple[Any, Any]]:
    def ends(confidence: float) -> tuple[Any, Any]:
        found = np.array([pair for e in estimates for pair in e.intervals(confidence)], dtype=float)
        return found[:, 0], found[:, 1]

    return ends


def _ranks(size: int) -> Iterator[Draws]:
    """Quantiles: how many rows lie between the answer and the exact one; a bound for the worst data."""
    each = max(50, size // 8)
    for shape, loss in itertools.product((SHAPES[2], SHAPES[3], SHAPES[5]), BESIDE):
        table, groups = _table((shape,), each)
        ordered = np.sort(shape.columns()[0])
        for levels in ((0.5,), (0.9,), (0.99,), (0.1, 0.25, 0.5, 0.75, 0.9)):
            curator = _protect(table, groups, loss)
            release = curator.ask(_by_k(sd.quantiles("x", levels)), **loss)
            for level, output in zip(levels, release.outputs, strict=True):
                values = np.array(output.estimate.values(), dtype=float)
                below, upto = np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")
                off = np.maximum(0.0, np.maximum(below - level * shape.rows, level * shape.rows - upto))
                place = f"level {level}, {len(levels)} asked; {say(loss)}; {shape}"
                yield Draws(
                    "quantile, in ranks", place, 0.0, off, bound_ends(output.estimate, off), promise="at least", least=0
                )


def bound_ends(estimate: Any, off: Any) -> Callable[[float], tuple[Any, Any]]:
    """Return the interval [off - error, off] of an error of 0, which holds where the error stated is as large as `off`."""

    def ends(confidence: float) -> tuple[Any, Any]:
        error = np.array(estimate.errors(confidence), dtype=float)
        return off - error, off

    return ends


def _choices(size: int) -> Iterator[Draws]:
    """The most common value: how far below the best count the chosen one is; a bound for the worst data."""
    tables = {"close": (12, 9, 5, 2), "all but one tie": (20, *[10] * 19), "ties": (10,) * 8, "clear": (90, 5, 5)}
    losses: tuple[Loss, ...] = ({"epsilon": "0.5"}, {"rho": "0.1"})
    for (words, counts), loss in itertools.product(tables.items(), losses):
        labels = [f"c{i}" for i in range(len(counts))]
        curator = sd.protect(
            pa.table({"c": np.repeat(labels, counts)}),
            domain=sd.Domain({"c": sd.Category(labels)}),
            neighbors="add_remove",
            privacy_unit="row",
            budget=sd.ZCDP(10**9) if "rho" in loss else sd.PureDP(10**9),
            ledger=None,
            rng=sd.Rng.seeded(20),
        )
        plan = curator.plan(sd.most_common("c"), **loss)
        releases = [curator.ask(plan) for _ in range(max(50, size // 4))]
        off = np.array([max(counts) - counts[labels.index(r.value)] for r in releases], dtype=float)
        estimate = releases[0].outputs[0].estimate
        yield Draws(
            "most common value", f"{words}; {say(loss)}", 0.0, off, bound_ends(estimate, off), promise="at least"
        )
