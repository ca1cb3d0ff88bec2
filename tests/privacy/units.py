"""What the attacks share: units of many odd rows, neighboring tables on real files, exact answers straight from the engine."""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import protecting
import sordino as sd
from planning import data_access_of
from sordino import col
from sordino.ask.curator.adaptive_session import CountCache
from sordino.ask.curator.aggregation_procedure import exact_vectors
from sordino.ask.curator.plan import DataAccess
from sordino.ask.queries.adaptive.contributions import Contributions
from sordino.ask.queries.adaptive.magnitudes import MagnitudeHistogram, OutsideCount, TailCount, powers_of_two
from sordino.ask.queries.adaptive.marginal import Axis, ContingencyTable, Distances, MarginalQuery
from sordino.ask.queries.aggregation import CompiledQuery
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.cases import when
from sordino.ask.queries.queryable import CountsQuery
from sordino.core.loss import Loss
from sordino.core.source import Csv, public

S = Selection()
DOMAIN = sd.Domain(
    {
        "id": sd.Identifier(),
        "i": sd.Integer(-3, 2),
        "j": sd.Integer(0, 4, missing=sd.Fill(1)),
        "k": sd.Integer(2, 4, missing="keep"),
        "free": sd.Integer(),
        "r": sd.Real(-1, 2, resolution=0.5),
        "open": sd.Real(),
        "c": sd.Category(["a", "b"], missing="keep"),
        "e": sd.Category(["x", "y"], other="z"),
        "t": sd.Boolean(),
        "d": sd.Date("1999-12-30", "2000-01-05", missing="keep"),
        "town": sd.Identifier(),
    }
)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("i", pa.int32()),
        ("j", pa.float64()),
        ("k", pa.float64()),
        ("free", pa.int64()),
        ("r", pa.float64()),
        ("open", pa.float64()),
        ("c", pa.string()),
        ("e", pa.string()),
        ("t", pa.bool_()),
        ("d", pa.date32()),
        ("town", pa.string()),
    ]
)
_NAN, _INF = float("nan"), float("inf")
POOL: dict[str, list[Any]] = {
    "i": [None, -(2**31), -3, -1, 0, 1, 2, 100],
    "j": [None, _NAN, -0.0, 0.5, -1, 0, 2, 4, 1e308],
    "k": [None, _NAN, 2.5, 1.0, 2.0, 3.0, 4.0, _INF],
    "free": [None, -(2**63), -5, 0, 3, 2**62, 2**63 - 1],
    "r": [None, _NAN, _INF, -_INF, -1.0, -0.3, -0.25, 0.25, 0.75, 1.9, 1e308, -0.0],
    "open": [None, _NAN, _INF, -_INF, -1.5, 0.0, 1e-9, 3.25, 1e308, -1e308, 2.0**40],
    "c": [None, "a", "b", "A", ""],
    "e": [None, "x", "y", "w", "X"],
    "t": [None, True, False],
    "d": [None, *(datetime.date(1999, 12, 25) + datetime.timedelta(days=n) for n in range(0, 20, 3))],
    "town": [None, "oslo", "Oslo", "", "NULL", "a" * 5000, "z\x00z", "😀", "'\"; --"],
}
PUBLIC = {
    "places": public(
        pa.table({"town": ["oslo", "oslo", "", "NULL", "unmet"], "size": [1, 5, 3, 2, 9]}),
        key="town",
        columns=sd.Domain({"town": sd.Identifier(), "size": sd.Integer(0, 5)}),
        max_rows=2,
    )
}
AGGREGATES = [
    sd.count(),
    sd.count("k"),
    sd.variance("i"),
    sd.std(col("r") * 2 + 1, ddof=1),
    sd.covariance("i", "j"),
    sd.correlation("i", "r"),
    sd.count_distinct("id"),
    sd.count_distinct("c"),
    sd.count_distinct("t"),
    sd.count_distinct("free"),
    sd.count_distinct("town"),
    sd.count_distinct("j"),
    sd.sum(col("d").year() - 2000).alias("years"),
    sd.sum(when(col("i") > 0, col("j")).otherwise(-2)).alias("chosen"),
    sd.mean(when(col("c") == "a", 3).otherwise(None)).alias("some"),
    sd.sum(col("free").clip(-2, 5)).alias("clipped"),
]
QUESTIONS: dict[str, Any] = {
    "plain": S.agg(AGGREGATES),
    "where": S.where((col("i") > -2) | col("c").is_null()).agg(AGGREGATES),
    "by c": S.group_by("c").agg(AGGREGATES),
    "by t and month": S.group_by("t", col("d").month()).agg(AGGREGATES[:8]),
    "by choice": S.where(~(col("e") == "x")).group_by(when(col("i") > 0, "up").otherwise("down")).agg(AGGREGATES),
    "by bins": S.group_by(col("r").bin([-1, 0, 2])).agg(AGGREGATES),
    "private": S.group_by("town", keys="threshold").agg(
        sd.count(), sd.variance("i"), sd.count_distinct("c"), sd.sum("r")
    ),
    "private and declared": S.where(col("i") < 2)
    .group_by("town", "c", "t", keys="threshold")
    .agg(sd.count(), sd.mean("j")),
    "nested": sd.sql(
        "WITH kept AS (SELECT i + j AS both, c, town FROM data WHERE i > -3) "
        "SELECT c, COUNT(*) AS n, VAR_POP(both) AS v, COUNT(DISTINCT town) AS towns FROM kept GROUP BY c"
    ),
    "joined": S.join("places", on="town").agg(sd.count(), sd.sum("places.size"), sd.variance("places.size")),
    "joined by size": S.join("places", on="town", how="left").group_by("c").agg(sd.sum(col("places.size") * col("i"))),
}
_DAYS = ContingencyTable((Axis("d"), Axis("c")))
_CODED = ContingencyTable((Axis("c", codes=(0, 1, 0)), Axis("r", edges=(-2, 0, 1, 4))))
_ONE = ContingencyTable((Axis("t", codes=(0, 0)),))
_ALONE = ContingencyTable((Axis("k"),))
_MODELS = (np.arange(24, dtype=np.int64) * 700 - 3000, np.full(6, 1500, np.int64), np.array([2048], np.int64))
_LADDER = MagnitudeHistogram(col("free").node, powers_of_two(), offsets=False)
_TAILS: list[tuple[int, Literal["few", "many", "near"], bool]] = [
    (63, "few", True),
    (64, "many", False),
    (66, "near", False),
    (1, "near", True),
    (0, "few", False),
]
VECTORS: dict[str, Any] = {
    "marginals": MarginalQuery((_DAYS, _CODED, _ONE, _ALONE)),
    "distances": Distances((_DAYS, _CODED, _ONE), _MODELS),
    "distances less floors": Distances((_DAYS, _CODED, _ONE), _MODELS, (3000, -1, 0)),
    "octaves": MagnitudeHistogram(col("open").node, powers_of_two(), offsets=True),
    "coarse": MagnitudeHistogram(col("open").node, powers_of_two(), offsets=True, coarse=True),
    "rungs": MagnitudeHistogram((col("i") + col("j")).node, (-4, -1, 0, 3, 8), offsets=True),
    "units": Contributions(None),
    "units by key": Contributions(col("c").node),
    "units by open key": Contributions(col("town").node),
    **{f"beyond {e} {s} {b}": TailCount(_LADDER, e, 2, s, below=b, handicap=1) for e, s, b in _TAILS},
    "outside": OutsideCount(_LADDER, 62, 66),
}


def row(rng: random.Random) -> dict[str, Any]:
    """Return one random odd row, without its unit."""
    return {name: rng.choice(pool) for name, pool in POOL.items()}


def unit(rng: random.Random, most: int) -> list[dict[str, Any]]:
    """Return the rows of one unit: fewer than the cap, as many, or far more; often all alike, which moves most."""
    count = rng.choice([1, most, most, most + 2, 3 * most])
    alike = row(rng)
    return [alike if rng.random() < 0.5 else row(rng) for _ in range(count)]


Units = list[tuple[Any, list[dict[str, Any]]]]


def pair(rng: random.Random, relation: str, most: int) -> tuple[Units, Units]:
    """Return two neighboring tables, as units with their rows."""
    some: Units = [(f"u{n}", unit(rng, most)) for n in range(rng.choice([0, 1, 3, 6]))]
    some += [(None, [row(rng)])] if rng.random() < 0.3 else []
    one = [*some, ("moved", unit(rng, most))]
    return one, some if relation == "add_remove" else [*some, (rng.choice(["moved", "other"]), unit(rng, most))]


def worlds(rng: random.Random, relation: str, most: int, pairs: int) -> tuple[list[Units], list[tuple[int, int]]]:
    """Return tables, and which two of them are neighbors, so many pairs.

    One unit added to a table in several ways makes as many pairs with it, and under replace neighbors of each other: three
    pairs by three tables, or by four where units come and go.
    """
    tables: list[Units] = []
    neighbors: list[tuple[int, int]] = []
    while len(neighbors) < pairs:
        one, other = pair(rng, relation, most)
        first = len(tables)
        tables += [one, other]
        neighbors.append((first, first + 1))
        # Three pairs of what the others of a table have in common.
        some = [known for known in one if known[0] != "moved"]
        while len(neighbors) < pairs and len(neighbors) % 3:
            tables.append([*some, (rng.choice(["moved", "other"]), unit(rng, most))])
            last = len(tables) - 1
            # Under add_remove the table without the unit is the second.
            neighbors += [(last, first + 1)] if relation == "add_remove" else [(last, first), (last, first + 1)]
    return tables, neighbors[:pairs]


def arrow(units: Units, rng: random.Random) -> pa.Table:
    """Return the rows of all units in random order."""
    rows = [{"id": name, **cells} for name, several in units for cells in several]
    rng.shuffle(rows)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def parquet(units: Units, rng: random.Random, path: Path) -> Path:
    """Write the rows to Parquet with small row groups, so that statistics could prune."""
    pq.write_table(arrow(units, rng), path, row_group_size=rng.choice([1, 2, 1000]))
    return path


ODD = ["nan", "-inf", "1e999", "9223372036854775808", "-0.0", '"', "3;", "x" * 3000, "\x00", "٣"]
NAMES = tuple(n for n in SCHEMA.names)


def csv(units: Units, rng: random.Random, path: Path) -> Path:
    """Write the rows to CSV; some cells become odd text that is no number. Each row keeps its own text on each side."""
    lines = []
    for name, several in units:
        for cells in several:
            odd = random.Random(repr(sorted(cells.items(), key=str)))
            text = [str(name or "")]
            for column in NAMES[1:]:
                cell = "" if cells[column] is None else str(cells[column])
                cell = odd.choice(ODD) if odd.random() < 0.1 else cell
                text.append(cell.replace(",", "").replace("\n", ""))
            lines.append(",".join(text))
    rng.shuffle(lines)
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    return path


def protect(
    source: Any,
    *,
    relation: str = "add_remove",
    unit: str | sd.PrivacyUnit = "row",
    domain: sd.Domain = DOMAIN,
    budget: Loss | None = None,
    ledger: Path | None = None,
    rng: sd.Rng | None = None,
    csv: Csv | None = None,
) -> sd.Curator:
    """Return a curator of the table with its public tables, seeded noise and a large budget in memory."""
    return protecting.protect(
        source,
        domain,
        neighbors=relation,
        unit=unit,
        budget=budget or sd.ApproxDP(10**6, "0.9"),
        ledger=ledger,
        seed=11,
        rng=rng,
        public=PUBLIC,
        name="data",
        csv=csv,
    )


Exact = dict[tuple[Any, ...], int]


class Asker:
    """Ask the same questions of many tables that are held alike: each tree is written once."""

    def __init__(self) -> None:
        self._trees: dict[Any, Any] = {}

    def run(self, key: Any, rows: DataAccess, build: Any) -> pa.Table:
        """Return the exact answer of a tree, straight from the engine."""
        if key not in self._trees:
            self._trees[key] = rows.write(build(rows.primitives()))
        return rows.run(self._trees[key])

    def plan(self, plan: Any, held: Any) -> list[Exact]:
        """Return each noisy vector's exact value by key, in steps, and at the end the units of each private key."""
        rows = data_access_of(held).follow(plan.question.steps, plan.procedure.domain)
        resolved: CompiledQuery = plan.procedure.compiled
        table = self.run(plan.identity(), rows, resolved.select)
        if plan.procedure.allocation.threshold is None:
            noisy = [v.part for v in parts_of(plan)]
            return [{(i,): x for i, x in enumerate(v)} for v in exact_vectors(table, resolved, noisy)]
        keys = list(zip(*(table.column(f"k{i}").to_pylist() for i in range(len(resolved.keys))), strict=True))
        columns = [[int(x or 0) for x in table.column(f"t{i}").to_pylist()] for i in range(len(resolved.terms))]
        place = {term: i for i, term in enumerate(resolved.terms)}
        whole = [(n, key) for n, key in enumerate(keys) if None not in key]
        found: list[Exact] = [
            {key: sum(w * columns[place[t]][n] for w, t in vector.part.terms) for n, key in whole}
            for vector in parts_of(plan)
        ]
        return [*found, {key: columns[-1][n] for n, key in whole if columns[-1][n]}]

    def vector(self, query: Any, held: Any) -> list[Exact]:
        """Return the exact vectors of a vector query, in steps, as a session would compute them."""
        rows = data_access_of(held)
        if isinstance(query, CountsQuery):
            vectors: Any = query.from_counts(CountCache(rows, held.domain).count(query.tables), held.domain)
        else:
            tables = [self.run(s.key, rows, s.select) for s in query.scans(held.domain)]
            vectors = query.exact_vectors(tables, held.domain)
        return [{(i,): int(x) for i, x in enumerate(v)} for v in vectors]


def moved(one: Exact, other: Exact) -> list[int]:
    """Return by how much each cell moved."""
    return [abs(one.get(k, 0) - other.get(k, 0)) for k in {*one, *other}]


def within(one: Exact, other: Exact, bound: Any, scale: Fraction) -> str | None:
    """Return what of a sensitivity was passed, None where all holds; cells are in steps, the bound in 1 / scale."""
    moves = moved(one, other)
    if sum(moves) * scale > bound.l1:
        return f"l1 {sum(moves) * scale} > {bound.l1}"
    if sum(m * m for m in moves) * scale**2 > bound.l2_squared:
        return f"l2^2 {sum(m * m for m in moves) * scale**2} > {bound.l2_squared}"
    if max(moves, default=0) * scale > bound.linf:
        return f"linf {max(moves) * scale} > {bound.linf}"
    if sum(1 for m in moves if m) > bound.l0:
        return f"l0 {sum(1 for m in moves if m)} > {bound.l0}"
    return None


def parts_of(plan: Any) -> Sequence[Any]:
    """Return the noisy vectors of all aggregates, each once, in order."""
    return list(plan.procedure.allocation.noisy)
