"""Pictures of attacks: what was achieved, what guessing does and what theory allows; and how far the closest records lie.

And one self-contained page of them for a board: why noise is needed, and that it works; all words are escaped, and it loads
nothing. It sees figures, not rows; the title says NOT PRIVATE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sordino.reporting.picture import COLORS, add_title, data_of

if TYPE_CHECKING:
    from sordino.reporting.picture import AnyChart
from sordino.reporting.picture import render

_MARK = "true rows say where an attack was right"
_MOST_POINTS = 400
_WIDTH = 420


@runtime_checkable
class Attacking(Protocol):
    """An attack on several releases, as a picture needs it."""

    @property
    def name(self) -> str:
        """What the attack is."""

    @property
    def measure(self) -> str:
        """What its numbers are."""

    @property
    def results(self) -> Sequence[Any]:
        """What was achieved on each release."""

    @property
    def way(self) -> str:
        """How it goes."""


@runtime_checkable
class Together(Protocol):
    """Several attacks on releases of the same rows."""

    @property
    def attacks(self) -> Sequence[Attacking]:
        """The attacks."""

    @property
    def title(self) -> str:
        """What they are on."""

    @property
    def subject(self) -> str:
        """Whose rows they are."""


@runtime_checkable
class Distant(Protocol):
    """The distances of published rows from the closest members, and from the closest others."""

    @property
    def results(self) -> Sequence[Any]:
        """The distances of each release, sorted."""

    @property
    def members(self) -> int:
        """How many rows were published."""

    @property
    def others(self) -> int:
        """How many rows were not."""


def draw(attack: Attacking, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of an attack, and its title."""
    del confidence
    return add_title(_panel(attack), title or attack.name, [f"{attack.measure}."], width=_WIDTH + 240, mark=_MARK)


def draw_together(attacks: Together, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of several attacks, one below the other, and its title."""
    import altair as alt

    del confidence
    chart = alt.vconcat(*(_panel(one, name=one.name) for one in attacks.attacks)).resolve_scale(color="shared")
    return add_title(chart, title or attacks.title, [f"{attacks.subject}."], width=_WIDTH + 240, mark=_MARK)


def _panel(attack: Attacking, name: str | None = None) -> Any:
    """Return bars of what was achieved, with a mark for guessing and one for what theory allows."""
    import altair as alt

    order = [f"{r.release} ({r.loss})" for r in attack.results]
    words = ("achieved", "guessing", "theory allows")
    rows = [
        {"release": where, "what": what, "rate": rate}
        for where, r in zip(order, attack.results, strict=True)
        for what, rate in zip(words, (r.achieved, r.guessing, r.allowed), strict=True)
    ]
    base = alt.Chart(data_of(rows)).encode(
        y=alt.Y(
            field="release", type="nominal", sort=order, title=None, axis=alt.Axis(labelLimit=260, labelFontSize=12)
        ),
        x=alt.X(
            field="rate",
            type="quantitative",
            title=attack.measure,
            scale=alt.Scale(domainMin=0, domainMax=1),
            axis=alt.Axis(labelFontSize=12),
        ),
        color=alt.Color(
            field="what",
            type="nominal",
            title=None,
            scale=alt.Scale(domain=list(words), range=list(COLORS[:3])),
            # beside the panels it would make the page show everything smaller
            legend=alt.Legend(orient="bottom", labelFontSize=12),
        ),
        tooltip=[alt.Tooltip(field=f) for f in ("release", "what", "rate")],
    )
    bars = base.transform_filter("datum.what == 'achieved'").mark_bar(height=12, clip=True)
    ticks = base.transform_filter("datum.what != 'achieved'").mark_tick(thickness=3, height=20)
    more: dict[str, Any] = {} if name is None else {"title": alt.TitleParams(text=name, anchor="start", fontSize=13)}
    return (bars + ticks).properties(width=_WIDTH, height=alt.Step(26), **more)


def draw_closest(found: Distant, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of closest records: the share of published rows within each distance, and its title."""
    import altair as alt

    del confidence
    rows = [
        {"release": one.release, "closest": side, "distance": distance, "share": (place + 1) / len(ordered)}
        for one in found.results
        for side, ordered in (("member", one.members), ("other", one.others))
        for place, distance in _thin(ordered)
    ]
    names = [one.release for one in found.results]
    chart = (
        alt.Chart(data_of(rows))
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X(field="distance", type="quantitative", title="distance from the closest one"),
            y=alt.Y(field="share", type="quantitative", title="share of published rows within it"),
            color=alt.Color(
                field="release", type="nominal", scale=alt.Scale(domain=names, range=list(COLORS[: len(names)]))
            ),
            strokeDash=alt.StrokeDash(field="closest", type="nominal", title="the closest"),
            tooltip=[alt.Tooltip(field=f) for f in ("release", "closest", "distance", "share")],
        )
        .properties(width=_WIDTH, height=240)
    )
    notes = [
        f"From {found.members:,} members and {found.others:,} others: where a line of members lies above, rows were copied."
    ]
    return add_title(chart, title or "Distance to the closest record", notes, width=_WIDTH + 120, mark=_MARK)


def _thin(ordered: Sequence[float]) -> list[tuple[int, float]]:
    """Return places and distances, at most a few hundred of them, the last among them."""
    step = max(1, len(ordered) // _MOST_POINTS)
    places = sorted({*range(0, len(ordered), step), len(ordered) - 1})
    return [(place, ordered[place]) for place in places]


def attack_page(attacks: Any) -> str:
    """Return the page of several attacks as HTML, A4 when printed; its policy forbids the browser to load or run anything."""
    private = [r.achieved - r.allowed for one in attacks.attacks for r in one.results if r.epsilon is not None]
    return render("attack.html", found=attacks, within=sum(x <= 0 for x in private), private=len(private))
