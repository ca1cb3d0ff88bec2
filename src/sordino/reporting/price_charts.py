"""Pictures of prices: the error of a plan against the loss, of a histogram against the bins that are added up.

They are functions of public facts alone: nothing was asked yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sordino.core.errors import DeclarationError, arg
from sordino.core.text_table import plain
from sordino.reporting.picture import COLORS, add_title, data_of

if TYPE_CHECKING:
    from sordino.core.loss import Loss
    from sordino.reporting.picture import AnyChart
    from sordino.synth.histogram import HistogramPlan

_WIDTH = 360
_HEIGHT = 200
# Lines of one panel, and panels of one picture.
_MOST_LINES = 8
_MOST_PANELS = 6
# By how much the stated loss is divided and multiplied for a curve.
FACTORS = ("1/10", "1/5", "1/2", "1", "2", "5", "10")


@runtime_checkable
class Priced(Protocol):
    """A question with its price, before it is asked; a Plan is one."""

    asked: Loss

    def error(self, confidence: float) -> Any:
        """Return the expected error: a number, or a mapping by the names of columns, or by the tables of a tabulation."""

    def identity(self) -> str:
        """Return what names the question, whatever the loss."""

    def sentence(self) -> str:
        """Return the question in words."""

    def to_dict(self, *, confidence: float) -> dict[str, Any]:
        """Return the plan as JSON data."""


def draw_plan(plan: Priced, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of one plan: its expected errors."""
    return draw_plans([plan], confidence, title)


def draw_plans(plans: Sequence[Priced], confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of one question planned at several losses, and its title: expected error against the loss.

    A panel for each unit that errors come in, a line for each column or table. The first plan is the one that was asked
    for, and is marked. Raises DeclarationError for plans of several questions, or where no error is a number.
    """
    import altair as alt

    first = plans[0]
    if any(plan.identity() != first.identity() for plan in plans):
        raise DeclarationError("plans drawn together are of one question at several losses")
    currency = "rho" if "rho" in first.asked.amounts() else "epsilon"
    rows = [row for plan in plans for row in _errors(plan, currency, confidence)]
    if not rows:
        raise DeclarationError(
            "no error of this question is a number beforehand, so there is nothing to draw; "
            f"{arg('assume_rows')}, a public guess, makes one of a mean"
        )
    units = list(dict.fromkeys(row["unit"] for row in rows))
    stated = float(first.asked.amounts()[currency])
    panels: list[Any] = []
    for unit in units[:_MOST_PANELS]:
        own = [row for row in rows if row["unit"] == unit]
        names = list(dict.fromkeys(row["name"] for row in own))[:_MOST_LINES]
        x = alt.X("loss:Q", title=currency, scale=alt.Scale(type="log"), axis=alt.Axis(tickCount=5, format="~g"))
        y = alt.Y("error:Q", title=unit, scale=alt.Scale(type="log"), axis=alt.Axis(tickCount=5, format=",~g"))
        color: Any = alt.value(COLORS[0])
        if len(names) > 1:
            colors = alt.Scale(domain=names, range=list(COLORS[: len(names)]))
            color = alt.Color("name:N", title=None, sort=names, scale=colors)
        base = alt.Chart(data_of([row for row in own if row["name"] in names])).encode(x=x, y=y, color=color)
        marked = base.transform_filter(alt.datum.loss == stated)
        layers = [
            base.mark_line(),
            base.mark_point(filled=True, size=20, opacity=1),
            marked.mark_point(filled=True, size=90, opacity=1),
            marked.mark_text(align="left", dx=9, dy=-9, fontSize=12).encode(text=alt.Text("error:Q", format=".3~g")),
        ]
        panels.append(alt.layer(*layers, width=_WIDTH, height=_HEIGHT))
    notes = [f"large points: {first.asked.describe()}, as it was priced. No data was read, and nothing was spent"]
    hidden = sum(max(0, len({row["name"] for row in rows if row["unit"] == unit}) - _MOST_LINES) for unit in units)
    notes += [f"{hidden} more lines are not drawn"] if hidden else []
    caption = title or f"Error at {100 * confidence:g}% of {plain(first.sentence())}"
    return add_title(alt.concat(*panels, columns=2), caption, notes, width=60 + _WIDTH * min(2, len(panels)))


def _errors(plan: Priced, currency: str, confidence: float) -> list[dict[str, Any]]:
    """Return a row for each error of a plan that is a number: its name, its unit in words, the loss, the error."""
    loss = float(plan.asked.amounts()[currency])
    errors = plan.error(confidence)
    described = plan.to_dict(confidence=confidence)["columns"]
    units = {column["name"]: column["error_unit"] for column in described}
    if not isinstance(errors, dict):
        errors = {described[0]["name"]: errors}
    rows = []
    for name, error in errors.items():
        if error is None or error <= 0:
            continue
        words = " x ".join(name) or "total" if isinstance(name, tuple) else name
        unit = units.get(name, "value") if isinstance(name, str) else "value"
        axis = "error of a cell" if isinstance(name, tuple) else f"error of {words}"
        axis = axis if unit == "value" else f"error of {words}, in {unit}"
        rows.append({"name": words, "unit": axis, "loss": loss, "error": float(error)})
    return rows


def draw_histogram_plan(plan: HistogramPlan, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a histogram's price, and its title: the error of so many bins together, against their number."""
    import altair as alt

    sizes = sorted({*(n for n in (1, 2, 5, 10, 20, 50, 100, 1000, 10_000, 100_000) if n < plan.bins), plan.bins})
    rows = [{"bins": n, "error": plan.error(confidence, bins=n)} for n in sizes]
    x = alt.X("bins:Q", title="bins added up", scale=alt.Scale(type="log"), axis=alt.Axis(tickCount=5, format="~s"))
    y = alt.Y("error:Q", title="error, in rows", scale=alt.Scale(type="log"), axis=alt.Axis(tickCount=5, format="~s"))
    base = alt.Chart(data_of(rows)).encode(x=x, y=y)
    line = base.mark_line(color=COLORS[0], point=alt.OverlayMarkDef(filled=True, size=40, color=COLORS[0]))
    words = base.mark_text(align="right", dx=-6, dy=-8, fontSize=11).encode(text=alt.Text("error:Q", format=",.3~r"))
    chart = alt.layer(line, words, width=_WIDTH + 60, height=_HEIGHT)
    caption = title or f"Error at {100 * confidence:g}% of a histogram of {' and '.join(plan.columns)}"
    notes = [f"{plan.bins:,} bins, cost {plan.cost.describe()}. No data was read, and nothing was spent"]
    return add_title(chart, caption, notes, width=_WIDTH + 120)
