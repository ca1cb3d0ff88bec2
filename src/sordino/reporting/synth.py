"""Pictures of synthetic data: histograms beside each other, accuracy against epsilon, what a model holds.

It sees released numbers; what is NOT PRIVATE comes with a mark. It may not know synthesizers.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sordino.core.errors import DeclarationError
from sordino.reporting.picture import COLORS, data_of, mark_title, title_of

if TYPE_CHECKING:
    from sordino.reporting.picture import AnyChart
    from sordino.synth.evaluation.evaluation import Evaluation

ACCURACY_COLUMNS = ("method", "epsilon", "distance")
OPEN = "computed on the table itself"
SEEDED = "its noise was seeded"
# The bin of a missing value.
MISSING = "(missing)"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_EPOCH = datetime.date(1970, 1, 1)
# The most labels of a column without an order.
_MOST_LABELS = 60
# The most labels that all have room.
_MOST_NAMED = 40
_MOST_PANELS = 12
_HEAT = ("#d55e00", "#ffffff", "#0072b2")


@dataclass(frozen=True, slots=True)
class Histograms:
    """Hold counts over the same bins to be drawn together: an original and a synthetic one, or several ways to one.

    `bins` are labels, or numbers where `ordered`: the lower end of each. `series` maps a name to its counts, `errors` a
    name to the reach of each count's interval. `mark` says why it is NOT PRIVATE, None where it is private. `axis` says what
    is counted.
    """

    column: str
    bins: Sequence[Any]
    series: Sequence[tuple[str, Sequence[float]]]
    errors: Sequence[tuple[str, Sequence[float]]] = ()
    ordered: bool = True
    mark: str | None = None
    remarks: Sequence[str] = ()
    axis: str = "rows"

    def __post_init__(self) -> None:
        lengths = {len(self.bins), *(len(v) for _, v in (*self.series, *self.errors))}
        if len(lengths) != 1 or not self.bins or not self.series:
            raise DeclarationError("histograms drawn together have one count, and one error, for each bin")


@dataclass(frozen=True, slots=True)
class Ways:
    """Hold mean distances by the number of columns: the value, its error from the noise of asking, the sampling floor."""

    rows: Sequence[tuple[int, float, float, float]]
    mark: str | None = None
    remarks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Matrices:
    """Hold square matrices of correlations over the same columns; None where noise hides one."""

    columns: Sequence[str]
    matrices: Sequence[tuple[str, Sequence[Sequence[float | None]]]]
    mark: str | None = None
    remarks: Sequence[str] = ()


def is_accuracy(thing: Any) -> bool:
    """Return whether a thing is a table of accuracies: the columns method, epsilon, distance, and perhaps ways and seed."""
    names = getattr(thing, "column_names", None)
    return names is not None and hasattr(thing, "to_pylist") and all(n in names for n in ACCURACY_COLUMNS)


def draw_histograms(made: Histograms, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of histograms over the same bins: bars for the first, lines or ticks for the others."""
    import altair as alt

    del confidence
    caption = mark_title(title or f"{made.column}: {', '.join(n for n, _ in made.series)}", made.mark)
    chart = _panel(made, width=520, height=260)
    heading = title_of(caption, made.remarks, width=560, alarm=made.mark is not None)
    return alt.layer(chart, title=heading), caption


def draw_model(model: Any, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of what a model holds of each column by itself, at most twelve columns."""
    import altair as alt

    del confidence
    parts = model.parts
    mark = None if model.private else SEEDED
    caption = mark_title(title or f"A model of {model.facts.get('table', 'a table')}, each column by itself", mark)
    columns = list(enumerate(parts.columns))[:_MOST_PANELS]
    panels = []
    for i, column in columns:
        bins, ordered = bins_of(column, parts.domain)
        one = Histograms(column.name, bins, [("model", _one_way(parts, i))], ordered=ordered)
        panels.append(_panel(one, width=170, height=100, titled=True))
    rows = [alt.hconcat(*panels[i : i + 3], spacing=24) for i in range(0, len(panels), 3)]
    more = len(parts.columns) - len(columns)
    remarks = [model.describe(), *([f"the first {len(columns)} columns; {more} more"] if more else [])]
    heading = title_of(caption, remarks, width=660, alarm=mark is not None)
    return alt.vconcat(*rows, spacing=18, title=heading), caption


def draw_accuracy(table: Any, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of accuracy against epsilon: a line a method, a panel for each number of columns.

    `table` has the columns method, epsilon, distance, and perhaps ways, seed (drawn as mean with least and most) and
    floor. Metadata "sordino" says why it is NOT PRIVATE.
    """
    import altair as alt

    del confidence
    rows = [{"ways": 2, **row} for row in table.to_pylist()]
    rows = [r for r in rows if r["distance"] is not None and r["epsilon"] > 0]
    if not rows:
        raise DeclarationError("this table of accuracies has no row to draw")
    meta = (table.schema.metadata or {}).get(b"sordino", b"").decode()
    mark = "distances to the table itself" if "PRIVATE" in meta else None
    caption = mark_title(title or "Accuracy against epsilon", mark)
    methods = list(dict.fromkeys(r["method"] for r in rows))
    color = alt.Color(
        "method:N", title=None, sort=methods, scale=alt.Scale(domain=methods, range=list(COLORS[: len(methods)]))
    )
    panels = [
        _accuracy([r for r in rows if r["ways"] == ways], ways, color) for ways in sorted({r["ways"] for r in rows})
    ]
    remarks = [
        "mean total-variation distance: 0 alike, 1 apart; where there are several seeds, the bar is least to most"
    ]
    heading = title_of(caption, remarks, width=80 + 340 * len(panels), alarm=mark is not None)
    return alt.hconcat(*panels, title=heading), caption


def draw_ways(made: Ways, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of distances by the number of columns, with the sampling floor as a tick."""
    import altair as alt

    del confidence
    caption = mark_title(title or "Distance from the original", made.mark)
    # a mean that its noise hides has no bar: only how far it may reach
    rows = [
        {
            "ways": f"{w} column{'s' * (w != 1)}",
            "value": None if e and v <= e else v,
            "low": max(v - e, 0.0),
            "high": v + e,
            "floor": f,
        }
        for w, v, e, f in made.rows
    ]
    names = [str(row["ways"]) for row in rows]
    y = alt.Y("ways:N", sort=names, scale=alt.Scale(domain=names), title=None)
    base = alt.Chart(data_of(rows)).encode(y=y)
    bars = base.mark_bar(opacity=0.65, color=COLORS[0]).encode(
        x=alt.X("value:Q", title="mean total-variation distance"), tooltip=["ways:N", "value:Q", "floor:Q"]
    )
    ends = base.mark_rule(strokeWidth=1.4).encode(x="low:Q", x2="high:Q")
    floor = base.mark_tick(color=COLORS[1], thickness=3, size=22).encode(x="floor:Q")
    remarks = ["orange: the floor, the distance of as many rows sampled from the original itself", *made.remarks]
    heading = title_of(caption, remarks, width=520, alarm=made.mark is not None)
    return alt.layer(bars, ends, floor, width=420, height=alt.Step(34), title=heading), caption


def draw_evaluation(evaluation: Evaluation, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of an evaluation: distances by the number of columns, and the correlations if they were asked for."""
    import altair as alt

    e = evaluation
    mark = None if evaluation.private else OPEN if evaluation.exact else SEEDED
    figures = [(w, e.mean(w), 0.0 if e.exact else e.error(w, confidence), e.floor(w)) for w in e.ways]
    remarks = (*e.figures(), e.cost)
    above, caption = draw_ways(Ways(figures, mark, remarks), confidence, title or "Synthetic rows beside the table")
    if e.correlations is None:
        return above, caption
    below = []
    for kind in (e.correlations, e.pearson):
        if kind is not None:
            pair = [("synthetic", kind.synthetic), ("original", kind.original)]
            title = f"Correlations ({kind.kind})"
            below.append(draw_matrices(Matrices(kind.columns, pair, mark), confidence, title)[0])
    return alt.vconcat(above, *below), caption


def draw_matrices(made: Matrices, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of matrices of correlations side by side."""
    import altair as alt

    del confidence
    caption = mark_title(title or "Correlations", made.mark)
    names = list(made.columns)
    side = max(150, 24 * len(names))
    color = alt.Color(
        "value:Q",
        title=None,
        scale=alt.Scale(domain=[-1, 0, 1], range=list(_HEAT), interpolate="rgb"),
        legend=alt.Legend(orient="bottom"),
    )
    panels = []
    for i, (name, matrix) in enumerate(made.matrices):
        rows = [
            {"row": a, "column": b, "value": v, "told": "" if v is None else f"{round(v, 2) + 0.0:.2f}"}
            for a, line in zip(names, matrix, strict=True)
            for b, v in zip(names, line, strict=True)
        ]
        axis = alt.Axis(title=None, labels=i == 0, ticks=i == 0)
        base = alt.Chart(data_of(rows)).encode(
            x=alt.X("column:N", sort=names, axis=alt.Axis(title=None, labelAngle=-60)),
            y=alt.Y("row:N", sort=names, axis=axis),
        )
        heat = base.mark_rect().encode(color=color, tooltip=["row:N", "column:N", "told:N"])
        text = base.mark_text(fontSize=9).encode(text="told:N")
        panels.append(alt.layer(heat, text, width=side, height=side, title=name))
    heading = title_of(caption, made.remarks, width=120 + side * len(panels), alarm=made.mark is not None)
    return alt.hconcat(*panels, title=heading), caption


# ---- inside


def _panel(histograms: Histograms, *, width: int, height: int, titled: bool = False) -> Any:
    """Return one panel: the first series as bars (and its errors as whiskers), the others as lines or points."""
    import altair as alt

    kind, order, absent = _axis_of(histograms)
    if not histograms.ordered and len(order) > _MOST_LABELS:
        order = sorted(sorted(order, key=lambda i: -float(histograms.series[0][1][i]))[:_MOST_LABELS])
    names = [n for n, _ in histograms.series]
    numbers = kind != "N"
    scale = alt.Scale(domain=names, range=list(COLORS[: len(names)]))
    color = alt.Color(
        "series:N",
        title=None,
        scale=scale,
        legend=None if len(names) == 1 else alt.Legend(orient="top", labelLimit=260),
    )
    title = absent if titled else ", ".join(t for t in (histograms.column, absent) if t)
    if numbers:
        x: Any = alt.X(f"bin:{kind}", title=title or None, scale=alt.Scale(zero=False, nice=False))
    else:
        axis = alt.Axis(labelLimit=90, labelOverlap=len(order) > _MOST_NAMED or titled, labelAngle=-60)
        x = alt.X("bin:N", sort=[str(histograms.bins[i]) for i in order], title=title or None, axis=axis)
    y = alt.Y("count:Q", title=None if titled else histograms.axis)
    base = alt.Chart(data_of(_points(histograms, kind, order)))
    base = base.encode(x=x, color=color, tooltip=["series:N", f"bin:{kind}", "count:Q"])
    first, *others = (base.transform_filter(alt.FieldEqualPredicate(field="series", equal=name)) for name in names)
    step = max(1.0, width / max(len(order), 1) - 0.6)
    layers = [(first.mark_bar(opacity=0.55, width=step) if numbers else first.mark_bar(opacity=0.55)).encode(y=y)]
    if histograms.errors:
        ends = base.transform_filter("isValid(datum.low)")
        layers.append((ends.mark_area(opacity=0.3) if numbers else ends.mark_rule()).encode(y="low:Q", y2="high:Q"))
    layers += [
        (other.mark_line(strokeWidth=1.6) if numbers else other.mark_point(filled=True, size=50, opacity=1)).encode(y=y)
        for other in others
    ]
    panel = alt.layer(*layers, width=width, height=height)
    return panel.properties(title=alt.TitleParams(text=histograms.column, fontSize=11)) if titled else panel


def _points(histograms: Histograms, kind: str, order: Sequence[int]) -> list[dict[str, Any]]:
    """Return a dict for each bin of each series, with the ends of its interval where there is one."""
    errors = dict(histograms.errors)
    points = []
    for name, counts in histograms.series:
        reach = errors.get(name)
        for i in order:
            value = float(counts[i])
            bar = {
                "series": name,
                "bin": histograms.bins[i] if kind == "Q" else str(histograms.bins[i]),
                "count": value,
            }
            points.append(bar | ({} if reach is None else {"low": value - reach[i], "high": value + reach[i]}))
    return points


def _axis_of(histograms: Histograms) -> tuple[str, list[int], str]:
    """Return the kind of axis (numbers, days or names), the bins on it, and what is missing, in words, where it has no place."""
    everything = list(range(len(histograms.bins)))
    if not histograms.ordered:
        return "N", everything, ""
    order = [i for i in everything if histograms.bins[i] != MISSING]
    missing = ""
    if len(order) < len(everything):
        at = next(i for i in everything if histograms.bins[i] == MISSING)
        words = {"model": "in the model"}
        counted = [f"{float(counts[at]):,.0f} {words.get(name, name)}" for name, counts in histograms.series]
        missing = f"missing: {', '.join(counted)}"
    if all(isinstance(histograms.bins[i], (int, float)) for i in order):
        return "Q", order, missing
    if all(_DAY.fullmatch(str(histograms.bins[i])) for i in order):
        return "T", order, missing
    return "N", everything, ""


def _accuracy(rows: list[dict[str, Any]], ways: int, color: Any) -> Any:
    import altair as alt

    groups: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["method"], row["epsilon"]), []).append(row)
    points = []
    for (method, epsilon), several in groups.items():
        values = [float(r["distance"]) for r in several]
        mean = sum(values) / len(values)
        points.append({"method": method, "epsilon": epsilon, "mean": mean, "low": min(values), "high": max(values)})
    base = alt.Chart(data_of(points)).encode(
        x=alt.X("epsilon:Q", scale=alt.Scale(type="log"), title="epsilon"), color=color
    )
    y = alt.Y("mean:Q", title=f"distance over {ways} column{'s' * (ways != 1)}", scale=alt.Scale(zero=True))
    line = base.mark_line(point=alt.OverlayMarkDef(size=30)).encode(y=y, tooltip=["method:N", "epsilon:Q", "mean:Q"])
    layers = [line, base.mark_rule().encode(y="low:Q", y2="high:Q")]
    floors = [float(r["floor"]) for r in rows if r.get("floor") is not None]
    if floors:
        floor = alt.Chart(data_of([{"floor": sum(floors) / len(floors), "told": "floor of sampling"}]))
        layers.append(floor.mark_rule(strokeDash=[5, 3], color="#555555").encode(y="floor:Q", tooltip="told:N"))
    return alt.layer(*layers, width=300, height=240)


def bins_of(keyed: Any, domain: Any, *, unit: float | None = None) -> tuple[list[Any], bool]:
    """Return a label for each key of a column, numbers (lower ends) where it has an order; missing last."""
    declared = keyed.column
    size = keyed.size - keyed.missing
    values = getattr(declared, "values", None)
    if values is not None:
        bins: list[Any] = [str(v) for v in values]
    elif not keyed.ordered:
        bins = ["false", "true"]
    else:
        low = declared.lower
        days = isinstance(low, datetime.date)
        first = (low - _EPOCH).days if days else int(low or 0)
        steps = list(range(first, first + size)) if keyed.edges is None else list(keyed.edges[:size])
        if days:
            bins = [(_EPOCH + datetime.timedelta(days=s)).isoformat() for s in steps]
        else:
            scale = _unit(keyed, domain) if unit is None else unit
            bins = [s * scale if scale != 1 else s for s in steps]
    return ([*bins, MISSING] if keyed.missing else bins), keyed.ordered


def _unit(keyed: Any, domain: Any) -> float:
    from sordino.ask.queries.expressions.compile import bind_number
    from sordino.ask.queries.expressions.nodes import Name

    return float(bind_number(Name(keyed.name), domain).unit)


def _one_way(parts: Any, column: int) -> list[float]:
    """Return a model's count of each key of one column: that of its code, by the key's share of it."""
    tree = parts.field.tree
    home = next(i for i, clique in enumerate(tree.cliques) if column in clique)
    axes = tuple(a for a, c in enumerate(tree.cliques[home]) if c != column)
    counts = parts.field.tables[home].sum(axis=axes)
    key_counts: list[float] = (counts[parts.codes[column].codes] * parts.within[column]).tolist()
    return key_counts
