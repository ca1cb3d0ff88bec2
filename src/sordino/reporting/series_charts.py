"""The picture of a series: its released numbers and running totals over time, each with its band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sordino.core.errors import DeclarationError
from sordino.reporting.picture import COLORS, SEEDED, add_title, data_of, join_panels

if TYPE_CHECKING:
    from sordino.reporting.picture import AnyChart
    from sordino.series.series import Series

_WIDTH = 420
_HEIGHT = 240
# Groups that are told apart by color; a picture shows no more.
_MOST = len(COLORS)


def draw(series: Series, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a series and its title: a panel for the measure, and one for its running total.

    Raises DeclarationError where nothing was released so far.
    """
    releases = series.releases()
    if not releases:
        raise DeclarationError(f"nothing of the series {series.name!r} was released so far: there is nothing to draw")
    last = releases[-1]
    groups = list(dict.fromkeys(_labels(last)))
    notes = [f"band: {100 * confidence:g}% interval of each number"]
    if len(groups) > _MOST:
        notes.append(f"the first {_MOST} of {len(groups):,} groups")
    panels = [_panel(series, releases, place, groups[:_MOST], confidence) for place in range(len(last.outputs))]
    mark = None if last.private else SEEDED
    title = title or f"{series.name}: {series.opening.question}"
    return add_title(
        join_panels(panels), title, [*notes, last.summary()], width=80 + len(panels) * (_WIDTH + 60), mark=mark
    )


def _panel(series: Series, releases: list[Any], place: int, groups: list[str], confidence: float) -> Any:
    """Return the panel of one column: a line and a band for each group."""
    import altair as alt

    rows = []
    for period, release in zip(series.starts, releases, strict=True):
        estimate = release.outputs[place].estimate
        ends = estimate.intervals(confidence)
        for label, value, (low, high) in zip(_labels(release), estimate.values(), ends, strict=True):
            if label in groups:
                rows.append({"period": period.isoformat(), "group": label, "value": value, "low": low, "high": high})
    x = alt.X("period:T", title=None)
    color: Any = alt.value(COLORS[0])
    if len(groups) > 1:
        color = alt.Color(
            "group:N", title=None, sort=groups, scale=alt.Scale(domain=groups, range=COLORS[: len(groups)])
        )
    base = alt.Chart(data_of(rows))
    name = releases[-1].outputs[place].name
    band = base.mark_area(opacity=0.2).encode(x=x, y=alt.Y("low:Q", title=name), y2="high:Q", color=color)
    line = base.mark_line(point=alt.OverlayMarkDef(size=18)).encode(x=x, y="value:Q", color=color)
    return (band + line).properties(width=_WIDTH, height=_HEIGHT)


def _labels(release: Any) -> list[str]:
    """Return a text for each row of a release: its keys, joined."""
    if not release.keys:
        return ["in all"]
    return [", ".join("(missing)" if label is None else str(label) for label in row) for row in _rows(release)]


def _rows(release: Any) -> list[tuple[Any, ...]]:
    return list(zip(*(key.labels for key in release.keys), strict=True))
