"""The pictures of releases that chose bounds or caps: what was chosen, and what it was chosen by.

They see released values and public parameters only.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sordino.ask.clipping.contribution_bounds import losses_by_bound
from sordino.core.estimates.weighted_sum import NoisyCurve
from sordino.reporting.picture import COLORS, SEEDED, add_title, data_of, join_panels

if TYPE_CHECKING:
    from sordino.core.release import Release
    from sordino.reporting.picture import AnyChart

_HEIGHT = 260
# Bounds that span more times than this are drawn on a logarithmic scale.
_WIDE_BOUNDS = 200.0
# Caps that span more times than this are drawn on a logarithmic scale.
_WIDE_CAPS = 32


def draw_bounds(release: Release, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a release that chose bounds, and its title: one panel a side."""
    # This refuses a confidence outside (0, 1).
    release.interval(confidence)
    bounds_text = f"{release.lower:,} to {release.upper:,}" if release.found else "none found"
    sides = list(dict.fromkeys(release.keys[0].labels))
    panels = [_side(release, str(side), confidence) for side in sides] or [_ends(release)]
    if sides:
        note = f"clipped sums, with {100 * confidence:g}% intervals"
    else:
        note = "the two bounds; this method releases no sum" if release.found else "no bounds were found"
    if " by ladder of " in release.question:
        panels.append(_tradeoff(release))
        note = f"left: {note}; right: expected error, by clipping and by noise"
    notes = [f"{note}; cost: {release.cost.describe()}"]
    title = title or f"{release.question}: {bounds_text}"
    mark = None if release.private else SEEDED
    return add_title(join_panels(panels), title, notes, width=60 + 460 * len(panels), mark=mark)


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
    x = _bound_axis(side, rows)
    base = alt.Chart(data_of(rows))
    band = base.mark_area(opacity=0.25, color=COLORS[0]).encode(x=x, y=alt.Y("low:Q", title="clipped sum"), y2="high:Q")
    line = base.mark_line(point=alt.OverlayMarkDef(size=18), color=COLORS[0]).encode(x=x, y="sum:Q")
    bound = release.upper if side == "upper" else release.lower
    rule = alt.Chart(data_of([{"bound": bound, "label": f"chosen: {bound:,}"}]))
    mark = rule.mark_rule(color=COLORS[1], strokeDash=[5, 3], strokeWidth=1.5).encode(x=x)
    # The word stands above the plot, where nothing is drawn.
    word = rule.mark_text(color=COLORS[1], baseline="bottom", y=-4).encode(x=x, text="label:N")
    return (band + line + mark + word).properties(width=420, height=_HEIGHT)


def _decades(rows: list[dict[str, Any]]) -> list[float]:
    """Return the ticks of an axis that is logarithmic but for 0: powers of ten within what is drawn, and 0."""
    bounds = [float(r["bound"] or 0) for r in rows]
    powers = [10.0**k for k in range(-12, 19)]
    ticks = [0.0, *powers, *(-p for p in powers)]
    least = min((abs(b) for b in bounds if b), default=1.0)
    return sorted(t for t in ticks if min(bounds) <= t <= max(bounds) and (t == 0 or abs(t) >= least))


def _bound_axis(side: str, rows: list[dict[str, Any]]) -> Any:
    """Return the axis of bounds, in decades where they span much."""
    import altair as alt

    bounds = [abs(float(r["bound"] or 0)) for r in rows]
    least = min((b for b in bounds if b), default=1.0)
    wide = max(bounds) > _WIDE_BOUNDS * least
    scale = alt.Scale(type="symlog", constant=least) if wide else alt.Scale(zero=False)
    axis = alt.Axis(values=_decades(rows), format=",.6~r", labelOverlap="greedy") if wide else alt.Axis(format=",.6~r")
    return alt.X("bound:Q", title=f"{side} bound{' (log scale, 0 added)' if wide else ''}", scale=scale, axis=axis)


def _tradeoff(release: Release) -> Any:
    """Return the panel of a ladder's loss by clipping, noise and both against the bound, with the bound chosen."""
    import altair as alt

    curve = release.outputs[0].estimate
    assert isinstance(curve, NoisyCurve)
    bounds = [float(str(b)) for b in release.keys[1].labels]
    words = ("lost by clipping", "noise", "both")
    each = losses_by_bound(bounds, curve.points, curve.deviations)
    rows = [
        {"bound": bound, "what": word, "value": value}
        for bound, (lost, noise) in zip(bounds, each, strict=True)
        for word, value in zip(words, (lost, noise, math.hypot(lost, noise)), strict=True)
    ]
    x = _bound_axis("upper", rows)
    hues = alt.Scale(domain=list(words), range=[COLORS[2], COLORS[3], COLORS[6]])
    color = alt.Color("what:N", title=None, scale=hues, legend=alt.Legend(orient="bottom"))
    least = min((d for d in curve.deviations if d > 0), default=1.0)
    tall = max(least, *(math.hypot(*pair) for pair in each))
    scale = alt.Scale(type="symlog", constant=least)
    ticks = [
        0.0,
        *(10.0**i for i in range(math.ceil(math.log10(least)), 1 + math.ceil(math.log10(tall)))),
    ]
    axis = alt.Axis(values=ticks, format=",.6~r", labelOverlap="greedy")
    y = alt.Y("value:Q", title="expected error of the sum (log scale, 0 added)", scale=scale, axis=axis)
    lines = alt.Chart(data_of(rows)).mark_line().encode(x=x, y=y, color=color)
    rule = alt.Chart(data_of([{"bound": release.upper, "label": f"chosen: {release.upper:,}"}]))
    mark = rule.mark_rule(color=COLORS[1], strokeDash=[5, 3], strokeWidth=1.5).encode(x=x)
    word = rule.mark_text(color=COLORS[1], baseline="bottom", y=-4).encode(x=x, text="label:N")
    return (lines + mark + word).properties(width=420, height=_HEIGHT)


def _ends(release: Release) -> Any:
    """Return the panel of a search that released no sums: the interval chosen."""
    import altair as alt

    ends = (("lower", release.lower), ("upper", release.upper)) if release.found else ()
    rows = [{"side": side, "bound": bound} for side, bound in ends]
    points = alt.Chart(data_of(rows)).mark_point(filled=True, size=70, color=COLORS[1])
    return points.encode(x=alt.X("bound:Q", title="bound"), y=alt.Y("side:N", title=None)).properties(
        width=420, height=90
    )


# noise hides the units with the most rows, so a curve that falls to 0 says nothing about theirs
_LOST = {
    "max_rows": "rows lost by visible units",
    "max_groups": "pairs of unit and key lost by visible units",
    "max_rows_per_group": "rows lost by visible units",
}


def draw_caps(release: Release, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a release that chose caps, and its title: one panel a cap."""
    # This refuses a confidence outside (0, 1).
    release.interval(confidence)
    caps_text = ", ".join(f"{name} = {value:,}" for name, value in release.value.items())
    band = f"band: {100 * confidence:g}% interval of what is lost, of the units that are visible"
    notes = [f"{band}; cost: {release.cost.describe()}"]
    panels = [_caps_panel(release, name, confidence) for name in release.value]
    title = title or f"{release.question}: {caps_text}"
    mark = None if release.private else SEEDED
    return add_title(join_panels(panels), title, notes, width=60 + 460 * len(panels), mark=mark)


def _caps_panel(release: Release, name: str, confidence: float) -> Any:
    """Return the panel of one cap: three lines, the band of what is lost, and the cap chosen."""
    import altair as alt

    lost = release.outputs[0].estimate.intervals(confidence)
    # Panels share a legend, in which one color has one name.
    one = len(release.value) == 1
    words = {"lost": _LOST.get(name, "lost") if one else "rows, or pairs, lost by visible units", "noise": "noise"}
    words["error"] = "both"
    # Releases of earlier versions lack this column.
    if "hidden" in release.columns:
        words["hidden"] = "lost by hidden units"
    lines: list[dict[str, Any]] = []
    band: list[dict[str, Any]] = []
    for i, row in enumerate(release.rows):
        if row["cap"] == name:
            lines += [{"cap": row["at"], "what": meaning, "value": row[key]} for key, meaning in words.items()]
            band.append({"cap": row["at"], "low": max(0.0, lost[i][0] or 0.0), "high": max(0.0, lost[i][1] or 0.0)})
    last = max(float(r["cap"] or 0) for r in band)
    scale = alt.Scale(type="log") if last > _WIDE_CAPS else alt.Scale(zero=False)
    x = alt.X(
        "cap:Q",
        title=name,
        scale=scale,
        axis=alt.Axis(format=",d", tickMinStep=1, labelOverlap="greedy", labelSeparation=8),
    )
    tall = max([1.0, *(float(line["value"] or 0) for line in lines), *(float(b["high"]) for b in band)])
    ticks = [0.0, *(10.0**power for power in range(math.ceil(math.log10(tall)) + 1))]
    axis = alt.Axis(values=ticks, format=",", labelOverlap="greedy")
    y = alt.Y("value:Q", title="expected error (log scale, 0 added)", scale=alt.Scale(type="symlog"), axis=axis)
    hues = alt.Scale(domain=list(words.values()), range=list(COLORS[: len(words)]))
    color = alt.Color("what:N", title=None, scale=hues, legend=alt.Legend(orient="bottom"))
    lines_chart = alt.Chart(data_of(lines)).mark_line(point=alt.OverlayMarkDef(size=18)).encode(x=x, y=y, color=color)
    doubt = alt.Chart(data_of(band)).mark_area(opacity=0.2, color=COLORS[0]).encode(x=x, y=alt.Y("low:Q"), y2="high:Q")
    at = release.value[name]
    rule = alt.Chart(data_of([{"cap": at, "label": f"chosen: {at:,}"}]))
    mark = rule.mark_rule(strokeDash=[5, 3], strokeWidth=1.5).encode(x=x)
    # The word stands above the plot, where nothing is drawn.
    word = rule.mark_text(baseline="bottom", y=-4).encode(x=x, text="label:N")
    return (doubt + lines_chart + mark + word).properties(width=420, height=260)
