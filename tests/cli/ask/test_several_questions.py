"""Several SELECTs in one text, and how their loss is shared: `ask` and `plan` with --weights, --share and --scale."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
import python_calamine

from cli.support import Run, read_json

THREE = """-- how many; and how old
SELECT COUNT(*) AS n FROM people;
SELECT AVG(age) AS mean_age FROM people WHERE region <> 'North' /* a;b */;
SELECT sex, COUNT(*) AS k FROM people GROUP BY sex;
"""


@pytest.fixture
def questions(census: Path) -> str:
    (census / "questions.sql").write_text(THREE)
    return "questions.sql"


def _spent(run: Run) -> float:
    return float(read_json(run("budget", "--format", "json"))["budgets"][0]["spent"]["epsilon"])


def test_a_file_of_selects_is_a_batch_of_charges(run: Run, questions: str) -> None:
    planned = read_json(run("plan", "-f", questions, "--epsilon", "0.6", "--format", "json"))
    half = read_json(run("plan", "-f", questions, "--epsilon", "0.6", "--format", "json", "--confidence", "0.5"))
    assert [half["confidence"], *(p["confidence"] for p in half["plans"])] == [0.5] * 4
    assert half["errors"][0] < planned["errors"][0]
    assert (planned["cost"], [p["cost"]["epsilon"] for p in planned["plans"]]) == ({"epsilon": 0.6}, [0.2] * 3)
    assert _spent(run) == 0
    answers = json.loads(run("ask", "-f", questions, "--epsilon", "0.6", "--format", "json").out)
    assert [a["charge"] for a in answers] == ["c-0001", "c-0002", "c-0003"]
    assert [a["columns"] for a in answers] == [["n"], ["mean_age"], ["sex", "k"]]
    done = run("ask", "-f", questions, "--epsilon", "0.3", "--quiet")
    assert [line.split()[0] if line else "" for line in done.out.splitlines()] == (
        ["n", "", "mean_age", "", "sex", "Female", "Male"]
    )
    assert run("ask", "-f", questions, "--epsilon", "0.3", "-o", "all.txt").code == 0
    assert Path("all.txt").read_text().count("cost: epsilon 0.1") == 3
    assert _spent(run) == pytest.approx(1.2)
    refused = run("ask", "-f", questions, "--epsilon", "0.9")
    assert (refused.code, "nothing was charged" in refused.err) == (4, True)
    assert _spent(run) == pytest.approx(1.2)
    practice = run("ask", "-f", questions, "--epsilon", "0.9", "--dry-run", "--format", "json")
    assert all(a["practice"] for a in json.loads(practice.out))


def test_the_terminal_shows_each_plan_and_what_all_cost(run: Run, questions: str) -> None:
    out = run("plan", "-f", questions, "--epsilon", "0.5", "--weights", "n=1,mean_age=3").out
    assert [line for line in out.splitlines() if line.startswith("cost")] == [
        "cost       epsilon 0.1",
        "cost       epsilon 0.3",
        "cost       epsilon 0.1",
    ]
    assert "in all     epsilon 0.5" in out
    assert out.endswith("nothing was spent; `sordino ask` with the same words spends it\n")


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--format", "csv"], 2, "--format csv holds one answer, and these are several questions"),
        (["-o", "all.parquet"], 2, "name a folder, as in -o tables --format parquet"),
        (["-o", "here", "--format", "csv"], 2, "here exists already"),
        (["--format", "xlsx"], 2, "add -o FILE.xlsx"),
        (["--plot", "a.svg"], 2, "--plot draws one answer"),
        (["--request-id", "r"], 2, "one question"),
        (["--weights", "1,2"], 2, "one per question"),
        (["--weights", "n:1"], 2, "above 0|a number|weights"),
        (["--weights", "m=1"], 3, "not a column of the answer"),
        (["--share", "relative"], 3, "--assume-rows"),
        (["--share", "relative", "--scale", "age"], 2, "NAME=NUMBER"),
    ],
    ids=str,
)
def test_what_does_not_go_with_a_batch_is_refused_before_the_charge(
    run: Run, questions: str, flags: list[str], code: int, message: str
) -> None:
    Path("here").mkdir(exist_ok=True)
    Path("here/kept.txt").write_text("kept")
    done = run("ask", "-f", questions, "--epsilon", "0.5", *flags)
    assert done.code == code, done.err
    assert any(words in done.err for words in message.split("|"))
    assert _spent(run) == 0


def test_a_batch_is_one_workbook(run: Run, questions: str) -> None:
    done = run("ask", "-f", questions, "--epsilon", "0.6", "-o", "tables.xlsx")
    assert done.code == 0, done.err
    assert "3 answers, epsilon 0.6 in all; c-0001 to c-0003" in done.err
    # said once, and not under each of 60 tables
    assert done.err.count("in all") == 1
    book = python_calamine.CalamineWorkbook.from_path("tables.xlsx")
    assert book.sheet_names == ["Contents", "1 n", "2 mean_age", "3 k by sex"]
    contents = book.get_sheet_by_name("Contents").to_python()
    assert contents[0][0] == "3 answers, epsilon 0.6 in all"
    assert contents[3] == ["1 n", 1.0, "the number of rows"]
    stored = read_json(run("show", "c-0003", "--format", "json"))
    rows = book.get_sheet_by_name("3 k by sex").to_python()
    assert rows[2][:4] == ["sex", "k", "k_lower", "k_upper"]
    assert [row[:2] for row in rows[3:5]] == [[row["sex"], row["k"]] for row in stored["rows"]]
    assert any(str(row[0]).startswith("charge c-0003") for row in rows)


def test_a_batch_is_a_folder_of_csv(run: Run, questions: str) -> None:
    done = run("ask", "-f", questions, "--epsilon", "0.6", "-o", "tables", "--format", "csv")
    assert done.code == 0, done.err
    assert "3 answers, epsilon 0.6 in all" in done.err
    assert sorted(path.name for path in Path("tables").iterdir()) == [
        "1.csv", "2.csv", "3.csv", "contents.csv", "releases.json",
    ]  # fmt: skip
    assert Path("tables/3.csv").read_text().splitlines()[0] == "sex,k,k_lower,k_upper"
    assert (
        Path("tables/contents.csv")
        .read_text()
        .splitlines()[1]
        .startswith("1.csv,the number of rows,1,epsilon 0.2,c-0001")
    )
    # what fails leaves nothing behind
    assert run("ask", "-f", questions, "--epsilon", "9", "-o", "more", "--format", "csv").code == 4
    assert [path.name for path in Path().iterdir() if "more" in path.name] == []


@pytest.mark.usefixtures("census")
def test_an_answer_is_drawn_beside_it(run: Run) -> None:
    done = run("ask", "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", "--epsilon", "0.5", "--plot", "a.svg")
    assert done.code == 0, done.err
    assert "wrote a.svg" in done.err
    assert "Female" in Path("a.svg").read_text()


@pytest.mark.usefixtures("census")
def test_shares_of_the_aggregates_of_one_question(run: Run) -> None:
    select = "SELECT COUNT(*) AS n, SUM(gain) AS total FROM people"
    out = run("plan", select, "--epsilon", "1", "--weights", "n=1,total=3").out
    assert ("share: 25% of the loss" in out, "share: 75% of the loss" in out) == (True, True)
    flags = ["--share", "relative", "--scale", "gain=2000", "--assume-rows", "2000"]
    columns = read_json(run("plan", select, "--epsilon", "1", *flags, "--format", "json"))["columns"]
    shares = [Fraction(c["share"]) for c in columns]
    assert sum(shares) == 1
    assert 0.1 < shares[0] < 0.2  # sqrt(1 / 2000) against sqrt(100000 / 2000 / 2000)
    answer = read_json(run("ask", select, "--epsilon", "1", *flags, "--format", "json"))
    assert answer["cost"] == {"epsilon": 1}


@pytest.mark.usefixtures("census")
def test_a_place_in_a_later_select_is_that_of_the_file(run: Run) -> None:
    done = run("plan", "SELECT COUNT(*) AS n FROM people;\n  SELECT AVG(agee) FROM people", "--epsilon", "1")
    assert done.code == 3
    assert "line 2, column 14" in done.err
    done = run("plan", "SELECT COUNT(*) AS n FROM people;\n  DROP TABLE people", "--epsilon", "1")
    assert done.code == 3
    assert "line 2, column 3: DROP is not supported" in done.err
