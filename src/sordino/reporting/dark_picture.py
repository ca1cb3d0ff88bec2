"""A picture for dark pages: the same chart, its ground dark and its words light. It changes no mark and no number."""

from __future__ import annotations

from sordino.reporting.picture import Picture

__all__ = ["darken"]

_GROUND, _WORDS, _LINES = "#1b1e24", "#e6e8ec", "#3a3f49"


def darken(picture: Picture) -> Picture:
    """Return the picture with a dark ground; bars and lines keep their colors, which stand out on both."""
    chart = picture.chart.configure(background=_GROUND)
    chart = chart.configure_axis(
        gridColor=_LINES, domainColor=_WORDS, tickColor=_WORDS, labelColor=_WORDS, titleColor=_WORDS
    )
    chart = chart.configure_title(color=_WORDS, subtitleColor=_WORDS)
    chart = chart.configure_legend(labelColor=_WORDS, titleColor=_WORDS)
    chart = chart.configure_header(labelColor=_WORDS, titleColor=_WORDS)
    return Picture(chart.configure_view(stroke=_LINES), picture.title)
