"""Pictures of the local model: estimated shares with their intervals, choices, distributions, a simulation beside truth.

It sees released numbers and public parameters; a simulation's true values come with a mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sordino.core.errors import DeclarationError
from sordino.core.loss import round_up
from sordino.reporting.picture import COLORS, data_of, mark_title, title_of

if TYPE_CHECKING:
    from sordino.local import BloomEstimate, CollectionPlan, DistributionEstimate, FrequencyEstimate, ProtocolChoice
    from sordino.local.simulation import CollectionSimulation
    from sordino.reporting.picture import AnyChart

# As many rows as a release shows.
MOST_LABELS = 200
_MALICIOUS = 0.01
# A protocol with more than so many times the least error is left out: its bar would hide the others.
_DRAWN = 20
# For each column, what that part of a bar is due to.
_PARTS = {"error": "the noise", "shift": "what the assumed malicious clients can add"}
_TRUE = "true"
_LOCAL = "local model"
_CENTRAL = "trusted curator (Laplace)"


def draw(shares: FrequencyEstimate | BloomEstimate, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of estimated shares, and its title: intervals, and how far 1% of malicious clients could stretch them."""
    import altair as alt

    table = shares.interval(confidence).to_pydict()
    names = _names(shares.labels)
    rows = [
        {
            "label": names[i],
            "share": float(shares.frequencies[i]),
            **{side: table[side][i] for side in ("lower", "upper", "adversarial_lower", "adversarial_upper")},
        }
        for i in range(len(names))
    ]
    base = alt.Chart(data_of(rows)).encode(y=_rows_axis())
    fields = ("label", "share", "lower", "upper", "adversarial_lower", "adversarial_upper")
    layers = [
        base.mark_rule(strokeWidth=7, color=COLORS[5], opacity=0.35).encode(
            x=_axis("adversarial_lower", "share of respondents"), x2=alt.X2(field="adversarial_upper")
        ),
        base.mark_rule(strokeWidth=1.6, color="#222222").encode(
            x=_axis("lower", "share of respondents"), x2=alt.X2(field="upper")
        ),
        base.mark_point(filled=True, size=55, color=COLORS[0], opacity=1).encode(
            x=_axis("share", "share of respondents"), tooltip=[alt.Tooltip(field=f) for f in fields]
        ),
    ]
    caption = title or "Estimated shares, local model"
    added, removed = shares.shift(_MALICIOUS)
    up = round_up(100 * added, digits=2)
    down = round_up(100 * removed, digits=2)
    notes = [
        f"lines: {100 * confidence:g}% intervals, each by itself; a raw share may be below 0",
        f"bands: if 1% collude, up to {up} points added or {down} taken",
        *_cut(shares.labels),
    ]
    heading = title_of(caption, notes, width=480, alarm=False)
    return alt.layer(*layers, width=360, height=alt.Step(20), title=heading), caption


def draw_spread(spread: DistributionEstimate, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of an estimated distribution, and its title."""
    import altair as alt

    edges = spread.edges
    shares = spread.frequencies
    rows = [
        {"lower": float(edges[i]), "upper": float(edges[i + 1]), "share": float(s), "zero": 0.0}
        for i, s in enumerate(shares)
    ]
    bars = (
        alt.Chart(data_of(rows))
        .mark_rect(color=COLORS[0], opacity=0.7)
        .encode(
            x=alt.X(field="lower", type="quantitative", title="value"),
            x2=alt.X2(field="upper"),
            y=alt.Y(field="zero", type="quantitative", title="share"),
            y2=alt.Y2(field="share"),
            tooltip=[alt.Tooltip(field=f) for f in ("lower", "upper", "share")],
        )
    )
    caption = title or "Estimated distribution, local model"
    low, high = spread.quantile_interval(0.5, confidence)
    notes = [
        f"median about {spread.quantile(0.5):.4g}, {100 * confidence:g}% interval {low:.4g} to {high:.4g}",
        "bars are smoothed and biased where the shape bends; no single bar has an interval",
    ]
    heading = title_of(caption, notes, width=480, alarm=False)
    return alt.layer(bars, width=420, height=220, title=heading), caption


def draw_weighed(choice: ProtocolChoice, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a choice: the error of each protocol, and what malicious clients add where they were weighed."""
    import altair as alt

    del confidence
    rated = choice.table.to_pylist()
    farthest = _DRAWN * (rated[0]["error"] + rated[0]["shift"])
    ranked = [r for r in rated if r["error"] + r["shift"] <= farthest]
    beyond = [f"{r['protocol']} ({100 * (r['error'] + r['shift']):,.0f} points)" for r in rated[len(ranked) :]]
    remarks = [choice.why, *([f"too wide to draw beside them: {', '.join(beyond)}"] if beyond else [])]
    rows = [
        {"protocol": r["protocol"], "part": word, "points": 100 * r[part]}
        for r in ranked
        for part, word in _PARTS.items()
        if r[part] > 0
    ]
    parts = [word for word in _PARTS.values() if any(row["part"] == word for row in rows)]
    order = [r["protocol"] for r in ranked]
    bars = (
        alt.Chart(data_of(rows))
        .mark_bar()
        .encode(
            y=alt.Y(field="protocol", type="nominal", sort=order, title=None),
            x=alt.X(field="points", type="quantitative", title="error in points, at 95%", stack=True),
            color=alt.Color(
                field="part",
                type="nominal",
                title=None,
                scale=alt.Scale(domain=parts, range=list(COLORS[: len(parts)])),
                legend=alt.Legend(orient="bottom", labelLimit=400) if len(parts) > 1 else None,
            ),
        )
    )
    caption = title or "Protocols of the local model"
    heading = title_of(caption, remarks, width=480, alarm=False)
    return alt.layer(bars, width=360, height=alt.Step(22), title=heading), caption


def draw_plan(plan: CollectionPlan, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a plan: the error of each protocol, and below it how many respondents a margin needs."""
    import altair as alt

    above, caption = draw_weighed(plan.choice, confidence, title or "Plan of a collection")
    needed = plan.needed
    rows = [
        {"who": f"local model, by {needed.protocol}", "people": needed.local},
        {"who": "trusted curator, same epsilon", "people": needed.curator},
        {"who": "respondents planned for", "people": plan.choice.respondents},
    ]
    base = alt.Chart(data_of(rows)).encode(y=alt.Y(field="who", type="nominal", sort=None, title=None))
    axis = alt.Axis(values=[10**i for i in range(10)], format=",")
    x = alt.X(field="people", type="quantitative", title="people (log scale)", scale=alt.Scale(type="log"), axis=axis)
    points = base.mark_point(filled=True, size=90, color=COLORS[0], opacity=1).encode(x=x)
    words = base.mark_text(dy=-11).encode(x=x, text=alt.Text(field="people", type="quantitative", format=","))
    mixed = plan.shuffled
    remarks = (
        [] if mixed is None else [f"shuffled: epsilon {mixed.epsilon:.3g} at delta {mixed.delta:g}, {mixed.condition}"]
    )
    heading = title_of(
        f"People needed for a share within {100 * needed.margin:g} points at {100 * needed.confidence:g}%",
        remarks,
        width=480,
        alarm=False,
    )
    below = alt.layer(points, words, width=360, height=alt.Step(34), title=heading)
    return alt.vconcat(above, below), caption


def draw_simulation(simulated: CollectionSimulation, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a simulation: truth, the local estimate with its interval, and the curator's estimate."""
    import altair as alt

    del confidence
    if not simulated.rows:
        raise DeclarationError("this simulation has no label to draw")
    names = _names([row.label for row in simulated.rows])
    points = []
    ends = []
    for name, row in zip(names, simulated.rows, strict=False):
        points += [
            {"label": name, "who": who, "count": count}
            for who, count in ((_TRUE, row.true), (_LOCAL, row.estimate), (_CENTRAL, row.curator))
        ]
        ends.append({"label": name, "who": _LOCAL, "lower": row.lower, "upper": row.upper})
    order = [_TRUE, _LOCAL, _CENTRAL]
    shapes = alt.Scale(domain=order, range=["cross", "circle", "diamond"])
    colors = alt.Scale(domain=order, range=["#000000", COLORS[0], COLORS[1]])
    # Side by side within a row: a diamond on a cross would hide it.
    beside = alt.YOffset(field="who", type="nominal", sort=order, scale=alt.Scale(domain=order, paddingOuter=0.6))
    layers = [
        alt.Chart(data_of(ends))
        .mark_rule(strokeWidth=1.4, color=COLORS[0])
        .encode(y=_rows_axis(), x=_axis("lower", "respondents"), x2=alt.X2(field="upper"), yOffset=beside),
        alt.Chart(data_of(points))
        .mark_point(filled=True, size=60, opacity=1)
        .encode(
            y=_rows_axis(),
            yOffset=beside,
            x=_axis("count", "respondents"),
            shape=alt.Shape(field="who", type="nominal", title=None, scale=shapes, sort=order),
            color=alt.Color(field="who", type="nominal", title=None, scale=colors, sort=order),
            tooltip=[alt.Tooltip(field=f) for f in ("label", "who", "count")],
        ),
    ]
    caption = mark_title(title or simulated.subject, simulated.mark)
    notes = [
        "lines: 95% intervals of the local model, cut to 0 or more; a raw estimate may lie outside",
        *simulated.remarks,
        *_cut(simulated.rows),
    ]
    heading = title_of(caption, ["; ".join(notes)], width=560, alarm=True)
    step = alt.Step(32, **{"for": "position"})
    return alt.layer(*layers, width=420, height=step, title=heading), caption


def _names(labels: Sequence[Any]) -> list[str]:
    """Return labels as text of which no two are equal, the first of many."""
    names = ["(missing)" if label is None else str(label) for label in labels[:MOST_LABELS]]
    return [name if names.index(name) == i else f"{name} ({i + 1})" for i, name in enumerate(names)]


def _cut(labels: Sequence[Any]) -> list[str]:
    return [f"the first {MOST_LABELS} of {len(labels):,} labels"] if len(labels) > MOST_LABELS else []


def _rows_axis() -> Any:
    import altair as alt

    return alt.Y(field="label", type="nominal", sort=None, axis=alt.Axis(title=None, labelLimit=220))


def _axis(field: str, title: str) -> Any:
    import altair as alt

    return alt.X(field=field, type="quantitative", title=title, axis=alt.Axis(tickCount=6))
