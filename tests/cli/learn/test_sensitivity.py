"""`sensitivity`: the laboratory on the command line, against the library and brute force; its refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.support import Run
from sordino import sensitivity as sens
from sordino.cli.shared.terminal import in_terminal
from sordino.lab.sensitivity.moves import moves_from
from sordino.lab.sensitivity.statistics import statistic_from
from sordino.lab.sensitivity.worst_case import enumerate_pairs

UNIVERSE = [1, 2, 3, 10, 11]
MEDIAN = ("--universe", "1,2,3,10,11", "--size", "3", "--query", "median", "--within", "1")
REPLACE = ("--neighbors", "replace")
CSV = "name,age,word\na,30,x\nb,,y\nc,41,z\nd,52,x\ne,33,y\nf,28,x\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pupils.csv"
    path.write_text(CSV)
    return path


def test_the_example_of_the_manual(run: Run) -> None:
    done = run("sensitivity", *MEDIAN, *REPLACE)
    assert done.code == 0
    assert done.err == ""
    lines = done.out.splitlines()
    assert lines[0] == "global sensitivity of the median: 8, exact"
    assert "witness    1, 2, 10  answers 2" in lines
    assert "           2, 10, 11  answers 10" in lines
    assert "moved      1 out; 11 in" in lines
    assert any(line.startswith("public     the universe of 5 values") for line in lines)


COLUMNS = ("--universe", "year=1,2,2,5,5,7", "--universe", "days=1,2,3,4,5,20", "--query", "mean")


def test_several_columns_are_each_looked_at(run: Run) -> None:
    words = (*COLUMNS, "--local", "first:3", "--within", "1", *REPLACE)
    plain = run("sensitivity", *words)
    assert plain.out.splitlines()[0] == "column year"
    data = json.loads(run("sensitivity", *words, "--format", "json").out)
    found = {name: part["results"][0]["value"] for name, part in data["columns"].items()}
    how: dict[str, Any] = {"neighbors": "replace", "within": 1}
    year = sens.local_sensitivity("mean", [1, 2, 2, 5, 5, 7], [1, 2, 2], **how)
    days = sens.local_sensitivity("mean", [1, 2, 3, 4, 5, 20], [1, 2, 3], **how)
    assert found == {"year": year.value, "days": days.value}
    wrong = run("sensitivity", "--universe", "year=1,2", "--universe", "3,4", *COLUMNS[4:], "--size", "1", *words[8:])
    assert wrong.code == 2
    assert "each of several universes needs a name" in wrong.err


@pytest.mark.parametrize("more", [("--profile", "1:2"), ("--within", "1"), ("--within", "1", "--worlds")], ids=str)
def test_several_columns_are_drawn_in_rows_of_panels(run: Run, tmp_path: Path, more: tuple[str, ...]) -> None:
    target = tmp_path / "columns.json"
    done = run("sensitivity", *COLUMNS, "--size", "3", *more, *REPLACE, "--plot", str(target))
    assert done.code == 0, done.err
    drawn = target.read_text()
    assert "year" in drawn
    assert "days" in drawn


@pytest.mark.parametrize("query", ["count", "sum", "mean", "median", "var", "std", "quantile:0.9", "min", "max"])
@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_json_equals_the_library_and_brute_force(run: Run, query: str, neighbors: str) -> None:
    words = ("--universe", "1,2,3,10,11", "--size", "3", "--query", query, "--within", "1", "--neighbors", neighbors)
    output = json.loads(run("sensitivity", *words, "--format", "json").out)
    result = output["results"][0]
    assert output["schema"] == 1
    assert output["mark"] is None
    expected = sens.global_sensitivity(query, UNIVERSE, size=3, neighbors=neighbors, within=1)
    assert result["value"] == expected.value
    moves = moves_from(neighbors=neighbors, within=1, exactly=None, direction=None, size=3, universe_size=5)
    brute, _, _ = enumerate_pairs(np.array(UNIVERSE, dtype=float), statistic_from(query, ddof=0), moves)
    assert result["value"] == pytest.approx(brute)
    first, second = (side["answer"] for side in result["witness"])
    assert abs(first - second) == pytest.approx(result["attained"])


def test_local_and_several_queries(run: Run) -> None:
    words = ("--universe", "1,2,3,10,11", "--local", "1,3,10", "--within", "1", *REPLACE)
    done = run("sensitivity", *words, "--query", "median", "--query", "std", "--ddof", "1", "--format", "json")
    output = json.loads(done.out)
    assert [(r["query"], r["scope"]) for r in output["results"]] == [("median", "local"), ("std", "local")]
    assert output["results"][0]["value"] == 7
    expected = sens.local_sensitivity("std", UNIVERSE, [1, 3, 10], neighbors="replace", within=1, ddof=1)
    assert output["results"][1]["value"] == expected.value


def test_exactly_in_a_direction(run: Run) -> None:
    words = (
        "--universe",
        "1,2,3,10,11",
        "--size",
        "3",
        "--query",
        "mean",
        "--exactly",
        "1",
        "--neighbors",
        "add_remove",
    )
    assert "--direction" in run("sensitivity", *words).err
    for direction in ("add", "remove", "either"):
        output = json.loads(run("sensitivity", *words, "--direction", direction, "--format", "json").out)
        expected = sens.global_sensitivity(
            "mean", UNIVERSE, size=3, neighbors="add_remove", exactly=1, direction=direction
        )
        assert output["results"][0]["value"] == expected.value


def test_worlds(run: Run) -> None:
    done = run("sensitivity", *MEDIAN, *REPLACE, "--worlds")
    rows = [line for line in done.out.splitlines() if line.endswith("global")]
    assert len(rows) == 4
    assert "1, 2, 3         2  1,2,10:2  1,2,11:2  1,3,10:3  1,3,11:3  2,3,10:3  2,3,11:3" in done.out
    assert not any(line.endswith(" ") for line in done.out.splitlines())
    output = json.loads(run("sensitivity", *MEDIAN, *REPLACE, "--worlds", "--format", "json").out)
    worlds = output["worlds"][0]
    assert worlds["global"] == output["results"][0]["value"] == 8
    assert {tuple(r["table"]): r["local"] for r in worlds["rows"]}[1, 3, 10] == 7
    assert max(r["local"] for r in worlds["rows"]) == 8


def test_profile_equals_the_library(run: Run) -> None:
    words = ("--universe", "1,2,3,10,11", "--local", "1,3,10", "--query", "mean", "--query", "std", "--profile", "1:2")
    output = json.loads(run("sensitivity", *words, "--neighbors", "both", "--format", "json").out)
    expected = sens.sensitivity_profile(UNIVERSE, [1, 3, 10], queries=["mean", "std"], distances=[1, 2]).to_pylist()
    assert output["profile"] == expected
    done = run("sensitivity", *words, *REPLACE)
    assert done.out.splitlines()[0].split() == ["query", "scope", "relation", "distance", "sensitivity"]
    assert len(done.out.splitlines()) == 1 + 2 * 2 * 2


def test_a_profile_with_a_direction_is_exactly_k(run: Run) -> None:
    days = [1, 2, 3, 4, 5, 6, 7, 8, 15, 20]
    words = ("--universe", "1,2,3,4,5,6,7,8,15,20", "--local", "first:6", "--query", "std", "--profile", "1:3")
    output = json.loads(
        run("sensitivity", *words, "--neighbors", "both", "--direction", "either", "--format", "json").out
    )
    how: dict[str, Any] = {"queries": ["std"], "distances": [1, 2, 3]}
    assert output["profile"] == sens.sensitivity_profile(days, days[:6], moves="exactly", **how).to_pylist()
    assert output["profile"] != sens.sensitivity_profile(days, days[:6], **how).to_pylist()
    assert "direction goes with" in run("sensitivity", *words, *REPLACE, "--direction", "add").err


def test_a_distance_that_leads_nowhere(run: Run) -> None:
    words = ("--universe", "1,2,3", "--size", "1", "--query", "mean", "--neighbors", "add_remove")
    assert run("sensitivity", *words, "--profile", "1:2").code == 2
    words = ("--universe", "1,2,3", "--size", "2", "--query", "mean", "--neighbors", "add_remove")
    assert "no such table" in run("sensitivity", *words, "--profile", "1:2").out


@pytest.mark.each(4)
@pytest.mark.parametrize("ending", ["svg", "png", "html", "json"])
def test_plot(run: Run, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out.{ending}"
    assert run("sensitivity", *MEDIAN, *REPLACE, "--plot", str(path)).code == 0
    assert path.stat().st_size > 1_000
    assert [p.name for p in tmp_path.iterdir() if p.name != "state"] == [path.name]


def test_plots_of_worlds_and_profiles(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "out.svg"
    run("sensitivity", *MEDIAN, *REPLACE, "--worlds", "--plot", str(path))
    assert "1, 10, 11" in path.read_text()
    words = ("--universe", "1,2,3,10,11", "--local", "first:3", "--query", "median", "--profile", "1:2")
    run("sensitivity", *words, "--neighbors", "both", "--plot", str(path))
    assert "add/remove (unbounded)" in path.read_text()


def test_a_file_is_marked_everywhere(run: Run, file: Path, tmp_path: Path) -> None:
    words = ("--column", "age", str(file), "--size", "3", "--query", "mean", "--within", "1", *REPLACE)
    done = run("sensitivity", *words, "--worlds", "--plot", str(tmp_path / "out.svg"))
    assert done.out.splitlines()[0] == "NOT PRIVATE: column age of pupils.csv; missing cells left out: 1"
    assert "are public" not in done.out
    assert "NOT PRIVATE (column age of pupils.csv)" in (tmp_path / "out.svg").read_text()
    output = json.loads(run("sensitivity", *words, "--format", "json").out)
    assert output["private"] is False
    assert output["mark"] == "NOT PRIVATE: column age of pupils.csv"
    assert output["universe"] == {"values": [30, 41, 52, 33, 28], "missing": 1}
    assert output["results"][0]["public"].startswith("nothing")


def test_a_parquet_file(run: Run, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.5, None, 2.5, 9.0], "word": ["a", "b", "c", "d"]}), tmp_path / "t.parquet")
    words = ("--local", "first:2", "--query", "max", "--within", "1", *REPLACE, "--format", "json")
    output = json.loads(run("sensitivity", "--column", "x", str(tmp_path / "t.parquet"), *words).out)
    assert output["local"] == [1.5, 2.5]
    assert output["results"][0]["value"] == 6.5


BAD = [
    (("--universe", "1,2,x"), "--universe takes numbers separated by commas"),
    (("--universe", "1,2,nan"), "universe must hold only finite numbers"),
    (("--universe", ""), "--universe takes numbers"),
    (("--universe", "1,2,3", "--size", "9"), "size must be from 1 to 3"),
    (("--universe", "1,2,3", "--within", "0"), "within must be at least 1"),
    (("--universe", "1,2,3", "--query", "meen"), "did you mean 'mean'"),
    (("--universe", "1,2,3", "--query", "quantile:2"), "q from 0 to 1"),
    (("--universe", "1,2,3", "--local", "1,5", "--size", ""), None),
    (("--universe", "1,2,3", "--local", "1,5"), "must be a part of the universe"),
    (("--universe", "1,2,3", "--local", "first:9"), "--local first:N"),
    (("--universe", "1,2,3", "--local", "last:2"), "--local is a table"),
    (("--universe", "1,2,3", "--local", "1,2,3", "--size", "3"), "leave out --size"),
    (("--universe", "1,2,3", "--exactly", "1"), "state one distance"),
    (("--universe", "1,2,3", "--direction", "add"), "direction"),
    (("--universe", "1,2,3", "--neighbors", "both"), "--neighbors both is for --profile"),
    (("--universe", "1,2,3", "--neighbors", "swap"), "--neighbors"),
    (("--universe", "1,2,3", "--profile", "1:2"), "leave out --within"),
    (("--universe", "1,2,3", "--plot", "x.gif"), "file ends in .svg"),
    (("--universe", "1,2,3", "--plot", "missing/x.svg"), "directory is missing"),
    ((), "state the values once"),
]


@pytest.mark.parametrize(("words", "said"), BAD, ids=str)
def test_refusals_are_one_line(run: Run, words: tuple[str, ...], said: str | None) -> None:
    usual = {"--size": "2", "--query": "mean", "--within": "1", "--neighbors": "replace"}
    stated = {*words, *(["--size"] if "--local" in words else [])}
    given = [w for name, value in usual.items() if name not in stated for w in (name, value)]
    done = run("sensitivity", *words, *given)
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert said is None or said in done.err


def test_what_must_be_stated(run: Run) -> None:
    assert "nothing is guessed" in run("sensitivity", *MEDIAN).err
    words = ("--universe", "1,2,3", "--query", "mean", *REPLACE)
    assert "state --size N" in run("sensitivity", *words, "--within", "1").err
    assert "state one distance" in run("sensitivity", *words, "--size", "2").err
    assert "--profile takes two distances" in run("sensitivity", *words, "--size", "2", "--profile", "3").err
    assert run("sensitivity", "--universe", "1,2", "--size", "1", "--within", "1", *REPLACE).code == 2


def test_files_that_cannot_be_read(run: Run, file: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.parquet").write_text("secret")
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\nsecret\n")
    (tmp_path / "empty.csv").write_text("age\n")
    words = ("--size", "2", "--query", "mean", "--within", "1", *REPLACE)
    for name, path, said in (
        ("ages", file, "check its header line"),
        ("word", file, "holds string"),
        ("age", tmp_path / "no.csv", "no such file"),
        ("age", tmp_path / "odd.parquet", "cannot be read"),
        ("a", tmp_path / "ragged.csv", "cannot be read"),
        ("age", tmp_path / "empty.csv", ""),
        ("age", tmp_path / "state", "no such file"),
    ):
        done = run("sensitivity", "--column", name, str(path), *words)
        assert done.code == 2, name
        assert said in done.err
        assert "secret" not in done.err
        assert len(done.err.splitlines()) == 1


def test_progress_is_for_terminals(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sordino.cli.learn.sensitivity.in_terminal", lambda _stream=None: True)
    done = run("sensitivity", *MEDIAN, *REPLACE)
    assert done.out.startswith("global sensitivity of the median: 8")
    monkeypatch.undo()
    assert not in_terminal()
    assert run("sensitivity", *MEDIAN, *REPLACE).err == ""
