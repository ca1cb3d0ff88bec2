"""`sordino attack` and its functions: attacks together on the same rows, as text, data, a picture and a page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from browsing import opened_browser, opened_page
from cli.support import Run, read_json
from sordino.core.accounting.belief import power_bound
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError, UnknownName
from sordino.lab.audit.attack_collection import Attacks
from sordino.lab.audit.attack_suites import attack_kind, attack_local, attack_release, attack_synth
from sordino.lab.datasets.census import make_census


@pytest.fixture(scope="module")
def counts() -> Attacks:
    """Return attacks on counts of invented people."""
    return attack_release(people=50, epsilon=[1, 100])


@pytest.fixture(scope="module")
def synthetic() -> Attacks:
    """Return attacks on synthetic rows of invented people."""
    return attack_synth(people=120)


@pytest.mark.deep
def test_counts_without_noise_reveal_all_and_those_with_noise_little(counts: Attacks) -> None:
    """Fifty people: .25 is beyond what theory allows by 4 standard errors of a share of people."""
    for attack in counts.attacks:
        assert attack.results[0].achieved == 1
        for one in attack.results[1:]:
            assert one.achieved < one.allowed + 0.25
        assert min(r.achieved for r in attack.results if r.epsilon == 1) < 0.8
    assert counts.attacks[1].results[-1].achieved > 0.99  # asked 1,000 times at epsilon 10 each, by nobody's leave


def test_a_synthetic_table_hides_members_and_rows_without_names_do_not(synthetic: Attacks) -> None:
    membership, attribute, closest = synthetic.attacks
    for attack in synthetic.attacks:
        bare, made = attack.results
        assert bare.achieved > 0.85
        assert made.achieved < made.allowed + 0.2
    told = membership.results[1]
    assert told.accused is not None
    assert told.achieved == pytest.approx((told.found or 0) - told.accused)
    assert told.most_found == pytest.approx(power_bound(1, level=str(told.accused)))
    assert attribute.results[1].allowed < 1
    assert synthetic.closest is not None
    assert synthetic.closest.attack == closest
    assert synthetic.closest.results[0].copies()[0] == 1


@pytest.mark.deep
def test_reports_are_averaged_away_unless_an_answer_is_permanent() -> None:
    """1,900 people: 4 standard errors are .04."""
    _, one, fresh, kept = attack_local(rounds=30).attacks[0].results
    assert one.achieved < one.allowed + 0.04
    assert fresh.achieved > 0.8
    assert kept.achieved < kept.allowed + 0.04
    assert kept.achieved > kept.guessing + 0.02  # the permanent answer is found, and no more
    assert (one.epsilon, kept.epsilon) == (1, 1)
    assert fresh.epsilon == pytest.approx(30)


@pytest.mark.deep
def test_the_same_seed_gives_the_same_attacks() -> None:
    assert attack_release(people=20) == attack_release(people=20) != attack_release(people=20, seed=2)


def test_secrets_are_read_and_what_is_none_is_refused() -> None:
    rows = pa.table({"age": [10, 20, 30, None] * 5, "town": ["a", "b", "a", "b"] * 5})
    assert attack_release(rows, secret="age > 15", people=20).subject.startswith("15 people")
    assert attack_release(rows, secret="town = 'a'", people=20).attacks[0].results[0].guessing == 0.5
    assert not attack_release(rows, secret="age < 25", people=20).invented
    for secret, words in (
        ("age", "COLUMN = VALUE"),
        ("town > a", "compares numbers"),
        ("age > 99", "somebody has it"),
    ):
        with pytest.raises(DeclarationError, match=words):
            attack_release(rows, secret=secret)
    with pytest.raises(UnknownName, match="is not there"):
        attack_release(rows, secret="aeg > 3")
    with pytest.raises(DeclarationError, match="needs the domain"):
        attack_synth(rows)
    with pytest.raises(DeclarationError, match="needs the labels"):
        attack_local(["a"])


def test_a_page_loads_nothing_and_escapes_what_it_says(counts: Attacks) -> None:
    page = counts.page()
    assert "default-src 'none'" in page
    assert "size: A4" in page
    assert not re.search(r"(?:src|href)=|https?://|<script", page)
    assert page.count("<section>") == 3
    assert "NOT PRIVATE" in page
    rows = pa.table({"<i>": [0, 1] * 20})
    with pytest.raises(DeclarationError):
        attack_release(rows, secret="<i> = 1")
    bold = Attacks("<b>", "x", counts.attacks, 1)
    assert "&lt;b&gt;" in bold.page()
    assert "&lt;b&gt;" in bold._repr_html_()


@pytest.mark.deep
def test_all_are_drawn_and_are_plain_data(counts: Attacks, synthetic: Attacks) -> None:
    for thing in (counts, counts.attacks[0], synthetic.closest):
        assert sd.plot(thing).title.startswith("NOT PRIVATE")
    plain = json.loads(synthetic.to_json())
    assert plain["private"] is False
    assert plain["closest"]["members"] == 120
    assert "NOT PRIVATE" in repr(counts)


@pytest.mark.deep
def test_a_page_prints_on_one_sheet(counts: Attacks, synthetic: Attacks, tmp_path: Path) -> None:
    with opened_browser() as browser:
        for number, found in enumerate((counts, synthetic, attack_local(people=100))):
            (tmp_path / f"{number}.html").write_text(found.page())
            with opened_page(browser) as page:
                page.goto((tmp_path / f"{number}.html").as_uri())
                pdf = page.pdf(prefer_css_page_size=True, print_background=True)
                assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 1


def test_the_command_attacks_an_invented_census(run: Run, tmp_path: Path) -> None:
    words = ("attack", "release", "--people", "20", "--quiet")
    found = read_json(
        run(*words, "--format", "json", "-o", str(tmp_path / "b.html"), "--plot", str(tmp_path / "b.svg"))
    )
    assert [a["name"].split()[0] for a in found["attacks"]] == ["Differencing", "Averaging,", "Reconstruction"]
    assert found["invented"] is True
    assert "NOT PRIVATE" in (tmp_path / "b.html").read_text()
    assert (tmp_path / "b.svg").stat().st_size > 1000
    assert run(*words, "-o", str(tmp_path / "b.html")).code == 2
    said = run("attack", "local", "--people", "200", "--rounds", "4", "--epsilon", "1,2").out
    assert said.startswith("NOT PRIVATE")
    assert said.count("4 fresh reports") == 2
    assert "sordino attack local" in run(*words, "--rounds", "4").err
    assert run("attack", "local", "--secret", "sex").code == 2


PROJECT = """
[budgets.main]
cap = {{ epsilon = 1 }}
ledger = "people.ledger"
[tables.people]
source = "{path}"
budget = "main"
neighbors = "replace"
privacy_unit = "row"
[tables.people.columns]
age = {{ type = "integer", lower = 17, upper = 90 }}
sex = {{ type = "category", values = ["Female", "Male"] }}
"""


def test_the_command_attacks_declared_rows_and_charges_nothing(run: Run, tmp_path: Path) -> None:
    pq.write_table(make_census(300, Rng.seeded(3)).select(["age", "sex"]), tmp_path / "people.parquet")
    (tmp_path / "sordino.toml").write_text(PROJECT.format(path="people.parquet"))
    at: tuple[Any, ...] = ("--project", str(tmp_path), "--table", "people", "--people", "60", "--format", "json")
    for words in (("release", "--secret", "sex = Female"), ("synth", "--secret", "sex"), ("local", "--secret", "sex")):
        found = read_json(run("attack", *words, *at))
        assert found["invented"] is False
        assert found["attacks"][0]["results"][0]["achieved"] > 0.4
    assert run("attack", "local", *at).code == 2
    assert not (tmp_path / "people.ledger").exists()


def test_rows_that_cannot_be_read_in_the_open_are_refused() -> None:
    with pytest.raises(DeclarationError, match="declared table"):
        attack_kind("local", secret="sex")
