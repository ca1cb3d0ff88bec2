"""Caps through real Parquet: the rows and the groups kept of a unit are a function of that unit's own rows alone."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import engine_of
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import Selection
from sordino.core.neighbors import ContributionBounds, PrivacyUnit

DOMAIN = sd.Domain({"id": sd.Identifier(), "word": sd.Identifier(), "x": sd.Integer(0, 10**6), "r": sd.Real()})
SCHEMA = pa.schema([("id", pa.string()), ("word", pa.string()), ("x", pa.int64()), ("r", pa.float64())])
QUESTION = Selection().group_by("id", "word").agg(sd.count(), sd.sum("x"))
Row = dict[str, Any]
Kept = dict[Any, Counter[tuple[Any, ...]]]


def rows_of(unit: Any, rng: random.Random) -> list[Row]:
    """Return 0 to 12 rows over 6 words; some cells are odd, and some rows are alike."""
    made = [
        {
            "id": unit,
            "word": rng.choice([None, "a", "b", "c", "d", "e"]),
            "x": rng.choice([None, 1, 5, 10**9, rng.randrange(10**6)]),
            "r": rng.choice([None, float("nan"), float("inf"), rng.random()]),
        }
        for _ in range(rng.randrange(13))
    ]
    return made + made[: rng.randrange(2)]


def kept_rows_of(table: list[Row], path: Path, *, groups: int | None) -> Kept:
    """Return, for each unit, its groups with the rows kept in each and the sum of x: what the caps left."""
    pq.write_table(pa.Table.from_pylist(table, schema=SCHEMA), path, row_group_size=7)
    engine = engine_of(path, DOMAIN, unit=PrivacyUnit("id", max_rows=4))
    try:
        found = replace(compile_query(QUESTION, DOMAIN), bounds=ContributionBounds(max_groups=groups))
        answer = engine.run(found.select(engine.primitives)).to_pylist()
    finally:
        engine.close()
    by_unit: Kept = {}
    for line in answer:
        by_unit.setdefault(line["k0"], Counter())[(line["k1"], line["t0"], line["t1"])] += 1
    return by_unit


@pytest.mark.deep
@pytest.mark.parametrize("groups", [None, 1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_depends_neither_on_order_nor_on_other_units(
    groups: int | None, seed: int, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    units = {f"u{i}": rows_of(f"u{i}", rng) for i in range(12)}
    table = [r for rows in units.values() for r in rows]
    path = tmp_path / "t.parquet"
    before = kept_rows_of(table, path, groups=groups)
    for _ in range(2):
        rng.shuffle(table)
        assert kept_rows_of(table, path, groups=groups) == before
    more = [*table, *rows_of("new", rng), *rows_of("other", rng)]
    rng.shuffle(more)
    with_others = kept_rows_of(more, path, groups=groups)
    assert {u: c for u, c in with_others.items() if u in units} == before
    fewer = [r for r in table if r["id"] not in ("u0", "u1", "u2")]
    assert kept_rows_of(fewer, path, groups=groups) == {u: c for u, c in before.items() if u not in ("u0", "u1", "u2")}


@pytest.mark.each(3)
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_no_unit_has_more_rows_or_groups_than_its_caps(groups: int, tmp_path: Path) -> None:
    rng = random.Random(9)
    table = [r for i in range(30) for r in rows_of(f"u{i}", rng)]
    found = kept_rows_of(table, tmp_path / "t.parquet", groups=groups)
    sizes = {u: (len(c), sum(n for _, n, _ in c)) for u, c in found.items()}
    assert all(g <= groups and n <= 4 for g, n in sizes.values())
    assert max(g for g, _ in sizes.values()) == groups  # the cap is reached, so the test can fail


@pytest.mark.deep
def test_one_unit_decides_nothing_about_another_even_with_the_same_rows(tmp_path: Path) -> None:
    mine = [{"id": "me", "word": w, "x": i, "r": 0.5} for i, w in enumerate("abcde" * 3)]
    twins = [{**r, "id": f"twin{j}"} for r in mine for j in range(20)]
    alone = kept_rows_of(mine, tmp_path / "t.parquet", groups=2)["me"]
    assert kept_rows_of([*twins, *mine], tmp_path / "t.parquet", groups=2)["me"] == alone


def test_which_groups_of_a_unit_count_is_a_lot_of_its_own() -> None:
    """200 units in the same four groups, one of which counts: 50 a group, of deviation 6; 4.5 of them have chance 1e-5."""
    table = [{"id": f"u{i}", "word": w, "x": 1, "r": 0.5} for i in range(200) for w in "abcd"]
    engine = engine_of(pa.Table.from_pylist(table, schema=SCHEMA), DOMAIN, unit=PrivacyUnit("id", max_rows=4))
    asked = compile_query(Selection().group_by("word").agg(sd.count()), DOMAIN)
    found = engine.run(replace(asked, bounds=ContributionBounds(max_groups=1)).select(engine.primitives)).to_pylist()
    engine.close()
    chosen = {line["k0"]: line["t0"] for line in found}
    assert sum(chosen.values()) == 200
    assert all(abs(chosen[w] - 50) <= 28 for w in "abcd")
