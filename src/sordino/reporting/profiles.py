"""Sensitivity against distance: one line a query, panels for scope and neighbor relation, and for columns where given.

It knows the columns of a profile; not how a sensitivity is computed, nor what its universe holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sordino.core.errors import DeclarationError
from sordino.reporting.picture import COLORS, add_title, data_of

if TYPE_CHECKING:
    import altair as alt

    from sordino.reporting.picture import AnyChart

PROFILE_COLUMNS = ("query", "distance", "scope", "relation", "value", "exact")
_RELATIONS = {"add_remove": "add/remove (unbounded)", "replace": "replace (bounded)"}
_SCOPES = {"global": "global: any table of the size", "local": "local: this table"}
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
# Queries that share a panel: more lie on one another.
_MOST_TOGETHER = 5
# If the largest value of one query is so many times that of another, a log scale shows both.
_WIDE_APART = 50


def is_profile(thing: Any) -> bool:
    """Return whether a thing is a table with the columns of a profile."""
    return hasattr(thing, "column_names") and hasattr(thing, "to_pylist") and not missing_columns(thing)


def missing_columns(thing: Any) -> list[str]:
    """Return the columns that a table lacks to be a profile; none for what is no table."""
    names = getattr(thing, "column_names", None)
    return [] if names is None else [name for name in PROFILE_COLUMNS if name not in names]


def draw(table: Any, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a profile, and its title."""
    del confidence
    points, undrawn = _points(table.to_pylist())
    if not points:
        raise DeclarationError("this profile has no finite value to draw")
    if len({p["query"] for p in points}) > _MOST_TOGETHER and not any(row.get("column") for row in table.to_pylist()):
        return _draw_apart(table, points, undrawn, title)
    panels = _panels(points)
    one = len(panels) == 1
    notes = [panels[0]] if one else []
    if not all(p["exact"] for p in points):
        notes.append("filled marks: exact; hollow marks: a bound, the true value may be smaller")
    if undrawn:
        drawn_queries = {p["query"] for p in points}
        whole = [query for query in undrawn if query not in drawn_queries]
        if whole:
            notes.append(f"not drawn, because unbounded or unknown: {', '.join(whole)}")
        for query in undrawn:
            if query in drawn_queries:
                gaps = ", ".join(f"{distance} ({panel})" for distance, panel in undrawn[query])
                notes.append(f"{query}: unbounded or without an answer at distance {gaps}")
    across = 1 if one else len({p["across"] for p in points})
    chart = _lines(points, width=420 if one else 250, height=280 if one else 190)
    chart = chart if one else _facet(chart, points)
    width = 520 if one else 300 * across
    return add_title(chart, title or "Sensitivity against distance", notes, width=width, mark=_mark(table))


def _draw_apart(
    table: Any, points: list[dict[str, Any]], undrawn: Mapping[str, Any], title: str | None
) -> tuple[AnyChart, str]:
    """Return the chart of many queries, each in a panel and on a scale of its own, and its title.

    The relation is the color, and the table's own sensitivity a dashed line beside the global one.
    """
    import altair as alt

    queries = list(dict.fromkeys(p["query"] for p in points))
    relations = [name for name in _RELATIONS.values() if any(p["across"] == name for p in points)]
    scopes = [name for name in _SCOPES.values() if any(p["down"] == name for p in points)]
    distances = sorted({p["distance"] for p in points})
    axis = alt.Axis(format="d", tickMinStep=1, values=distances if len(distances) <= 10 else alt.Undefined)
    ends = alt.Scale(domain=[distances[0] - 0.2, distances[-1] + 0.2], nice=False, zero=False)
    bottom = alt.Legend(orient="bottom", labelLimit=260)
    color = alt.Color(
        field="across",
        type="nominal",
        title=None,
        scale=alt.Scale(domain=relations, range=list(COLORS[: len(relations)])),
        legend=bottom,
    )
    dash = alt.StrokeDash(
        field="down",
        type="nominal",
        title=None,
        scale=alt.Scale(domain=scopes, range=[[1, 0], [5, 3]][: len(scopes)]),
        legend=bottom,
    )
    detail = alt.Detail(field="down", type="nominal")
    tips = [alt.Tooltip(field=name) for name in ("query", "distance", "value", "exact", "across", "down")]
    panels = []
    for query in queries:
        base = alt.Chart(data_of([p for p in points if p["query"] == query])).encode(
            x=alt.X(field="distance", type="quantitative", title="distance k", scale=ends, axis=axis),
            y=alt.Y(field="value", type="quantitative", title="sensitivity", axis=alt.Axis(tickCount=4)),
            color=color,
        )
        line = base.mark_line(strokeWidth=1.6).encode(strokeDash=dash)
        full = base.mark_point(filled=True, size=45, opacity=1).encode(detail=detail, tooltip=tips)
        hollow = base.mark_point(fill="white", size=45, opacity=1).encode(detail=detail, tooltip=tips)
        layers = [line, full.transform_filter("datum.exact"), hollow.transform_filter("!datum.exact")]
        heading = alt.TitleParams(text=query, anchor="start", fontSize=12)
        panels.append(alt.layer(*layers, width=150, height=110, title=heading))
    across = min(4, len(panels))
    notes = ["each query on a scale of its own"]
    if not all(p["exact"] for p in points):
        notes[0] += "; hollow marks: a bound, the true value may be smaller"
    if undrawn:
        notes.append(f"not drawn wherever unbounded or unknown: {', '.join(undrawn)}")
    chart = alt.concat(*panels, columns=across)
    return add_title(chart, title or "Sensitivity against distance", notes, width=210 * across, mark=_mark(table))


def _points(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, list[tuple[int, str]]]]:
    """Return what is drawn, by the names that the chart uses, and the points left out: a distance and panel each, by query."""
    columned = len({row.get("column") for row in rows}) > 1
    points: list[dict[str, Any]] = []
    undrawn: dict[str, list[tuple[int, str]]] = {}
    for row in rows:
        value = row["value"]
        if value is None or not math.isfinite(value):
            panel_name = f"{row['scope']}, {_words(_RELATIONS, row['relation'])}"
            undrawn.setdefault(str(row["query"]), []).append((int(row["distance"]), panel_name))
            continue
        scope, relation = (_words(names, row[key]) for names, key in ((_SCOPES, "scope"), (_RELATIONS, "relation")))
        panel = {"across": relation, "down": scope}
        if columned:
            panel = {"across": f"{row['scope']}, {relation}", "down": str(row["column"])}
        query = {"query": str(row["query"]), "distance": int(row["distance"]), "value": float(value)}
        points.append({**query, **panel, "exact": bool(row["exact"])})
    return points, dict(sorted(undrawn.items()))


def _lines(points: list[dict[str, Any]], *, width: int, height: int) -> Any:
    import altair as alt

    queries = list(dict.fromkeys(p["query"] for p in points))
    distances = sorted({p["distance"] for p in points})
    ticks = distances if len(distances) <= 10 else None
    scale, axis = _height(points)
    x = alt.X(
        field="distance",
        type="quantitative",
        title="distance k",
        scale=alt.Scale(domain=[distances[0] - 0.2, distances[-1] + 0.2], nice=False, zero=False),
        axis=alt.Axis(format="d", tickMinStep=1, values=ticks) if ticks else alt.Axis(format="d", tickMinStep=1),
    )
    y = alt.Y(field="value", type="quantitative", scale=scale, axis=axis)
    each: dict[str, Any] = {"field": "query", "type": "nominal", "title": "query", "sort": queries}
    color = alt.Color(**each, scale=alt.Scale(domain=queries, range=_cycle(COLORS, len(queries))))
    shape = alt.Shape(**each, scale=alt.Scale(domain=queries, range=_cycle(_SHAPES, len(queries))))
    tips = [alt.Tooltip(field=name) for name in ("query", "distance", "value", "exact", "across", "down")]
    base = alt.Chart(data_of(points)).encode(x=x, y=y, color=color)
    line = base.mark_line(strokeWidth=1.5, opacity=0.8)
    full = base.mark_point(filled=True, size=45, opacity=0.75).encode(shape=shape, tooltip=tips)
    hollow = base.mark_point(fill="white", size=45, opacity=1).encode(shape=shape, tooltip=tips)
    layers = [line, full.transform_filter("datum.exact")]
    if not all(p["exact"] for p in points):
        layers.append(hollow.transform_filter("!datum.exact"))
    return alt.layer(*layers, width=width, height=height)


def _cycle(values: Sequence[str], count: int) -> list[str]:
    return [values[i % len(values)] for i in range(count)]


def _facet(chart: Any, points: list[dict[str, Any]]) -> Any:
    import altair as alt

    def distinct(name: str, known: dict[str, str]) -> list[str]:
        values = list(dict.fromkeys(p[name] for p in points))
        return sorted(values, key=lambda text: list(known.values()).index(text) if text in known.values() else -1)

    header = alt.Header(title=None, labelFontSize=12, labelFontWeight="bold")
    side = alt.Header(title=None, labelFontSize=12, labelFontWeight="bold", labelOrient="left")
    faceted = chart.facet(
        column=alt.Column(field="across", type="nominal", sort=distinct("across", _RELATIONS), header=header),
        row=alt.Row(field="down", type="nominal", sort=distinct("down", _SCOPES), header=side),
    )
    return faceted.resolve_axis(x="independent", y="independent")


def _height(points: list[dict[str, Any]]) -> tuple[alt.Scale, alt.Axis]:
    """Return the scale of sensitivities: linear from 0, or logarithmic where queries differ much in size."""
    import altair as alt

    if not _far_apart(points):
        return alt.Scale(zero=True), alt.Axis(title="sensitivity")
    positive = [p["value"] for p in points if p["value"] > 0]
    least = math.floor(math.log10(min(positive)))
    most = math.ceil(math.log10(max(positive)))
    factors = (1, 2, 5) if most - least <= 3 else (1,)
    ticks = [float(f"{factor}e{power}") for power in range(least, most + 1) for factor in factors]
    named = alt.Axis(title="sensitivity, log scale", values=[0.0, *ticks], format="~g")
    if len(positive) == len(points):
        return alt.Scale(type="log"), named
    return alt.Scale(type="symlog", constant=min(positive)), named


def _far_apart(points: list[dict[str, Any]]) -> bool:
    """Return whether queries differ so much in size that a linear scale would flatten one of them."""
    largest: dict[str, float] = {}
    for point in points:
        largest[point["query"]] = max(largest.get(point["query"], 0.0), point["value"])
    sizes = [size for size in largest.values() if size > 0]
    return bool(sizes) and max(sizes) > _WIDE_APART * min(sizes)


def _panels(points: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(f"{p['down']}; {p['across']}" for p in points))


def _mark(table: Any) -> str | None:
    """Return why a table is NOT PRIVATE, as its schema's metadata says, or None."""
    metadata = (table.schema.metadata or {}).get(b"sordino", b"").decode("utf-8", "replace")
    start = "NOT PRIVATE"
    return metadata[len(start) :].lstrip(": ") or "read from a file" if metadata.startswith(start) else None


def _words(names: dict[str, str], key: Any) -> str:
    return names.get(str(key), str(key))
