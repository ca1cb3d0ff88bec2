"""A picture for dark pages: the same chart, its ground dark and its words light. It changes no number."""

from __future__ import annotations

from typing import Any

from sordino.reporting.picture import Picture

_GROUND, _WORDS, _LINES = "#1b1e24", "#e6e8ec", "#3a3f49"
_FINE = "#a9b0bb"
_LIGHTER = {
    "black": _WORDS,
    "#000000": _WORDS,
    "#222222": _WORDS,
    "#333333": _WORDS,
    "#444444": _FINE,
    "#555555": _FINE,
    "#666666": _FINE,
    "#0072b2": "#4d9fd6",
}
_WHITE, _MIDDLE = "#ffffff", "#2b313a"  # of a scale from one color to another, whose cells hold words


def darken(picture: Picture) -> Picture:
    """Return the picture with a dark ground: what was drawn dark is light; other colors stand out on both."""
    import altair as alt

    chart: Any = alt.Chart.from_dict(_lighten(picture.spec()))
    chart = chart.configure(background=_GROUND)
    chart = chart.configure_axis(
        gridColor=_LINES, domainColor=_WORDS, tickColor=_WORDS, labelColor=_WORDS, titleColor=_WORDS
    )
    chart = chart.configure_title(color=_WORDS, subtitleColor=_FINE)
    chart = chart.configure_legend(labelColor=_WORDS, titleColor=_WORDS)
    chart = chart.configure_header(labelColor=_WORDS, titleColor=_WORDS)
    chart = chart.configure_text(color=_WORDS)
    return Picture(chart.configure_view(stroke=_LINES), picture.title)


def _lighten(part: Any) -> Any:
    """Return a part of a specification in which dark colors are light; the data in it stays."""
    if isinstance(part, dict):
        return {name: value if name in ("datasets", "data") else _lighten(value) for name, value in part.items()}
    if isinstance(part, list) and _WHITE in part:
        return [_MIDDLE if value == _WHITE else value for value in part]
    if isinstance(part, list):
        return [_lighten(value) for value in part]
    return _LIGHTER.get(part, part) if isinstance(part, str) else part
