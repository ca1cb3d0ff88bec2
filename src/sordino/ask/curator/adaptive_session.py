"""Adaptive runs: one event for the whole, and the session that counts inside it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import numpy as np

from sordino.ask.curator.aggregation_procedure import plan_aggregation
from sordino.ask.curator.most_common_procedure import plan_most_common
from sordino.ask.curator.plan import (
    UNKNOWN_ROWS,
    Answer,
    DataAccess,
    Plan,
    PlannedColumn,
    Procedure,
    StatementWriter,
    TableContext,
    price,
)
from sordino.ask.curator.question_reading import read_question
from sordino.ask.engines.table_counts import KeyColumn
from sordino.ask.queries.adaptive.marginal import (
    FEW_CELLS,
    MOST_AXES,
    MOST_RUNS,
    Axis,
    ContingencyTable,
    Grouping,
    Integers,
    SparseCounts,
    coarsest_grouping,
    cuts_steps,
    select_cells,
    select_groupings,
    tells_apart,
)
from sordino.ask.queries.aggregates.most_common import MostCommon
from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.query import refuse_foreign
from sordino.ask.queries.queryable import (
    CountsQuery,
    Draws,
    Inquiry,
    Queryable,
    ReleaseContent,
    Scan,
    VectorQuery,
    has_scans,
    is_monotone,
)
from sordino.core.accounting.composition import charge_amounts
from sordino.core.accounting.concentration import pure_epsilon_for
from sordino.core.accounting.events import ApproxEvent, GaussianEvent, LaplaceEvent
from sordino.core.accounting.gaussian_dp import vectors_rho_for
from sordino.core.accounting.zcdp import rho_for
from sordino.core.columns import LISTED, NumberColumn
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.point_estimate import PointEstimate
from sordino.core.loss import ZCDP, ApproxDP, Event, Loss, Number, PureDP, format_number, loss_from, to_fraction
from sordino.core.mechanisms.additive_noise import Mechanism
from sordino.core.mechanisms.noise_choice import cheapest, smooth_vectors
from sordino.core.mechanisms.selection import best_selection
from sordino.core.mechanisms.sparse_vector import SparseVector
from sordino.core.neighbors import Neighbors
from sordino.core.noise.guard import SessionGuard
from sordino.core.noise.rng import Rng
from sordino.core.release import Output, Release

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.ask.engines.engine import Statement


# ---- How an adaptive run is charged: one event for the whole, counted inside as sums. Knows no data, runs nothing


@dataclass(frozen=True, slots=True)
class AdaptiveQuestion:
    """What an adaptive run does, in words."""

    words: str

    def describe(self) -> str:
        """Return the words."""
        return self.words

    def identity(self) -> str:
        """Return canonical text of the run."""
        return json.dumps(["adaptive", self.words])


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveProcedure(Procedure):
    """The procedure of an adaptive run, charged as one event; `inner` is the loss that its session counts.

    Where `smooth`, the session counts the rho of Gaussian DP: it draws Gaussian noise for vectors, and nothing else. Where
    `inner` is a pair, it counts epsilon until a question asks for rho (`AdaptiveSession`).
    """

    inner: Loss
    smooth: bool = False

    def columns(self, confidence: float) -> Sequence[PlannedColumn]:
        """Return none."""
        del confidence
        return []

    def write(self, rows: StatementWriter) -> None:
        """Write nothing: each question is written as it comes."""
        del rows

    def release(self, statements: None, rows: DataAccess, rng: Rng) -> Answer:
        """Raise QuestionRefused: an adaptive run is started by its own call."""
        del statements, rows, rng
        raise QuestionRefused("an adaptive run is started by its own call, such as find_bounds")


def plan_adaptive(words: str, table: TableContext, *, asked: Loss, draws: Draws = "any") -> Plan:
    """Return the plan: epsilon is counted as sums of epsilon, rho as sums of rho, (epsilon, delta) as the rho it pays for.

    Theorem: rho-zCDP implies (epsilon, delta) for the rho of `rho_for` (Bun & Steinke 2016, with the conversion of Canonne,
    Kamath, Steinke 2020), and sums of rho under a cap hold for fully adaptive questions (Whitehouse, Ramdas, Rogers, Wu
    2023), so one event with that certificate stands for the whole run. Where all draws are vectors, (epsilon, delta) buys
    the larger rho of Gaussian DP, whose sums hold likewise (Smith & Thakurta 2022; Koskela, Tobaben, Honkela 2022).

    A run that `draws` "either" is charged the pair itself, of which no rho follows; under a cap on rho it draws "vectors".
    """
    smooth = None
    if draws == "either" and isinstance(asked, ApproxDP) and asked.delta > 0 and not isinstance(table.cap, ZCDP):
        event: Event = ApproxEvent(asked.epsilon, asked.delta)
        inner: Loss = asked
    else:
        smooth = vectors_rho_for(asked.epsilon, asked.delta) if isinstance(asked, ApproxDP) and draws != "any" else None
        event, inner = adaptive_event(asked, smooth)
    procedure = AdaptiveProcedure(
        question=AdaptiveQuestion(words),
        event=event,
        rows=UNKNOWN_ROWS,
        notes=table.neighbors.describe_caps(),
        inner=inner,
        smooth=smooth is not None,
    )
    return price(procedure, table, asked=asked)


def adaptive_event(loss: Loss, smooth: Fraction | None = None) -> tuple[Event, Loss]:
    """Return the event of an adaptive run, and the loss that is counted inside it; `smooth` is the rho of Gaussian DP."""
    if isinstance(loss, PureDP):
        return LaplaceEvent(loss.epsilon), loss
    if isinstance(loss, ApproxDP):
        rho = rho_for(loss.epsilon, loss.delta) if smooth is None else smooth
        return GaussianEvent(rho, (loss.epsilon, loss.delta)), ZCDP(rho)
    return GaussianEvent(loss.rho), ZCDP(loss.rho)


# ---- Session: the curator's Queryable - exact noise for every vector asked, and an exact count of what is left
#
# The whole loss was charged before a session begins; a session only refuses to pass it (a filter: sums of epsilon, or of
# rho, which hold for fully adaptive questions; Rogers, Roth, Ullman, Vadhan 2016; Whitehouse, Ramdas, Rogers, Wu 2023).

MakeRelease = Callable[[str, Answer, Event, Loss, Loss, Loss], Release]
T = TypeVar("T")


def run_adaptive(
    algorithm: Callable[[Queryable], T],
    record: Callable[[T], ReleaseContent] | None,
    *,
    plan: Plan,
    table: TableContext,
    rows: DataAccess,
    rng: Rng,
    make_release: Callable[[Answer], Release],
) -> tuple[T, Release, str]:
    """Return an algorithm's result, the release on record and its text; `make_release` makes an answer of its charge one.

    `table` is what the rows are declared as: the plan's own, or what joins make of it.
    """

    def answer_one(words: str, answer: Answer, event: Event, cost: Loss, spent: Loss, left: Loss) -> Release:
        return replace(make_release(answer), question=words, event=event, cost=cost, spent=spent, remaining=left)

    assert isinstance(plan.procedure, AdaptiveProcedure)
    inner = plan.procedure.inner
    smooth = plan.procedure.smooth
    session = AdaptiveSession(rows=rows, table=table, loss=inner, smooth=smooth, rng=rng, make_release=answer_one)
    try:
        result = algorithm(session)
    finally:
        session.close()
    content = ReleaseContent() if record is None else record(result)
    release = replace(make_release((content.keys, content.outputs)), notes=content.notes, chosen=content.chosen)
    return result, release, release.to_json()


class AdaptiveSession:
    """Answers an adaptive algorithm's questions until its loss is used up or it ends.

    `make_release` makes an answer a Release: question, answer, event, cost, spent so far, left. One session may serve the
    threads of its algorithm; a forked process or a copy would count by itself, so neither is answered. Questions are of
    Sordino's own classes (`queries.query`): what an algorithm makes of their answers is post-processing.

    A loss of (epsilon, delta) answers vectors for epsilon, until the first question of rho turns what is left into the rho
    of Gaussian vectors at (what is left of epsilon, delta); then it counts rho alone. Theorem: the whole is (epsilon,
    delta)-private, though when to turn may hang on the answers. Proof: let a be the answers before the turn, e(a) the sum
    of their epsilons, P and P' the laws on two neighbors. P(a) <= exp(e(a)) P'(a), and given a the rest is (epsilon - e(a),
    delta)-private, so P(S) = sum P(a) P(S | a) <= sum P(a) exp(epsilon - e(a)) P'(S | a) + delta
    <= exp(epsilon) P'(S) + delta (basic composition, Dwork, Kenthapadi, McSherry, Mironov, Naor 2006).
    """

    def __init__(
        self,
        *,
        rows: DataAccess,
        table: TableContext,
        loss: Loss,
        rng: Rng,
        make_release: MakeRelease,
        smooth: bool = False,
        statements: Mapping[str, Statement] | None = None,
    ) -> None:
        self._rows = rows
        # `rows` are those that the steps of the domain made, so to a question they are a table's own.
        domain = table.domain
        own = Domain(domain.stored, row_ceiling=domain.row_ceiling, unreadable_rows=domain.unreadable_rows)
        self._table = replace(table, cap=loss, domain=own if domain.steps else domain)
        self._domain = domain
        self._neighbors = table.neighbors
        self._loss = loss
        self._smooth = smooth
        self._rng = rng
        self._release_maker = make_release
        self._spent = {name: Fraction(0) for name in loss.amounts()}
        self._statements: dict[str, Statement] = dict(statements or {})
        self._tables: dict[str, pa.Table] = {}
        self._count_cache = CountCache(rows, table.domain)
        self._guard = SessionGuard("this session")

    @property
    def domain(self) -> Domain:
        """What is declared about the table."""
        return self._domain

    @property
    def neighbors(self) -> Neighbors:
        """Which tables count as neighbors."""
        return self._neighbors

    @property
    def loss(self) -> Loss:
        """The total loss."""
        return self._loss

    def release(self, query: Inquiry, loss: Loss) -> Release:
        """Return noisy vectors: Laplace noise for epsilon, Gaussian for rho."""
        refuse_foreign(query)
        if not isinstance(query, VectorQuery):
            plan = self._plan(query, loss)
            statements = plan.procedure.write(self._rows)
            cost = self._charge(plan.event)
            with self._guard.hold():
                answer = plan.procedure.release(statements, self._rows, self._rng)
            assert isinstance(answer, tuple)
            return self._make_release(plan.sentence(), answer, plan.event, cost)
        mechanisms, event, amounts = self._noise(query, loss)
        self._write(query)
        cost = self._charge(event, amounts)
        unit = query.unit
        outputs = [
            Output(name, Noisy(_hold(m.release(_whole(x), self._rng)), unit, m.law), m.describe())
            for name, m, x in zip(query.names(), mechanisms, self._exact(query), strict=True)
        ]
        return self._make_release(query.describe(), ((), tuple(outputs)), event, cost)

    def select(self, candidates: Sequence[Inquiry], loss: Loss) -> Release:
        """Return the place of about the largest answer, by the cheapest selection for this loss."""
        vectors, sensitivity, _ = self._measure(candidates)
        monotone = is_monotone(vectors, self._neighbors)
        mechanism = best_selection(candidates=len(vectors), sensitivity=sensitivity, loss=loss, monotone=monotone)
        self._write(*vectors)
        cost = self._charge(mechanism.event)
        exact_scores = [self._exact_score(c) for c in vectors]
        words = f"the largest of {len(vectors)} answers, such as {vectors[0].describe()}"
        place = PointEstimate((mechanism.release(exact_scores, self._rng),), Fraction(1))
        output = Output("chosen", place, mechanism.describe())
        return self._make_release(words, ((), (output,)), mechanism.event, cost)

    def above(self, queries: Iterable[Inquiry], threshold: Number, loss: Loss) -> Release:
        """Return the place of the first query whose answer is about above `threshold`, by AboveThreshold."""
        vectors, sensitivity, unit = self._measure(queries)
        epsilon = pure_epsilon(loss)
        mechanism = SparseVector(sensitivity, epsilon, crossings=1, monotone=is_monotone(vectors, self._neighbors))
        self._write(*vectors)
        cost = self._charge(mechanism.event)
        level = to_fraction(threshold, name="threshold") / unit
        session = mechanism.session(-(-level.numerator // level.denominator), self._rng)
        place = next((i for i, q in enumerate(vectors) if session.above(self._exact_score(q))), None)
        output = Output("above", PointEstimate((place,), Fraction(1)), mechanism.describe())
        words = f"the first of {len(vectors)} answers above {format_number(to_fraction(threshold, name='threshold'))}"
        return self._make_release(words, ((), (output,)), mechanism.event, cost)

    def spend(self, event: Event) -> None:
        """Count an event that the session's owner runs beside it; raises QuestionRefused where it would pass the loss."""
        self._charge(event)

    def close(self) -> None:
        """End the session: a Queryable kept for later answers nothing."""
        self._guard.end()
        self._statements.clear()
        self._tables.clear()
        self._count_cache.clear()

    def __repr__(self) -> str:
        return f"<Session on {self._table.name!r}: {self._loss.describe()} in all>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a session cannot be copied or pickled: each copy would spend the whole loss")

    # ---- inside

    def _plan(self, query: Any, loss: Loss) -> Plan:
        """Return the plan of a question as `ask` reads it, its public tables and its unit found."""
        question = read_question(query, self._table)
        if isinstance(question, MostCommon):
            return plan_most_common(question, self._table, asked=loss)
        if not isinstance(question, Aggregation):
            raise QuestionRefused(
                f"{question.describe()} is a question of its own: ask for it with ask(...), not in an adaptive session"
            )
        if question.reads:
            raise QuestionRefused(
                "an adaptive session reads one private table: ask a question that reads others by itself, with ask(...)"
            )
        return plan_aggregation(question, self._table, asked=loss)

    def _noise(self, query: VectorQuery, loss: Loss) -> tuple[list[Mechanism], Event, dict[str, Fraction] | None]:
        """Return the mechanism of each vector, their event, and their cost where it is more than the event's."""
        parts = query.parts(self._domain, self._neighbors)
        if isinstance(self._loss, ApproxDP):
            if isinstance(loss, ApproxDP):
                raise QuestionRefused("this session is asked with epsilon, and after that with rho")
            if isinstance(loss, ZCDP):
                self._turn()
        if not self._smooth:
            return *cheapest(parts, loss), None
        if not isinstance(loss, ZCDP):
            raise QuestionRefused("this session draws Gaussian noise alone: ask it with rho")
        paid = sum((share for sensitivity, share in parts if sensitivity.l2_squared), Fraction(0))
        return *smooth_vectors(parts, loss.rho), {"rho": loss.rho * paid}

    def _turn(self) -> None:
        """Count rho from here on: the rho that Gaussian vectors may sum up to within the remaining epsilon and delta."""
        with self._guard.hold():
            pair = self._loss
            # another thread was first
            if not isinstance(pair, ApproxDP):
                return
            left = pair.epsilon - self._spent["epsilon"]
            if left <= 0:
                raise QuestionRefused("nothing of this session is left for Gaussian noise")
            smooth = vectors_rho_for(left, pair.delta)
            self._smooth = smooth is not None
            self._loss = ZCDP(rho_for(left, pair.delta) if smooth is None else smooth)
            self._spent = {"rho": Fraction(0)}
            self._table = replace(self._table, cap=self._loss)

    def _charge(self, event: Event, stated: dict[str, Fraction] | None = None) -> Loss:
        """Count an event, or stated amounts; raises QuestionRefused where that would exceed the session's loss."""
        if self._smooth and stated is None:
            raise QuestionRefused("this session draws Gaussian noise for vectors alone: it selects nothing")
        if isinstance(self._loss, ApproxDP) and event.pure() is None:
            raise QuestionRefused(
                "this session draws Laplace noise for epsilon, and Gaussian noise for vectors and rho"
            )
        amounts = charge_amounts(event, self._loss) if stated is None else stated
        caps = self._loss.amounts()
        # the check and the spend are one step, whatever threads ask
        with self._guard.hold():
            for name, amount in amounts.items():
                if self._spent[name] + amount > caps[name]:
                    left = caps[name] - self._spent[name]
                    raise QuestionRefused(
                        f"{name} {format_number(amount)} is asked for, but only {format_number(left)} of this "
                        "session's loss is left"
                    )
            for name, amount in amounts.items():
                self._spent[name] += amount
        return loss_from(amounts)

    def _make_release(self, words: str, answer: Answer, event: Event, cost: Loss) -> Release:
        left = {n: c - self._spent[n] for n, c in self._loss.amounts().items()}
        return self._release_maker(words, answer, event, cost, loss_from(dict(self._spent)), loss_from(left))

    def _exact(self, query: VectorQuery) -> Sequence[Any]:
        # one scan at a time, and none after the end
        with self._guard.hold():
            if has_scans(query):
                return query.exact_vectors([self._scan(s) for s in query.scans(self._domain)], self._domain)
            assert isinstance(query, CountsQuery)
            return query.from_counts(self._count_cache.count(query.tables), self._domain)

    def _write(self, *queries: Inquiry) -> None:
        """Write the statements of all scans, before the charge; raises QuestionRefused where the engine cannot express one."""
        for query in queries:
            for scan in query.scans(self._domain) if has_scans(query) else ():
                if scan.key not in self._statements:
                    self._statements[scan.key] = self._rows.write(scan.select(self._rows.primitives()))

    def _scan(self, scan: Scan) -> pa.Table:
        if scan.key not in self._tables:
            self._tables[scan.key] = self._rows.run(self._statements[scan.key])
        return self._tables[scan.key]

    def _measure(self, candidates: Iterable[Inquiry]) -> tuple[Sequence[VectorQuery], Fraction, Fraction]:
        """Return the candidates, their largest sensitivity in steps, and the unit that all share."""
        candidates = list(candidates)
        if not candidates:
            raise QuestionRefused("a selection needs at least one candidate")
        # All at once: hundreds of candidates share one histogram, whose thousand edges are walked once.
        refuse_foreign(candidates)
        one_of_each = {type(candidate): candidate for candidate in candidates}
        if not all(isinstance(candidate, VectorQuery) for candidate in one_of_each.values()):
            raise QuestionRefused("a candidate is a vector query of one number")
        vectors = cast(Sequence[VectorQuery], candidates)
        measures = []
        for vector in vectors:
            parts = vector.parts(self._domain, self._neighbors)
            if len(parts) != 1:
                raise QuestionRefused("a candidate is a vector query of one number")
            measures.append((parts[0][0].linf, vector.unit))
        if len({unit for _, unit in measures}) != 1:
            raise QuestionRefused("candidates must be measured in one unit")
        return vectors, max(moved for moved, _ in measures), measures[0][1]

    def _exact_score(self, candidate: VectorQuery) -> int:
        return int(self._exact(candidate)[0][0])


def _whole(vector: Any) -> Sequence[int]:
    """Return an exact vector as Python's integers, or a long one in its array."""
    if not hasattr(vector, "tolist"):
        return cast(Sequence[int], vector)
    return NumberColumn(vector) if len(vector) > LISTED else cast(Sequence[int], vector.tolist())


def _hold(steps: Sequence[int]) -> Any:
    return steps if isinstance(steps, NumberColumn) else tuple(steps)


def pure_epsilon(loss: Loss) -> Fraction:
    """Return the epsilon that a loss pays for; for rho the largest of a pure mechanism."""
    return pure_epsilon_for(loss.rho) if isinstance(loss, ZCDP) else loss.epsilon


# the most grouping sets in one scan: each needs a hash table of its own
_MOST_SETS = 19
# The most cells that several tables over the same columns are counted by together. Of 40 tables that each cut three columns
# of 300 values in two, all together tell every value from every other: 27 million cells, and as many counts as there are rows.
_MOST_TOGETHER = 1 << 20
# Where an engine counts tables in arrays: the cells of raw keys that a table may have whatever its codes, so that other codes
# need no scan; the most cells of one table, which a block of rows should not leave empty; the most of all tables of one scan.
_FEW_IN_ARRAYS = 1 << 12
_MOST_IN_ARRAYS = 1 << 17
_MOST_AT_ONCE = 1 << 23


class CountCache:
    """Counts of rows by the groupings of tables, each scanned once."""

    def __init__(self, rows: DataAccess, domain: Domain) -> None:
        self._rows = rows
        self._domain = domain
        # By axes alone: what was counted, and all of its cells in an array, or those that occur.
        self._kept: dict[Grouping, list[tuple[Grouping, Integers | SparseCounts]]] = {}

    def count(self, tables: Sequence[ContingencyTable]) -> Iterator[SparseCounts]:
        """Yield the sparse exact counts of each table, by raw keys (before codes), one for all that it does not tell apart.

        One at a time: keys take more memory than the counts of all pairs of a hundred columns.
        """
        orders = [_order(table) for table in tables]
        by_order: dict[Grouping, list[ContingencyTable]] = {}
        for order, table in zip(orders, tables, strict=True):
            by_order.setdefault(order, []).append(table)
        wanted: list[tuple[Grouping, Grouping]] = []
        dense: list[tuple[Grouping, Grouping]] = []
        for order, of in by_order.items():
            if all(self._find(order, table) is not None for table in of):
                continue
            # what is scanned replaces what was kept
            self._kept.pop(order, None)
            small = [] if self._rows.table_counter is None else self._small_groupings(order, of)
            dense += [(order, grouping) for grouping in small]
            wanted += [] if small else [(order, grouping) for grouping in _groupings(order, of, self._domain)]
        for batch in _batches_in_arrays(dense, self._domain):
            self._count(batch)
        for batch in _batches(wanted):
            self._scan(batch)
        for order, table in zip(orders, tables, strict=True):
            entry = self._find(order, table)
            assert entry is not None
            grouping, kept = entry
            keys, counts = kept if isinstance(kept, tuple) else _occurring(kept)
            yield _first_keys(keys, grouping)[:, [order.index(axis) for axis in table.grouping()]], counts

    def _find(self, order: Grouping, table: ContingencyTable) -> tuple[Grouping, Integers | SparseCounts] | None:
        """Return a grouping that was counted and is at least as fine as the table's, and its counts."""
        return next((entry for entry in self._kept.get(order, ()) if tells_apart(entry[0], table)), None)

    def clear(self) -> None:
        """Forget all counts."""
        self._kept.clear()

    def _small_groupings(self, order: Grouping, tables: Sequence[ContingencyTable]) -> list[Grouping]:
        """Return groupings that an engine counts in arrays, none where one of them has too many cells."""
        groupings = _groupings(
            order, tables, self._domain, few=_FEW_IN_ARRAYS, most_runs=math.inf, most=_MOST_IN_ARRAYS
        )
        small = all(_cells(grouping, self._domain) <= _MOST_IN_ARRAYS for grouping in groupings)
        return groupings if small else []

    def _count(self, wanted: Sequence[tuple[Grouping, Grouping]]) -> None:
        """Count several groupings in arrays; rows without a key in one of a grouping's axes are left out of it."""
        axes: dict[Axis, int] = {}
        tables = []
        for _, grouping in wanted:
            tables.append([self._key_column(axis, axes) for axis in grouping])
        statement = self._rows.write(select_cells(list(axes), self._rows.primitives(), self._domain))
        assert self._rows.table_counter is not None
        for (order, grouping), counts in zip(wanted, self._rows.table_counter(statement, tables), strict=True):
            self._kept.setdefault(order, []).append((grouping, counts))

    def _key_column(self, axis: Axis, axes: dict[Axis, int]) -> KeyColumn:
        """Return the column of an axis in a scan of `axes`, to which it is added."""
        keys = replace(axis, codes=None)
        size = keys.size(self._domain)
        if not cuts_steps(axis, self._domain):
            return KeyColumn(axes.setdefault(keys, len(axes)), size, axis.codes)
        cut = replace(keys, rounded=False)
        if axis.rounded:
            # Its keys follow from the steps that the same bins are cut of, whatever their key of missing values.
            cut = next((other for other in axes if (other.column, other.edges) == (axis.column, axis.edges)), cut)
        sets = axis.round_sets(self._domain)
        return KeyColumn(axes.setdefault(cut, len(axes)), size, axis.codes, axis.edges, sets)

    def _scan(self, wanted: Sequence[tuple[Grouping, Grouping]]) -> None:
        """Count several groupings in one scan; rows without a key in one of a grouping's axes are left out of it."""
        groupings = [grouping for _, grouping in wanted]
        select = select_groupings(groupings, self._rows.primitives(), self._domain)
        table = self._rows.run(self._rows.write(select))
        axes = list(dict.fromkeys(axis for grouping in groupings for axis in grouping))
        codes = [_codes(table.column(f"k{i}")) for i in range(len(axes))]
        left_out = _codes(table.column("left_out"))
        counts = _codes(table.column("t0"))
        for order, grouping in wanted:
            places = [axes.index(axis) for axis in grouping]
            mask = sum(1 << (len(axes) - 1 - i) for i in range(len(axes)) if i not in places)
            rows = np.flatnonzero(left_out == mask)
            keys = np.stack([codes[i][rows] for i in places], axis=1)
            whole = (keys >= 0).all(axis=1)
            self._kept.setdefault(order, []).append((grouping, (keys[whole], counts[rows][whole])))


def _groupings(
    order: Grouping,
    tables: Sequence[ContingencyTable],
    domain: Domain,
    *,
    few: int = FEW_CELLS,
    most_runs: float = MOST_RUNS,
    most: int = _MOST_TOGETHER,
) -> list[Grouping]:
    """Return groupings that count tables over the same axes: of all tables together, or of as many as keep the cells few."""
    groupings: list[Grouping] = []
    together: list[ContingencyTable] = []
    for table in tables:
        grouping = coarsest_grouping(order, [*together, table], domain, few=few, most_runs=most_runs)
        if together and _cells(grouping, domain) > most:
            grouping = coarsest_grouping(order, [table], domain, few=few, most_runs=most_runs)
            together = []
            groupings.append(grouping)
        elif together:
            groupings[-1] = grouping
        else:
            groupings.append(grouping)
        together.append(table)
    return list(dict.fromkeys(groupings))


def _cells(grouping: Grouping, domain: Domain) -> int:
    """Return the number of cells of a grouping."""
    return math.prod(axis.size(domain) for axis in grouping)


def _batches(wanted: Sequence[tuple[Grouping, Grouping]]) -> list[list[tuple[Grouping, Grouping]]]:
    """Batch groupings for scans, within the number of groupings and axes that an engine takes in one."""
    batches: list[list[tuple[Grouping, Grouping]]] = []
    axes: set[Axis] = set()
    for one in wanted:
        if not batches or len(batches[-1]) == _MOST_SETS or len(axes | {*one[1]}) > MOST_AXES:
            batches.append([])
            axes = set()
        batches[-1].append(one)
        axes |= {*one[1]}
    return batches


def _batches_in_arrays(
    wanted: Sequence[tuple[Grouping, Grouping]], domain: Domain
) -> list[list[tuple[Grouping, Grouping]]]:
    """Batch groupings for scans whose arrays of cells lie in memory together."""
    batches: list[list[tuple[Grouping, Grouping]]] = []
    cells = 0
    for one in wanted:
        size = _cells(one[1], domain)
        if not batches or cells + size > _MOST_AT_ONCE:
            batches.append([])
            cells = 0
        batches[-1].append(one)
        cells += size
    return batches


def _order(table: ContingencyTable) -> Grouping:
    """Return a table's axes in an order of their own: (a, b) and (b, a) as two sets would count twice."""
    return tuple(sorted(table.grouping(), key=repr))


def _occurring(counts: Integers) -> SparseCounts:
    """Return the cells of an array that are not 0, and their counts."""
    cells = np.argwhere(counts)
    return cells, counts[tuple(cells.T)]


def _first_keys(cells: Integers, grouping: Grouping) -> Integers:
    """Return the cells with a key of each class in place of the class."""
    cells = cells.copy()
    for i, axis in enumerate(grouping):
        if axis.codes is not None:
            cells[:, i] = np.unique(np.array(axis.codes), return_index=True)[1][cells[:, i]]
    return cells


def _codes(column: Any) -> Any:
    """Return a column of whole numbers as int64, -1 for NULL."""
    return column.combine_chunks().cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
