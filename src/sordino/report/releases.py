"""The picture of a release: bars or points with their intervals, one panel an answered column.

It sees released values and public parameters only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sordino.estimate import Noisy
from sordino.report.titles import COLORS, data_of, marked, title_of

if TYPE_CHECKING:
    from sordino.release import Output, Release
    from sordino.report.titles import AnyChart

__all__ = ["draw"]

MOST_ROWS = 200  # as many rows as a release shows in a notebook
MOST_GROUPS = 8  # values of a second key that are told apart by color
_SEEDED = "its noise was seeded"


def draw(release: Release, confidence: float, title: str | None) -> tuple[AnyChart, str]:
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
    if (colored := _colored(release)) is not None:
        return keys[1 - colored], keys[colored]
    return _distinct([" / ".join(parts) for parts in zip(*keys, strict=True)]), None


def _colored(release: Release) -> int | None:
    """Return which of two keys has few enough values to be told apart by color, or None."""
    if len(release.keys) != 2:
        return None
    counts = [len(set(key.labels[:MOST_ROWS])) for key in release.keys]
    return next((i for i in (1, 0) if 1 < counts[i] <= min(MOST_GROUPS, counts[1 - i])), None)


def _distinct(labels: list[str]) -> list[str]:
    """Return labels of which no two are equal, as equal ones would share a bar."""
    seen: dict[str, int] = {}
    told = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        told.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return told


def _panel(
    output: Output,
    labels: list[str],
    groups: list[str] | None,
    confidence: float,
    *,
    release: Release,
    first: bool,
) -> Any:
    import altair as alt

    points = _points(output, labels, groups, confidence)
    bars = isinstance(getattr(output.estimate, "of", output.estimate), Noisy) and bool(release.keys)
    colored = _colored(release)
    names = [k.name for i, k in enumerate(release.keys) if i != colored]
    axis = (
        alt.Axis(title=", ".join(names), labelLimit=220) if first else alt.Axis(title=None, labels=False, ticks=False)
    )
    rows = alt.Y(field="label", type="nominal", sort=None, axis=axis if release.keys else None)
    place: dict[str, Any] = {"y": rows}
    if groups is not None and colored is not None:
        order = list(dict.fromkeys(groups))
        place["yOffset"] = alt.YOffset(field="group", type="nominal", sort=order)
        colors = alt.Scale(domain=order, range=list(COLORS[: len(order)]))
        color: Any = alt.Color(
            field="group", type="nominal", title=release.keys[colored].name, scale=colors, sort=order
        )
    else:
        color = alt.value(COLORS[0])
    tips = [alt.Tooltip(field=f) for f in ("label", *(["group"] if groups else []), "value", "lower", "upper")]
    base = alt.Chart(data_of(points)).encode(**place)
    x = alt.X(
        field="value", type="quantitative", title=output.name, scale=alt.Scale(zero=bars), axis=alt.Axis(tickCount=6)
    )
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
            "value": _float(values[i]),
            "lower": _float(pairs[i][0]),
            "upper": _float(pairs[i][1]),
            **({} if groups is None else {"group": groups[i]}),
        }
        for i, label in enumerate(labels)
    ]


def _float(number: float | None) -> float | None:
    return None if number is None else float(number)


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
