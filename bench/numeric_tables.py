"""Tables with wide columns of numbers, with bounds as a curator declares them who has not looked: far beyond the rows.

Diamonds come with plotnine, California housing with scikit-learn's data; where a file is absent, a table of the same shape is
generated, and its name says so.
"""

from __future__ import annotations

import csv
import importlib.util
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sordino.synth.evaluation.distances import table_distance

# Cells of a column by its own quantiles, over which distances are.
_CELLS = 16
_MOST_SETS = 200


@dataclass(frozen=True)
class NumericTable:
    """Columns of numbers, as whole steps of 1 / `scales`, with declared bounds in steps; categories as codes from 0.

    `target` is the column of numbers that is predicted from all others.
    """

    name: str
    columns: dict[str, Any]
    bounds: dict[str, tuple[int, int]]
    scales: dict[str, int]
    sizes: dict[str, int]
    target: str

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def head(self, rows: int) -> NumericTable:
        """Return the first rows; the name says how many."""
        columns = {n: v[:rows] for n, v in self.columns.items()}
        return replace(self, name=f"{self.name}, {rows:,} rows", columns=columns)


def diamonds(folder: Path) -> NumericTable:
    """Return the diamonds: 53,940 rows, seven columns of numbers, three of categories; a generated table without the file."""
    path = folder / "diamonds.csv"
    packaged = importlib.util.find_spec("plotnine")
    if not path.is_file() and packaged is not None and packaged.origin is not None:
        path = Path(packaged.origin).parent / "data" / "diamonds.csv"
    if not path.is_file():
        return _generated_diamonds()
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    raw = {n: [row[n] for row in rows] for n in rows[0]}
    return _diamonds("diamonds", raw)


def _generated_diamonds() -> NumericTable:
    rng = np.random.default_rng(1)
    rows = 53_940
    carat = np.clip(np.exp(rng.normal(-0.4, 0.6, rows)), 0.2, 5.0)
    grade = {n: rng.integers(0, k, rows) for n, k in (("cut", 5), ("color", 7), ("clarity", 8))}
    price = np.exp(
        7.8 + 1.68 * np.log(carat) + 0.08 * grade["clarity"] - 0.06 * grade["color"] + rng.normal(0, 0.15, rows)
    )
    side = 6.5 * carat ** (1 / 3)
    raw: dict[str, Any] = {
        "carat": carat,
        **{n: [f"g{v}" for v in codes] for n, codes in grade.items()},
        "depth": rng.normal(61.7, 1.4, rows),
        "table": rng.normal(57.5, 2.2, rows),
        "price": np.clip(price, 300, 20_000),
        "x": side * rng.normal(1, 0.01, rows),
        "y": side * rng.normal(1, 0.01, rows),
        "z": side * 0.62 * rng.normal(1, 0.01, rows),
    }
    return _diamonds("diamonds (generated)", raw)


def _diamonds(name: str, raw: dict[str, Any]) -> NumericTable:
    numbers = {"carat": (100, 0, 20), "depth": (10, 0, 100), "table": (10, 0, 200), "price": (1, 0, 2_000_000)}
    numbers |= dict.fromkeys(("x", "y", "z"), (100, 0, 200))
    return _table(name, raw, numbers, "price")


def california_housing(folder: Path) -> NumericTable:
    """Return California housing: 20,640 rows of nine columns of numbers; a generated table without the file."""
    path = folder / "california_housing.csv"
    names = (
        "MedInc",
        "HouseAge",
        "AveRooms",
        "AveBedrms",
        "Population",
        "AveOccup",
        "Latitude",
        "Longitude",
        "MedHouseVal",
    )
    if path.is_file():
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return _housing("california_housing", {n: [row[n] for row in rows] for n in names})
    rng = np.random.default_rng(2)
    count = 20_640
    income = np.exp(rng.normal(1.25, 0.45, count))
    north = rng.random(count) < 0.45
    rooms = np.exp(rng.normal(1.6, 0.25, count) + 0.1 * np.log(income))
    value = np.minimum(np.exp(0.55 + 0.75 * np.log(income / 3.5) + 0.25 * north + rng.normal(0, 0.35, count)), 5.0)
    raw = {
        "MedInc": income,
        "HouseAge": np.minimum(rng.integers(1, 60, count), 52),
        "AveRooms": rooms,
        "AveBedrms": rooms / 5 * np.exp(rng.normal(0, 0.1, count)),
        "Population": np.exp(rng.normal(7.0, 0.75, count)),
        "AveOccup": np.exp(rng.normal(1.05, 0.25, count)),
        "Latitude": np.where(north, rng.normal(37.8, 0.7, count), rng.normal(33.9, 0.5, count)),
        "Longitude": np.where(north, rng.normal(-121.7, 0.8, count), rng.normal(-118.0, 0.6, count)),
        "MedHouseVal": value,
    }
    return _housing("california_housing (generated)", raw)


def _housing(name: str, raw: dict[str, Any]) -> NumericTable:
    numbers = {
        "MedInc": (10_000, 0, 1_000),
        "HouseAge": (1, 0, 500),
        "AveRooms": (100, 0, 10_000),
        "AveBedrms": (100, 0, 10_000),
        "Population": (1, 0, 1_000_000),
        "AveOccup": (100, 0, 10_000),
        "Latitude": (100, -90, 90),
        "Longitude": (100, -180, 180),
        "MedHouseVal": (1_000, 0, 1_000),
    }
    return _table(name, raw, numbers, "MedHouseVal")


def bills(folder: Path) -> NumericTable:
    """Return a generated table of bills and payments of 30,000 people: half of the payments small, two months near equal."""
    del folder
    rng = np.random.default_rng(3)
    rows = 30_000
    limit = 10_000 * np.maximum(np.round(np.exp(rng.normal(2.6, 0.8, rows))), 1)
    first = np.round(limit * rng.beta(0.6, 1.2, rows))
    raw: dict[str, Any] = {
        "limit": np.minimum(limit, 1_000_000),
        "bill1": first,
        "bill2": np.round(first * rng.uniform(0.85, 1.1, rows)),
        "paid1": np.where(rng.random(rows) < 0.18, 0, np.round(first * rng.beta(0.5, 6, rows) + 100)),
        "paid2": np.where(rng.random(rows) < 0.18, 0, np.round(np.exp(rng.normal(7.6, 1.3, rows)))),
        "age": rng.integers(21, 76, rows),
        "late": [str(v) for v in rng.choice(["no", "yes"], rows, p=[0.78, 0.22])],
    }
    wide = (1, -20_000, 2_000_000)
    numbers = {
        "limit": (1, 0, 2_000_000),
        **dict.fromkeys(("bill1", "bill2", "paid1", "paid2"), wide),
        "age": (1, 0, 120),
    }
    return _table("bills (generated)", raw, numbers, "bill2")


NUMERIC: dict[str, Callable[[Path], NumericTable]] = {
    "diamonds": diamonds,
    "california_housing": california_housing,
    "bills": bills,
}


def _table(name: str, raw: dict[str, Any], numbers: dict[str, tuple[int, int, int]], target: str) -> NumericTable:
    columns: dict[str, Any] = {}
    sizes = {}
    for column, cells in raw.items():
        if column in numbers:
            scale, low, high = numbers[column]
            steps = np.round(np.asarray(cells, dtype=np.float64) * scale).astype(np.int64)
            columns[column] = np.clip(steps, low * scale, high * scale)
        else:
            values, columns[column] = np.unique(np.asarray(cells, dtype=str), return_inverse=True)
            sizes[column] = len(values)
    bounds = {n: (low * scale, high * scale) for n, (scale, low, high) in numbers.items()}
    return NumericTable(name, columns, bounds, {n: s for n, (s, _, _) in numbers.items()}, sizes, target)


def measure_rows(table: NumericTable, drawn: dict[str, Any]) -> dict[str, float]:
    """Return how far drawn rows are from a table: distances over its quantiles, KS, correlations, and R2 of a line.

    `r kept` is the mean ratio of correlation to the table's, over the pairs of at least .5; `R2` that of a linear regression
    trained on the drawn rows and tested on every second row of the table, beside `R2 real`, trained on the others.
    """
    real = table.columns
    cells = {n: (_cut(real[n], real[n]), _cut(real[n], drawn[n])) for n in table.bounds}
    codes = [{n: cells[n][i] if n in cells else (real, drawn)[i][n] for n in real} for i in (0, 1)]
    sizes = {n: table.sizes.get(n, _CELLS) for n in real}
    found = {}
    for ways in (1, 2, 3):
        sets = list(itertools.combinations(real, ways))
        picks = np.random.default_rng(0).permutation(len(sets))[:_MOST_SETS]
        chosen = [sets[i] for i in picks]
        found[f"{ways}-way"] = float(
            np.mean(
                [
                    table_distance([codes[0][n] for n in s], [codes[1][n] for n in s], [sizes[n] for n in s])
                    for s in chosen
                ]
            )
        )
    found["KS"] = float(np.mean([_ks(real[n], drawn[n]) for n in table.bounds]))
    names = list(table.bounds)
    ours, theirs = (np.corrcoef([rows[n].astype(np.float64) for n in names]) for rows in (real, drawn))
    theirs = np.nan_to_num(theirs)
    upper = np.triu_indices(len(names), 1)
    strong = np.abs(ours[upper]) >= 0.5
    found["r error"] = float(np.abs(ours - theirs)[upper].mean())
    if strong.any():
        found["r kept"] = float(np.mean(theirs[upper][strong] / ours[upper][strong]))
    test = {n: v[1::2] for n, v in real.items()}
    found["R2"] = _line(table, drawn, test)
    found["R2 real"] = _line(table, {n: v[0::2] for n, v in real.items()}, test)
    return found


def _cut(real: Any, values: Any) -> Any:
    edges = np.unique(np.quantile(real, np.arange(1, _CELLS) / _CELLS))
    return np.searchsorted(edges, values, side="right")


def _ks(real: Any, drawn: Any) -> float:
    both = np.unique(np.concatenate([real, drawn]))
    below = [np.searchsorted(np.sort(v), both, side="right") / len(v) for v in (real, drawn)]
    return float(np.abs(below[0] - below[1]).max())


def _line(table: NumericTable, train: dict[str, Any], test: dict[str, Any]) -> float:
    features = [n for n in train if n != table.target]

    def design(rows: dict[str, Any]) -> Any:
        parts: list[Any] = [np.ones(len(rows[table.target]))]
        for name in features:
            if name in table.bounds:
                parts.append(rows[name].astype(np.float64))
            else:
                parts += [(rows[name] == k).astype(np.float64) for k in range(1, table.sizes[name])]
        return np.stack(parts, axis=1)

    inputs = design(train)
    scale = np.maximum(np.abs(inputs).max(axis=0), 1e-9)
    weights, *_ = np.linalg.lstsq(inputs / scale, train[table.target].astype(np.float64), rcond=None)
    truth = test[table.target].astype(np.float64)
    errors = truth - design(test) / scale @ weights
    return float(1 - np.square(errors).sum() / np.square(truth - truth.mean()).sum())
