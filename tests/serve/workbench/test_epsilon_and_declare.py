"""The pages that read no data: choosing an epsilon from a risk, and declaring a table by form."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

from serving import Served
from sordino.ask.project.load import load_project
from sordino.core.domain import Category, DateTime, Fill, List, Real
from sordino.core.loss import ApproxDP
from sordino.lab.risk.table_choice import choose_for_table
from visiting import person_of

STATED = {"table": "people", "attacker_prior": "0.5", "max_posterior": "0.75"}
EXACT = {"query": "SELECT COUNT(*) FROM people", "error": "20"}
RULES_THAT_CANNOT_BE = (
    ("age > 130", "tables.visits.rules[0]: 130 < age: the declared bounds allow no such row"),
    ("age <= 3\nage > 5", "tables.visits.rules: no declared values keep to all of"),
    ("never agee > 3", "did you mean 'age'?"),
    ("determines kinds.csv", "its file is not here"),
)


def test_an_epsilon_follows_from_a_risk(server: Served) -> None:
    person = person_of(server)
    found = person.post("/epsilon/interval", **STATED).text
    assert "from 0 to 1.099" in found  # ln 3
    assert "<img" not in found
    both = person.post("/epsilon/interval", **STATED, **EXACT).text
    choice = choose_for_table(
        server.service.project, query=EXACT["query"], error=EXACT["error"], attacker_prior="0.5", max_posterior="0.75"
    ).choice
    assert f"from {choice.lower:.4g} to {choice.upper:.4g}" in both
    place = re.search(r'src="(/epsilon/light.png[^"]*)"', both)
    assert place is not None
    picture = person.get(place[1].replace("&amp;", "&"))
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/png")
    assert picture.content != person.get(place[1].replace("&amp;", "&").replace("light", "dark")).content
    conflict = person.post("/epsilon/interval", **STATED, **EXACT | {"error": "1"}).text
    assert "problem" in conflict
    assert server.service.ledger("people").charges() == []


def test_a_table_is_declared_by_form(server: Served, tmp_path: Path) -> None:
    person = person_of(server, "ola")
    fields = {"name": "visits", "source": "visits.parquet", "neighbors": "replace", "unit": "who", "max_rows": "3"}
    fields |= {"epsilon": "1/2", "reason": 'the "board" said so', "budget": "visits"}
    fields |= {"name:1": "who", "type:1": "identifier"}
    fields |= {"name:2": "age", "type:2": "integer", "lower:2": "0", "upper:2": "120", "missing:2": "keep"}
    fields |= {"name:3": "why", "type:3": "category", "values:3": 'flu\nback "pain"'}
    found = person.post("/declare", **fields)
    assert found.status_code == 200, found.text
    text = person.post("/declare/file", **fields).text
    (tmp_path / "declared.toml").write_text(text)
    table = load_project(tmp_path / "declared.toml").tables["visits"]
    assert table.neighbors.relation == "replace"
    assert table.neighbors.to_dict()["privacy_unit"] == {"column": "who", "max_rows": 3}
    assert list(table.domain.columns) == ["who", "age", "why"]
    ruled = fields | {"rules": "blank why when age < 5"}
    assert "Rules that the names" not in person.post("/declare", **ruled).text
    (tmp_path / "ruled.toml").write_text(person.post("/declare/file", **ruled).text)
    assert load_project(tmp_path / "ruled.toml").tables["visits"].rules == ("blank why when age < 5",)
    for rules, words in RULES_THAT_CANNOT_BE:
        assert words in unescape(person.post("/declare", **fields | {"rules": rules}).text)
    suggesting = fields | {"name:4": "income", "type:4": "integer", "lower:4": "0", "upper:4": "9"}
    assert "<code>blank income when age < 15</code>" in unescape(person.post("/declare", **suggesting).text)
    for wrong in ({"lower:2": ""}, {"lower:2": "200"}, {"type:2": "number"}, {"epsilon": ""}, {"unit": "nobody"}):
        assert "problem" in person.post("/declare", **fields | wrong).text
    assert not (tmp_path / "visits.parquet").exists()  # no source is opened: nothing is guessed from data


def test_lists_moments_and_several_tables_are_declared_by_form(server: Served, tmp_path: Path) -> None:
    person = person_of(server)
    first = {"name": "people", "source": "people.parquet", "neighbors": "add_remove", "unit": "who", "max_rows": "1"}
    first |= {"of": "person", "budget": "all", "epsilon": "2", "delta": "1e-6", "kind": "private"}
    first |= {"name:1": "who", "type:1": "identifier", "name:2": "job", "type:2": "category", "values:2": "nurse\ncook"}
    first |= {"name:3": "langs", "type:3": "list", "items:3": "category", "values:3": "de\nen", "max_items:3": "3"}
    first |= {"name:11": "seen", "type:11": "datetime", "lower:11": "2024-01-01", "upper:11": "2024-12-31 23:59:59"}
    first |= {"zone:11": "Europe/Berlin", "resolution:11": "minute", "missing:11": "drop"}
    first |= {"name:12": "pay", "type:12": "real", "lower:12": "0", "upper:12": "99.5", "resolution:12": "0.5"}
    first |= {"missing:12": "fill", "fill:12": "0"}
    more = person.post("/declare/more", **first)
    assert more.status_code == 200, more.text
    assert "Declared so far: people." in more.text
    found = re.search('name="before" value="([^"]*)"', more.text)
    assert found is not None
    second = {"before": unescape(found[1]), "name": "visits", "source": "visits.parquet", "neighbors": "add_remove"}
    assert "csrf_token" not in second["before"]
    second |= {"unit": "who", "max_rows": "5", "of": "person", "budget": "all", "name:1": "who", "type:1": "identifier"}
    found = re.search('name="before" value="([^"]*)"', person.post("/declare/more", **second).text)
    assert found is not None
    third = {"before": unescape(found[1]), "name": "wages", "source": "wages.csv", "kind": "public", "key": "job"}
    third |= {
        "name:1": "job",
        "type:1": "identifier",
        "name:2": "wage",
        "type:2": "integer",
        "lower:2": "0",
        "upper:2": "9",
    }
    third["source"] = "wages.parquet"
    text = person.post("/declare/file", **third).text
    (tmp_path / "declared.toml").write_text(text)
    project = load_project(tmp_path / "declared.toml")
    people, visits = project.tables["people"], project.tables["visits"]
    assert people.neighbors.to_dict()["privacy_unit"] == {"column": "who", "max_rows": 1, "of": "person"}
    assert people.domain.lists["langs"] == List(Category(["de", "en"]), max_items=3)
    assert people.domain["seen"] == DateTime(
        "2024-01-01", "2024-12-31 23:59:59", zone="Europe/Berlin", resolution="minute"
    )
    assert people.domain["pay"] == Real(0, "99.5", resolution="0.5", missing=Fill(0))
    assert (visits.budget, project.budgets["all"].cap.describe()) == ("all", ApproxDP(2, delta="1e-6").describe())
    assert (project.public["wages"].key, list(project.budgets)) == ("job", ["all"])
    for wrong in ({"zone:11": ""}, {"max_items:3": "many"}, {"items:3": "list"}, {"fill:12": ""}, {"before": "[1]"}):
        assert "problem" in person.post("/declare", **first | wrong).text, wrong
    assert person.post("/declare/more", **first | {"epsilon": "", "delta": ""}).status_code == 400
    assert "Begin with" in person.post("/declare", name="").text


def test_a_form_reads_no_file(server: Served, tmp_path: Path) -> None:
    """What is declared before is fields, not a project file: no key of it makes the server open one."""
    (tmp_path / "secret.csv").write_text("hidden\n")
    person = person_of(server)
    before = [{"name": "t", "kind": "public", "source": "t.parquet", "key": "a", "name:1": "a", "type:1": "category"}]
    before[0] |= {"values_from:1": str(tmp_path / "secret.csv"), "values:1": "x"}
    form = {"before": json.dumps(before), "name": "u", "source": "u.parquet", "neighbors": "replace", "budget": "b"}
    form |= {"epsilon": "1", "name:1": "b", "type:1": "boolean", "missing:1": "fill", "fill:1": "true"}
    found = person.post("/declare", **form).text
    assert "sound" in found
    assert "values_from" not in found
    for name in ("x]\n[serve]\nstore = 'a'", 'b"', "[serve]"):
        assert "problem" in person.post("/declare", **form | {"name": name}).text
        assert "problem" in person.post("/declare", **form | {"budget": name}).text
