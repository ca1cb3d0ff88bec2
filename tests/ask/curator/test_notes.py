"""What an answer is about, said beside it: in Python, JSON, the stored release, the notebook and the terminal."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from ask.curator.support import S, curator
from sordino import col
from sordino.cli.ask.render_release import cost_lines

UNIT = sd.PrivacyUnit("id", max_rows=5)
CAPPED = "at most 5 rows of one id count; rows beyond are not counted"
KEYED = S.group_by("occ").agg(sd.count().alias("n"))
TOWNS = S.group_by("town").agg(sd.count().alias("n"))


def people(unit: Any = "row", *, seed: int = 7, rows: int = 600) -> Any:
    table = pa.table(
        {
            "id": [f"u{i // 10}" for i in range(rows)],
            "occ": [["Sales", "Tech"][i % 2] for i in range(rows)],
            "town": [f"t{i % 3}" for i in range(rows)],
            "x": [i % 9 for i in range(rows)],
        }
    )
    domain = sd.Domain(
        {
            "id": sd.Identifier(),
            "occ": sd.Category(["Sales", "Tech"]),
            "town": sd.Identifier(),
            "x": sd.Integer(0, 9),
        }
    )
    return curator(source=table, domain=domain, unit=unit, budget=sd.ApproxDP(1000, "0.1"), seed=seed)


ASKED: dict[str, tuple[Any, Any, dict[str, Any], list[str]]] = {
    "rows": ("row", KEYED, {}, []),
    "units": (UNIT, KEYED, {}, [CAPPED]),
    "a median of units": (UNIT, sd.median("x"), {}, [CAPPED, "the median of an even number"]),
    "a choice of units": (UNIT, sd.most_common("occ"), {}, [CAPPED]),
    "having": ("row", KEYED.having(col("n") > 3), {}, ["HAVING or LIMIT chose these rows by noisy values", "for all 2 groups"]),
    "limit": (UNIT, KEYED.order_by(-col("n")).limit(1), {}, [CAPPED, "HAVING or LIMIT chose these rows"]),
    "all rows, ordered": ("row", KEYED.order_by(-col("n")).limit(2), {}, []),
    "having on a key": ("row", KEYED.having(col("occ") != "Tech"), {}, []),
    "the first by key": ("row", KEYED.order_by("occ").limit(1), {}, []),
    "private keys": ("row", TOWNS, {"delta": "1e-6"}, ["keys of fewer than about "]),
    "capped keys": (
        sd.PrivacyUnit("id", max_rows=5, max_groups=2), TOWNS, {"delta": "1e-6"},
        [CAPPED, "at most 2 keys of one id count; its rows under other keys are not counted", "keys of fewer than about "],
    ),
    "selected private keys": (
        "row", TOWNS.having(col("n") > 3), {"delta": "1e-6"}, ["keys of fewer than", "HAVING or LIMIT", "for all groups together"]
    ),
    "a sample": ("row", S.sample("1/2").agg(sd.count()), {}, ["each unit is used with chance 0.5"]),
}  # fmt: skip


LEFT_OUT: dict[
    str, tuple[str, ...]
] = {  # the columns whose missing cells leave a row out: the key's, as declared, and the unit's
    **dict.fromkeys(["rows", "having", "all rows, ordered", "having on a key", "the first by key"], ("occ",)),
    **dict.fromkeys(["units", "a choice of units", "limit"], ("id", "occ")),
    **dict.fromkeys(["private keys", "selected private keys"], ("town",)),
    "a median of units": ("id",),
    "capped keys": ("id", "town"),
}


@pytest.mark.each(4)
@pytest.mark.parametrize("name", ASKED)
def test_one_note_for_each_thing_that_an_answer_is_not_about(name: str) -> None:
    unit, question, more, said = ASKED[name]
    said = [*said, *(f"rows whose {column} is missing are left out" for column in LEFT_OUT.get(name, ()))]
    table = people(unit)
    release = table.ask(question, epsilon=10, **more)
    assert all(any(words in note for note in release.notes) for words in said), release.notes
    assert len(release.notes) == len([s for s in said if not s.startswith("for all")]), release.notes
    assert json.loads(release.to_json())["notes"] == list(release.notes) == list(table.release(release.charge).notes)
    for note in release.notes:
        assert f"note: {note}" in cost_lines(release)
        assert note in release._repr_html_().replace("&#x27;", "'")


def test_the_size_below_which_keys_stay_hidden_is_that_of_the_threshold() -> None:
    plan = people().plan(TOWNS, epsilon=1, delta="1e-6")
    threshold = plan.procedure.allocation.threshold
    half = int(plan.notes[-1].split("fewer than about ")[1].split()[0])
    assert threshold.appears(half - 1) < 0.5 <= threshold.appears(half)
    sure = int(plan.notes[-1].split("95% of those of ")[1].rstrip(")"))
    assert threshold.appears(sure - 1) < 0.95 <= threshold.appears(sure)


@pytest.mark.deep
@pytest.mark.parametrize("name", ASKED)
def test_notes_depend_on_no_row(name: str) -> None:
    unit, question, more, _ = ASKED[name]
    noted = [people(unit, rows=rows).ask(question, epsilon=10, **more).notes for rows in (600, 30, 0)]
    assert noted[0] == noted[1] == noted[2]


@pytest.mark.deep
def test_a_median_of_an_even_number_of_rows_is_any_value_between_the_two_in_the_middle() -> None:
    """As the note says, and about as often each: 60 draws of 5 values, a false alarm in 10^4."""
    table = pa.table({"id": ["u"] * 8, "occ": ["Sales"] * 8, "town": ["t"] * 8, "x": [1, 1, 2, 2, 6, 6, 7, 9]})
    held = curator(source=table, domain=people().domain, unit="row", budget=sd.PureDP(10**9), seed=3)
    drawn = [held.ask(sd.median("x"), epsilon=10**5).value for _ in range(60)]
    counts = [drawn.count(value) for value in range(10)]
    assert [value for value, n in enumerate(counts) if n] == [2, 3, 4, 5, 6]
    assert min(counts[2:7]) > 1


def test_a_search_for_bounds_says_which_rows_it_saw() -> None:
    assert CAPPED in people(UNIT).find_bounds("x", epsilon=5).notes
    assert (
        CAPPED not in people(UNIT).find_contribution_bounds(epsilon=5).notes
    )  # it counts units by their rows before any cap


NO_CASE = "texts are compared by all of their characters, 'a' is not 'A': "


@pytest.mark.each(11)
@pytest.mark.parametrize(
    ("text", "dialect", "says"),
    [
        (
            "SELECT COUNT(*) FROM data WHERE occ = 'Sales'",
            "mysql",
            "MySQL's default collation ignores case and accents",
        ),
        (
            "SELECT occ, COUNT(*) FROM data GROUP BY occ",
            "tsql",
            "SQL Server's default collation ignores case, and blanks",
        ),
        ("SELECT COUNT(*) FROM [data] WHERE town LIKE 't%'", None, "SQL Server's default collation"),
        ("SELECT COUNT(DISTINCT id) FROM data", "mysql", "MySQL's"),
        ("SELECT MODE(occ) FROM data", "mysql", "MySQL's"),
        ("SELECT AVG(n) FROM (SELECT id, COUNT(*) AS n FROM data GROUP BY id) AS t", "mysql", "MySQL's"),
        ("SELECT COUNT(*) FROM data WHERE x > 3", "mysql", None),
        *(("SELECT COUNT(*) FROM data WHERE occ = 'Sales'", d, None) for d in (None, "postgres", "bigquery", "sqlite")),
    ],
)
def test_text_that_a_dialect_compares_without_case_is_noted(text: str, dialect: str | None, says: str | None) -> None:
    asked = people(UNIT)
    plan = asked.plan(sd.sql(text.replace("AVG(n)", "AVG(LEAST(n, 5))"), dialect=dialect), epsilon=1)
    found = [note for note in plan.notes if note.startswith(NO_CASE)]
    assert [note[len(NO_CASE) :][: len(says or "")] for note in found] == ([] if says is None else [says])
    assert [note for note in asked.ask(plan).notes if note.startswith(NO_CASE)] == found
    assert asked.plan(plan.question, epsilon=1).notes == plan.notes
