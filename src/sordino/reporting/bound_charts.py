"""The picture of a search for clipping bounds: the clipped sum against the bound, its error band, the bound chosen.

It sees released values and public parameters only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sordino.reporting.titles import COLORS, SEEDED, add_title, data_of, join_panels

if TYPE_CHECKING:
    from sordino.release import Release
    from sordino.reporting.titles import AnyChart

__all__ = ["draw"]

_HEIGHT = 260
_WIDE = 200.0  # times: bounds that span more are drawn on a logarithmic scale


def draw(release: Release, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a release that chose bounds, and its title: one panel a side."""
    release.interval(confidence)  # refuses a confidence outside (0, 1)
    chosen = f"{release.lower:,} to {release.upper:,}" if release.found else "none found"
    sides = list(dict.fromkeys(release.keys[0].labels))
    notes = [*release.notes, *_read(release, sides, confidence), release.summary()]
    panels = [_side(release, str(side), confidence) for side in sides] or [_ends(release)]
    title, mark = title or f"{release.question}: {chosen}", None if release.private else SEEDED
    return add_title(join_panels(panels), title, notes, width=120 + 340 * len(panels), mark=mark)


def _read(release: Release, sides: Sequence[object], confidence: float) -> list[str]:
    """Return how the picture is read: what the band is, or that no sum was released, and why a bound has no panel."""
    if not sides:
        points = "points: the two bounds; this method releases no sum, so no curve can be drawn"
        return [points] if release.found else []
    words = [f"band: {100 * confidence:g}% interval of each sum"]
    for side, bound in (("lower", release.lower), ("upper", release.upper)):
        if side not in sides:
            words.append(f"{side} bound: {bound:,}; it was not searched for, so it has no curve")
    return words


def _side(release: Release, side: str, confidence: float) -> Any:
    """Return the panel of one side: line, band and the bound chosen."""
    import altair as alt

    output = release.outputs[0]
    ends = output.estimate.intervals(confidence)
    rows = [
        {"bound": b, "sum": v, "low": low, "high": high}
        for s, b, v, (low, high) in zip(
            release.keys[0].labels, release.keys[1].labels, output.estimate.values(), ends, strict=True
        )
        if s == side
    ]
    bounds = [abs(float(r["bound"] or 0)) for r in rows]
    least = min((b for b in bounds if b), default=1.0)
    wide = max(bounds) > _WIDE * least
    scale = alt.Scale(type="symlog", constant=least) if wide else alt.Scale(zero=False)
    axis = alt.Axis(format=",~g", labelOverlap="greedy", labelSeparation=8)
    x = alt.X("bound:Q", title=f"{side} bound{' (log scale, 0 added)' if wide else ''}", scale=scale, axis=axis)
    base = alt.Chart(data_of(rows))
    band = base.mark_area(opacity=0.25, color=COLORS[0]).encode(x=x, y=alt.Y("low:Q", title="clipped sum"), y2="high:Q")
    line = base.mark_line(point=alt.OverlayMarkDef(size=18), color=COLORS[0]).encode(x=x, y="sum:Q")
    chosen = release.upper if side == "upper" else release.lower
    rule = alt.Chart(data_of([{"bound": chosen, "label": f"chosen: {chosen:,}"}]))
    mark = rule.mark_rule(color=COLORS[1], strokeDash=[5, 3], strokeWidth=1.5).encode(x=x)
    word = rule.mark_text(color=COLORS[1], baseline="bottom", y=-4).encode(x=x, text="label:N")  # above the plot
    return (band + line + mark + word).properties(width=420, height=_HEIGHT)


def _ends(release: Release) -> Any:
    """Return the panel of a search that released no sums: the interval chosen."""
    import altair as alt

    ends = (("lower", release.lower), ("upper", release.upper)) if release.found else ()
    rows = [{"side": side, "bound": bound} for side, bound in ends]
    points = alt.Chart(data_of(rows)).mark_point(filled=True, size=70, color=COLORS[1])
    return points.encode(x=alt.X("bound:Q", title="bound"), y=alt.Y("side:N", title=None)).properties(
        width=420, height=90
    )
