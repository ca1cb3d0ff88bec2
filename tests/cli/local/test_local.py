"""`sordino local plan` and `local simulate`, run as people run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from places import ADULT, ROOT, needs_adult
from sordino.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["local", *arguments])
    output = capsys.readouterr()
    return code, output.out, output.err


def test_plan(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "plan", "--size", "14", "--epsilon", "1", "--respondents", "100000")
    assert code == 0
    assert "117,357 respondents by subset selection" in out
    assert "17% less variance" in " ".join(out.split())
    arguments = ("plan", "--labels", "yes,no", "--epsilon", "1", "--respondents", "1000", "--shuffled", "1e-6")
    code, out, _ = run(capsys, *arguments, "--format", "json")
    output = json.loads(out)
    assert (code, output["best"], output["parameters"]["kind"]) == (0, "GRR", "grr")
    assert "independent shuffler" in output["shuffled"]["condition"]
    code, out, _ = run(capsys, *arguments)
    assert "shuffled   epsilon" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "--epsilon", "1", "--respondents", "10"),
        ("plan", "--size", "1", "--epsilon", "1", "--respondents", "10"),
        ("plan", "--size", "3", "--labels", "a,b", "--epsilon", "1", "--respondents", "10"),
        ("plan", "--labels", "a,a", "--epsilon", "1", "--respondents", "10"),
        ("plan", "--size", "3", "--epsilon", "0", "--respondents", "10"),
        ("plan", "--size", "3", "--epsilon", "1", "--respondents", "0"),
        ("simulate", "--data", "no.data", "--column", "sex", "--epsilon", "1"),
    ],
)
def test_bad_arguments(capsys: pytest.CaptureFixture[str], arguments: Any) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")


@needs_adult
def test_simulate_marks_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("simulate", "--data", str(ADULT), "--column", "occupation", "--epsilon", "1", "--seed", "3")
    code, out, _ = run(capsys, *asked)
    assert code == 0
    assert out.startswith("NOT PRIVATE")
    assert "trusted curator" in out
    code, out, _ = run(capsys, *asked, "--format", "json", "--protocol", "oue")
    output = json.loads(out)
    assert output["private"] is False
    assert output["mark"].startswith("NOT PRIVATE")
    assert sum(row["true"] for row in output["rows"]) == output["n"] == 32_561
    inside = [row["lower"] <= row["true"] <= row["upper"] for row in output["rows"]]
    assert sum(inside) >= 12  # of 15 at 95%: 11 or fewer once in 1,600 seeds, and this one is fixed


@needs_adult
def test_simulate_by_two_coins(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("simulate", "--data", str(ADULT), "--column", "occupation", "--protocol", "coins", "--seed", "4")
    code, out, _ = run(capsys, *asked, "--value", "Sales", "--epsilon", "1.0986", "--format", "json")
    assert code == 0
    found = json.loads(out)["rows"][1]
    assert found["true"] == 3650
    assert abs(found["estimate"] - 3650) < 4 * 156.271
    code, out, _ = run(capsys, *asked, "--value", "Sales")  # their epsilon is ln 3: it need not be stated
    assert code == 0
    assert "p = 0.75, any other with q = 0.25" in " ".join(out.split())
    assert "1 byte a report" in out
    assert run(capsys, *asked, "--value", "Sales", "--epsilon", "1")[0] == 2
    assert run(capsys, *asked, "--value", "Salesman", "--epsilon", "1.0986")[0] == 3
    assert run(capsys, "simulate", "--data", str(ADULT), "--column", "age", "--epsilon", "1")[0] == 3


def test_simulate_unary_encoding_by_p_and_q(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("color\n" + "red\n" * 60 + "blue\n" * 40)
    asked = ("simulate", "--data", str(tmp_path / "c.csv"), "--column", "color", "--labels", "red,blue", "--seed", "1")
    code, out, _ = run(capsys, *asked, "--protocol", "unary", "--p", "0.75", "--q", "0.25", "--format", "json")
    assert code == 0
    assert json.loads(out)["parameters"]["epsilon"].startswith("2.19722457733621")
    for wrong in (("--protocol", "unary", "--p", "0.75"), ("--p", "0.75", "--epsilon", "1"), ()):
        assert run(capsys, *asked, *wrong)[0] == 2
    assert run(capsys, *asked, "--alphabet", "abc")[0] == 2


def test_simulate_reads_any_table_with_declared_labels(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    cells = ["red"] * 600 + ["blue"] * 300 + [None] * 100
    (tmp_path / "c.csv").write_text("n,color\n" + "".join(f"1, {cell or ''}\n" for cell in cells))
    table = pa.table({"color": pa.array(cells).dictionary_encode(), "level": [1] * 400 + [2] * 600})
    parquet.write_table(table, tmp_path / "c.parquet")
    asked = ("--column", "color", "--labels", "red,blue,green", "--epsilon", "2", "--seed", "5", "--format", "json")
    output = []
    for name in ("c.csv", "c.parquet"):
        code, out, err = run(capsys, "simulate", "--data", str(tmp_path / name), *asked)
        assert (code, err) == (0, "")
        output.append(json.loads(out))
    assert output[0] == output[1]
    assert output[0]["private"] is False
    assert [row["true"] for row in output[0]["rows"]] == [600, 300, 0, 100]
    parquet_file = str(tmp_path / "c.parquet")
    numbers = ("simulate", "--data", parquet_file, "--column", "level", "--labels", "1,2", "--value", "2")
    code, out, _ = run(capsys, *numbers, "--epsilon", "2", "--format", "json")
    assert [row["true"] for row in json.loads(out)["rows"]] == [400, 600]
    plain = ("simulate", "--data", parquet_file, "--epsilon", "1")
    for wrong, exit_code, says in (
        (("--column", "color", "--labels", "red,green"), 2, "300 cells of column 'color' are none of the declared"),
        (("--column", "colour", "--labels", "red,blue"), 2, "no column 'colour'"),
        (("--column", "color", "--labels", "red,blue", "--value", "pink"), 3, "is not a declared value"),
    ):
        code, out, err = run(capsys, *plain, *wrong)
        assert (code, out) == (exit_code, "")
        assert says in err
        assert "blue" not in err or "--labels" in wrong
    # without labels those that occur, and no more than can be chosen from
    code, out, _ = run(capsys, *plain, "--column", "color", "--format", "json")
    assert [(row["label"], row["true"]) for row in json.loads(out)["rows"][:2]] == [("blue", 300), ("red", 600)]
    parquet.write_table(pa.table({"n": range(1001), "one": [1] * 1001}), tmp_path / "n.parquet")
    for column, says in (("n", "1,001 values"), ("one", "one value alone"), ("m", "no column 'm'")):
        code, _, err = run(
            capsys, "simulate", "--data", str(tmp_path / "n.parquet"), "--column", column, "--epsilon", "1"
        )
        assert code in (2, 3)
        assert says in err


def test_simulate_reads_files_as_people_have_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Excel, tabs, JSON: a column with a space in its name and empty cells gives the same answers as in CSV."""
    import xlsxwriter

    cells = ["Nurse", "Cook", None, "Cook", "Big boss"] * 20
    rows = [(cell, i % 3) for i, cell in enumerate(cells)]
    for name, mark in (("a.csv", ","), ("a.tsv", "\t"), ("semi.csv", ";")):
        lines = [f"Job Title{mark}n", *(f"{cell or ''}{mark}{n}" for cell, n in rows)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    (tmp_path / "a.json").write_text(json.dumps([{"Job Title": cell, "n": n} for cell, n in rows]))
    with xlsxwriter.Workbook(tmp_path / "a.xlsx") as book:
        sheet = book.add_worksheet("people")
        for i, row in enumerate([("Job Title", "n"), *rows]):
            sheet.write_row(i, 0, row)
    (tmp_path / "utf16.csv").write_text("c\nä\nö\n", encoding="utf-16")

    def simulated(name: str, column: str) -> tuple[int, str, str]:
        path = str(tmp_path / name)
        asked = ("--epsilon", "2", "--seed", "5", "--format", "json")
        return run(capsys, "simulate", "--data", path, "--column", column, *asked)

    for column, labels in (("Job Title", ["Big boss", "Cook", "Nurse", None]), ("n", ["0", "1", "2"])):
        first = simulated("a.csv", column)
        assert first[0] == 0, first
        shown = [row["label"] for row in json.loads(first[1])["rows"]]
        assert shown[:-1] == labels[:-1]
        assert len(shown) == len(labels)
        for name in ("a.tsv", "a.json", "a.xlsx"):
            assert simulated(name, column) == first, name
    for name, column, words in (
        ("semi.csv", "Job Title", "commas part its cells"),
        ("a.xlsx", "job title", "did you mean 'Job Title'?"),
        ("utf16.csv", "c", "a CSV file is UTF-8"),
        ("none.xlsx", "c", "no such file"),
    ):
        code, out, err = simulated(name, column)
        assert (code, out) == (2, ""), (name, err)
        assert words in err


def test_simulate_knows_rappor_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("color\n" + "red\nblue\n" * 50)
    simulate = ("simulate", "--data", str(tmp_path / "c.csv"), "--column", "color", "--protocol", "rappor")
    code, out, _ = run(capsys, *simulate, "--f", "1/2", "--p", "1/2", "--q", "3/4")
    assert code == 0
    # one report of the paper's setting: .5371
    assert "RAPPOR at epsilon 0.537" in out
    code, _, err = run(capsys, *simulate, "--epsilon", "1")
    assert code == 2
    assert "rappor takes f, p and q" in err


def example(*arguments: str) -> str:
    script = ROOT / "examples" / "local_adult.py"
    environment = {name: value for name, value in os.environ.items() if name != "SORDINO_ADULT"}
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.deep
def test_the_example_says_what_it_needs() -> None:
    assert "without the Adult extract" in example()


@pytest.mark.deep
@needs_adult
def test_the_example_runs() -> None:
    said = example(str(ADULT))
    assert said.startswith("NOT PRIVATE")
    assert "truly 3,650 (sd 156.271)" in said
    assert "do not use the local model" in said


def test_a_search_for_texts_is_planned_and_simulated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    search = ("--alphabet", "abcdefghijklmnopqrstuvwxyz", "--length", "5", "--epsilon", "4")
    code, out, _ = run(capsys, "plan", *search, "--respondents", "20000")
    assert code == 0
    assert "48 bits, epsilon 4 a person" in out
    code, out, _ = run(capsys, "plan", *search, "--respondents", "20000", "--format", "json")
    assert 0.01 < json.loads(out)["share_found"]["0.9"] < 0.05
    data = tmp_path / "words.csv"
    data.write_text("word\n" + "tea\n" * 5000 + "mate\n" * 3000 + "A\n" * 20)
    code, out, _ = run(capsys, "simulate", "--data", str(data), "--column", "word", *search, "--seed", "1")
    assert code == 0
    assert out.startswith("NOT PRIVATE")
    assert [line.split()[:2] for line in out.splitlines()[2:4]] == [["tea", "5,000"], ["mate", "3,000"]]
    code, _, err = run(capsys, "plan", "--alphabet", "ab", "--length", "500", "--epsilon", "1", "--respondents", "9")
    assert (code, "length must be at most" in err) == (2, True)


def test_a_simulation_is_named_as_a_class_knows_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Coins are coins in text and picture; true and estimated values lie beside each other, none on another."""
    (tmp_path / "c.csv").write_text("job\n" + "Cook\n" * 300 + "Nurse\n" * 200)
    data = ("simulate", "--data", str(tmp_path / "c.csv"), "--column", "job")
    for more, name in (
        (("--protocol", "coins", "--value", "Cook"), "two fair coins"),
        (("--epsilon", "1", "--value", "Cook"), "randomized response (GRR)"),
        (("--protocol", "unary", "--p", "3/4", "--q", "1/4"), "unary encoding (SUE)"),
    ):
        picture = tmp_path / "p.json"
        code, out, err = run(capsys, *data, *more, "--plot", str(picture))
        assert code == 0, err
        assert f"{name} at epsilon" in out
        spec = json.loads(picture.read_text())
        assert f"by {name}" in " ".join(spec["title"]["text"])
        assert all(layer["encoding"]["yOffset"]["field"] == "who" for layer in spec["layer"])
