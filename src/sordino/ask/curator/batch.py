"""Batch: several questions planned together - the least loss for wanted errors, or one loss shared among them.

Everything here follows from plans, so from public facts alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, cast

from sordino.ask.curator.plan import EQUAL, LossSplit, Plan, registered_procedure
from sordino.ask.curator.statement_procedure import join_questions, name_groups, unnamed
from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.sql.block_splitter import GROUPINGS
from sordino.ask.queries.sql.parse import SqlText
from sordino.ask.queries.tabulation import describe_left_out
from sordino.core.errors import BudgetExhausted, DeclarationError, QuestionRefused, SordinoError, arg
from sordino.core.estimates.table_cells import name_table
from sordino.core.loss import (
    ZCDP,
    Loss,
    LossArguments,
    Number,
    format_number,
    loss_from,
    loss_to_numbers,
    read_loss,
    to_fraction,
)
from sordino.core.release import show_number, show_rows
from sordino.core.text_table import html_table

# the significant digits of a loss that was searched, and the losses that are searched
_DIGITS = 4
_LEAST = Fraction(1, 10**9)
_MOST = Fraction(10**5)

# questions whose errors as one tabulation are listed in words
_LISTED = 6
# different tables of which a tabulation is planned only for the comparison, where the search for its marginals is numeric
_MOST_COMPARED = 100
# the least mean gain, as a logarithm, that is worth a note
_WORTH = 0.01

# returns the plan of question i at a loss
PlanAt = Callable[[int, Fraction], Plan]


@dataclass(frozen=True, slots=True)
class TabulationSaving:
    """What questions of a batch would have as one tabulation at the same loss: `now` and `then` are errors at a confidence.

    `tables` are the columns of each question, in the order of the questions; `left_out` says which rows would count in none.
    """

    tables: tuple[tuple[str, ...], ...]
    now: tuple[float, ...]
    then: tuple[float, ...]
    confidence: float
    left_out: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return the comparison as a sentence."""
        distinct = list(dict.fromkeys(self.tables))
        written = ", ".join("[" + ", ".join(f'"{name}"' for name in table) + "]" for table in distinct[:_LISTED])
        errors = [
            f"{name_table(table) or 'total'} +-{then:.3g} in place of +-{now:.3g}"
            for table, now, then in zip(self.tables, self.now, self.then, strict=True)
        ]
        more = f"; and {len(errors) - _LISTED:,} more" if len(errors) > _LISTED else ""
        rest = ", ..." if len(distinct) > _LISTED else ""
        notes = "".join(f"; {note}" for note in self.left_out)
        return (
            f"asked as one tabulation, sd.tabulate([{written}{rest}]), at the same loss, errors at {100 * self.confidence:g}% "
            f"would be: {'; '.join(errors[:_LISTED])}{more}; and all tables would agree{notes}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON data."""
        return {
            "tables": [list(table) for table in self.tables],
            "errors_now": list(self.now),
            "errors": list(self.then),
            "notes": list(self.left_out),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Batch:
    """The plans of several questions, each with a loss of its own; `ask` turns it into a list of releases."""

    plans: tuple[Plan, ...]
    confidence: float

    @property
    def cost(self) -> Loss:
        """What all of them cost together."""
        amounts: dict[str, Fraction] = {}
        for plan in self.plans:
            for name, amount in plan.cost.amounts().items():
                amounts[name] = amounts.get(name, Fraction(0)) + amount
        return loss_from(amounts, delta=getattr(self.plans[0].cost, "delta", None) if "rho" in amounts else None)

    def errors(self) -> list[float]:
        """Return the largest expected error of each question, at the confidence of the batch; 0 of one that is free."""
        return [0.0 if plan.is_free else _worst(plan, self.confidence) for plan in self.plans]

    def check_covered(self, remaining: Loss) -> None:
        """Raise BudgetExhausted unless the remaining loss covers all plans, so that none is asked otherwise."""
        left = remaining.amounts()
        cost = self.cost.amounts()
        if set(cost) != set(left):
            raise DeclarationError("this batch was planned for a budget of another kind: plan again")
        if any(amount > left[name] for name, amount in cost.items()):
            rule = f"the batch costs {self.cost.describe()}, and {remaining.describe()} is left"
            raise BudgetExhausted(f"{rule}; nothing was charged")

    def describe(self) -> str:
        """Return the batch in a few lines."""
        lines = [f"cost       {self.cost.describe()} in all"]
        for plan in self.plans:
            off = _say_error(plan, self.confidence)
            if not plan.is_free and _largest_error(plan, self.confidence) is not None:
                off += f" at {100 * self.confidence:g}%"
            lines.append(f"           {plan.cost.describe()}: {off}, {plan.words}")
        lines += [f"note       {note}" for note in self.notes()]
        return "\n".join([*lines, *(f"ledger     {unknown}" for unknown in self._unknown())])

    def saving(self, confidence: float | None = None) -> TabulationSaving | None:
        """Return what one tabulation in place of the batch would save, by its own plan.

        None unless all questions are counts or sums by declared keys of the same rows, or where it would save nothing.
        """
        return compare_tabulation(self.plans, self.confidence if confidence is None else confidence)

    def notes(self) -> list[str]:
        """Return what may be said of the batch as a whole."""
        saving = self.saving()
        return [] if saving is None else [saving.describe()]

    def to_dict(self, *, confidence: float | None = None) -> dict[str, Any]:
        """Return the batch as JSON data, its errors at a confidence: that which it was planned for where none is given."""
        stated = self.confidence if confidence is None else confidence
        saving = self.saving(stated)
        return {
            "schema": 1,
            "cost": loss_to_numbers(self.cost),
            "confidence": stated,
            "errors": [_largest_error(p, stated) for p in self.plans],
            "plans": [p.to_dict(confidence=stated) for p in self.plans],
            **({} if saving is None else {"notes": [saving.describe()], "as_tabulation": saving.to_dict()}),
        }

    def __repr__(self) -> str:
        return f"<Batch of {len(self.plans)} plans; cost {self.cost.describe()}, nothing spent>"

    def __str__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        rows = [
            (str(n), p.cost.describe(), _say_error(p, self.confidence), p.words) for n, p in enumerate(self.plans, 1)
        ]
        foot = f"cost {self.cost.describe()} in all, nothing spent"
        head = ("", "cost", f"error at {100 * self.confidence:g}%", "question")
        notes = [*self.notes(), *(f"the ledger: {unknown}" for unknown in self._unknown())]
        return html_table("Batch", head, rows, notes=notes, foot=foot)

    def _unknown(self) -> list[str]:
        """Return what is unknown of the ledgers, each thing once."""
        return [*dict.fromkeys(plan.unknown for plan in self.plans if plan.unknown)]


def _say_error(plan: Plan, confidence: float) -> str:
    if plan.is_free:
        return "no error"
    column = plan.procedure.columns(confidence)[0]
    error = _largest_error(plan, confidence)
    if error is None:
        return column.say()[0]
    return f"+-{show_number(error)}" if column.unit == "value" else show_rows(error, column.unit)


def compare_tabulation(plans: Sequence[Plan], confidence: float) -> TabulationSaving | None:
    """Return what the plans' questions would have as one tabulation at the sum of their losses; see `Batch.saving`."""
    if any(plan.is_free or plan.table_name != plans[0].table_name for plan in plans):
        return None
    tabulation = join_questions([plan.question for plan in plans])
    registered = registered_procedure(tabulation)
    if tabulation is None or registered is None:
        return None
    if len(tabulation.tables) > _MOST_COMPARED and not isinstance(plans[0].asked, ZCDP):
        return None
    amounts: dict[str, Fraction] = {}
    for plan in plans:
        for name, amount in plan.asked.amounts().items():
            amounts[name] = amounts.get(name, Fraction(0)) + amount
    table = plans[0].table
    try:
        joined = registered.plan_question(
            tabulation, table, asked=loss_from(amounts, delta=getattr(plans[0].asked, "delta", None))
        )
    # Keys that are not public, a vector that is no single number, too many cells: these are no marginals of one cube.
    except SordinoError:
        return None
    errors = joined.error(confidence)
    places = {frozenset(names): names for names in tabulation.tables}
    measures = [unnamed(measure) for measure in tabulation.measures]
    tables: list[tuple[str, ...]] = []
    now: list[float] = []
    then: list[float] = []
    for plan in plans:
        question = cast(Aggregation, plan.question)
        stated = plan.error(confidence)
        for aggregate in question.aggregates:
            alone = stated[aggregate.alias] if isinstance(stated, dict) else stated
            names = name_groups(question.groups, tabulation)
            together = errors[places[frozenset(names)]]
            if isinstance(together, dict):
                together = together[tabulation.measures[measures.index(unnamed(aggregate))].alias]
            if alone is None or not alone > 0:
                return None
            tables.append(names)
            now.append(float(alone))
            then.append(float(together))
    ratio = math.fsum(math.log(max(after, 1e-9) / before) for before, after in zip(now, then, strict=True)) / len(now)
    if ratio > -_WORTH:
        return None
    left_out = describe_left_out(tabulation, table.domain)
    return TabulationSaving(tuple(tables), tuple(now), tuple(then), confidence, left_out)


def advise(plan: Plan) -> Plan:
    """Return the plan of a statement of CUBE, ROLLUP or GROUPING SETS with what a tabulation of its sets would save."""
    blocks = getattr(plan.procedure, "plans", ())
    if len(blocks) < 2 or GROUPINGS not in cast(Any, plan.question).statement.outside:
        return plan
    saving = compare_tabulation(blocks, 0.95)
    return plan if saving is None else replace(plan, advice=(saving.describe(),))


def plan_batch(
    question: Any,
    plan: Callable[..., Plan],
    *,
    price: Callable[..., Plan] | None = None,
    error: Any,
    losses: LossArguments,
    counted: str,
    confidence: float,
    split: LossSplit = EQUAL,
    assume_rows: int | None = None,
) -> Batch:
    """Return the batch that the arguments of `Curator.plan` ask for; `counted` is the currency where no loss is stated.

    `plan` makes the plans that it holds; `price`, where given, those that a loss is searched by, which nobody sees: they write no
    statement and look nothing up in the ledger.
    Raises DeclarationError where the arguments do not fit together, QuestionRefused for a question whose error is private.
    """
    listed = list(question) if isinstance(question, (list, tuple)) else [question]
    questions = [one for q in listed for one in (q.statements() if isinstance(q, SqlText) else [q])]
    if not questions or not 0 < confidence < 1:
        raise DeclarationError("a batch takes at least one question, and a confidence between 0 and 1, such as 0.95")
    if losses.get("rho") is not None or losses.get("epsilon") is not None:
        counted = "rho" if losses.get("rho") is not None else "epsilon"

    delta = losses.get("delta")
    sharing = len(questions)

    def plan_at(i: int, amount: Fraction, *, by: Callable[..., Plan] = plan) -> Plan:
        # Deltas add up; with rho it only says how the cost is reported.
        each = delta
        if delta is not None and counted == "epsilon":
            each = to_fraction(delta, name="delta") / sharing
        priced = by(questions[i], **{counted: amount}, delta=each)
        if priced.procedure.error_is_private:
            raise QuestionRefused(
                "the error of this question is private, so no loss can be planned from it: state a loss instead of "
                f"{arg('error=')}"
            )
        return priced

    if error is None:
        total = read_loss(**losses).amounts()[counted]
        # Whether a question costs anything does not follow from the loss; one that does not leaves its share to the others.
        equal = [plan_at(i, total / len(questions)) for i in range(len(questions))]
        sharing = sum(not priced.is_free for priced in equal) or len(questions)
        if sharing < len(questions):
            equal = [priced if priced.is_free else plan_at(i, total / sharing) for i, priced in enumerate(equal)]
        return _share_out(plan_at, equal, total, confidence, split, assume_rows)
    if losses.get("epsilon") is not None or losses.get("rho") is not None or not split.is_equal:
        raise DeclarationError(
            f"{arg('error=')} finds the smallest loss itself: leave out epsilon, rho, weights and share"
        )
    wanted = list(error) if isinstance(error, (list, tuple)) else [error] * len(questions)
    if len(wanted) != len(questions):
        raise DeclarationError(f"{arg('error=')} takes one number, or {len(questions)}, one per question")
    return _for_errors(plan_at, partial(plan_at, by=price or plan), wanted, confidence)


def _for_errors(plan_at: PlanAt, price_at: PlanAt, wanted: Sequence[Number], confidence: float) -> Batch:
    """Return each question's plan at the least loss, to 4 digits, whose expected error is at most the wanted one.

    Raises QuestionRefused where no loss up to 100,000 reaches it, or the error depends on data that no guess was given for.
    """
    plans: list[Plan] = []
    for i, target in enumerate(wanted):
        most = to_fraction(target, name="error")
        if most <= 0:
            raise DeclarationError(f"error, what an answer may be off by, must be above 0, not {format_number(most)}")
        low = _LEAST
        high = _MOST
        largest = plan_at(i, high)
        if largest.is_free:
            plans.append(largest)
            continue
        if _worst(largest, confidence) > most:
            raise QuestionRefused(
                f"no loss makes question {i + 1} as exact as +-{format_number(most)}: ask for a larger error"
            )
        while high / low > 1 + Fraction(1, 10 ** (_DIGITS + 2)):
            middle = _root(low * high)
            low, high = (low, middle) if _worst(price_at(i, middle), confidence) <= most else (middle, high)
        rounded = _round_up(high)
        plans.append(plan_at(i, rounded))
    return Batch(tuple(plans), confidence)


def _share_out(
    plan_at: PlanAt, equal: list[Plan], total: Fraction, confidence: float, split: LossSplit, rows: int | None
) -> Batch:
    """Return the plans whose losses sum to `total`: equal, in proportion to weights, or of the least sum of errors.

    Questions that are free have no share.
    """
    paying = [i for i, plan in enumerate(equal) if not plan.is_free]
    if split.is_equal or not paying:
        return Batch(tuple(equal), confidence)
    from sordino.ask.curator.loss_shares import check_scale, least_error_shares, relative_error, weigh

    each = total / len(paying)
    stated = weigh([[n for n in p.names if n not in p.groups] for p in equal], split, what="question")
    weights = [stated[i] for i in paying]
    shares = [w / sum(weights, Fraction(0)) for w in weights]
    if split.share != "equal":
        relative = split.share == "relative"
        if relative:
            check_scale([p.question for p in equal if isinstance(p.question, Aggregation)], split)

        def errors_at(loss: Fraction) -> list[float]:
            plans = [plan_at(i, loss) for i in paying]
            return [relative_error(p, split, confidence, rows) if relative else _worst(p, confidence) for p in plans]

        shares = list(least_error_shares(weights, errors_at, loss=each))
    plans = list(equal)
    for i, share in zip(paying, shares, strict=True):
        plans[i] = plan_at(i, share * total)
    return Batch(tuple(plans), confidence)


def _worst(plan: Plan, confidence: float) -> float:
    error = _largest_error(plan, confidence)
    if error is None and not plan.procedure.columns(confidence):
        raise QuestionRefused("keys alone have no error: ask for them in a question of their own, with a loss")
    if error is None:
        raise QuestionRefused(f"the error of a mean depends on the rows: give {arg('assume_rows')}, a public guess")
    return error


def _largest_error(plan: Plan, confidence: float) -> float | None:
    """Return the largest expected error of a question's answers, None where one depends on the rows."""
    expected = plan.error(confidence)
    errors = list(expected.values()) if isinstance(expected, dict) else [expected]
    # A tabulation states an error of each measure in each table.
    errors = [one for error in errors for one in (error.values() if isinstance(error, dict) else [error])]
    return None if not errors or any(e is None for e in errors) else float(max(errors))


def _root(value: Fraction) -> Fraction:
    """Return about the square root, to 9 digits: losses that are searched stay short numbers."""
    return Fraction(f"{math.sqrt(value):.9g}")


def _round_up(value: Fraction) -> Fraction:
    """Return the least number of a few significant digits at or above a value.

    >>> _round_up(Fraction(1, 3))
    Fraction(1667, 5000)
    """
    places = _DIGITS - 1 - math.floor(math.log10(value))
    scale = Fraction(10) ** places
    return math.ceil(value * scale) / scale
