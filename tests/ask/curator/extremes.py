"""Tables of extreme cells, and random questions with extreme constants: what the test of totality is made of."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

import sordino as sd
from sordino import col
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.cases import when
from sordino.ask.queries.expressions.expr import Expr
from sordino.core.loss import Number

TEXTS = ["", " ", "a", "77", "m", "-9" + "9" * 17, "9" * 18, "9" * 400, "1e999", "nan", "2000-01-31", "0000-00-00", "é"]
TEXTS += ["it's", '"', "\\", "\x01", "\n", "a\x00b", "😀", "\ufffe", "x" * 5000, "true", "-0", "infinity", "%", "NULL"]
CELLS: dict[str, list[str]] = {
    "BIGINT": ["-9223372036854775808", "9223372036854775807", "4611686018427387904", "0", "77", "-1"],
    "TINYINT": ["-128", "127", "0"],
    "UBIGINT": ["18446744073709551615", "0", "77"],
    "HUGEINT": [str(2**127 - 1), str(-(2**127)), "0", "77", str(10**37), str(-(10**38))],
    "UHUGEINT": [str(2**128 - 1), "0", "1"],
    "DOUBLE": ["nan", "inf", "-inf", "1.7976931348623157e308", "-1.7e308", "5e-324", "-0.0", "0.5", "77", "1e37"],
    "FLOAT": ["nan", "inf", "-inf", "3.4e38", "1e-45", "-0.0", "77"],
    "DECIMAL(38,0)": ["9" * 38, "-" + "9" * 38, "0", "77"],
    "DECIMAL(38,38)": ["0." + "9" * 38, "-0." + "9" * 38, "0"],
    "DECIMAL(18,3)": ["9" * 15 + ".999", "0.001", "77"],
    "VARCHAR": TEXTS,
    "BOOLEAN": ["true", "false"],
    "DATE": ["infinity", "-infinity", "5877642-06-24 (BC)", "5881580-07-10", "9999-12-31", "2000-02-29"],
    "TIMESTAMP": ["infinity", "-infinity", "294247-01-10 04:00:54.775806", "290309-12-22 (BC) 00:00:00", "2000-02-29"],
    "TIMESTAMPTZ": ["infinity", "-infinity", "294247-01-10 04:00:54.775806+00", "2000-02-29 23:59:59-08"],
    "TIMESTAMP_NS": ["2262-04-11 23:47:16.854775806", "1677-09-22 00:00:00", "infinity"],
    "ENUM('a', '', 'it''s', '77', 'm')": ["a", "", "it's", "77", "m"],
    "UUID": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
}
NUMBERS: list[Any] = [0, 1, -1, 2, 77, 2**31, 2**53 + 1, 10**18, 2**61, 2**62, 2**62 - 1, 2**63 - 1, 2**63, 2**64]
NUMBERS += [10**19, 10**30, 10**36, 10**37 - 2, 10**37 - 1, 10**37, 10**37 + 1, 10**38, 2**127, 10**60, 10**300]
NUMBERS += [Fraction(1, 3), Fraction("1e-37"), Fraction("1e-60"), Fraction(10**37, 3), 5e-324, 1.7e308, 0.1, 2.0**-30]
NUMBERS += [-n for n in NUMBERS]
STEPS: list[Any] = [1, "0.1", "0.5", "1e-6", "1e-15", 2, 10**9, Fraction(1, 10**150)]


def declare(rng: random.Random) -> Any:
    """Return a random declaration of a column."""
    missing = rng.choice(["drop", "keep", "fill"])
    kind = rng.randrange(8)
    if kind == 0:
        low, high = sorted(rng.sample([-(2**62), -(10**9), -1, 0, 1, 77, 125, 2**40, 2**62], 2))
        return sd.Integer(low, high, missing=sd.Fill(low) if missing == "fill" else missing)
    if kind == 1:
        return sd.Integer(missing=sd.Fill(-(2**62)) if missing == "fill" else missing)
    if kind == 2:
        fill = sd.Fill(rng.choice([Fraction(0), Fraction(10**30), Fraction(-1, 3)]))
        return sd.Real(resolution=rng.choice(STEPS), missing=fill if missing == "fill" else missing)
    if kind == 3:
        return sd.Real(-5, 100, resolution=rng.choice(["1", "0.1", "1e-9", "7"]), missing="keep")
    if kind == 4:
        values: Any = rng.choice([["a", "m", "", "it's"], [0, 77, -(2**62)], ["77", "a\x01", "😀", "\\"]])
        other = rng.choice([None, values[0]])
        return sd.Category(values, other=other, missing=sd.Fill(values[1]) if missing == "fill" else missing)
    if kind == 5:
        return sd.Boolean(missing=sd.Fill(True) if missing == "fill" else missing)
    if kind == 6:
        low_day, high_day = rng.choice([("0001-01-01", "9999-12-31"), ("1999-12-30", "2001-02-03")])
        return sd.Date(low_day, high_day, missing=sd.Fill(low_day) if missing == "fill" else missing)
    return sd.Identifier()


def domain_of(rng: random.Random) -> tuple[sd.Domain, dict[str, str]]:
    """Return a random domain of 10 columns and an id, and the physical type of each."""
    physical = {f"c{i}": rng.choice(list(CELLS)) for i in range(9)} | {"n": "BIGINT", "id": "VARCHAR"}
    columns = {name: declare(rng) for name in physical} | {"n": sd.Integer(0, 125), "id": sd.Identifier()}
    ceiling = rng.choice([2**40, 10**6, 10**9])
    return sd.Domain(columns, row_ceiling=ceiling), physical


def store(path: Path, physical: dict[str, str], rows: int, rng: random.Random) -> Path:
    """Return a DuckDB file whose table t holds so many rows of extreme cells."""
    connection = duckdb.connect(str(path))
    listed = ", ".join(f"{name} {kind}" for name, kind in physical.items())
    connection.execute(f"CREATE TABLE t ({listed})")
    cast = ", ".join(f"TRY_CAST(? AS {kind})" for kind in physical.values())
    for _ in range(rows):
        cells = [rng.choice([None, *CELLS[kind], *CELLS[kind]]) for kind in physical.values()]
        connection.execute(f"INSERT INTO t SELECT {cast}", cells)
    connection.close()
    return path


class Questions:
    """Random questions over a domain."""

    def __init__(self, domain: sd.Domain, rng: random.Random) -> None:
        self.rng = rng
        self.by_kind: dict[type, list[str]] = {}
        for name, column in domain.columns.items():
            self.by_kind.setdefault(type(column), []).append(name)
        self.domain = domain
        self.numeric = [*self.by_kind.get(sd.Integer, []), *self.by_kind.get(sd.Real, [])]
        self.dates = self.by_kind.get(sd.Date, [])

    def constant(self) -> Any:
        """Return an extreme constant, or a small one."""
        return self.rng.choice(NUMBERS)

    def bounds(self) -> tuple[Any, Any]:
        """Return two bounds in order, or one."""
        low, high = sorted([self.constant(), self.constant()], key=Fraction)
        return self.rng.choice([(low, high), (low, high), (None, high), (low, None), (0, 10**60)])

    def number(self, depth: int) -> Expr:
        """Return a random number; most grow no further than 37 digits."""
        rng = self.rng
        if depth == 0:
            if self.dates and rng.random() < 0.06:
                day = col(rng.choice(self.dates))
                return rng.choice([day.year(), day.quarter(), day.month(), day.day(), day.day_of_week()])
            x = col(rng.choice(self.numeric))
            return x.clip(*rng.choice([(0, 10), (-1, 77)])) if rng.random() < 0.5 else x
        x = self.number(depth - 1)
        what = rng.randrange(8)
        if what == 0:
            return x.clip(*self.bounds())
        if what == 1:
            return x + self.either(self.constant(), self.number(depth - 1))
        if what == 2:
            return x - self.either(self.constant(), self.number(depth - 1))
        if what == 3:
            return x * self.either(self.constant(), self.number(0), 0)
        if what == 4:
            return abs(x)
        if what == 5:
            return when(self.condition(0), x).otherwise(rng.choice([self.constant(), None, 0, self.number(0)]))
        if what == 6:
            return when(self.condition(0), rng.choice([1, self.constant()])).otherwise(0)
        return x.clip(-1, 100) * x.clip(0, 3)

    def either(self, *operands: Expr | Number) -> Expr | Number:
        return self.rng.choice(operands)

    def condition(self, depth: int) -> Expr:
        """Return a random condition."""
        rng = self.rng
        if depth:
            one, other = self.condition(depth - 1), self.condition(depth - 1)
            return rng.choice([one & other, one | other, ~one])
        x, y = self.number(rng.randrange(2)), self.number(rng.randrange(3))
        n = self.constant()
        kinds: list[Expr] = [
            x > y,
            x <= n,
            x == n,
            x != n,
            n > x,
            x.is_in([n, 1, 77]),
            x.is_between(*sorted([n, 1], key=Fraction)),
        ]
        kinds += [x.is_null(), x * rng.choice(NUMBERS) < y, col("id") == rng.choice([t for t in TEXTS if t])]
        for name in self.by_kind.get(sd.Category, []):
            column = self.domain[name]
            assert isinstance(column, sd.Category)
            values = column.values
            kinds += [col(name) == values[0], col(name).is_null()]
        for name in self.dates:
            kinds += [col(name) > "2000-01-31", col(name).year() != n]
        kinds += [col(b) for b in self.by_kind.get(sd.Boolean, [])]
        return rng.choice(kinds)

    def key(self) -> Expr:
        """Return something to group by."""
        rng = self.rng
        x = self.number(rng.randrange(3))
        edges = sorted({Fraction(self.constant()) for _ in range(rng.randrange(2, 8))})
        width = rng.choice([1, 10, self.constant(), Fraction(10**60)])
        kinds = [x.bin(edges if len(edges) > 1 else [0, 1]), x.clip(0, 50).bin(width=abs(width) or 1)]
        kinds += [when(self.condition(0), "one").when(self.condition(0), "two").otherwise("three"), col("n")]
        kinds += [col(n) for n in self.domain if n not in self.numeric]
        kinds += [col(d).month() for d in self.dates]
        return rng.choice(kinds)

    def question(self) -> Any:
        """Return a random question: aggregates with conditions and groups, most common values, robust ones."""
        rng, x = self.rng, self.number(self.rng.randrange(4))
        where = self.condition(rng.randrange(3)) if rng.random() < 0.6 else None
        what = rng.random()
        if what < 0.08:
            return sd.most_common(self.key(), where=where)
        if what < 0.14:
            statistic = rng.choice(["median", "mean", "var", "quantile:0.9"])
            return sd.sample_and_aggregate(statistic, x, chunks=rng.choice([1, 7, 100]), default=0, where=where)
        asked = Selection() if where is None else Selection().where(where)
        for place in range(rng.choice([0, 0, 1, 1, 2])):
            asked = asked.group_by(self.key())
            if place and len({g.alias for g in asked.groups}) < len(asked.groups):
                asked = Selection(asked.condition, asked.groups[:1])
        y = self.number(1)
        kinds = [sd.count(), sd.count(x), sd.sum(x), sd.sum(x.clip(0, 9)), sd.mean(x.clip(*self.bounds()))]
        kinds += [sd.mean(x), sd.count_distinct(x), sd.variance(x), sd.std(x.clip(-3, 3)), sd.covariance(x, y)]
        kinds += [sd.correlation(x.clip(-1, 1), y.clip(0, 2)), sd.median(x), sd.quantile(x.clip(0, 77), 0.9)]
        kinds += [sd.count_distinct(n) for n in self.domain]
        return asked.agg(*(rng.choice(kinds).alias(f"out{i}") for i in range(rng.choice([1, 1, 2]))))

    def sql(self) -> str:
        """Return a random question in SQL."""
        rng, (a, b) = self.rng, self.bounds()
        low, high = (n if n is not None else 0 for n in (a, b))
        x, n = rng.choice(self.numeric), self._written(self.constant())
        clipped = f"CLIP({x}, {self._written(low)}, {self._written(high)})"
        number = rng.choice(
            [x, clipped, f"ABS({x})", f"LEAST({x}, {n})", f"{x} * {n}", f"CASE WHEN n = 77 THEN {n} ELSE 0 END"]
        )
        where = rng.choice(
            [f"{number} > {n}", f"n = 77 AND {clipped} <= {n}", f"{x} BETWEEN {n} AND 1", f"{number} IN ({n}, 1)"]
        )
        what = rng.choice(
            ["COUNT(*)", f"SUM({clipped})", f"AVG(CLIP({number}, 0, 5))", f"MEDIAN(CLIP({number}, 0, 99))"]
        )
        group = rng.choice(
            ["", f"GROUP BY BIN({number}, {self._written(low)}, {self._written(high)})", "GROUP BY n", "GROUP BY id"]
        )
        having = rng.choice(["", "", f" HAVING v > {n}", " ORDER BY v DESC LIMIT 3"]) if group else ""
        key = group.removeprefix("GROUP BY ")
        chosen = f"{key}, {what} AS v" if key else f"{what} AS v"
        return f"SELECT {chosen} FROM data WHERE {where} {group}{having}"

    @staticmethod
    def _written(number: Any) -> str:
        exact = Fraction(number)
        return str(exact.numerator) if exact.denominator == 1 else repr(float(exact))
