"""Rules on the command line: lines of the project file and of `--rule` hold in what is drawn, and `synth rules` proposes some."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cli.support import Run, enter_copy
from sordino.ask.project.load import load_project
from sordino.core.ledger.ledger import Ledger
from sordino.core.noise.rng import Rng
from sordino.datasets import write_census_project
from sordino.synth import declared_rules


@pytest.fixture(scope="session")
def census(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ruled")
    write_census_project(directory, 1_000, Rng.seeded(11))
    file = directory / "sordino.toml"
    file.write_text(file.read_text().replace("cap = {epsilon = 2.0} ", "cap = {epsilon = 500, delta = 1e-3} "))
    return directory


@pytest.fixture
def here(census: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter_copy(census, tmp_path / "here", monkeypatch)


def state(rules: str) -> None:
    """State rules in the project file here."""
    file = Path("sordino.toml")
    file.write_text(file.read_text().replace("[tables.people]\n", f"[tables.people]\nrules = {rules}\n"))


def charges() -> int:
    path = Path(str(load_project("sordino.toml").budgets["people"].ledger))
    if not path.exists():
        return 0
    with Ledger.existing(str(path)) as ledger:
        return len(ledger.charges())


@pytest.mark.deep
@pytest.mark.usefixtures("here")
def test_rules_of_the_project_file_and_of_options_hold_in_what_is_drawn(run: Run) -> None:
    Path("kinds.csv").write_text("sex,region\nFemale,North\nFemale,South\nMale,West\n")
    state('["never age < 40 AND sex = \'Male\'", "allowed kinds.csv", "education_num <= hours_per_week"]')
    assert len(declared_rules(load_project("sordino.toml"))) == 3
    words = ["--columns", "sex,region,age", "--rule", "age >= 20", "--epsilon", "5"]
    # a rule about columns that are not modelled takes no part
    assert run("synth", "fit", *words, "-o", "m.model", "-q").code == 0
    assert run("synth", "sample", "m.model", "--rows", "500", "-o", "m.parquet").code == 0
    rows = pq.read_table("m.parquet").to_pylist()
    assert len(rows) == 500
    assert all(r["age"] is None or r["age"] >= 20 for r in rows)
    assert not any(r["age"] is not None and r["age"] < 40 and r["sex"] == "Male" for r in rows)
    pairs = {(r["sex"], r["region"]) for r in rows if None not in (r["sex"], r["region"])}
    assert pairs <= {("Female", "North"), ("Female", "South"), ("Male", "West")}
    shown = run("synth", "show", "m.model").out
    assert "never age < 40 and sex = 'Male'" in shown
    assert "sex, region are one of 3 combinations" in shown


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("rules", "words", "code", "said"),
    [
        ('["age"]', [], 2, "is no rule"),
        ('["age + hours_per_week"]', [], 2, "is no rule"),
        ('["age != 3"]', [], 2, "is no rule"),
        ("[\"blank agee when sex = 'Male'\"]", [], 2, "'agee' is not a column"),
        ('["determines no.csv"]', [], 2, "no.csv cannot be read"),
        ('["age <= 30", "age > 40"]', [], 2, "age <= 30; 40 < age; that cannot hold"),
        ("[]", ["--rule", "age > 200"], 2, "cannot hold"),
        ('"age <= 30"', [], 2, "tables.people.rules: must be a list"),
    ],
)
def test_rules_that_cannot_be_are_refused_before_a_charge(
    rules: str, words: list[str], code: int, said: str, run: Run
) -> None:
    before = charges()
    state(rules)
    done = run("synth", "fit", "--columns", "sex,age,hours_per_week", "--epsilon", "1", *words, "-o", "m.model")
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    Path("sordino.toml").write_text(Path("sordino.toml").read_text().replace(f"rules = {rules}\n", ""))
    assert charges() == before


# Rules of a project file, what `check` says of them, and the line of `rules` that it says it at, from 0; -1 is the key.
FAULTS = [
    (["age"], "is no rule", 0),
    (["age <= 30", "blank agee when sex = 'Male'"], "agee", 1),
    (["never sexx = 'Male'"], "sexx", 0),
    (["age <= 30", "determines no.csv"], "no.csv cannot be read", 1),
    (["age > 200"], "the declared bounds allow no such row", 0),
    (["sex <= age"], "needs numbers", 0),
    (["never sex = 'Mal'"], "'Mal'", 0),
    (["age <= 30", "hours_per_week >= 10", "age > 40"], "age <= 30; 40 < age; that cannot hold", -1),
]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("rules", "said", "at"), FAULTS)
def test_check_reads_the_rules_that_a_fit_would_refuse(rules: list[str], said: str, at: int, run: Run) -> None:
    state("[\n" + "".join(f"    {json.dumps(rule)},\n" for rule in rules) + "]")
    done = run("check")
    assert done.code == 2
    (problem,) = done.out.splitlines()
    lines = Path("sordino.toml").read_text().splitlines()
    line = lines.index("rules = [") + 1 + at + 1
    assert problem.startswith(f"sordino.toml:{line}:")
    assert f"tables.people.rules{f'[{at}]' if at >= 0 else ''}: " in problem
    assert said in problem


@pytest.mark.usefixtures("here")
def test_check_counts_rules_that_can_be(run: Run) -> None:
    state('["never age < 40 AND sex = \'Male\'", "education_num <= hours_per_week"]')
    done = run("check")
    assert done.code == 0
    assert ", 2 rules; every source can be opened" in done.out


@pytest.mark.usefixtures("here")
def test_rules_are_proposed_for_nothing_and_tested_for_a_loss(run: Run) -> None:
    Path("book.csv").write_text("name,text\nhours_per_week,N/A (less than 16 years old)\ngain,\n")
    before = charges()
    proposed = run("synth", "rules", "--codebook", "book.csv")
    assert proposed.code == 0, proposed.err
    assert '"blank hours_per_week when age < 16",  # the codebook says so of hours_per_week' in proposed.out
    assert charges() == before
    state('["education_num <= age"]')
    tested = run("synth", "rules", "--codebook", "book.csv", "--epsilon", "2")
    assert tested.code == 0, tested.err
    assert '"education_num <= age",  # declared; broken in' in tested.out
    assert "charge c-" in tested.out + tested.err
    assert charges() == before + 1
