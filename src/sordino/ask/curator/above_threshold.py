"""AboveThreshold: a sparse-vector session over a curator's table - is this answer above that threshold? - paid for beforehand.

Only the curator makes one, after the charge; what leaves it is yes or no.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from sordino.ask.curator.adaptive_session import plan_adaptive, pure_epsilon
from sordino.ask.curator.aggregation_procedure import exact_vectors
from sordino.ask.curator.charging import Charging, Failure, failure_of
from sordino.ask.curator.plan import Answer, DataAccess, TableContext, open_rows
from sordino.ask.curator.question_reading import read_question
from sordino.ask.engines.engine import Engine
from sordino.ask.queries.aggregation import Aggregation, CompiledQuery, compile_query
from sordino.ask.queries.query import refuse_foreign
from sordino.core.accounting.zcdp import rho_for
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.estimates.point_estimate import PointEstimate
from sordino.core.loss import ZCDP, Loss, Number, PureDP, format_number, to_fraction
from sordino.core.mechanisms.sparse_vector import SparseVector, sparse_vector_for
from sordino.core.noise.guard import SessionGuard
from sordino.core.noise.rng import Rng
from sordino.core.release import Key, Output, Release

if TYPE_CHECKING:
    from sordino.ask.engines.engine import Statement

# the parts of a question's own sensitivity in which its distance from the threshold is measured
PARTS = 1024


class AboveThreshold:
    """A sparse-vector session: answers a stream of questions with yes or no until `count` were yes (Lyu, Su, Li 2017).

    A question is a count or a sum, or a linear formula of one, such as 100 - count() / 4, in Python or SQL; its distance and
    its sensitivity are those of the formula. The distance from its threshold is measured in that, rounded down to 1/1024, so all
    move by 1025 parts at most and one noise serves counts and sums alike; what an added unit cannot lower, it cannot lower
    in whole parts either, so a monotone session stays one. Use it in a `with` block: at its end the
    answers are put on record. One session may serve many threads, one question at a time; a forked process or a copy would
    use the same noisy threshold again, so neither is answered.
    """

    def __init__(
        self,
        mechanism: SparseVector,
        *,
        rows: DataAccess,
        table: TableContext,
        rng: Rng,
        commit: Callable[[Answer], Release],
        fail: Callable[[Failure], NoReturn],
    ) -> None:
        self._mechanism = mechanism
        self._session = mechanism.session(0, rng)
        self._rows = rows
        self._table = table
        self._commit = commit
        self._fail = fail
        self._answered: list[tuple[str, bool]] = []
        self._release: Release | None = None
        self._guard = SessionGuard("this session")

    @property
    def open(self) -> bool:
        """Whether another question may be asked: a function of the answers given."""
        return not self._guard.ended and self._session.open

    @property
    def release(self) -> Release:
        """The answers on record; raises QuestionRefused while the session is open."""
        if self._release is None:
            raise QuestionRefused("the session is not closed: its release exists only after the with block")
        return self._release

    def above(self, question: Any, *, threshold: Number) -> bool:
        """Return whether the answer, with noise, is at or above the threshold, with noise, in the question's units.

        The question has one number for an answer: a count or a sum, with a condition or without, or a linear formula of
        one. Raises QuestionRefused for others, and after the last crossing; ChargedError where the engine fails.
        """
        linear = self._read_question(question)
        level = to_fraction(threshold, name="threshold")
        with self._guard.hold():
            if not self._session.open:
                count = self._mechanism.crossings
                raise QuestionRefused(
                    f"the session has had its {count} crossing(s): open a new session, which is a new charge"
                )
            # what cannot be written is refused, and the session goes on
            statement = self._rows.write(linear.resolved.select(self._rows.primitives()))
            crosses = self._crosses(linear, statement, level)
            if isinstance(crosses, Failure):
                self._guard.end_held()
                self._fail(crosses)
            self._answered.append((f"{linear.resolved.words}, above {format_number(level)}", crosses))
            return crosses

    def close(self) -> Release:
        """Put the answers on record and return them; the session answers no more."""
        if self._release is None:
            with self._guard.hold():
                self._guard.end_held()
                keys = (Key("question", tuple(words for words, _ in self._answered)),)
                answers = PointEstimate(
                    tuple(int(crosses) for _, crosses in self._answered), Fraction(1), "none: a yes or a no"
                )
                self._release = self._commit((keys, (Output("above", answers, self._mechanism.describe()),)))
        return self._release

    def __enter__(self) -> AboveThreshold:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        del error, at
        if not self._guard.ended and kind is None:
            self.close()
        self._guard.end()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "an AboveThreshold session cannot be copied or pickled: both copies would use one noisy threshold"
        )

    def __repr__(self) -> str:
        return f"<AboveThreshold: {len(self._answered)} answered, {'open' if self.open else 'closed'}>"

    def _crosses(self, linear: _Linear, statement: Statement, level: Fraction) -> bool | Failure:
        """Return whether the answer crosses; where anything failed its cause, if it is one that quotes no data."""
        try:
            table = self._rows.run(statement)
            exact_gap = exact_vectors(table, linear.resolved)[0][0] * linear.factor + linear.constant - level
            return self._session.above((exact_gap * PARTS / linear.sensitivity).__floor__())
        except Exception as failure:
            return failure_of(failure)

    def _read_question(self, question: Any) -> _Linear:
        """Return the question as a linear formula of one count or sum; raises QuestionRefused for any other."""
        aggregation = read_question(question, self._table)
        refuse_foreign(aggregation)
        if not isinstance(aggregation, Aggregation):
            raise QuestionRefused(f"a session takes one count or sum at a time, not {aggregation.describe()}")
        if aggregation.steps:
            raise QuestionRefused(
                "a session takes a count or sum of the table's own rows, without joins, unnest, exists or per_unit: ask "
                "such a question by itself"
            )
        resolved = compile_query(aggregation, self._table.domain)
        if (
            aggregation.groups
            or aggregation.after
            or aggregation.sample is not None
            or [len(p) for p in resolved.parts] != [1]
        ):
            raise QuestionRefused("a session takes one count or sum at a time, without group_by")
        part = resolved.parts[0][0]
        slope, constant = _read_formula(aggregation)
        falls = part.rule is not None or (part.bounds is not None and part.bounds[0] < 0) or slope < 0
        if self._mechanism.monotone and falls:
            raise QuestionRefused(
                "a monotone session takes counts, and sums of values that cannot be below 0, neither negated: clip the values "
                "at 0, or open a session without monotone=True"
            )
        moved = abs(slope) * resolved.bound(self._table.neighbors).sensitivities[0][0].l1
        if not moved:
            raise QuestionRefused("no unit can move this answer: ask for it as it is, at no cost")
        return _Linear(resolved, slope * part.unit, constant, moved)


@dataclass(frozen=True, slots=True)
class _Linear:
    """A question whose answer is `factor` times the steps of one exact number, plus `constant`."""

    resolved: CompiledQuery
    factor: Fraction
    constant: Fraction
    sensitivity: Fraction


def _read_formula(question: Aggregation) -> tuple[Fraction, Fraction]:
    """Return the slope and the constant of the answer as a linear function of its one aggregate."""
    (aggregate,) = question.aggregates
    formulas = [f for f in question.formulas if f.alias not in question.hidden]
    if len(formulas) + (aggregate.alias not in question.hidden) != 1:
        raise QuestionRefused("a session takes one number at a time: ask for each column by itself")
    if not formulas:
        return Fraction(1), Fraction(0)
    linear = formulas[0].linear()
    if linear is None:
        raise QuestionRefused(
            f"{formulas[0].describe({aggregate.alias: aggregate.describe()})} is not linear, so a session has no sensitivity "
            "for it: ask for the count or sum in it, or for a formula such as 100 * count() + 5, and choose the threshold so"
        )
    factors, constant = linear
    return factors.get(aggregate.alias, Fraction(0)), constant


def open_above_threshold(
    table: TableContext, charging: Charging, engine: Engine, rng: Rng, *, asked: Loss, count: int, monotone: bool
) -> AboveThreshold:
    """Charge a whole session and return it; raises DeclarationError for a monotone one under replace."""
    if monotone and table.neighbors.relation != "add_remove":
        raise DeclarationError(
            "a monotone session needs neighbors add_remove: under replace, a count may rise while another falls"
        )
    pure = PureDP(pure_epsilon(asked))
    rho = None
    if isinstance(asked, type(table.cap)) and not isinstance(asked, PureDP):
        rho = asked.rho if isinstance(asked, ZCDP) else rho_for(asked.epsilon, asked.delta)
    mechanism = sparse_vector_for(PARTS + 1, crossings=count, monotone=monotone, epsilon=pure.epsilon, rho=rho)
    words = f"which answers are above their thresholds, until {count} of them {'is' if count == 1 else 'are'}"
    plan = plan_adaptive(words, table, asked=asked if mechanism.redraws else pure)
    # opened before the charge: a server that is gone costs nothing
    with open_rows(engine):
        charged = charging.charge_new(plan)

    def commit(answer: Answer) -> Release:
        release = charging.make_release(plan, charged, answer)
        charging.commit(charged, release.to_json())
        return release

    return AboveThreshold(
        mechanism,
        rows=DataAccess(engine),
        table=table,
        rng=rng,
        commit=commit,
        fail=lambda failure: charging.fail(charged, failure),
    )
