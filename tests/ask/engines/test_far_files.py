"""Files in S3 and behind HTTP: the answers of the same files here, no credential anywhere, and a server that goes away."""

from __future__ import annotations

import gzip
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import S3FileSystem

import sordino as sd
from ask.engines.support import ask, engine_of, exact
from far_server import FileServer, serve_files, serve_s3
from protecting import protect
from sordino.ask.engines.readers.file_schema import read_schema
from sordino.ask.queries.build import Selection
from sordino.core.remote_files import RemoteFile
from sordino.core.source import Csv, Source, source_from
from sordino.errors import ChargedError, DeclarationError, SourceError

S = Selection()
DOMAIN = sd.Domain(
    {
        "age": sd.Integer(0, 125),
        "job": sd.Category(["cook", "nurse"], missing="keep"),
        "pay": sd.Real(0, 100, resolution=0.5),
    },
    unreadable_rows=True,
)
QUESTIONS: list[Any] = [
    S.group_by("job").agg(sd.count(), sd.mean("age")),
    S.where(sd.col("pay") > 50).agg(sd.count(), sd.sum("pay")),
]
ROWS = [{"age": 20 + i % 50, "job": ["cook", "nurse", None][i % 3], "pay": i % 99 + 0.5} for i in range(6000)]
TEXT = "age,job,pay\n" + "".join(f"{r['age']},{r['job'] or ''},{r['pay']}\n" for r in ROWS)
JSON = "".join(
    f'{{"age": {r["age"]}, "job": "{r["job"]}", "pay": {r["pay"]}}}\n'
    if r["job"]
    else f'{{"age": {r["age"]}, "pay": {r["pay"]}}}\n'
    for r in ROWS
)
SECRET = "kd8sWqz0secret"
CSV = Csv(header=True)


def write_files(folder: Path) -> None:
    """Write the same rows in each format that is read from far."""
    table = pa.Table.from_pylist(ROWS)
    pq.write_table(table, folder / "people.parquet", row_group_size=500)
    (folder / "people.csv").write_text(TEXT)
    (folder / "people.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    (folder / "people.jsonl").write_text(JSON)
    for year in ("2023", "2024"):
        (folder / "years" / f"year={year}").mkdir(parents=True)
        pq.write_table(table.slice(0, 900), folder / "years" / f"year={year}" / "part.parquet")
    for name in ("delta/_delta_log/00000000000000000000.json", "ice/metadata/00000-a.metadata.json"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("{}")
    (folder / "ice" / "data").mkdir()
    for name in ("delta/part.parquet", "ice/data/part.parquet"):
        pq.write_table(table, folder / name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of those files."""
    place = tmp_path_factory.mktemp("far")
    write_files(place)
    return place


@pytest.fixture
def site(folder: Path) -> Iterator[FileServer]:
    with serve_files(folder) as state:
        yield state


@pytest.fixture(scope="module")
def bucket(folder: Path) -> Iterator[str]:
    """The address of a bucket of those files, and what finds it in the environment."""
    with serve_s3() as (url, _), pytest.MonkeyPatch.context() as patch:
        let_in(patch, url)
        upload(folder, url)
        yield "s3://lake"


def let_in(patch: pytest.MonkeyPatch, url: str) -> None:
    """Set what an environment holds to find a server of S3."""
    patch.setenv("AWS_ENDPOINT_URL", url)
    patch.setenv("AWS_ACCESS_KEY_ID", "AKIATESTS")
    patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    patch.setenv("AWS_DEFAULT_REGION", "us-east-1")


def upload(folder: Path, url: str) -> None:
    """Copy a folder to a new bucket."""
    place = url.removeprefix("http://")
    files = S3FileSystem(
        access_key="AKIATESTS",
        secret_key=SECRET,
        endpoint_override=place,
        scheme="http",
        allow_delayed_open=True,
        allow_bucket_creation=True,
    )
    files.create_dir("lake")
    for path in folder.rglob("*"):
        if path.is_file():
            with files.open_output_stream(f"lake/{path.relative_to(folder)}", compression=None) as sink:
                sink.write(path.read_bytes())


def answers(path: str, **how: Any) -> list[Any]:
    engine = engine_of(path, DOMAIN, **how)
    try:
        return [ask(engine, DOMAIN, question) for question in QUESTIONS]
    finally:
        engine.close()


def options(name: str) -> dict[str, Any]:
    return {"csv": CSV} if ".csv" in name else {}


@pytest.mark.deep
@pytest.mark.parametrize("name", ["people.parquet", "people.csv", "people.csv.gz", "people.jsonl"])
def test_a_file_of_a_web_server_answers_as_the_file_here(name: str, folder: Path, site: FileServer) -> None:
    assert answers(f"{site.url}/{name}", **options(name)) == answers(str(folder / name), **options(name))


@pytest.mark.deep
@pytest.mark.parametrize("name", ["people.parquet", "people.csv.gz", "years/*/*.parquet"])
def test_files_of_a_bucket_answer_as_the_files_here(name: str, folder: Path, bucket: str) -> None:
    assert answers(f"{bucket}/{name}", **options(name)) == answers(f"{folder}/{name}", **options(name))


@pytest.mark.deep
@pytest.mark.usefixtures("bucket")
def test_the_keys_of_folders_of_a_bucket_are_columns() -> None:
    domain = sd.Domain({"year": sd.Category(["2023", "2024"]), "age": sd.Integer(0, 125)})
    assert exact("s3a://lake/years/", domain, S.group_by("year").agg(sd.count())) == [[900, 900]]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("delta/", "a Delta"),
        ("delta/*.parquet", "a Delta"),
        ("ice/", "an Iceberg"),
        ("ice/data/*.parquet", "an Iceberg"),
    ],
)
def test_the_files_of_a_table_in_a_bucket_are_not_read_as_parquet(name: str, kind: str, bucket: str) -> None:
    for read in (answers, read_schema):
        with pytest.raises(SourceError, match=f"{kind} table, among them rows that it has deleted"):
            read(f"{bucket}/{name}")


@pytest.mark.deep
def test_only_the_declared_columns_are_fetched(folder: Path, site: FileServer) -> None:
    draw = random.Random(3)
    wide = pa.table({"age": [30] * 50_000, "other": [draw.random() for _ in range(50_000)]})
    pq.write_table(wide, folder / "wide.parquet", compression="none", use_dictionary=False)
    size = (folder / "wide.parquet").stat().st_size
    exact(f"{site.url}/wide.parquet", sd.Domain({"age": sd.Integer(0, 125)}), sd.sum("age"))
    read = {(start, length) for start, length in site.asked if length > 1}
    covered = sum(length for _, length in read)
    assert size > 800_000
    assert covered < 0.8 * size, (covered, size)


@pytest.mark.deep
def test_bad_text_of_a_far_file_is_missing_as_here(folder: Path, site: FileServer) -> None:
    held = pa.table({"job": pa.array([b"cook", b"\xff", b"nurse"]).cast(pa.string(), safe=False), "age": [1, 2, 3]})
    pq.write_table(held, folder / "bad.parquet")
    domain = sd.Domain({"job": sd.Category(["cook", "nurse"], missing="keep"), "age": sd.Integer(0, 125)})
    assert exact(f"{site.url}/bad.parquet", domain, S.group_by("job").agg(sd.count())) == [[1, 1, 1]]


def test_the_whole_way_from_a_bucket_to_a_release_holds_no_credential(bucket: str, tmp_path: Path) -> None:
    ledger = tmp_path / "people.ledger"
    held = protect(f"{bucket}/people.parquet", DOMAIN, ledger=ledger, name="people", rng=sd.Rng.secure())
    release = held.ask(sd.sql("SELECT COUNT(*) AS n FROM people"), epsilon=10**5)
    assert release.value == len(ROWS)
    seen = repr(release) + repr(held) + str(release.to_dict())
    for text in (seen.encode(), *(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())):
        assert SECRET.encode() not in text
        assert b"AKIATESTS" not in text


@pytest.mark.parametrize(
    "address",
    [
        f"https://ann:{SECRET}@host/people.csv",
        f"s3://AKIA:{SECRET}@lake/people.parquet",
        f"https://host/people.parquet?signature={SECRET}",
        f"https://host/people.parquet#{SECRET}",
    ],
)
def test_an_address_with_a_credential_is_refused_without_showing_it(address: str) -> None:
    with pytest.raises(DeclarationError) as error:
        Source(address, "jsonl")
    assert SECRET not in str(error.value)
    assert "~/.netrc" in str(error.value)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("s3://lake/people.duckdb", "read on this machine only"),
        ("s3://lake/people.arrow", "read on this machine only"),
        ("https://host/people/", "one file"),
        ("https://host/*.parquet", "one file"),
        ("gs://lake/people.parquet", "another machine"),
    ],
)
def test_what_is_not_read_from_far_is_refused_by_name(address: str, says: str) -> None:
    relation = "people" if address.endswith(".duckdb") else None
    with pytest.raises(DeclarationError, match=says):
        source_from(address, relation=relation)


def test_a_server_that_wants_a_password_finds_it_in_netrc(
    site: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.password = SECRET
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    with pytest.raises(SourceError, match="the server refused") as error:
        answers(f"{site.url}/people.parquet")
    assert SECRET not in str(error.value)
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login ann password {SECRET}\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert len(answers(f"{site.url}/people.parquet")) == len(QUESTIONS)


def test_a_server_without_ranges_is_refused(site: FileServer) -> None:
    site.answers_ranges = False
    with pytest.raises(SourceError, match="no Range requests"):
        answers(f"{site.url}/people.parquet")


def test_a_file_or_a_server_that_is_not_there_is_refused(site: FileServer, bucket: str) -> None:
    for address in (f"{site.url}/none.parquet", f"{bucket}/none.parquet", f"{bucket}/none/"):
        with pytest.raises(SourceError, match="is missing"):
            answers(address)
    with pytest.raises(SourceError, match="cannot be reached"):
        answers("http://127.0.0.1:1/people.parquet")


@pytest.mark.each(3)
@pytest.mark.parametrize("requests", [0, 1, 4, 2])
def test_a_web_server_that_goes_away(site: FileServer, requests: int) -> None:
    """Before the question: free. While it is answered: charged, and the error says why. The next one works."""
    held = protect(f"{site.url}/people.parquet", DOMAIN, name="people")
    question = sd.sql("SELECT COUNT(*) AS n, SUM(pay) AS pay FROM people")
    held.ask(question, epsilon=1)
    site.left = requests
    with pytest.raises(SourceError if requests == 0 else ChargedError) as error:
        held.ask(question, epsilon=1)
    assert "reached" in str(error.value) if requests == 0 else "could not be read any more" in str(error.value)
    assert held.spent == sd.PureDP(1 if requests == 0 else 2)
    site.left = 10**9
    assert held.ask(question, epsilon=10**5).rows[0]["n"] == len(ROWS)


@pytest.mark.deep
def test_a_bucket_that_goes_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_s3() as (url, process):
        let_in(monkeypatch, url)
        upload(folder, url)
        held = protect("s3://lake/people.parquet", DOMAIN, name="people")
        assert held.ask(sd.count(), epsilon=10**5).value == len(ROWS)
        process.kill()
        process.wait()
        with pytest.raises(SourceError, match="cannot be reached") as error:
            held.ask(sd.count(), epsilon=1)
    assert SECRET not in str(error.value)
    assert held.spent == sd.PureDP(10**5)


def test_a_file_that_changes_while_it_is_read_is_not_read_on(folder: Path, site: FileServer) -> None:
    from sordino.core.remote_files import open_remote

    (folder / "moving.bin").write_bytes(b"a" * 600_000)
    with open_remote(f"{site.url}/moving.bin") as file:
        assert file.read(300_000) == b"a" * 300_000
        (folder / "moving.bin").write_bytes(b"b" * 600_000)
        with pytest.raises(OSError, match="not as it was"):
            file.read(300_000)


@pytest.mark.deep
def test_threads_that_share_a_file_read_what_each_of_them_sought() -> None:
    """DuckDB's threads seek and read one file in turns: read by one common place, 16 of them got each other's bytes."""
    held = random.Random(1).randbytes(2_000_000)

    def fetch(start: int, length: int) -> bytes:
        time.sleep(0.0005)
        return held[start : start + length]

    file, wrong = RemoteFile(len(held), fetch), []

    def work(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(40):
            start, length = draw.randrange(1_990_000), draw.choice([1, 9000, 300_000])
            file.seek(start)
            time.sleep(0)
            if file.read(length) != held[start : start + length]:
                wrong.append(start)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_file_is_read_on_from_where_the_last_read_ended() -> None:
    held = random.Random(2).randbytes(900_000)
    file = RemoteFile(len(held), lambda start, length: held[start : start + length])
    parts = [file.read(size) for size in (10, 0, 300_000, 1, 7)]
    file.seek(-5, 2)
    assert b"".join(parts) == held[:300_018]
    assert file.read() == held[-5:]
    assert file.read() == b""
    short = RemoteFile(100, lambda _, length: b"x" * (length - 1))
    with pytest.raises(OSError, match="ends before its end"):
        short.read(100)
