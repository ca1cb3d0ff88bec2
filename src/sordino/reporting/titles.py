"""What all pictures share: titles in lines, the mark NOT PRIVATE, colors, rows as inline data. It knows no subject."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt

    AnyChart = alt.LayerChart | alt.FacetChart | alt.HConcatChart | alt.VConcatChart

NOT_PRIVATE = "NOT PRIVATE"
SEEDED = "its noise was seeded"
COLORS = (  # Okabe and Ito's, distinct to the color-blind, then darker ones
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"),
    *("#7f3c8d", "#8c564b", "#999999", "#4b5320", "#b22222"),
)


def mark_title(title: str, mark: str | None) -> str:
    """Return a title that starts with the mark.

    >>> mark_title("Ages", "its noise was seeded")
    'NOT PRIVATE (its noise was seeded): Ages'
    """
    return title if mark is None else f"{NOT_PRIVATE} ({mark}): {title}"


def title_of(title: str, notes: Sequence[str], *, width: int, alarm: bool) -> alt.TitleParams:
    """Return a title and its notes in lines that fit a picture of `width`; in red where `alarm`."""
    import altair as alt

    more: dict[str, Any] = {"color": "#b22222"} if alarm else {}
    return alt.TitleParams(
        text=_lines(title, width * 10 // 93),  # DejaVu, the widest font that a plain system falls back on, fits too
        subtitle=[line for note in notes for line in _lines(note, width * 10 // 66)],
        anchor="start",
        fontSize=14,
        subtitleFontSize=11,
        subtitleColor="#555555",
        offset=12,
        **more,
    )


def add_title(
    chart: Any, title: str, notes: Sequence[str], *, width: int, mark: str | None = None
) -> tuple[AnyChart, str]:
    """Return a chart under its title and notes, and the title as text: in red, and NOT PRIVATE, where there is a `mark`."""
    words = mark_title(title, mark)
    return chart.properties(title=title_of(words, notes, width=width, alarm=mark is not None)), words


def join_panels(panels: Sequence[Any]) -> Any:
    """Return panels side by side, or the only one by itself."""
    import altair as alt

    return panels[0] if len(panels) == 1 else alt.hconcat(*panels)


def data_of(rows: Sequence[dict[str, Any]]) -> Any:
    """Return rows as data inside a chart, however many."""
    import altair as alt

    return alt.Data(values=list(rows))  # type: ignore[no-untyped-call]


def _lines(text: str, room: int) -> list[str]:
    return textwrap.wrap(text, max(30, room)) or [""]
