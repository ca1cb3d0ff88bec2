"""`plan` and `ask`: what they print and write, what they charge, and the codes they end with."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cli.support import Run

COUNT = "SELECT COUNT(*) AS n FROM people"
JOBS = "SELECT occupation, COUNT(*) AS n, AVG(age) AS age FROM people WHERE education_num > 10 GROUP BY occupation"


def spent(run: Run, name: str = "epsilon") -> float:
    return float(json.loads(run("budget", "--format", "json").out)["budgets"][0]["spent"][name])


@pytest.mark.usefixtures("census")
def test_a_plan_costs_nothing(run: Run) -> None:
    done = run("plan", JOBS, "--epsilon", "0.5")
    assert done.code == 0
    assert "discrete Laplace" in done.out
    assert "/ rows at 95%" in done.out
    assert "2 of 2 left" in done.out
    told = json.loads(run("plan", JOBS, "--epsilon", "1/3", "--assume-rows", "500", "--format", "json").out)
    assert told["cost"] == {"epsilon": "1/3"}
    assert [c["name"] for c in told["columns"]] == ["n", "age"]
    assert all(c["expected_error"] > 0 for c in told["columns"])
    wide = json.loads(run("plan", COUNT, "--epsilon", "0.5", "--confidence", "0.5", "--format", "json").out)
    assert wide["columns"][0]["expected_error"] < told["columns"][0]["expected_error"]
    assert "not enough" in run("plan", COUNT, "--epsilon", "3").out
    assert spent(run) == 0


@pytest.mark.usefixtures("census")
def test_a_single_number(run: Run) -> None:
    done = run("ask", COUNT, "--epsilon", "0.5")
    assert done.code == 0
    first, note, cost, charge = done.out.splitlines()
    assert note.startswith("note: never compared with the data")
    assert first.startswith("n  ")
    assert "   95% interval " in first
    assert "," in first.split()[1]  # thousands apart
    assert cost == "cost: epsilon 0.5, left: 1.5 of 2; privacy unit: one row, add/remove"
    assert charge == "charge c-0001; `sordino explain c-0001` says what this reveals"
    assert done.err == ""


@pytest.mark.usefixtures("census")
def test_a_group_by_is_aligned_and_whole_in_a_pipe(run: Run) -> None:
    ages = "SELECT region, sex, occupation, COUNT(*) AS n FROM people GROUP BY region, sex, occupation"
    done = run("ask", ages, "--epsilon", "0.5", "--quiet")
    lines = done.out.splitlines()
    assert len(lines) == 1 + 6 * 2 * 13
    assert lines[0].split() == ["region", "sex", "occupation", "n", "95%", "interval"]
    assert len({len(line) for line in lines}) == 1
    assert "\x1b" not in done.out


@pytest.mark.usefixtures("census")
def test_json_holds_everything(run: Run) -> None:
    done = run("ask", JOBS, "--epsilon", "0.5", "--format", "json")
    told = json.loads(done.out)
    assert {
        "schema",
        "question",
        "columns",
        "rows",
        "errors",
        "intervals",
        "mechanism",
        "cost",
        "spent",
        "remaining",
        "neighbors",
        "privacy_unit",
        "charge",
        "declaration",
    } <= set(told)
    assert told["columns"] == ["occupation", "n", "age"]
    assert len(told["rows"]) == len(told["errors"]) == len(told["intervals"]) == 13
    assert set(told["rows"][0]) == set(told["errors"][0]) == set(told["intervals"][0]) == {"occupation", "n", "age"}
    low, high = told["intervals"][0]["n"]
    assert low <= told["rows"][0]["n"] <= high
    assert told["charge"] == "c-0001"
    assert "cost: " in done.err


@pytest.mark.usefixtures("census")
def test_computed_columns_have_intervals_in_every_table(run: Run) -> None:
    """By replicates of what was released: the same each time that the answer is shown, and with words where there is none."""
    share = (
        "SELECT sex, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS pct, RANK() OVER (ORDER BY COUNT(*)) AS place"
        " FROM people GROUP BY sex"
    )
    table = run("ask", share, "--epsilon", "0.5")
    assert table.code == 0, table.err
    assert "no interval: it is a rank" in table.out
    told = json.loads(run("show", "c-0001", "--format", "json").out)
    ends = [row["pct"] for row in told["intervals"]]
    assert all(low < row["pct"] < high for row, (low, high) in zip(told["rows"], ends, strict=True))
    assert {tuple(row["place"]) for row in told["intervals"]} == {(None, None)}
    assert json.loads(run("show", "c-0001", "--format", "json").out) == told
    # The table's ends are the same, rounded outward.
    shown = [tuple(map(float, pair)) for pair in re.findall(r"(-?\d+(?:\.\d+)?) - (-?\d+(?:\.\d+)?)", table.out)]
    assert len(shown) == len(ends)
    for (left, right), (low, high) in zip(shown, ends, strict=True):
        assert low - 1 < left <= low + 1e-6
        assert high - 1e-6 <= right < high + 1


def test_csv_and_parquet_have_the_interval_beside_each_value(census: Path, run: Run) -> None:
    rows = list(csv.reader(io.StringIO(run("ask", JOBS, "--epsilon", "0.5", "--format", "csv").out)))
    names = ["occupation", "n", "n_lower", "n_upper", "age", "age_lower", "age_upper"]
    assert rows[0] == names
    assert len(rows) == 14
    done = run("ask", JOBS, "--epsilon", "0.5", "-o", "jobs.parquet")  # the ending says the format
    assert done.out == ""
    table = pq.read_table("jobs.parquet")
    assert table.column_names == names
    assert table.num_rows == 13
    assert b"epsilon" in table.schema.metadata[b"sordino"]
    assert run("show", "c-0002", "-o", "again.csv").code == 0
    assert Path("again.csv").read_text().startswith("occupation,n,n_lower")
    assert sorted(p.name for p in census.iterdir() if p.name.startswith(".")) in ([], [".census.ledger.lock"])


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "one question"),
        ((COUNT,), 2, "epsilon"),
        ((COUNT, "--epsilon", "0"), 2, "above 0"),
        ((COUNT, "--epsilon", "nan"), 2, "epsilon"),
        ((COUNT, "--epsilon", "inf"), 2, "epsilon"),
        ((COUNT, "--epsilon", "x[/red]"), 2, "x[/red]"),
        ((COUNT, "--epsilon", "0.5", "--rho", "0.1"), 2, "rho"),
        ((COUNT, "--rho", "0.1"), 2, "epsilon"),
        ((COUNT, "--epsilon", "0.5", "--confidence", "1"), 2, "confidence"),
        ((COUNT, "--epsilon", "0.5", "--bogus"), 2, "--bogus"),
        ((COUNT, "--epsilon", "0.5", "--format", "xml"), 2, "xml"),
        ((COUNT, "--epsilon", "0.5", "--format", "parquet"), 2, "-o FILE"),
        ((COUNT, "--epsilon", "0.5", "-o", "no/such/dir.json"), 2, "directory"),
        ((COUNT, "--epsilon", "0.5", "-f", "query.sql"), 2, "one question"),
        (("-f", "no.sql", "--epsilon", "0.5"), 2, "cannot be read"),
        ((COUNT, "--epsilon", "0.5", "--project", "elsewhere"), 2, "elsewhere"),
        (("", "--epsilon", "0.5"), 3, "empty"),
        (("SELECT age FROM people", "--epsilon", "0.5"), 3, "rows are never released"),
        (("SELECT COUNT(*) FROM peeple", "--epsilon", "0.5"), 3, "'people'"),
        (("SELECT AVG(agee) FROM people", "--epsilon", "0.5"), 3, "'age'"),
        (("SELECT COUNT(*) FROM people JOIN people p ON true", "--epsilon", "9"), 3, "JOIN"),
        ((COUNT, "--epsilon", "2.01"), 4, "nothing was charged"),
    ],
)
@pytest.mark.usefixtures("census")
def test_refusals_charge_nothing(run: Run, arguments: Any, code: int, says: str) -> None:
    done = run("ask", *arguments)
    assert done.code == code
    assert says in done.err
    assert len(done.err.splitlines()) == 1
    assert done.err.startswith("error: ")
    assert done.out == ""
    assert spent(run) == 0


@pytest.mark.usefixtures("census")
def test_names_that_would_be_written_twice(run: Run) -> None:
    sql = "SELECT COUNT(*) AS n, SUM(age) AS n_lower FROM people"
    assert run("ask", sql, "--epsilon", "0.5", "--format", "csv").code == 2
    assert spent(run) == 0


def test_a_failure_after_the_charge_stays_charged(census: Path, run: Run) -> None:
    path = census / "census.parquet"
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    path.write_bytes(whole[:4] + bytes(len(whole) - 4 - footer) + whole[-footer:])  # a footer over empty pages
    done = run("ask", JOBS, "--epsilon", "0.5", "-o", "out.json")
    assert done.code == 5
    assert "c-0001" in done.err
    assert len(done.err.splitlines()) == 1
    assert not Path("out.json").exists()
    assert spent(run) == 0.5
    assert run("show", "c-0001").code == 5
    assert "1 failed" in run("budget").out
    assert "failed" in run("releases").out


@pytest.mark.usefixtures("census")
def test_an_answer_that_cannot_be_written_is_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from sordino.cli.shared.atomic_file import AtomicFile

    def refuse(*_: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(AtomicFile, "write", refuse)
    done = run("ask", COUNT, "--epsilon", "0.5", "-o", "out.json")
    assert done.code == 5
    assert "sordino show c-0001" in done.err
    monkeypatch.undo()


def test_a_missing_source(census: Path, run: Run) -> None:
    assert run("ask", COUNT, "--epsilon", "0.5", "--quiet").code == 0
    (census / "census.parquet").unlink()
    done = run("ask", COUNT, "--epsilon", "0.5")
    assert done.code == 2
    assert "missing" in done.err
    for command in (("budget",), ("releases",), ("show", "c-0001"), ("explain", "c-0001"), ("ledger", "verify")):
        assert run(*command).code == 0, command


@pytest.mark.usefixtures("census")
def test_a_request_is_charged_once(run: Run) -> None:
    first = run("ask", COUNT, "--epsilon", "0.5", "--request-id", "monday", "--format", "json")
    again = run("ask", COUNT, "--epsilon", "0.5", "--request-id", "monday", "--format", "json")
    assert first.out == again.out
    assert spent(run) == 0.5
    other = run("ask", COUNT, "--epsilon", "0.25", "--request-id", "monday")
    assert other.code == 3
    assert spent(run) == 0.5


@pytest.mark.usefixtures("census")
def test_an_earlier_answer_is_pointed_out(run: Run) -> None:
    assert run("ask", COUNT, "--epsilon", "0.5").err == ""
    assert "answered before as c-0001" in run("plan", COUNT, "--epsilon", "0.5").out
    again = run("ask", COUNT, "--epsilon", "0.5")
    assert again.code == 0
    assert again.err.startswith("note: ")
    assert "`sordino show c-0001`" in again.err
    assert "c-0002" in again.out
    assert run("ask", COUNT, "--epsilon", "0.5", "--quiet").err == ""


@pytest.mark.usefixtures("census")
def test_questions_from_files_and_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("query.sql").write_text("\ufeff-- how many\nSELECT COUNT(*) AS n\nFROM People\n", encoding="utf-8")
    assert run("ask", "-f", "query.sql", "--epsilon", "0.1").code == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(COUNT.encode())))
    done = run("ask", "-", "--epsilon", "0.1")
    assert done.code == 0
    assert done.out.startswith("n ")


@pytest.mark.deep
@pytest.mark.usefixtures("census")
def test_amounts_are_exact(run: Run) -> None:
    for _ in range(3):
        assert run("ask", COUNT, "--epsilon", "1/3").code == 0
    assert spent(run) == 1
    for _ in range(10):
        assert run("ask", COUNT, "--epsilon", "0.1").code == 0
    assert spent(run) == 2
    assert run("ask", COUNT, "--epsilon", "1e-9").code == 4


@pytest.mark.deep
@pytest.mark.parametrize(
    ("cap", "options", "left"),
    [
        (
            '{epsilon = 1.0, delta = "1e-6"}',
            ("--epsilon", "0.5", "--delta", "1e-7"),
            "left: epsilon 0.5 of 1, delta 1e-6 of 1e-6",
        ),
        ('{rho = 0.5, delta = "1e-6"}', ("--rho", "0.1"), "left: 0.4 of 0.5"),
        (
            '{rho = 0.5, delta = "1e-6", slack = "1e-7"}',
            ("--rho", "0.1"),
            "left: rho 0.4 of 0.5, delta 1e-7 of 1e-7",
        ),
    ],
)
def test_other_kinds_of_budget(census: Path, run: Run, cap: Any, options: list[str], left: str) -> None:
    project = census / "sordino.toml"
    project.write_text(project.read_text().replace("{epsilon = 2.0}", cap))
    done = run("ask", "SELECT sex, region, COUNT(*) AS n FROM people GROUP BY sex, region", *options)
    assert done.code == 0, done.err
    assert left in done.out
    assert run("explain", "c-0001").code == 0
    assert run("budget").code == 0
    assert json.loads(run("show", "c-0001", "--format", "json").out)["charge"] == "c-0001"


@pytest.mark.deep
@pytest.mark.usefixtures("census")
def test_five_processes_under_a_cap_of_four() -> None:
    script = "import sys; from sordino.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "ask", COUNT, "--epsilon", "0.5", "--quiet"]
    asked = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(5)]
    assert sorted(process.wait(timeout=300) for process in asked) == [0, 0, 0, 0, 4]


@pytest.mark.deep
@pytest.mark.usefixtures("census")
def test_a_reader_who_stops_reading() -> None:
    script = "import sys; from sordino.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "ask", JOBS, "--epsilon", "0.5"]
    asked = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert asked.stdout is not None
    asked.stdout.close()
    _, err = asked.communicate(timeout=300)
    assert asked.returncode == 141
    assert "Traceback" not in err
    assert "error" not in err


def test_keys_of_a_file_are_the_rows_of_the_answer(census: Path, run: Run) -> None:
    (census / "keys.csv").write_text("sex,region\nMale,North\nFemale,South\n")
    asked = "SELECT region, sex, COUNT(*) AS n FROM people GROUP BY region, sex"
    done = run("ask", asked, "--keys", "keys.csv", "--epsilon", "0.5", "--format", "csv")
    shown = [(row["region"], row["sex"]) for row in csv.DictReader(io.StringIO(done.out))]
    assert shown == [("North", "Male"), ("South", "Female")]
    assert "2: the listed keys" in run("plan", asked, "--keys", "keys.csv", "--epsilon", "0.1").out
    for text, code, says in (
        ("job,region\na,b\n", 3, "'job'"),
        ("sex,region\nmale\n", 2, "same number of cells"),
        ("", 2, "header"),
    ):
        (census / "wrong.csv").write_text(text)
        done = run("ask", asked, "--keys", "wrong.csv", "--epsilon", "0.5")
        assert done.code == code
        assert says in done.err
    assert run("plan", asked, "--keys", "none.csv", "--epsilon", "0.5").code == 2
    assert spent(run) == 0.5
