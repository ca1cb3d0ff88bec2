"""Pictures of released histograms: one with its errors, several of one column, drawn rows beside one, a table of two columns.

It sees released numbers, and rows that were drawn from them; what is NOT PRIVATE comes with a mark.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.estimates.weighted_sum import normal_quantile
from sordino.reporting.picture import COLORS, data_of, mark_title, title_of
from sordino.reporting.synth import SEEDED, Histograms, bins_of, draw_histograms
from sordino.synth.encoded_column import encode_table, label_of
from sordino.synth.histogram import Representation

if TYPE_CHECKING:
    from sordino.reporting.picture import AnyChart

_EXACT = "exact counts"
# Cells of a table of two columns.
_MOST_CELLS = 20_000
# Values on an axis of a table that all have room.
_MOST_ROWS = 60


def is_compared(things: Sequence[Any]) -> bool:
    """Return whether things are released histograms, perhaps with tables of rows that were drawn from them."""
    return bool(things) and isinstance(things[0], Representation) and all(map(_is_known, things))


def draw(thing: Representation, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a released histogram: each count with its error band, negative ones as they are.

    Of two columns it is a table of colors.
    """
    if thing.others:
        return _draw_table(thing, title)
    histograms = _histograms_of(thing, confidence, _kind(thing))
    words = "exactly" if thing.is_exact else "of synthetic rows" if thing.is_synthetic else "as released"
    caption = title or f"{histograms.column}, {words}"
    remarks = [
        *([] if thing.is_exact or thing.is_synthetic else [f"band: {100 * confidence:g}% interval of each count"]),
        thing.facts,
    ]
    return draw_histograms(
        Histograms(
            histograms.column,
            histograms.bins,
            histograms.series,
            histograms.errors,
            histograms.ordered,
            histograms.mark,
            remarks,
        ),
        confidence,
        caption,
    )


def draw_several(things: Sequence[Any], confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of several released histograms of one column over the same bins.

    Drawn rows, an Arrow table, are counted in the bins of the first; then each series is drawn as shares of its rows.
    """
    if any(one.others for one in things if isinstance(one, Representation)):
        raise DeclarationError("histograms drawn together are of one column; sd.plot draws one of two columns alone")
    row_tables = [one for one in things if not isinstance(one, Representation)]
    histograms = [_series(things[0], one, i + 1, confidence, shares=bool(row_tables)) for i, one in enumerate(things)]
    if len({(m.column, tuple(m.bins)) for m in histograms}) != 1:
        raise DeclarationError("histograms drawn together are of one column over the same bins")
    first = histograms[0]
    mark = next((m.mark for m in histograms if m.mark is not None), None)
    series = [s for m in histograms for s in m.series]
    axis = "share of rows" if row_tables else "rows"
    together = Histograms(first.column, first.bins, series, (), first.ordered, mark, (), axis)
    return draw_histograms(together, confidence, title)


def _series(first: Representation, thing: Any, place: int, confidence: float, *, shares: bool) -> Histograms:
    """Return one of several things as a series over its bins."""
    if isinstance(thing, Representation):
        if not shares:
            words = "exact counts" if thing.is_exact else thing.facts.split(";")[0]
            return _histograms_of(thing, confidence, f"{place}: {words}")
        bins, ordered = bins_of(thing.column, None, unit=float(thing.unit))
        name = f"{place}: {_kind(thing)} probabilities"
        return Histograms(
            thing.column.name, bins, [(name, thing.probabilities().tolist())], (), ordered, _mark_of(thing)
        )
    [keys] = encode_table(thing, [first.column])
    bins, ordered = bins_of(first.column, None, unit=float(first.unit))
    counts = np.bincount(keys[keys >= 0], minlength=first.column.size)
    row_shares = (counts / max(int(counts.sum()), 1)).tolist()
    raw = "PRIVATE" in ((thing.schema.metadata or {}).get(b"sordino", b"")).decode()
    mark = "raw rows are shown" if raw else None
    return Histograms(first.column.name, bins, [(f"{place}: {len(keys):,} rows", row_shares)], (), ordered, mark)


def _histograms_of(thing: Representation, confidence: float, name: str) -> Histograms:
    """Return a released histogram as counts over its bins, with the reach of each count's interval."""
    bins, ordered = bins_of(thing.column, None, unit=float(thing.unit))
    counts = [float(v) for v in thing.counts()]
    errors = [] if thing.is_exact or thing.is_synthetic else [(name, _reach(thing, bins, confidence))]
    return Histograms(thing.column.name, bins, [(name, counts)], errors, ordered, _mark_of(thing))


def _kind(thing: Representation) -> str:
    """Return whose counts these are, in a word."""
    return "exact" if thing.is_exact else "synthetic" if thing.is_synthetic else "released"


def _mark_of(thing: Representation) -> str | None:
    if thing.is_exact:
        return _EXACT
    return SEEDED if thing.facts.startswith("NOT PRIVATE") else None


def _reach(thing: Representation, bins: Sequence[Any], confidence: float) -> list[float]:
    """Return the error of each count: that of its own range, which all share where there is no order."""
    if not 0 < confidence < 1:
        raise DeclarationError("confidence must lie between 0 and 1, such as 0.95")
    keyed: Any = thing.column
    if not keyed.ordered:
        return [normal_quantile(confidence) * float(thing.levels[0].variance) ** 0.5] * len(bins)
    upper = keyed.column.upper
    beyond = upper + (datetime.timedelta(days=1) if isinstance(upper, datetime.date) else 1)
    inner = bins[:-1] if keyed.missing else bins
    errors = [float(thing.range(a, b).error(confidence)) for a, b in itertools.pairwise([*inner, beyond])]
    return [*errors, errors[-1]] if keyed.missing else errors


def _draw_table(thing: Representation, title: str | None) -> tuple[AnyChart, str]:
    """Return the counts of two columns as colors, the longer column to the right."""
    import altair as alt

    counts = thing.counts()
    if counts.ndim != 2 or counts.size > _MOST_CELLS:
        raise DeclarationError(
            f"sd.plot draws a histogram of one column, or of two with {_MOST_CELLS:,} cells at most, not of "
            f"{len(thing.columns)} with {counts.size:,}; give a width"
        )
    across, down = thing.columns
    if across.size < down.size:
        across, down = down, across
        counts = counts.T
    names = [["(missing)" if (v := label_of(c, k)) is None else str(v) for k in range(c.size)] for c in (across, down)]
    rows = [
        {across.name: a, down.name: d, "rows": float(counts[i, j])}
        for i, a in enumerate(names[0])
        for j, d in enumerate(names[1])
    ]
    labels = [alt.Axis(labelOverlap=len(n) > _MOST_ROWS, labelLimit=140, ticks=False) for n in names]
    x = alt.X(field=across.name, type="ordinal", sort=names[0], axis=labels[0], title=across.name)
    y = alt.Y(field=down.name, type="ordinal", sort=names[1], axis=labels[1], title=down.name)
    color = alt.Color(
        "rows:Q",
        title="rows",
        scale=alt.Scale(range=["#ffffff", COLORS[0]], interpolate="rgb", domainMin=0, clamp=True),
    )
    tips = [alt.Tooltip(field=f) for f in (across.name, down.name, "rows")]
    width = max(160, min(560, 12 * len(names[0])))
    height = max(80, min(420, 16 * len(names[1])))
    chart = alt.Chart(data_of(rows)).mark_rect().encode(x=x, y=y, color=color, tooltip=tips)
    words = "as released; counts below 0 are drawn as 0"
    if thing.is_exact or thing.is_synthetic:
        words = "exactly" if thing.is_exact else "of synthetic rows"
    caption = mark_title(title or f"{across.name} and {down.name}, {words}", _mark_of(thing))
    heading = title_of(caption, [thing.facts], width=width + 120, alarm=_mark_of(thing) is not None)
    return chart.properties(width=width, height=height, title=heading), caption


def _is_known(one: Any) -> bool:
    return isinstance(one, Representation) or (hasattr(one, "column_names") and hasattr(one, "schema"))
