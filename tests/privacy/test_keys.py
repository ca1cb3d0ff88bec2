"""Attacks on private keys: order, odd text, zero rows, units that shout, conditions; and that noise is fresh each time."""

from __future__ import annotations

import itertools
import json
import random
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from privacy import units
from privacy.units import SCHEMA, Asker, S
from sordino import col
from sordino.core.mechanisms.threshold import GaussianThreshold, LaplaceThreshold, gaussian_threshold_for_pair

ODD = [
    "",
    " ",
    "NULL",
    "oslo",
    "Oslo",
    "OSLO",
    "ÅS",
    "A\u030as",
    "z\x00z",
    "😀",
    "'\"; --",
    "1",
    "01",
    "a" * 1_000,
    "\ufeff",
]


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def people(towns: list[Any], each: int, **cells: Any) -> list[dict[str, Any]]:
    """Return `each` rows a town, each of a unit of its own."""
    return [{"id": f"{i} {n}", "town": t, "i": 1, **cells} for i, t in enumerate(towns) for n in range(each)]


def curator_of(
    rows: list[dict[str, Any]], *, unit: Any = "row", relation: str = "add_remove", seed: int | None = 4
) -> Any:
    rng = sd.Rng.secure() if seed is None else sd.Rng.seeded(seed)
    return units.protect(table(rows), unit=unit, relation=relation, rng=rng)


LOSS = {"epsilon": 40, "delta": "1e-4"}
BY_TOWN = S.group_by("town").agg(sd.count(), sd.sum("i"))


def test_odd_keys_stay_apart_show_once_and_are_ordered_by_themselves() -> None:
    rows = people([*ODD, "a" * 1_001, None], 40)  # a text of more than 1,000 characters is no key
    released = curator_of(rows).ask(BY_TOWN, **LOSS)
    assert [r["town"] for r in released.rows] == sorted(ODD)
    assert {r["count"] for r in released.rows} <= set(range(30, 50))
    random.Random(1).shuffle(rows)
    again = curator_of(rows, seed=9).ask(BY_TOWN, **LOSS)
    assert again.keys == released.keys
    assert again.table.schema == released.table.schema
    assert sd.Release.from_dict(json.loads(json.dumps(released.to_dict()))) == released


@pytest.mark.deep
@pytest.mark.attack("learn from the order or the files of the rows")
def test_the_exact_counts_do_not_follow_the_order_of_rows_also_where_groups_are_capped() -> None:
    unit = sd.PrivacyUnit("id", max_rows=3, max_groups=2)
    rng = random.Random(8)
    rows = [{**units.row(rng), "id": f"u{rng.randrange(9)}", "town": rng.choice(ODD)} for _ in range(90)]
    question = S.where(col("i") > -3).group_by("town", "c").agg(sd.count(), sd.mean("r"))
    first = curator_of(rows, unit=unit)
    plan, asker = first.plan(question, **LOSS), Asker()
    whole = asker.plan(plan, first)
    assert sum(whole[-1].values()) > 0
    for _ in range(4):
        rng.shuffle(rows)
        assert asker.plan(plan, curator_of(rows, unit=unit)) == whole


@pytest.mark.deep
@pytest.mark.attack("find a person by a key or a column that only they have")
def test_a_unit_that_shouts_counts_once_also_behind_a_condition() -> None:
    """A thousand rows of one unit lift no key; units that a condition drops do not help it to show."""
    unit = sd.PrivacyUnit("id", max_rows=1000)
    loud = [{"id": "loud", "town": "alta", "i": 1} for _ in range(1000)]
    quiet = [{"id": f"q{n}", "town": "alta", "i": -3} for n in range(500)]
    one = curator_of([*loud, *quiet], unit=unit)
    plan = one.plan(S.where(col("i") > 0).group_by("town").agg(sd.count()), **LOSS)
    assert Asker().plan(plan, one) == [{("alta",): 1000}, {("alta",): 1}]
    plan = one.plan(S.group_by("town").agg(sd.count()), **LOSS)
    assert Asker().plan(plan, one)[-1] == {("alta",): 501}


@pytest.mark.attack("find a person by a key or a column that only they have")
def test_units_without_a_name_and_keys_without_one_never_show() -> None:
    nameless = [{"id": None, "town": "alta", "i": 1} for _ in range(900)]
    unit = sd.PrivacyUnit("id", max_rows=1)
    assert curator_of([*nameless, *people([None], 900)], unit=unit).ask(BY_TOWN, **LOSS).rows == []


def test_declared_keys_beside_private_ones_keep_missing_as_a_key() -> None:
    rows = [*people(["oslo"], 60, c="a"), *people(["oslo"], 60, c=None), *people(["bergen"], 60, c="q")]
    found = curator_of(rows).ask(S.group_by("c", "town").agg(sd.count()), **LOSS)
    assert [(r["c"], r["town"]) for r in found.rows] == [("a", "oslo"), (None, "bergen"), (None, "oslo")]


@pytest.mark.deep
def test_two_asks_draw_noise_anew() -> None:
    one = curator_of(people(["oslo"], 10**4), seed=None)
    loss = {"epsilon": "0.01", "delta": "1e-4"}
    drawn = {one.ask(S.group_by("town").agg(sd.count()), **loss).rows[0]["count"] for _ in range(8)}
    assert len(drawn) > 4  # the same twice has a chance of about 1 in 800


@pytest.mark.deep
@pytest.mark.parametrize("rows", [[], people(["alta"], 1), people([None], 900)], ids=["none", "one", "missing"])
def test_no_rows_come_back_whole_in_every_shape(rows: Any) -> None:
    usual = curator_of(people(["oslo"], 60)).ask(
        S.group_by("town").agg(sd.count(), sd.mean("r"), sd.variance("i")), **LOSS
    )
    empty = curator_of(rows).ask(S.group_by("town").agg(sd.count(), sd.mean("r"), sd.variance("i")), **LOSS)
    assert empty.rows == []
    assert usual.rows != []
    assert empty.table.schema == usual.table.schema
    assert empty.columns == usual.columns
    assert list(empty.to_pandas().columns) == list(empty.to_polars().columns) == list(empty.columns)
    assert sd.Release.from_dict(json.loads(empty.to_json())) == empty
    for told in (empty.error(0.95), empty.interval(0.95)):
        assert told.num_rows == 0
    assert "town" in str(empty)
    assert sorted(empty.to_dict()) == sorted(usual.to_dict())


@pytest.mark.deep
@pytest.mark.attack("find a person by a key or a column that only they have")
@pytest.mark.parametrize("epsilon", ["0.01", "1", "20"])
@pytest.mark.parametrize("delta", ["1e-2", "1e-6", "1e-40"])
@pytest.mark.parametrize("keys", [1, 2, 7, 1000])
def test_the_keys_that_one_unit_alone_has_show_with_chance_delta_at_most(keys: int, delta: str, epsilon: str) -> None:
    made: list[LaplaceThreshold | GaussianThreshold] = [
        LaplaceThreshold(keys, Fraction(epsilon), Fraction(delta)),
        GaussianThreshold(keys, Fraction(epsilon) / 4, Fraction(delta)),
        gaussian_threshold_for_pair(keys=keys, epsilon=Fraction(epsilon), delta=Fraction(delta)),
    ]
    for mechanism in made:
        assert keys * mechanism.appears(1) <= float(Fraction(delta)) * (1 + 1e-9)
        assert mechanism.appears(0) == 0
        shares = [mechanism.appears(n) for n in (1, 2, mechanism.threshold, 2 * mechanism.threshold)]
        assert all(a <= b for a, b in itertools.pairwise(shares))


@pytest.mark.each(6)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("groups", [None, 1, 3])
def test_the_whole_cost_of_private_keys_is_what_was_asked(groups: int | None, relation: str) -> None:
    unit = sd.PrivacyUnit("id", max_rows=4, max_groups=groups)
    one = curator_of(people(["oslo"], 50), unit=unit, relation=relation)
    for several in ([sd.count()], [sd.count(), sd.mean("i"), sd.correlation("i", "j")]):
        for loss in ({"epsilon": "0.3", "delta": "1e-7"}, {"epsilon": 3, "delta": "0.01"}):
            plan = one.plan(S.group_by("town").agg(several), **loss)
            before = one.spent
            assert one.ask(plan).cost == plan.cost
            assert plan.cost.epsilon == Fraction(str(loss["epsilon"]))  # no less either: no part is forgotten
            delta = Fraction(str(loss["delta"]))
            assert plan.cost.delta in (delta, delta / 2)  # half is left where the noise needs none of it
            assert one.spent.epsilon - before.epsilon == plan.cost.epsilon
            assert one.spent.delta - before.delta == plan.cost.delta


@pytest.mark.parametrize("epsilon", ["1e-9", "0.01", "40"])
def test_a_plan_tells_which_keys_show_at_once_whatever_the_threshold(epsilon: str) -> None:
    """At 1e-9 the threshold is in the billions: the sizes told are found by halving, not by trying each."""
    plan = curator_of([]).plan(BY_TOWN, epsilon=epsilon, delta="1e-6")
    threshold = plan.procedure.allocation.threshold
    half = int(plan.rows.words.split()[2])
    assert threshold.appears(half) >= 0.5 > threshold.appears(half - 1)
    assert plan.to_dict()["private_keys"] == plan.rows.words
