"""Odds as people: two arrays of a hundred icons, and accuracy against risk as one curve with what is feasible shaded.

It draws a choice of epsilon and the precision of a question; not how a requirement became an interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any

from sordino.core.accounting.belief import Belief, posterior_bounds
from sordino.core.errors import DeclarationError, arg
from sordino.core.loss import round_up
from sordino.lab.risk.table_choice import TableChoice
from sordino.reporting.picture import COLORS, add_title, data_of, title_of

if TYPE_CHECKING:
    from sordino.reporting.picture import AnyChart

# The most values of epsilon that are named along a curve.
_NAMED = 9
# A curve is drawn down to the least requested error over this.
_REACH = 100.0
# Icons in a row, and rows.
_SIDE = 10
# The part of an icon that rounding may add to a share that is a whole number of icons.
_SLACK = 1e-9
_TINY = 1e-9
_LEAST = "least epsilon"
_MOST = "largest epsilon"
_COLORS = {_LEAST: COLORS[2], _MOST: COLORS[1]}


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """Hold what a picture of accuracy against risk shows.

    `curve` holds (epsilon, error, largest posterior from `prior`) in ascending epsilon, `least` and `most` such points
    at the ends of what is feasible (None: nothing bounds that end), `labels` those named along the curve. `odds` are
    the largest and the least posterior at the epsilon chosen; None where there is none (a conflict). `remarks` go below
    the title.
    """

    subject: str
    prior: float
    curve: Sequence[tuple[float, float, float]]
    labels: Sequence[tuple[float, float, float]] = ()
    least: tuple[float, float, float] | None = None
    most: tuple[float, float, float] | None = None
    chosen: float | None = None
    odds: tuple[float, float] | None = None
    remarks: Sequence[str] = ()


def tradeoff_of(found: TableChoice) -> Tradeoff:
    """Return accuracy against risk over epsilon, with the interval of a choice and the odds at it.

    Raises DeclarationError where no question with an error was stated.
    """
    choice = found.choice
    precision = found.precision
    rows = found.rows
    prior = found.attacker_prior
    if precision is None:
        raise DeclarationError(
            f"a picture of accuracy against risk needs a question and its error: {arg('query=')}, {arg('error=')}"
        )

    def point(epsilon: float) -> tuple[float, float, float]:
        return epsilon, precision.error(epsilon, rows=rows), posterior_bounds(epsilon, prior=prior)[1]

    ends = [e for e in (choice.lower, choice.upper) if 0 < e < math.inf] or [1.0]
    low = min(ends) / 4
    high = max(max(ends) * 4, min(ends) * 40)
    even = [point(low * (high / low) ** (step / 40)) for step in range(41)]
    marked = [point(e) for e in ends]
    # Where an error is far below all that is asked, nothing is seen.
    least = min(error for _, error, _ in marked) / _REACH
    points = sorted([*(p for p in even if p[1] >= least), *marked])
    high = points[-1][0]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [e for power in decades for e in (float(f"1e{power}"), float(f"3e{power}")) if low <= e <= high]
    ticks = ticks[:: math.ceil(len(ticks) / _NAMED)]
    odds = None if choice.epsilon is None or precision.delta else posterior_bounds(choice.epsilon, prior=prior)
    but = f"at delta {float(precision.delta):g}: the posterior reads epsilon alone, and is passed more often than delta"
    return Tradeoff(
        subject=precision.describe(),
        prior=prior,
        curve=points,
        labels=[point(e) for e in ticks],
        least=point(choice.lower) if choice.lower > 0 else None,
        most=point(choice.upper) if choice.upper < math.inf else None,
        chosen=choice.epsilon,
        odds=None if odds is None else (odds[1], odds[0]),
        remarks=[but] if precision.delta else [],
    )


def draw(made: Tradeoff, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of accuracy against risk, with the odds as icons, and its title."""
    import altair as alt

    del confidence
    if not made.curve:
        raise DeclarationError("this trade-off has no curve to draw: give a few values of epsilon")
    panels = [_tradeoff(made)]
    if made.odds is not None:
        panels.append(icon_array(*made.odds))
    chart = alt.hconcat(*panels, spacing=40).resolve_scale(color="independent")
    title = title or f"Accuracy against risk: {made.subject}"
    return add_title(chart, title, made.remarks, width=420 + 330 * (len(panels) - 1))


def icon_array(with_you: float, without_you: float) -> Any:
    """Return two 10 x 10 arrays: of 100 people who would look like this, how many are suspected rightly.

    `with_you` is the largest posterior, after the answer that looks most as it would with you, rounded up to whole
    people; `without_you` the least, after the one that looks most as it would without you, rounded down.

    Raises DeclarationError unless both are from 0 to 1.
    """
    import altair as alt

    for share in (with_you, without_you):
        if not 0 <= share <= 1:
            raise DeclarationError(f"a share of people is from 0 to 1, not {share!r}")
    most = math.ceil(100 * with_you - _SLACK)
    least = math.floor(100 * without_you + _SLACK)
    arrays = [
        _icons(most, f"with you: at most {most}"),
        _icons(least, f"without you: at least {least}"),
    ]
    heading = alt.TitleParams(
        text="Of 100 people who would look like this, suspected rightly",
        subtitle=[
            "after the answer that looks most as it would with you",
            "in the table, and the one that looks most as without you",
        ],
        anchor="start",
        fontSize=12,
        subtitleFontSize=10,
        subtitleColor="#555555",
    )
    return alt.hconcat(*arrays, spacing=24, title=heading)


def _icons(count: int, title: str) -> Any:
    """Return one array of 100 icons, `count` of them filled, row by row from the top."""
    import altair as alt

    rows = [
        {"across": i % _SIDE, "down": i // _SIDE, "suspected": "rightly" if i < count else "wrongly"}
        for i in range(100)
    ]
    color = alt.Color(
        field="suspected",
        type="nominal",
        title=None,
        scale=alt.Scale(domain=["rightly", "wrongly"], range=[COLORS[1], "#d0d0d0"]),
        legend=None,
    )
    return (
        alt.Chart(data_of(rows))
        .mark_point(filled=True, size=130, opacity=1, shape="circle")
        .encode(
            x=alt.X(field="across", type="ordinal", axis=None),
            y=alt.Y(field="down", type="ordinal", axis=None),
            color=color,
            tooltip=[alt.Tooltip(field="suspected")],
        )
        .properties(width=150, height=150, title=alt.TitleParams(text=title, fontSize=12, anchor="start"))
    )


def _notes(tradeoff: Tradeoff) -> list[str]:
    notes = []
    if _conflicting(tradeoff):
        return ["no epsilon meets all requirements: the error needs more than the risk allows"]
    if tradeoff.least is not None or tradeoff.most is not None:
        least = "0" if tradeoff.least is None else _format_epsilon(tradeoff.least[0], ROUND_CEILING)
        most = "any" if tradeoff.most is None else _format_epsilon(tradeoff.most[0], ROUND_FLOOR)
        notes.append(f"shaded: the requirements are met, epsilon from {least} to {most}")
    if tradeoff.chosen is not None and tradeoff.odds is not None:
        inside = ROUND_FLOOR if tradeoff.least is None else ROUND_CEILING
        notes.append(f"icons: at the chosen epsilon, {_format_epsilon(tradeoff.chosen, inside)}")
    return notes


def _format_epsilon(epsilon: float, rounding: str) -> str:
    """Return an epsilon of 6 digits, rounded towards the inside of what is feasible."""
    cut = Context(prec=6, rounding=rounding).create_decimal(Decimal(repr(epsilon)))
    return f"{float(cut):.6g}"


def _conflicting(tradeoff: Tradeoff) -> bool:
    return tradeoff.least is not None and tradeoff.most is not None and tradeoff.least[0] > tradeoff.most[0]


def _tradeoff(tradeoff: Tradeoff) -> Any:
    """Return the curve with names of epsilon along it, the ends as marks, and the feasible band."""
    import altair as alt

    # An error that is 0, or nearly, has no place on a log scale.
    log = tradeoff.curve[-1][1] > _TINY * tradeoff.curve[0][1]
    x = alt.X(
        field="error",
        type="quantitative",
        title="error of the answer",
        scale=alt.Scale(type="log" if log else "symlog", zero=False, nice=False),
        axis=alt.Axis(format="~g", tickCount=5),
    )
    y = alt.Y(
        field="posterior",
        type="quantitative",
        title=f"largest posterior of what has {tradeoff.prior:.4g} before",
        scale=alt.Scale(domain=[0, 1]),
    )
    tips = [alt.Tooltip(field=name) for name in ("epsilon", "error", "posterior")]
    order = alt.Order(field="epsilon", type="quantitative")
    curve = alt.Chart(data_of(_rows(tradeoff.curve))).mark_line(strokeWidth=1.8, color=COLORS[0])
    named = alt.Chart(data_of(_rows(tradeoff.labels)))
    layers = [
        *_band(tradeoff),
        curve.encode(x=x, y=y, order=order, tooltip=tips),
        named.mark_point(filled=True, size=22, color=COLORS[0], opacity=1).encode(x=x, y=y, tooltip=tips),
        named.mark_text(align="left", dx=6, dy=-7, fontSize=10).encode(x=x, y=y, text=alt.Text(field="epsilon")),
        *_ends(tradeoff, x, y, tips),
    ]
    heading = title_of("Epsilon, named along the curve", _notes(tradeoff), width=420, alarm=False)
    heading.fontSize = 12
    heading.subtitleFontSize = 10
    return alt.layer(*layers, width=380, height=260, title=heading)


def _ends(tradeoff: Tradeoff, x: Any, y: Any, tips: list[Any]) -> list[Any]:
    import altair as alt

    ends = [(name, at) for name, at in ((_LEAST, tradeoff.least), (_MOST, tradeoff.most)) if at is not None]
    if not ends:
        return []
    rows = [{**row, "end": name} for name, at in ends for row in _rows([at])]
    color = alt.Color(
        field="end",
        type="nominal",
        title=None,
        scale=alt.Scale(domain=[name for name, _ in ends], range=[_COLORS[name] for name, _ in ends]),
        legend=alt.Legend(orient="bottom"),
    )
    dots = alt.Chart(data_of(rows)).mark_point(filled=True, size=80, opacity=1)
    return [dots.encode(x=x, y=y, color=color, tooltip=[alt.Tooltip(field="end"), *tips])]


def _band(tradeoff: Tradeoff) -> list[Any]:
    """Return the band of errors between the ends, the edge of the curve where nothing bounds an end."""
    import altair as alt

    if _conflicting(tradeoff) or (tradeoff.least is None and tradeoff.most is None):
        return []
    low = tradeoff.most or tradeoff.curve[-1]
    high = tradeoff.least or tradeoff.curve[0]
    rows = [{"error": low[1], "until": high[1]}]
    band = alt.Chart(data_of(rows)).mark_rect(color=COLORS[2], opacity=0.15)
    return [band.encode(x=alt.X(field="error", type="quantitative"), x2=alt.X2(field="until"))]


def _rows(points: Sequence[tuple[float, float, float]]) -> list[dict[str, Any]]:
    return [{"epsilon": e, "error": t, "posterior": q} for e, t, q in points]


def draw_belief(belief: Belief, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of what anybody can come to believe, from whatever they believed before, and its title.

    Raises DeclarationError where nothing bounds the belief.
    """
    import altair as alt

    del confidence
    if not math.isfinite(belief.epsilon):
        raise DeclarationError("nothing bounds what this release reveals at its delta: there is no curve to draw")
    rows = []
    for percent in range(1, 100):
        least, most = posterior_bounds(belief.epsilon, prior=percent / 100)
        rows.append({"before": percent / 100, "least": least, "most": most})
    x = alt.X(
        "before:Q", title="how sure before", axis=alt.Axis(format="%", tickCount=5), scale=alt.Scale(domain=[0, 1])
    )
    y = alt.Y(
        "least:Q", title="how sure afterwards", axis=alt.Axis(format="%", tickCount=5), scale=alt.Scale(domain=[0, 1])
    )
    base = alt.Chart(data_of(rows)).encode(x=x)
    band = base.mark_area(opacity=0.25, color=COLORS[0]).encode(y=y, y2="most:Q")
    unmoved = base.mark_line(strokeDash=[5, 3], color="#555555").encode(y="before:Q")
    even = [
        {"before": 0.5, "at": at, "word": word} for at, word in ((belief.most, belief.percent), (1 - belief.most, ""))
    ]
    points = alt.Chart(data_of(even)).encode(x=x, y="at:Q")
    marks = points.mark_point(filled=True, size=60, color=COLORS[1], opacity=1)
    word = points.mark_text(color=COLORS[1], align="right", dx=-8, dy=-6).encode(text="word:N")
    note = "band: wherever the answer may move them; dashed: as sure as before; points: from even odds"
    if belief.chance:
        note += f"; each end is passed with probability at most {round_up(belief.chance, digits=2)}"
    chart = (band + unmoved + marks + word).properties(width=360, height=360)
    return add_title(chart, title or "What anyone can come to believe of one person", [note], width=620)
