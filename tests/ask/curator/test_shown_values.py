"""Every value shown lies in the interval beside it, or the answer says why there is none: in Python, JSON, the terminal."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from ask.curator.support import S, curator
from sordino import col
from sordino.core.domain import Column
from sordino.core.release import Release, show_number
from sordino.reporting.release_text import table_lines

SCALES = ["1", "0.001", "1e-12", "250000"]
KINDS: dict[str, Any] = {
    "count": sd.count(),
    "sum": sd.sum("x"),
    "sum below 0": sd.sum(col("x") * -1),
    "mean": sd.mean("x"),
    "variance": sd.variance("x"),
    "std": sd.std("x"),
    "covariance": sd.covariance("x", "y"),
    "correlation": sd.correlation("x", "y"),
    "distinct": sd.count_distinct("k"),
    "median": sd.median("x"),
    "iqr": sd.iqr("x"),
}
WITHOUT = {"median": "rows from the exact one", "iqr": "rows from the exact one"}


def people(scale: str, *, rows: int, seed: int) -> Any:
    step = float(scale)
    held = pa.table({"k": [i % 30 for i in range(rows)], "x": [step * (i % 9) for i in range(rows)]})
    real = sd.Real(0, 9 * step, resolution=scale)
    columns: dict[str, Column] = {"k": sd.Integer(0, 29), "x": real, "y": real}
    return curator(source=held.append_column("y", held["x"]), domain=sd.Domain(columns), seed=seed)


def ends_of(text: str) -> tuple[float, float]:
    low, high = text.split(" - ")
    return float(low.replace(",", "")), float(high.replace(",", ""))


def check(release: Release, kind: str) -> int:
    """Check the last column of a release wherever it is shown; return how many of its values lie past what is possible."""
    data = json.loads(release.to_json())
    name = release.outputs[-1].name
    lines = [line.split("  ") for line in table_lines(release, confidence=0.95)[1:]]
    assert len(lines) == len(data["rows"]) > 0
    past = 0
    for row, ends, cells in zip(data["rows"], data["intervals"], lines, strict=True):
        low, high = ends[name]
        value, told = [c.strip() for c in cells if c.strip()][-2:]
        if low is None:
            assert high is None
            assert data["error_units"] == {name: WITHOUT[kind]}
            assert told.endswith(WITHOUT[kind])
            continue
        assert low <= row[name] <= high
        least, most = ends_of(told)
        assert least <= float(value.replace(",", "")) <= most
        assert least <= low * (1 + 1e-12) or low == pytest.approx(least, abs=1e-9)
        assert "0.00000000" not in told
        past += row[name] < 0 and kind in ("count", "sum", "distinct")
    assert (kind in WITHOUT) == bool(data["error_units"])
    return past


@pytest.mark.each(46)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", KINDS)
def test_values_lie_in_their_intervals(kind: str, scale: str) -> None:
    past = 0
    for seed, (rows, epsilon) in enumerate([(0, 0.3), (7, 0.01), (90, 1), (600, 20)]):
        table = people(scale, rows=rows, seed=seed)
        asked = S.group_by("k").agg(KINDS[kind].alias("v"))
        question = asked if (seed + SCALES.index(scale)) % 2 else asked.having(col("v") < 10**30)
        release = table.ask(question, epsilon=epsilon)
        found = check(release, kind)
        assert bool(found) == any(n.startswith("v is below 0") for n in release.remarks)
        assert Release.from_dict(json.loads(release.to_json())) == release
        past += found
    assert bool(past) == (kind in ("count", "sum", "distinct"))


@pytest.mark.deep
def test_a_count_of_nothing_says_that_what_is_below_0_is_noise() -> None:
    releases = [people("1", rows=0, seed=s).ask(sd.count(), epsilon=0.3) for s in range(20)]
    below = [r for r in releases if r.value < 0]
    assert below
    for release in below:
        low, high = release.interval(0.95)
        assert low == release.value < 0 <= high  # no further below 0 than the value itself
        assert release.remarks == ("count is below 0: that is noise, kept so that sums over rows stay right; read 0",)
    for release in releases:
        if release.value >= 0:
            assert release.interval(0.95)[0] >= 0
            assert release.remarks == ()


def test_small_numbers_keep_their_significant_figures() -> None:
    assert show_number(2.9e-11) == "2.9e-11"
    assert show_number(1.5e-6) == "1.5e-06"
    line = table_lines(people("1e-12", rows=600, seed=1).ask(sd.mean("x"), epsilon=20), confidence=0.95)[0]
    assert "e-12" in line
    assert "0.0000" not in line
