"""`epsilon`: the reference's numbers through the command line, several columns, and requirements of a small project."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from cli.epsilon.support import run_worlds
from cli.support import Run, read_json
from published import read_published, rows_of

UNIVERSES = {
    name: ",".join(map(str, values)) for name, values in read_published("attacker_worlds")["universes"].items()
}
SCHOOL, ABSENCE = UNIVERSES["school_year"], UNIVERSES["absence_days"]
AVERAGE = ("--query", "SELECT AVG(age) FROM people", "--error", "0.5", "--rows", "32561")
SUSPICION = ("--attacker-prior", "0.5", "--max-posterior", "0.75")


@pytest.mark.parametrize(*rows_of("attacker_worlds", "risks"))
def test_lee_clifton_risks(
    run: Run,
    universe: str,
    query: str,
    sensitivity: float,
    spread: float,
    risk_bound: float,
    epsilon_bound: float,
    risk: float,
    epsilon: float,
) -> None:
    made = read_json(run_worlds(run, UNIVERSES[universe], query, "--epsilon", "2", "--format", "json"))
    found = (made["sensitivity"], made["spread"], made["epsilon"], made["epsilon_bound"], made["at"]["risk_bound"])
    assert found == pytest.approx((sensitivity, spread, epsilon, epsilon_bound, risk_bound), abs=1e-9)
    assert made["worlds"] == 4
    assert made["exact"] is True
    assert made["risk_at_epsilon"] <= made["risk"]
    half = read_json(run_worlds(run, UNIVERSES[universe], query, "--epsilon", "1/2", "--format", "json"))
    assert half["at"]["risk"] == pytest.approx(risk, abs=1e-10)


@pytest.mark.parametrize(*rows_of("attacker_worlds", "posteriors"))
def test_lee_clifton_posteriors(run: Run, universe: str, query: str, posteriors: list[float]) -> None:
    words = ("--epsilon", "2", "--output", "2.20131")
    at = read_json(run_worlds(run, UNIVERSES[universe], query, *words, "--format", "json"))["at"]
    assert [row["posterior"] for row in at["posteriors"]] == pytest.approx(posteriors, abs=1e-8)
    assert "posterior gain" in run_worlds(run, UNIVERSES[universe], query, *words).out


@pytest.mark.parametrize(*rows_of("attacker_worlds", "posterior_gains"))
def test_lee_clifton_confidence(run: Run, universe: str, gain: float) -> None:
    words = ("--epsilon", "2", "--output", "2.20131", "--format", "json")
    at = read_json(run_worlds(run, UNIVERSES[universe], "mean", *words))["at"]
    assert at["posterior_gain"] == pytest.approx(gain, abs=1e-10)


def test_a_prior(run: Run) -> None:
    words = ("--universe", ABSENCE, "--size", "3", "--query", "mean", "--risk", "0.9", "--prior", ".7,.1,.1,1/10")
    at = read_json(run("epsilon", "worlds", *words, "--epsilon", "1", "--format", "json"))["at"]
    assert at["risk"] == pytest.approx(0.8562, abs=1e-4)
    assert at["risk_bound"] == pytest.approx(0.871, abs=1e-3)


def test_the_report_in_words(run: Run) -> None:
    done = run_worlds(run, ABSENCE, "mean")
    said = " ".join(done.out.split())
    assert done.code == 0
    assert "At epsilon 0.43172, an attacker who knows all 4 values" in said
    assert "more than 33.3333%" in said


def test_a_risk_that_is_never_passed(run: Run) -> None:
    words = ("epsilon", "worlds", "--universe", ABSENCE, "--size", "3", "--query", "median", "--risk", "0.5")
    made = read_json(run(*words, "--format", "json"))
    assert made["epsilon"] is None
    assert "any: the risk never exceeds 0.5" in run(*words).out
    assert run(*words, "--write", "--one-question").code == 2  # no cap keeps less; for all questions there is one


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--risk", "0.2"), "probability 0.25"),
        (("--risk", "2"), "below 1"),
        (("--risk", "often"), "--risk"),
        (("--risk", "1/3", "--output", "3"), "--epsilon"),
        (("--risk", "1/3", "--prior", "0.5,0.5"), "4 probabilities"),
        (("--risk", "1/3", "--plot", "risk.gif"), ".svg"),
    ],
)
def test_what_cannot_be_had_is_one_line(run: Run, more: Any, words: Any) -> None:
    done = run("epsilon", "worlds", "--universe", ABSENCE, "--size", "3", "--query", "mean", *more)
    assert done.code == 2
    assert done.out == ""
    assert words in done.err
    assert done.err.count("\n") == 1


@pytest.mark.deep
def test_a_picture(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "risk.svg"
    done = run_worlds(run, SCHOOL, "mean", "--epsilon", "2", "--output", "2.2", "--plot", str(path))
    assert done.code == 0, done.err
    assert path.read_bytes().startswith(b"<svg")


@pytest.mark.deep
def test_densities_in_the_picture(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "risk.json"
    at = ("--risk", "0.5", "--epsilon", "2", "--output", "2.2", "--plot", str(path))
    assert run_worlds(run, ABSENCE, "median", *at[2:]).code == 0
    assert "2 worlds of answer 2, together" in path.read_text()
    path.unlink()
    many = ("--universe", "1,2,4,8,16,32", "--size", "3", "--query", "mean")
    assert run("epsilon", "worlds", *many, *at).code == 0
    written = json.loads(path.read_text())["title"]["subtitle"]
    assert "20 different answers: too many to draw their densities (12 at most)" in " ".join(written)


@pytest.mark.deep
@pytest.mark.parametrize("question", ["SELECT AVG(age) FROM people", "SELECT COUNT(*) FROM people"])
def test_a_picture_of_a_choice(run: Run, census: Path, question: str) -> None:
    asked = ("epsilon", "choose", "--query", question, "--error", "5", "--rows", "2000", *SUSPICION)
    for ending in ("svg", "json"):
        done = run(*asked, "--plot", f"choice.{ending}")
        assert done.code == 0, done.err
    said = (census / "choice.json").read_text()
    assert "shaded: the requirements are met" in said
    assert "with you: at most" in said
    assert (census / "choice.svg").read_bytes().startswith(b"<svg")


@pytest.mark.deep
def test_a_conflict_is_drawn_too(run: Run, census: Path) -> None:
    asked = ("--query", "SELECT AVG(age) FROM people", "--error", "0.5", "--rows", "100", *SUSPICION)
    assert run("epsilon", "choose", *asked, "--plot", "choice.json").code == 2
    said = (census / "choice.json").read_text()
    assert "no epsilon meets all requirements" in said
    assert "symlog" not in said  # the curve ends where the error is far below what was asked


def test_choose_an_interval(run: Run, census: Path) -> None:
    (census / "census.parquet").unlink()  # the data is never read
    words = ("epsilon", "choose", "--table", "people", *AVERAGE, *SUSPICION)
    made = read_json(run(*words, "--format", "json"))
    assert made["upper"] == pytest.approx(math.log(3))
    assert 0 < made["lower"] == made["epsilon"] < 0.1
    assert (made["lower_by"], made["upper_by"]) == ("accuracy", "posterior")
    assert made["relation"] == "add_remove"
    shown = run(*words)
    assert "lower end" in shown.out
    assert "meets both requirements" in " ".join(shown.out.split())
    assert "never rises above 75% (add/remove)" in " ".join(shown.out.split())


def test_choose_from_readings_alone(run: Run, census: Path) -> None:
    assert census.is_dir()
    words = (*SUSPICION, "--test-level", "0.05", "--max-power", "0.25", "--relative-risk", "3")
    made = read_json(run("epsilon", "choose", *words, "--format", "json"))
    assert made["upper_by"] == "relative"
    assert made["epsilon"] == pytest.approx(math.log(3) / 2)


def test_a_conflict_ends_with_2_and_writes_nothing(run: Run, census: Path) -> None:
    before = (census / "sordino.toml").read_bytes()
    few = ("--query", "SELECT AVG(age) FROM people", "--error", "0.5", "--rows", "100", *SUSPICION, "--write")
    done = run("epsilon", "choose", *few, "--format", "json")
    assert done.code == 2
    assert json.loads(done.out)["conflict"]["smallest_n"] > 100
    assert "no epsilon meets all requirements" in done.err
    assert (census / "sordino.toml").read_bytes() == before


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        ((), 2, "state a requirement"),
        (("--table", "peple", *SUSPICION), 3, "people"),
        (("--attacker-prior", "0.5"), 2, "--max-posterior"),
        (("--test-level", "0.05"), 2, "--max-power"),
        (("--error", "1"), 2, "--query"),
        ((*SUSPICION, "--plot", "choice.svg"), 2, "--error T too"),
        (("--query", "SELECT COUNT(*) FROM cats", "--error", "1"), 2, "cats"),
        ((*SUSPICION, "--write", "--budget", "cats"), 2, "draws on budget 'people'"),
    ],
)
def test_what_choose_needs(run: Run, census: Path, more: Any, code: int, words: Any) -> None:
    assert census.is_dir()
    done = run("epsilon", "choose", *more)
    assert done.code == code
    assert words in done.err


def test_an_epsilon_for_add_remove_says_nothing_of_replace(run: Run, census: Path) -> None:
    file = census / "sordino.toml"
    file.write_text(file.read_text().replace('neighbors = "add_remove"', 'neighbors = "replace"'))
    assert run("epsilon", "choose", "--relative-risk", "3").code == 2
    done = run_worlds(run, ABSENCE, "mean", "--write")
    assert done.code == 2
    assert "states replace" in done.err


COLUMNS = ("--universe", f"school={SCHOOL}", "--universe", f"days={ABSENCE}", "--size", "3", "--query", "mean")


def test_the_axis_of_the_picture_ends_where_it_is_told_to(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "far.json"
    assert run("epsilon", "worlds", *COLUMNS, "--risk", "1/3", "--up-to", "5", "--plot", str(path)).code == 0
    ends = re.findall(r'"epsilon":\s*([0-9.]+)', path.read_text())
    assert max(map(float, ends)) == 5
    assert run("epsilon", "worlds", *COLUMNS, "--risk", "1/3", "--up-to", "0").code == 2


@pytest.mark.deep
def test_several_columns_and_the_one_that_binds(run: Run, census: Path) -> None:
    seen = ("--epsilon", "2", "--output", "2.20131", "--plot", "columns.json")
    made = read_json(run("epsilon", "worlds", *COLUMNS, "--risk", "1/3", *seen, "--write", "--format", "json"))
    assert [one["column"] for one in made["columns"]] == ["school", "days"]
    alone = [read_json(run_worlds(run, u, "mean", "--epsilon", "2", "--format", "json")) for u in (SCHOOL, ABSENCE)]
    for one, other in zip(made["columns"], alone, strict=True):
        assert {key: one[key] for key in other if key not in ("schema", "at")} == {
            key: value for key, value in other.items() if key not in ("schema", "at")
        }
    assert made["epsilon"] == made["columns"][1]["epsilon"]
    assert made["binding"] == "days"
    assert made["written"]["epsilon"] == "0.202732"  # of all questions: the same for both columns
    assert "columns" not in made["written"]["reason"]
    one = read_json(
        run("epsilon", "worlds", *COLUMNS, "--risk", "1/3", "--write", "--one-question", "--format", "json")
    )
    assert one["written"]["epsilon"] == "0.43172"
    assert "Of 2 columns, days allows the least." in one["written"]["reason"]
    drawn = json.loads((census / "columns.json").read_text())
    assert [panel["title"]["text"] for panel in drawn["hconcat"]] == ["school", "days"]
    assert all(len(panel["vconcat"]) == 3 for panel in drawn["hconcat"])
    shown = run("epsilon", "worlds", *COLUMNS, "--risk", "1/3").out
    assert "0.4317201196, by days" in shown
    assert shown.count("report ") == 2


def test_a_name_for_one_column(run: Run) -> None:
    made = read_json(run_worlds(run, f"days={ABSENCE}", "mean", "--format", "json"))
    assert (made["column"], made["schema"]) == ("days", 1)


@pytest.mark.parametrize(
    ("universes", "words"),
    [
        ((SCHOOL, ABSENCE), "each of several universes needs a name"),
        ((f"a={SCHOOL}", ABSENCE), "each of several universes needs a name"),
        ((f"={SCHOOL}",), "each of several universes needs a name"),
        ((f"a={SCHOOL}", f"a={ABSENCE}"), "twice"),
        (("a=1,2,x,4",), "value 3 is not a number"),
        (("a=1,2,inf,4",), "only finite numbers"),
    ],
)
def test_names_of_columns(run: Run, universes: tuple[str, ...], words: str) -> None:
    stated = [word for text in universes for word in ("--universe", text)]
    done = run("epsilon", "worlds", *stated, "--size", "3", "--query", "mean", "--risk", "1/3")
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_the_bound_is_labelled_where_worlds_cannot_be_counted(run: Run, tmp_path: Path) -> None:
    many = ",".join(str(7919 * i * i % 1_000_003) for i in range(200))
    asked = (
        "epsilon",
        "worlds",
        "--universe",
        many,
        "--size",
        "100",
        "--query",
        "var",
        "--risk",
        "1/3",
        "--epsilon",
        "2",
    )
    made = read_json(run(*asked, "--format", "json"))
    assert (made["exact"], made["method"], made["at"]["method"]) == (False, "closed-form bound", "closed-form bound")
    assert made["sentence"].endswith("(Lee & Clifton 2011, closed-form bound).")
    shown = " ".join(run(*asked, "--plot", str(tmp_path / "bound.json")).out.split())
    assert "from the closed-form bound: there are too many worlds to count" in shown
    assert "(closed-form bound: there are too many worlds to count)" in shown
    assert "exact" not in shown
    drawn = (tmp_path / "bound.json").read_text()
    assert "closed-form upper bound" in drawn
    assert '"exact risk"' not in drawn
    few = read_json(run_worlds(run, ABSENCE, "mean", "--epsilon", "2", "--format", "json"))
    assert (few["exact"], few["method"], few["at"]["method"]) == (True, "exact risk", "exact risk")
