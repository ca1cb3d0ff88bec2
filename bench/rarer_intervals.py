"""Draws of a curator's rarer intervals: dates, totals of a unit, keys by Gaussian noise, wide quantiles, curves of searches."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from curator_intervals import bound_ends, cell_ends, say
from interval_check import Draws

import sordino as sd
from sordino.ask.queries.adaptive.contributions import contribution_bins
from sordino.ask.queries.build import Selection

LOSSES: tuple[dict[str, str], ...] = ({"epsilon": "1"}, {"rho": "0.5"})
FIRST = datetime.date(2024, 1, 1)


def rarer_draws(size: int) -> Iterator[Draws]:
    """Yield what each place draws, about `size` / 2 groups or fewer asks each."""
    yield from _days(max(50, size // 2))
    yield from _totals(max(50, size // 2))
    yield from _gaussian_keys(max(50, size))
    yield from _wide_ranks(max(50, size // 8))
    yield from _caps(max(40, size // 10))
    yield from _bounds(max(40, size // 20))


def _protect(table: pa.Table, columns: dict[str, Any], loss: dict[str, str], **more: Any) -> Any:
    return sd.protect(
        table, domain=sd.Domain(columns), neighbors=more.pop("neighbors", "add_remove"), ledger=None,
        privacy_unit=more.pop("unit", "row"),
        budget=sd.ZCDP(10**9, delta="0.1", slack="0.09") if "rho" in loss else sd.ApproxDP(10**9, "0.999999"),
        rng=sd.Rng.seeded(21),
    )  # fmt: skip


def _days(groups: int) -> Iterator[Draws]:
    """Means of dates, whose intervals are whole days rounded outward."""
    rows = 60
    offsets = (37 * np.arange(rows)) % 300
    days = [FIRST + datetime.timedelta(int(o)) for o in offsets]
    table = pa.table({"k": np.repeat(np.arange(groups), rows), "day": days * groups})
    columns = {"k": sd.Integer(0, groups - 1), "day": sd.Date("2024-01-01", "2024-12-31")}
    for loss, neighbors in itertools.product(LOSSES, ("add_remove", "replace")):
        held = _protect(table, columns, loss, neighbors=neighbors)
        estimate = held.ask(Selection().group_by("k").agg(sd.mean("day")), **loss).outputs[0].estimate

        def ends(confidence: float, estimate: Any = estimate) -> tuple[Any, Any]:
            low, high = zip(*estimate.intervals(confidence), strict=True)
            return _numbers(low), _numbers(high)

        values = _numbers(estimate.values())
        truth = float(offsets.mean())
        yield Draws("mean of days", say(loss, neighbors, f"{rows} rows"), truth, values, ends, least=0, most=365)


def _numbers(days: Any) -> Any:
    return np.array([(day - FIRST).days for day in days], dtype=float)


def _totals(groups: int) -> Iterator[Draws]:
    """Sums of each unit's total, clipped as a whole."""
    units, rows = 20, 5
    ids = np.repeat(np.arange(groups * units), rows).astype(str)
    x = np.tile((37 * np.arange(units * rows) + 11) % 101, groups)
    table = pa.table({"k": np.repeat(np.arange(groups), units * rows), "id": ids, "x": x})
    columns = {"k": sd.Integer(0, groups - 1), "id": sd.Identifier(), "x": sd.Integer(0, 100)}
    truth = float(np.minimum(x[: units * rows].reshape(units, rows).sum(axis=1), 250).sum())
    for loss, neighbors in itertools.product(LOSSES, ("add_remove", "replace")):
        held = _protect(table, columns, loss, neighbors=neighbors, unit=sd.PrivacyUnit("id", max_rows=rows))
        asked = Selection().group_by("k").agg(sd.sum("x", per_unit=(0, 250))).bound_contributions(max_groups=1)
        estimate = held.ask(asked, **loss).outputs[0].estimate
        ends = cell_ends(estimate, slice(None))
        yield Draws("sum of clipped totals", say(loss, neighbors), truth, estimate.values(), ends, least=0)


def _gaussian_keys(groups: int) -> Iterator[Draws]:
    """Counts of private keys under rho, which a Gaussian threshold shows."""
    for rows, rho in itertools.product((15, 30), ("0.2", "1")):
        loss = {"rho": rho}
        table = pa.table({"name": np.repeat(np.arange(groups), rows).astype(str)})
        held = _protect(table, {"name": sd.Identifier()}, loss)
        release = held.ask(Selection().group_by("name").agg(sd.count()), rho=rho, delta="0.000001")
        if len(release.rows) >= 50:
            estimate = release.outputs[0].estimate
            place = f"rho {rho}, delta 0.000001; {rows} rows; {len(release.rows) / groups:.0%} show"
            yield Draws(
                "count of a private key, under rho", place, float(rows), estimate.values(), cell_ends(estimate, slice(None)),
                least=1,
            )  # fmt: skip


def _wide_ranks(groups: int) -> Iterator[Draws]:
    """Quantiles of a column of ten million steps, in both relations: how many rows lie in between."""
    rows = 200
    x = np.sort(np.round(np.exp(np.linspace(0, 11, rows)), 2))
    table = pa.table({"k": np.repeat(np.arange(groups), rows), "x": np.tile(x, groups)})
    columns = {"k": sd.Integer(0, groups - 1), "x": sd.Real(0, 100_000, resolution="0.01")}
    for loss, neighbors, levels in itertools.product(LOSSES, ("add_remove", "replace"), ((0.5,), (0.1, 0.5, 0.9))):
        held = _protect(table, columns, loss, neighbors=neighbors)
        release = held.ask(Selection().group_by("k").agg(sd.quantiles("x", levels)), **loss)
        for level, output in zip(levels, release.outputs, strict=True):
            values = np.array(output.estimate.values(), dtype=float)
            below, upto = np.searchsorted(x, values - 0.001), np.searchsorted(x, values + 0.001)
            off = np.maximum(0.0, np.maximum(below - level * rows, level * rows - upto))
            place = f"level {level}, {len(levels)} asked; {say(loss, neighbors)}; {rows} rows"
            ends = bound_ends(output.estimate, off)
            yield Draws("quantile of a wide column, in ranks", place, 0.0, off, ends, promise="at least", least=0)


def _caps(asks: int) -> Iterator[Draws]:
    """What a cap on rows would lose, of the search of contribution bounds: one cap of each search.

    Without noise it counts a unit by the middle of its bin, and so does the truth here.
    """
    starts = np.array(contribution_bins())
    middles = (starts[:-1] + starts[1:] - 1) / 2
    rows = np.array([1 + i % 4 + 12 * (i % 9 == 0) for i in range(900)])
    table = pa.table({"id": np.repeat(np.arange(900), rows).astype(str)})
    unit = sd.PrivacyUnit("id", max_rows=5)
    for loss in LOSSES:
        held = _protect(table, {"id": sd.Identifier()}, loss, unit=unit)
        releases = [held.find_contribution_bounds(**loss) for _ in range(asks)]
        caps = [r["at"] for r in releases[0].rows]
        for cap in (2, 4, 8):
            if cap in caps:
                estimates = [r.outputs[0].estimate for r in releases]
                truth = float(np.maximum(middles[np.searchsorted(starts, rows, "right") - 1] - cap, 0).sum())
                yield _curve("rows lost by a cap", f"cap {cap}; {say(loss)}", truth, estimates, caps.index(cap))


def _bounds(asks: int) -> Iterator[Draws]:
    """What lies beyond a bound that was tried, of the search of bounds: one bound of each search."""
    x = np.floor(np.exp(np.linspace(0, 6, 2000)))
    table = pa.table({"x": x.astype(int)})
    for loss in LOSSES:
        held = _protect(table, {"x": sd.Integer()}, loss)
        releases = [held.find_bounds("x", **loss) for _ in range(asks)]
        tried = [{(r["side"], r["bound"]): i for i, r in enumerate(release.rows)} for release in releases]
        for bound in (64, 256):
            keys = [k for k in tried[0] if k[1] == bound and all(k in own for own in tried)]
            for key in keys[:1]:
                estimates = [r.outputs[0].estimate for r in releases]
                values = [e.values()[own[key]] for e, own in zip(estimates, tried, strict=True)]
                truth = float(np.minimum(x, bound).sum())
                place = f"{key[0]} {bound}; {say(loss)}"

                def ends(
                    confidence: float, estimates: Any = estimates, key: Any = key, tried: Any = tried
                ) -> tuple[Any, Any]:
                    found = [e.intervals(confidence)[own[key]] for e, own in zip(estimates, tried, strict=True)]
                    low, high = np.array(found, dtype=float).T
                    return low, high

                yield Draws("clipped sum of a search", place, truth, values, ends, promise="at least")


def _curve(kind: str, place: str, truth: float, estimates: Any, at: int) -> Draws:
    def ends(confidence: float) -> tuple[Any, Any]:
        low, high = np.array([e.intervals(confidence)[at] for e in estimates], dtype=float).T
        return low, high

    return Draws(kind, place, truth, [e.values()[at] for e in estimates], ends, promise="at least")
