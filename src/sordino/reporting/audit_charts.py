"""Pictures of an audit: the epsilon claimed beside the epsilon shown, and what came out on both neighbors.

It sees what an audit found, of invented tables; the title says NOT PRIVATE.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sordino.reporting.picture import COLORS, add_title, data_of

if TYPE_CHECKING:
    from sordino.reporting.picture import AnyChart

_MARK = "an audit of invented tables"
_SIDES = ("here", "there")


class OutputBar(Protocol):
    """The share of outputs in one place, on both neighbors."""

    @property
    def output(self) -> str:
        """The place in words."""

    @property
    def here(self) -> float:
        """Its share on the first table."""

    @property
    def there(self) -> float:
        """Its share on the second table."""


@runtime_checkable
class Audited(Protocol):
    """What an audit found, as a picture needs it."""

    @property
    def epsilon(self) -> float:
        """The epsilon claimed."""

    @property
    def least(self) -> float:
        """The epsilon shown at least."""

    @property
    def largest(self) -> float:
        """The most that could have been shown."""

    @property
    def violated(self) -> bool:
        """Whether more is shown than was claimed."""

    @property
    def histogram(self) -> Sequence[OutputBar]:
        """What came out on both neighbors."""

    def describe(self) -> str:
        """Return what was found in words."""


def draw(audit: Audited, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of an audit, and its title."""
    import altair as alt

    del confidence
    amounts = {"claimed": audit.epsilon, "shown at least": audit.least, "could be shown": audit.largest}
    rows = [{"what": w, "epsilon": e} for w, e in amounts.items() if math.isfinite(e)]
    color = COLORS[1] if audit.violated else COLORS[0]
    bars = (
        alt.Chart(data_of(rows))
        .mark_bar(color=color)
        .encode(
            y=alt.Y(field="what", type="nominal", title=None, sort=list(amounts)),
            x=alt.X(field="epsilon", type="quantitative"),
            tooltip=[alt.Tooltip(field="what"), alt.Tooltip(field="epsilon")],
        )
        .properties(width=420, height=alt.Step(24))
    )
    panels: list[Any] = [bars]
    if audit.histogram:
        panels.append(_draw_outputs(audit.histogram))
    chart = alt.vconcat(*panels)
    return add_title(chart, title or "Audit: claimed against shown", [audit.describe()], width=480, mark=_MARK)


def _draw_outputs(histogram: Sequence[OutputBar]) -> Any:
    import altair as alt

    rows = [{"output": bar.output, "table": side, "share": getattr(bar, side)} for bar in histogram for side in _SIDES]
    return (
        alt.Chart(data_of(rows))
        .mark_bar(opacity=0.55)
        .encode(
            x=alt.X(
                field="output",
                type="nominal",
                sort=[bar.output for bar in histogram],
                title="output, as the event weighs it",
            ),
            y=alt.Y(field="share", type="quantitative", stack=None, title="share of runs"),
            color=alt.Color(
                field="table", type="nominal", scale=alt.Scale(domain=list(_SIDES), range=list(COLORS[:2]))
            ),
            tooltip=[alt.Tooltip(field=f) for f in ("output", "table", "share")],
        )
        .properties(width=420, height=160)
    )
