"""Keys selected by weights: what the engine adds up in each round, on neighbors; the choice, the answers and refusals."""

from __future__ import annotations

import random
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import engine_of
from protecting import protect
from sordino.ask.curator.aggregation_procedure import key_places, round_select
from sordino.ask.queries.aggregation import Aggregation, compile_query
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.expr import col
from sordino.ask.queries.expressions.keys import list_shown
from sordino.core.mechanisms.weighted_selection import WeightedSelection, weighted_selection_for_pair
from sordino.core.neighbors import PrivacyUnit
from sordino.errors import QuestionRefused

S = Selection()
DOMAIN = sd.Domain(
    {"id": sd.Identifier(), "word": sd.Identifier(), "kind": sd.Category(["a", "b"]), "x": sd.Integer(0, 9)}
)
SCHEMA = pa.schema([("id", pa.string()), ("word", pa.string()), ("kind", pa.string()), ("x", pa.int64())])
LOSS: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}
ROUND = weighted_selection_for_pair(groups=4, moved=1, epsilon=Fraction(1), delta=Fraction(1, 10**6)).rounds[1]
Row = dict[str, Any]


def rows_of(unit: str | None, rng: random.Random) -> list[Row]:
    return [
        {
            "id": unit,
            "word": rng.choice([None, *"pqrstuvw"]),
            "kind": rng.choice([None, "a", "b", "z"]),
            "x": rng.choice([None, 1, 5]),
        }
        for _ in range(rng.randrange(14))
    ]


def weights_of(table: list[Row], question: Aggregation, path: Path, unit: PrivacyUnit, shown: Any) -> dict[Any, int]:
    """Return the exact weights of a round through real Parquet."""
    pq.write_table(pa.Table.from_pylist(table, schema=SCHEMA), path, row_group_size=5)
    compiled = compile_query(question, DOMAIN)
    left_out = list_shown(compiled.keys, shown) if shown else None
    engine = engine_of(path, DOMAIN, unit=unit)
    try:
        found = engine.run(round_select(engine.primitives, compiled, ROUND, left_out))
    finally:
        engine.close()
    weights = found.column("t0").to_pylist()
    return {key: int(weights[place]) for key, place in key_places(found, compiled).items() if weights[place]}


QUESTIONS: dict[str, tuple[Aggregation, list[tuple[str, ...]]]] = {
    "one key": (S.group_by("word").keys(), [("p",), ("q",)]),
    "where": (S.where(col("x") > 2).group_by("word").keys(), [("q",), ("r",)]),
    "two keys": (S.group_by("word", "kind").keys(), [("p", "a"), ("p", "b"), ("q", "b")]),
}


@pytest.mark.deep
@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize(
    "unit",
    [PrivacyUnit("id", max_rows=4), PrivacyUnit("id", max_groups=4, max_rows_per_group=2)],
    ids=["rows", "groups"],
)
def test_one_unit_moves_the_weights_by_its_length_alone(
    name: str, exclude: bool, unit: PrivacyUnit, tmp_path: Path
) -> None:
    """Removed, each of 5 units takes k equal weights with it, k of length one at most; exchanged, twice its square."""
    question, listed = QUESTIONS[name]
    shown = listed if exclude else []
    rng = random.Random(7)
    people = {f"u{i}": rows_of(f"u{i}", rng) for i in range(5)}
    strangers = rows_of(None, rng)

    def weigh(units: list[str]) -> dict[Any, int]:
        rows = [row for u in units for row in people[u]] + strangers
        rng.shuffle(rows)
        return weights_of(rows, question, tmp_path / "t.parquet", unit, shown)

    everyone = weigh(list(people))
    assert not set(shown) & set(everyone)
    taken = {}
    for one in people:
        rest = weigh([u for u in people if u != one])
        moved = {k: everyone[k] - rest.get(k, 0) for k in everyone if everyone[k] != rest.get(k, 0)}
        assert set(rest) <= set(everyone)
        assert len(set(moved.values())) <= 1
        assert all(w == ROUND.weight(len(moved)) for w in moved.values())
        assert sum(w * w for w in moved.values()) <= ROUND.whole**2
        taken[one] = moved
    sizes = {len(moved) for moved in taken.values()}
    assert max(sizes) <= 4
    assert len(sizes) > 1  # so that the number of keys matters
    total: dict[Any, int] = defaultdict(int)
    for moved in taken.values():
        for key, weight in moved.items():
            total[key] += weight
    assert dict(total) == everyone


def table_of(crowds: dict[str, int], *, each: int = 6) -> pa.Table:
    """Return people of `each` words: `crowds` of their own, the rest the most common ones."""
    rows = []
    for word, count in crowds.items():
        for i in range(count):
            rows += [(f"{word}{i}", w) for w in (word, *(f"top{j}" for j in range(each - 1)))]
    return pa.table({"id": [r[0] for r in rows], "word": [r[1] for r in rows], "x": [3] * len(rows)})


WORDS = sd.Domain({"id": sd.Identifier(), "word": sd.Identifier(), "x": sd.Integer(0, 9)})


def open_words(
    table: pa.Table, *, most: int = 6, relation: str = "add_remove", seed: int = 1, **how: Any
) -> sd.Curator:
    unit = sd.PrivacyUnit("id", max_rows=most)
    return protect(
        table, WORDS, neighbors=relation, unit=unit, seed=seed, **({"budget": sd.ApproxDP(100, "0.1")} | how)
    )


@pytest.mark.deep
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_small_keys_show_once_large_ones_do(relation: str) -> None:
    """Common words show in the first round; in the second each unit's weight goes to its own word alone."""
    words = open_words(table_of({f"w{i}": 50 for i in range(40)}), relation=relation)
    few = words.ask(words.group_by("word", keys="threshold").keys(), **LOSS)
    many = words.ask(words.group_by("word").keys(), **LOSS)
    assert len(few.rows) < 25 < 40 <= len(many.rows) <= 45
    assert many.cost == sd.ApproxDP(1, "1e-6")
    assert [r["word"] for r in many.rows] == sorted(r["word"] for r in many.rows)
    assert "noisy weight" in " ".join(many.notes)


@pytest.mark.deep
def test_counts_sums_and_quantiles_of_the_keys_shown_have_shares_and_intervals_of_their_own() -> None:
    words = open_words(table_of({f"w{i}": 400 for i in range(5)}))
    asked = sd.sql("SELECT word, COUNT(*) AS n, SUM(x) AS s, MEDIAN(x) AS m FROM data GROUP BY word", keys="weighted")
    plan: Any = words.plan(asked, epsilon=8, delta=1e-6)
    assert plan.procedure.allocation.counted is None
    assert plan.cost == sd.ApproxDP(8, "5e-7")
    release = words.ask(plan)
    exact = {f"w{i}": 400 for i in range(5)} | {f"top{j}": 2000 for j in range(5)}
    assert {r["word"] for r in release.rows} == set(exact)
    lower, upper = (release.interval(0.9999).column(f"n_{side}").to_pylist() for side in ("lower", "upper"))
    for row, low, high in zip(release.rows, lower, upper, strict=True):
        assert low <= exact[row["word"]] <= high
        assert row["m"] == 3
    assert sd.Release.from_dict(release.to_dict()) == release


def test_no_key_shows_of_a_table_of_few_and_the_schema_stays() -> None:
    words = open_words(table_of({"w": 1}))
    release = words.ask(words.group_by("word", keys="weighted").agg(sd.count(), sd.median("x")), **LOSS)
    assert release.rows == []
    assert release.columns == ("word", "count", "median_x")


@pytest.mark.deep
def test_weights_are_chosen_where_units_have_several_groups_and_no_count_is_asked() -> None:
    table = table_of({"w": 3})

    def chosen(words: sd.Curator, question: Any, **loss: Any) -> bool:
        plan: Any = words.plan(question, **(loss or LOSS))
        return isinstance(plan.procedure.allocation.threshold, WeightedSelection)

    keys, counts = S.group_by("word").keys(), S.group_by("word").agg(sd.count_distinct("id"))
    assert chosen(open_words(table), keys)
    assert chosen(open_words(table), S.group_by("word").agg(sd.sum("x")))
    assert not chosen(open_words(table), counts)
    assert chosen(open_words(table), S.group_by("word", keys="weighted").agg(sd.count_distinct("id")))
    assert not chosen(open_words(table, most=1), keys)
    assert not chosen(open_words(table, most=2), keys, epsilon=1, delta=1e-3)  # noise for each key by itself is less
    assert not chosen(open_words(table), S.group_by("word", min_units=5).keys())
    cap = sd.ZCDP(1, delta=1e-6, slack="1e-5")
    assert chosen(open_words(table, budget=cap), keys, rho=0.1, delta=1e-6)


@pytest.mark.parametrize("how", ["weighted", "threshold"])
def test_a_question_says_how_its_keys_are_selected(how: str) -> None:
    words = open_words(table_of({"w": 3}))
    asked = words.group_by("word", keys=how).keys()
    by_sql = sd.sql("SELECT DISTINCT word FROM data", keys=how)
    assert words.plan(asked, **LOSS).question == words.plan(by_sql, **LOSS).question
    assert asked.identity() != words.group_by("word").keys().identity()
    assert f"{how} selection of keys" in asked.describe()


@pytest.mark.parametrize(
    ("question", "says"),
    [
        (S.group_by("x", keys="weighted").agg(sd.count()), "declared or listed keys always appear"),
        (S.group_by("word", keys="weighted", min_units=3).keys(), "min_units"),
        (lambda: S.group_by("word", keys="weighed").keys(), "'weighted' or 'threshold'"),
    ],
)
def test_what_cannot_be_weighed_is_refused(question: Any, says: str) -> None:
    words = open_words(table_of({"w": 3}))
    with pytest.raises(QuestionRefused, match=says):
        words.plan(question() if callable(question) else question, **LOSS)


def test_where_each_row_is_a_unit_there_is_nothing_to_weigh() -> None:
    words = protect(table_of({"w": 3}), WORDS, budget=sd.ApproxDP(1, "0.1"))
    with pytest.raises(QuestionRefused, match="each row is a unit"):
        words.plan(S.group_by("word", keys="weighted").keys(), **LOSS)
