"""Keys that are not public: which show, at what cost, in what order; the same schema on neighbors."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.ask.queries.build import Selection
from sordino.errors import QuestionRefused

S = Selection()
DOMAIN = sd.Domain(
    {"town": sd.Identifier(), "age": sd.Integer(0, 100), "id": sd.Identifier(), "sex": sd.Category(["f", "m"])}
)


def curator_of(rows: list[tuple[Any, ...]], *, relation: str = "add_remove", unit: Any = "row", seed: int = 0) -> Any:
    names = ("town", "age", "id", "sex")
    kinds = (pa.string(), pa.int64(), pa.string(), pa.string())
    cells = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    table = pa.table({n: pa.array(c, k) for n, c, k in zip(names, cells, kinds, strict=True)})
    return protect(table, DOMAIN, neighbors=relation, unit=unit, seed=seed, budget=sd.ApproxDP(1000, "0.5"))


def people(**towns: int) -> list[tuple[Any, ...]]:
    return [(town, 40, f"{town}{i}", "fm"[i % 2]) for town, count in towns.items() for i in range(count)]


def test_large_keys_show_small_ones_do_not_and_the_order_is_that_of_the_keys() -> None:
    rows = people(oslo=400, bergen=300, alta=1)
    release = curator_of(rows).ask(S.group_by("town").agg(sd.count(), sd.mean("age")), epsilon=2, delta=1e-6)
    assert list(release.keys[0].labels) == ["bergen", "oslo"]
    assert [round(r["count"] / 100) for r in release.rows] == [3, 4]
    assert all(abs(r["mean_age"] - 40) < 5 for r in release.rows)
    assert release.cost == sd.ApproxDP(2, "1e-6")
    shuffled = curator_of(rows[::-1]).ask(S.group_by("town").agg(sd.count(), sd.mean("age")), epsilon=2, delta=1e-6)
    assert shuffled.keys == release.keys
    assert shuffled.columns == release.columns


def test_private_keys_beside_declared_ones_and_missing_cells_are_left_out() -> None:
    rows = [*people(oslo=400), (None, 40, "x", "f"), *[("oslo", 40, f"y{i}", None) for i in range(300)]]
    release = curator_of(rows).ask(S.group_by("town", "sex").agg(sd.count()), epsilon=2, delta=1e-6)
    assert [(r["town"], r["sex"]) for r in release.rows] == [("oslo", "f"), ("oslo", "m")]


@pytest.mark.parametrize("rows", [[], people(alta=1)])
def test_a_table_without_large_keys_answers_with_no_rows_and_the_same_columns(rows: Any) -> None:
    release = curator_of(rows).ask(S.group_by("town").agg(sd.count(), sd.sum("age")), epsilon=1, delta=1e-9)
    assert release.rows == []
    assert release.columns == ("town", "count", "sum_age")
    assert release.table.num_rows == 0
    assert sd.Release.from_dict(release.to_dict()) == release


@pytest.mark.deep
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_a_key_of_k_units_shows_as_often_as_the_plan_says(relation: Any) -> None:
    """Each of 4 sizes is seen in 400 draws; a share off by 5 standard deviations has chance below 1e-5 in all."""
    question = S.group_by("town").agg(sd.count())
    plan = curator_of([], relation=relation).plan(question, epsilon=2, delta=1e-4)
    threshold = plan.procedure.allocation.threshold
    sizes = [threshold.threshold + d for d in (-6, -1, 0, 4)]
    towns = {f"{chr(97 + i)}{j}": size for i, size in enumerate(sizes) for j in range(400)}
    shown = curator_of(people(**towns), relation=relation, seed=5).ask(plan).rows
    for i, size in enumerate(sizes):
        share = sum(r["town"].startswith(chr(97 + i)) for r in shown) / 400
        expected = threshold.appears(size)
        assert abs(share - expected) <= 5 * math.sqrt(expected * (1 - expected) / 400) + 1e-9
    assert threshold.appears(1) <= 1e-4
    assert "95%" in plan.describe()


@pytest.mark.deep
def test_units_count_once_a_key_and_their_groups_are_capped_where_declared() -> None:
    rows = [("oslo", 40, f"u{i}", "f") for i in range(200) for _ in range(3)]
    rows += [("alta", 40, "crowd", "f") for _ in range(1000)]
    unit = sd.PrivacyUnit("id", max_rows=5)
    question = S.group_by("town").agg(sd.count())
    assert [r["town"] for r in curator_of(rows, unit=unit).ask(question, epsilon=5, delta=1e-6).rows] == ["oslo"]
    wide, narrow = (
        curator_of(rows, unit=sd.PrivacyUnit("id", max_rows=5, max_groups=m)).plan(question, epsilon=5, delta=1e-6)
        for m in (None, 1)
    )
    few, many = (p.procedure.allocation.threshold.units_to_show(0.5) for p in (narrow, wide))
    assert few < many
    roaming = [(f"t{j}", 40, f"u{i}", "f") for i in range(500) for j in range(5)]
    capped = curator_of(roaming, unit=sd.PrivacyUnit("id", max_rows=5, max_groups=1)).ask(
        question, epsilon=20, delta=1e-3
    )
    assert 480 <= sum(r["count"] for r in capped.rows) <= 520


@pytest.mark.parametrize(
    "loss", [{"epsilon": 1}, {"rho": 0.1}, {"epsilon": 1, "delta": 1e-320}], ids=["pure", "rho", "tiny"]
)
def test_private_keys_need_a_delta_and_nothing_is_spent_without(loss: Any) -> None:
    curator = curator_of(people(oslo=10))
    question = S.group_by("town").agg(sd.count())
    if "delta" in loss:
        assert curator.plan(question, **loss).procedure.allocation.threshold.threshold > 500
    else:
        with pytest.raises(QuestionRefused, match="delta"):
            curator.ask(question, **loss)
    assert curator.spent.epsilon == 0


@pytest.mark.parametrize("unit", ["row", sd.PrivacyUnit("id", max_rows=2)])
def test_keys_alone_take_the_whole_loss_in_python_and_sql(unit: Any) -> None:
    rows = people(oslo=400, bergen=300, alta=1)
    curator = curator_of(rows, unit=unit)
    plan = curator.plan(S.group_by("town").keys(), epsilon=1, delta=1e-6)
    assert plan.cost == sd.ApproxDP(1, "1e-6")
    assert curator.ask(plan).table.to_pylist() == [{"town": "bergen"}, {"town": "oslo"}]
    for text in ("SELECT town FROM data GROUP BY town", "SELECT DISTINCT town FROM data"):
        assert curator.plan(sd.sql(text), epsilon=1, delta=1e-6).identity() == plan.identity()
    counted = curator.plan(S.group_by("town").agg(sd.sum("age")), epsilon=1, delta=1e-6)
    alone, beside = (p.procedure.allocation.threshold.units_to_show(0.5) for p in (plan, counted))
    assert alone < beside


def test_declared_keys_alone_are_public_and_free() -> None:
    curator = curator_of(people(oslo=3))
    release = curator.ask(sd.sql("SELECT DISTINCT sex FROM data"), epsilon=1)
    assert release.table.to_pylist() == [{"sex": "f"}, {"sex": "m"}]
    assert curator.spent.epsilon == 0
    assert "these keys are public" in release.notes[0]


def test_a_count_of_units_is_the_selections_own_and_shares_its_loss() -> None:
    curator = curator_of(people(oslo=400, bergen=300))
    plan = curator.plan(S.group_by("town").agg(sd.count()), epsilon=1, delta=1e-6)
    assert plan.error(0.95) == 3  # of the whole epsilon: the same as for declared keys
    assert plan.procedure.allocation.threshold.units_to_show(0.5) == 15
    release = curator.ask(plan)
    assert [abs(r["count"] - n) <= 14 for r, n in zip(release.rows, (300, 400), strict=True)] == [True, True]
    assert sd.Release.from_dict(release.to_dict()) == release
    unit = sd.PrivacyUnit("id", max_rows=3)
    people_of = curator_of(people(oslo=400), unit=unit)
    of_units = people_of.plan(S.group_by("town").agg(sd.count_distinct("id")), epsilon=1, delta=1e-6)
    of_rows = people_of.plan(S.group_by("town").agg(sd.count()), epsilon=1, delta=1e-6)
    assert of_units.procedure.allocation.counted == 0
    assert of_rows.procedure.allocation.counted is None
    pairs = people_of.plan(S.group_by("town").agg(sd.count_distinct("id", "sex")), epsilon=1, delta=1e-6)
    assert pairs.procedure.allocation.counted is None
    assert of_units.error(0.95) < of_rows.error(0.95)


@pytest.mark.deep
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_intervals_of_shown_counts_cover_also_near_the_threshold(relation: Any) -> None:
    """Of 600 towns at each of 4 sizes those that show: 5 standard deviations below 95% has chance below 1e-5 in all."""
    question = S.group_by("town").agg(sd.count())
    plan = curator_of([], relation=relation).plan(question, epsilon=1, delta=1e-2)
    threshold = plan.procedure.allocation.threshold
    sizes = [threshold.threshold + d for d in (-2, -1, 1, 30)]
    towns = {f"{chr(97 + i)}{j}": size for i, size in enumerate(sizes) for j in range(600)}
    release = curator_of(people(**towns), relation=relation, seed=8).ask(plan)
    ends = release.outputs[0].estimate.intervals(0.95)
    for i, size in enumerate(sizes):
        inside = [
            low <= size <= high
            for r, (low, high) in zip(release.rows, ends, strict=True)
            if r["town"][0] == chr(97 + i)
        ]
        assert len(inside) > 5
        assert sum(inside) / len(inside) >= 0.95 - 5 * math.sqrt(0.0475 / len(inside))


def test_no_key_of_fewer_units_than_asked_shows() -> None:
    rows = people(oslo=400, bergen=60, alta=49)
    for question in (S.group_by("town", min_units=50).keys(), S.group_by("town", min_units=50).agg(sd.count())):
        curator = curator_of(rows)
        plan = curator.plan(question, epsilon=100, delta=0.4)
        threshold = plan.procedure.allocation.threshold
        assert [threshold.appears(n) for n in (0, 49)] == [0, 0]
        assert threshold.appears(50) > 0
        shown = [curator_of(rows, seed=seed).ask(plan).table.to_pylist() for seed in range(6)]
        assert all([r["town"] for r in rows_] == ["bergen", "oslo"] for rows_ in shown)
        assert "no key of fewer than 50 units shows" in plan.notes[-1]
    assert shown[0][1]["count"] in range(390, 411)
    text = sd.sql("SELECT town, COUNT(*) AS count FROM data GROUP BY town", min_units=50)
    assert curator.plan(text, epsilon=100, delta=0.4).identity() == plan.identity()
    with pytest.raises(QuestionRefused, match="always appear"):
        curator.plan(S.group_by("sex", min_units=5).agg(sd.count()), epsilon=1)
    with pytest.raises(QuestionRefused, match="min_units takes"):
        S.group_by("town", min_units=0)


def test_quantiles_and_spread_of_private_keys() -> None:
    rows = [("oslo", n % 100, f"o{n}", "f") for n in range(1000)] + [("bergen", 30, f"b{n}", "m") for n in range(500)]
    rows += people(alta=1)
    asked = S.group_by("town").agg(sd.median("age"), sd.quantiles("age", ["0.1", "0.9"]), sd.std("age"), sd.count())
    found = curator_of(rows).ask(asked, epsilon=400, delta=1e-6).rows
    assert [r["town"] for r in found] == ["bergen", "oslo"]
    assert [r["median_age"] for r in found] in ([30, 49], [30, 50])  # half of oslo's rows lie below 50
    assert (found[0]["quantile_age_0.1"], found[0]["quantile_age_0.9"]) == (30, 30)
    assert found[1]["quantile_age_0.1"] in (9, 10)  # a tenth of oslo's rows lie below 10
    assert found[1]["quantile_age_0.9"] in (89, 90)
    assert [round(r["std_age"]) for r in found] == [0, 29]
    beside = S.group_by("town", "sex").agg(sd.median("age"))
    both = curator_of(rows).ask(beside, epsilon=100, delta=1e-6)
    assert [(r["town"], r["sex"], r["median_age"]) for r in both.rows] == [("bergen", "m", 30), ("oslo", "f", 50)]
    nothing = curator_of([]).ask(beside, epsilon=1, delta=1e-6)
    assert nothing.rows == []
    assert nothing.columns == ("town", "sex", "median_age")
    assert sd.Release.from_dict(nothing.to_dict()) == nothing


def test_a_release_is_stored_with_each_key_once_and_read_back_whole() -> None:
    question = S.group_by("town", "sex").agg(sd.count(), sd.mean("age"))
    held = curator_of(people(oslo=400, bergen=300, hamar=500))
    release = held.ask(question, epsilon=2, delta=1e-6, request_id="once")
    assert len(release.rows) == 6
    assert held.ask(question, epsilon=2, delta=1e-6, request_id="once") == release
    stored = held.ledger.answer(release.charge)
    # Of each sex: in the keys alone, where a record of a former version had it in three tables too.
    assert stored.count("hamar") == 2
    assert release.to_json().count("hamar") == 8
    assert sd.Release.from_dict(json.loads(stored)) == sd.Release.from_dict(json.loads(release.to_json())) == release
