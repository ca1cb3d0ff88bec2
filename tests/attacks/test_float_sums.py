"""Attacks by rows: one row of great numbers, NaN or odd text, other orders and other files - on real Parquet."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from protecting import protect
from sordino.lab.audit.question_audit import replay_plan

NAN, INF = math.nan, math.inf


def look_behind(domain: sd.Domain, question: Any, *paths: Path, relation: str = "add_remove") -> None:
    """Run a question on two neighbors with the same noise, and say that nothing moved further than was declared."""
    curator = protect(paths[0], domain, neighbors=relation, name="data")
    found = replay_plan(curator.plan(question, epsilon=1), *paths)
    curator.close()
    assert found.holds, found.describe()


def plain(path: Path, sql: str) -> Any:
    """Answer as an engine does that nobody taught privacy, on one thread."""
    db = duckdb.connect()
    db.execute("SET threads = 1")
    return db.execute(sql.replace("$", f"'{path}'")).fetchall()[0][0]


def write(path: Path, values: Any, *, rows: int = 10**6) -> Path:
    pq.write_table(pa.table({"x": pa.array(values, pa.float64())}), path, row_group_size=rows)
    return path


@pytest.mark.attack(
    "move a sum of floats by more than its sensitivity",
    source="Casacuberta, Shoemate, Vadhan, Wagaman 2022, Widespread underestimation of sensitivity",
)
def test_one_row_moves_a_float_sum_by_a_thousand_times_its_claim_and_ours_by_its_claim(tmp_path: Path) -> None:
    """Each row lies in [M, M + 1], so one replaced row may move the sum by 1.

    Where the sum of k rows passes a power of two, doubles grow coarser: a row of M + 1 there goes to the even neighbor, and a sum
    that began at M loses what one that began at M + 1 wins. The difference doubles ten times.
    """
    least = 2**52
    rows = [float(least + (k > 1 and k & (k - 1) == 0)) for k in range(1, 1025)]
    here, there = (write(tmp_path / f"{i}.parquet", [float(least + i), *rows[1:]]) for i in (0, 1))
    assert abs(plain(here, "SELECT sum(x) FROM $") - plain(there, "SELECT sum(x) FROM $")) == 1024
    domain = sd.Domain({"x": sd.Real(least, least + 1, resolution=1)}, row_ceiling=10**5)
    for question in (sd.sum("x"), sd.mean("x"), [sd.sum("x"), sd.count().alias("n")]):
        look_behind(domain, question, here, there, relation="replace")


@pytest.mark.deep
@pytest.mark.attack(
    "learn from the order or the files of the rows", source="Casacuberta, Shoemate, Vadhan, Wagaman 2022"
)
def test_order_and_files_move_a_float_sum_and_none_of_ours(tmp_path: Path) -> None:
    """The same rows, shuffled, in one file or many, in groups of 7 or all: the same answers, with the same noise."""
    rows = [(-1.0) ** i * 10.0 ** (i % 17) + i / 3 for i in range(2000)]
    cells = [(f"u{i % 300}", value, "ab"[i % 2]) for i, value in enumerate(rows)]
    domain = sd.Domain(
        {"u": sd.Identifier(), "x": sd.Real(-1e6, 1e6, resolution="0.001"), "c": sd.Category(["a", "b"])}
    )
    unit = sd.PrivacyUnit("u", max_rows=3)
    questions = [
        "SELECT c, COUNT(*) AS n, SUM(x) AS s FROM data GROUP BY c",
        "SELECT AVG(x) AS m, VAR_POP(x) AS v FROM data",
        "SELECT MEDIAN(x) AS m FROM data",
        "SELECT COUNT(DISTINCT u) AS n FROM data WHERE x > 0",
    ]
    seen, naive = set(), set()
    for turn, (files, group) in enumerate([(1, 10**6), (5, 7), (3, 200)]):
        order = random.Random(turn).sample(cells, len(cells))
        folder = tmp_path / str(turn)
        folder.mkdir()
        for i in range(files):
            u, x, c = zip(*order[i::files], strict=True)
            pq.write_table(pa.table({"u": u, "x": x, "c": c}), folder / f"{i}.parquet", row_group_size=group)
        naive.add(plain(folder / "*.parquet", "SELECT sum(x) FROM $"))
        curator = protect(str(folder / "*.parquet"), domain, unit=unit, seed=8)
        seen.add(tuple(str(curator.ask(sd.sql(text), epsilon=50).table.to_pydict()) for text in questions))
        curator.close()
    assert len(naive) > 1, "the rows do not tempt a sum of floats"
    assert len(seen) == 1


@pytest.mark.deep
@pytest.mark.attack(
    "poison an answer by one row",
    source="seen in diffprivlib and OpenDP: NaN, infinity, missing; found from outside: zoned moments beside a text in pandas",
)
@pytest.mark.each(8)
@pytest.mark.parametrize("poison", [NAN, INF, -INF, None, -0.0, 1e308, -1e308, 5e-324], ids=str)
def test_one_row_poisons_plain_averages_and_moves_ours_by_its_claim(tmp_path: Path, poison: float | None) -> None:
    rows = [0.5, 1.5, 2.5, *[1e308] * 2]
    before, after = (write(tmp_path / f"{i}.parquet", [*rows, *more]) for i, more in enumerate(((), (poison,))))
    naive = plain(after, "SELECT avg(x) FROM $")
    assert not np.isfinite(naive)  # two rows of 1e308 overflow it already; NaN and infinities need no help
    domain = sd.Domain({"x": sd.Real(-10, 10, resolution="0.5")})
    for question in (
        sd.sum("x"),
        [sd.count("x"), sd.mean("x")],
        sd.sql("SELECT VAR_POP(x) AS v FROM data WHERE x > 0"),
    ):
        look_behind(domain, question, before, after)
