"""`synth report`: a page about a model, private or NOT PRIVATE, and what its figures are made of."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from cli.support import Run, assert_loads_nothing, enter_copy
from markup import Page
from sordino.cli.main import main
from sordino.core.noise.rng import Rng
from sordino.datasets import write_census_project

SECTIONS = ("How far it is", "The worst ten", "Correlations", "A workload of counts", "Column by column")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a generated census and a model of four of its columns, fitted on the command line."""
    directory = tmp_path_factory.mktemp("project")
    write_census_project(directory, 2_000, Rng.seeded(11))
    file = directory / "sordino.toml"
    file.write_text(file.read_text().replace("cap = {epsilon = 2.0} ", "cap = {epsilon = 500, delta = 1e-3} "))
    words = ["--epsilon", "10", "--columns", "sex,age,hours_per_week,occupation", "-q", "--project", str(directory)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SORDINO_STATE", str(directory / "state"))
        assert main(["synth", "fit", *words, "-o", str(directory / "p.model")]) == 0
    return directory


@pytest.fixture
def fitted(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter_copy(project, tmp_path / "fitted", monkeypatch)


@pytest.mark.deep
@pytest.mark.usefixtures("fitted")
def test_a_private_page_states_its_cost(run: Run) -> None:
    words = ["--epsilon", "2", "--delta", "1e-6", "--predict", "sex = 'Male'", "-o", "r.html"]
    done = run("synth", "report", "p.model", "--table", "people", *words)
    assert done.code == 0, done.err
    assert "cost: epsilon 2, delta 1e-6" in done.out
    assert "charge c-0002" in done.out
    assert "prediction: " in done.out
    assert "NOT PRIVATE" not in done.out + done.err
    text = Path("r.html").read_text()
    page = Page(text)
    assert_loads_nothing(page, text)
    for words_in in (
        *SECTIONS,
        "Train on synthetic",
        "charge c-0002",
        "floor of sampling",
        "totalrho",
        "charged as epsilon 2, delta 1e-6",
        "one row, add/remove",
    ):
        assert words_in in page.words, words_in
    assert "NOT PRIVATE" not in page.words
    assert (
        page.tags.count("img") == 1 + 2 + 2 + 3 + 1
    )  # distances, two columns, two kinds of correlations, three pairs, the model
    shown = run("show", "c-0002")
    assert "mean distance over 2" in shown.out
    assert run("synth", "report", "p.model", "--epsilon", "1", "-o", "r.html").code == 2  # it is there


@pytest.mark.deep
@pytest.mark.usefixtures("fitted")
def test_an_open_page_says_so_on_its_face(run: Run) -> None:
    done = run("synth", "report", "p.model", "--against", "census.parquet", "--non-private", "-o", "n.html", "-q")
    assert done.code == 0, done.err
    assert done.out.startswith("NOT PRIVATE\n")
    assert "NOT PRIVATE: computed on the rows of a file" in done.err
    text = Path("n.html").read_text()
    page = Page(text)
    assert_loads_nothing(page, text)
    assert page.words.split("<h1>")[0].find("NOT PRIVATE") < 300
    assert text.index('class="alarm"') < text.index("<h1>")
    assert re.search(r"<title>NOT PRIVATE: ", text)
    assert text.count("NOT PRIVATE: no loss was charged") >= 3
    assert page.tags.count("img") == 1 + 2 + 2 + 3 + 4  # as above, four columns beside their originals
    assert len(run("releases", "--format", "csv").out.splitlines()) == 2  # only the fit was charged


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--against", "census.parquet"], 2, "go together"),
        (["--non-private"], 2, "go together"),
        (["--against", "census.parquet", "--non-private", "--epsilon", "1"], 2, "leave out --epsilon or --non-private"),
        ([], 2, "state a privacy loss"),
        (["--epsilon", "9999"], 4, "does not cover"),
        (["--epsilon", "1", "--workload", "age,seks"], 3, "'seks'"),
        (["--epsilon", "1", "--predict", "gain > 3"], 3, "'gain' is not declared"),
        (["--epsilon", "1", "--predict", "age < 10"], 3, "all on one side"),
        (["--epsilon", "1", "--rows", "0"], 2, "--rows"),
        (["--epsilon", "1", "--table", "peple"], 3, "'peple'"),
        (["--against", "gone.csv", "--non-private"], 2, "no such file"),
        (["--against", "census.parquet", "--non-private", "--table", "people"], 2, "--table says how a CSV file"),
        (["--against", "short.csv", "--non-private"], 2, "has no column 'hours_per_week'"),
        (["--against", "odd.csv", "--non-private"], 2, "cannot be read"),
    ],
)
def test_what_is_refused_leaves_nothing(fitted: Path, run: Run, words: list[str], code: int, said: str) -> None:
    Path("short.csv").write_text("sex,age\nMale,30\n")
    Path("odd.csv").write_text("sex,age\nMale,30,7\n")
    files = sorted(n for n in os.listdir(fitted) if "ledger" not in n)
    done = run("synth", "report", "p.model", "-o", "r.html", *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert sorted(n for n in os.listdir(fitted) if "ledger" not in n) == files
    assert len(run("releases", "--format", "csv").out.splitlines()) == 2


@pytest.mark.usefixtures("fitted")
def test_without_altair_the_page_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    assert run("synth", "report", "p.model", "--epsilon", "1", "-o", "r.html").code == 0
    page = Page(Path("r.html").read_text())
    assert "Without pictures" in page.words
    assert "img" not in page.tags


def test_a_changed_declaration_is_noticed(fitted: Path, run: Run) -> None:
    file = fitted / "sordino.toml"
    file.write_text(file.read_text().replace("lower = 17, upper = 90", "lower = 17, upper = 95"))
    run("ledger", "amend", "--reason", "older people")
    done = run("synth", "report", "p.model", "--epsilon", "1", "-o", "r.html")
    assert done.code == 2
    assert "'age' is declared otherwise" in done.err
