"""`epsilon`: the reference's numbers through the command line, requirements of a small project, and the file written."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path

import pytest

from sordino.errors import DeclarationError, UnknownName
from sordino.project import load_project
from sordino.project_write import budget_in, rounded_down, with_cap

SCHOOL, ABSENCE = "1,2,3,4", "1,2,3,10"
AVERAGE = ("--query", "SELECT AVG(age) FROM people", "--error", "0.5", "--rows", "32561")
SUSPICION = ("--attacker-prior", "0.5", "--max-posterior", "0.75")
FILE = """# top
[budgets.people]      # ours
cap = {epsilon = 2.0}   # the most
ledger = "a.ledger"  # kept

# about tables
[tables.p]
budget = "people"
neighbors = "add_remove"
"""


def worlds(run, universe: str, query: str, *more: str):
    return run("epsilon", "worlds", "--universe", universe, "--size", "3", "--query", query, "--risk", "1/3", *more)


def told(ran) -> dict:
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


@pytest.mark.parametrize(
    ("universe", "query", "df", "dv", "exact", "bound", "upper", "risk"),
    [
        (SCHOOL, "mean", 5 / 6, 1, 0.525149687269512, 0.3378875900901369, 0.7860684399, 0.3291788293012836),
        (ABSENCE, "mean", 17 / 6, 3, 0.43172011956720063, 0.38293926876882173, 0.7347845418, 0.3476971459619019),
        (SCHOOL, "median", 1, 1, math.log(2), 0.4054651081, 0.7112345942, 0.3112296656),
        (ABSENCE, "median", 4, 1, 4 * math.log(2), 1.6218604324, 0.3546612444, 0.2656046867),
    ],
)
def test_numbers_of_lee_and_clifton(run, universe, query, df, dv, exact, bound, upper, risk) -> None:
    made = told(worlds(run, universe, query, "--epsilon", "2", "--format", "json"))
    found = (made["sensitivity"], made["spread"], made["epsilon"], made["epsilon_bound"], made["at"]["risk_bound"])
    assert found == pytest.approx((df, dv, exact, bound, upper), abs=1e-9)
    assert made["worlds"] == 4
    assert made["exact"] is True
    assert made["risk_at_epsilon"] <= made["risk"]
    half = told(worlds(run, universe, query, "--epsilon", "1/2", "--format", "json"))
    assert half["at"]["risk"] == pytest.approx(risk, abs=1e-10)


@pytest.mark.parametrize(
    ("universe", "posteriors", "gain"),
    [
        (SCHOOL, [0.33898835, 0.4003158, 0.17987348, 0.08082237], 0.15031580079),
        (ABSENCE, [0.61802372, 0.15816999, 0.12500781, 0.09879847], 0.36802371996),
    ],
)
def test_posteriors_at_an_output(run, universe, posteriors, gain) -> None:
    at = told(worlds(run, universe, "mean", "--epsilon", "2", "--output", "2.20131", "--format", "json"))["at"]
    assert [row["posterior"] for row in at["posteriors"]] == pytest.approx(posteriors, abs=1e-8)
    assert at["posterior_gain"] == pytest.approx(gain, abs=1e-10)
    shown = worlds(run, universe, "mean", "--epsilon", "2", "--output", "2.20131")
    assert "posterior gain" in shown.out


def test_a_prior(run) -> None:
    words = ("--universe", ABSENCE, "--size", "3", "--query", "mean", "--risk", "0.9", "--prior", ".7,.1,.1,1/10")
    at = told(run("epsilon", "worlds", *words, "--epsilon", "1", "--format", "json"))["at"]
    assert at["risk"] == pytest.approx(0.8562, abs=1e-4)
    assert at["risk_bound"] == pytest.approx(0.871, abs=1e-3)


def test_the_report_in_words(run) -> None:
    done = worlds(run, ABSENCE, "mean")
    said = " ".join(done.out.split())
    assert done.code == 0
    assert "At epsilon 0.43172, an attacker who knows all 4 values" in said
    assert "more than 33.3333%" in said


def test_a_risk_that_is_never_passed(run) -> None:
    words = ("epsilon", "worlds", "--universe", ABSENCE, "--size", "3", "--query", "median", "--risk", "0.5")
    made = told(run(*words, "--format", "json"))
    assert made["epsilon"] is None
    assert "any: the risk never passes 0.5" in run(*words).out
    assert run(*words, "--write").code == 2


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
def test_what_cannot_be_had_is_one_line(run, more, words) -> None:
    done = run("epsilon", "worlds", "--universe", ABSENCE, "--size", "3", "--query", "mean", *more)
    assert done.code == 2
    assert done.out == ""
    assert words in done.err
    assert done.err.count("\n") == 1


def test_a_picture(run, tmp_path: Path) -> None:
    path = tmp_path / "risk.svg"
    done = worlds(run, SCHOOL, "mean", "--epsilon", "2", "--output", "2.2", "--plot", str(path))
    assert done.code == 0, done.err
    assert path.read_bytes().startswith(b"<svg")


def test_densities_in_the_picture(run, tmp_path: Path) -> None:
    path = tmp_path / "risk.json"
    at = ("--risk", "0.5", "--epsilon", "2", "--output", "2.2", "--plot", str(path))
    assert worlds(run, ABSENCE, "median", *at[2:]).code == 0
    assert "2 worlds of answer 2, together" in path.read_text()
    path.unlink()
    many = ("--universe", "1,2,4,8,16,32", "--size", "3", "--query", "mean")
    assert run("epsilon", "worlds", *many, *at).code == 0
    assert "20 different answers: densities are drawn of 12 at most" in path.read_text()


@pytest.mark.parametrize("question", ["SELECT AVG(age) FROM people", "SELECT COUNT(*) FROM people"])
def test_a_picture_of_a_choice(run, census: Path, question: str) -> None:
    asked = ("epsilon", "choose", "--query", question, "--error", "5", "--rows", "2000", *SUSPICION)
    for ending in ("svg", "png", "json"):
        done = run(*asked, "--plot", f"choice.{ending}")
        assert done.code == 0, done.err
    said = (census / "choice.json").read_text()
    assert "shaded: what meets the requirements" in said
    assert "with you: at most" in said
    assert (census / "choice.svg").read_bytes().startswith(b"<svg")


def test_a_conflict_is_drawn_too(run, census: Path) -> None:
    asked = ("--query", "SELECT AVG(age) FROM people", "--error", "0.5", "--rows", "100", *SUSPICION)
    assert run("epsilon", "choose", *asked, "--plot", "choice.json").code == 2
    assert "no epsilon meets all requirements" in (census / "choice.json").read_text()


def test_choose_an_interval(run, census: Path) -> None:
    (census / "census.parquet").unlink()  # the data is never read
    words = ("epsilon", "choose", "--table", "people", *AVERAGE, *SUSPICION)
    made = told(run(*words, "--format", "json"))
    assert made["upper"] == pytest.approx(math.log(3))
    assert 0 < made["lower"] == made["epsilon"] < 0.1
    assert (made["lower_by"], made["upper_by"]) == ("accuracy", "posterior")
    assert made["relation"] == "add_remove"
    shown = run(*words)
    assert "lower end" in shown.out
    assert "meets both requirements" in " ".join(shown.out.split())


def test_choose_from_readings_alone(run, census: Path) -> None:
    assert census.is_dir()
    words = (*SUSPICION, "--test-level", "0.05", "--max-power", "0.25", "--relative-risk", "3")
    made = told(run("epsilon", "choose", *words, "--format", "json"))
    assert made["upper_by"] == "relative"
    assert made["epsilon"] == pytest.approx(math.log(3) / 2)


def test_a_conflict_ends_with_2_and_writes_nothing(run, census: Path) -> None:
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
def test_what_choose_needs(run, census: Path, more, code, words) -> None:
    assert census.is_dir()
    done = run("epsilon", "choose", *more)
    assert done.code == code
    assert words in done.err


def test_an_epsilon_for_add_remove_says_nothing_of_replace(run, census: Path) -> None:
    file = census / "sordino.toml"
    file.write_text(file.read_text().replace('neighbors = "add_remove"', 'neighbors = "replace"'))
    assert run("epsilon", "choose", "--relative-risk", "3").code == 2
    done = worlds(run, ABSENCE, "mean", "--write")
    assert done.code == 2
    assert "states replace" in done.err


def test_write_puts_cap_and_reason_and_nothing_else(run, census: Path) -> None:
    file = census / "sordino.toml"
    before = file.read_bytes().splitlines()
    done = worlds(run, ABSENCE, "mean", "--write", "--budget", "people", "--format", "json")
    written = told(done)["written"]
    assert written["epsilon"] == "0.43172"
    after = file.read_bytes().splitlines()
    (why,) = [line for line in after if line.startswith(b"# why: ")]
    assert why.decode() == f"# why: {written['reason']}"
    assert after[after.index(why) + 1].startswith(b"cap = ")
    after.remove(why)
    assert len(after) == len(before)
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert [line.split()[0] for line in changed] == [b"cap", b"reason"]
    assert b"# the most that all answers together" in changed[0]
    budget = load_project(file).budgets["people"]
    assert float(budget.cap.epsilon) == 0.43172
    assert budget.reason == written["reason"]
    chosen = run("epsilon", "choose", *AVERAGE, *SUSPICION, "--write")
    assert chosen.code == 0, chosen.err
    assert "rounded down" in (load_project(file).budgets["people"].reason or "")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_new_reason_stands_below_the_cap(end: str) -> None:
    text = FILE.replace("\n", end)
    made = with_cap(text, budget="people", epsilon=1 / 3, reason='so "they" said')
    assert f"# the most{end}reason = " in made
    kept = [line for line in made.split(end) if not line.startswith(("reason", "# why: "))]
    assert end.join(kept) == text.replace("2.0", "0.333333")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_reason_stands_above_the_cap_as_a_comment(end: str) -> None:
    text = FILE.replace("\n", end)
    once = with_cap(text, budget="people", epsilon=1.5, reason='so "they" said')
    assert f'# ours{end}# why: so "they" said{end}cap = {{epsilon = 1.5}}   # the most{end}' in once
    twice = with_cap(once, budget="people", epsilon=1.25, reason="later")
    assert twice == once.replace('# why: so "they" said', "# why: later").replace("1.5", "1.25").replace(
        'reason = "so \\"they\\" said"', 'reason = "later"'
    )
    assert "# why: " not in with_cap(twice, budget="people", epsilon=1, reason="two\nlines")
    held = '[budgets]\npeople = {reason = """\n# why: in a text\n""", cap = {epsilon = 1}}\n'
    assert tomllib.loads(with_cap(held, budget="people", epsilon=2, reason="so"))["budgets"]["people"]["reason"] == "so"


@pytest.mark.parametrize(
    "text",
    [
        "[budgets.people.cap]\nepsilon = 3 # e\n[tables]\n",
        '[budgets]\npeople = {cap = {epsilon = 1}, ledger = "x"}\n',
        '[budgets.people]\ncap.epsilon = "FILL IN"\n\n[tables]\n',
        '[budgets.people]\ncap = {epsilon = 1}\nreason = """old\n"""  # said\n',
        "[budgets.people]\ncap = {epsilon = 1}",
    ],
)
def test_every_way_to_write_a_budget(text: str) -> None:
    made = tomllib.loads(with_cap(text, budget="people", epsilon=0.1234567, reason="why"))
    assert made["budgets"]["people"]["cap"] == {"epsilon": 0.123456}
    assert made["budgets"]["people"]["reason"] == "why"


def test_which_budget() -> None:
    assert budget_in(FILE, name=None, relation="add_remove") == "people"
    with pytest.raises(UnknownName, match="people"):
        budget_in(FILE, name="peple", relation=None)
    with pytest.raises(DeclarationError, match="says nothing there"):
        budget_in(FILE, name="people", relation="replace")
    with pytest.raises(DeclarationError, match="its kind"):
        budget_in(FILE.replace("epsilon", "rho"), name="people", relation=None)
    with pytest.raises(DeclarationError, match="--budget"):
        budget_in(FILE + "[budgets.b]\n", name=None, relation=None)


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1 / 3, 0.99999999, 1.0, 123456.789, 3e7])
def test_a_cap_is_never_above_what_was_chosen(epsilon: float) -> None:
    cut = float(rounded_down(epsilon))
    assert cut <= epsilon
    assert cut == pytest.approx(epsilon, rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_no_cap_of_nothing(epsilon: float) -> None:
    with pytest.raises(DeclarationError):
        rounded_down(epsilon)
