"""What people see of each thing in a notebook: a table in HTML with every word escaped, and text that reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sordino as sd
from sordino import col
from sordino.core.text_table import align_cells, column_cells, html_table
from sordino.lab.datasets.census import census_domain, write_census_project


def people() -> Any:
    table = sd.datasets.make_census(500, sd.Rng.seeded(1))
    return sd.protect(
        table,
        domain=census_domain(),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(5),
        ledger=None,
        name="people",
    )


def test_words_are_escaped_and_an_empty_head_has_no_table() -> None:
    shown = html_table("<a>", ["<b>"], [["<c>"]], notes=["<d>"], foot="<e>")
    assert all(f"&lt;{letter}&gt;" in shown for letter in "abcde")
    assert "<table>" not in html_table("a", (), (), foot="b")


def test_a_domain_is_a_table_of_its_columns() -> None:
    domain = sd.Domain(
        {
            "n": sd.Integer(),
            "x": sd.Real(0, 10, resolution="0.5", missing=sd.Fill(1)),
            "c": sd.Category([str(i) for i in range(9)], missing="keep"),
            "at": sd.Date("2020-01-01", "2020-12-31"),
            "items": sd.List(sd.Integer(0, 3), max_items=4),
        }
    )
    rows = {row[0]: row[1:] for row in column_cells({n: c.to_dict() for n, c in domain.stored.items()})}
    assert rows["n"] == ("integer", "no bounds", "drop")
    assert rows["x"] == ("real", "0 to 10, in steps of 0.5", "counts as 1")
    assert rows["c"] == ("category", "9 values: 0, 1, 2, 3, 4, 5, ...", "keep")
    assert rows["at"][1] == "2020-01-01 to 2020-12-31"
    assert rows["items"][1] == "up to 4 of: integer 0 to 3"
    assert str(domain).splitlines()[0].split() == ["column", "type", "what", "may", "stand", "in", "it", "missing"]
    assert "<td>at</td>" in domain._repr_html_()
    assert eval(repr(sd.Domain({"n": sd.Integer(0, 1)})), vars(sd)) == sd.Domain({"n": sd.Integer(0, 1)})


def test_what_is_asked_and_answered_has_a_table() -> None:
    curator = people()
    question = curator.where(col("age") > 40).group_by("sex").agg(n=sd.count())
    assert "where age &gt; 40" in question._repr_html_()
    assert "age" in curator._repr_html_()
    batch = curator.plan([question, curator.where(col("age") > 60).agg(n=sd.count())], epsilon=1)
    assert batch._repr_html_().count("<tr>") == 3
    answers = curator.ask(batch)
    assert str(answers[0]).splitlines()[1].startswith("sex")
    past: Any = curator.releases()
    assert issubclass(type(past), list)
    assert list(past) == [curator.release("c-0001"), curator.release("c-0002")]
    assert past._repr_html_().count("<tr>") == 3
    assert "c-0002  epsilon 0.5" in str(past)
    assert "spent epsilon 1, left epsilon 4" in curator._repr_html_()


def test_a_model_has_a_table_and_its_fit_reads_among_the_releases(tmp_path: Path) -> None:
    curator = people()
    model = sd.synth.fit(curator, epsilon=1, columns=["age", "sex"], rng=sd.Rng.seeded(1))
    assert "<td>sex</td>" in model._repr_html_()
    assert str(model).splitlines()[-1].startswith("sex")
    past: Any = curator.releases()
    assert "{}" not in str(past)
    assert "<table>" not in past[0]._repr_html_()
    project = write_census_project(tmp_path, 10, sd.Rng.seeded(1))
    assert "<td>people</td>" in sd.connect(project)._repr_html_()


def test_text_columns_stand_below_each_other() -> None:
    assert align_cells(("a", "b"), [("ccc", "d")]) == "a    b\nccc  d"
