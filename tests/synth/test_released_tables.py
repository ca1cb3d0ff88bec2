"""Models of the released tables of a tabulation: what they draw, what they answer, and how wrong, at no further loss."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino import synth
from sordino.core.estimates.table_cells import TableCells
from sordino.core.loss import ZCDP
from sordino.core.noise.rng import ReplicateStream
from sordino.synth.measurement import Question
from sordino.synth.model import Model
from sordino.tables.least_squares import add_parts, parts_of_cells

DOMAIN = sd.Domain(
    {
        "region": sd.Category(["north", "east", "south"]),
        "sex": sd.Category(["f", "m"]),
        "year": sd.Integer(2020, 2023),
        "job": sd.Category(["a", "b"], missing="keep"),
        "member": sd.Boolean(),
        "one": sd.Category(["only"]),
        "born": sd.Date("2000-01-01", "2001-12-31"),
        "income": sd.Integer(0, 90),
    }
)
TABLES: list[Any] = [["year", "region"], ["region", "sex"], ["job", "one"], ["sex", "member", "job"], []]


def rows(count: int = 3000) -> pa.Table:
    """Return rows in which the region depends on the year, and the job on the sex."""
    draws = np.random.default_rng(3)
    year = draws.integers(2020, 2024, count)
    sex = draws.choice(["f", "m"], count)
    job = np.where((sex == "f") & (draws.random(count) < 0.7), "a", draws.choice(["a", "b"], count))
    return pa.table(
        {
            "region": np.where(year == 2020, "north", draws.choice(["north", "east", "south"], count)),
            "sex": sex,
            "year": year,
            "job": pa.array([None if i % 10 == 0 else text for i, text in enumerate(job.tolist())], pa.string()),
            "member": draws.random(count) < 0.3,
            "one": ["only"] * count,
            "born": pa.array((10957 + draws.integers(0, 700, count)).astype(np.int32)).cast(pa.date32()),
            "income": draws.integers(0, 91, count),
        }
    )


def release(loss: str, *, finish: Any = "whole", pure: bool = False, **options: Any) -> sd.Release:
    people = protect(rows(), DOMAIN, budget=sd.PureDP(10**9) if pure else ZCDP(10**9, delta="1e-9"))
    question = sd.tabulate(options.pop("tables", TABLES), finish=finish, **options)
    return people.ask(question, epsilon=loss) if pure else people.ask(question, rho=loss)


@functools.cache
def exact_model() -> tuple[sd.Release, Model]:
    answer = release("100000")
    return answer, synth.fit(answer, rng=sd.Rng.seeded(1))


def counted(table: pa.Table, columns: list[str]) -> dict[tuple[Any, ...], int]:
    counts: dict[tuple[Any, ...], int] = {}
    for row in table.select(columns).to_pylist():
        cell = tuple(row.values())
        counts[cell] = counts.get(cell, 0) + 1
    return counts


@pytest.mark.deep
def test_rows_drawn_have_the_tables_and_their_columns_alone() -> None:
    _, model = exact_model()
    drawn = model.sample(rng=sd.Rng.seeded(2))
    assert set(drawn.column_names) == {"region", "sex", "year", "job", "member", "one"}
    assert drawn.num_rows == 3000
    for columns in (["year", "region"], ["region", "sex"], ["sex", "member", "job"]):
        exact = counted(rows(), columns)
        shown = counted(drawn, columns)
        assert sum(abs(shown.get(cell, 0) - exact.get(cell, 0)) for cell in {*shown, *exact}) < 150, columns
    assert drawn.schema.field("year").type == pa.int64()
    assert drawn.schema.field("member").type == pa.bool_()


def test_it_is_paid_for_already_and_says_by_what() -> None:
    answer, model = exact_model()
    assert model.facts["charge"] == answer.charge
    assert model.facts["loss"].startswith("rho 100000")
    assert "fitted to 5 released tables" in model.describe()
    assert not model.private
    assert model.answer(sd.count()).cost == sd.PureDP(0)
    distances = synth.evaluate(model, against=rows(), non_private=True).distances
    assert max(one.value for one in distances if set(one.columns) == {"region", "year"}) < 0.05


def test_a_release_read_again_gives_the_same_model(tmp_path: Path) -> None:
    answer, model = exact_model()
    again = synth.fit(sd.Release.from_dict(answer.to_dict()), rng=sd.Rng.seeded(1))
    question = sd.sql("SELECT job, region, COUNT(*) AS n FROM data GROUP BY job, region")
    model.save(tmp_path / "m.model")
    interval = model.answer(question).interval()
    assert interval == again.answer(question).interval()
    assert interval == synth.load(tmp_path / "m.model").answer(question).interval()


@pytest.mark.each(8)
@pytest.mark.parametrize(("finish", "pure"), [("whole", False), ("linear", True), ("raw", False), ("raw", True)])
def test_answers_within_a_table_have_the_variance_of_its_noise(finish: Any, pure: bool) -> None:
    """Against 5,000 draws of the noise of the release itself, for random weights, groups and classes of keys."""
    answer = release("0.5", finish=finish, pure=pure)
    model = synth.fit(answer, rng=sd.Rng.seeded(1))
    measure: Any = answer.outputs[0].estimate
    drawn = measure.draw(5_000, ReplicateStream(b"a key").points)
    draws = np.random.default_rng(9)
    for columns in ((), ("year",), ("region", "year"), ("job", "sex"), ("member", "job", "sex")):
        members = [np.arange(len(keys_of(answer, name))) % 2 for name in columns]
        shape = (2,) * len(columns)
        values = draws.normal(size=shape)
        groups = np.arange(values.size).reshape(shape) % 3 - (len(columns) > 1)
        places = [model.columns.index(name) for name in columns]
        known = model.parts.counts.estimate_agreeing(Question(places, members, values, groups, 2))
        assert known is not None
        of_step = [np.square(np.abs(values[groups == g]).max(initial=0.0)) / 4 for g in range(2)]
        stated = np.square(known[1]) - of_step
        # What is asked is linear in the cells: the answer to each cell by itself says by which weights.
        weights = [
            _sum_by_group(_table(measure, cell, answer, columns), members, values, groups)
            for cell in np.eye(len(measure.cells))
        ]
        summed = drawn @ np.array(weights)
        assert np.var(summed, axis=0) == pytest.approx(stated, rel=0.1, abs=1e-6), columns
        assert np.mean(summed, axis=0) == pytest.approx(known[0], abs=6 * np.sqrt(stated.max() / 5_000) + 1e-6)


def keys_of(answer: sd.Release, name: str) -> list[Any]:
    table = next(table for table in answer.tables if name in table)
    return list(dict.fromkeys(answer.tables[table][name].to_pylist()))


def _table(measure: TableCells, cells: Any, answer: sd.Release, columns: tuple[str, ...]) -> Any:
    """Return the table over columns, in their order, that released cells say: all of them by least squares."""
    names = list(dict.fromkeys(name for table in measure.tables for name in table))
    sizes = [len(keys_of(answer, name)) for name in names]
    parts = parts_of_cells(replace(measure, cells=tuple(cells), linear=()), names, sizes)
    places = [names.index(name) for name in columns]
    axes = tuple(sorted(places))
    return add_parts(sizes, parts, axes).transpose([axes.index(place) for place in places])


def _sum_by_group(cells: Any, members: Any, values: Any, groups: Any) -> list[float]:
    """Return the weighted sums of a table's cells in each of two groups."""
    weights = values[np.ix_(*members)] if members else values
    group = groups[np.ix_(*members)] if members else groups
    return [float((cells * weights)[group == g].sum()) for g in range(2)]


def test_answers_outside_of_the_tables_say_what_their_interval_takes_for_granted() -> None:
    _, model = exact_model()
    within = model.answer(sd.sql("SELECT sex, COUNT(*) AS n FROM data WHERE region = 'east' GROUP BY sex"))
    outside = model.answer(sd.sql("SELECT job, COUNT(*) AS n FROM data WHERE region = 'east' GROUP BY job"))
    assert "the noise in the counts" in within.remarks[0]
    assert any("no released table holds" in remark for remark in outside.remarks)
    exact = counted(rows(), ["region", "job"])
    for row, ends in zip(outside.rows, outside.interval().to_pylist(), strict=True):
        assert ends["n_lower"] <= exact["east", row["job"]] <= ends["n_upper"]
        assert ends["n_upper"] - ends["n_lower"] > 20


def test_pairs_that_no_clique_holds_shape_the_rows() -> None:
    everything = ["region", "sex", "year", "job", "member"]
    pairs = [[a, b] for i, a in enumerate(everything) for b in everything[i + 1 :]]
    model = synth.fit(release("1000", tables=pairs), cap=100, rng=sd.Rng.seeded(1))
    assert max(len(clique) for clique in model.parts.field.tree.cliques) < len(everything)
    drawn = counted(model.sample(rng=sd.Rng.seeded(2)), ["year", "region"])
    exact = counted(rows(), ["year", "region"])
    assert sum(abs(drawn.get(cell, 0) - exact.get(cell, 0)) for cell in {*drawn, *exact}) < 300


@pytest.mark.deep
def test_columns_of_expressions_are_drawn_as_their_keys() -> None:
    band = sd.col("income").bin(width=30).alias("band")
    answer = release("1000", tables=[[band, sd.col("born").year().alias("year")], [sd.col("born").month()], ["one"]])
    model = synth.fit(answer, columns=["band", "year"], rng=sd.Rng.seeded(1))
    drawn = model.sample(200, rng=sd.Rng.seeded(2))
    labels = answer.tables["band", "year"]
    assert {row["band"] for row in drawn.to_pylist()} <= set(map(str, labels["band"].to_pylist()))
    assert {row["year"] for row in drawn.to_pylist()} <= set(labels["year"].to_pylist())
    kept = synth.fit(answer, constraints=[synth.never(sd.col("year") == 2001)], rng=sd.Rng.seeded(1))
    assert set(kept.sample(200, rng=sd.Rng.seeded(2))["year"].to_pylist()) == {2000}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"measures": {"income": sd.sum("income")}}, "no counts of rows"),
        ({"measures": {"jobs": sd.count("job")}}, "no counts of rows"),
        ({"tables": [[]]}, "the total alone"),
    ],
)
def test_tables_that_no_model_can_be_made_of_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(sd.errors.QuestionRefused, match=words):
        synth.fit(release("1", **options))


def test_what_goes_with_a_table_does_not_go_with_a_release() -> None:
    answer, _ = exact_model()
    with pytest.raises(sd.errors.DeclarationError, match="epsilon= goes with a table"):
        synth.fit(answer, epsilon=1)
    with pytest.raises(sd.errors.DeclarationError, match="predict= goes with a table"):
        synth.fit(answer, predict="sex")
    with pytest.raises(sd.errors.UnknownName, match="no released table holds the column 'income'"):
        synth.fit(answer, columns=["income"])
    with pytest.raises(sd.errors.QuestionRefused, match="of a tabulation, and this release has none"):
        synth.fit(protect(rows(), DOMAIN).ask(sd.count(), epsilon=1))


@pytest.mark.deep
def test_ordered_columns_have_bounds_of_their_variance() -> None:
    """Keys of an ordered column vary more or less, by their place: what is stated is no less than what is drawn."""
    answer = release("0.5", tables=[["year", "region"], ["sex"]], ordered=["year"])
    model = synth.fit(answer, rng=sd.Rng.seeded(1))
    measure: Any = answer.outputs[0].estimate
    drawn = measure.draw(2_000, ReplicateStream(b"a key").points)[:, :12].reshape(-1, 4, 3)
    draws = np.random.default_rng(2)
    for _ in range(20):
        values = draws.normal(size=(4, 3)).round(1)
        places = [model.columns.index(name) for name in ("year", "region")]
        members = [np.arange(4), np.arange(3)]
        known = model.parts.counts.estimate_agreeing(Question(places, members, values, None, 1))
        assert known is not None
        assert np.std((drawn * values).sum(axis=(1, 2))) <= 1.06 * float(known[1][0])


def test_nested_areas_are_refused() -> None:
    areas = {"columns": ["half", "region"], "areas": [("up", "north"), ("down", "south"), ("down", "east")]}
    answer = release("1", tables=[["half", "sex"], ["region"]], levels=areas)
    with pytest.raises(sd.errors.QuestionRefused, match="of nested areas"):
        synth.fit(answer)


@pytest.mark.deep
def test_public_counts_have_no_noise_in_a_model() -> None:
    regions = counted(rows(), ["region"])
    public = [{"region": region, "count": count} for (region,), count in regions.items()]
    model = synth.fit(release("0.5", invariants={"region": public}), rng=sd.Rng.seeded(1))
    answer = model.answer(sd.sql("SELECT region, COUNT(*) AS n FROM data GROUP BY region"))
    for row, ends in zip(answer.rows, answer.interval().to_pylist(), strict=True):
        assert row["n"] == pytest.approx(regions[row["region"],], abs=0.01)
        assert ends["n_upper"] - ends["n_lower"] < 3
    drawn = counted(model.sample(rng=sd.Rng.seeded(2)), ["region"])
    assert all(abs(drawn[region] - count) < 60 for region, count in regions.items())
