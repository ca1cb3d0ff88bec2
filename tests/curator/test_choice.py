"""The most common value: its law, its error, its price, in Python and in SQL."""

from __future__ import annotations

import collections
import math

import pyarrow as pa
import pytest

import sordino as sd
from curator.support import S, curator
from sordino import col
from sordino.errors import QuestionRefused, UnknownName

COUNTS = {"a": 40, "b": 36, "c": 0}


def held(*, relation: str = "add_remove", budget: sd.PureDP | sd.ZCDP | None = None, seed: int = 1) -> sd.Curator:
    table = pa.table({"x": [v for v, n in COUNTS.items() for _ in range(n)]})
    return sd.protect(
        table,
        domain=sd.Domain({"x": sd.Category(["a", "b", "c"])}),
        neighbors=relation,
        privacy_unit="row",
        budget=budget or sd.PureDP(10**6),
        ledger=None,
        rng=sd.Rng.seeded(seed),
    )


@pytest.mark.parametrize(("relation", "worth"), [("add_remove", 1), ("replace", 2)])
def test_the_choice_follows_its_own_law(relation: str, worth: int) -> None:
    """20,000 draws of its mechanism, and 200 answers: a share that is 5 deviations off has chance below 1e-6."""
    curator_ = held(relation=relation)
    plan = curator_.plan(sd.most_common("x"), epsilon=0.5)
    assert plan.mechanism.rate * worth * 2 == 1
    rng, counts, labels = sd.Rng.seeded(2), list(COUNTS.values()), list(COUNTS)
    drawn = collections.Counter(labels[plan.mechanism.release(counts, rng)] for _ in range(20_000))
    asked = collections.Counter(curator_.ask(sd.most_common("x"), epsilon=0.5).value for _ in range(200))
    for label, chance in zip(labels, plan.mechanism.probabilities(counts), strict=True):
        for found, n in ((drawn, 20_000), (asked, 200)):
            assert abs(found[label] / n - chance) <= 5 * math.sqrt(chance * (1 - chance) / n) + 1e-3


def test_sql_says_mode() -> None:
    found = curator(budget=sd.PureDP(1000)).ask(sd.sql("SELECT MODE(occ) AS job FROM data WHERE age > 30"), epsilon=100)
    assert found.columns == ("job",)
    assert found.value in ("Sales", "Tech", None)
    assert found.question == "the most common occ, where age > 30"
    assert sd.Release.from_dict(found.to_dict()) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT MODE(occ), COUNT(*) FROM data", "question of its own"),
        ("SELECT MODE(occ) FROM data GROUP BY age", "question of its own"),
        ("SELECT MODE(gain) FROM data", "group by"),
        ("SELECT MODE(id) FROM data", "declared values"),
    ],
)
def test_what_has_no_declared_values_or_is_no_choice_is_refused(text: str, message: str) -> None:
    with pytest.raises(QuestionRefused, match=message):
        curator(budget=sd.PureDP(1)).plan(sd.sql(text), epsilon=1)
    with pytest.raises(UnknownName):
        curator(budget=sd.PureDP(1)).plan(sd.most_common("nobody"), epsilon=1)


def test_the_error_is_in_rows_and_holds() -> None:
    plan = held().plan(sd.most_common("x"), epsilon=1)
    assert plan.error(0.95) == pytest.approx(math.log(2 * 20), rel=1e-6)
    assert "rows of the most common" in plan.describe()
    release = held(budget=sd.ZCDP(1)).ask(sd.most_common("x"), rho=0.5)
    assert release.cost.rho <= 0.5
    assert release.interval(0.95) == (None, None)


def test_a_condition_counts_only_its_rows() -> None:
    found = curator(budget=sd.PureDP(10**4)).ask(sd.most_common("occ", where=col("occ") == "Tech"), epsilon=1000)
    assert found.value == "Tech"
    with pytest.raises(QuestionRefused, match="asked alone"):
        S.agg(sd.most_common("occ"))  # type: ignore[arg-type]
