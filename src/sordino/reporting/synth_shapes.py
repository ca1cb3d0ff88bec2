"""Pictures of synthetic rows beside the original: a column's distribution on a scale that suits it, a pair of columns as heat.

It sees released shares, or ones that carry a mark; scales follow from declared bounds and synthetic rows.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sordino.core.errors import DeclarationError
from sordino.reporting.picture import COLORS, data_of, mark_title, title_of

if TYPE_CHECKING:
    from sordino.reporting.picture import AnyChart
    from sordino.synth.encoded_column import EncodedColumn
    from sordino.synth.evaluation.distributions import Distribution

# Bars of a distribution, of equal width as drawn.
_BARS = 30
# A column is drawn on a logarithmic scale where its bounds are so many times as far apart as its middle half.
_SKEWED = 20.0
_LINEAR, _TIME = "linear", "time"


@dataclass(frozen=True, slots=True)
class AxisScale:
    """The scale of an axis: "linear", "time", or "symlog": linear up to `constant`, logarithmic beyond it, on both sides of 0."""

    kind: str
    constant: float = 1.0

    def place(self, value: float) -> float:
        """Return where a value is drawn, in units of the axis."""
        if self.kind != "symlog":
            return value
        return math.copysign(math.log1p(abs(value) / self.constant), value)

    def value(self, place: float) -> float:
        """Return the value that is drawn at a place."""
        if self.kind != "symlog":
            return place
        return math.copysign(math.expm1(abs(place)) * self.constant, place)


@dataclass(frozen=True, slots=True)
class Densities:
    """Shares of rows in the cells of one column, synthetic and original, to be drawn over each other.

    `edges` are one more than the cells: numbers, or dates and moments in ISO form. `reaches` are those of the noise of the
    original's shares, 0 where there is none; what it hides is not drawn. `mark` says why it is NOT PRIVATE.
    """

    column: str
    edges: Sequence[Any]
    synthetic: Sequence[float]
    original: Sequence[float]
    reaches: Sequence[float]
    scale: AxisScale
    mark: str | None = None

    def __post_init__(self) -> None:
        if len({len(self.edges) - 1, len(self.synthetic), len(self.original), len(self.reaches)}) != 1:
            raise DeclarationError("a distribution has a share for each cell, and one edge more than cells")


@dataclass(frozen=True, slots=True)
class Heat:
    """Shares of rows in the cells of two columns, synthetic and original side by side; None where the noise hides one."""

    columns: tuple[str, str]
    labels: tuple[Sequence[Any], Sequence[Any]]
    synthetic: Sequence[Sequence[float]]
    original: Sequence[Sequence[float | None]]
    mark: str | None = None


def scale_of(column: EncodedColumn, distribution: Distribution) -> AxisScale:
    """Return the scale that suits a column, from its declared bounds and the quantiles of synthetic rows."""
    if isinstance(distribution.edges[0], str):
        return AxisScale(_TIME)
    quantiles = {q.level: float(q.synthetic) for q in distribution.quantiles}
    if not quantiles:
        return AxisScale(_LINEAR)
    step = float(column.unit)
    middle = max(quantiles[0.75] - quantiles[0.25], step)
    span = float(distribution.edges[-1]) - float(distribution.edges[0])
    if span <= _SKEWED * middle:
        return AxisScale(_LINEAR)
    return AxisScale("symlog", max(middle / _SKEWED, step))


def draw_densities(made: Densities, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart: synthetic rows as bars, the original as steps with the interval of its noise."""
    import altair as alt

    del confidence
    names = ["synthetic rows", "original"]
    caption = mark_title(title or f"{made.column}: synthetic rows and the original", made.mark)
    rows = _bars(made)
    color = alt.Color(
        "series:N",
        title=None,
        scale=alt.Scale(domain=names, range=[COLORS[0], COLORS[1]]),
        legend=alt.Legend(orient="top"),
    )
    ends = [rows[0]["start"], rows[-1]["end"]]
    if made.scale.kind == _TIME:
        x: Any = alt.X("start:T", title=made.column, scale=alt.Scale(domain=ends))
    else:
        more: dict[str, Any] = {"constant": made.scale.constant} if made.scale.kind == "symlog" else {}
        more["type"] = made.scale.kind
        scale = alt.Scale(domain=ends, nice=False, zero=False, **more)
        # each tick in its own unit: a common one would write all but the largest as 0
        words: dict[str, Any] = {"values": _ticks(made.scale, *ends), "labelExpr": "format(datum.value, '~s')"}
        axis = alt.Axis(**words) if made.scale.kind == "symlog" else alt.Axis()
        x = alt.X("start:Q", title=made.column, scale=scale, axis=axis)
    y = alt.Y("share:Q", title="share of rows in a bar", axis=alt.Axis(format="~%"))
    base = alt.Chart(data_of(rows)).encode(x=x, x2="end:T" if made.scale.kind == _TIME else "end:Q", color=color)
    drawn, seen = (base.transform_filter(alt.FieldEqualPredicate(field="series", equal=name)) for name in names)
    layers = [
        drawn.mark_bar(opacity=0.45).encode(y=y, y2="zero:Q", tooltip=["series:N", "start:N", "end:N", "share:Q"]),
        seen.mark_rule(strokeWidth=2.2).encode(y=y, tooltip=["series:N", "start:N", "end:N", "share:Q"]),
    ]
    if any(made.reaches):
        middle = alt.X("middle:T" if made.scale.kind == _TIME else "middle:Q")
        whisker = seen.mark_rule(strokeWidth=1).encode(x=middle, y=alt.Y("low:Q"), y2="high:Q")
        # a rule up and down has one place only
        whisker.encoding.x2 = alt.Undefined
        layers.append(whisker)
    notes = []
    if made.scale.kind == "symlog":
        notes.append(
            f"the axis is logarithmic beyond {made.scale.constant:,.4g}, by public facts; bars are as wide as drawn"
        )
    if any(made.reaches):
        notes.append(
            "thin lines: 95% intervals of the original's noise; a bar of the original that it hides is left out"
        )
    heading = title_of(caption, notes, width=560, alarm=made.mark is not None)
    return alt.layer(*layers, width=520, height=220, title=heading), caption


def draw_heat(made: Heat, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of two panels with the same colors; cells that the noise hides are left white."""
    import altair as alt

    del confidence
    across, down = made.columns
    caption = mark_title(title or f"{across} and {down}", made.mark)
    labels = [[_label(v) for v in one] for one in made.labels]
    shares = [("synthetic rows", made.synthetic), ("original", made.original)]
    most = max((v for _, table in shares for row in table for v in row if v is not None), default=1.0)
    side = [max(150, min(280, 18 * len(one))) for one in labels]
    panels = []
    for i, (name, table) in enumerate(shares):
        rows = [
            {"across": labels[0][a], "down": labels[1][d], "share": value}
            for a, row in enumerate(table)
            for d, value in enumerate(row)
            if value
        ]
        x = alt.X(
            "across:N", sort=labels[0], title=across, scale=alt.Scale(domain=labels[0]), axis=_cell_axis(angle=-45)
        )
        y = alt.Y(
            "down:N",
            sort=labels[1][::-1],
            title=down if i == 0 else None,
            scale=alt.Scale(domain=labels[1][::-1]),
            axis=_cell_axis(labelled=i == 0),
        )
        color = alt.Color(
            "share:Q",
            title="share of rows",
            scale=alt.Scale(type="sqrt", domain=[0, most], range=["#ffffff", COLORS[0]], interpolate="rgb"),
            legend=alt.Legend(orient="right", format="~%"),
        )
        panel = (
            alt.Chart(data_of(rows))
            .mark_rect()
            .encode(x=x, y=y, color=color, tooltip=["across:N", "down:N", "share:Q"])
        )
        panels.append(panel.properties(width=side[0], height=side[1], title=name))
    heading = title_of(caption, ["cells by their lower ends"], width=120 + 2 * side[0], alarm=made.mark is not None)
    return alt.hconcat(*panels, title=heading), caption


# ---- inside


def _bars(made: Densities) -> list[dict[str, Any]]:
    """Return a bar for each part of the axis and series: the shares of the cells in it, by how much of each lies there."""
    places = [made.scale.place(_number(edge)) for edge in made.edges]
    # the last cell is closed: it reaches one step beyond its upper edge, and may be that step alone
    width = max(places[-1] - places[0], 1e-9) / _BARS
    places[-1] = max(places[-1], places[-2] + width / _BARS)
    steps = [places[0] + width * i for i in range(_BARS)] + [places[-1]]
    if len(places) - 1 <= _BARS and made.scale.kind == _LINEAR and _evenly_cut(places):
        steps = [*places[:-1], places[-1] + (places[1] - places[0] if places[-1] - places[-2] < width else 0.0)]
        places = steps
    rows: list[dict[str, Any]] = []
    for start, end in itertools.pairwise(steps):
        parts = [
            max(min(high, end) - max(low, start), 0.0) / max(high - low, 1e-12)
            for low, high in itertools.pairwise(places)
        ]
        bar: dict[str, Any] = {"start": made.scale.value(start), "end": made.scale.value(end), "zero": 0.0}
        bar["middle"] = made.scale.value((start + end) / 2)
        share = sum(p * s for p, s in zip(parts, made.synthetic, strict=True))
        rows.append({**bar, "series": "synthetic rows", "share": share})
        share = sum(p * s for p, s in zip(parts, made.original, strict=True))
        reach = math.sqrt(sum((p * r) ** 2 for p, r in zip(parts, made.reaches, strict=True) if p))
        if math.isfinite(reach) and share > reach:
            ends = {"low": max(share - reach, 0.0), "high": share + reach}
            rows.append({**bar, "series": "original", "share": share, **(ends if reach else {})})
    return sorted(rows, key=lambda row: row["start"])


def _evenly_cut(places: Sequence[float]) -> bool:
    widths = [b - a for a, b in itertools.pairwise(places[:-1])]
    return bool(widths) and max(widths) <= min(widths) * 1.001


def _number(edge: Any) -> float:
    """Return an edge as a number; of a date or a moment the milliseconds since 1970."""
    if not isinstance(edge, str):
        return float(edge)
    moment = datetime.datetime.fromisoformat(edge)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp() * 1000.0


def _ticks(scale: AxisScale, low: float, high: float) -> list[float]:
    """Return powers of ten on both sides of 0 that lie on the axis, no more than a dozen."""
    first = math.floor(math.log10(scale.constant)) + 1
    last = math.ceil(math.log10(max(abs(low), abs(high), scale.constant)))
    powers = [10.0**k for k in range(first, last + 1)]
    ticks = [t for t in (*(-p for p in reversed(powers)), 0.0, *powers) if low <= t <= high]
    return ticks if len(ticks) <= 12 else ticks[:: math.ceil(len(ticks) / 12)]


def _label(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.5g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _cell_axis(*, labelled: bool = True, angle: int = 0) -> Any:
    import altair as alt

    return alt.Axis(labels=labelled, ticks=False, labelOverlap=True, labelLimit=90, labelAngle=angle)
