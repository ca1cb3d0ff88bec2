"""Expressions as people write them: no truth, clear refusals, dates, shared branches, and questions as sentences."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

import sordino as sd
from ask.queries.support import DOMAIN, arrow, duckdb_exact
from mistyping import mistype
from sordino import col
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import Selection, as_aggregation
from sordino.errors import QuestionRefused, UnknownName

S = Selection()


def assert_refused(question: Any, match: str) -> None:
    with pytest.raises(QuestionRefused, match=match) as refusal:
        compile_query(as_aggregation(question), DOMAIN)
    assert "\n" not in str(refusal.value)


def test_truth_of_an_expression_raises() -> None:
    with pytest.raises(QuestionRefused, match="is_between"):
        0 < col("i") < 9  # noqa: B015
    with pytest.raises(QuestionRefused, match=r"& \| ~"):
        col("i") > 1 and col("j") > 1
    with pytest.raises(QuestionRefused, match="no truth"):
        not col("t")
    with pytest.raises(QuestionRefused, match="no truth"):
        assert col("i") in [col("j")]
    with pytest.raises(TypeError):
        list(col("i"))


@pytest.mark.parametrize(
    ("question", "match"),
    [
        (lambda: sd.sum("free"), "no bounded sensitivity"),
        (lambda: sd.sum("c"), "declared as category"),
        (lambda: sd.sum("d"), "dates"),
        (lambda: sd.sum(col("i") > "a"), "a number is needed"),
        (lambda: sd.count_distinct(sd.when(col("i") > 1, col("c")).otherwise(col("e"))), "declared as category"),
        (lambda: S.where(col("i")).agg(sd.count()), "a condition is needed"),
        (lambda: S.where(col("d") > 3).agg(sd.count()), "compares a date with a number"),
        (lambda: S.where(col("d") > "31.1.2000").agg(sd.count()), "a day is written as 2000-01-31"),
        (lambda: S.where(col("c") > 3).agg(sd.count()), "of which one is text and the other is not"),
        (lambda: S.where(col("c") == "zzz").agg(sd.count()), "not a declared value"),
        (lambda: S.where(col("i") == "a").agg(sd.count()), "a number is needed"),
        (lambda: S.where(col("nope") > 1).agg(sd.count()), "not declared"),
        (lambda: S.group_by("free").agg(sd.count()), "keys are not public"),
        (
            lambda: S.group_by(sd.when(col("i") > 1, col("c")).otherwise(3)).agg(sd.count()),
            "all text or all whole numbers",
        ),
        (lambda: S.group_by(col("free") + 1).agg(sd.count()), "cannot group by"),
        (lambda: S.group_by(col("r").bin(width="0.25")).agg(sd.count()), "finer than its grid"),
        (lambda: S.group_by(col("free").bin(width=1)).agg(sd.count()), "need declared bounds"),
        (
            lambda: S.group_by((col("free").clip(0, 10**6) / 10).bin(width="1/2")).agg(sd.count()),
            "make 200,000 keys, above 100,000: take a width of at least 1, or clip",
        ),
        (lambda: S.group_by("c", "c").agg(sd.count()), "named 'c'"),
        (lambda: [sd.count(), sd.count().alias("COUNT")], "named 'COUNT'"),
        (lambda: sd.sum(col("free") * col("free") * col("free")), "37 digits"),
        (lambda: S.group_by("c"), "asks nothing"),
        (lambda: col("i"), "rows are never released"),
        (lambda: 7, "a question is"),
        (lambda: [], "a question is"),
    ],
)
def test_refusals_say_what_and_why(question: Any, match: str) -> None:
    assert_refused(question(), match)


def test_unknown_names_are_their_own_class() -> None:
    with pytest.raises(UnknownName, match="did you mean 'free'"):
        compile_query(as_aggregation(sd.sum("fre")), DOMAIN)


def test_odd_constants_and_arguments_are_refused() -> None:
    for make in (
        lambda: col("i") ** 17,
        lambda: col("i") > float("nan"),
        lambda: col("i") > float("inf"),
        lambda: col("i") == [1],
        lambda: col("i").is_in("abc"),
        lambda: col("i").is_in([]),
        lambda: col("i").clip(2, 1),
        lambda: col("i").bin(),
        lambda: col("i").bin([1]),
        lambda: col("i").bin([2, 1]),
        lambda: col("i").bin(width=0),
        lambda: col(""),
        lambda: sd.count().alias(" "),
        lambda: sd.sum(mistype(sd.count())),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            make()


def test_a_tree_with_shared_branches_cannot_run_for_ever() -> None:
    x = col("i")
    for _ in range(150):
        x = x + x
    with pytest.raises(QuestionRefused, match="simplify"):
        compile_query(as_aggregation(S.where(x > 1).agg(sd.count())), DOMAIN)
    with pytest.raises(QuestionRefused, match="simplify"):
        sd.sum(x)


@pytest.mark.deep
def test_a_deep_tree_is_refused_without_recursion() -> None:
    x = col("i")
    for _ in range(20_000):
        x = x + 1
    with pytest.raises(QuestionRefused, match="nested too deep"):
        sd.sum(x)
    with pytest.raises(QuestionRefused, match="nested too deep"):
        S.group_by(x)


def deep(kind: str, levels: int) -> Any:
    """Return a question of so many levels of one kind."""
    x, c = col("i"), col("i") > 0
    for n in range(levels):
        x = {"+": x + 1, "clip": (x + col("r")).clip(-3, 3), "abs": abs(x)}.get(kind, x)
        c = {"and": c & (col("i") > -n), "or": c | (col("i") > n), "not": ~c, "mixed": (c | (x > 9)) & (x > n)}.get(
            kind, c
        )
    return S.where(c).agg(sd.sum(x))


def nested(frames: int, call: Any) -> Any:
    return call() if frames == 0 else nested(frames - 1, call)


@pytest.mark.each(11)
@pytest.mark.parametrize("kind", ["mixed", "+", "clip", "abs", "and", "or", "not"])
def test_whatever_depth_is_let_through_can_be_computed(kind: str) -> None:
    """No question that is charged may then fail because SQL is written by recursion: also below 150 frames of others."""
    table = arrow([dict.fromkeys(DOMAIN.columns) | {"i": 1, "r": 1.0}])
    deepest = 0
    for levels in (*range(1, 80), 150, 200, 250, 290):
        try:
            compile_query(deep(kind, levels), DOMAIN)
        except QuestionRefused:
            break
        deepest = levels
    assert deepest >= (200 if kind in ("and", "or") else 7)
    nested(150, lambda: duckdb_exact(deep(kind, deepest), table))
    assert deep(kind, deepest).describe()


def test_dates_are_compared_with_days_however_written() -> None:
    day = datetime.date(2000, 1, 1)
    table = arrow([dict.fromkeys(DOMAIN.columns) | {"d": day + datetime.timedelta(n)} for n in range(-2, 3)])
    for asked, found in [
        (col("d") >= day, 3),
        (col("d") >= "2000-01-01", 3),
        (col("d").is_between("1999-12-31", "2000-01-01"), 2),
        (col("d") == "2000-01-01", 1),
        (col("d").is_in(["2000-01-01", "2000-01-02"]), 2),
    ]:
        assert duckdb_exact(S.where(asked).agg(sd.count()), table) == [[found]]


def test_a_constant_may_stand_on_either_side() -> None:
    for one, other in [(col("i") > 30, col("i") > 30), (col("i") == 1, col("i") == 1), (col("i") <= 2, col("i") <= 2)]:
        assert S.where(one).agg(sd.count()).identity() == S.where(other).agg(sd.count()).identity()


def test_steps_beyond_the_range_of_floats_are_refused_at_plan() -> None:
    domain = sd.Domain({"x": sd.Real(0, "1e130", resolution="1e125")})
    with pytest.raises(QuestionRefused, match="no float can represent"):
        compile_query(as_aggregation(sd.sum(col("x") * col("x") * col("x"))), domain)


@pytest.mark.parametrize(
    "asked", [sd.count().alias("\ud800"), S.where(col("c") != "a").agg(sd.count().alias("n\udfff"))]
)
def test_text_that_no_ledger_could_store_is_refused_before_any_charge(asked: Any) -> None:
    assert_refused(asked, "lone surrogate")


def test_describe_is_one_sentence() -> None:
    asked = S.where((col("i") > 1) & col("c").is_in(["a"])).group_by("t").agg(sd.count(), sd.mean(col("i").clip(0, 1)))
    assert asked.describe() == (
        "the number of rows and the mean of clip(i, 0, 1), for each t, where i > 1 and c in ('a')"
    )


def test_words_tell_trees_apart() -> None:
    a, b, c = col("i"), col("j"), col("k")
    trees = [(a + b) + c, a + (b + c), a - (b - c), (a - b) - c, a * (b + c), a * b + c, (a * b) * c, a * (b * c)]
    assert len({str(t) for t in trees}) == len(trees)
    assert len({str(t) for t in [~(a > 1) & (b > 1), ~((a > 1) & (b > 1))]}) == 2
