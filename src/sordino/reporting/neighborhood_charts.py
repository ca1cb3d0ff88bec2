"""Charts of small universes: a bar for every table, as long as the answer can move from it. It sees enumerated tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino.reporting.titles import data_of, mark_title, title_of
from sordino.sensitivity.neighborhoods import Neighborhoods, list_values

if TYPE_CHECKING:
    from sordino.reporting.titles import AnyChart

__all__ = ["draw"]

MOST_DRAWN = 60


def draw(found: Neighborhoods, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a small universe - a bar a table, the global sensitivity as a line at their end - and its title."""
    import altair as alt

    del confidence
    kept = found.rows
    notes = [f"{found.relation}; {len(kept):,} tables of {found.size} values out of {list_values(found.universe, 12)}"]
    if len(kept) > MOST_DRAWN:
        kept = tuple(sorted(kept, key=lambda row: -row.local)[:MOST_DRAWN])
        notes.append(f"the {MOST_DRAWN} tables that can move most")
    points = [
        {
            "table": list_values(row.table, len(row.table)),
            "local": float(row.local),
            "answer": float(row.answer),
            "neighbors": len(row.neighbors),
            "attains": "attains it" if found.attains(row) else "stays below",
        }
        for row in kept
    ]
    said = mark_title(title or f"How far the {found.query} of each table can move", found.mark)
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
    heading = title_of(said, notes, width=560, alarm=found.mark is not None)
    return alt.layer(bars, rule).properties(width=380, height=alt.Step(20), title=heading), said
