"""The picture of a release: bars or points with their intervals, one panel an answered column.

It sees released values and public parameters only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sordino.estimates.noisy import Noisy
from sordino.release import show_number
from sordino.report.titles import COLORS, data_of, mark_title, title_of

if TYPE_CHECKING:
    from sordino.release import Output, Release
    from sordino.report.titles import AnyChart

__all__ = ["draw"]

MOST_ROWS = 200  # as many rows as a release shows in a notebook
MOST_GROUPS = 8  # values of a second key that are told apart by color
_SEEDED = "its noise was seeded"
_LONG = 30  # rows from which the axis stands at both ends
_TALL = 1_300  # pixels that rows share, before they get closer


def draw(release: Release, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a release, and its title."""
    import altair as alt

    release.interval(confidence)  # refuses a confidence that is none
    labels, groups = _labels(release)
    said = mark_title(title or release.question, None if release.private else _SEEDED)
    panels = [
        _panel(output, labels, groups, confidence, release=release, first=i == 0)
        for i, output in enumerate(release.outputs)
    ]
    panels = panels or [_nothing()]
    notes = _notes(release, confidence)
    heading = title_of(said, notes, width=120 + 340 * len(panels), alarm=not release.private)
    if len(panels) == 1:
        return panels[0].properties(title=heading), said
    return alt.hconcat(*panels).properties(title=heading), said


def _nothing() -> Any:
    """Return a panel that says why there is no value: a fit's answer is its model."""
    import altair as alt

    said = alt.Chart(data_of([{"told": "no values here: the answer is a model, which sd.plot(model) draws"}]))
    return (
        said.mark_text(align="left", fontSize=12, color="#555555")
        .encode(x=alt.value(0), text="told:N")
        .properties(width=420, height=30)
    )


def _labels(release: Release) -> tuple[list[str], list[str] | None]:
    """Return a label for each row drawn, and the value of the second key where color tells it."""
    keys = [["(missing)" if v is None else str(v) for v in key.labels[:MOST_ROWS]] for key in release.keys]
    if not keys:
        return [""], None
    if (colored := _color_key(release)) is not None:
        return keys[1 - colored], keys[colored]
    return _distinct([" / ".join(parts) for parts in zip(*keys, strict=True)]), None


def _color_key(release: Release) -> int | None:
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
    colored = _color_key(release)
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
    tips = [alt.Tooltip(field=f) for f in ("label", *(["group"] if groups else []), "told", "lower", "upper")]
    base = alt.Chart(data_of(points)).encode(**place)
    height: Any = alt.Step(_step(labels, groups)) if release.keys else 70
    if any(isinstance(v, str) for v in output.estimate.values()):
        words = base.mark_text(align="left", fontSize=13).encode(
            x=alt.value(8), text="told:N", color=color, tooltip=tips
        )
        return words.properties(width=340, height=height, title=alt.TitleParams(output.name, fontSize=11, dy=6))
    layers = _draw_layers(base, output.name, bars=bars, color=color, tips=tips)
    if not release.keys:  # a single number is told as one
        layers.append(
            base.mark_text(dy=-16, fontSize=13).encode(x=alt.X(field="value", type="quantitative"), text="told:N")
        )
    chart = alt.layer(*layers).properties(width=340, height=height)
    if len(labels) > _LONG:  # the numbers stand above too, as the lower end is far
        upper = alt.X(field="value", type="quantitative", axis=alt.Axis(orient="top", title=output.name, tickCount=5))
        chart = alt.layer(chart, base.mark_point(opacity=0).encode(x=upper)).resolve_axis(x="independent")
    return chart


def _draw_layers(base: Any, name: str, *, bars: bool, color: Any, tips: list[Any]) -> list[Any]:
    """Return the layers of numbers: bars or points, and their intervals."""
    import altair as alt

    axis = alt.Axis(tickCount=5, labelOverlap="greedy", labelSeparation=12)
    x = alt.X(field="value", type="quantitative", title=name, scale=alt.Scale(zero=bars), axis=axis)
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
    return [mark.encode(x=x, color=color, tooltip=tips), whisker if bars else whisker.encode(color=color), *caps]


def _step(labels: list[str], groups: list[str] | None) -> float:
    """Return the height of a row: less where there are many, so that a picture stays a few screens at most."""
    rows = len(set(labels)) * (1 if groups is None else len(set(groups)))
    return max(11.0, min(22.0 if groups is None else 12.0, _TALL / max(rows, 1)))


def _points(output: Output, labels: list[str], groups: list[str] | None, confidence: float) -> list[dict[str, Any]]:
    """Return a dict for each row that has a value; the ends of an interval that is not stated are None."""
    values, pairs = output.estimate.values(), output.estimate.intervals(confidence)
    return [
        {
            "label": label,
            "told": _format_value(values[i]),
            "value": _number(values[i]),
            "lower": _number(pairs[i][0]),
            "upper": _number(pairs[i][1]),
            **({} if groups is None else {"group": groups[i]}),
        }
        for i, label in enumerate(labels)
    ]


def _number(value: Any) -> float | None:
    """Return what an axis can place: a chosen text, or no value, has no place on it."""
    return None if value is None or isinstance(value, str) else float(value)


def _format_value(value: Any) -> str:
    return str(value) if isinstance(value, (str, bool)) else show_number(value)


def _notes(release: Release, confidence: float) -> list[str]:
    stated = any(not _lacks_interval(o) and None not in o.estimate.errors(confidence) for o in release.outputs)
    unstated = [o.name for o in release.outputs if any(e is None for e in o.estimate.errors(confidence))]
    absent = [o.name for o in release.outputs if any(v is None for v in o.estimate.values())]
    notes = [f"lines: {100 * confidence:g}% intervals, each by itself"] if stated and _height(release) else []
    notes += [f"{name}: no interval is stated, as the width of its noise is private" for name in unstated]
    notes += [f"{name}: no value where a test failed" for name in absent]
    notes += [
        _without_interval(o, confidence) for o in release.outputs if o.name not in unstated and _lacks_interval(o)
    ]
    height = _height(release)
    if height > MOST_ROWS:
        notes.append(f"the first {MOST_ROWS} of {height:,} rows")
    if release.model is not None:
        return [*notes, release.model.remark(), release.model.describe(release.table_name)]
    seal = f"cost {release.cost.describe()}; privacy unit: {release.privacy_unit}, "
    return [*notes, f"{seal}{release.neighbors.replace('_', '/')}; charge {release.charge}"]


def _height(release: Release) -> int:
    return len(release.keys[0].labels) if release.keys else 1


def _lacks_interval(output: Output) -> bool:
    """Tell whether an output states its error in ranks or rows, so that no interval of its values follows."""
    return bool(getattr(output.estimate, "error_unit", ""))


def _without_interval(output: Output, confidence: float) -> str:
    """Return why no line is drawn, and what is known instead."""
    errors = [e for e in output.estimate.errors(confidence) if e is not None]
    unit = getattr(output.estimate, "error_unit", "")
    within = f": within {show_number(max(errors))} {unit} at {100 * confidence:g}%" if errors else ""
    return f"{output.name}: no interval of values can be stated{within}"
