"""Past releases: what they reveal at most, and how a list of them is shown."""

from __future__ import annotations

import math
from typing import Any

from sordino.ask.queries.series import recall_series
from sordino.core.accounting.belief import Belief, belief_after, belief_within, epsilon_and_delta, power_after
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.series_ledger import SeriesLedger
from sordino.core.loss import Event, Loss, round_up
from sordino.core.release import Release
from sordino.core.rounding import float_up
from sordino.core.text_table import align_cells, html_table

# ---- What a release reveals at most, in a sentence that a person without mathematics can hold on to


def explain(release: Release) -> str:
    """Return what someone can learn at most about one unit from this release, from even odds before.

    Someone who knew everything else, and held a guess about one unit at prior odds o, holds it afterwards at odds
    between o e^-epsilon and o e^epsilon (Dwork & McSherry; Kasiviswanathan & Smith 2014); where the loss has no pure bound,
    but with a probability that follows from the event's own law (`belief_after`). Power: Wasserman & Zhou 2010;
    Kairouz, Oh, Viswanath 2015.
    """
    question = f"Charge {release.charge} answered {release.question}, at {release.cost.describe()}."
    meaning = explain_loss(release.cost, release.event, release.neighbors, release.privacy_unit)
    seal = "" if release.private else " NOT PRIVATE: its noise was seeded."
    return f"{question} {meaning}{seal}"


def explain_charge(ledger: Ledger, release: Release) -> str:
    """Return what `explain` says of a release, and of one that paid for a series what all of its periods add to that: nothing."""
    text = explain(release)
    series = SeriesLedger(ledger)
    record = series.of_charge(release.charge)
    if record is None:
        return text
    released = len(series.numbers(record.name))
    last = series.last(record.name)
    question = recall_series(record.arguments)
    begun = f"{released:,} released so far, the last {last.period}" if last is not None else "none released so far"
    limits = ""
    if question.participation is not None:
        rows = question.max_rows_per_period
        limits = (
            f" Of one {release.privacy_unit.removeprefix('all rows of one ').partition(' (')[0]} it counts "
            f"{question.participation.describe(question.every)}, and {rows:,} row{'' if rows == 1 else 's'} in each at most."
        )
    return (
        f"{text} It pays for the whole series {record.name!r}, at most {question.horizon:,} {question.every}s ({begun}): all of "
        f"them together, with their totals, windows and differences, reveal no more than this.{limits} A row whose date or key "
        "is edited after its release counts twice."
    )


def bound_belief(cost: Loss, event: Event) -> Belief:
    """Return how far an answer of this event moves anybody's odds at most; `sd.plot` draws it."""
    belief = belief_after([event], delta=_tighten(cost, event)[1])
    within = belief_within(cost)
    # Of training elsewhere the pair says far more than the event's rho, which sampling does not lower.
    return within if within.epsilon < belief.epsilon / 2 else belief


def _tighten(cost: Loss, event: Event) -> tuple[float, float]:
    """Return epsilon and delta of a cost; the event may be tighter than its rho: a median is selected at pure epsilon."""
    epsilon, delta = epsilon_and_delta(cost)
    pure = event.pure()
    return (float_up(pure), 0.0) if pure is not None and float_up(pure) <= epsilon else (epsilon, delta)


def explain_loss(cost: Loss, event: Event, neighbors: str, privacy_unit: str) -> str:
    """Return what an answer of this event reveals at most, asked already or not: nothing of the answer is read."""
    epsilon, delta = _tighten(cost, event)
    one_row = privacy_unit == "one row"
    unit = "a given row" if one_row else privacy_unit.replace("of one", "of a given")
    if neighbors == "add_remove":
        state = f"{'is' if one_row else 'are'} in the table"
    else:
        state = f"{'has' if one_row else 'have'} one value rather than another"
    belief = bound_belief(cost, event)
    claim = (
        f"Anyone who knew everything else, and thought it as likely as not that {unit} {state}, "
        f"can be {belief.describe(of='it afterwards')}."
    )
    power = round_up(100 * power_after(event, epsilon=epsilon, delta=delta, level=0.05), digits=4)
    times = round_up(math.exp(epsilon), digits=4) if epsilon < 700 else f"e^{round_up(epsilon, digits=6)}"
    slack = f", apart from a probability of {round_up(delta, digits=2)}" if delta else ""
    juror = (
        f"No test of that with 5% false alarms detects it more than {power}% of the time, and no event becomes more than "
        f"{times} times as likely{slack}."
    )
    return f"{claim} {juror}"


# ---- Past releases as a list that a person can read in a notebook

_HEAD = ("charge", "cost", "question", "answer")


class ReleaseList(list[Release]):
    """Past releases, oldest first: a list like any other that shows as a table."""

    def _cells(self) -> list[tuple[str, ...]]:
        return [(r.charge or "", r.cost.describe(), r.question, _say_answer(r)) for r in self]

    def __str__(self) -> str:
        return align_cells(_HEAD, self._cells())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("..." if cycle else str(self))

    def _repr_html_(self) -> str:
        return html_table(f"{len(self)} past releases", _HEAD, self._cells())


def _say_answer(release: Release) -> str:
    rows = release.display_rows(0.95)
    if not release.parts:
        return "; ".join(release.notes) or "a model"
    return " ".join(rows[0]) if len(rows) == 1 else f"{len(rows)} rows"
