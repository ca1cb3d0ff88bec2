"""Tables with wide columns of numbers, with bounds as a curator declares them who has not looked: far beyond the rows.

Flights, houses, diamonds and the RAND health insurance experiment come with packages, from which `peers/export_tables.py` writes
them as CSV. California housing is read where its file lies, and generated in the same shape elsewhere; its name says so.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from sordino.synth.evaluation.distances import table_distance
from sordino.synth.evaluation.linear_models import explained, fit_linear, fit_logistic, rank_auc

# Cells of a column by its own quantiles, over which distances are.
_CELLS = 16
_MOST_SETS = 200
_RIDGE = 1.0
# The share of a table's rows that is fitted; regressions are tested on the others.
_FITTED = 0.75
# A random part of the flights, of which 40,000 rows are fitted.
_FLIGHTS = 53_334


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
        return replace(self.take(slice(rows)), name=f"{self.name}, {rows:,} rows")

    def take(self, places: Any) -> NumericTable:
        """Return the rows at these places."""
        return replace(self, columns={n: v[places] for n, v in self.columns.items()})

    def split(self) -> tuple[NumericTable, NumericTable]:
        """Return three quarters of the rows, to be fitted, and the others, by a public shuffle."""
        places = np.random.default_rng(9).permutation(self.rows)
        fitted = int(_FITTED * self.rows)
        return self.take(places[:fitted]), self.take(places[fitted:])


def flights(folder: Path) -> NumericTable:
    """Return flights from New York in 2013 that arrived: 53,334 rows, eight columns of times and distances, and the airline."""
    clock = (1, 0, 2_400)
    delay = (1, -200, 10_000)
    numbers = {
        "dep_time": clock,
        "sched_dep_time": clock,
        "dep_delay": delay,
        "arr_time": clock,
        "sched_arr_time": clock,
        "arr_delay": delay,
        "air_time": (1, 0, 5_000),
        "distance": (1, 0, 20_000),
    }
    raw = _read(folder / "flights.csv", [*numbers, "carrier"])
    table = _table("flights", raw, numbers, "arr_delay")
    return table.take(np.random.default_rng(0).permutation(table.rows)[:_FLIGHTS])


def houses(folder: Path) -> NumericTable:
    """Return houses sold in King County: 21,613 rows, 17 columns of numbers, three of categories."""
    area = (1, 0, 100_000)
    lot = (1, 0, 2_000_000)
    numbers = {
        "price": (1, 0, 20_000_000),
        "bedrooms": (1, 0, 50),
        "bathrooms": (4, 0, 20),
        "sqft_living": area,
        "sqft_lot": lot,
        "floors": (2, 0, 10),
        "view": (1, 0, 4),
        "condition": (1, 1, 5),
        "grade": (1, 1, 13),
        "sqft_above": area,
        "sqft_basement": area,
        "yr_built": (1, 1_800, 2_020),
        "yr_renovated": (1, 0, 2_020),
        "lat": (1_000, 40, 55),
        "long": (1_000, -130, -115),
        "sqft_living15": area,
        "sqft_lot15": lot,
    }
    raw = _read(folder / "houses.csv", [*numbers, "waterfront", "zipcode", "month"])
    return _table("houses", raw, numbers, "price")


def diamonds(folder: Path) -> NumericTable:
    """Return diamonds: 53,940 rows, seven columns of numbers, three of categories."""
    numbers = {"carat": (100, 0, 20), "depth": (10, 0, 100), "table": (10, 0, 200), "price": (1, 0, 2_000_000)}
    numbers |= dict.fromkeys(("x", "y", "z"), (100, 0, 60))
    raw = _read(folder / "diamonds.csv", [*numbers, "cut", "color", "clarity"])
    return _table("diamonds", raw, numbers, "price")


def rand_hie(folder: Path) -> NumericTable:
    """Return the RAND health insurance experiment: 20,190 rows, six columns of numbers, four of yes and no."""
    numbers = {
        "mdvis": (1, 0, 1_000),
        "logc": (1_000, 0, 20),
        "lpi": (1_000, 0, 20),
        "fmde": (1_000, 0, 20),
        "physlm": (1_000, 0, 1),
        "disea": (10, 0, 200),
    }
    raw = _read(folder / "rand_hie.csv", [*numbers, "idp", "hlthg", "hlthf", "hlthp"])
    return _table("rand_hie", raw, numbers, "mdvis")


def _read(path: Path, columns: Iterable[str]) -> dict[str, Any]:
    """Return columns of a CSV, of the rows that have a value in each; cells of categories as text."""
    options = arrow_csv.ConvertOptions(include_columns=list(columns))
    table = arrow_csv.read_csv(path, convert_options=options).drop_null()
    return {
        n: table[n].to_numpy() if _is_number(table[n].type) else pc.cast(table[n], pa.string()).to_pylist()
        for n in columns
    }


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


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
    "flights": flights,
    "houses": houses,
    "diamonds": diamonds,
    "rand_hie": rand_hie,
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


def measure_rows(table: NumericTable, drawn: dict[str, Any], held_out: NumericTable) -> dict[str, float]:
    """Return how far drawn rows are from a table: distances over its quantiles, KS, correlations, and regressions.

    `r kept` is the mean ratio of correlation to the table's, over the pairs of at least .5; `R2` that of a linear regression
    of the target, and `AUC` that of a logistic one of whether it is above its median in the table. Both are trained on the
    drawn rows and tested on held out ones, beside `R2 real` and `AUC real`, trained on the table.
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
    differences = [_ks(real[n], drawn[n]) for n in table.bounds]
    found["KS"] = float(np.mean(differences))
    found["KS max"] = max(differences)
    names = list(table.bounds)
    ours, theirs = (_correlations([rows[n].astype(np.float64) for n in names]) for rows in (real, drawn))
    upper = np.triu_indices(len(names), 1)
    strong = np.abs(ours[upper]) >= 0.5
    found["r error"] = float(np.abs(ours - theirs)[upper].mean())
    if strong.any():
        found["r kept"] = float(np.mean(theirs[upper][strong] / ours[upper][strong]))
    for name, rows in (("", drawn), (" real", real)):
        for measure, value in _regressions(table, rows, held_out.columns).items():
            found[measure + name] = value
    return found


def _cut(real: Any, values: Any) -> Any:
    edges = np.unique(np.quantile(real, np.arange(1, _CELLS) / _CELLS))
    return np.searchsorted(edges, values, side="right")


def _ks(real: Any, drawn: Any) -> float:
    both = np.unique(np.concatenate([real, drawn]))
    below = [np.searchsorted(np.sort(v), both, side="right") / len(v) for v in (real, drawn)]
    return float(np.abs(below[0] - below[1]).max())


def _correlations(columns: list[Any]) -> Any:
    """Return Pearson's correlations; 0 with a column that has one value."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num(np.corrcoef(columns))


def _regressions(table: NumericTable, train: dict[str, Any], test: dict[str, Any]) -> dict[str, float]:
    inputs, beside = _design(table, train), _design(table, test)
    mean, spread = inputs[:, 1:].mean(axis=0), inputs[:, 1:].std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    for design in (inputs, beside):
        design[:, 1:] = (design[:, 1:] - mean) / scale
    values, truth = (rows[table.target].astype(np.float64) for rows in (train, test))
    median = float(np.median(table.columns[table.target]))
    likely = beside @ fit_logistic(inputs, values > median, _RIDGE)
    return {
        "R2": explained(truth, beside @ fit_linear(inputs, values, _RIDGE)),
        "AUC": rank_auc(truth > median, likely),
    }


def _design(table: NumericTable, rows: dict[str, Any]) -> Any:
    """Return a column of ones, the numbers, and an indicator of each category but the first; the target is left out."""
    parts: list[Any] = [np.ones(len(rows[table.target]))]
    for name in table.columns:
        if name in table.sizes:
            parts += [(rows[name] == k).astype(np.float64) for k in range(1, table.sizes[name])]
        elif name != table.target:
            parts.append(rows[name].astype(np.float64))
    return np.stack(parts, axis=1)
