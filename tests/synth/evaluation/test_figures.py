"""The parts of an evaluation: what the figures are made of, that it only queries, and that the parts cost the whole."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import sordino as sd
from mistyping import mistype
from protecting import protect
from sordino.core.domain import Boolean, Category, Date, Domain, Integer, Real
from sordino.core.loss import Loss
from sordino.core.noise.rng import Rng
from sordino.core.source import Csv
from sordino.errors import DeclarationError, QuestionRefused
from sordino.reporting.synth_evaluation import evaluation_sheet, sheet_page
from sordino.synth.encoded_column import encode_table
from sordino.synth.evaluation.correlations import Correlations
from sordino.synth.evaluation.evaluation import Evaluation, Prediction
from sordino.synth.evaluation.evaluator import plan_evaluation, release_figures
from sordino.synth.evaluation.prediction import count_hits, hits_question, train_scorecard
from sordino.synth.evaluation.workload import Workload


def make_related(rows: int, seed: int) -> pa.Table:
    """A table where pay follows age, and a choice follows pay."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    pay = np.clip(age * 100 + rng.integers(0, 3000, rows), 0, 12000)
    rich = (pay > 6500) ^ (rng.random(rows) < 0.05)
    missing = rng.random(rows) < 0.1
    town = np.where(missing, np.array(None, dtype=object), rng.choice(["a", "b", "c"], rows))
    born = np.datetime64("2000-01-01") + (age - 18) * 3
    values = {"age": age, "pay": pay / 100.0, "rich": rich, "town": town, "born": born.astype("datetime64[D]")}
    return pa.table({n: pa.array(v) for n, v in values.items()})


DOMAIN = Domain(
    {
        "age": Integer(18, 90),
        "pay": Real(0, 120, resolution="0.01"),
        "rich": Boolean(),
        "town": Category(["a", "b", "c"], missing="keep"),
        "born": Date("2000-01-01", "2000-12-31"),
    }
)
RICH = sd.col("rich") == True  # noqa: E712


Both = tuple[pa.Table, sd.synth.Model, Path]


def protected(table: pa.Table, budget: Loss | None = None) -> sd.Curator:
    return protect(table, DOMAIN, budget=budget or sd.PureDP(10**9), seed=5)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    table = make_related(4000, 1)
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(table, path)
    model = sd.synth.MST().fit(protected(table), epsilon=200, rng=Rng.seeded(3))
    return table, model, path


def parts_of(made: Evaluation) -> tuple[Workload, Correlations, Prediction]:
    assert made.workload is not None
    assert made.correlations is not None
    assert made.prediction is not None
    return made.workload, made.correlations, made.prediction


@pytest.mark.deep
def test_private_and_open_figures_agree_without_noise(both: Both) -> None:
    """At an epsilon of a million noise is none, so what goes through the Queryable is what rows give."""
    table, model, path = both
    asked: dict[str, Any] = {
        "workload": [("age", "pay"), ("rich", "town", "born")],
        "predict": RICH,
        "correlations": True,
        "rows": 4000,
    }
    openly = sd.synth.evaluate(model, against=path, non_private=True, rng=Rng.seeded(8), **asked)
    private = sd.synth.evaluate(model, against=protected(table), epsilon=10**6, rng=Rng.seeded(8), **asked)
    open_workload, open_correlations, open_prediction = parts_of(openly)
    workload, correlations, prediction = parts_of(private)
    for a, b in zip(open_workload.sets, workload.sets, strict=True):
        assert (a.columns, a.cells) == (b.columns, b.cells)
        assert a.error == pytest.approx(b.error, abs=0.01)
        assert a.coverage == b.coverage
    for one, other in zip(open_correlations.original, correlations.original, strict=True):
        assert one == pytest.approx(other, abs=1e-6)
    assert np.allclose(open_prediction.original.cells, prediction.original.cells, atol=0.5)
    for ways in (1, 2, 3):
        assert openly.mean(ways) == pytest.approx(private.mean(ways), abs=0.05)
    assert private.release is not None
    assert len(private.release.notes) == 3 + 3  # three means, workload, correlations, prediction
    assert private.release.notes == private.notes()
    assert openly.release is None
    assert openly.costs() == []
    assert str(openly).startswith("NOT PRIVATE\n")
    assert "NOT PRIVATE" in openly._repr_html_()


class Strict:
    """A Queryable's face with nothing else on it, that adds up what is asked: any other access fails the test."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.asked: list[Loss] = []

    def __getattr__(self, name: str) -> object:
        assert name in ("domain", "neighbors", "loss", "release"), f"an evaluation used {name!r} of its Queryable"
        if name == "release":
            return self._release
        return getattr(self.inner, name)

    def _release(self, query: object, loss: Loss) -> Any:
        self.asked.append(loss)
        return self.inner.release(query, loss)


PARTS: dict[str, Any] = {"correlations": True, "workload": [("age", "pay")], "predict": "rich"}


@pytest.mark.each(8)
@pytest.mark.parametrize("named", [(), ("correlations",), ("workload", "predict"), tuple(PARTS)], ids=str)
@pytest.mark.parametrize("loss", [{"epsilon": 1}, {"epsilon": "0.7", "delta": "1e-9"}, {"rho": "0.3"}], ids=str)
def test_an_evaluation_only_queries_and_its_parts_cost_the_whole(
    both: Both, named: tuple[str, ...], loss: dict[str, Any]
) -> None:
    """Each part is one release at its own share; the shares sum to 1, so the losses sum to what was charged, exactly."""
    table, model, _ = both
    plan = plan_evaluation(model, rows=1000, rng=Rng.seeded(7), **{n: PARTS[n] for n in named})
    assert sum(plan.shares().values()) == 1
    faces: list[Strict] = []
    wholes: list[Fraction] = []

    def through(data: Any) -> object:
        faces.append(Strict(data))
        unit = "rho" if isinstance(data.loss, sd.ZCDP) else "epsilon"
        found = release_figures(plan, mistype(faces[-1]))
        wholes.append(sum((spent.amounts()[unit] for _, spent in found.losses), Fraction(0)))
        assert [spent for _, spent in found.losses] == faces[-1].asked
        assert wholes[-1] == data.loss.amounts()[unit]
        return found

    budget = sd.ZCDP(10**6, "1e-6") if "rho" in loss else sd.ApproxDP(10**6, "1e-6") if "delta" in loss else None
    protected(table, budget).adapt(through, describe="an evaluation", **loss)
    assert len(faces[0].asked) == 1 + len(named)
    assert wholes


@pytest.mark.deep
def test_costs_name_each_part_once_and_the_total(both: Both) -> None:
    table, model, _ = both
    made = sd.synth.evaluate(model, against=protected(table), epsilon=1, rows=1000, **PARTS)
    assert made.release is not None
    assert made.costs() == [
        ("distances", "epsilon 0.5"),
        ("correlations", "epsilon 0.2"),
        ("workload", "epsilon 0.2"),
        ("prediction", "epsilon 0.1"),
        ("total", f"epsilon 1, charge {made.release.charge}"),
    ]
    page = sheet_page(evaluation_sheet(model, made, subject="a model", draw=None))
    assert [page.count(f">epsilon {part}<") for part in ("0.5", "0.2", "0.1")] == [1, 2, 1]  # the two of 0.2 each once
    mixed = sd.synth.evaluate(
        model, against=protected(table, sd.ApproxDP(10, "1e-6")), epsilon=1, delta="1e-9", rows=1000
    )
    (part, total) = mixed.costs()
    assert part[1].startswith("rho ")
    assert total[1].startswith(f"{part[1]}, charged as epsilon 1, delta 1e-9, charge ")


def test_what_cannot_be_asked_is_refused_before_the_charge(both: Both) -> None:
    table, model, _ = both
    data = protected(table)
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"workload": [("age", "seks")]}, "'seks'"),
        ({"workload": []}, "workload names sets"),
        ({"predict": "gain > 3"}, "'gain'"),
        ({"predict": "age < 3"}, "one side"),
        ({"rows": 0}, "rows must be"),
    ]
    for asked, words in refusals:
        with pytest.raises((DeclarationError, QuestionRefused), match=words):
            sd.synth.evaluate(model, against=data, epsilon=1, **asked)
    assert data.spent == sd.PureDP(0)


@pytest.mark.deep
def test_an_evaluation_is_drawn(both: Both) -> None:
    table, model, path = both
    openly = sd.synth.evaluate(model, against=path, non_private=True, rows=500)
    assert "NOT PRIVATE (computed on the table itself)" in str(sd.plot(openly).spec())
    private = sd.synth.evaluate(model, against=protected(table), epsilon=5, rows=500, correlations=True)
    spec = str(sd.plot(private, title="Beside the table").spec())
    assert "Beside the table" in spec
    assert "Correlations" in spec
    assert "2 columns" in spec


@pytest.mark.deep
def test_correlations_see_what_is_there(both: Both) -> None:
    _, model, path = both
    made = sd.synth.evaluate(model, against=path, non_private=True, correlations=True, rows=2000).correlations
    assert made is not None
    assert set(made.columns) == {"age", "pay", "rich", "born"}
    at = {n: i for i, n in enumerate(made.columns)}
    assert made.original[at["age"]][at["born"]] == pytest.approx(1.0, abs=0.05)  # born follows age exactly
    original, synthetic = made.original[at["age"]][at["pay"]], made.synthetic[at["age"]][at["pay"]]
    assert original is not None
    assert synthetic is not None
    assert original > 0.7
    assert synthetic > 0.5
    assert made.error == 0


def test_a_score_learns_and_tests(both: Both) -> None:
    table, model, path = both
    found = sd.synth.evaluate(model, against=path, non_private=True, predict=RICH, rows=4000).prediction
    assert found is not None
    assert found.reference is not None
    exact = table["rich"].to_pylist()
    assert sum(map(sum, found.original.cells)) == 4000
    assert found.original.base == pytest.approx(max(sum(exact), 4000 - sum(exact)) / 4000)
    assert 0.8 < found.original.accuracy <= 1
    assert 0.85 < found.reference.accuracy <= 1


@pytest.mark.deep
def test_the_question_of_a_score_is_the_scorecard(both: Both) -> None:
    """DuckDB adds the points as the scorecard does: noise of scale 1e-6 leaves the counts as they are."""
    table, model, _ = both
    keys = model.draw_keys(4000, Rng.seeded(9))
    card = train_scorecard(model, sd.col("pay") > 65, keys)
    exact = count_hits(card, model, encode_table(table, model.parts.columns))
    asked = protected(table).ask(hits_question(card, model), epsilon=10**6)
    counts = {
        (g, t): n
        for g, t, n in zip(*asked.table.columns, strict=True)
        for g, t, n in [(g.as_py(), t.as_py(), n.as_py())]
    }
    words = ("no", "yes")
    # a run of pay that the condition cuts counts by its larger part: at most the rows of one run of keys differ
    assert sum(abs(counts[words[g], words[t]] - exact.cells[g][t]) for g in (0, 1) for t in (0, 1)) <= 2 * 4000 / 100
    assert sum(counts.values()) == 4000


def test_a_csv_is_read_as_declared(both: Both, tmp_path: Path) -> None:
    table, model, path = both
    text = table.set_column(2, "rich", pa.array(["True" if v else "0" for v in table["rich"].to_pylist()]))
    pa_csv.write_csv(text, tmp_path / "rows.csv")
    asked: dict[str, Any] = {"workload": [("rich", "town"), ("pay", "born")], "rows": 2000, "non_private": True}
    first = sd.synth.evaluate(model, against=path, rng=Rng.seeded(2), **asked)
    csv = Csv(header=True, quote='"')
    again = sd.synth.evaluate(model, against=tmp_path / "rows.csv", csv=csv, rng=Rng.seeded(2), **asked)
    assert again.workload == first.workload


def test_rows_are_drawn_for_a_condition_in_words(both: Both) -> None:
    _, model, _ = both
    drawn = model.sample(200, where="age > 60 AND town = 'a'", rng=Rng.seeded(1))
    assert min(drawn["age"].to_pylist()) > 60
    assert set(drawn["town"].to_pylist()) == {"a"}
    with pytest.raises(QuestionRefused, match="what follows WHERE"):
        model.sample(2, where="age > 60; town")


@pytest.mark.deep
def test_a_scorecard_that_can_guess_one_side_only_is_evaluated_and_charged_once() -> None:
    """Its other guess is no possible key, so the answer has no row of it: that count is 0."""
    rows = pa.table({"age": [i % 50 for i in range(800)], "sex": ["f", "m"] * 400})
    domain = sd.Domain({"age": sd.Integer(0, 120), "sex": sd.Category(["f", "m"])})
    table = protect(rows, domain, budget=sd.PureDP(10))
    model = sd.synth.fit(table, epsilon=1, rng=sd.Rng.seeded(1))
    found = sd.synth.evaluate(model, against=table, epsilon="0.5", rows=500, predict="age > 45", rng=sd.Rng.seeded(2))
    assert found.prediction is not None
    assert table.spent == sd.PureDP("1.5")
