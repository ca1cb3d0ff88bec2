"""The picture of a release: bars or points with their intervals, one panel an answered column.

Several quantiles of one column share a panel: on one axis they show the column's spread.

It sees released values and public parameters only.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.core.estimates.choices import Ranks
from sordino.core.estimates.estimate import explain_no_ends
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.replicates import Computed
from sordino.core.estimates.selected import Selected
from sordino.core.estimates.table_cells import TableCells, name_table
from sordino.core.estimates.weighted_sum import WeightedSum
from sordino.core.release import show_number, show_rows
from sordino.reporting.picture import COLORS, SEEDED, add_title, data_of, join_panels

if TYPE_CHECKING:
    from sordino.core.release import Key, Output, Release
    from sordino.reporting.picture import AnyChart

# As many rows as a release shows in a notebook.
MOST_ROWS = 200
# Values of a second key that are distinct by color.
MOST_GROUPS = 8
# Bars of an ordered key that stand upright beside each other; more lie, so that each has its label.
_MOST_UPRIGHT = 40
# A bin of numbers or days, as its label is written.
_BIN = re.compile(r"[\[(].*, .*[\])]")
# Tables of a tabulation that one picture shows.
_MULTIPLES = 12
# Rows from which the axis stands at both ends.
_LONG = 30
# Pixels that rows share, before they get closer.
_TALL = 1_300


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows that are drawn: a label each, the title of their axis, and the second key where color shows it.

    `ordered` are rows of one key whose labels have an order: bins, numbers, days.
    """

    labels: list[str]
    axis: str | None
    groups: list[str] | None = None
    legend: str = ""
    ordered: bool = False


def draw(release: Release, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a release, and its title."""
    # This refuses a confidence outside (0, 1).
    release.interval(confidence)
    rows = _rows(release)
    panels = [
        _quantile_panel(outputs, rows, confidence, first=i == 0)
        if len(outputs) > 1
        else _panel(outputs[0], rows, confidence, first=i == 0)
        for i, outputs in enumerate(_share_panels(release.outputs))
    ]
    panels = panels or [_nothing()]
    notes = _notes(release, confidence)
    mark = None if release.private else SEEDED
    width = (120 if release.keys else 0) + 340 * len(panels)
    return add_title(join_panels(panels), title or release.question, notes, width=width, mark=mark)


def draw_tables(release: Release, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the charts of a tabulation's tables beside and below each other, each as that of a release of its own."""
    import altair as alt

    # This refuses a confidence outside (0, 1).
    release.interval(confidence)
    tables = list(release.tables)
    charts = []
    for table in tables[:_MULTIPLES]:
        answer = release.tables.answer(table)
        rows = _rows(answer)
        panels = [_panel(output, rows, confidence, first=i == 0) for i, output in enumerate(answer.outputs)]
        words = "by " + " and ".join(table) if table else "in all"
        charts.append(join_panels(panels).properties(title=alt.TitleParams(words, anchor="start", fontSize=12)))
    across = 2 if len(release.outputs) == 1 and len(charts) > 1 else 1
    notes = [f"lines: {100 * confidence:g}% intervals, each by itself"]
    if len(tables) > _MULTIPLES:
        notes.append(f"the first {_MULTIPLES} of {len(tables):,} tables: tables.plot(...) draws each")
    large = [name_table(table) for table in tables[:_MULTIPLES] if _height(release.tables.answer(table)) > MOST_ROWS]
    notes += [f"the first {MOST_ROWS} rows by {name}" for name in large]
    seal = f"cost {release.cost.describe()}; privacy unit: {release.privacy_unit}, "
    notes.append(f"{seal}{release.neighbors.replace('_', '/')}; charge {release.charge}")
    joined = alt.concat(*charts, columns=across).resolve_scale(color="independent")
    mark = None if release.private else SEEDED
    width = 460 * across if len(release.outputs) == 1 else 120 + 340 * len(release.outputs)
    return add_title(joined, title or release.question, notes, width=width, mark=mark)


def _nothing() -> Any:
    """Return a panel that says why there is no value: a fit's answer is its model."""
    import altair as alt

    words = alt.Chart(data_of([{"text": "no values here: the answer is a model, which sd.plot(model) draws"}]))
    return (
        words.mark_text(align="left", fontSize=12, color="#555555")
        .encode(x=alt.value(0), text="text:N")
        .properties(width=420, height=30)
    )


def _rows(release: Release) -> _Rows:
    keys = [["(missing)" if v is None else str(v) for v in key.labels[:MOST_ROWS]] for key in release.keys]
    names = [key.name for key in release.keys]
    if not keys:
        return _Rows([""], None)
    counts = [len(set(labels)) for labels in keys]
    for group, label in ((1, 0), (0, 1)) if len(keys) == 2 else ():
        # Few enough values are distinct by color.
        if 1 < counts[group] <= min(MOST_GROUPS, counts[label]):
            return _Rows(keys[label], names[label], keys[group], names[group])
    labels = _distinct([" / ".join(parts) for parts in zip(*keys, strict=True)])
    return _Rows(labels, ", ".join(names), ordered=len(keys) == 1 and _has_order(release.keys[0]))


def _has_order(key: Key) -> bool:
    """Return whether the labels of a key are bins, numbers, days or moments: the answer has them in their order."""
    known = [label for label in key.labels if label is not None]
    numbers = all(isinstance(v, (int, float, datetime.date)) and not isinstance(v, bool) for v in known)
    return len(known) > 2 and (numbers or all(isinstance(v, str) and _BIN.fullmatch(v) for v in known))


def _distinct(labels: list[str]) -> list[str]:
    """Return labels of which no two are equal, as equal ones would share a bar."""
    counts: dict[str, int] = {}
    distinct = []
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
        distinct.append(label if counts[label] == 1 else f"{label} ({counts[label]})")
    return distinct


def _share_panels(outputs: Sequence[Output]) -> list[list[Output]]:
    """Return the outputs of each panel: several quantiles of one column, whose names end in their levels, have one."""
    panels: list[list[Output]] = []
    for output in outputs:
        stem = _stem(output)
        if stem is not None and panels and _stem(panels[-1][-1]) == stem and len(panels[-1]) < len(COLORS):
            panels[-1].append(output)
        else:
            panels.append([output])
    return panels


def _stem(output: Output) -> str | None:
    """Return the name that the quantiles of one column share; None for what is no quantile among several."""
    estimate = output.estimate.of if isinstance(output.estimate, Selected) else output.estimate
    stem, level = _split_level(output.name)
    return stem if level and isinstance(estimate, Ranks) else None


def _split_level(name: str) -> tuple[str, str]:
    """Return the name that quantiles share and the level of this one; no level where the name has none.

    >>> _split_level("age_0.25"), _split_level("quantile_0.25_age"), _split_level("age_at_work")
    (('age', '0.25'), ('quantile_age', '0.25'), ('age_at_work', ''))
    """
    stem, _, last = name.rpartition("_")
    head, _, rest = name.partition("_")
    middle, _, column = rest.partition("_")
    # As several levels of one question are named, and several questions of one level.
    for shared, level in ((stem, last), (f"{head}_{column}", middle)):
        try:
            if 0 < Fraction(level) < 1:
                return shared, level
        except (ValueError, ZeroDivisionError):
            pass
    return name, ""


def _quantile_panel(outputs: Sequence[Output], rows: _Rows, confidence: float, *, first: bool) -> Any:
    """Return the panel of several quantiles: a row each, or a color each where the answer has keys.

    Where color shows the second key already, quantiles differ by their place alone, and by what hovering shows.
    """
    import altair as alt

    is_keyed = rows.axis is not None
    levels = [_split_level(output.name)[1] for output in outputs]
    points = [
        {**point, "level": level}
        for output, level in zip(outputs, levels, strict=True)
        for point in _points(output, rows, confidence)
    ]
    if not is_keyed:
        rows = _Rows(levels, "quantile")
        points = [{**point, "label": point["level"]} for point in points]
        color = _color(rows)
    elif rows.groups is None:
        scale = alt.Scale(domain=levels, range=list(COLORS[: len(levels)]))
        color = alt.Color(field="level", type="nominal", title="quantile", scale=scale, sort=levels)
    else:
        color = _color(rows)
    timed = any(isinstance(v, datetime.date) for output in outputs for v in output.estimate.values())
    kind: Any = "temporal" if timed else "quantitative"
    scale_of_values = alt.Scale(type="utc") if timed else alt.Scale(zero=False, padding=24)
    axis = alt.Axis(tickCount=5, labelOverlap="greedy", labelSeparation=12)
    x = alt.X(field="value", type=kind, title=_stem(outputs[0]), scale=scale_of_values, axis=axis)
    tips = [alt.Tooltip(field=f) for f in ("label", *(["group"] if rows.groups else []), "level", "text")]
    base = alt.Chart(data_of(points)).encode(x=x, **_places(rows, first=first))
    marks = base.mark_point(filled=True, size=60, opacity=1).encode(color=color, tooltip=tips)
    layers = [marks]
    if not is_keyed:
        layers.append(base.mark_text(align="left", dx=8, fontSize=12).encode(text="text:N"))
    return alt.layer(*layers, width=340, height=alt.Step(_step(rows)))


def _panel(output: Output, rows: _Rows, confidence: float, *, first: bool) -> Any:
    import altair as alt

    keyed = rows.axis is not None
    color = _color(rows)
    base = alt.Chart(data_of(_points(output, rows, confidence))).encode(**_places(rows, first=first))
    tips = [alt.Tooltip(field=f) for f in ("label", *(["group"] if rows.groups else []), "text", "lower", "upper")]
    height: Any = alt.Step(_step(rows)) if keyed else 70
    if any(isinstance(v, str) for v in output.estimate.values()):
        words = base.mark_text(align="left", fontSize=13).encode(
            x=alt.value(8), text="text:N", color=color, tooltip=tips
        )
        return words.properties(width=340, height=height, title=alt.TitleParams(output.name, fontSize=11, dy=6))
    estimate = output.estimate.of if isinstance(output.estimate, Selected) else output.estimate
    bars = isinstance(estimate, (Noisy, TableCells, WeightedSum)) and keyed
    timed = any(isinstance(v, datetime.date) for v in output.estimate.values())
    spread = not bars and len({v for v in output.estimate.values() if v is not None}) > 1
    placed = [point["value"] for point in _points(output, rows, confidence) if point["value"] is not None]
    if bars and rows.ordered and len(rows.labels) <= _MOST_UPRIGHT:
        return _upright_panel(base, output.name, rows, tips)
    ended = any(low is not None for low, _ in output.estimate.intervals(confidence))
    # a point that stands alone has its own tick: those that are chosen by themselves are rounded to whole numbers
    ticks = placed[:1] if not (bars or timed or spread or ended) else []
    layers = _draw_layers(base, output.name, bars=bars, timed=timed, spread=spread, ticks=ticks, color=color, tips=tips)
    kind: Any = "temporal" if timed else "quantitative"
    # A single number is written out.
    if not keyed:
        layers.append(base.mark_text(dy=-16, fontSize=13).encode(x=alt.X(field="value", type=kind), text="text:N"))
    chart = alt.layer(*layers, width=340, height=height)
    # The numbers stand above too, since the lower end is far.
    if len(rows.labels) > _LONG:
        upper = alt.X(field="value", type=kind, axis=alt.Axis(orient="top", title=output.name, tickCount=5))
        chart = alt.layer(chart, base.mark_point(opacity=0).encode(x=upper)).resolve_axis(x="independent")
    return chart


def _upright_panel(base: Any, name: str, rows: _Rows, tips: list[Any]) -> Any:
    """Return the panel of a histogram: bars beside each other in the order of their key, with their intervals."""
    import altair as alt

    labels = alt.Axis(title=rows.axis, labelAngle=-40 if max(map(len, rows.labels)) > 4 else 0, labelLimit=160)
    x = alt.X(field="label", type="ordinal", sort=None, axis=labels, scale=alt.Scale(paddingInner=0.04))
    y = alt.Y(field="value", type="quantitative", title=name, axis=alt.Axis(tickCount=5))
    # the rows of `base` lie; here each has a place on the other axis
    upright = alt.Chart(base.data)
    bar = upright.mark_bar(opacity=0.65).encode(x=x, y=y, color=alt.value(COLORS[0]), tooltip=tips)
    stated = upright.transform_filter("isValid(datum.lower) && isValid(datum.upper)")
    low = alt.Y(field="lower", type="quantitative")
    whisker = stated.mark_rule(strokeWidth=1.4, color="#222222").encode(x=x, y=low, y2=alt.Y2(field="upper"))
    caps = [
        stated.mark_tick(thickness=1.4, size=8, color="#222222", opacity=1).encode(
            x=x, y=alt.Y(field=side, type="quantitative")
        )
        for side in ("lower", "upper")
    ]
    return alt.layer(bar, whisker, *caps, width=max(340, 22 * len(rows.labels)), height=240)


def _places(rows: _Rows, *, first: bool) -> dict[str, Any]:
    """Return the encodings that place a row; only the first panel has labels."""
    import altair as alt

    label_options = (
        {"title": rows.axis, "labelLimit": 220} if first else {"title": None, "labels": False, "ticks": False}
    )
    axis = None if rows.axis is None else alt.Axis(**label_options)
    places: dict[str, Any] = {"y": alt.Y(field="label", type="nominal", sort=None, axis=axis)}
    if rows.groups is not None:
        places["yOffset"] = alt.YOffset(field="group", type="nominal", sort=list(dict.fromkeys(rows.groups)))
    return places


def _color(rows: _Rows) -> Any:
    import altair as alt

    if rows.groups is None:
        return alt.value(COLORS[0])
    order = list(dict.fromkeys(rows.groups))
    colors = alt.Scale(domain=order, range=list(COLORS[: len(order)]))
    return alt.Color(field="group", type="nominal", title=rows.legend, scale=colors, sort=order)


def _draw_layers(
    base: Any, name: str, *, bars: bool, timed: bool, spread: bool, ticks: list[float], color: Any, tips: list[Any]
) -> list[Any]:
    """Return the layers of numbers: bars or points, and their intervals; on an axis of time where they are `timed`.

    Points that are `spread` keep clear of the ends of the axis.
    """
    import altair as alt

    kind: Any = "temporal" if timed else "quantitative"
    scale = alt.Scale(type="utc") if timed else alt.Scale(zero=bars, padding=12 if spread else alt.Undefined)

    tick_options = {"values": ticks, "format": ",.6~r"} if ticks else {"tickCount": 5}
    axis = alt.Axis(**tick_options, labelOverlap="greedy", labelSeparation=12)
    x = alt.X(field="value", type=kind, title=name, scale=scale, axis=axis)
    mark = base.mark_bar(opacity=0.65) if bars else base.mark_point(filled=True, size=60, opacity=1)
    stated = "isValid(datum.lower) && isValid(datum.upper)"
    ends = base.transform_filter(stated).encode(x=alt.X(field="lower", type=kind), x2=alt.X2(field="upper"))
    whisker = ends.mark_rule(strokeWidth=1.4, color="#222222") if bars else ends.mark_rule(strokeWidth=1.4)
    caps = [
        base.transform_filter(stated)
        .mark_tick(thickness=1.4, size=8, color="#222222", opacity=1)
        .encode(x=alt.X(field=side, type=kind))
        for side in ("lower", "upper")
    ]
    return [mark.encode(x=x, color=color, tooltip=tips), whisker if bars else whisker.encode(color=color), *caps]


def _step(rows: _Rows) -> float:
    """Return the height of a row: less where there are many, so that a picture stays a few screens at most."""
    count = len(set(rows.labels)) * (1 if rows.groups is None else len(set(rows.groups)))
    return max(11.0, min(22.0 if rows.groups is None else 12.0, _TALL / max(count, 1)))


def _points(output: Output, rows: _Rows, confidence: float) -> list[dict[str, Any]]:
    """Return a dict for each row that has a value; the ends of an interval that is not stated are None."""
    values = output.estimate.values()
    pairs = output.estimate.intervals(confidence)
    return [
        {
            "label": label,
            "text": _format_value(values[i]),
            "value": _number(values[i]),
            "lower": _number(pairs[i][0]),
            "upper": _number(pairs[i][1]),
            **({} if rows.groups is None else {"group": rows.groups[i]}),
        }
        for i, label in enumerate(rows.labels)
    ]


def _number(value: Any) -> float | None:
    """Return what an axis can place: a chosen text, or no value, has no place on it; a moment as its clock shows it."""
    if isinstance(value, datetime.date):
        clock_time = value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value
        wall = datetime.datetime.fromisoformat(clock_time.isoformat())
        return (wall - datetime.datetime(1970, 1, 1)) / datetime.timedelta(milliseconds=1)
    return None if value is None or isinstance(value, str) else float(value)


def _format_value(value: Any) -> str:
    return str(value) if isinstance(value, (str, bool, datetime.date)) else show_number(value)


def _notes(release: Release, confidence: float) -> list[str]:
    stated = any(
        not _lacks_interval(o) and (isinstance(o.estimate, TableCells) or None not in o.estimate.errors(confidence))
        for o in release.outputs
    )
    suppressed = [o.name for o in release.outputs if isinstance(o.estimate, TableCells) and None in o.estimate.values()]
    others = [o for o in release.outputs if o.name not in suppressed]
    unstated = [o.name for o in others if any(e is None for e in o.estimate.errors(confidence))]
    absent = [o.name for o in others if any(v is None for v in o.estimate.values())]
    notes = [f"lines: {100 * confidence:g}% intervals, each by itself"] if stated and _height(release) else []
    why = {o.name: explain_no_ends(o.estimate) for o in release.outputs if isinstance(o.estimate, Computed)}
    private = "no interval is stated, because the width of its noise is private"
    notes += [f"{name}: {why.get(name, private)}" for name in unstated]
    notes += [f"{name}: no value where {'none follows' if name in why else 'a test failed'}" for name in absent]
    notes += [f"{name}: cells with a small released count are not shown" for name in suppressed]
    without: dict[str, list[str]] = {}
    for output in release.outputs:
        if output.name not in unstated and _lacks_interval(output):
            without.setdefault(_without_interval(output, confidence), []).append(output.name)
    notes += [f"{', '.join(names)}: {reason}" for reason, names in without.items()]
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
    """Return whether an output states its error in ranks or rows, so that no interval of its values follows."""
    return bool(getattr(output.estimate, "error_unit", ""))


def _without_interval(output: Output, confidence: float) -> str:
    """Return why no line is drawn, and what is known instead."""
    errors = [e for e in output.estimate.errors(confidence) if e is not None]
    unit = getattr(output.estimate, "error_unit", "")
    within = f": {show_rows(max(errors), unit)} at {100 * confidence:g}%" if errors else ""
    return f"no interval of values can be stated{within}"
