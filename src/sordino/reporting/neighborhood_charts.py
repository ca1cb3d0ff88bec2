"""Charts of small universes: a bar for every table, as long as the answer can move from it. It sees enumerated tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sordino.lab.learn.bare_noise import NoiseShape
from sordino.lab.sensitivity.empirical import LocalNoise
from sordino.lab.sensitivity.neighborhoods import Neighborhoods, list_values
from sordino.reporting.picture import COLORS, add_title, data_of, join_panels, mark_title, title_of

if TYPE_CHECKING:
    from sordino.reporting.picture import AnyChart

MOST_DRAWN = 60
# Scales of the wider noise that are drawn on either side.
_REACH = 3
_POINTS = 241


def draw(found: Neighborhoods, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a small universe - a bar a table, the global sensitivity as a line at their end - and its title."""
    import altair as alt

    del confidence
    tables = found.rows
    notes = [
        f"{found.relation}; {len(tables):,} tables of {found.size} values out of {list_values(found.universe, 12)}"
    ]
    if len(tables) > MOST_DRAWN:
        tables = tuple(sorted(tables, key=lambda row: -row.local)[:MOST_DRAWN])
        notes.append(f"the {MOST_DRAWN} tables that can move most")
    points = [
        {
            "table": list_values(row.table, len(row.table)),
            "local": float(row.local),
            "answer": float(row.answer),
            "neighbors": len(row.neighbors),
            "attains": "attains it" if found.attains(row) else "stays below",
        }
        for row in tables
    ]
    caption = mark_title(title or f"How far the {found.query} of each table can move", found.mark)
    bars = (
        alt.Chart(data_of(points))
        .mark_bar(opacity=0.85)
        .encode(
            y=alt.Y(field="table", type="nominal", sort=None, title="table", axis=alt.Axis(labelLimit=240)),
            x=alt.X(field="local", type="quantitative", title=f"local sensitivity of the {found.query}"),
            color=alt.Color(
                field="attains",
                type="nominal",
                title="global sensitivity",
                scale=alt.Scale(domain=["attains it", "stays below"], range=["#d55e00", "#0072b2"]),
            ),
            tooltip=[alt.Tooltip(field=name) for name in ("table", "answer", "neighbors", "local")],
        )
    )
    whole = alt.Chart(data_of([{"global": float(found.value)}]))
    rule = whole.mark_rule(color="#d55e00", strokeDash=[5, 3]).encode(x=alt.X(field="global", type="quantitative"))
    notes.append(f"dashed line: global sensitivity {found.value:.6g}, the largest local one")
    heading = title_of(caption, notes, width=560, alarm=found.mark is not None)
    return alt.layer(bars, rule, width=380, height=alt.Step(20), title=heading), caption


def draw_local_noise(found: LocalNoise, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of two neighbors under noise as wide as their own local sensitivity, and its title.

    On the left how likely each noisy answer is for either table; on the right what it reveals, against epsilon.
    """
    del confidence
    widest = _REACH * max(found.scales)
    start = min(found.answers) - widest
    end = max(found.answers) + widest
    outputs = sorted({*(start + (end - start) * i / (_POINTS - 1) for i in range(_POINTS)), *found.answers})
    names = [list_values(table, 12) for table in found.tables]
    if names[0] == names[1]:
        names[1] += " (other)"
    notes = [
        f"the {found.query} of two neighbors ({found.relation}), Laplace noise of scale local sensitivity / {found.epsilon:g}",
        *(
            f"table {name}: answer {answer:.6g}, local sensitivity {scale * found.epsilon:.6g}"
            for name, answer, scale in zip(names, found.answers, found.scales, strict=True)
        ),
    ]
    panels = [_densities(found, outputs, names), _losses(found, outputs)]
    # Of one width the loss is at most the distance of the answers over it, which local sensitivity covers.
    if found.scales[0] != found.scales[1]:
        verdict = "tells two neighbors apart"
    elif found.answers[0] != found.answers[1]:
        verdict = "is as wide for both neighbors, and keeps the promise here"
    else:
        verdict = "tells nothing of these two neighbors"
    heading = title or f"Noise scaled by local sensitivity {verdict}: the {found.query}"
    both = join_panels(panels).resolve_scale(color="independent", strokeDash="independent")
    return add_title(both, heading, notes, width=700, mark="it breaks the promise, to show why")


def draw_noise(noise: NoiseShape, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a mechanism's noise - its law, and where `confidence` of its draws lie - and its title."""
    import altair as alt

    width = noise.within(confidence)
    span = max(2 * width, 1e-300)
    if noise.is_whole:
        step = max(1, round(span / 60))
        points = [float(place * step) for place in range(-round(span / step), round(span / step) + 1)]
    else:
        points = [-span + 2 * span * place / (_POINTS - 1) for place in range(_POINTS)]
    inside = f"{100 * confidence:g}% of draws"
    rows = [
        {"noise": x, "density": noise.density(x), "where": inside if abs(x) <= width else "the others"} for x in points
    ]
    chart = alt.Chart(data_of(rows))
    color = alt.Color(
        field="where",
        type="nominal",
        title=None,
        scale=alt.Scale(domain=[inside, "the others"], range=[COLORS[0], "#bbbbbb"]),
        legend=alt.Legend(orient="bottom"),
    )
    x = alt.X(field="noise", type="quantitative", title="noise added", scale=alt.Scale(nice=False))
    y = alt.Y(field="density", type="quantitative", title="probability" if noise.is_whole else "density")
    marked = chart.mark_rule(strokeWidth=3) if noise.is_whole else chart.mark_area(opacity=0.6)
    heading = title or f"{noise.kind} noise"
    return add_title(
        marked.encode(x=x, y=y, color=color).properties(width=420, height=240), heading, [repr(noise)], width=420
    )


def _densities(noise: LocalNoise, outputs: list[float], names: list[str]) -> Any:
    import altair as alt

    rows = [
        {"output": output, "table": name, "density": density}
        for output in outputs
        for name, density in zip(names, noise.density(output), strict=True)
    ]
    lines = (
        alt.Chart(data_of(rows))
        .mark_line(clip=True)
        .encode(
            x=alt.X(field="output", type="quantitative", title="noisy answer", scale=alt.Scale(nice=False)),
            y=alt.Y(field="density", type="quantitative", title="density of the noisy answer"),
            color=alt.Color(
                field="table",
                type="nominal",
                title="table",
                scale=alt.Scale(domain=names, range=list(COLORS[:2])),
                legend=alt.Legend(orient="bottom"),
            ),
        )
    )
    return lines.properties(width=320, height=240)


def _losses(noise: LocalNoise, outputs: list[float]) -> Any:
    import altair as alt

    words = ["what the answer reveals", f"the epsilon claimed, {noise.epsilon:g}"]
    rows = [{"output": output, "what": words[0], "loss": noise.loss(output)} for output in outputs]
    rows += [{"output": output, "what": words[1], "loss": noise.epsilon} for output in (outputs[0], outputs[-1])]
    lines = (
        alt.Chart(data_of(rows))
        .mark_line()
        .encode(
            x=alt.X(field="output", type="quantitative", title="noisy answer", scale=alt.Scale(nice=False)),
            y=alt.Y(field="loss", type="quantitative", title="loss, |ln of the ratio of densities|"),
            color=alt.Color(
                field="what",
                type="nominal",
                title=None,
                scale=alt.Scale(domain=words, range=["#000000", "#b22222"]),
                legend=alt.Legend(orient="bottom"),
            ),
            strokeDash=alt.StrokeDash(
                field="what", type="nominal", title=None, scale=alt.Scale(domain=words, range=[[1, 0], [5, 3]])
            ),
        )
    )
    return lines.properties(width=320, height=240)
