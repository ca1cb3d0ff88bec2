"""Keys that are not public: which show, at what cost, in what order; the same schema on neighbors."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.errors import QuestionRefused
from sordino.queries.build import Selection

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
    assert narrow.procedure.allocation.threshold.threshold < wide.procedure.allocation.threshold.threshold
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


def test_quantiles_of_private_keys_are_refused_by_name() -> None:
    from sordino.queries.aggregates.quantile import median

    with pytest.raises(QuestionRefused, match="quantiles of private keys"):
        curator_of([]).plan(S.group_by("town").agg(median("age")), epsilon=1, delta=1e-6)
