"""What quantiles cost beside plain DuckDB's, and how wrong they are beside other libraries' on the same incomes.

python bench/quantile.py [--rows 10000000] [--json]

Peers that are not installed (`pip install diffprivlib python-dp`) are skipped with a message.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from timing import compare, fetch

ROWS = 10_000_000
PEOPLE = 1_000_000
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
HIGHEST = 1_000_000


def run(rows: int = ROWS, repeats: int = 7) -> dict[str, Any]:
    """Return milliseconds as medians of runs that alternate, their ratio, and mean rank errors of one run."""
    found: dict[str, Any] = {}
    for size in sorted({PEOPLE, rows}):
        found[f"rows_{size}"] = _times(size, repeats)
    found["mean_rank_error_epsilon_1"] = rank_errors(repeats=200)
    return found


def rank_errors(*, repeats: int, people: int = PEOPLE) -> dict[str, Any]:
    """Return the mean distance, in ranks, of each library's median and 0.9 quantile from the true one."""
    values = np.minimum(_incomes(people), HIGHEST)
    ordered = np.sort(values)
    told: dict[str, Any] = {"people": people}
    for name, made in (("sordino", _ours), ("diffprivlib", _diffprivlib), ("PyDP", _pydp)):
        try:
            asked = made(values)
        except ImportError:
            told[name] = "skipped: not installed"
            continue
        for level in (0.5, 0.9):
            times = repeats if name == "sordino" else max(3, repeats // 10)
            found = [asked(level) for _ in range(times)]
            low, high = np.searchsorted(ordered, found, "left"), np.searchsorted(ordered, found, "right")
            off = np.maximum(0, np.maximum(low - level * people, level * people - high))
            told[f"{name}_{level}"] = round(float(off.mean()), 2)
            told[f"{name}_{level}_standard_error"] = round(float(off.std() / len(off) ** 0.5), 2)
    return told


def _times(rows: int, repeats: int) -> dict[str, Any]:
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

    from sordino.ask.queries.aggregates.quantile import median, quantiles

    told: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "incomes.parquet"
        job = pa.array([f"job {i % 15}" for i in range(15)]).take(pa.array(np.arange(rows) % 15))
        pq.write_table(pa.table({"income": _incomes(rows), "job": job}), path)
        plain = duckdb.connect()
        source = f"read_parquet('{path}')"
        for name, asked, by, text in (
            ("median", median("income"), (), "quantile_cont(income, 0.5)"),
            ("five", quantiles("income", LEVELS), (), f"quantile_cont(income, {list(LEVELS)})"),
            ("median_by_job", median("income"), ("job",), "job, quantile_cont(income, 0.5)"),
        ):
            query = f"SELECT {text} FROM {source}" + (" GROUP BY job" if by else "")
            ours, theirs = compare(_asker(path, asked, by), partial(fetch, plain, query), repeats)
            told[name] = {"sordino_ms": ours, "duckdb_ms": theirs, "ratio": round(ours / theirs, 2)}
    return told


def _asker(path: Path, asked: Any, by: Sequence[str]) -> Callable[[], Any]:
    """Return a call that asks at epsilon 1, with its ledger in memory."""
    import sordino as sd

    people = sd.protect(
        path,
        domain=sd.Domain(
            {"income": sd.Real(0, HIGHEST, resolution=0.01), "job": sd.Category([f"job {i}" for i in range(15)])}
        ),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(1000),
        ledger=None,
        name="people",
    )
    question = people.group_by(*by).agg(asked) if by else asked
    return lambda: people.ask(question, epsilon=1)


def several_errors(
    values: Any, *, scale: int, highest: int, count: int, epsilon: str, repeats: int
) -> dict[str, float]:
    """Return the mean rank error of `count` even levels: each alone at a part of epsilon, by halving, and as asked now."""
    from sordino.core.mechanisms.pivots import with_pivots

    levels = tuple(Fraction(i + 1, count + 1) for i in range(count))
    ways: dict[str, list[tuple[Fraction, ...]]] = {
        "alone": [(level,) for level in levels],
        "halving": [levels],
        "now": [with_pivots(levels)],
    }
    ordered = np.sort(values)
    made: dict[str, float] = {}
    for name, sets in ways.items():
        release, off = _release(values, scale=scale, highest=highest), []
        for _ in range(repeats):
            for one in sets:
                found = dict(zip(one, release(one, Fraction(epsilon) / len(sets)), strict=True))
                off += [_rank_error(ordered, found[level], level) for level in one if level in levels]
        made[name] = round(float(np.mean(off)), 1)
    return made


def _rank_error(ordered: Any, value: float, level: Fraction) -> float:
    low, high = np.searchsorted(ordered, value, "left"), np.searchsorted(ordered, value, "right")
    aim = float(level) * len(ordered)
    return float(max(0, low - aim, aim - high))


def _ours(values: Any) -> Callable[[float], float]:
    """Return our quantile; the mechanism alone, on counts made once, as the table stays in memory for the peers too."""
    from sordino.core.loss import to_fraction

    release = _release(values, scale=128, highest=HIGHEST)
    return lambda level: release((to_fraction(level, name="level"),), Fraction(1))[0]


def _release(values: Any, *, scale: int, highest: int) -> Callable[[tuple[Fraction, ...], Fraction], list[float]]:
    """Return our quantiles of values in steps of 1 / scale, for an epsilon in all."""
    import sordino as sd
    from sordino.core.mechanisms.partition import Partition
    from sordino.core.mechanisms.quantile_selection import QuantileSelection, halving_stages
    from sordino.core.neighbors import Neighbors

    steps, rows = np.unique(np.floor(values * scale + 0.5).astype(np.int64), return_counts=True)
    known = Partition.of(steps, steps, rows)

    class Known:
        def known(self, group: int) -> Partition:
            del group
            return known

        def refine(self, wanted: object) -> None:
            raise AssertionError(wanted)

    rng = sd.Rng.secure()

    def asked(levels: tuple[Fraction, ...], epsilon: Fraction) -> list[float]:
        stage = epsilon / len(halving_stages(len(levels)))
        made = QuantileSelection(levels, stage, Neighbors("add_remove", None), 1)
        return [v / scale for v in made.release(Known(), low=0, high=highest * scale, rng=rng)[0]]

    return asked


def _diffprivlib(values: Any) -> Callable[[float], float]:
    tools: Any = importlib.import_module("diffprivlib.tools")
    return lambda level: float(tools.quantile(values, level, epsilon=1.0, bounds=(0, HIGHEST)))


def _pydp(values: Any) -> Callable[[float], float]:
    laws: Any = importlib.import_module("pydp.algorithms.laplacian")
    given = values.tolist()

    def asked(level: float) -> float:
        made = laws.Percentile(
            epsilon=1.0, percentile=level, lower_bound=0.0, upper_bound=float(HIGHEST), dtype="float"
        )
        return float(made.quick_result(given))

    return asked


def _incomes(count: int) -> Any:
    return np.random.default_rng(1).lognormal(10, 1, count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = run(options.rows)
    print(json.dumps(found, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
