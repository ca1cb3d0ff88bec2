"""The text of a SELECT is the one that sqlglot writes, of every kind of question."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

import sordino as sd
from ask.curator.extremes import declare
from ask.engines.every_kind import DAYS, FIXED, KIN, MOMENTS, PUBLIC, WORDS, EveryKind
from sordino.ask.engines import duckdb
from sordino.ask.engines.sql_text import write_tree
from sordino.errors import DeclarationError, QuestionRefused, UnknownName

MOMENT = datetime.datetime(2000, 2, 29, 12, tzinfo=datetime.UTC)


def hold(numbers: list[str]) -> pa.Table:
    """Return rows of a table of every kind."""
    cells = {name: pa.array([1.5, None, -3.0]) for name in numbers}
    cells |= {"n": pa.array([1, 77, 125]), DAYS: pa.array([MOMENT.date()] * 3), MOMENTS: pa.array([MOMENT] * 3)}
    return pa.table(cells | {name: pa.array(["a", "a", "b"]) for name in ("id", WORDS, KIN)})


@pytest.mark.parametrize(
    ("seed", "every"), [(0, 2), *(pytest.param(seed, 1, marks=pytest.mark.deep) for seed in range(4))]
)
def test_each_select_is_written_as_sqlglot_writes_it(seed: int, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, seen = random.Random(seed), Counter[bool]()
    numbers = [f"c{i}" for i in range(7)]
    domain = sd.Domain({name: declare(rng) for name in numbers} | FIXED, row_ceiling=10**6)
    unit = sd.PrivacyUnit("id", max_rows=2, of="person")

    def write(tree: exp.Select) -> str:
        text, whole = write_tree(tree), tree.copy().sql(dialect="duckdb")
        assert text == whole
        seen[bool(tree.args.get("group"))] += 1
        return text

    monkeypatch.setattr(duckdb, "write_tree", write)
    held = sd.protect(
        dict.fromkeys(("t", "u"), hold(numbers)),
        domain=dict.fromkeys(("t", "u"), domain),
        neighbors="add_remove",
        privacy_unit=dict.fromkeys(("t", "u"), unit),
        budget=sd.ApproxDP(10**9, "0.9"),
        ledger=None,
        rng=sd.Rng.seeded(0),
        public={"plain": PUBLIC},
    ).table("t")
    made = EveryKind(domain, rng)
    for make in list(made.kinds.values())[::every]:
        try:
            held.ask(make(), epsilon=1000, delta="1e-9")
        except (QuestionRefused, DeclarationError, UnknownName):
            continue
    held.close()
    assert min(seen[True], seen[False]) > 2, seen


def test_names_that_need_quotes_and_text_are_left_to_sqlglot() -> None:
    trees: list[Any] = [
        exp.column("select", quoted=True),
        exp.column("Größe"),
        exp.Literal.string("it's"),
        exp.Count(this=exp.Distinct(expressions=[exp.column("k0")])),
        exp.Star(**{"except_": [exp.column("k0")]}),
        exp.Select(expressions=[exp.column("k0")]).from_("t").where(exp.column("k0").eq(1)).limit(2),
        exp.Is(this=exp.Is(this=exp.column("k0"), expression=exp.Null(), negate=True), expression=exp.Null()),
        exp.Case(this=exp.column("k0"), ifs=[exp.If(this=exp.Literal.number(1), true=exp.Null())]),
        exp.Neg(this=exp.Neg(this=exp.Literal.number(1))),
        exp.Least(this=exp.column("k0"), expressions=[exp.column("k1")]),
        exp.cast(exp.column("k0"), "DECIMAL(38, 0)"),
        exp.cast(exp.column("k0"), "HUGEINT", dialect="duckdb"),
        exp.column("k0", table="t0", quoted=True),
    ]
    assert [write_tree(tree) for tree in trees] == [tree.sql(dialect="duckdb") for tree in trees]


@pytest.mark.deep
def test_a_sum_of_many_columns_is_written() -> None:
    tree: Any = exp.column("k0")
    for _ in range(3_000):
        tree = exp.Add(this=tree, expression=exp.column("k1"))
    assert write_tree(tree) == "k0" + " + k1" * 3_000


MODELS: dict[str, dict[str, Any]] = {
    "linear_regression": {"y": "n", "x": ["m", "word", ("m", "word")], "validate": 4, "weights": "w"},
    "logistic_regression": {"y": "yes", "x": ["m", "n"], "weights": "w"},
    "poisson_regression": {"y": "n", "x": ["m"]},
    "theil_sen": {"y": "n", "x": ["m"]},
    "kmeans": {"columns": ["m", "n", "w"], "clusters": 2, "rng": sd.Rng.seeded(1)},
    "boosted_histograms": {"y": "yes", "x": ["m", "word"]},
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.deep] * (name != "linear_regression")) for name in MODELS],
)
def test_statements_of_models_are_written_as_sqlglot_writes_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def write(tree: exp.Select) -> str:
        text, whole = write_tree(tree), tree.copy().sql(dialect="duckdb")
        assert text == whole
        written.append(text)
        return text

    monkeypatch.setattr(duckdb, "write_tree", write)
    whole = sd.Integer(0, 100)
    held = sd.protect(
        pa.table(
            {"m": [1, 50, None], "n": [3, 4, 5], "w": [1, 2, 3], "word": ["a", "b", "a"], "yes": [True, False, True]}
        ),
        domain=sd.Domain({"m": whole, "n": whole, "w": whole, "word": sd.Category(["a", "b"]), "yes": sd.Boolean()}),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.ApproxDP(100, "0.1"),
        ledger=None,
        rng=sd.Rng.seeded(0),
    )
    getattr(sd.models, name)(held, **MODELS[name], epsilon=1)
    assert written
