"""Delta and Iceberg tables by their own libraries: the exact answers of the same rows in DuckDB; their files are no table."""

from __future__ import annotations

import datetime
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import exact
from protecting import protect
from sordino import col
from sordino.ask.curator.project_check import check_against_data
from sordino.ask.engines.readers.file_schema import read_schema
from sordino.ask.queries.build import Selection
from sordino.errors import DeclarationError, SourceError

S = Selection()
TOWNS = ["a b", "c=d/é", "日本"]
ROWS = 60
FIRST = datetime.date(2020, 1, 1)
MIDNIGHT = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "age": pa.array([None if i % 7 == 0 else i for i in range(ROWS)], pa.int64()),
        "gain": pa.array([float("nan") if i % 9 == 0 else None if i % 11 == 0 else i / 3 for i in range(ROWS)]),
        "pay": pa.array([None if i % 13 == 0 else Decimal(i) / 4 for i in range(ROWS)], pa.decimal128(12, 2)),
        "day": pa.array([None if i % 5 == 0 else FIRST + datetime.timedelta(i) for i in range(ROWS)]),
        "seen": pa.array([MIDNIGHT + datetime.timedelta(hours=i) for i in range(ROWS)], pa.timestamp("us", "UTC")),
        "job": pa.array([["Köchin", "nurse", None][i % 3] for i in range(ROWS)]),
        "town": pa.array([[*TOWNS, None][i % 4] for i in range(ROWS)]),
    }
)
AGAIN = TABLE.slice(20, 4).set_column(0, "id", pa.array([100, 101, 102, 103], pa.int64()))
DOMAIN = sd.Domain(
    {
        "id": sd.Integer(0, 200),
        "age": sd.Integer(0, 50),
        "gain": sd.Real(0, 15, resolution=0.01),
        "pay": sd.Real(0, 12, resolution=0.25),
        "day": sd.Date("2020-01-01", "2020-12-31"),
        "seen": sd.DateTime("2020-01-01", "2020-12-31", zone="Europe/Berlin"),
        "job": sd.Category(["Köchin", "nurse"], missing="keep"),
        "town": sd.Category(TOWNS, missing="keep"),
    }
)
ASKED: list[Any] = [
    S.group_by("town", "job").agg(sd.count(), sd.mean("age"), sd.sum("gain"), sd.sum("pay")),
    S.where(col("gain") > 3).where(col("day") >= FIRST + datetime.timedelta(20)).agg(sd.count(), sd.sum("id")),
    S.where(~(col("gain") <= 9)).agg(sd.count(), sd.sum("age")),
    S.where(col("town") == TOWNS[1]).group_by(col("seen").hour()).agg(sd.count()),
]


def answers(source: Any, **how: Any) -> list[Any]:
    return [exact(source, DOMAIN, asked, **how) for asked in ASKED]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What DuckDB holds of the rows that are in the tables at last."""
    place = tmp_path_factory.mktemp("plain") / "rows.duckdb"
    with duckdb.connect(str(place)) as made:
        made.register("given", pa.concat_tables([TABLE.slice(0, ROWS - 9), AGAIN]))
        made.execute("CREATE TABLE people AS SELECT * FROM given")
    return answers(place, relation="people")


@pytest.fixture
def delta(tmp_path: Path) -> Any:
    """A Delta table of two partitioned commits, rows deleted between them."""
    library = pytest.importorskip("deltalake", reason="deltalake is missing: pip install 'deltalake[pyarrow]'")
    library.write_deltalake(tmp_path / "people", TABLE, partition_by=["town"])
    library.DeltaTable(tmp_path / "people").delete(f"id >= {ROWS - 9}")
    library.write_deltalake(tmp_path / "people", AGAIN, mode="append")
    return library.DeltaTable(tmp_path / "people")


@pytest.fixture(scope="module")
def iceberg(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same as an Iceberg table, for all tests that read it alone."""
    return make_iceberg(tmp_path_factory.mktemp("iceberg"))


def make_iceberg(place: Path) -> Any:
    """Return it, in a catalog of one SQLite file."""
    library = pytest.importorskip(
        "pyiceberg.catalog.sql", reason="pyiceberg is missing: pip install 'pyiceberg[pyarrow,sql-sqlite]'"
    )
    store = library.SqlCatalog("local", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}/lake")
    store.create_namespace("shop")
    table = store.create_table("shop.people", schema=TABLE.schema)
    with table.update_spec() as spec:
        spec.add_identity("town")
    table.append(TABLE)
    table.delete(f"id >= {ROWS - 9}")
    table.append(AGAIN)
    store.engine.dispose()
    return table


@pytest.mark.deep
def test_a_delta_table_gives_the_exact_answers_of_its_rows_in_duckdb(delta: Any, expected: list[Any]) -> None:
    assert answers(delta) == expected
    assert exact(delta.to_pyarrow_dataset(), DOMAIN, ASKED[1]) == expected[1]
    assert exact(delta.to_pyarrow_table(), DOMAIN, ASKED[0]) == expected[0]
    whole = answers(pa.concat_tables([TABLE, AGAIN]))
    assert all(one != other for one, other in zip(whole, expected, strict=True)), "no question sees the deleted rows"


@pytest.mark.deep
def test_an_iceberg_table_gives_the_exact_answers_of_its_rows_in_duckdb(iceberg: Any, expected: list[Any]) -> None:
    scan = iceberg.scan()
    assert answers(iceberg) == expected
    # What Arrow reads of it is a table like any other.
    assert exact(scan.to_arrow(), DOMAIN, ASKED[1]) == expected[1]
    assert exact(scan.to_arrow_batch_reader(), DOMAIN, ASKED[0]) == expected[0]


def test_an_earlier_state_of_a_table_is_a_table(delta: Any, iceberg: Any) -> None:
    whole = exact(TABLE, DOMAIN, ASKED[1])
    delta.load_as_version(0)
    assert exact(delta, DOMAIN, ASKED[1]) == whole
    first = iceberg.snapshots()[0].snapshot_id
    assert exact(iceberg.scan(snapshot_id=first).to_arrow(), DOMAIN, ASKED[1]) == whole


@pytest.mark.parametrize("kind", ["delta", pytest.param("iceberg", marks=pytest.mark.deep)])
def test_a_protected_table_is_answered_from_first_to_last(kind: str, request: pytest.FixtureRequest) -> None:
    table = request.getfixturevalue(kind)
    release = protect(table, DOMAIN).ask(sd.count(), epsilon=10**6)
    assert release.value == ROWS - 9 + len(AGAIN)
    assert check_against_data(table, domain=DOMAIN).rows == release.value


@pytest.mark.parametrize("kind", ["delta", pytest.param("iceberg", marks=pytest.mark.deep)])
def test_a_column_that_a_table_lacks_is_named(kind: str, request: pytest.FixtureRequest) -> None:
    domain = sd.Domain({"agee": sd.Integer(0, 9)})
    with pytest.raises(DeclarationError, match="no such column; did you mean 'age'"):
        exact(request.getfixturevalue(kind), domain, sd.count())


def test_a_table_whose_files_are_gone_says_nothing_of_them(delta: Any, tmp_path: Path) -> None:
    iceberg = make_iceberg(tmp_path)
    shutil.rmtree(tmp_path / "lake" / "shop" / "people" / "data")
    for path in (tmp_path / "people").rglob("*.parquet"):
        path.unlink()
    for table in (delta, iceberg):
        with pytest.raises(SourceError, match="the table cannot be read") as failed:
            exact(table, DOMAIN, sd.count())
        assert str(tmp_path) not in str(failed.value)
        assert failed.value.__cause__ is failed.value.__context__ is None


def test_a_delta_table_with_deletion_vectors_is_refused(delta: Any, tmp_path: Path) -> None:
    feature: dict[str, Any] = {"minReaderVersion": 3, "minWriterVersion": 7}
    feature |= {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    log = tmp_path / "people" / "_delta_log"
    (log / f"{delta.version() + 1:020}.json").write_text(json.dumps({"protocol": feature}))
    with pytest.raises(SourceError, match="deletion vectors"):
        exact(type(delta)(tmp_path / "people"), DOMAIN, sd.count())


def lay(folder: Path, *files: str) -> Path:
    """Make a folder that is laid out like a table's, each Parquet file of it with one row."""
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".parquet"):
            pq.write_table(pa.table({"age": [1]}), folder / name)
        else:
            (folder / name).write_text("{}")
    return folder


@pytest.mark.deep
@pytest.mark.parametrize("asked", ["", "*.parquet", "town=x/", "town=x/*.parquet", "**/*.parquet", "town=*/*.parquet"])
def test_the_files_of_a_delta_table_are_not_read_as_parquet(asked: str, tmp_path: Path) -> None:
    folder = lay(tmp_path / "people", "_delta_log/00000000000000000000.json", "a.parquet", "town=x/b.parquet")
    for read in (protect, lambda source, _: read_schema(source)):
        with pytest.raises(SourceError, match=r"a Delta table, among them.*sd.protect\(DeltaTable\(path\)"):
            read(f"{folder}/{asked}", sd.Domain({"age": sd.Integer(0, 9)}))


@pytest.mark.parametrize("asked", ["", "data/", "data/town=x/", "data/*/*.parquet", "**/*.parquet"])
def test_the_files_of_an_iceberg_table_are_not_read_as_parquet(asked: str, tmp_path: Path) -> None:
    folder = lay(tmp_path / "people", "metadata/00001-a.metadata.json", "data/town=x/b.parquet")
    for read in (protect, lambda source, _: read_schema(source)):
        with pytest.raises(SourceError, match=r"an Iceberg table, among them.*sd.protect\(catalog.load_table"):
            read(f"{folder}/{asked}", sd.Domain({"age": sd.Integer(0, 9)}))


def test_a_folder_that_only_looks_like_a_table_is_read(tmp_path: Path) -> None:
    folder = lay(tmp_path / "people", "metadata/notes.json", "data/town=x/b.parquet")
    assert exact(f"{folder}/", sd.Domain({"age": sd.Integer(0, 9)}), sd.count()) == [[1]]


def test_a_reader_is_read_once_and_refused_after() -> None:
    domain = sd.Domain({"age": sd.Integer(0, 50)})
    reader = TABLE.to_reader(max_chunksize=7)
    with pytest.raises(DeclarationError, match="no such column"):  # which reads no row
        exact(reader, sd.Domain({"no": sd.Integer(0, 50)}), sd.count())
    assert exact(reader, domain, sd.count()) == [[ROWS]]
    with pytest.raises(SourceError, match="gives its rows once"):
        exact(reader, domain, sd.count())


def test_a_stream_of_deltalake_is_read_once_and_refused_after(delta: Any) -> None:
    library = pytest.importorskip("deltalake")
    stream = library.QueryBuilder().register("people", delta).execute("SELECT * FROM people WHERE age > 30")
    domain = sd.Domain({"age": sd.Integer(0, 50)})
    assert exact(stream, domain, sd.count()) == exact(delta, domain, S.where(col("age") > 30).agg(sd.count()))
    with pytest.raises(SourceError):
        exact(stream, domain, sd.count())
