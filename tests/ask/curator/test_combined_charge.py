"""Several questions as one charge: priced together, paid together, and each answered once, at what it was paid for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

import sordino as sd
from ask.curator.support import S, curator
from sordino.ask.queries.adaptive.marginal import Axis, ContingencyTable, MarginalQuery
from sordino.ask.queries.queryable import ChargePart, Queryable, ReleaseContent
from sordino.ask.queries.row_steps import Fold
from sordino.core.accounting.event_fields import event_to_dict
from sordino.core.accounting.events import Composed
from sordino.core.loss import Loss
from sordino.errors import BudgetExhausted, ChargedError, QuestionRefused

TABLE = MarginalQuery((ContingencyTable((Axis("occ"),)),))
BY_OCC = S.group_by("occ").agg(sd.count())


def ask_of(table: Any, question: Any, loss: Loss) -> sd.Release:
    amounts: Any = loss.amounts()
    release: sd.Release = table.ask(question, **amounts)
    return release


def count_of(table: Any, loss: Loss) -> Any:
    def run(q: Queryable) -> int:
        return len(q.release(TABLE, q.loss).outputs)

    amounts: Any = loss.amounts()
    return table.adapt(run, describe="a table of counts", **amounts)


def parts_of(loss: Loss) -> list[ChargePart]:
    """Return three parts: a question, an algorithm, and what follows from both."""
    return [
        ChargePart("the groups", loss, lambda table: ask_of(table, BY_OCC, loss)),
        ChargePart("the table", loss, lambda table: count_of(table.over(FOLD), loss)),
        ChargePart("the rest", loss),
    ]


FOLD = S.__class__(steps=(Fold(2),))


def run_all(tables: Sequence[Any]) -> int:
    groups, counts, rest = tables
    first = ask_of(groups, BY_OCC, groups.loss)
    count_of(counts.over(FOLD), counts.loss)
    largest = max(first.rows, key=lambda row: row["count"])["occ"]
    return int(ask_of(rest, S.where(sd.col("occ") == (largest or "Tech")).agg(sd.count()), rest.loss).value)


LOSSES: list[tuple[Loss, Loss, Loss]] = [
    (sd.PureDP(3), sd.PureDP(1), sd.PureDP(3)),
    (sd.ZCDP(3, "1e-6"), sd.ZCDP(1), sd.ZCDP(3)),
    (sd.ApproxDP(3, "1e-5"), sd.ApproxDP(1, "1e-6"), sd.ApproxDP(3, "3e-6")),
    # Under a cap on rho a pair is asked as the rho that it amounts to.
    (sd.ZCDP(3, "1e-6"), sd.ApproxDP(1, "1e-6"), sd.ZCDP(3)),
    (sd.ZCDP(3, "1e-6", slack="1e-7"), sd.ApproxDP(1, "1e-9"), sd.ZCDP(3)),
]


@pytest.mark.parametrize(("budget", "loss", "most"), LOSSES, ids=str)
def test_all_parts_are_one_charge_that_covers_each(budget: Loss, loss: Loss, most: Loss) -> None:
    table = curator(budget=budget)
    plan = table.plan_parts(parts_of(loss), describe="three parts")
    assert table.ledger.charges() == []
    value, release = table.adapt_parts(
        run_all,
        parts=parts_of(loss),
        describe="three parts",
        record=lambda value: ReleaseContent(chosen=(("rows", Fraction(value)),)),
    )
    (charge,) = table.ledger.charges()
    assert (charge.state, charge.id) == ("committed", release.charge)
    assert release.event == plan.event
    assert event_to_dict(plan.event) == charge.event
    assert isinstance(release.event, Composed)
    assert len(release.event.events) == 3
    assert release.cost == plan.cost
    assert all(amount <= most.amounts().get(name, amount) for name, amount in release.cost.amounts().items())
    assert [note.partition(":")[0] for note in release.notes[:3]] == ["the groups", "the table", "the rest"]
    assert table.release(release.charge).chosen == (("rows", Fraction(value)),)


def test_none_is_paid_where_the_budget_does_not_cover_the_whole() -> None:
    table = curator(budget=sd.PureDP("2.9"))
    ran: list[Any] = []
    with pytest.raises(BudgetExhausted):
        table.adapt_parts(ran.append, parts=parts_of(sd.PureDP(1)), describe="three parts")
    with pytest.raises(QuestionRefused):
        table.plan_parts(
            [*parts_of(sd.PureDP(1)), ChargePart("no such", sd.PureDP(1), lambda t: t.ask(sd.sum("id"), epsilon=1))],
            describe="four parts",
        )
    assert (ran, table.ledger.charges()) == ([], [])


def refuse(call: Callable[[], Any]) -> None:
    with pytest.raises(QuestionRefused):
        call()


def ask_twice(tables: Sequence[Any]) -> None:
    ask_of(tables[0], BY_OCC, sd.PureDP(1))
    refuse(lambda: ask_of(tables[0], BY_OCC, sd.PureDP(1)))
    refuse(lambda: count_of(tables[0], sd.PureDP(1)))


def run_twice(tables: Sequence[Any]) -> None:
    count_of(tables[1], sd.PureDP(1))
    refuse(lambda: count_of(tables[1].over(FOLD), sd.PureDP(1)))


def ask_for_more(tables: Sequence[Any]) -> None:
    for table in tables:
        refuse(partial(ask_of, table, sd.count(), sd.PureDP("1.01")))
        refuse(partial(count_of, table, sd.PureDP("1.01")))
    # What was refused spent nothing of the part.
    ask_of(tables[2], sd.count(), sd.PureDP("0.5"))


@pytest.mark.parametrize("run", [ask_twice, run_twice, ask_for_more])
def test_a_part_answers_one_question_at_what_it_was_paid_for(run: Any) -> None:
    table = curator(budget=sd.PureDP(3))
    table.adapt_parts(run, parts=parts_of(sd.PureDP(1)), describe="three parts")
    assert table.spent == sd.PureDP(3)


def test_a_part_that_is_kept_answers_nothing() -> None:
    table = curator(budget=sd.PureDP(3))
    kept, _ = table.adapt_parts(list, parts=parts_of(sd.PureDP(1)), describe="three parts")
    for part in (kept[0], kept[2]):
        with pytest.raises(QuestionRefused, match="ended"):
            ask_of(part, BY_OCC, sd.PureDP(1))


@pytest.mark.parametrize("error", [ValueError("a cell"), QuestionRefused("a cell")])
def test_a_failure_after_the_charge_stays_charged_and_says_nothing(error: Exception) -> None:
    table = curator(budget=sd.PureDP(3))

    def fail(tables: Sequence[Any]) -> None:
        ask_of(tables[0], BY_OCC, sd.PureDP(1))
        raise error

    with pytest.raises(ChargedError) as failed:
        table.adapt_parts(fail, parts=parts_of(sd.PureDP(1)), describe="three parts")
    assert "a cell" not in str(failed.value)
    assert "defect" not in str(failed.value)
    assert [charge.state for charge in table.ledger.charges()] == ["failed"]
    assert table.spent == sd.PureDP(3)
