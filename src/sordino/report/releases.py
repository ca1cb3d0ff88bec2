"""The picture of a release: bars or points with their intervals, one panel an answered column.

It sees released values and public parameters only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sordino.estimate import Noisy
from sordino.report.titles import COLORS, marked, title_of

if TYPE_CHECKING:
    import altair as alt

    from sordino.release import Output, Release

__all__ = ["draw"]

MOST_ROWS = 200  # as many rows as a release shows in a notebook
MOST_GROUPS = 8  # values of a second key that are told apart by color
_SEEDED = "its noise was seeded"


def draw(release: Release, confidence: float, title: str | None) -> tuple[alt.LayerChart | alt.HConcatChart, str]:
    """Return the chart of a release, and its title."""
    import altair as alt

    release.interval(confidence)  # refuses a confidence that is none
    labels, groups = _labels(release)
    said = marked(title or release.question, None if release.private else _SEEDED)
    panels = [
        _panel(output, labels, groups, confidence, release=release, first=i == 0)
        for i, output in enumerate(release.outputs)
    ]
    notes = _notes(release, confidence)
    heading = title_of(said, notes, width=120 + 340 * len(panels), alarm=not release.private)
    if len(panels) == 1:
        return panels[0].properties(title=heading), said
    return alt.hconcat(*panels).properties(title=heading), said


def _labels(release: Release) -> tuple[list[str], list[str] | None]:
    """Return a label for each row drawn, and the value of the second key where color tells it."""
    keys = [["(missing)" if v is None else str(v) for v in key.labels[:MOST_ROWS]] for key in release.keys]
    if not keys:
        return [""], None
    if len(keys) == 2 and 1 < len(set(keys[1])) <= MOST_GROUPS:
        return keys[0], keys[1]
    return [" / ".join(parts) for parts in zip(*keys, strict=True)], None


def _panel(
    output: Output,
    labels: list[str],
    groups: list[str] | None,
    confidence: float,
    *,
    release: Release,
    first: bool,
) -> alt.LayerChart:
    import altair as alt

    points = _points(output, labels, groups, confidence)
    bars = isinstance(output.estimate, Noisy) and bool(release.keys)
    names = ", ".join(k.name for k in release.keys)
    second = release.keys[1].name if groups is not None else ""
    axis = alt.Axis(title=names if groups is None else release.keys[0].name, labelLimit=220) if release.keys else None
    scale = alt.Scale(zero=bars, nice=True)
    place: dict[str, Any] = {
        "y": alt.Y(field="label", type="nominal", sort=None, axis=axis if first else alt.Axis(title=None, labels=False))
    }
    if not release.keys:
        place["y"] = alt.Y(field="label", type="nominal", axis=None)
    if groups is not None:
        order = list(dict.fromkeys(groups))
        place["yOffset"] = alt.YOffset(field="group", type="nominal", sort=order)
        colors = alt.Scale(domain=order, range=list(COLORS[: len(order)]))
        color: Any = alt.Color(field="group", type="nominal", title=second, scale=colors, sort=order)
    else:
        color = alt.value(COLORS[0])
    tips = [alt.Tooltip(field=f) for f in ("label", *(["group"] if groups else []), "value", "lower", "upper")]
    base = alt.Chart(alt.Data(values=points)).encode(**place)  # type: ignore[arg-type]
    x = alt.X(field="value", type="quantitative", title=output.name, scale=scale)
    mark = base.mark_bar(opacity=0.65) if bars else base.mark_point(filled=True, size=60, opacity=1)
    held = "isValid(datum.lower) && isValid(datum.upper)"
    ends = base.transform_filter(held).encode(x=alt.X(field="lower", type="quantitative"), x2=alt.X2(field="upper"))
    whisker = ends.mark_rule(strokeWidth=1.4, color="#222222") if bars else ends.mark_rule(strokeWidth=1.4)
    caps = [
        base.transform_filter(held)
        .mark_tick(thickness=1.4, size=8, color="#222222", opacity=1)
        .encode(x=alt.X(field=side, type="quantitative"))
        for side in ("lower", "upper")
    ]
    drawn = [mark.encode(x=x, color=color, tooltip=tips)]
    whiskers = [whisker if bars else whisker.encode(color=color), *caps]
    height: Any = alt.Step(22 if groups is None else 12) if release.keys else 70
    return alt.layer(*drawn, *whiskers).properties(width=340, height=height)


def _points(output: Output, labels: list[str], groups: list[str] | None, confidence: float) -> list[dict[str, Any]]:
    """Return a dict for each row that has a value; the ends of an interval that is not stated are None."""
    values, pairs = output.estimate.values(), output.estimate.intervals(confidence)
    return [
        {
            "label": label,
            "value": None if values[i] is None else float(values[i]),
            "lower": None if pairs[i][0] is None else float(pairs[i][0]),
            "upper": None if pairs[i][1] is None else float(pairs[i][1]),
            **({} if groups is None else {"group": groups[i]}),
        }
        for i, label in enumerate(labels)
    ]


def _notes(release: Release, confidence: float) -> list[str]:
    unstated = [o.name for o in release.outputs if any(e is None for e in o.estimate.errors(confidence))]
    absent = [o.name for o in release.outputs if any(v is None for v in o.estimate.values())]
    notes = [f"lines: {100 * confidence:g}% intervals, each by itself"] if len(unstated) < len(release.outputs) else []
    notes += [f"{name}: no interval is stated, as the width of its noise is private" for name in unstated]
    notes += [f"{name}: no value where a test failed" for name in absent]
    height = len(release.keys[0].labels) if release.keys else 1
    if height > MOST_ROWS:
        notes.append(f"the first {MOST_ROWS} of {height:,} rows")
    seal = f"cost {release.cost.describe()}; privacy unit: {release.privacy_unit}, "
    return [*notes, f"{seal}{release.neighbors.replace('_', '/')}; charge {release.charge}"]
