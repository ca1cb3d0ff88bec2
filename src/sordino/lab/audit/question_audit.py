"""Audits of questions and plans: neighbor tables, replayed noise."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any, Literal, Unpack

from sordino.ask.curator.aggregation_procedure import AggregationProcedure
from sordino.ask.curator.declare_tables import protect
from sordino.ask.curator.dummy_table import dummy
from sordino.ask.curator.plan import Plan
from sordino.ask.curator.rehearsal import RecordedNoise, record_noise, rehearse
from sordino.core.domain import Boolean, Category, Domain, Identifier, List
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.loss import ZCDP, ApproxDP, LossArguments, show_arguments
from sordino.core.neighbors import PrivacyUnit, neighbors_from
from sordino.core.noise.rng import Rng
from sordino.lab.audit.sampled_audit import ALARM, audit_function, claim_of
from sordino.lab.audit.verdict import Audit

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.ask.curator.batch import Batch
    from sordino.ask.curator.curator import Curator
    from sordino.core.domain import Domain
    from sordino.core.neighbors import PrivacyUnit
    from sordino.core.source import PublicTable


# ---- Two invented tables that are neighbors under a declaration, and as far apart as its bounds allow. No data is read

_CHANGED = "the unit that changes"
_MOST_ROWS = 1000
# Stands for a bound where a column has none.
_REACH = 1000


def neighbor_tables(
    domain: Domain,
    *,
    neighbors: str,
    privacy_unit: str | PrivacyUnit,
    rows: int = 20,
    changed: Mapping[str, Any] | None = None,
    seed: int = 1,
) -> tuple[pa.Table, pa.Table]:
    """Return two made-up tables, the second with one unit more (add_remove) or another one in its place (replace).

    The unit that changes has as many rows as its caps allow, up to 1,000, each with every column at its upper bound or last
    value, but for what `changed` states; the one that it replaces has the lower bounds. The other rows are as of `sd.dummy`.

    >>> from sordino import Integer
    >>> here, there = neighbor_tables(Domain({"age": Integer(0, 125)}), neighbors="add_remove", privacy_unit="row")
    >>> len(there) - len(here), there.column("age")[-1].as_py()
    (1, 125)
    """
    import pyarrow as pa

    stated = neighbors_from(neighbors=neighbors, privacy_unit=privacy_unit)
    unknown = [name for name in changed or {} if name not in domain.stored]
    if unknown:
        raise DeclarationError(f"changed names {unknown[0]!r}, which is not a column of the domain")
    base = dummy(domain, rows=rows, unit=stated.unit, rng=Rng.seeded(seed))
    column = None if stated.unit is None else stated.unit.column
    if column is not None:
        base = base.set_column(
            base.schema.get_field_index(column), column, pa.array([f"unit {i}" for i in range(rows)], pa.string())
        )
    copies = 1 if stated.unit is None else min(stated.unit.total_rows, _MOST_ROWS)
    first, last = (
        {**extreme_row(domain, upper=upper), **((changed or {}) if upper else {})} for upper in (False, True)
    )
    ends = []
    for row in (first, last):
        named = row if column is None else {**row, column: _CHANGED}
        ends.append(pa.concat_tables([base, pa.Table.from_pylist([named] * copies, schema=base.schema)]))
    return (base if neighbors == "add_remove" else ends[0]), ends[1]


def extreme_row(domain: Domain, *, upper: bool) -> dict[str, Any]:
    """Return a row with every column at its upper bound or last value, or at its lower bound or first value."""
    return {name: _extreme(column, upper) for name, column in domain.stored.items()}


def _extreme(column: Any, upper: bool) -> Any:
    if isinstance(column, List):
        return [_extreme(column.of, upper)] * min(column.max_items, _MOST_ROWS)
    if isinstance(column, Category):
        return column.values[-1 if upper else 0]
    if isinstance(column, Boolean):
        return upper
    if isinstance(column, Identifier):
        return "last" if upper else "first"
    end, other = (column.upper, column.lower) if upper else (column.lower, column.upper)
    if isinstance(end, (datetime.date, datetime.datetime)):
        return end
    if end is None:
        end = (other or 0) + (_REACH if upper else -_REACH)
    return int(end) if isinstance(end, int) else float(end)


# ---- Record and replay: run on one table, run on its neighbor with the same noise, and see what moved, and how far
#
# It may be given vectors of numbers that some function added noise to. Mechanisms that draw more often for some data than for
# other data, as selections do, are told apart by the next word of their generator.

Norm = Literal["l1", "l2", "linf"]
# Relative, of functions that return floats.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ReplayedVector:
    """Hold how far one vector moved between two neighbors, how far it may, and whether its noise stayed the same."""

    name: str
    norm: Norm
    moved: float
    allowed: float
    same_noise: bool

    @property
    def holds(self) -> bool:
        """Whether it moved no further than declared, by exact values alone."""
        return self.same_noise and self.moved <= self.allowed * (1 + _ROUNDING)


@dataclass(frozen=True, slots=True, repr=False)
class Replay:
    """Hold what moved between two runs with the same noise: `vectors`, and whether both drew the same random words."""

    subject: str
    vectors: tuple[ReplayedVector, ...]
    same_draws: bool
    seed: int

    @property
    def holds(self) -> bool:
        """Whether nothing moved but exact values, and none further than declared."""
        return self.same_draws and all(v.holds for v in self.vectors)

    def describe(self) -> str:
        """Return what was found, a sentence a vector."""
        lines = []
        for v in self.vectors:
            why = "" if v.holds else (": FURTHER THAN DECLARED" if v.same_noise else ": ITS NOISE DEPENDS ON THE DATA")
            lines.append(f"{v.name} moved by {v.moved:g} in {v.norm}, of {v.allowed:g} declared{why}")
        warning = "" if self.same_draws else "; THE TWO RUNS DREW DIFFERENT RANDOM WORDS"
        return f"{self.subject}, replayed: {'; '.join(lines)}{warning}."

    def __repr__(self) -> str:
        return f"<Replay, NOT PRIVATE: {self.describe()}>"

    def _repr_html_(self) -> str:
        return f"<p><b>Replay, NOT PRIVATE.</b> {escape(self.describe())}</p>"


def replay_function(
    function: Callable[[Any, Rng], Any],
    here: Any,
    there: Any,
    *,
    sensitivity: float,
    norm: Norm = "l1",
    seed: int = 1,
    subject: str = "a function",
) -> Replay:
    """Run `function(table, rng)` on two neighbors with the same words of an `Rng`, and compare how far its numbers moved.

    Theorem: if the function adds noise that does not depend on the data, its outputs differ by exactly what its exact values
    differ by, so one pair that moves further than `sensitivity` proves the declared sensitivity, or the independence of the
    noise, wrong, whatever epsilon is. That none does proves nothing about other pairs. Where the noise is drawn in another
    order, or more of it, the generator's next word differs (a chance of 2^-64 otherwise).

    >>> def clumsy(table, rng):  # sums without a clip
    ...     return sum(table) + rng.below(100)
    >>> replay_function(clumsy, [1, 2], [1, 2, 50], sensitivity=10).holds
    False
    """
    runs = []
    for table in (here, there):
        rng = Rng.seeded(seed)
        runs.append((_numbers(function(table, rng)), rng.bits(64)))
    (first, word), (second, other) = runs
    if len(first) != len(second):
        raise DeclarationError("a replayed function returns as many numbers for both tables")
    moved = distance([b - a for a, b in zip(first, second, strict=True)], norm)
    same = word == other
    return Replay(subject, (ReplayedVector("the output", norm, moved, float(sensitivity), same),), same, seed)


def distance(differences: Sequence[Fraction | float | int], norm: Norm) -> float:
    """Return the length of a vector of differences."""
    sizes = [abs(Fraction(d)) for d in differences]
    if norm == "l2":
        return math.sqrt(math.fsum(float(s) ** 2 for s in sizes))
    if norm == "l1":
        return float(sum(sizes))
    if norm == "linf":
        return float(max(sizes, default=0))
    raise DeclarationError(f"norm is l1, l2 or linf, not {norm!r}")


def _numbers(output: Any) -> list[Any]:
    return list(output) if isinstance(output, (list, tuple)) or hasattr(output, "tolist") else [output]


# ---- Audits of a question as the curator answers it: by samples of its whole road, and by its noise on record
#
# Tables here are invented. What an audit says of true rows is NOT PRIVATE.

Through = Literal["procedure", "ask"]
# At this share of what the sensitivity allows, no other pair needs to be tried.
_FAR = 0.999
# Rows of a made-up table that are tried as the unit that changes.
_TRIED = 6


@show_arguments(LossArguments)
def audit_question(
    question: Any,
    here: Any,
    there: Any,
    *,
    domain: Domain,
    neighbors: str,
    privacy_unit: str | PrivacyUnit,
    at_delta: float | None = None,
    through: Through = "procedure",
    samples: int = 10_000,
    alarm: float = ALARM,
    seed: int = 1,
    public: Mapping[str, PublicTable] | None = None,
    **loss: Unpack[LossArguments],
) -> Audit:
    """Audit a question, in Python or `sd.sql(...)`, on two invented tables that are neighbors as declared.

    `through="procedure"` scans each table once and draws what follows `samples` times, as `audit_plan` does; `"ask"` asks
    the whole question each time: planned, charged in memory, scanned, answered. The claim is the plan's own; `at_delta`
    (`delta` where that is given) is the delta at which a loss in rho is audited. `neighbor_tables` makes a pair. It is under
    the relation `neighbors` and for the `privacy_unit`.

    Raises as `protect` and `ask` do, and DeclarationError where a loss in rho has no `at_delta`.
    """
    if through not in ("procedure", "ask"):
        raise DeclarationError(f'through is "procedure" or "ask", not {through!r}')
    stated: dict[str, Any] = {"domain": domain, "neighbors": neighbors, "privacy_unit": privacy_unit, "public": public}
    budget = ApproxDP(10**9, "0.999999") if loss.get("rho") is None else ZCDP(10**9, slack="0.999999")
    streams = {id(here): 2 * seed, id(there): 2 * seed + 1}

    def open_curator(table: Any, number: int) -> Curator:
        return protect(table, budget=budget, ledger=None, name="audited", rng=Rng.seeded(number), **stated)

    plan = _one(open_curator(here, seed).plan(question, **loss))
    if through == "procedure":
        return audit_plan(plan, here, there, at_delta=at_delta, samples=samples, alarm=alarm, seed=seed)

    def ask(table: Any, runs: int) -> list[tuple[Any, ...]]:
        curator = open_curator(table, streams[id(table)])
        releases = (curator.ask(question, **loss) for _ in range(runs))
        return [_values(plan, release.keys, release.outputs) for release in releases]

    claimed: dict[str, Any] = {"delta": _delta_of(plan, at_delta), "subject": plan.question.describe()}
    claimed["epsilon"] = claim_of(plan.event, claimed["delta"])
    return audit_function(ask, here, there, samples=samples, alarm=alarm, seed=seed, **claimed)


def audit_plan(
    plan: Plan | Batch,
    here: Any = None,
    there: Any = None,
    *,
    at_delta: float | None = None,
    samples: int = 10_000,
    alarm: float = ALARM,
    seed: int = 1,
) -> Audit:
    """Audit what `ask(plan)` would run, on two invented tables; without them, on `telling_tables(plan)`.

    The plan's own procedure runs over rows of its declared shape: the table that it was made for is not read, and nothing
    is charged. Outputs are the values of all columns, or how many keys show where keys are private. `at_delta` is the delta
    at which the claim is stated, that of the plan where None.

    Raises DeclarationError where a loss in rho has no `at_delta`.
    """
    single = _one(plan)
    pair = telling_tables(single, seed=seed) if here is None or there is None else (here, there)
    streams = {id(pair[0]): 2 * seed, id(pair[1]): 2 * seed + 1}

    def answer(table: Any, runs: int) -> list[tuple[Any, ...]]:
        number = streams[id(table)]
        answers = rehearse(_open_like(single, table, number), single, runs=runs, rng=Rng.seeded(number))
        return [_values(single, *(a if isinstance(a, tuple) else (a.keys, a.outputs))) for a in answers]

    target = _delta_of(single, at_delta)
    words = single.question.describe()
    claim = claim_of(single.event, target)
    return audit_function(
        answer, *pair, epsilon=claim, delta=target, samples=samples, alarm=alarm, subject=words, seed=seed
    )


def replay_plan(plan: Plan, here: Any = None, there: Any = None, *, seed: int = 1) -> Replay:
    """Run a plan on two invented neighbors with the same noise on record; see `replay_function` for what follows.

    Each vector that gets noise of its own is compared with the sensitivity that its mechanism was made for, in whole steps.
    Raises QuestionRefused where noise is not added to counts and sums, as by quantiles and private keys.
    """
    runs: list[tuple[list[RecordedNoise], int]] = []
    for table in telling_tables(plan, seed=seed) if here is None or there is None else (here, there):
        rng = Rng.seeded(seed)
        runs.append((record_noise(_open_like(plan, table, seed), plan, rng), rng.bits(64)))
    (first, word), (second, other) = runs
    vectors = tuple(_compare(a, b) for a, b in zip(first, second, strict=True))
    return Replay(plan.question.describe(), vectors, word == other, seed)


def telling_tables(plan: Plan, *, seed: int = 1) -> tuple[Any, Any]:
    """Return two invented neighbors on which a plan's exact values lie far apart, of a few that are tried.

    The unit that changes has every column at its upper bound, at its lower one, or is a row of `sd.dummy`. Where noise is not
    added to sums and counts, the first is taken.
    """
    stated: dict[str, Any] = {"neighbors": plan.neighbors.relation, "privacy_unit": plan.neighbors.unit or "row"}
    best: tuple[float, tuple[Any, Any]] | None = None
    for changed in _rows_to_try(plan.domain, seed):
        pair = neighbor_tables(plan.domain, changed=changed, seed=seed, **stated)
        try:
            replay = replay_plan(plan, *pair, seed=seed)
        except QuestionRefused:
            return pair
        moved = max((v.moved / v.allowed for v in replay.vectors if v.allowed), default=0.0)
        if best is None or moved > best[0]:
            best = (moved, pair)
        if moved > _FAR:
            break
    assert best is not None
    return best[1]


def _rows_to_try(domain: Domain, seed: int) -> Iterator[dict[str, Any]]:
    yield from (extreme_row(domain, upper=upper) for upper in (True, False))
    yield from dummy(domain, rows=_TRIED, rng=Rng.seeded(seed)).to_pylist()


def _one(plan: Plan | Batch) -> Plan:
    if not isinstance(plan, Plan):
        raise DeclarationError("one question is audited at a time, not a batch: audit each of its plans")
    return plan


def _open_like(plan: Plan, table: Any, seed: int) -> Curator:
    """Return the curator of invented rows under the declaration of a plan."""
    if plan.table.private and any(getattr(step, "reads", {}) for step in getattr(plan.question, "steps", ())):
        raise QuestionRefused(
            "a question of several private tables is audited by audit_function, which opens them itself"
        )
    return protect(
        table,
        domain=plan.domain,
        neighbors=plan.neighbors.relation,
        privacy_unit=plan.neighbors.unit or "row",
        budget=ApproxDP(1, 0),
        ledger=None,
        name="audited",
        rng=Rng.seeded(seed),
        public=plan.table.public,
    )


def _delta_of(plan: Plan, at_delta: float | None) -> float:
    return float(at_delta if at_delta is not None else getattr(plan.asked, "delta", None) or 0.0)


def _compare(here: RecordedNoise, there: RecordedNoise) -> ReplayedVector:
    norm: Norm = "l2" if here.l1 is None else "l1"
    moved = distance([b - a for a, b in zip(here.exact, there.exact, strict=True)], norm)
    allowed = float(here.l1) if here.l1 is not None else float(here.l2_squared or 0) ** 0.5
    noise = [[n - e for n, e in zip(r.noisy, r.exact, strict=True)] for r in (here, there)]
    return ReplayedVector(here.name, norm, moved, allowed, noise[0] == noise[1])


def _values(plan: Plan, keys: Sequence[Any], outputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return all values of an answer in a row; of one with private keys, which come and go, how many show."""
    if isinstance(plan.procedure, AggregationProcedure) and plan.procedure.allocation.threshold is not None:
        return (len(keys[0].labels),)
    return tuple(x for output in outputs for x in output.estimate.values())
