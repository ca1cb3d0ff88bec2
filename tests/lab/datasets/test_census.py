"""The generated census and the public extract: shapes, laws and marks. Seeded; each law fails by chance below 1e-6."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from places import ADULT, needs_adult
from sordino.ask.project.load import load_project
from sordino.core.domain import Category, Integer, Real
from sordino.core.noise.rng import Rng
from sordino.datasets import adult_columns, adult_domain, census_domain, load_adult, make_census, write_census_project
from sordino.errors import DeclarationError, SourceError

ROWS = 300_000  # more than one chunk


@pytest.fixture(scope="module")
def census() -> pa.Table:
    return make_census(ROWS, Rng.seeded(11))


def share(mask: pa.ChunkedArray) -> float:
    return float(pc.sum(mask.cast(pa.int64())).as_py()) / len(mask)


def assert_share(mask: pa.ChunkedArray, expected: float) -> None:
    """Within five standard errors: a false alarm once in 1.7 million."""
    allowed = 5 * math.sqrt(expected * (1 - expected) / len(mask)) + 2**-16
    assert abs(share(mask) - expected) < allowed


@pytest.mark.deep
def test_the_same_seed_gives_the_same_people(census: pa.Table) -> None:
    assert make_census(ROWS, Rng.seeded(11)).equals(census)
    assert not make_census(ROWS, Rng.seeded(12)).equals(census)


@pytest.mark.deep
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 2**18, 2**18 + 1])
def test_any_number_of_rows(census: pa.Table, rows: int) -> None:
    table = make_census(rows, Rng.seeded(1))
    assert table.num_rows == rows
    assert table.schema == census.schema


@pytest.mark.parametrize("rows", [-1, 10**9 + 1, 1.5, True])
def test_rows_must_be_a_count(rows: int) -> None:
    with pytest.raises(DeclarationError, match="rows must be a whole number"):
        make_census(rows, Rng.seeded(1))


def test_every_cell_lies_in_the_declared_domain(census: pa.Table) -> None:
    domain = census_domain()
    assert list(domain) == census.column_names
    for name in domain:
        column = domain[name]
        if isinstance(column, Integer | Real):
            assert pc.min(census[name]).as_py() >= column.lower
            assert pc.max(census[name]).as_py() <= column.upper
        elif isinstance(column, Category):
            seen = set(pc.unique(census[name].cast(pa.string())).to_pylist()) - {None}
            assert seen == set(column.values)  # every declared value occurs
    assert set(pc.unique(census["age"]).to_pylist()) == {None, *range(17, 91)}
    assert set(pc.unique(census["education_num"]).to_pylist()) == set(range(1, 17))


def test_missing_cells_and_flat_laws(census: pa.Table) -> None:
    assert_share(pc.is_null(census["age"]), 0.01)
    assert_share(pc.is_null(census["occupation"]), 0.05)
    assert_share(pc.equal(census["sex"].cast(pa.string()), "Female"), 0.51)
    for name in ("household", "region", "sex", "education_num", "hours_per_week", "gain"):
        assert census[name].null_count == 0


def test_architectureholds_are_small_and_live_in_one_region(census: pa.Table) -> None:
    plain = census.select(["household", "region"]).set_column(1, "region", census["region"].cast(pa.string()))
    homes = plain.group_by("household").aggregate([("region", "count"), ("region", "count_distinct")])
    assert set(pc.unique(homes["region_count"]).to_pylist()) == {1, 2, 3, 4, 5, 6}
    assert pc.max(homes["region_count_distinct"]).as_py() == 1
    assert ROWS / homes.num_rows == pytest.approx(2.41, abs=0.03)


def test_gain_is_mostly_nothing_with_a_long_tail_of_cents(census: pa.Table) -> None:
    gain = census["gain"]
    assert 0.92 < share(pc.equal(gain, 0.0)) < 0.95
    assert pc.max(gain).as_py() == 100_000
    positive = gain.filter(pc.greater(gain, 0.0))
    assert pc.min(positive).as_py() >= 99.99
    assert pc.mean(positive).as_py() > 2 * pc.quantile(positive, 0.5)[0].as_py()
    cents = pc.multiply(positive, 100.0)
    assert pc.max(pc.abs(pc.subtract(cents, pc.round(cents)))).as_py() < 1e-6


def test_columns_depend_on_each_other(census: pa.Table) -> None:
    def mean(column: str, mask: pa.ChunkedArray) -> float:
        return float(pc.mean(census[column].filter(mask)).as_py())

    schooled = pc.greater(census["education_num"], 10)
    occupation = census["occupation"].cast(pa.string())
    assert mean("gain", schooled) > 2 * mean("gain", pc.invert(schooled))
    teaching, building = pc.equal(occupation, "Education"), pc.equal(occupation, "Construction")
    assert mean("education_num", teaching) > 3 + mean("education_num", building)
    old, prime = pc.greater(census["age"], 70), pc.and_(pc.greater(census["age"], 30), pc.less(census["age"], 60))
    assert mean("hours_per_week", prime) > 10 + mean("hours_per_week", old)
    assert share(pc.equal(census["hours_per_week"], 40)) > 0.25


def test_a_project_to_try(tmp_path: Path) -> None:
    path = write_census_project(tmp_path / "demo", 1000, Rng.seeded(5))
    project = load_project(path)
    table = project.tables["people"]
    assert table.domain.to_dict() == census_domain().to_dict()
    assert table.source.format == "parquet"
    assert table.neighbors.describe() == "one row, add/remove"
    assert project.budgets["people"].cap.describe() == "epsilon 2"
    assert str(project.budgets["people"].ledger).endswith("/census.ledger")
    assert pq.read_metadata(table.source.path).num_rows == 1000
    with pytest.raises(DeclarationError, match="already; name an empty or new"):
        write_census_project(tmp_path / "demo", 1000, Rng.seeded(5))


@needs_adult
def test_the_public_extract() -> None:
    table = load_adult(ADULT)
    assert table.num_rows == 32_561
    assert table.column_names == list(adult_columns())
    assert b"NOT PRIVATE" in table.schema.metadata[b"sordino"]
    assert pc.sum(table["age"]).as_py() == 1_256_257
    assert pc.sum(pc.greater(table["education_num"], 10).cast(pa.int64())).as_py() == 10_516
    assert table["occupation"].null_count == 1_843
    domain = adult_domain()
    for name in domain:
        column = domain[name]
        if isinstance(column, Category):
            assert set(pc.unique(table[name]).to_pylist()) - {None} <= set(column.values)
        else:
            assert table[name].type == pa.int64()
            assert table[name].null_count == 0


def test_an_extract_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        load_adult(tmp_path / "none.data")
    for text in ("secret, row\n", "secret, " * 14 + "row\n"):
        (tmp_path / "bad.data").write_text(text)
        with pytest.raises(SourceError, match="not the Adult extract") as caught:
            load_adult(tmp_path / "bad.data")
        assert "secret" not in str(caught.value)
        assert caught.value.__suppress_context__


def test_whatever_arrow_raises_while_it_reads_is_a_source_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow raises its plain ArrowException where threads or memory run out; which of its kinds must not matter."""
    from pyarrow import csv

    path = tmp_path / "adult.data"
    path.write_text("1,2\n")
    for kind in (pa.ArrowException, pa.ArrowMemoryError, pa.ArrowCapacityError, OSError):

        def fail(*_: object, kind: type[Exception] = kind, **__: object) -> None:
            raise kind("secret")

        monkeypatch.setattr(csv, "read_csv", fail)
        with pytest.raises(SourceError) as told:
            load_adult(path)
        assert "secret" not in str(told.value)
