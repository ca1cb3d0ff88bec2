"""Constraints: random sets of them hold in every row, answers keep to them, and sets that leave no row are refused first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sordino as sd
from sordino import synth
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.expr import col
from sordino.errors import DeclarationError
from sordino.synth.rules import Rule
from synth.support import Source, small, small_source

DOMAIN, KEYS = small()
JOBS = ("none", "desk", "shop", "field")
TOWNS = ("a", "b", "c", None)


def random_rules(rng: np.random.Generator) -> list[tuple[Any, Any]]:
    """Return constraints, each with a check of one row that knows nothing of the library."""
    found: list[tuple[Any, Any]] = []
    for _ in range(int(rng.integers(1, 4))):
        edge, job = int(rng.integers(15, 80)), JOBS[int(rng.integers(4))]
        found.append(
            (
                synth.never((col("age") < edge) & (col("job") == job)),
                lambda r, edge=edge, job=job: not (r["age"] < edge and r["job"] == job),
            )
        )
    if rng.random() < 0.5:
        found.append((synth.at_most("pay", "age"), lambda r: r["pay"] <= r["age"]))
    if rng.random() < 0.5:
        least = int(rng.integers(1, 14))
        condition = (col("pay") >= least) & ~col("sex")
        found.append((synth.never(condition), lambda r, least=least: not (r["pay"] >= least and not r["sex"])))
    if rng.random() < 0.5:
        towns: dict[str | None, str | None] = {**{j: TOWNS[int(rng.integers(4))] for j in JOBS}, None: None}
        found.append((synth.determines("job", "town", towns), lambda r, towns=towns: r["town"] == towns[r["job"]]))
    if rng.random() < 0.5:
        sexes: dict[str | None, bool | None] = {**{j: bool(rng.random() < 0.5) for j in JOBS}, None: None}
        found.append((synth.determines("job", "sex", sexes), lambda r, sexes=sexes: r["sex"] == sexes[r["job"]]))
    return [found[i] for i in rng.permutation(len(found))]


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(12))
def test_no_row_breaks_a_random_set_of_constraints(seed: int) -> None:
    """Each set is held in every row, also under a condition, or refused before anything is spent."""
    rng = np.random.default_rng(seed)
    rules = random_rules(rng)
    data = small_source(seed)
    try:
        model = synth.fit(data, epsilon=1, constraints=[c for c, _ in rules], rng=sd.Rng.seeded(seed))
    except DeclarationError:
        assert data.sessions == []
        return
    rows = model.sample(1500, rng=sd.Rng.seeded(seed)).to_pylist()
    assert len(rows) == 1500
    assert all(held(r) for r in rows for _, held in rules)
    edge = int(rng.integers(10, 60))
    some = model.sample(200, where=col("age") > edge, rng=sd.Rng.seeded(seed)).to_pylist()
    assert all(r["age"] > edge and held(r) for r in some for _, held in rules)


@pytest.mark.deep
def test_answers_keep_to_constraints_as_rows_do() -> None:
    """What no row may be counts nothing, a column that follows is read off the other, and the total stays."""
    rules: list[Rule] = [
        synth.never((col("age") < 30) & (col("job") == "field")),
        synth.determines("job", "sex", {"none": False, "desk": True, "shop": True, "field": False}),
        synth.at_most("pay", "age"),
    ]
    model = synth.fit(small_source(), epsilon=5, delta="1e-9", constraints=rules, rng=sd.Rng.seeded(2))
    rows = model.sample(60_000, rng=sd.Rng.seeded(3))
    scale = model.rows / rows.num_rows

    def counted(where: Any) -> float:
        return float(model.answer(Selection().where(where).agg(sd.count())).value)

    assert counted((col("age") < 25) & (col("job") == "field")) == 0
    assert counted((col("sex") == True) & (col("job") == "none")) == 0  # noqa: E712
    assert counted(col("pay") > col("age")) == 0
    # The column's own counts and all measured ones tell the number of rows, as without rules.
    assert abs(counted(col("age") >= 0) - model.rows) < 0.01 * model.rows
    listed = rows.to_pylist()
    for where, held in (
        (col("job") == "field", lambda r: r["job"] == "field"),
        (col("sex") & (col("age") > 40), lambda r: r["sex"] and r["age"] > 40),
        ((col("age") < 20) & (col("pay") > 4), lambda r: r["age"] < 20 and r["pay"] > 4),
    ):
        drawn = sum(map(held, listed)) * scale
        assert abs(counted(where) - drawn) < 0.02 * model.rows
    by_sex = model.answer(Selection().group_by("sex").agg(sd.count(), sd.mean("age")))
    assert by_sex.notes == ()
    assert abs(sum(r["count"] for r in by_sex.table.to_pylist()) - model.rows) < 0.01 * model.rows


def test_an_answer_says_which_constraints_it_does_not_hold_to() -> None:
    names = ("a", "b", "c", "d")
    domain = sd.Domain({n: sd.Integer(0, 199) for n in names})
    keys = {n: np.random.default_rng(i).integers(0, 200, 500) for i, n in enumerate(names)}
    rule = synth.never(col("a") + col("b") + col("c") + col("d") > 700)
    model = synth.Independent(constraints=[rule]).fit(
        Source(domain, keys, sd.Rng.seeded(1)), epsilon=1, rng=sd.Rng.seeded(2)
    )
    (note,) = model.answer(Selection().where(col("a") > 100).agg(sd.count())).notes
    assert "not held" in note
    assert all(sum(r.values()) <= 700 for r in model.sample(300, rng=sd.Rng.seeded(1)).to_pylist())


@pytest.mark.parametrize(
    "rules",
    [
        [synth.never(col("age") >= 0)],
        [synth.never(col("sex")), synth.never(~col("sex"))],
        [
            synth.never(col("job") == "none"),
            synth.never(col("job") == "desk"),
            synth.never(col("job").is_in(["shop", "field"])),
        ],
        [synth.determines("job", "sex", dict.fromkeys(JOBS, True)), synth.never(col("sex"))],
        [
            synth.determines("job", "sex", dict.fromkeys(JOBS, True)),
            synth.determines("sex", "town", {True: "a", False: "b"}),
            synth.never(col("town") == "a"),
        ],
        [synth.at_most("age", "pay"), synth.never(col("age") < 40)],
    ],
)
def test_constraints_that_leave_no_row_are_refused_before_anything_is_spent(rules: list[Any]) -> None:
    data = small_source()
    with pytest.raises(DeclarationError, match="cannot hold"):
        synth.fit(data, epsilon=1, constraints=rules)
    assert data.sessions == []


def test_a_chain_of_orders_that_the_bounds_forbid_is_refused() -> None:
    domain = sd.Domain({"a": sd.Integer(10, 20), "b": sd.Integer(0, 30), "c": sd.Integer(0, 5)})
    data = Source(domain, {n: np.zeros(5, dtype=np.int64) for n in domain}, sd.Rng.seeded(1))
    with pytest.raises(DeclarationError, match="cannot hold"):
        synth.fit(data, epsilon=1, constraints=[synth.at_most("a", "b"), synth.at_most("b", "c")])
