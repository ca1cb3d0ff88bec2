"""Moments in milliseconds that microseconds cannot hold: one of them must not fail a question, nor change how others are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd

WIDEST = 2**63 - 1
FAR = [WIDEST - 1, -WIDEST - 1, WIDEST // 1000 + 1, -(WIDEST // 1000) - 1, 2**62, -(2**62)]  # which no reader can hold
EDGE = [WIDEST, -WIDEST, WIDEST // 1000, -(WIDEST // 1000), 2**62 // 1000 + 1, 0, 86_400_000]  # which all can


def answers(cells: list[int], path: Path | None, kind: sd.domain.Column) -> list[int]:
    """Return answers, all but exact, over these moments."""
    table = pa.table(
        {
            "at": pa.array(cells, pa.int64()).cast(pa.timestamp("ms")),
            "x": [1] * len(cells),
            "word": pa.array(["a"] * len(cells)).dictionary_encode(),
        }
    )
    source: object = table
    if path is not None:
        pq.write_table(table, path)
        source = path
    words = sd.Category(["a"])
    held = sd.protect(
        source,
        domain=sd.Domain({"at": kind, "x": sd.Integer(0, 1), "word": words}),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10**6),
        ledger=None,
    )
    early = sd.count().alias("n")
    questions: list[Any] = [
        sd.sum("x"),
        sd.count("at"),
        held.where(sd.col("at") <= "1970-01-01").agg(early),
        held.where(sd.col("at") >= "1990-01-01").agg(early),
        held.where(sd.col("word") == "a").agg(early),
    ]
    return [held.ask(question, epsilon=1000).value for question in questions]


@pytest.mark.each(13)
@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize(
    "kind",
    [sd.Date("1960-01-01", "2020-01-01"), sd.DateTime("1960-01-01", "2020-01-01", zone="UTC")],
    ids=["day", "moment"],
)
def test_a_moment_too_far_away_is_missing_and_others_stay_as_they_are(
    tmp_path: Path, far: int, kind: sd.domain.Column
) -> None:
    """Adding the one bad row moves each answer by that row alone: by 1 where it counts without its moment, else by 0."""
    whole = answers(EDGE, tmp_path / "whole.parquet", kind)
    assert whole == answers(EDGE, None, kind)
    with_far = answers([*EDGE, far], tmp_path / "far.parquet", kind)
    assert with_far == answers([*EDGE, far], None, kind)
    assert [b - a for a, b in zip(whole, with_far, strict=True)] == [1, 0, 0, 0, 1]
