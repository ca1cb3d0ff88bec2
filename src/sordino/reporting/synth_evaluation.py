"""The page about a synthetic table: an evaluation's figures in words, tables and pictures, each cost once and the total.

It sees released figures, or NOT PRIVATE ones that say so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sordino.reporting.charts import svg_drawer
from sordino.reporting.synth import Histograms, Matrices, Ways, bins_of
from sordino.reporting.synth_page import Section, Sheet, sheet_page

if TYPE_CHECKING:
    from sordino.synth.evaluation.correlations import Correlations
    from sordino.synth.evaluation.evaluation import Evaluation, Prediction
    from sordino.synth.evaluation.workload import SetError, Workload
    from sordino.synth.model import Model

_ALARM = (
    "NOT PRIVATE: computed on the rows of the original themselves, without noise. Do not publish this page; it is for "
    "those who may see the data."
)
_SEEDED = "NOT PRIVATE: the noise was seeded."
_OPEN = "the original's own figures are shown"
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
    sections = [_cost(evaluation)] if release is not None else []
    sections += [_distances(evaluation, draw, mark), _worst(evaluation)]
    if evaluation.correlations is not None:
        sections.append(_correlations(evaluation.correlations, _seal(evaluation), draw, mark))
    if evaluation.workload is not None:
        sections.append(_workload(evaluation.workload, _seal(evaluation)))
    if evaluation.prediction is not None:
        sections.append(_prediction(evaluation.prediction, _seal(evaluation)))
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
            "gains nothing. The error is that of the query noise, at 95%; noisy distances may be below zero.",
        ),
        ("columns", "mean distance", "95% error", "floor of sampling"),
        tuple((str(w), *(f"{v:.4f}" for v in rest)) for w, *rest in figures),
        _drawings(draw, ("Mean distances, with the floor of sampling", Ways(figures, mark))),
    )


def _worst(evaluation: Evaluation) -> Section:
    rows = tuple(
        (" x ".join(d.columns), f"{min(max(d.value, 0.0), 1.0):.4f}", f"{1.96 * d.deviation:.4f}", f"{d.floor:.4f}")
        for d in evaluation.worst(10)
    )
    words = (
        "The sets of columns with the largest of the distances above, at no further cost. With much noise, the noise "
        "chooses them too."
    )
    return Section("The worst ten", _seal(evaluation), (words,), ("columns", "distance", "95% error", "floor"), rows)


def _correlations(c: Correlations, cost: str, draw: Draw, mark: str | None) -> Section:
    words = (
        "Rank correlations of columns with an order or two values, each cut into at most four runs of about equal mass by "
        f"the model. They differ by {c.largest:.2f} at most; the query error is about {c.error:.2f} each, at 95%."
    )
    rows = tuple(
        (a, *(f"{_two_places(s)} / {_two_places(o)}" for s, o in zip(synthetic, original, strict=True)))
        for a, synthetic, original in zip(c.columns, c.synthetic, c.original, strict=True)
    )
    pictured = Matrices(c.columns, [("synthetic", c.synthetic), ("original", c.original)], mark)
    drawings = _drawings(draw, ("Correlations, synthetic and original side by side", pictured))
    both = (words, "In the table: synthetic / original; ? where noise hides it; the original's are noisy.")
    return Section("Correlations", cost, both, ("", *c.columns), rows, drawings)


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


def _two_places(value: float | None) -> str:
    return "?" if value is None else f"{round(value, 2) + 0.0:.2f}"


def _rows(made: SetError, noise: float) -> str:
    """Return an error in rows, with what it is at most where asking had noise."""
    if not noise:
        return f"{made.error:,.0f}"
    about = f"{made.error:,.0f}, " if made.error else ""
    return f"{about}at most {math.ceil(made.most(noise, 0.95)):,}"


def _prediction(made: Prediction, cost: str) -> Section:
    score = made.original
    error = f"{score.error(1.96):.3f}"
    rows = [
        ("trained on synthetic rows, tested on the original", f"{score.accuracy:.3f}", error),
        ("the larger side alone, on the original", f"{score.base:.3f}", error),
        ("trained and tested on synthetic rows: free", f"{made.synthetic.accuracy:.3f}", ""),
    ]
    if made.reference is not None:
        words = "trained on half of the original, tested on the other: NOT PRIVATE"
        rows.append((words, f"{made.reference.accuracy:.3f}", ""))
    question = (
        f"A scorecard learned by logistic regression: how often does it predict correctly whether {made.condition}?"
    )
    return Section("Train on synthetic, test on real", cost, (question,), ("", "right", "95% error"), tuple(rows))


def _histograms(model: Model, evaluation: Evaluation, draw: Draw) -> Section:
    if evaluation.column_counts:
        things: list[tuple[str, Any]] = []
        for one in evaluation.column_counts:
            column = model.parts.columns[one.column]
            bins, ordered = bins_of(column, model.parts.domain)
            series = [("original", one.original), ("synthetic", one.synthetic)]
            histograms = Histograms(column.name, bins, series, ordered=ordered, mark="an original is shown")
            things.append((f"{column.name}: original against synthetic", histograms))
        return Section(
            "Column by column", "NOT PRIVATE: the original's counts are shown", drawings=_drawings(draw, *things)
        )
    words = ("The model's estimate of each column by itself; the original's own counts are not asked for.",)
    drawings = _drawings(draw, ("The model, column by column", model))
    return Section("Column by column", "free: from the model alone", words, drawings=drawings)
