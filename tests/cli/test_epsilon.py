"""`epsilon`: the reference's numbers through the command line, requirements of a small project, and the file written."""

from __future__ import annotations

import json
import math
import tomllib
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from sordino.accounting.zcdp import rho_for
from sordino.cli.epsilon_out import rounded_up
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


def capped(text: str, epsilon: float | Decimal, reason: str) -> str:
    amount = epsilon if isinstance(epsilon, Decimal) else Decimal(rounded_down(epsilon))
    return with_cap(text, budget="people", cap={"epsilon": amount}, reason=reason)


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
    assert "rounded up" in (load_project(file).budgets["people"].reason or "")


def test_the_cap_of_a_least_epsilon_still_answers_the_question(run, census: Path) -> None:
    """Rounded up: at the cap itself the plan's error is within what was asked."""
    done = told(run("epsilon", "choose", *AVERAGE, *SUSPICION, "--write", "--format", "json"))
    cap = load_project(census / "sordino.toml").budgets["people"].cap.epsilon
    assert Fraction(repr(done["epsilon"])) < cap < Fraction(repr(done["upper"]))
    assert cap == Fraction(done["written"]["epsilon"])
    for epsilon, kept in ((done["written"]["epsilon"], True), (rounded_down(done["epsilon"]), False)):
        asked = ("plan", AVERAGE[1], "--epsilon", epsilon, "--assume-rows", "32561", "--format", "json")
        (column,) = told(run(*asked))["columns"]
        assert (column["expected_error"] <= 0.5) is kept


@pytest.mark.parametrize(
    ("least", "most", "cap"),
    [
        (0.03183184874, 1.0, "0.0318319"),
        (0.3, 1.0, "0.3"),
        (0.03183184, 0.031831849, "0.03183184"),
        (0.123456789012, 0.123456789013, "0.123456789012"),
        (0.1, 0.1, "0.1"),
        (1234567.8, 1e9, "1.23457E+6"),
    ],
)
def test_rounded_up_stays_in_the_interval(least: float, most: float, cap: str) -> None:
    found = rounded_up(Decimal(repr(least)), most=Decimal(repr(most)))
    assert str(found) == cap
    assert Fraction(repr(least)) <= Fraction(found) <= Fraction(repr(most))
    text = capped(FILE, found, "so")
    stated = tomllib.loads(text, parse_float=Decimal)["budgets"]["people"]["cap"]["epsilon"]
    assert stated == found


@pytest.mark.parametrize(
    "asked",
    [
        ("worlds", "--universe", ABSENCE, "--size", "3", "--query", "mean", "--risk", "1/3"),
        ("choose", "--table", "people", *AVERAGE, *SUSPICION),
    ],
)
def test_nothing_is_written_where_anything_is_refused(run, census: Path, asked: tuple[str, ...]) -> None:
    before = (census / "sordino.toml").read_bytes()
    for more in (("--plot", "new.svg", "--budget", "cats"), ("--plot", "missing/new.svg")):
        assert run("epsilon", *asked, "--write", *more).code in (2, 3)
    (census / "sordino.toml").write_bytes(before.replace(b"cap = {epsilon", b"cap = {delta = 1e-9, epsilon"))
    assert run("epsilon", *asked, "--write", "--plot", "new.svg").code == 2
    assert not (census / "new.svg").exists()
    (census / "sordino.toml").write_bytes(before)
    assert not [path for path in census.iterdir() if path.name.startswith(".new")]
    assert run("epsilon", *asked, "--write", "--plot", "new.svg").code == 0
    assert (census / "new.svg").exists()
    assert (census / "sordino.toml").read_bytes() != before


COLUMNS = ("--universe", f"school={SCHOOL}", "--universe", f"days={ABSENCE}", "--size", "3", "--query", "mean")


def test_several_columns_and_the_one_that_binds(run, census: Path) -> None:
    seen = ("--epsilon", "2", "--output", "2.20131", "--plot", "columns.json")
    made = told(run("epsilon", "worlds", *COLUMNS, "--risk", "1/3", *seen, "--write", "--format", "json"))
    assert [one["column"] for one in made["columns"]] == ["school", "days"]
    alone = [told(worlds(run, u, "mean", "--epsilon", "2", "--format", "json")) for u in (SCHOOL, ABSENCE)]
    for one, other in zip(made["columns"], alone, strict=True):
        assert {key: one[key] for key in other if key not in ("schema", "at")} == {
            key: value for key, value in other.items() if key not in ("schema", "at")
        }
    assert made["epsilon"] == made["columns"][1]["epsilon"]
    assert made["binding"] == "days"
    assert made["written"]["epsilon"] == "0.43172"
    assert "Of 2 columns, days allows the least." in made["written"]["reason"]
    drawn = json.loads((census / "columns.json").read_text())
    assert [panel["title"]["text"] for panel in drawn["hconcat"]] == ["school", "days"]
    assert all(len(panel["vconcat"]) == 3 for panel in drawn["hconcat"])
    shown = run("epsilon", "worlds", *COLUMNS, "--risk", "1/3").out
    assert "0.4317201196, by days" in shown
    assert shown.count("report ") == 2


def test_a_name_for_one_column(run) -> None:
    made = told(worlds(run, f"days={ABSENCE}", "mean", "--format", "json"))
    assert (made["column"], made["schema"]) == ("days", 1)


@pytest.mark.parametrize(
    ("universes", "words"),
    [
        ((SCHOOL, ABSENCE), "a name each"),
        ((f"a={SCHOOL}", ABSENCE), "a name each"),
        ((f"={SCHOOL}",), "a name each"),
        ((f"a={SCHOOL}", f"a={ABSENCE}"), "twice"),
        (("a=1,2,x,4",), "value 3 is none"),
        (("a=1,2,inf,4",), "only finite numbers"),
    ],
)
def test_names_of_columns(run, universes: tuple[str, ...], words: str) -> None:
    stated = [word for text in universes for word in ("--universe", text)]
    done = run("epsilon", "worlds", *stated, "--size", "3", "--query", "mean", "--risk", "1/3")
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_the_bound_is_labelled_where_worlds_cannot_be_counted(run, tmp_path: Path) -> None:
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
    made = told(run(*asked, "--format", "json"))
    assert (made["exact"], made["method"], made["at"]["method"]) == (False, "closed-form bound", "closed-form bound")
    assert made["sentence"].endswith("(Lee & Clifton 2011, closed-form bound).")
    shown = " ".join(run(*asked, "--plot", str(tmp_path / "bound.json")).out.split())
    assert "from the closed-form bound: the worlds are too many to count" in shown
    assert "(closed-form bound: the worlds are too many to count)" in shown
    assert "exact" not in shown
    drawn = (tmp_path / "bound.json").read_text()
    assert "closed-form upper bound" in drawn
    assert '"exact risk"' not in drawn
    few = told(worlds(run, ABSENCE, "mean", "--epsilon", "2", "--format", "json"))
    assert (few["exact"], few["method"], few["at"]["method"]) == (True, "exact risk", "exact risk")


def test_gaussian_noise_in_the_currency_of_the_budget(run, census: Path) -> None:
    power = ("--test-level", "0.05", "--max-power", "0.2", "--delta", "1e-6", "--format", "json")
    pair = told(run("epsilon", "choose", *AVERAGE, *power))
    assert (pair["delta"], pair["rho"]) == (1e-6, None)
    assert "whichever errs less" in pair["noise"]
    refused = run("epsilon", "choose", *AVERAGE, *power, "--write")
    assert (refused.code, refused.out) == (2, "")
    assert "is not {epsilon = ..., delta = ...}" in refused.err
    file = census / "sordino.toml"
    line = next(text for text in file.read_text().splitlines() if text.startswith("cap = "))
    start = file.read_text()
    file.write_text(start.replace(line, "cap = {epsilon = 1.0, delta = 1e-9} # ours"))
    written = told(run("epsilon", "choose", *AVERAGE, *power, "--write"))["written"]
    assert f"cap = {{epsilon = {written['epsilon']}, delta = 1e-06}} # ours" in file.read_text()
    assert written["epsilon"] == str(rounded_up(Decimal(repr(pair["lower"])), most=Decimal(1)))
    file.write_text(start.replace(line, "cap = {rho = 0.5, delta = 1e-6} # ours"))
    made = told(run("epsilon", "choose", *AVERAGE, *power, "--write"))
    assert "at rho" in made["noise"]
    rho = made["written"]["rho"]
    assert f"cap = {{rho = {float(rho)!r}, delta = 1e-6}} # ours" in file.read_text()
    assert Decimal(rho) > Decimal(repr(made["rho"]))
    asked = ("plan", AVERAGE[1], "--assume-rows", "32561", "--format", "json", "--rho")
    for amount, kept in ((rho, True), (repr(made["rho"]), True), (repr(made["rho"] * (1 - 1e-6)), False)):
        (column,) = told(run(*asked, amount))["columns"]
        assert (column["expected_error"] <= 0.5) is kept
    top = told(run("epsilon", "choose", *power, "--write"))  # no accuracy: the most that the test allows
    assert Fraction(top["written"]["rho"]) <= rho_for(top["upper"], "1e-6")
    done = run("epsilon", "choose", *AVERAGE, *SUSPICION, "--delta", "1e-6")
    assert done.code == 2
    assert "posterior allows 0" in done.err


def test_no_cap_below_what_was_spent(run, census: Path) -> None:
    before = (census / "sordino.toml").read_bytes()
    assert run("ask", "SELECT COUNT(*) AS n FROM people", "--epsilon", "0.5").code == 0
    done = worlds(run, ABSENCE, "mean", "--write", "--plot", "risk.svg")
    assert (done.code, done.out) == (2, "")
    assert "has spent epsilon 0.5 already, more than a cap of 0.43172" in done.err
    assert (census / "sordino.toml").read_bytes() == before
    assert not (census / "risk.svg").exists()
    assert worlds(run, SCHOOL, "mean", "--write").code == 0  # 0.525149
    assert run("ledger", "amend", "--reason", "the board decided").code == 0
    assert "spent of 0.525149" in run("budget").out


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_new_reason_stands_below_the_cap(end: str) -> None:
    text = FILE.replace("\n", end)
    made = capped(text, 1 / 3, 'so "they" said')
    assert f"# the most{end}reason = " in made
    kept = [line for line in made.split(end) if not line.startswith(("reason", "# why: "))]
    assert end.join(kept) == text.replace("2.0", "0.333333")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_reason_stands_above_the_cap_as_a_comment(end: str) -> None:
    text = FILE.replace("\n", end)
    once = capped(text, 1.5, 'so "they" said')
    assert f'# ours{end}# why: so "they" said{end}cap = {{epsilon = 1.5}}   # the most{end}' in once
    twice = capped(once, 1.25, "later")
    assert twice == once.replace('# why: so "they" said', "# why: later").replace("1.5", "1.25").replace(
        'reason = "so \\"they\\" said"', 'reason = "later"'
    )
    assert "# why: " not in capped(twice, 1, "two\nlines")
    held = '[budgets]\npeople = {reason = """\n# why: in a text\n""", cap = {epsilon = 1}}\n'
    assert tomllib.loads(capped(held, 2, "so"))["budgets"]["people"]["reason"] == "so"


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
    made = tomllib.loads(capped(text, 0.1234567, "why"))
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
