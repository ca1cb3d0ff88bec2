"""The tables of a tabulation as people read them: pivots, a page that prints, and pictures."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.core.loss import ZCDP
from sordino.reporting.released_tables import describe_table, pivot, tables_page

DOMAIN = sd.Domain(
    {
        "region": sd.Category(["north", "east & <west>"], missing="keep"),
        "sex": sd.Category(["f", "m"]),
        "day": sd.Integer(1, 20),
        "income": sd.Integer(0, 90),
    }
)
ROWS = pa.table(
    {
        "region": ["north", "east & <west>", None, "north"],
        "sex": ["f", "m", "f", "m"],
        "day": [1, 2, 3, 20],
        "income": [1, 2, 3, 4],
    }
)


@functools.cache
def release(measures: int = 2) -> sd.Release:
    people = protect(ROWS, DOMAIN, budget=ZCDP(10**9, delta="1e-9"))
    chosen: dict[str, Any] = {"count": sd.count(), "income": sd.sum("income")}
    tables = [["region", "sex"], ["sex"], ["sex", "day"], ["day", "sex", "region"], []]
    return people.ask(sd.tabulate(tables, {name: chosen[name] for name in list(chosen)[:measures]}), rho="1000000")


def test_a_pivot_has_the_keys_of_the_last_column_side_by_side_and_each_interval() -> None:
    count, income = pivot(release(), ("region", "sex"), confidence=0.9)
    assert (count.title, income.title) == ("by region and sex: count", "by region and sex: income")
    assert count.head == ("region", "f", "m")
    table = release().tables.to_arrow(["region", "sex"], confidence=0.9).to_pylist()
    cells = {(row["region"], row["sex"]): row for row in table}
    assert [row[0] for row in count.rows] == ["north", "east & <west>", "(missing)"]
    for name, by_row in (("count", count), ("income", income)):
        for label, *shown in by_row.rows:
            for sex, text in zip("fm", shown, strict=True):
                row = cells[None if label == "(missing)" else label, sex]
                assert text == f"{row[name]:,} ({row[f'{name}_low']:,} to {row[f'{name}_high']:,})"


def test_what_is_no_pivot_has_a_row_a_cell() -> None:
    (by_sex,) = pivot(release(), ("sex",), confidence=0.95)
    assert by_sex.head == ("sex", "count", "income")
    (by_day,) = pivot(release(), ("sex", "day"), confidence=0.95)
    assert by_day.head == ("sex", "day", "count", "income")
    assert len(by_day.rows) == 40
    (total,) = pivot(release(), (), confidence=0.95)
    assert [len(row) for row in total.rows] == [2]
    three = pivot(release(), ("day", "sex", "region"), confidence=0.95)[0]
    assert three.head == ("day", "sex", "north", "east & <west>", "(missing)")
    assert len(three.rows) == 40


def test_a_notebook_shows_the_tables_and_escapes_their_words() -> None:
    html = release()._repr_html_()
    assert html == release().tables._repr_html_()
    assert "<b>by region and sex: count</b>" in html
    assert "east &amp; &lt;west&gt;" in html
    assert "<west>" not in html
    assert "NOT PRIVATE" in html
    assert "by_columns" not in html
    plain = protect(ROWS, DOMAIN).ask(sd.count(), epsilon=1)._repr_html_()
    assert "<td>" in plain


def test_one_table_is_a_release_of_its_own() -> None:
    answer = release().tables.answer(("sex", "region"))
    assert [key.name for key in answer.keys] == ["sex", "region"]
    expected = release().tables["sex", "region"].to_pylist()
    assert answer.rows == [{name: row[name] for name in answer.columns} for row in expected]
    ends = answer.interval(0.95).to_pylist()
    assert [row["count_lower"] for row in ends] == [row["count_low"] for row in expected]
    assert answer.charge == release().charge
    assert answer.cost == release().cost
    again = sd.Release.from_dict(answer.to_dict())
    assert again.rows == answer.rows
    with pytest.raises(sd.errors.UnknownName, match="no table by day was asked for"):
        release().tables.answer("day")


def test_a_page_has_a_list_of_contents_and_the_notes_under_each_table() -> None:
    page = tables_page(release(), confidence=0.8)
    titles = re.findall(r'<li><a href="#(table-\d)">([^<]*)</a>', page)
    assert titles[0] == ("table-1", "Table 1: by region and sex")
    assert len(titles) == 5
    assert all(page.count(f'<section id="{name}">') == 1 for name, _ in titles)
    assert page.count("intervals are at 80%") == 5
    assert "@media print" in page
    assert "NOT PRIVATE" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_the_notes_state_base_unit_interval_and_loss() -> None:
    notes = describe_table(release(), ("sex",), confidence=0.9)
    assert notes[0].startswith("NOT PRIVATE")
    assert any(note.startswith("base: the number of rows and the sum of income") for note in notes)
    assert any(note.startswith("count: rows; +-") and "at 90%" in note for note in notes)
    assert any("cost: rho 1000000" in note for note in notes)


@pytest.mark.deep
@pytest.mark.parametrize("measures", [1, 2])
def test_pictures_are_small_multiples(measures: int) -> None:
    spec = json.loads(json.dumps(release(measures).plot(confidence=0.8).spec()))
    titles = [panel["title"]["text"] for panel in spec["concat"]]
    assert titles == ["by region and sex", "by sex", "by sex and day", "by day and sex and region", "in all"]
    assert spec["columns"] == (2 if measures == 1 else 1)
    assert "80% intervals" in json.dumps(spec["title"])
    assert "NOT PRIVATE" in json.dumps(spec["title"])
    one = release(measures).tables.plot("region", "sex")
    assert "concat" not in one.spec()
    with pytest.raises(sd.errors.DeclarationError):
        release(measures).plot(confidence=2)
