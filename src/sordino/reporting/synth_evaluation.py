"""The page about a synthetic table: an evaluation's figures in words, tables and pictures, each cost once and the total.

It sees released figures, or NOT PRIVATE ones that say so. The page is self-contained: all words are escaped, and it loads
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sordino.reporting.charts import svg_drawer
from sordino.reporting.picture import render
from sordino.reporting.synth import Histograms, Matrices, Ways, bins_of
from sordino.reporting.synth_shapes import Densities, Heat, scale_of
from sordino.synth.evaluation.distributions import LEVELS
from sordino.synth.evaluation.figure import Figure, round_up

if TYPE_CHECKING:
    from sordino.synth.evaluation.correlations import Correlations, PairTable
    from sordino.synth.evaluation.distributions import Quantile
    from sordino.synth.evaluation.evaluation import Evaluation, Prediction
    from sordino.synth.evaluation.heap_shares import ColumnHeaps
    from sordino.synth.evaluation.trained_models import TrainedScore
    from sordino.synth.evaluation.violations import Violation
    from sordino.synth.evaluation.workload import SetError, Workload
    from sordino.synth.model import Model


@dataclass(frozen=True, slots=True)
class Section:
    """State one part: its title, what it cost (or that it is NOT PRIVATE, or free), words, a table, pictures as SVG."""

    title: str
    cost: str
    words: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    drawings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Sheet:
    """Hold a page: its title, facts in lines, sections; `alarm` is shown at the top, None if all is private."""

    title: str
    facts: tuple[str, ...]
    sections: tuple[Section, ...]
    alarm: str | None
    remarks: tuple[str, ...] = ()


def sheet_from(plain: Mapping[str, Any]) -> Sheet:
    """Return the page that was written as JSON data."""
    sections = [
        Section(
            one["title"],
            one["cost"],
            tuple(one["words"]),
            tuple(one["head"]),
            tuple(tuple(row) for row in one["rows"]),
            tuple((caption, drawing) for caption, drawing in one["drawings"]),
        )
        for one in plain["sections"]
    ]
    return Sheet(plain["title"], tuple(plain["facts"]), tuple(sections), plain["alarm"], tuple(plain["remarks"]))


def redraw(sheet: Sheet, draw: Callable[[str], str]) -> Sheet:
    """Return the page with each drawing made of what stood in its place, such as SVG of a specification."""
    sections = [
        replace(one, drawings=tuple((caption, draw(drawing)) for caption, drawing in one.drawings))
        for one in sheet.sections
    ]
    return replace(sheet, sections=tuple(sections))


def sheet_page(sheet: Sheet) -> str:
    """Return the page as HTML; its policy forbids the browser to load or run anything.

    >>> "<script>" in sheet_page(Sheet("<script>", (), (), None))
    False
    """
    return render("evaluation.html", sheet=sheet)


_ALARM = (
    "NOT PRIVATE: computed on the rows of the original themselves, without noise. Do not publish this page; it is for "
    "those who may see the data."
)
_SEEDED = "NOT PRIVATE: the noise was seeded."
_OPEN = "the original's own figures are shown"
_NOISE = (
    "The error is that of the query noise, at 95%. A figure that is no larger than its error is below the noise: it is not "
    "shown, but < and what it is at most."
)
_NOT_CHARGED = "NOT PRIVATE: no loss was charged"

Draw = Callable[[Any], str] | None


def evaluation_page(model: Model, evaluation: Evaluation, *, subject: str) -> str:
    """Return the page about a model as HTML; `subject` names where its rows were drawn from."""
    return sheet_page(evaluation_sheet(model, evaluation, subject=subject, draw=svg_drawer()))


def evaluation_sheet(model: Model, evaluation: Evaluation, *, subject: str, draw: Draw) -> Sheet:
    """Return what the page says, its pictures as `draw` makes them; without it there are none."""
    release = evaluation.release
    alarm = _ALARM if release is None else None if evaluation.private else _SEEDED
    facts = [
        f"The model: {model.describe()}",
        f"Compared: {evaluation.rows:,} synthetic rows drawn from {subject}, over {len(model.columns)} columns.",
    ]
    if release is not None:
        facts.append(f"Protected: {release.privacy_unit}, {release.neighbors.replace('_', '/')}.")
    else:
        facts.append("Cost of this comparison: nothing was charged, because it is NOT PRIVATE.")
    if "caps" in model.facts and release is None:
        facts.append(f"Note: the model is of fewer rows than the original here, since {model.facts['caps']}.")
    mark = None if evaluation.private else _OPEN
    seal = _seal(evaluation)
    sections = [_cost(evaluation)] if release is not None else []
    sections += [_distances(evaluation, draw, mark), _worst(evaluation)]
    if evaluation.distributions:
        sections.append(_distributions(model, evaluation, seal, draw, mark))
    for kind in (evaluation.correlations, evaluation.pearson):
        if kind is not None:
            sections.append(_correlations(kind, seal, draw, mark))
    if evaluation.pairs:
        sections.append(_pairs(evaluation.pairs, seal, draw, mark))
    if evaluation.heaps:
        sections.append(_heaps(evaluation.heaps, seal))
    if evaluation.violations:
        sections.append(_violations(evaluation.violations, seal))
    if evaluation.workload is not None:
        sections.append(_workload(evaluation.workload, seal))
    if evaluation.prediction is not None:
        sections.append(_prediction(evaluation.prediction, seal))
    if evaluation.trained:
        sections.append(_trained(evaluation.trained))
    sections.append(_histograms(model, evaluation, draw))
    remarks = () if draw is not None else ("Without pictures: Altair and vl-convert are not installed.",)
    title = f"A synthetic table of {model.facts.get('table', 'a table')}"
    return Sheet(title, tuple(facts), tuple(sections), alarm, remarks)


def _drawings(draw: Draw, *things: tuple[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the pictures that can be drawn: what was paid for must not be lost for the sake of one."""
    drawings: list[tuple[str, str]] = []
    for words, thing in things if draw is not None else ():
        with suppress(Exception):
            drawings.append((words, draw(thing)))  # type: ignore[misc]  # not None, or there are no things
    return tuple(drawings)


def _seal(evaluation: Evaluation) -> str:
    """Return what a section says about its cost: the parts' costs stand in the section of costs, once."""
    return _NOT_CHARGED if evaluation.release is None else ""


def _cost(evaluation: Evaluation) -> Section:
    words = "One charge paid for this page. Each part's share of it, once; together they are the total."
    return Section("What it cost", "", (words,), ("part", "cost"), tuple(evaluation.costs()))


def _distances(evaluation: Evaluation, draw: Draw, mark: str | None) -> Section:
    e = evaluation
    figures = [(w, e.mean(w), e.error(w, 0.95), e.floor(w)) for w in e.ways]
    return Section(
        "How far it is from the original",
        _seal(e),
        (
            "Total-variation distance: 0 alike, 1 apart; the mean over sets of one, two and three columns (at most 60 sets "
            "of three). The floor is the distance of as many rows sampled from the original itself: going below it "
            f"gains nothing. {_NOISE}",
        ),
        ("columns", "mean distance", "95% error", "floor of sampling"),
        tuple((str(w), e.figure(w).short(4), f"{error:.4f}", f"{floor:.4f}") for w, _, error, floor in figures),
        _drawings(draw, ("Mean distances, with the floor of sampling", Ways(figures, mark))),
    )


def _worst(evaluation: Evaluation) -> Section:
    figures = [(d, Figure(min(d.value, 1.0), 1.96 * d.deviation)) for d in evaluation.worst(10)]
    rows = tuple((" x ".join(d.columns), f.short(4), f"{f.reach:.4f}", f"{d.floor:.4f}") for d, f in figures)
    words = (
        "The sets of columns with the largest of the distances above, at no further cost. With much noise, the noise "
        "chooses them too."
    )
    return Section("The worst ten", _seal(evaluation), (words,), ("columns", "distance", "95% error", "floor"), rows)


def _distributions(model: Model, evaluation: Evaluation, cost: str, draw: Draw, mark: str | None) -> Section:
    """Return each ordered column's quantiles and tails, and both distributions in one picture."""
    words = (
        "Columns with an order, rows with a value. The difference is the largest of the two distribution functions "
        "(Kolmogorov and Smirnov). Quantiles: synthetic / original, and in brackets the values between which the original's "
        "lies at 95%. Tails: the share of rows below the 1% quantile of synthetic rows, and above their 99% quantile."
    )
    head = ("column", "difference", *(f"{100 * level:g}%" for level in LEVELS), "below 1%", "above 99%")
    rows = []
    things: list[tuple[str, Any]] = []
    for d in evaluation.distributions:
        tails = {t.side: f"{_percent(t.synthetic)} / {_share(t.original)}" for t in d.tails}
        row = (d.column, d.difference.short(), *map(_quantile, d.quantiles))
        rows.append((*row, tails.get("below", ""), tails.get("above", "")))
        column = model.parts.columns[model.columns.index(d.column)]
        scale = scale_of(column, d)
        drawn = Densities(d.column, d.edges, d.synthetic, d.original, d.reaches, scale, mark)
        things.append((f"{d.column}: synthetic rows and the original", drawn))
    return Section("Quantiles and tails", cost, (words, _NOISE), head, tuple(rows), _drawings(draw, *things))


def _quantile(q: Quantile) -> str:
    synthetic, original, low, high = (_value(v) for v in (q.synthetic, q.original, q.lower, q.upper))
    if q.original is None:
        return f"{synthetic} / below the noise"
    return f"{synthetic} / {original}" + (f" [{low}, {high}]" if (low, high) != (original, original) else "")


def _value(value: Any) -> str:
    """Return a value in a cell: five digits of a number, a date or a moment as it is."""
    if isinstance(value, (int, float)):
        return f"{value:,}" if isinstance(value, int) or value == int(value) else f"{float(value):,.5g}"
    return "" if value is None else str(value)


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _share(figure: Figure) -> str:
    """Return a share in percent, or what it is at most where the noise hides it."""
    if figure.shown is None:
        return f"< {round_up(100 * figure.most, 2)}%"
    return _percent(figure.shown) + (f" within {round_up(100 * figure.reach, 2)}%" if figure.reach else "")


def _correlations(c: Correlations, cost: str, draw: Draw, mark: str | None) -> Section:
    difference = c.difference
    most = (
        f"No difference shows above the noise; they differ by at most {round_up(difference.most, 2)}."
        if difference.shown is None
        else f"They differ by {difference.text()} at most."
    )
    over = "ranks" if c.kind == "Spearman" else "values"
    noise = f" The query error is about {c.error:.2f} each, at 95%." if c.error else ""
    if math.isinf(c.error):
        noise = " The noise hides all of them."
    words = (
        f"Correlations of {over} ({c.kind}), of columns with an order or two values, over cells that follow from synthetic "
        f"rows: equal steps of half their number, half their distance from the median. {most}{noise}"
    )
    rows = tuple(
        (
            a,
            *(
                "" if i == j else f"{s:.2f} / {_with_reach(f)}"
                for j, (s, f) in enumerate(zip(own, figures, strict=True))
            ),
        )
        for i, (a, own, figures) in enumerate(zip(c.columns, c.synthetic, c.figures, strict=True))
    )
    pictured = Matrices(c.columns, [("synthetic", c.synthetic), ("original", c.original)], mark)
    drawings = _drawings(draw, (f"{c.kind} correlations, synthetic and original side by side", pictured))
    both = (
        words,
        "In the table: synthetic / original. A correlation of the original that the noise hides is not shown: < and what it "
        "is at most, or ? where that says nothing.",
    )
    return Section(f"Correlations of {over} ({c.kind})", cost, both, ("", *c.columns), rows, drawings)


def _with_reach(figure: Figure) -> str:
    shown = figure.short()
    return f"{shown} within {round_up(figure.reach, 2)}" if figure.shown is not None and figure.reach else shown


def _pairs(pairs: Sequence[PairTable], cost: str, draw: Draw, mark: str | None) -> Section:
    words = (
        "The pairs of columns that are correlated most: the share of rows in each cell, at no further cost. A count of the "
        "original that is no larger than its noise is left white."
    )
    things = [
        (f"{' by '.join(p.columns)}: synthetic and original", Heat(p.columns, p.labels, p.synthetic, p.original, mark))
        for p in pairs
    ]
    return Section("Pairs beside each other", cost, (words,), drawings=_drawings(draw, *things))


def _heaps(heaps: Sequence[ColumnHeaps], cost: str) -> Section:
    words = (
        "How many rows hold round values: of synthetic rows, counted, and of the original, beside the share of the column's "
        "values that are as round. Sets that hold no more rows than that are left out."
    )
    rows = tuple(
        (of_column.column, share.values, _percent(share.synthetic), _share(share.original), _percent(share.expected))
        for of_column in heaps
        for share in of_column.largest
    )
    head = ("column", "values", "synthetic rows", "original", "of all values")
    return Section("Round values", cost, (words, _NOISE), head, rows)


def _violations(violations: Sequence[Violation], cost: str) -> Section:
    words = "How many rows break each rule: of synthetic rows, counted, and of the original."
    rows = tuple((v.rule, _percent(v.synthetic), _share(v.original)) for v in violations)
    return Section("Rules", cost, (words, _NOISE), ("rule", "synthetic rows", "original"), rows)


def _trained(scores: Sequence[TrainedScore]) -> Section:
    words = (
        "Models, tested on one half of the original's rows: trained on synthetic rows, and trained on the "
        "other half. AUC is the chance that a row that meets the condition is ranked above one that does not; R2 is the "
        "share of the variance that is explained."
    )
    rows = tuple((s.target, s.kind, s.measure, *s.texts()) for s in scores)
    head = ("predicted", "model", "measure", "trained on synthetic rows", "trained on the original")
    seal = "NOT PRIVATE: tested on the rows of the original themselves"
    return Section("Train on synthetic, test on real: models", seal, (words,), head, rows)


def _workload(w: Workload, cost: str) -> Section:
    noise = " An error is what was seen, less the query noise, and at most so large at 95%." if w.noise else ""
    words = (
        f"Random counts over sets of columns, answered by the model: {w.describe()}. Its 95% intervals held "
        f"{100 * w.coverage:.0f}% of them.{noise}"
    )
    rows = tuple(
        (" x ".join(m.columns), str(m.cells), _rows(m, w.noise), f"{m.stated:,.0f}", f"{100 * m.coverage:.0f}%")
        for m in w.sets
    )
    head = ("columns", "counts", "error", "deviation that the model states", "95% intervals that held")
    return Section("A workload of counts", cost, (words,), head, rows)


def _rows(set_error: SetError, noise: float) -> str:
    """Return an error in rows, with what it is at most where asking had noise."""
    if not noise:
        return f"{set_error.error:,.0f}"
    about = f"{set_error.error:,.0f}, " if set_error.error else ""
    return f"{about}at most {math.ceil(set_error.most(noise, 0.95)):,}"


def _prediction(prediction: Prediction, cost: str) -> Section:
    score = prediction.original
    base = score.right_by_the_larger_side
    rows = [
        ("trained on synthetic rows, tested on the original", score.right.text(3), _reach(score.right)),
        ("the larger side alone, on the original", base.text(3), _reach(base)),
        ("trained and tested on synthetic rows: free", f"{prediction.synthetic.accuracy:.3f}", ""),
    ]
    if prediction.reference is not None:
        words = "trained on half of the original, tested on the other: NOT PRIVATE"
        rows.append((words, f"{prediction.reference.accuracy:.3f}", ""))
    if prediction.ranking is not None and prediction.synthetic_ranking is not None:
        shown = _reach(prediction.ranking.advantage)
        rows.append(("AUC of its score, over six bands, on the original", prediction.ranking.text(), shown))
        rows.append(("AUC of its score on synthetic rows: free", prediction.synthetic_ranking.text(), ""))
    question = f"A scorecard learned by logistic regression: how often does it predict correctly whether {prediction.condition}?"
    return Section("Train on synthetic, test on real", cost, (question,), ("", "right", "95% error"), tuple(rows))


def _reach(figure: Figure) -> str:
    """Return the error of a figure, nothing where the noise leaves everything possible."""
    return round_up(figure.reach, 3) if math.isfinite(figure.reach) else ""


def _histograms(model: Model, evaluation: Evaluation, draw: Draw) -> Section:
    if evaluation.column_counts:
        things: list[tuple[str, Any]] = []
        for one in evaluation.column_counts:
            column = model.parts.columns[one.column]
            bins, ordered = bins_of(column, model.parts.domain)
            series = [("original", one.original), ("synthetic rows", one.synthetic)]
            histograms = Histograms(column.name, bins, series, ordered=ordered, mark="an original is shown")
            things.append((f"{column.name}: original against synthetic", histograms))
        return Section(
            "Column by column", "NOT PRIVATE: the original's counts are shown", drawings=_drawings(draw, *things)
        )
    words = ("The model's estimate of each column by itself; the original's own counts are not asked for.",)
    drawings = _drawings(draw, ("The model, column by column", model))
    return Section("Column by column", "free: from the model alone", words, drawings=drawings)
