"""`init`, `check` and `import`: from a file to a project that can be asked."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import duckdb
import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.support import Run


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)


def tables() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(Path("sordino.toml").read_text())["tables"]
    return found


def test_init_from_parquet(run: Run) -> None:
    columns = {
        "age": pa.array([30_733], pa.int16()),
        "job": pa.array(["Sales"]).dictionary_encode(),
        "pay": pa.array([1.5]),
    }
    pq.write_table(pa.table(columns), "2020 people.parquet")
    done = run("init", "2020 people.parquet")
    assert done.code == 0
    assert "3 columns" in done.out
    made = tables()["t_2020_people"]
    assert {name: words["type"] for name, words in made["columns"].items()} == {
        "age": "integer",
        "job": "category",
        "pay": "real",
    }
    text = Path("sordino.toml").read_text()
    assert "Sales" not in text
    assert "30733" not in text
    assert run("init", "2020 people.parquet").code == 2  # nothing is overwritten
    assert run("init", "2020 people.parquet", "--force", "--quiet").out == ""
    done = run("check")
    assert done.code == 2
    line = done.out.splitlines()[0]
    assert line.startswith("sordino.toml:")
    assert int(line.split(":")[1]) > 1
    assert "still to be filled in" in line


def test_init_from_csv_never_guesses(run: Run) -> None:
    Path("people.csv").write_text("age,job\n30733,Sales\n")
    done = run("init", "people.csv")
    assert done.code == 2
    assert "--no-header --columns N" in done.err
    assert not Path("sordino.toml").exists()
    assert run("init", "people.csv", "--header").code == 0
    assert list(tables()["people"]["columns"]) == ["age", "job"]
    assert run("init", "people.csv", "--no-header").code == 2
    assert run("init", "people.csv", "--header", "--columns", "2").code == 2
    assert run("init", "people.csv", "--no-header", "--columns", "2", "-o", "other.toml").code == 0
    text = Path("other.toml").read_text()
    assert 'names = ["c1", "c2"]' in text
    assert "30733" not in text
    assert "Sales" not in text


def test_init_from_duckdb(run: Run) -> None:
    with duckdb.connect("store.duckdb") as connection:
        connection.execute("CREATE TABLE people (age INTEGER, born DATE, ok BOOLEAN)")
    assert run("init", "store.duckdb").code == 0
    assert tables()["people"]["relation"] == "people"
    assert tables()["people"]["columns"]["born"]["type"] == "date"
    with duckdb.connect("store.duckdb") as connection:
        connection.execute("CREATE TABLE visits (day DATE)")
    assert "'people'" in run("init", "store.duckdb", "--force").err
    assert run("init", "store.duckdb", "--force", "--relation", "visits").code == 0
    assert "'visits'" in run("init", "store.duckdb", "--force", "--relation", "visit").err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("no.parquet",), "missing"),
        (("no.csv", "--header"), "missing"),
        (("people.xlsx",), "must end in"),
        (("bad.parquet",), "cannot be opened"),
        (("bad.duckdb",), "cannot be opened"),
        (("bad.parquet", "--header"), "for CSV files"),
        (("latin.csv", "--header"), "--encoding cp1252 latin.csv latin.parquet"),
        (("recipe.toml",), "imports no CSV file"),
        (("recipe.toml", "--header"), "leave out"),
        (("twice.csv", "--no-header", "--columns", "0"), "from 1 to"),
        (("twice.csv", "--no-header", "--columns", "2", "--delimiter", "ab"), "one character"),
    ],
)
def test_init_refuses(run: Run, arguments: Any, says: str) -> None:
    Path("bad.parquet").write_bytes(b"no")
    Path("bad.duckdb").write_bytes(b"no")
    Path("twice.csv").write_text("a,a\n")
    Path("latin.csv").write_bytes(b"Stra\xdfe,a\n")
    Path("recipe.toml").write_text('source = "a.xlsx"\ntarget = "a.parquet"\n[columns]\na = {type = "real"}\n')
    done = run("init", *arguments)
    assert done.code == 2
    assert says in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.usefixtures("census")
def test_check_names_the_place_and_the_nearest_key(run: Run) -> None:
    text = Path("sordino.toml").read_text()
    Path("sordino.toml").write_text(text.replace("upper = 90", "uper = 90"))
    done = run("check")
    assert done.code == 2
    line = next(n for n, words in enumerate(text.splitlines(), 1) if "upper = 90" in words)
    assert f"sordino.toml:{line}:" in done.out
    assert "upper" in done.out
    told = json.loads(run("check", "--format", "json").out)
    assert not told["ok"]
    assert told["problems"][0]["line"] == line
    assert run("ask", "SELECT COUNT(*) FROM people", "--epsilon", "1").code == 2


@pytest.mark.usefixtures("census")
def test_check_says_how_reals_without_a_resolution_are_read(run: Run) -> None:
    text = Path("sordino.toml").read_text()
    gain = 'gain = {type = "real", lower = 0, upper = 100000, resolution = 0.01}'
    assert "resolution" not in run("check").out
    Path("sordino.toml").write_text(text.replace(gain, 'gain = {type = "real", lower = 0, upper = 100000}'))
    done = run("check")
    assert done.code == 0
    assert "columns.gain: no resolution is declared: read in steps of 1e-7" in done.out
    told = run("plan", "SELECT COUNT(*) AS n FROM people WHERE gain = 0.00000001", "--epsilon", "1")
    assert "is true for no row" in " ".join(told.out.split())
    Path("sordino.toml").write_text(text.replace(gain, 'gain = {type = "real"}'))
    assert "only its AVG and quantiles, which find bounds, and `sordino bounds` read it" in run("check").out
    for said, code in (("AVG(gain)", 0), ("MEDIAN(gain)", 0), ("SUM(gain)", 3), ("COUNT(gain)", 3)):
        assert run("plan", f"SELECT {said} AS g FROM people", "--epsilon", "0.01").code == code
    Path("sordino.toml").write_text(text)  # nothing was spent: a resolution may be added without an amendment
    assert run("ask", "SELECT AVG(gain) AS g FROM people", "--epsilon", "0.01").code == 0


@pytest.mark.usefixtures("census")
def test_check_writes_nothing(run: Run) -> None:
    before = sorted(os.listdir())
    done = run("check")
    assert done.code == 0
    assert "1 budget, 1 table, 8 columns" in done.out
    assert sorted(os.listdir()) == before
    text = Path("sordino.toml").read_text()
    Path("sordino.toml").write_text(text.replace("upper = 90", "upper = 95"))
    assert run("check").code == 0  # nothing was recorded, so bounds may still change


@pytest.mark.usefixtures("census")
def test_check_opens_sources_and_compares_ledgers(run: Run) -> None:
    assert run("ask", "SELECT COUNT(*) AS n FROM people", "--epsilon", "1").code == 0
    text = Path("sordino.toml").read_text()
    Path("sordino.toml").write_text(
        text.replace("upper = 90", "upper = 95").replace("{epsilon = 2.0}", "{epsilon = 3.0}")
    )
    done = run("check")
    assert done.code == 2
    assert "columns.age.upper" in done.out
    assert "budgets.people.cap" in done.out
    assert "sordino ledger amend" in done.out
    Path("sordino.toml").write_text(text)
    Path("census.parquet").rename("gone.parquet")
    done = run("check")
    assert done.code == 2
    assert "missing" in done.out


def test_check_elsewhere_and_nowhere(census: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("check").code == 2
    assert run("check", str(census)).code == 0
    assert run("check", "--project", str(census / "sordino.toml")).code == 0
    assert run("check", str(census), "--project", str(census)).code == 2


def test_the_schema_is_for_editors(run: Run) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(run("check", "--schema").out))


def test_import_reads_quoted_files(run: Run) -> None:
    Path("odd.csv").write_text('name;note;age\n"Doe; Jane";"two\nlines ""x""";33\n ? ;;\n\n')
    done = run("import", "odd.csv", "odd.parquet", "--header", "--delimiter", ";", "--null", "?")
    assert done.code == 0
    assert "sordino init odd.parquet" in done.out
    rows = pq.read_table("odd.parquet").to_pylist()
    assert rows[0] == {"name": "Doe; Jane", "note": 'two\nlines "x"', "age": 33}
    assert len(rows) == 2
    assert rows[1] == {"name": None, "note": None, "age": None}
    assert run("import", "odd.csv", "odd.parquet", "--header").code == 2
    assert run("init", "odd.parquet").code == 0


def test_import_without_names_and_in_another_encoding(run: Run) -> None:
    Path("old.txt").write_bytes("Zo\xe9\t1\nAnn\t2\n".encode("latin-1"))
    assert run("import", "old.txt", "old.parquet", "--no-header", "--delimiter", "\\t").code == 2
    assert not Path("old.parquet").exists()
    done = run("import", "old.txt", "old.parquet", "--no-header", "--delimiter", "\\t", "--encoding", "latin-1")
    assert done.code == 0, done.err
    assert pq.read_table("old.parquet").to_pylist() == [{"c1": "Zo\xe9", "c2": 1}, {"c1": "Ann", "c2": 2}]


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("a,b\n1,2\n3\n4,5\n", ("--header",), "row 3"),
        ("a,b\n1,2,3\n", ("--header",), "row 2"),
        ("", ("--header",), "no first row"),
        ("a,b\n1,2\n", (), "--no-header"),
        ("a,b\n1,2\n", ("--header", "--delimiter", "xy"), "one character"),
        ("a,b\n1,2\n", ("--header", "--encoding", "klingon"), "not known"),
        ('a,b\n1,"2\n', ("--header",), "nothing was written"),
    ],
)
def test_import_stops_at_a_bad_row(run: Run, text: str, options: list[str], says: str) -> None:
    Path("bad.csv").write_text(text)
    done = run("import", "bad.csv", "bad.parquet", *options)
    assert done.code == 2
    assert says in done.err
    assert sorted(os.listdir()) == ["bad.csv"]


def test_an_import_that_quotes_a_cell_says_that_it_is_not_private(run: Run) -> None:
    Path("a.csv").write_text("a\n1\n2\nunknown\n")
    done = run("import", "a.csv", "a.parquet", "--header")
    assert done.code == 0
    assert "'unknown'" in done.err
    assert "quote cells: NOT PRIVATE" in done.err
    assert "unknown" not in Path("a.import.toml").read_text()


def test_the_adult_project_is_one_command(run: Run) -> None:
    row = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, ?, <=50K"
    Path("adult.data").write_text(f"{row}\n" * 3)
    assert run("init", "--adult", "adult.data").code == 0
    assert run("check").code == 0
    assert run("ask", "SELECT COUNT(*) FROM adult WHERE sex = 'Male'", "--epsilon", "0.5").code == 0
    assert run("init", "--adult", "adult.data", "--header", "--force").code == 2
