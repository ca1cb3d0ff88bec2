"""Quantiles through DuckDB: the law from few scans, groups, filters, poison, and nothing fetched row by row.

False alarms: 1e-6 a test.
"""

from __future__ import annotations

import collections
import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from battery import chi_square_tail
from quantile_law import single_law
from sordino import col
from sordino.ask.curator import quantile_scans as room
from sordino.ask.curator.quantile_scans import PlannedQuantile, bin_widths, plan_quantile
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.queries.aggregates.quantile import Quantile, iqr, median, quantile, quantiles
from sordino.ask.queries.aggregation import Aggregation, compile_query
from sordino.ask.queries.build import Selection, count
from sordino.ask.queries.expressions.expr import Expr
from sordino.core.accounting.concentration import bounded_range_rho
from sordino.core.loss import ZCDP, Loss, PureDP
from sordino.core.mechanisms.joint_quantiles import JointQuantiles
from sordino.core.mechanisms.quantile_selection import QuantileSelection
from sordino.core.neighbors import Neighbors, PrivacyUnit, Relation
from sordino.core.noise.rng import Rng
from sordino.errors import QuestionRefused

F = Fraction
ALARM = 1e-6
ROW = Neighbors("add_remove", None)
NOTHING = Selection()


class Scans:
    """Run trees over a table, and remember what was fetched."""

    def __init__(self, table: pa.Table, domain: sd.Domain, unit: PrivacyUnit | None = None) -> None:
        self.engine, self.fetched = DuckDBEngine(table, domain=domain, unit=unit), list[int]()

    def primitives(self) -> Any:
        return self.engine.primitives

    def write(self, select: Any) -> Any:
        return self.engine.write(select)

    def run(self, select: Any) -> pa.Table:
        found = self.engine.run(select)
        self.fetched.append(found.num_rows)
        return found


def _plan(
    asked: Any,
    domain: sd.Domain,
    *,
    where: Expr | None = None,
    by: tuple[Any, ...] = (),
    loss: Loss | None = None,
    neighbors: Neighbors = ROW,
) -> PlannedQuantile:
    selection = NOTHING if where is None else NOTHING.where(where)
    selection = selection.group_by(*by) if by else selection
    question: Aggregation = selection.agg(count())
    return plan_quantile(
        asked.aggregate, compile_query(question, domain), domain=domain, neighbors=neighbors, loss=loss or PureDP(1)
    )


def _release(planned: PlannedQuantile, scans: Scans, seed: int = 1) -> list[list[Any]]:
    return [list(o.estimate.values()) for o in planned.outputs(planned.draw(scans, Rng.seeded(seed)))]


WHOLE = sd.Domain({"x": sd.Integer(0, 26), "g": sd.Category(["a", "b", "c"]), "id": sd.Identifier()})


@pytest.mark.deep
@pytest.mark.parametrize("bins", [100_000, 3], ids=["one scan", "bins of 9, 3 and 1"])
@pytest.mark.each(4)
@pytest.mark.parametrize("draws", [60, 1_000])
def test_released_values_have_the_law(bins: int, draws: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_MOST_BINS", bins)
    table = [0, 3, 3, 3, 4, 9, 9, 25, 26]
    scans = Scans(pa.table({"x": table, "g": ["a"] * 9, "id": ["1"] * 9}), WHOLE)
    planned = _plan(median("x"), WHOLE)
    assert isinstance(planned.selection, QuantileSelection)
    expected = single_law(table, F(1, 2), planned.selection.rate(0), range(27))
    rng, counts = Rng.seeded(3), collections.Counter[int]()
    for _ in range(draws):
        counts[planned.outputs(planned.draw(scans, rng))[0].estimate.values()[0]] += 1
    large = [v for v, p in expected.items() if p * draws >= 8]
    pairs = [(counts[v[0]], expected[v] * draws) for v in large]
    pairs.append((draws - sum(c for c, _ in pairs), draws - sum(e for _, e in pairs)))
    assert chi_square_tail(sum((c - e) ** 2 / e for c, e in pairs), len(pairs) - 1) > ALARM


def test_groups_and_filters_see_their_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """At epsilon 10^4 the answers are exact: groups of 200, none, and 100 rows, of which the filter drops half."""
    for bins in (100_000, 5):
        monkeypatch.setattr(room, "_MOST_BINS", bins)
        rows = [("a", 5)] * 200 + [("c", 20)] * 60 + [("c", 10)] * 40 + [("c", 1)] * 300 + [(None, 7)] * 5000
        table = pa.table({"g": [g for g, _ in rows], "x": [x for _, x in rows], "id": ["1"] * len(rows)})
        planned = _plan(median("x"), WHOLE, where=col("x") > 3, by=("g",), loss=PureDP(10_000))
        found = _release(planned, Scans(table, WHOLE))[0]
        assert (found[0], found[2]) == (5, 20)
        assert 0 <= found[1] <= 26


def test_many_groups_by_two_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 groups, bins refined where each needs them, in the order of the declared keys."""
    monkeypatch.setattr(room, "_MOST_BINS", 40)
    domain = sd.Domain({"x": sd.Integer(0, 59_999), "g": sd.Category(["a", "b"]), "k": sd.Integer(0, 99)})
    rows = [(g, k, 500 * k + 7 * (g == "b")) for g in "ab" for k in range(100) for _ in range(5)]
    columns = list(zip(*rows, strict=True))
    table = pa.table({"g": list(columns[0]), "k": list(columns[1]), "x": list(columns[2])})
    scans = Scans(table, domain)
    found = _release(_plan(median("x"), domain, by=("g", "k"), loss=PureDP(10_000)), scans)[0]
    assert found == [500 * k + 7 * (g == "b") for g in "ab" for k in range(100)]
    assert len(scans.fetched) <= 4


def test_a_million_values_are_never_fetched() -> None:
    """Reals to the cent up to a million: two scans, and no more lines than bins."""
    domain = sd.Domain({"x": sd.Real(0, 1_000_000, resolution=0.01)})
    values = np.random.default_rng(1).lognormal(10, 1, 200_000)
    scans = Scans(pa.table({"x": values}), domain)
    for asked in (median("x"), quantiles("x", [0.1, 0.5, 0.9]), iqr("x")):
        scans.fetched.clear()
        found = _release(_plan(asked, domain), scans)
        made = asked.aggregate
        assert isinstance(made, Quantile)
        levels = made.levels
        if not made.spread:
            ranks = [np.mean(values <= f[0]) for f in found]
            assert all(abs(r - float(q)) < 0.002 for r, q in zip(ranks, levels, strict=True))
        assert len(scans.fetched) <= 4
        assert max(scans.fetched) <= 50_000


@pytest.mark.deep
def test_the_order_of_columns_is_the_order_asked() -> None:
    domain = sd.Domain({"x": sd.Integer(0, 1000)})
    scans = Scans(pa.table({"x": list(range(1001)) * 5}), domain)
    planned = _plan(quantiles("x", [0.9, "1/4", 0.5]), domain, loss=PureDP(1000))
    assert [o.name for o in planned.outputs(planned.draw(scans, Rng.seeded(1)))] == [
        "quantile_x_0.9",
        "quantile_x_0.25",
        "quantile_x_0.5",
    ]
    assert [v[0] for v in _release(planned, scans)] == pytest.approx([900, 250, 500], abs=2)
    spread = _release(_plan(iqr("x"), domain, loss=PureDP(1000)), scans)
    assert spread[0][0] == pytest.approx(500, abs=2)


@pytest.mark.deep
@pytest.mark.parametrize(
    "cells",
    [
        [],
        [None] * 50,
        [float("nan")] * 50,
        [float("inf")] * 50,
        [-float("inf")] * 50,
        [1e308, -0.0, None, float("nan")],
    ],
    ids=["empty", "missing", "nan", "inf", "-inf", "mixed"],
)
def test_poison_changes_no_class_of_answer(cells: list[float | None]) -> None:
    domain = sd.Domain({"x": sd.Real(0, 1_000_000, resolution=0.01, missing="drop")})
    scans = Scans(pa.table({"x": pa.array(cells, pa.float64())}), domain)
    for asked in (median("x"), quantiles("x", [0.01, 0.5, 0.99]), iqr("x")):
        found = _release(_plan(asked, domain), scans)
        assert all(len(c) == 1 and isinstance(c[0], float | int) and 0 <= c[0] <= 1_000_000 for c in found)


def test_missing_rows_take_no_part_and_fills_do() -> None:
    cells = pa.array([10] * 300 + [None] * 1000 + [20] * 100, pa.int64())
    dropped = sd.Domain({"x": sd.Integer(0, 100, missing="drop")})
    filled = sd.Domain({"x": sd.Integer(0, 100, missing=sd.Fill(50))})
    table = pa.table({"x": cells})
    assert _release(_plan(median("x"), dropped, loss=PureDP(1000)), Scans(table, dropped))[0] == [10]
    assert _release(_plan(median("x"), filled, loss=PureDP(1000)), Scans(table, filled))[0] == [50]


def test_units_count_up_to_their_cap() -> None:
    """One unit of 1000 rows, capped at 2, cannot outweigh 100 units of one row."""
    domain, unit = sd.Domain({"x": sd.Integer(0, 100), "id": sd.Identifier()}), PrivacyUnit("id", max_rows=2)
    table = pa.table({"x": [90] * 1000 + [10] * 100, "id": ["u"] * 1000 + [f"v{i}" for i in range(100)]})
    planned = _plan(median("x"), domain, loss=PureDP(1000), neighbors=Neighbors("replace", unit))
    assert _release(planned, Scans(table, domain, unit))[0] == [10]
    assert isinstance(planned.selection, QuantileSelection)
    assert planned.selection.rate(0) == F(1000, 4)


def test_expressions_wider_than_64_bits() -> None:
    domain = sd.Domain({"a": sd.Integer(-(2**40), 2**40), "b": sd.Integer(-(2**31), 2**31)})
    product = col("a") * col("b")
    table = pa.table({"a": [2**40] * 11 + [-(2**40)] * 10, "b": [2**30] * 21})
    scans = Scans(table, domain)
    assert _release(_plan(median(product), domain, loss=PureDP(10_000)), scans)[0] == [2**70]
    assert _release(_plan(quantile(product, 0.25), domain, loss=PureDP(10_000)), scans)[0] == [-(2**70)]


def test_the_whole_cost() -> None:
    domain = sd.Domain({"x": sd.Integer(0, 1000)})
    for asked in (median("x"), quantiles("x", [0.1, 0.2, 0.5, 0.9]), iqr("x")):
        pure = _plan(asked, domain, loss=PureDP("1/3")).event.pure()
        assert pure == F(1, 3)
        rho = _plan(asked, domain, loss=ZCDP("1/7")).event.rho()
        assert rho is not None
        assert F(1, 7) - F(1, 10**8) < rho <= F(1, 7)


def test_errors_are_ranks_from_public_facts() -> None:
    domain = sd.Domain({"x": sd.Integer(0, 2**20 - 1)})
    planned = _plan(median("x"), domain)
    scans = Scans(pa.table({"x": [1, 2, 3]}), domain)
    released = planned.outputs(planned.draw(scans, Rng.seeded(1)))[0].estimate
    assert planned.errors(0.95, assume_rows=None) == released.errors(0.95)
    several = _plan(quantiles("x", [0.25, 0.5, 0.75]), domain)
    few, any_number = (several.errors(0.95, assume_rows=rows) for rows in (1000, None))
    assert all(a < b for a, b in zip(few, any_number, strict=True))


def test_widths_are_public_and_nested() -> None:
    for values, groups in itertools.product([1, 2, 99, 10**5, 10**5 + 1, 10**9, 10**30], [1, 7, 10_000]):
        widths = bin_widths(values, groups)
        assert widths[-1] == 1
        assert all(a > b and a % b == 0 for a, b in itertools.pairwise(widths))
        ratio = widths[-2] if len(widths) > 1 else 10**5
        assert widths[0] * ratio >= values


def test_what_is_refused() -> None:
    open_ended = sd.Domain({"x": sd.Integer(), "d": sd.Date("2000-01-01", "2001-01-01"), "k": sd.Integer(0, 20_000)})
    with pytest.raises(QuestionRefused, match="quantile of"):
        _plan(median("x"), open_ended)
    with pytest.raises(QuestionRefused, match="20001 groups"):
        _plan(median("k"), open_ended, by=("k",))
    for levels in ([1.5], [-0.1], [], [0.5, 0.5], "0.5"):
        with pytest.raises(QuestionRefused):
            quantiles("x", levels)
    with pytest.raises(QuestionRefused):
        quantile("x", 2)


def test_one_question_has_one_identity() -> None:
    assert (
        quantiles("x", [0.5]).aggregate.plain()
        == median("x").aggregate.plain()
        == quantile("x", "1/2").aggregate.plain()
    )
    assert quantiles("x", [0.25, 0.75]).aggregate.plain() != iqr("x").aggregate.plain()


# ---- several aggregates of one number, and units in several groups


def _people(**how: Any) -> sd.Curator:
    values = np.random.default_rng(4).integers(0, 10_000, 6_000)
    table = pa.table({"x": values, "g": values % 3, "id": np.arange(6_000) // 3})
    domain = sd.Domain({"x": sd.Integer(0, 10_000), "g": sd.Integer(0, 2), "id": sd.Identifier()})
    budget = how.pop("budget", PureDP(1000))
    return sd.protect(
        table,
        domain=domain,
        neighbors="add_remove",
        budget=budget,
        ledger=None,
        rng=Rng.seeded(6),
        name="people",
        **how,
    )


@pytest.mark.deep
def test_quantiles_of_one_number_in_one_question_share_their_draws() -> None:
    people = _people(privacy_unit="row")
    asked = "SELECT QUANTILE_CONT(x, 0.9) AS c, MEDIAN(x) AS b, COUNT(*) AS n, QUANTILE_CONT(x, 0.1) AS a FROM people"
    plan = people.plan(sd.sql(asked), epsilon=1)
    assert plan.event.pure() == 1
    chosen: Any = plan.procedure
    selections = [s for s in chosen.allocation.selections if s is not None]
    assert [s.lead for s in selections] == [0, 0, 0]
    assert {s.selection.epsilon for s in selections} == {F(3, 8)}  # of 3/4, in two stages
    release = people.ask(plan)
    assert release.columns == ("c", "b", "n", "a")
    value = release.value
    assert value["a"] <= value["b"] <= value["c"]
    assert all(abs(value[n] - q * 10_000) < 500 for n, q in (("a", 0.1), ("b", 0.5), ("c", 0.9)))
    assert release.cost == PureDP(1)
    groups = people.ask(people.group_by("g").agg(sd.iqr("x"), sd.median("x"), sd.quantile("x", 0.9)), epsilon=2).value
    assert all(abs(row["iqr_x"] - 5_000) < 700 and abs(row["median_x"] - 5_000) < 700 for row in groups)


@pytest.mark.each(4)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("loss", [PureDP(2), ZCDP(F(1, 2))], ids=str)
def test_several_quantiles_of_a_narrow_number_are_one_selection(relation: Relation, loss: Loss) -> None:
    levels, neighbors = [F(i, 10) for i in range(1, 10)], Neighbors(relation, None)
    domain = sd.Domain({"age": sd.Integer(0, 60), "wide": sd.Integer(0, 10**9), "g": sd.Integer(0, 1)})
    for column, kind in (("age", JointQuantiles), ("wide", QuantileSelection)):
        one = _plan(quantiles(column, levels), domain, loss=loss, neighbors=neighbors)
        assert isinstance(one.selection, kind)
        spent = one.event.pure() if isinstance(loss, PureDP) else one.event.rho()
        assert spent is not None
        assert 0.999 < float(spent / (loss.epsilon if isinstance(loss, PureDP) else F(1, 2))) <= 1
    ages = np.random.default_rng(1).integers(0, 41, 4100)
    table = pa.table({"age": ages, "wide": ages, "g": ages % 2})
    people = sd.protect(
        table, domain=domain, neighbors=relation, privacy_unit="row", budget=loss, ledger=None, rng=Rng.seeded(1)
    )
    several = ", ".join(f"QUANTILE_CONT(age, {i / 10}) AS q{i}" for i in range(1, 10))
    question: Any = sd.sql(f"SELECT {several} FROM data WHERE g = 0")
    spend: Any = {"epsilon": 2}
    if isinstance(loss, ZCDP):  # by the root of the number of draws: apart they err no more than together
        question, spend = people.where(col("g") == 0).agg(quantiles("age", levels)), {"rho": F(1, 2)}
    plan: Any = people.plan(question, **spend)
    assert "joint exponential mechanism over ranks" in str(plan)
    assert {type(s.selection) for s in plan.procedure.allocation.selections} == {JointQuantiles}
    assert all(abs(v - i * 4) <= 1 for i, v in enumerate(people.ask(plan).value.values(), 1))


def test_quantiles_of_two_numbers_or_where_alone_errs_less_are_drawn_alone() -> None:
    people = _people(privacy_unit="row")
    for question in (
        [sd.median("x"), sd.median(col("x") + 1).alias("next")],
        [sd.quantile("x", 0.45), sd.quantile("x", 0.55)],
    ):
        plan: Any = people.plan(question, epsilon=1).procedure
        assert [s.lead for s in plan.allocation.selections] == [None, None]
        assert plan.event.pure() == 1  # of both draws


def test_weights_of_what_is_drawn_together_add_up() -> None:
    plan: Any = _people(privacy_unit="row").plan(
        [sd.quantile("x", 0.1), sd.median("x"), sd.quantile("x", 0.9), sd.count()], epsilon=1, weights=[1, 2, 1, 4]
    )
    assert plan.event.pure() == 1
    assert plan.procedure.allocation.selections[0].selection.epsilon == F(1, 4)


@pytest.mark.parametrize("groups", [1, 4, 9])
def test_a_unit_with_one_row_a_group_pays_by_the_root_under_rho(groups: int) -> None:
    unit = PrivacyUnit("id", max_groups=groups, max_rows_per_group=1)
    people = _people(privacy_unit=unit, budget=ZCDP(10))
    plan: Any = people.plan(people.group_by("g").agg(sd.median("x")), rho=F(1, 2))
    one = plan.procedure.allocation.selections[0]
    over = min(groups, 3)  # there are three groups
    each = one.selection.epsilon / one.selection.neighbors.contributions
    assert bounded_range_rho(each) * over <= F(1, 2) < bounded_range_rho(each * F(1001, 1000)) * over
    assert plan.event.rho() <= F(1, 2)
    assert plan.event.pure() == each * over
    assert isinstance(one.selection, QuantileSelection)
    assert one.selection.rate(0) == each  # a row moves a median's cost by half
