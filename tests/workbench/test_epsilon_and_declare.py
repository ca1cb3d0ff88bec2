"""The pages that read no data: choosing an epsilon from a risk, and declaring a table by form."""

from __future__ import annotations

import re
from pathlib import Path

from serving import Served
from sordino.project.load import load_project
from sordino.risk.table_choice import choose_for_table
from visiting import person_of

STATED = {"table": "people", "attacker_prior": "0.5", "max_posterior": "0.75"}
EXACT = {"query": "SELECT COUNT(*) FROM people", "error": "20"}


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
    for wrong in ({"lower:2": ""}, {"lower:2": "200"}, {"type:2": "number"}, {"epsilon": ""}, {"unit": "nobody"}):
        assert "problem" in person.post("/declare", **fields | wrong).text
    assert not (tmp_path / "visits.parquet").exists()  # no source is opened: nothing is guessed from data
