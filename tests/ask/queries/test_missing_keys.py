"""A key that the question can make NULL has a NULL group, as in DuckDB; one that only a missing cell makes NULL, as declared."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sordino as sd
from sordino import col

DAY = datetime.date(2024, 1, 30)
DAYS = [DAY, DAY + datetime.timedelta(days=2), None]
CELLS = list(itertools.product(["p", "q", "r", None], [0, 1, 2, None], [True, False, None], DAYS, ["a", "b", None]))
ROWS = pa.table(
    {
        name: pa.array([row[i] for row in CELLS] * 2, type=kind)
        for i, (name, kind) in enumerate(
            {"person": pa.string(), "d": pa.int64(), "g": pa.bool_(), "day": pa.date32(), "s": pa.string()}.items()
        )
    }
)
STORES = pa.table({"s": ["a"], "city": ["Oslo"], "area": [None], "size": [7]}).cast(
    pa.schema({"s": pa.string(), "city": pa.string(), "area": pa.string(), "size": pa.int64()})
)
STORE = sd.public(
    STORES,
    key="s",
    max_rows=1,
    columns=sd.Domain(
        {
            "s": sd.Category(["a", "b"]),
            "city": sd.Category(["Oslo", "Bergen"]),
            "area": sd.Category(["x"]),
            "size": sd.Integer(7, 8),
        }
    ),
)
LEFT = "people t LEFT JOIN store st ON t.s = st.s"

BY_QUESTION = (
    ("NULLIF(d, 0)", "people t"),
    ("NULLIF(d, 0) > 1", "people t"),
    ("NOT (NULLIF(d, 0) > 1)", "people t"),
    ("NULLIF(d, 0) > 1 AND g", "people t"),
    ("IF(g, d, NULL)", "people t"),
    ("CASE WHEN d > 0 THEN d END", "people t"),
    ("CASE WHEN d > 0 THEN d + 1 END * 2", "people t"),
    ("CASE WHEN d > 0 THEN 'some' END", "people t"),
    ("CASE WHEN g THEN CASE WHEN d > 0 THEN s END ELSE 'none' END", "people t"),
    ("CASE WHEN d > 0 THEN g END", "people t"),
    ("MONTH(CASE WHEN d > 0 THEN day END)", "people t"),
    ("CAST(DATE_TRUNC('month', CASE WHEN g THEN day END) AS DATE)", "people t"),
    ("COALESCE(NULLIF(d, 0), NULLIF(d, 1))", "people t"),
    ("2 // d", "people t"),
    ("st.city", LEFT),
    ("st.area", LEFT),
    ("st.size", LEFT),
    ("st.size + 1", LEFT),
    ("st.city = 'Oslo'", LEFT),
    ("UPPER(st.city)", LEFT),
    ("first", "(SELECT person, MIN(CASE WHEN g THEN day END) AS first FROM people t GROUP BY person) AS u"),
    ("MONTH(first)", "(SELECT person, MIN(CASE WHEN d > 2 THEN day END) AS first FROM people t GROUP BY person) AS u"),
    ("most", "(SELECT person, MAX(NULLIF(d, 2)) AS most FROM people t GROUP BY person) AS u"),
    ("ever", "(SELECT person, BOOL_OR(NULLIF(d, 2) > 3) AS ever FROM people t GROUP BY person) AS u"),
)
NEVER = (
    ("d IS NULL", "people t"),
    ("COALESCE(d, 9)", "people t"),
    ("COALESCE(s, 'none')", "people t"),
    ("CASE WHEN d IS NOT NULL THEN d ELSE 0 END", "people t"),
    ("CASE WHEN d > 0 THEN 'some' ELSE 'none' END", "people t"),
    ("COALESCE(st.city, 'none')", LEFT),
    ("n", "(SELECT person, LEAST(COUNT(*), 5) AS n FROM people t GROUP BY person) AS u"),
)
BY_CELL = (
    ("d", "d"),
    ("d + 1", "d"),
    ("MONTH(day)", "day"),
    ("s = 'a'", "s"),
    ("UPPER(s)", "s"),
    ("COALESCE(d, CASE WHEN g THEN 1 ELSE 0 END * d)", None),
)


def people(missing: str = "drop") -> Any:
    """Return the curator of the table, its columns declared with a rule for missing cells."""
    columns: dict[str, Any] = {
        "person": sd.Identifier(),
        "d": sd.Integer(0, 2, missing=missing),
        "g": sd.Boolean(missing=missing),
        "day": sd.Date(DAY, DAY + datetime.timedelta(days=2), missing=missing),
        "s": sd.Category(["a", "b"], missing=missing),
    }
    return sd.protect(
        ROWS,
        name="people",
        domain=sd.Domain(columns),
        neighbors="add_remove",
        privacy_unit=sd.PrivacyUnit("person", max_rows=len(ROWS)),
        budget=sd.PureDP(10**12),
        ledger=None,
        rng=sd.Rng.seeded(5),
        public={"store": STORE},
    )


def groups(release: sd.Release) -> dict[Any, int]:
    """Return the rows of each group of a release that has any."""
    keys, counts = (release.table.column(i).to_pylist() for i in (0, 1))
    return {_plain(k): round(n) for k, n in zip(keys, counts, strict=True) if round(n)}


def plain_groups(key: str, source: str) -> dict[Any, int]:
    """Return the rows of each group as DuckDB counts them, rows without a person left out."""
    connection = duckdb.connect()
    connection.execute("SET error_on_division_by_zero = false")
    connection.register("people", ROWS.filter(ROWS.column("person").is_valid()))
    connection.register("store", STORES)
    found = connection.sql(f"SELECT {key}, COUNT(*) FROM {source} GROUP BY 1").fetchall()
    return {_plain(k): n for k, n in found}


def _plain(key: Any) -> Any:
    return key.date() if isinstance(key, datetime.datetime) else float(key) if isinstance(key, int) else key


@pytest.mark.deep
@pytest.mark.parametrize("missing", ["drop", "keep"])
@pytest.mark.parametrize(("key", "source"), [*BY_QUESTION, *NEVER])
def test_the_null_group_of_a_computed_key_is_that_of_duckdb(key: str, source: str, missing: str) -> None:
    found = people(missing).ask(sd.sql(f"SELECT {key} AS k, COUNT(*) AS n FROM {source} GROUP BY 1"), epsilon=10**6)
    assert groups(found) == plain_groups(key, source)
    assert not [note for note in found.notes if "missing" in note and "person" not in note]


@pytest.mark.deep
@pytest.mark.parametrize(("key", "source"), NEVER)
def test_a_key_that_is_never_null_has_no_null_group(key: str, source: str) -> None:
    found = people("keep").ask(sd.sql(f"SELECT {key} AS k, COUNT(*) AS n FROM {source} GROUP BY 1"), epsilon=1)
    assert None not in found.table.column(0).to_pylist()


@pytest.mark.deep
@pytest.mark.parametrize(("key", "column"), BY_CELL)
def test_a_key_that_only_missing_cells_make_null_follows_the_declaration(key: str, column: str | None) -> None:
    asked = sd.sql(f"SELECT {key} AS k, COUNT(*) AS n FROM people GROUP BY 1")
    kept = people("keep").ask(asked, epsilon=10**6)
    dropped = people("drop").ask(asked, epsilon=10**6)
    plain = plain_groups(key, "people")
    assert None in plain
    assert groups(kept) == plain
    assert groups(dropped) == {k: n for k, n in plain.items() if k is not None}
    what = column or "(if d is missing then (if g then 1 else 0) * d else d)"
    note = f"rows whose {what} is missing are left out"
    assert note in dropped.notes
    assert note in people("drop").plan(asked, epsilon=1).notes
    assert note not in kept.notes


@pytest.mark.deep
def test_a_choice_in_python_has_a_null_group_for_none() -> None:
    asked = people().group_by(k=sd.when(col("d") > 0, col("d")).otherwise(None)).agg(sd.count())
    true = Counter(float(d) if d else None for person, d, *_ in CELLS * 2 if person is not None)
    assert groups(people().ask(asked, epsilon=10**6)) == dict(true)


def test_the_note_of_rows_without_an_id() -> None:
    note = "rows whose person is missing are left out"
    table = people()
    per_person = "SELECT COUNT(*) FROM (SELECT person, MAX(d) AS m FROM people GROUP BY person) AS q"
    for asked in (sd.count(), sd.median("d"), sd.sql(per_person), sd.most_common("s")):
        assert note in table.plan(asked, epsilon=1).notes
    by_row = sd.protect(
        ROWS,
        domain=table.domain,
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(1),
        ledger=None,
        rng=sd.Rng.seeded(5),
    )
    assert note not in by_row.plan(sd.count(), epsilon=1).notes


def test_rows_outside_of_stated_bins_are_said_to_be_left_out() -> None:
    plan = people().plan(people().group_by(col("d").bin([0, 1])).agg(sd.count()), epsilon=1)
    assert "rows whose d lies outside of the bins are left out" in plan.notes
