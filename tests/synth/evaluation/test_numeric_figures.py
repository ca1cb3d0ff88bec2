"""Figures of numbers: correlations, quantiles, tails, rules, ranks - right without noise, covered with it, hidden below it."""

from __future__ import annotations

import html
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino import col, synth
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError, QuestionRefused
from sordino.reporting.charts import spec_drawer
from sordino.reporting.synth_evaluation import evaluation_sheet, sheet_page
from sordino.synth.encoded_column import Codes, model_column
from sordino.synth.evaluation.correlations import correlation
from sordino.synth.evaluation.cuts import cut_by_mass, cut_by_mass_and_distance
from sordino.synth.evaluation.distributions import LEVELS, SteppedColumn, _compare
from sordino.synth.evaluation.figure import Figure
from sordino.synth.evaluation.linear_models import explained, fit_linear, fit_logistic, rank_auc
from sordino.synth.evaluation.prediction import Ranking
from sordino.synth.evaluation.trained_models import has_boosted_trees
from sordino.synth.measurement import NoisyTable
from sordino.synth.rules import Rule

# Bounds as an honest curator declares them: far beyond the rows.
DOMAIN = sd.Domain(
    {
        "age": sd.Integer(0, 120),
        "pay": sd.Real(0, 2_000_000, resolution="0.01"),
        "bill": sd.Real(-20_000, 2_000_000, resolution="0.01"),
        "town": sd.Category(["a", "b", "c"], missing="keep"),
        "area": sd.Category(["north", "south"]),
        "since": sd.Date("1990-01-01", "2030-12-31"),
    }
)
AREA = {"a": "north", "b": "south", "c": "south", None: "north"}


def skewed(rows: int = 6_000, seed: int = 1) -> pa.Table:
    """A table with amounts, a quarter of them 0, and another that follows them."""
    rng = np.random.default_rng(seed)
    pay = np.round(np.where(rng.random(rows) < 0.25, 0.0, np.exp(rng.normal(7, 1.2, rows))), 2)
    town = rng.choice(np.array(["a", "b", "c", None], dtype=object), rows)
    since = np.datetime64("2000-01-01") + rng.integers(0, 3_000, rows)
    return pa.table(
        {
            "age": rng.integers(15, 91, rows),
            "pay": pay,
            "bill": np.round(pay * rng.uniform(0.8, 1.2, rows), 2),
            "town": pa.array(town.tolist()),
            "area": [AREA[t] for t in town],
            "since": since.astype("datetime64[D]"),
        }
    )


TABLE = skewed()
RULES: list[Rule] = [
    synth.at_most("pay", "bill"),
    synth.never((col("age") < 18) & (col("pay") > 0)),
    synth.determines("town", "area", {**AREA, "a": "south"}),
]


@pytest.fixture(scope="module")
def model() -> synth.Model:
    return synth.MST().fit(protect(TABLE, DOMAIN, budget=sd.ApproxDP(10**6, "1e-6")), epsilon=4, rng=Rng.seeded(3))


def evaluate(model: synth.Model, **words: Any) -> synth.Evaluation:
    parts: dict[str, Any] = {
        "correlations": True,
        "distributions": True,
        "heaps": True,
        "rules": RULES,
        "predict": "pay > 1000",
    }
    return synth.evaluate(model, rows=3_000, rng=Rng.seeded(5), auc=True, **{**parts, **words})


@pytest.fixture(scope="module")
def openly(model: synth.Model) -> synth.Evaluation:
    return evaluate(model, against=TABLE, non_private=True)


@pytest.fixture(scope="module")
def privately(model: synth.Model) -> synth.Evaluation:
    return evaluate(model, against=protect(TABLE, DOMAIN, budget=sd.PureDP(10**9)), epsilon=10**6)


@pytest.mark.deep
def test_open_figures_are_those_of_the_rows(openly: synth.Evaluation) -> None:
    numbers = {n: TABLE[n].to_numpy().astype(float) for n in ("age", "pay", "bill")}
    assert openly.pearson is not None
    assert openly.correlations is not None
    at = {n: i for i, n in enumerate(openly.pearson.columns)}
    true = np.corrcoef(numbers["pay"], numbers["bill"])[0, 1]
    assert openly.pearson.original[at["pay"]][at["bill"]] == pytest.approx(true)
    ranks = [np.argsort(np.argsort(numbers[n], kind="stable")) for n in ("pay", "bill")]
    assert openly.correlations.original[at["pay"]][at["bill"]] == pytest.approx(
        np.corrcoef(ranks[0], ranks[1])[0, 1], abs=0.03
    )
    for made in openly.distributions[:3]:
        values = numbers[made.column]
        for q in made.quantiles:
            true = np.quantile(values, q.level, method="inverted_cdf")
            assert q.lower == q.original == q.upper == pytest.approx(true), (made.column, q)
        for tail in made.tails:
            share = (values < tail.value if tail.side == "below" else values > tail.value).mean()
            assert tail.original.value == pytest.approx(share, abs=1e-9)
        assert sum(made.original) == pytest.approx(1.0)
    pay, bill, age = numbers["pay"], numbers["bill"], numbers["age"]
    broken = [
        (pay > bill).mean(),
        ((age < 18) & (pay > 0)).mean(),
        np.mean([t == "a" for t in TABLE["town"].to_pylist()]),
    ]
    assert [v.original.value for v in openly.violations] == pytest.approx(broken)
    cents = np.rint(pay * 100).astype(np.int64)
    days = TABLE["since"].to_numpy().astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    heaps = {h.column: {s.values: s.original.value for s in h.shares} for h in openly.heaps}
    assert list(heaps) == ["pay", "bill", "since"]
    for words, every in (("multiples of 0.1", 10), ("multiples of 1", 100), ("multiples of 10", 1_000)):
        assert heaps["pay"][words] == pytest.approx((cents % every == 0).mean())
    assert heaps["pay"]["one step below multiples of 1"] == pytest.approx((cents % 100 == 99).mean())
    assert heaps["since"]["first days of months"] == pytest.approx((days == months).mean())
    last = (months + 1).astype("datetime64[D]") - 1
    assert heaps["since"]["last days of months"] == pytest.approx((days == last).mean())
    assert not openly.private
    assert openly.exact


@pytest.mark.deep
def test_private_figures_are_the_open_ones_but_for_the_noise(
    openly: synth.Evaluation, privately: synth.Evaluation
) -> None:
    a, b = openly.to_dict(), privately.to_dict()
    for one, other in zip(a["correlations"]["spearman"]["pairs"], b["correlations"]["spearman"]["pairs"], strict=True):
        assert one["original"]["value"] == pytest.approx(other["original"]["value"], abs=1e-3)
        assert one["synthetic"] == other["synthetic"]
    for one, other in zip(openly.distributions, privately.distributions, strict=True):
        assert one.edges == other.edges
        assert one.original == pytest.approx(other.original, abs=1e-4)
        assert all(p.lower <= q.original <= p.upper for q, p in zip(one.quantiles, other.quantiles, strict=True))
    for v, w in zip(openly.violations, privately.violations, strict=True):
        assert v.synthetic == w.synthetic
        assert v.original.value == pytest.approx(w.original.value, abs=0.01)
    for one, other in zip(openly.heaps, privately.heaps, strict=True):
        for s, t in zip(one.shares, other.shares, strict=True):
            assert (s.values, s.synthetic, s.expected) == (t.values, t.synthetic, t.expected)
            assert s.original.value == pytest.approx(t.original.value, abs=1e-4)
    # A quarter of the payments are 0, which no smaller set holds than the multiples of most.
    (words,) = [line for line in openly.figures() if line.startswith("round values of pay, share of synthetic rows: ")]
    assert "multiples of 1,000,000 2" in words
    assert a["prediction"]["auc"]["value"] == pytest.approx(b["prediction"]["auc"]["value"], abs=1e-2)
    assert privately.release is not None
    assert [name for name, _ in privately.losses] == [
        "distances",
        "correlations",
        "distributions",
        "heaps",
        "prediction",
        "ranking",
        "rules",
    ]


@pytest.fixture(scope="module")
def hidden(model: synth.Model) -> synth.Evaluation:
    """At an epsilon of 1/1000 the noise hides everything."""
    return evaluate(model, against=protect(TABLE, DOMAIN, budget=sd.PureDP(10)), epsilon="0.001")


def test_what_noise_hides_is_shown_nowhere(model: synth.Model, hidden: synth.Evaluation) -> None:
    """At an epsilon of 1/1000 nothing of the original shows: not in text, JSON or the page; each says what it is at most."""
    plain = hidden.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    for kind in (hidden.correlations, hidden.pearson):
        assert kind is not None
        assert all(v is None for i, row in enumerate(kind.original) for j, v in enumerate(row) if i != j)
    assert all(v is None for v in plain["means"].values())
    assert set(plain["at_most"]) == set(plain["means"])
    for made in plain["distributions"]:
        assert made["difference"]["value"] is None
        assert made["difference"]["at_most"] == 1.0
    assert all(q.original is None for made in hidden.distributions for q in made.quantiles)
    words = str(hidden)
    assert "correlations differ by less than the noise shows" in words
    # Of a picture its specification is enough: what noise hides may break the drawing of it.
    page = sheet_page(evaluation_sheet(model, hidden, subject="m", draw=spec_drawer()))
    assert "/ ?" in page
    assert "below the noise" in page
    assert hidden.prediction is not None
    for figure in (hidden.prediction.original.right, hidden.prediction.original.right_by_the_larger_side):
        assert figure.shown is None
    guesses = plain["prediction"]
    assert (guesses["right"]["value"], guesses["right_by_the_larger_side"]["value"]) == (None, None)
    for words in (str(hidden), page, *hidden.notes()):
        assert "nan" not in words.replace("finance", "")
        assert "inf " not in words


@pytest.mark.parametrize("kind", ["privately", pytest.param("openly", marks=pytest.mark.deep)])
def test_the_page_has_every_part(kind: str, model: synth.Model, request: pytest.FixtureRequest) -> None:
    report: synth.Evaluation = request.getfixturevalue(kind)
    page = sheet_page(evaluation_sheet(model, report, subject="m", draw=None))
    for words in (
        "(Spearman)",
        "(Pearson)",
        "Quantiles and tails",
        "Round values",
        "Rules",
        html.escape(RULES[0].describe()),
        "AUC of its score",
    ):
        assert words in page, words
    plain = report.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert {q["level"] for q in plain["distributions"][0]["quantiles"]} == set(LEVELS)


@pytest.mark.deep
def test_a_column_that_one_bin_of_the_model_hides_is_seen() -> None:
    """A model of the declared bounds alone has half of the rows in one run: quantiles and correlations say so."""
    even = TABLE.set_column(1, "pay", pa.array(np.random.default_rng(2).uniform(0, 8_000, TABLE.num_rows).round(2)))
    flat = synth.Independent().fit(protect(even, DOMAIN, budget=sd.PureDP(10**6)), epsilon=100, rng=Rng.seeded(3))
    report = evaluate(flat, against=TABLE, non_private=True, heaps=False, rules=())
    gaps = {d.column: d.difference.value for d in report.distributions}
    assert gaps["pay"] > 0.3
    assert gaps["age"] < 0.05
    assert report.pearson is not None
    assert report.pearson.largest > 0.7


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("deviation", [5.0, 20.0, 60.0])
def test_a_correlation_that_is_shown_lies_within_its_error(deviation: float, heavy: bool) -> None:
    """95% intervals of 400 noisy tables of 6,000 rows in 8 x 8 cells: below .90 of 400 once in 10^4 where .95 is right."""
    rng = np.random.default_rng(7)
    x = np.exp(rng.normal(0, 1.2, 6_000)) if heavy else rng.normal(size=6_000)
    y = x * rng.uniform(0.8, 1.2, 6_000) if heavy else 0.6 * x + 0.8 * rng.normal(size=6_000)
    codes, scores = zip(*map(_cells, (x, y)), strict=True)
    table = np.bincount(codes[0] * 8 + codes[1], minlength=64).reshape(8, 8).astype(np.float64)
    exact, none = correlation(table, scores, 0.0)
    assert none == 0.0
    held = []
    for _ in range(400):
        value, error = correlation(table + rng.normal(0, deviation, table.shape), scores, deviation**2)
        if math.isfinite(error):
            held.append(abs(value - exact) <= 1.96 * error)
    assert len(held) < 40 or np.mean(held) > 0.9


def _cells(values: Any) -> tuple[Codes, Any]:
    column = model_column("bill", DOMAIN)
    steps = np.round(values * 1_000).astype(np.int64)
    cuts, means = cut_by_mass_and_distance(column, steps, 8)
    codes = cuts.codes(steps, np.zeros(len(steps), dtype=bool))
    return codes, np.resize(means, 8)


@pytest.mark.deep
def test_quantiles_and_differences_hold_with_noise() -> None:
    """Of 300 noisy releases, intervals of each quantile hold the true one, and no difference of equal rows is seen."""
    column = model_column("pay", DOMAIN)
    rng = np.random.default_rng(3)
    steps = np.sort((TABLE["pay"].to_numpy() * 100).round().astype(np.int64))
    cuts = cut_by_mass(column, steps, 20, LEVELS)
    exact = np.bincount(cuts.codes(steps, np.zeros(len(steps), dtype=bool)), minlength=cuts.cells)[: cuts.cells]
    true = {level: float(steps[math.ceil(level * len(steps)) - 1]) / 100 for level in LEVELS}
    held, seen = dict.fromkeys(LEVELS, 0), 0
    for _ in range(300):
        noisy = NoisyTable(exact + rng.normal(0, 15, exact.shape), 225.0)
        made = _compare(SteppedColumn(1, column, steps), cuts, noisy)
        seen += made.difference.shown is not None
        for q in made.quantiles:
            held[q.level] += q.lower <= true[q.level] <= q.upper
    assert seen <= 25
    assert min(held.values()) >= 270, held


def test_edges_are_public_and_atoms_have_cells_of_their_own() -> None:
    column = model_column("pay", DOMAIN)
    steps = np.sort(np.concatenate([np.zeros(500, dtype=np.int64), np.arange(1, 501) * 997]))
    cuts = cut_by_mass(column, steps, 10, LEVELS)
    assert cuts.edges[:2] == (0, 1)
    assert cuts.edges[-1] == 200_000_000
    # beyond the rows, round numbers
    assert 100_000_000 in cuts.edges
    assert list(cuts.edges) == sorted(cuts.edges)
    empty = cut_by_mass(column, steps[:0], 10)
    assert empty.edges[0] == 0


@pytest.mark.parametrize(
    ("figure", "shown", "text"),
    [
        (Figure(0.71, 0.94), None, "below the noise (at most 1.00)"),
        (Figure(0.41, 0.45), None, "below the noise (at most 0.86)"),
        (Figure(-0.41, 0.2), -0.41, "-0.41"),
        (Figure(0.0), 0.0, "0.00"),
        (Figure(math.nan, math.inf), None, "below the noise (at most 1.00)"),
        (Figure(1.3, 0.1), 1.0, "1.00"),
    ],
)
def test_a_figure_below_its_noise_is_not_shown(figure: Figure, shown: float | None, text: str) -> None:
    assert figure.shown == shown
    assert figure.text() == text
    assert json.dumps(figure.to_dict(), allow_nan=False)


def test_ranks_are_those_of_pairs_of_rows() -> None:
    """The AUC of bands is that of every pair of rows, ties counting half; its error holds for noisy counts."""
    rng = np.random.default_rng(1)
    met, unmet = rng.integers(50, 200, 6), rng.integers(50, 400, 6)
    scores = [np.repeat(np.arange(6), counts) for counts in (met, unmet)]
    wins = (scores[0][:, None] > scores[1]).mean() + 0.5 * (scores[0][:, None] == scores[1]).mean()
    exact = Ranking(tuple(map(float, met)), tuple(map(float, unmet)))
    assert exact.advantage.value + 0.5 == pytest.approx(wins)
    held = 0
    for _ in range(400):
        one, other = (tuple((c + rng.normal(0, 10, 6)).tolist()) for c in (met, unmet))
        noisy = Ranking(one, other, 100.0)
        held += abs(noisy.advantage.value - exact.advantage.value) <= noisy.advantage.reach
    assert held >= 365
    assert "at most" in Ranking((5.0, 5.0), (5.0, 5.0), 100.0).text()


def test_what_cannot_be_asked_is_refused_before_the_charge(model: synth.Model) -> None:
    data = protect(TABLE, DOMAIN, budget=sd.PureDP(10))
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"auc": True, "predict": None}, "auc is of a condition"),
        ({"rules": [synth.at_most("pay", "bil")]}, "'bil' is not a column"),
        ({"predict": "town"}, "'town' is no number"),
        ({"predict": "pay"}, "predicted openly only"),
    ]
    for words, said in refusals:
        with pytest.raises((DeclarationError, QuestionRefused), match=said):
            synth.evaluate(model, against=data, epsilon=1, **words)
    assert data.spent == sd.PureDP(0)


def test_models_trained_on_synthetic_rows_are_tested_on_real_ones(openly: synth.Evaluation, model: synth.Model) -> None:
    assert {t.measure for t in openly.trained} == {"AUC"}
    assert [t.kind for t in openly.trained] == ["logistic regression", "boosted trees"][: 1 + has_boosted_trees()]
    assert all((t.original or 0.0) > 0.95 and (t.synthetic or 0.0) > 0.8 for t in openly.trained)
    number = synth.evaluate(model, against=TABLE, non_private=True, rows=3_000, predict="bill", rng=Rng.seeded(5))
    assert {t.measure for t in number.trained} == {"R2"}
    assert [t.kind for t in number.trained] == ["linear regression", "boosted trees"][: 1 + has_boosted_trees()]
    assert all((t.original or 0.0) > 0.5 for t in number.trained)
    assert "NOT PRIVATE" in "".join(number.figures())
    page = sheet_page(evaluation_sheet(model, number, subject="m", draw=None))
    assert "trained on synthetic rows" in page


def test_a_target_that_never_changes_has_no_score_and_no_nan_in_json() -> None:
    table = pa.table({"three": np.full(400, 3), "other": np.arange(400) % 7})
    data = protect(table, sd.Domain({"three": sd.Integer(3, 3), "other": sd.Integer(0, 6)}), budget=sd.PureDP(10))
    model = synth.fit(data, epsilon=1, rng=Rng.seeded(1))
    evaluation = synth.evaluate(model, against=table, non_private=True, predict="three", rng=Rng.seeded(5))
    assert {(t.synthetic, t.original) for t in evaluation.trained} == {(None, None)}
    json.dumps(evaluation.to_dict(), allow_nan=False)
    assert "none, the target never changes trained on synthetic rows" in "".join(evaluation.figures())


def test_regressions_find_the_weights_that_rows_were_made_with() -> None:
    """Of 20,000 rows each weight is off by at most five standard errors, some 1e-6 of false alarms."""
    rng = np.random.default_rng(4)
    design = np.concatenate([np.ones((20_000, 1)), rng.normal(size=(20_000, 3))], axis=1)
    weights = np.array([0.5, -1.0, 2.0, 0.0])
    likely = 1 / (1 + np.exp(-design @ weights))
    truth = rng.random(20_000) < likely
    found = fit_logistic(design, truth, 0.0)
    bend = (design * (likely * (1 - likely))[:, None]).T @ design
    assert np.all(np.abs(found - weights) < 5 * np.sqrt(np.diag(np.linalg.inv(bend))))
    values = design @ weights + rng.normal(size=20_000)
    assert np.all(np.abs(fit_linear(design, values, 0.0) - weights) < 5 / np.sqrt(20_000) * 1.1)
    assert explained(values, design @ weights) == pytest.approx(1 - 1 / (1 + 5), abs=0.01)
    # a ridge draws all weights but the first towards 0, ever more
    sizes = [np.abs(fit_logistic(design, truth, ridge)[1:]).sum() for ridge in (0.0, 1e3, 1e5)]
    assert sizes[0] > sizes[1] > sizes[2] > 0


@pytest.mark.parametrize("seed", range(5))
def test_an_auc_is_that_of_all_pairs_of_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.random(60) < 0.4
    scores = rng.integers(0, 8, 60).astype(float)
    pairs = [(a > b) + (a == b) / 2 for a in scores[truth] for b in scores[~truth]]
    assert rank_auc(truth, scores) == pytest.approx(float(np.mean(pairs)))
