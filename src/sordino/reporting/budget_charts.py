"""The picture of a budget's path: what was spent over time, under the cap and under the allowance of each period."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.core.errors import DeclarationError
from sordino.core.ledger.allowance import AllowanceSums
from sordino.core.ledger.ledger import Ledger
from sordino.reporting.picture import COLORS, add_title, data_of, join_panels

if TYPE_CHECKING:
    from sordino.core.ledger.records import Charge
    from sordino.reporting.picture import AnyChart

_WIDTH = 420
_HEIGHT = 240


def draw(ledger: Ledger, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a ledger and its title, a panel for each amount that the cap counts; nothing of it is an estimate.

    Raises DeclarationError where nothing was charged so far.
    """
    del confidence
    charges = ledger.charges()
    if not charges:
        raise DeclarationError("nothing was charged to this budget so far: there is no path to draw")
    now = ledger.writer.now()
    sums = ledger.allowance()
    notes = [f"{len(charges):,} charges, each where it was made; the dashed line is the cap of {ledger.cap.describe()}"]
    if sums is not None:
        notes.append(f"the red line is what may be spent by then: {sums.at(sums.current(now)).describe()}")
    names = [name for name, most in ledger.cap.amounts().items() if most]
    panels = [_panel(charges, name, ledger.cap.amounts()[name], sums, now) for name in names]
    title = title or f"Spent: {ledger.spent().describe()}"
    return add_title(join_panels(panels), title, notes, width=80 + len(panels) * (_WIDTH + 60))


def _panel(charges: list[Charge], name: str, cap: Fraction, sums: AllowanceSums | None, now: str) -> Any:
    """Return the panel of one amount."""
    import altair as alt

    first = charges[0].time
    rows = [{"time": first, "spent": 0.0}]
    ceilings: dict[str, float] = {}
    spent = Fraction(0)
    for charge in charges:
        if sums is not None:
            # a period's ceiling is what was spent before it, and its allowance
            period = _begin(sums, charge.time)
            ceilings.setdefault(period, float(min(cap, spent + sums.at(charge.time[:7]).amounts[name])))
        spent += charge.amounts[name]
        rows.append({"time": charge.time, "spent": float(spent), "charge": charge.id})
    rows.append({"time": max(now, charges[-1].time), "spent": float(spent)})
    x = alt.X("time:T", title=None)
    y = alt.Y("spent:Q", title=name, scale=alt.Scale(domain=[0, float(cap) * 1.05]))
    path = alt.Chart(data_of(rows)).mark_line(interpolate="step-after", color=COLORS[0]).encode(x=x, y=y)
    top = alt.Chart(data_of([{"spent": float(cap)}])).mark_rule(strokeDash=[6, 4], color="#555555").encode(y="spent:Q")
    layers = path + top
    if sums is not None and not sums.at(now[:7]).rolling:
        steps = [{"time": max(begin, first), "spent": most} for begin, most in ceilings.items()]
        steps.append({"time": rows[-1]["time"], "spent": steps[-1]["spent"]})
        layers += (
            alt.Chart(data_of(steps)).mark_line(interpolate="step-after", color="#c0392b", opacity=0.6).encode(x=x, y=y)
        )
    return layers.properties(width=_WIDTH, height=_HEIGHT)


def _begin(sums: AllowanceSums, time: str) -> str:
    """Return the first moment of the period that a charge was made in."""
    month = time[:7]
    return f"{sums.at(month).window(month)[0]}-01T00:00:00.000Z"
