"""From an evaluation to the sections of its page: words, tables and pictures. It sees released or NOT PRIVATE figures."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sordino.errors import DeclarationError
from sordino.report.synth import Matrices, Ways
from sordino.report.synth_page import Section, Sheet

if TYPE_CHECKING:
    from sordino.cli.synth.evaluation import Found, Wanted

__all__ = ["sheet_of"]

_ALARM = (
    "NOT PRIVATE: computed on the rows of the original themselves, without noise. Do not publish this page; it is for "
    "those who may see the data."
)
_SEEDED = "NOT PRIVATE: the noise was seeded."
_OPEN = "the original's own figures are shown"


def sheet_of(wanted: Wanted, found: Found, *, subject: str) -> Sheet:
    """Return the page about a model."""
    model, drawn = wanted.model, _drawer()
    alarm = _ALARM if found.release is None else None if found.private else _SEEDED
    facts = [
        f"The model: {model.describe()}",
        f"Compared: {wanted.rows:,} synthetic rows drawn from {subject}, over {len(model.columns)} columns.",
    ]
    if found.release is not None:
        made = found.release
        relation = made.neighbors.replace("_", "/")
        facts.append(
            f"Cost of this comparison: {made.cost.describe()}, charge {made.charge}; {made.privacy_unit}, {relation}."
        )
    else:
        facts.append("Cost of this comparison: none was charged, as it is NOT PRIVATE.")
    mark = None if found.private else _OPEN
    sections = [_distances(found, drawn, mark), _worst(found)]
    sections += [] if found.correlations is None else [_correlations(found, drawn, mark)]
    sections.append(_workload(found))
    sections += [] if found.hits is None else [_score(wanted, found)]
    sections.append(_histograms(wanted, found, drawn))
    remarks = () if drawn is not None else ("Without pictures: Altair and vl-convert are not installed.",)
    return Sheet(
        f"A synthetic table of {model.facts.get('table', 'a table')}", tuple(facts), tuple(sections), alarm, remarks
    )


Draw = Callable[[Any], str] | None


def _drawer() -> Draw:
    """Return a function that draws a thing as SVG, None where Altair is not installed."""
    from sordino.report.charts import plot
    from sordino.report.picture import encoded, need_plots

    try:
        need_plots()
    except DeclarationError:
        return None
    return lambda thing: encoded(plot(thing), ".svg").decode()


def _drawings(drawn: Draw, *things: tuple[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the pictures that can be drawn: what was paid for must not be lost for the sake of one."""
    made: list[tuple[str, str]] = []
    for said, thing in things if drawn is not None else ():
        with suppress(Exception):
            made.append((said, drawn(thing)))  # type: ignore[misc]  # not None, or there are no things
    return tuple(made)


def _distances(found: Found, drawn: Draw, mark: str | None) -> Section:
    e = found.evaluation
    figures = [(w, e.mean(w), e.error(w, 0.95), e.floor(w)) for w in found.ways]
    return Section(
        "How far it lies from the original",
        found.costs["distances"],
        (
            "Total-variation distance: 0 alike, 1 apart; the mean over sets of one, two and three columns (at most 60 sets "
            "of three). The floor is what as many rows sampled from the original itself would show: below it nothing is "
            "to be won. The error is that of the noise of asking, at 95%; noisy distances may come out below zero.",
        ),
        ("columns", "mean distance", "95% error", "floor of sampling"),
        tuple((str(w), *(f"{v:.4f}" for v in rest)) for w, *rest in figures),
        _drawings(drawn, ("Mean distances, with the floor of sampling", Ways(figures, mark))),
    )


def _worst(found: Found) -> Section:
    rows = tuple(
        (" x ".join(d.columns), f"{min(max(d.value, 0.0), 1.0):.4f}", f"{1.96 * d.deviation:.4f}", f"{d.floor:.4f}")
        for d in found.evaluation.worst(10)
    )
    words = (
        "The sets of columns that lie farthest off, by the same figures. With much noise, the noise chooses them too."
    )
    return Section(
        "The worst ten", found.costs["distances"], (words,), ("columns", "distance", "95% error", "floor"), rows
    )


def _correlations(found: Found, drawn: Draw, mark: str | None) -> Section:
    c = found.correlations
    assert c is not None
    words = (
        "Rank correlations of columns with an order or two values, each cut into at most four runs of about equal mass by "
        f"the model. They differ by {c.largest:.2f} at most; the error of asking is about {c.error:.2f} each, at 95%."
    )
    head = ("", *c.columns)
    rows = tuple(
        (a, *(f"{_two(s)} / {_two(o)}" for s, o in zip(synthetic, original, strict=True)))
        for a, synthetic, original in zip(c.columns, c.synthetic, c.original, strict=True)
    )
    pictured = Matrices(c.columns, [("synthetic", c.synthetic), ("original", c.original)], mark)
    drawings = _drawings(drawn, ("Correlations, synthetic and original side by side", pictured))
    told = (words, "In the table: synthetic / original; ? where noise hides it.")
    return Section("Correlations", found.costs["correlations"], told, head, rows, drawings)


def _workload(found: Found) -> Section:
    w = found.workload
    noise = "" if w.noise == 0 else f" The noise of asking has the deviation {w.noise:,.0f} rows, which is taken out."
    words = (
        f"Random counts over sets of columns, answered by the model: they err by {w.error:,.0f} rows (root mean square), and "
        f"its 95% intervals held {100 * w.held:.0f}% of them.{noise}"
    )
    rows = tuple(
        (" x ".join(m.columns), str(m.cells), _rows(m.error, w.noise), f"{m.stated:,.0f}", f"{100 * m.held:.0f}%")
        for m in w.missed
    )
    head = ("columns", "counts", "error", "deviation that the model states", "95% intervals that held")
    return Section("A workload of counts", found.costs["workload"], (words,), head, rows)


def _two(value: float | None) -> str:
    return "?" if value is None else f"{round(value, 2) + 0.0:.2f}"


def _rows(error: float, noise: float) -> str:
    """Return an error in rows; one that the noise of asking explains whole is not told apart from none."""
    return "within the noise" if noise > 0 and error == 0 else f"{error:,.0f}"


def _score(wanted: Wanted, found: Found) -> Section:
    from sordino.cli.synth.score import hits_of

    score, card = found.hits, wanted.card
    assert score is not None
    assert card is not None
    own = hits_of(card, wanted.model, wanted.keys)
    rows = [
        (
            "trained on synthetic rows, tested on the original",
            f"{score.accuracy:.3f}",
            f"{score.error(1.96):.3f}",
            found.costs["score"],
        ),
        (
            "the larger side alone, on the original",
            f"{score.base:.3f}",
            f"{score.error(1.96):.3f}",
            found.costs["score"],
        ),
        ("trained and tested on synthetic rows", f"{own.accuracy:.3f}", "", "free"),
    ]
    if found.reference is not None:
        rows.append(
            (
                "trained on half of the original, tested on the other",
                f"{found.reference.accuracy:.3f}",
                "",
                "NOT PRIVATE",
            )
        )
    words = f"A scorecard learned by logistic regression: how often is it told right whether {wanted.predicted}?"
    return Section(
        "Train on synthetic, test on real",
        found.costs["score"],
        (words,),
        ("", "right", "95% error", "cost"),
        tuple(rows),
    )


def _histograms(wanted: Wanted, found: Found, drawn: Draw) -> Section:
    if found.histograms:
        things = [(f"{one.column}: original against synthetic", one) for one in found.histograms]
        return Section(
            "Column by column", "NOT PRIVATE: the original's counts are shown", drawings=_drawings(drawn, *things)
        )
    words = ("What the model holds of each column by itself; the original's own counts are not asked.",)
    drawings = _drawings(drawn, ("The model, column by column", wanted.model))
    return Section("Column by column", "free: from the model alone", words, drawings=drawings)
