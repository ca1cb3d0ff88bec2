"""Synthesizers through a Queryable that records: what they access, what they release, and what models answer and draw."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sordino as sd
from mistyping import mistype
from sordino import synth
from sordino.ask.queries.adaptive.marginal import Distances, MarginalQuery
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.expr import col
from sordino.core.neighbors import Neighbors, PrivacyUnit
from sordino.errors import DeclarationError, QuestionRefused, SourceError, UnknownName
from sordino.synth import methods
from sordino.synth.methods import FitRequest, method_steps
from sordino.synth.rules import Rule
from synth.support import Source, every_method, small, small_source

DOMAIN, KEYS = small()
METHODS = every_method([("age", "job"), ("pay", "sex", "job"), ("town",)])
LOSSES: dict[str, dict[str, Any]] = {
    "pure": {"epsilon": 2},
    "pair": {"epsilon": 2, "delta": "1e-9"},
    "faint": {"epsilon": "0.01", "delta": "1e-9"},
    "rho": {"rho": "0.3"},
}


def exact_model(**more: Any) -> Any:
    return synth.fit(small_source(), rho=10**6, rng=sd.Rng.seeded(2), **more)


@pytest.mark.each(8)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("method", METHODS)
def test_synthesizers_only_release_and_stay_within_their_loss(method: str, loss: str) -> None:
    """The privacy proof: a Queryable without any other door records everything that was asked (issue, point 2)."""
    data = small_source()
    model = METHODS[method](data, **LOSSES[loss], rng=sd.Rng.seeded(4))
    (session,) = data.sessions
    # A selection is of candidates, each of one distance.
    asked = [one for query, _ in session.accesses for one in (query if isinstance(query, tuple) else [query])]
    assert all(isinstance(query, (MarginalQuery, Distances)) for query in asked)
    assert session.spent() <= session.allowed()
    assert session.spent() >= session.allowed() * Fraction(999, 1000)  # what is paid for is used
    table = model.sample(50, rng=sd.Rng.seeded(5))
    assert table.num_rows == 50
    assert "NOT PRIVATE" in repr(model)


@pytest.mark.each(2)
@pytest.mark.parametrize(
    "neighbors", [Neighbors("replace", None), Neighbors("add_remove", PrivacyUnit("u", max_rows=4))], ids=repr
)
def test_units_and_replacement_cost_more_noise(neighbors: Neighbors) -> None:
    data = small_source(neighbors=neighbors)
    synth.fit(data, rho="0.3", rng=sd.Rng.seeded(4))
    (session,) = data.sessions
    query, loss = session.accesses[1]  # after the count of rows
    assert session.spent() <= session.allowed()
    moved = query.sensitivity(DOMAIN, neighbors)
    assert moved.l2_squared == len(query.tables) * (2 if neighbors.unit is None else 16)
    assert loss.amounts()["rho"] > 0


def test_a_model_with_hardly_any_noise_answers_as_the_table() -> None:
    model = exact_model()
    age, job, pay = (KEYS[n] for n in ("age", "job", "pay"))
    assert abs(model.rows - 3000) <= 3
    asked = Selection().where((col("age") > 40) & (col("job") == "desk")).agg(sd.count())
    assert abs(model.answer(asked).value - int(((age > 40) & (job == 1)).sum())) < 40
    grouped = model.answer(Selection().group_by("job").agg(sd.count(), sd.mean("age")))
    for i, row in enumerate(grouped.table.to_pylist()):
        assert abs(row["count"] - int((job == i).sum())) < 5
        assert abs(row["mean_age"] - age[job == i].mean()) < 1.0
    total = model.answer(Selection().agg(sd.sum("pay")))
    assert abs(total.value - int(pay.sum())) < 60
    missing = model.answer(Selection().where(col("town").is_null() | col("sex")).agg(sd.count()))
    assert abs(missing.value - int(((KEYS["town"] == 3) | (KEYS["sex"] == 1)).sum())) < 60
    low, high = total.interval(0.95)
    assert low <= total.value <= high
    assert total.error(0.95) > total.error(0.5)


@pytest.mark.deep
def test_sampled_rows_are_declared_values_and_follow_the_model() -> None:
    model = exact_model()
    table = model.sample(6000, rng=sd.Rng.seeded(1))
    assert table.schema.names == list(DOMAIN)
    assert set(table["job"].to_pylist()) <= {"none", "desk", "shop", "field"}
    assert 0 <= pc.min(table["age"]).as_py() <= pc.max(table["age"]).as_py() <= 99
    assert abs(table["town"].null_count / 6000 - float((KEYS["town"] == 3).mean())) < 0.02
    assert model.sample(rng=sd.Rng.seeded(1)).num_rows == model.rows
    assert model.sample(0).num_rows == 0


@pytest.mark.deep
def test_conditional_sampling_draws_only_rows_that_meet_the_condition() -> None:
    model = exact_model()
    for where in (
        (col("age") > 60) & (col("job") == "shop"),
        (col("age") < 18) | (col("pay") > 12),
        col("pay") * 5 >= col("age"),
        col("town").is_null(),
    ):
        table = model.sample(300, where=where, rng=sd.Rng.seeded(3))
        assert table.num_rows == 300
    young = model.sample(2000, where=col("age") < 20, rng=sd.Rng.seeded(3))
    assert pc.max(young["age"]).as_py() < 20
    assert young["job"].to_pylist().count("none") > 1800  # conditional, not only filtered: the dependence is kept
    with pytest.raises(QuestionRefused, match="no rows"):
        model.sample(5, where=(col("age") < 10) & (col("age") > 50), rng=sd.Rng.seeded(1))
    with pytest.raises(QuestionRefused, match="hardly any"):
        model.sample(5, where=col("pay") - col("age") > 50, rng=sd.Rng.seeded(1))


def test_samples_never_break_declared_constraints() -> None:
    constraints: list[Rule] = [
        synth.never((col("age") < 30) & (col("job") == "field")),
        synth.at_most("pay", "age"),
        synth.determines("job", "sex", {"none": False, "desk": True, "shop": True, "field": False}),
    ]
    model = synth.fit(small_source(), epsilon=1, delta="1e-9", constraints=constraints, rng=sd.Rng.seeded(2))
    table = model.sample(4000, rng=sd.Rng.seeded(9))
    rows = table.to_pylist()
    assert len(rows) == 4000
    assert not any(r["age"] < 30 and r["job"] == "field" for r in rows)
    assert all(r["pay"] <= r["age"] for r in rows)
    assert all(r["sex"] == (r["job"] in ("desk", "shop")) for r in rows)


@pytest.mark.parametrize(
    ("constraints", "words"),
    [
        ([synth.at_most("pay", "height")], "not a column"),
        ([synth.determines("job", "sex", {"none": True})], "no entry"),
        (
            [synth.determines("job", "town", dict.fromkeys(["none", "desk", "shop", "field"], "z"))],
            "not a declared value",
        ),
        (
            [
                synth.determines("sex", "town", {True: "a", False: "b"}),
                synth.determines("town", "sex", {"a": True, "b": False, "c": True, None: True}),
            ],
            "circle",
        ),
    ],
)
def test_constraints_that_cannot_be_are_refused_before_anything_is_spent(constraints: list[Any], words: str) -> None:
    data = small_source()
    with pytest.raises(DeclarationError, match=words):
        synth.fit(data, epsilon=1, constraints=constraints)
    assert data.sessions == []


def test_an_order_that_the_bounds_forbid_is_refused() -> None:
    domain = sd.Domain({"a": sd.Integer(10, 20), "b": sd.Integer(0, 5)})
    data = Source(domain, {"a": np.zeros(5, dtype=np.int64), "b": np.zeros(5, dtype=np.int64)}, sd.Rng.seeded(1))
    with pytest.raises(DeclarationError, match="cannot hold"):
        synth.fit(data, epsilon=1, constraints=[synth.at_most("a", "b")])


def test_bad_input_is_refused_before_anything_is_spent() -> None:
    data = small_source()
    wide = sd.Domain({f"c{i}": sd.Integer(0, 999) for i in range(3)})
    refusals: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: synth.fit(data, epsilon=1, columns=["agee"]), UnknownName, "age"),
        (lambda: synth.fit(data, epsilon=1, columns=["age", "age"]), QuestionRefused, "each once"),
        (lambda: synth.fit(data, epsilon=1, columns="age"), DeclarationError, "list"),
        (lambda: synth.fit(data), DeclarationError, "state a privacy loss"),
        (lambda: synth.fit(data, epsilon=1, rho=1), DeclarationError, "state a privacy loss"),
        (lambda: synth.fit(data, epsilon=0), DeclarationError, "above 0"),
        (lambda: synth.fit(data, epsilon=1, workload="everything"), DeclarationError, "all 2-way"),
        (lambda: synth.fit(data, epsilon=1, workload=[("age", "height")]), DeclarationError, "names columns"),
        (lambda: synth.fit(data, epsilon=1, cap=3), DeclarationError, "cap"),
        (
            lambda: synth.Marginals([("age", "pay", "job", "town")], cap=1000).fit(data, epsilon=1),
            DeclarationError,
            "cap",
        ),
        (
            lambda: synth.Marginals([("c0", "c1", "c2")]).fit(Source(wide, {}, sd.Rng.seeded(1)), epsilon=1),
            DeclarationError,
            "Name fewer columns",
        ),
    ]
    for act, kind, words in refusals:
        with pytest.raises(kind, match=words):
            act()
    assert data.sessions == []


@pytest.mark.each(3)
@pytest.mark.parametrize("method", [name for name in methods.METHODS if name != "auto"])
def test_each_step_spends_the_share_that_is_stated_beside_its_name(method: str) -> None:
    data = small_source()
    marginals = [("age", "job"), ("pay", "sex", "job")] if method == "marginals" else None
    FitRequest(method, marginals=marginals).fit(data, rho="0.5")
    (session,) = data.sessions
    accesses = [(query, float(loss.amounts()["rho"]) / 0.5) for query, loss in session.accesses]
    (_, one_way), *between, (_, check) = accesses
    select = sum(share for query, share in between if isinstance(query, Distances))
    measure = sum(share for query, share in between if isinstance(query, MarginalQuery))
    spent = [share for share in (one_way, select, measure, check) if share > 0]
    stated = [float(share.removesuffix("%")) / 100 for _, share in method_steps(method)]
    assert spent == pytest.approx(stated, abs=0.001)


def test_the_steps_of_the_default_keep_to_their_ranges() -> None:
    assert dict(method_steps("auto")) == {
        "count the rows, if no guess is given": "0.8%",
        "measure the one-way marginals": "20% to 50%",
        "score the pairs against independent columns": "1% to 3%",
        "measure these again, if that saves more error than pairs do": "0% to 100% of what is left",
        "measure the pairs that save the most error": "30% of what is left",
        "score the pairs against the model of these": "1% to 3%",
        "score triples of columns against the model": "0.5%",
        "measure more pairs, and triples": "the rest",
        "in place of scores and what follows, where these cost too much: select a few pairs, and measure them": (
            "0% to 85% of what is left"
        ),
        "measure the model's own error": "5%",
    }
    data = small_source()
    synth.fit(data, rho=1, rng=sd.Rng.seeded(2))
    (session,) = data.sessions
    shares = [(type(query), float(loss.amounts()["rho"])) for query, loss in session.accesses]
    assert shares[0][1] == pytest.approx(0.008, abs=1e-6)
    assert shares[-1][1] == pytest.approx(0.05, abs=1e-6)
    scores = [share for query, share in shares if query is Distances]
    assert len(scores) == 3
    assert all(0.0099 < share <= 0.03 for share in (scores[0], scores[1]))
    assert scores[2] == pytest.approx(0.005, abs=1e-6)


def test_a_loss_too_small_for_more_gives_independence_and_says_so() -> None:
    model = synth.fit(small_source(), epsilon="0.01", delta="1e-9", rng=sd.Rng.seeded(1))
    assert "too small" in model.facts["tier"]
    assert "too small" in model.describe()


@pytest.mark.deep
def test_a_model_is_the_same_after_saving_and_an_altered_file_is_refused(tmp_path: Path) -> None:
    rule = synth.never((col("age") < 5) & (col("job") == "desk"))
    model = synth.fit(small_source(), epsilon=1, delta="1e-9", constraints=[rule], rng=sd.Rng.seeded(2))
    path = tmp_path / "a.model"
    model.save(path)
    again = synth.load(path)
    assert again.describe() == model.describe()
    assert again.sample(200, rng=sd.Rng.seeded(3)).equals(model.sample(200, rng=sd.Rng.seeded(3)))
    question = Selection().where(col("pay") > 5).group_by("job").agg(sd.count())
    assert again.answer(question).interval(0.9) == model.answer(question).interval(0.9)
    whole, refused = path.read_bytes(), 0
    assert b"pickle" not in whole
    for place in range(0, len(whole), max(1, len(whole) // 60)):
        altered = bytearray(whole)
        altered[place] ^= 0x40
        path.write_bytes(bytes(altered))
        read = None
        with contextlib.suppress(DeclarationError):
            read = synth.load(path)
        refused += read is None
        if read is not None:  # bytes of the container that hold nothing may change; the model may not
            assert read.sample(50, rng=sd.Rng.seeded(3)).equals(model.sample(50, rng=sd.Rng.seeded(3)))
    assert refused > 40
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DeclarationError, match="cut short"):
        synth.load(path)
    with pytest.raises(SourceError, match="no model file"):
        synth.load(tmp_path / "none.model")


def test_what_a_model_does_not_hold_is_refused() -> None:
    model = exact_model(columns=["age", "job"])
    with pytest.raises(QuestionRefused, match="pay"):
        model.answer(Selection().where(col("pay") > 3).agg(sd.count()))
    with pytest.raises(DeclarationError, match="rows"):
        model.sample(-1)
    with pytest.raises(QuestionRefused, match="condition"):
        model.sample(5, where=mistype(3))


@pytest.mark.deep
def test_values_are_drawn_on_each_columns_own_steps() -> None:
    domain = sd.Domain(
        {
            "gain": sd.Integer(0, 99_999),
            "rate": sd.Real(0, 1, resolution="0.01"),
            "born": sd.Date("1900-01-01", "2000-01-01"),
        }
    )
    rng = np.random.default_rng(1)
    columns = synth_columns(domain)
    values = pa.table(
        {
            "gain": np.where(rng.random(4000) < 0.6, 0, rng.integers(0, 99_999, 4000)),
            "rate": np.round(rng.beta(2, 5, 4000), 2),
            "born": pa.array(rng.integers(-20_000, 9000, 4000).astype(np.int32)).cast(pa.date32()),
        }
    )
    from sordino.synth.encoded_column import encode_table

    keys = dict(zip(domain, encode_table(values, columns), strict=True))
    model = synth.fit(Source(domain, keys, sd.Rng.seeded(1)), epsilon=20, delta="1e-9", rng=sd.Rng.seeded(2))
    table = model.sample(4000, rng=sd.Rng.seeded(3))
    gain, rate = table["gain"].to_numpy(), table["rate"].to_numpy()
    assert abs((gain == 0).mean() - 0.6) < 0.03  # zero keeps a run of its own
    assert np.allclose(rate * 100, np.rint(rate * 100))
    assert rate.min() >= 0
    assert rate.max() <= 1
    assert table["born"].type == pa.date32()
    assert abs(rate.mean() - values["rate"].to_numpy().mean()) < 0.02


def synth_columns(domain: sd.Domain) -> Any:
    from sordino.synth.encoded_column import encode_columns

    return tuple(encode_columns(domain, None, Neighbors("add_remove", None)))


def random_question(rng: np.random.Generator) -> tuple[Any, int]:
    """Return a condition on one to three random columns, and how many rows meet it."""
    values: dict[str, list[Any]] = {
        "job": ["none", "desk", "shop", "field"],
        "town": ["a", "b", "c"],
        "sex": [False, True],
    }
    where, kept = None, np.ones(len(KEYS["age"]), dtype=bool)
    for name in rng.choice(list(KEYS), int(rng.integers(1, 4)), replace=False):
        if name in values:
            chosen = [i for i in range(len(values[name])) if rng.random() < 0.5] or [0]
            part, met = col(name).is_in([values[name][i] for i in chosen]), np.isin(KEYS[name], chosen)
        else:
            low, high = sorted(int(v) for v in rng.integers(0, KEYS[name].max() + 1, 2))
            part, met = col(name).is_between(low, high), (KEYS[name] >= low) & (KEYS[name] <= high)
        where, kept = part if where is None else where & part, kept & met
    return where, int(kept.sum())


FITS = ((2, 1), (3, 8), (1, "0.3"), (4, 8))


@pytest.mark.deep
@pytest.mark.parametrize("fits", [FITS[:2], pytest.param(FITS, marks=pytest.mark.deep)], ids=len)
def test_intervals_cover_a_random_workload(fits: tuple[tuple[int, Any], ...]) -> None:
    """Nominal 95%, at least 90% asked (issue, point 6); 100 questions a fit: of four fits a miss of 5 points is 3 deviations."""
    rng = np.random.default_rng(5)
    covered = []
    for seed, epsilon in fits:
        model = synth.fit(small_source(seed), epsilon=epsilon, delta="1e-9", rng=sd.Rng.seeded(seed))
        for _ in range(100):
            where, exact_count = random_question(rng)
            low, high = model.answer(Selection().where(where).agg(sd.count())).interval(0.95)
            covered.append(low <= exact_count <= high)
    assert np.mean(covered) >= 0.9
