"""Pictures of fitted models: what each column moves in a regression, components and centers as tables of colors.

They show what the model's file says: released numbers, and declared bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sordino.reporting.picture import COLORS, SEEDED, add_title, data_of

if TYPE_CHECKING:
    from sordino.models.classification import LogisticModel, NaiveBayesModel
    from sordino.models.clusters import ClustersModel
    from sordino.models.columns import Predictors
    from sordino.models.components import ComponentsModel
    from sordino.models.histograms import HistogramsModel
    from sordino.reporting.picture import AnyChart

_WIDTH = 380
# Rows and classes of one picture.
_MOST_ROWS = 60
_MOST_CLASSES = 8
# Panels of shapes, and how wide each is.
_MOST_PANELS = 12
_PANEL = 240
_SCALE = ["#b2552a", "#ffffff", "#0072b2"]


def draw_linear(model: Any, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a line's regression, and its title: what each column moves, with the interval of the noise.

    A number is moved from its lower declared bound to its upper one, so that columns of all units lie on one axis; a
    category from its first declared value to another.
    """
    import altair as alt

    from sordino.models.record import title_of

    spans = _spans(model.predictors)
    rows = []
    hidden = 0
    for name in model.names:
        low, high = (end * spans.get(name, 1.0) for end in model.interval(name, confidence=confidence))
        # The noise hides it: its interval has no ends.
        if name in model.undetermined:
            hidden += 1
            continue
        rows.append({"name": name, "value": model.coefficients[name] * spans.get(name, 1.0), "low": low, "high": high})
    shown = sorted(rows, key=lambda row: -abs(row["value"]))[:_MOST_ROWS]
    order = [row["name"] for row in shown]
    y = alt.Y("name:N", title=None, sort=order, axis=alt.Axis(labelLimit=220))
    base = alt.Chart(data_of(shown)).encode(y=y)
    axis = f"change of {model.y}"
    zero = alt.Chart(data_of([{"at": 0}])).mark_rule(color="#999999").encode(x=alt.X("at:Q", title=axis))
    whisker = base.mark_rule(strokeWidth=1.6, color="#222222").encode(x=alt.X("low:Q", title=axis), x2="high:Q")
    point = base.mark_point(filled=True, size=60, opacity=1, color=COLORS[0]).encode(x=alt.X("value:Q", title=axis))
    chart = alt.layer(zero, whisker, point, width=_WIDTH, height=alt.Step(22))
    notes = [
        "a number moves from its lower declared bound to its upper one, a category from its first value",
        f"lines: {100 * confidence:g}% intervals of the noise, about the same regression without noise",
    ]
    kind = title_of(model)
    notes += _left_out(len(rows) - len(shown))
    notes += [f"{hidden} coefficients are hidden by the noise and not drawn"] if hidden else []
    return _titled(chart, title or f"What moves {model.y}, by {kind}", notes, model)


def draw_logistic(model: LogisticModel, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of a logistic regression, and its title: how far each column moves the log-odds of each class."""
    import altair as alt

    del confidence
    spans = _spans(model.predictors)
    classes = list(model.coefficients)[:_MOST_CLASSES]
    moves = {
        (name, one): model.coefficients[one][name] * spans.get(name, 1.0) for name in model.names for one in classes
    }
    order = sorted(model.names, key=lambda name: -max(abs(moves[name, one]) for one in classes))[:_MOST_ROWS]
    rows = [{"name": name, "class": str(one), "value": moves[name, one]} for name in order for one in classes]
    colors = alt.Scale(domain=[str(one) for one in classes], range=list(COLORS[: len(classes)]))
    axis = f"change of the log-odds of {model.y}"
    y = alt.Y("name:N", title=None, sort=order, axis=alt.Axis(labelLimit=220))
    point = (
        alt.Chart(data_of(rows))
        .mark_point(filled=True, size=60, opacity=1)
        .encode(x=alt.X("value:Q", title=axis), y=y, color=alt.Color("class:N", title=model.y, scale=colors))
    )
    zero = alt.Chart(data_of([{"at": 0}])).mark_rule(color="#999999").encode(x=alt.X("at:Q", title=axis))
    notes = ["a number moves from its lower declared bound to its upper one, a category from its first value"]
    notes += _left_out(len(model.names) - len(order))
    chart = alt.layer(zero, point, width=_WIDTH, height=alt.Step(22))
    return _titled(chart, title or f"What moves the odds of {model.y}, by logistic regression", notes, model)


def draw_naive_bayes(model: NaiveBayesModel, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of naive Bayes, and its title: how much more often a class has a value than everybody does."""
    import math

    del confidence
    classes = [str(one) for one in model.classes][:_MOST_CLASSES]
    rows = []
    labels: list[str] = []
    for (name, column), edges, ratios in zip(model.predictors.declared, model.edges, model.ratios, strict=True):
        values = [f"{name}: {value}" for value in _values_of(column, edges, len(ratios))]
        labels += values
        for value, of_classes in zip(values, ratios, strict=True):
            for one, log_ratio in zip(classes, of_classes, strict=False):
                rows.append(
                    {"row": value, "column": one, "value": float(log_ratio), "text": f"{math.exp(log_ratio):.2f}x"}
                )
    order = labels[:_MOST_ROWS]
    notes = ["1x: as often as in all rows; 2x: twice as often within the class", *_left_out(len(labels) - len(order))]
    chart = _heat([row for row in rows if row["row"] in order], order, classes, axis=model.y)
    return _titled(chart, title or f"What tells {model.y}, by naive Bayes", notes, model)


def draw_histograms(model: HistogramsModel, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of boosted histograms, and its title: a panel a column, its shape as steps with the band of the noise."""
    import altair as alt

    axis = f"log-odds of {model.y}" if model.classes else f"change of {model.y}"
    # Those that move the prediction most come first.
    shapes = sorted(model.shapes, key=lambda shape: float(shape.values.min() - shape.values.max()))[:_MOST_PANELS]
    lows, highs = zip(*(model.interval(shape.column, confidence=confidence) for shape in shapes), strict=True)
    scale = alt.Scale(domain=[min(float(low.min()) for low in lows), max(float(high.max()) for high in highs)])
    panels = []
    for shape, low, high in zip(shapes, lows, highs, strict=True):
        rows: list[dict[str, Any]] = [
            {"name": label, "value": float(value), "low": float(below), "high": float(above)}
            for label, value, below, above in zip(model.labels(shape.column), shape.values, low, high, strict=True)
        ]
        y = alt.Y("value:Q", title=axis, scale=scale)
        if shape.is_number:
            # The last bin ends where the column does; a missing cell has no place on the axis.
            bins = len(shape.edges) - 1
            rows = [row | {"at": float(edge)} for row, edge in zip(rows[:bins], shape.edges, strict=False)]
            rows.append(rows[-1] | {"at": float(shape.edges[-1])})
            base = alt.Chart(data_of(rows)).encode(x=alt.X("at:Q", title=shape.column))
            band = base.mark_area(interpolate="step-after", opacity=0.3, color=COLORS[0]).encode(
                y=alt.Y("low:Q", title=axis, scale=scale), y2="high:Q"
            )
            line = base.mark_line(interpolate="step-after", color=COLORS[0]).encode(y=y)
        else:
            order = [row["name"] for row in rows]
            base = alt.Chart(data_of(rows)).encode(
                x=alt.X("name:N", title=shape.column, sort=order, axis=alt.Axis(labelAngle=-40, labelLimit=110))
            )
            band = base.mark_rule(strokeWidth=1.6, color="#222222").encode(
                y=alt.Y("low:Q", title=axis, scale=scale), y2="high:Q"
            )
            line = base.mark_point(filled=True, size=60, opacity=1, color=COLORS[0]).encode(y=y)
        panels.append(alt.layer(band, line, width=_PANEL, height=140))
    notes = [f"bands: {100 * confidence:g}% intervals of the noise; 0 is the mean over the rows"]
    notes += (
        [f"{len(model.shapes) - len(shapes)} more columns are not drawn"] if len(model.shapes) > len(shapes) else []
    )
    chart = alt.concat(*panels, columns=2)
    return _titled(chart, title or f"What moves {model.y}, by boosted histograms", notes, model)


def draw_components(model: ComponentsModel, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of principal components, and its title: the weight of each column in each."""
    del confidence
    names = [f"{i + 1} (+-{angle:.0f} degrees)" for i, angle in enumerate(model.angles)]
    order = list(model.columns)[:_MOST_ROWS]
    rows = [
        {"row": column, "column": name, "value": float(weight), "text": f"{weight:.2f}"}
        for name, weights in zip(names, model.components, strict=True)
        for column, weight in zip(order, weights, strict=False)
    ]
    unit = "standard deviations" if model.scaled else "the columns' own units"
    notes = [f"weights in {unit}; an angle says how far the noise may have turned a component, at 95%"]
    caption = title or f"Components that have {100 * model.captured:.0f}% of the variance"
    return _titled(_heat(rows, order, names, axis="component"), caption, notes, model)


def draw_clusters(model: ClustersModel, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of clusters, and its title: where each center lies between a column's declared bounds."""
    del confidence
    names = [f"{i + 1} ({100 * share:.0f}% of rows)" for i, share in enumerate(model.shares)]
    bounds = {name: (float(c.lower), float(c.upper)) for name, c in _bounded(model.predictors)}
    rows = []
    for name, center in zip(names, model.centers, strict=True):
        for column, value in zip(model.columns, center, strict=True):
            low, high = bounds[column]
            place = 2 * (float(value) - low) / (high - low) - 1 if high > low else 0.0
            rows.append({"row": column, "column": name, "value": place, "text": f"{value:.4g}"})
    notes = ["color: from the lower declared bound of a column to its upper one"]
    chart = _heat(rows, list(model.columns), names, axis="cluster")
    return _titled(chart, title or f"Centers of {len(names)} clusters", notes, model)


def _heat(rows: Sequence[dict[str, Any]], order: Sequence[str], columns: Sequence[str], *, axis: str) -> Any:
    """Return a table of colors: white at 0, as dark at the largest value on either side."""
    import altair as alt

    most = max((abs(row["value"]) for row in rows), default=1.0) or 1.0
    base = alt.Chart(data_of(rows)).encode(
        x=alt.X("column:N", title=axis, sort=list(columns), axis=alt.Axis(labelAngle=0, orient="top", labelLimit=120)),
        y=alt.Y("row:N", title=None, sort=list(order), axis=alt.Axis(labelLimit=220)),
    )
    colors = alt.Scale(domain=[-most, 0, most], range=_SCALE, interpolate="rgb")
    cells = base.mark_rect(stroke="#dddddd").encode(color=alt.Color("value:Q", legend=None, scale=colors))
    # Words lie on the cell's color, which is dark at the ends in a light picture and in a dark one.
    words = base.mark_text(fontSize=11).encode(
        text="text:N",
        color=alt.condition(abs(alt.datum.value) > 0.6 * most, alt.value("#fefefe"), alt.value("#222222")),
    )
    return alt.layer(cells, words, width=alt.Step(110), height=alt.Step(22))


def _titled(chart: Any, caption: str, notes: Sequence[str], model: Any) -> tuple[AnyChart, str]:
    about = model.provenance
    mark = None if about.private else SEEDED
    return add_title(chart, caption, [*notes, f"{about.table}, {about.cost.describe()}"], width=_WIDTH + 160, mark=mark)


def _left_out(count: int) -> list[str]:
    return [f"{count} more rows are not drawn"] if count > 0 else []


def _bounded(predictors: Predictors) -> list[tuple[str, Any]]:
    return [(name, column) for name, column in predictors.declared if not predictors.is_category(name)]


def _spans(predictors: Predictors) -> dict[str, float]:
    """Return how far apart the declared bounds of each number lie; of a product, of its least and largest value."""
    from itertools import product
    from math import prod

    from sordino.models.columns import factors_of, name_term

    bounds = {name: (float(column.lower), float(column.upper)) for name, column in _bounded(predictors)}
    spans = {}
    for term in predictors.numbers:
        # A category's value is a factor of 0 or 1.
        ends = [bounds[factor] if isinstance(factor, str) else (0.0, 1.0) for factor in factors_of(term)]
        corners = [prod(corner) for corner in product(*ends)]
        spans[name_term(term)] = max(corners) - min(corners)
    return spans


def _values_of(column: Any, edges: Any, count: int) -> list[str]:
    """Return the labels of a column's values: declared ones, or the bins of a number."""
    from sordino.models.columns import declared_values

    if edges is None:
        return ["(missing)" if value is None else str(value) for value in declared_values(column)]
    ends = [float(edge) for edge in edges]
    return [f"{ends[i]:.4g} to {ends[i + 1]:.4g}" for i in range(count)]
