"""CUBE, ROLLUP and GROUPING SETS: one tabulation, one charge, totals that agree, and SQL around them as it is written."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.core.loss import ZCDP
from sordino.core.release import Release

DOMAIN = sd.Domain(
    {
        "region": sd.Category(["north", "east", "south"]),
        "sex": sd.Category(["f", "m"]),
        "year": sd.Integer(2020, 2022),
        "income": sd.Integer(0, 90),
        "debt": sd.Integer(-50, 50),
        "town": sd.Identifier(),
    }
)
SETS = [
    "CUBE (region, sex)",
    "ROLLUP (region, sex)",
    "GROUPING SETS ((region, sex), (year), ())",
    "GROUPING SETS ((region, sex), (sex, year), (region, year))",
    "region, ROLLUP (sex)",
    "CUBE (region, sex, year)",
]
HUGE = "1000000"


def rows(count: int = 300) -> pa.Table:
    """Return rows without a missing cell."""
    draws = np.random.default_rng(3)
    return pa.table(
        {
            "region": draws.choice(["north", "east", "south"], count),
            "sex": draws.choice(["f", "m"], count),
            "year": draws.integers(2020, 2023, count),
            "income": draws.integers(0, 91, count),
            "debt": draws.integers(-50, 51, count),
            "town": [f"t{i % 90}" for i in range(count)],
        }
    )


def people(table: pa.Table | None = None, **options: Any) -> Any:
    return protect(
        rows() if table is None else table, DOMAIN, budget=options.pop("budget", ZCDP(10**12, delta="1e-9")), **options
    )


def select(sets: str, measures: str = "COUNT(*) AS n, SUM(income) AS total") -> Any:
    return sd.sql(f"SELECT region, sex, year, {measures} FROM data GROUP BY {sets} ORDER BY ALL")


def text_of(sets: str) -> str:
    """Return a SELECT that names only the keys that its sets have."""
    keys = ", ".join(key for key in ("region", "sex", "year") if key in sets)
    return f"SELECT {keys}, COUNT(*) AS n, SUM(income) AS total, SUM(debt) AS debts FROM data GROUP BY {sets}"


@pytest.mark.deep
@pytest.mark.parametrize("sets", SETS)
@pytest.mark.parametrize("loss", [{"rho": HUGE}, {"epsilon": HUGE}])
def test_a_huge_loss_gives_what_duckdb_gives(sets: str, loss: dict[str, Any]) -> None:
    data = rows()
    budget = sd.PureDP(10**9) if "epsilon" in loss else ZCDP(10**12, delta="1e-9")
    expected = duckdb.connect().register("data", data).execute(text_of(sets)).fetchall()
    answer = people(data, budget=budget).ask(sd.sql(text_of(sets)), **loss).to_arrow().to_pylist()
    key = [json.dumps(row[:-3]) for row in expected]
    assert sorted(key) == sorted(json.dumps(list(row.values())[:-3]) for row in answer)
    by_key = dict(zip(key, expected, strict=True))
    for row in answer:
        values = list(row.values())
        assert values[-3:] == pytest.approx(by_key[json.dumps(values[:-3])][-3:], abs=1)


@pytest.mark.each(7)
@pytest.mark.parametrize("sets", SETS)
def test_groupings_are_one_question_whose_totals_agree(sets: str) -> None:
    table = people()
    plan = table.plan(sd.sql(text_of(sets)), rho="0.01")
    assert any("one tabulation, in which totals agree" in note for note in plan.notes)
    answer = table.ask(plan).to_arrow().to_pylist()
    sums: dict[tuple[bool, ...], float] = {}
    for row in answer:
        shape = tuple(row.get(name) is None for name in ("region", "sex", "year"))
        sums[shape] = sums.get(shape, 0) + row["n"]
    assert len(sums) > 1
    assert max(sums.values()) == pytest.approx(min(sums.values()), abs=1e-6)
    assert table.spent.amounts()["rho"] == plan.cost.amounts()["rho"]


@pytest.mark.deep
def test_the_errors_are_those_of_the_tabulation() -> None:
    table = people()
    tabulation = sd.tabulate([["region", "sex"], ["sex"], ["region"], []])
    expected = table.plan(tabulation, rho="0.01").error(0.95)
    answer = table.ask(sd.sql("SELECT region, sex, COUNT(*) AS n FROM data GROUP BY CUBE (region, sex)"), rho="0.01")
    widths = {
        (row["region"] is not None, row["sex"] is not None): (row["n_upper"] - row["n_lower"]) / 2
        for row in answer.interval(0.95).to_pylist()
    }
    for columns, error in expected.items():
        # Ends are order statistics of some hundred replicates, moved to whole numbers.
        assert widths["region" in columns, "sex" in columns] == pytest.approx(error, rel=0.12, abs=1)


@pytest.mark.deep
def test_a_row_without_a_key_is_in_no_grouping_where_its_column_drops_it() -> None:
    """A total is that of the rows that the other groupings are of, and the plan says so; a column that keeps it has its row."""
    data = rows(50)
    cells = [None, *data.column("region").to_pylist()[1:]]
    data = data.set_column(0, "region", pa.array(cells, pa.string()))
    text = sd.sql("SELECT region, GROUPING(region) AS g, COUNT(*) AS n FROM data GROUP BY ROLLUP (region)")
    table = people(data)
    assert "rows whose region is missing are left out of every table" in table.plan(text, rho=HUGE).notes
    assert {row["n"] for row in table.ask(text, rho=HUGE).to_arrow().to_pylist() if row["g"] == 1} == {49}
    kept = sd.Domain({"region": sd.Category(["north", "east", "south"], missing="keep")})
    answer = protect(data, kept, budget=ZCDP(10**12, delta="1e-9")).ask(text, rho=HUGE).to_arrow().to_pylist()
    assert {(row["g"], row["n"]) for row in answer if row["region"] is None} == {(0, 1), (1, 50)}


@pytest.mark.each(3)
@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("SELECT region, AVG(income) AS a FROM data GROUP BY ROLLUP (region)", {}),
        (
            "SELECT region, COUNT(*) AS n FROM data GROUP BY ROLLUP (region)",
            {"unit": sd.PrivacyUnit("town", max_groups=2, max_rows_per_group=3)},
        ),
        ("SELECT region, MODE(sex) AS m, COUNT(*) AS n FROM data GROUP BY ROLLUP (region)", {}),
    ],
)
def test_what_no_tabulation_answers_is_asked_grouping_by_grouping(text: str, options: dict[str, Any]) -> None:
    plan = people(**options).plan(sd.sql(text), rho=1)
    assert any(" private questions: " in note for note in plan.notes)


@pytest.mark.deep
def test_what_surrounds_the_groupings_runs_as_it_is_written() -> None:
    answer = people().ask(
        sd.sql(
            "SELECT COALESCE(region, 'all') AS place, n, n / MAX(n) OVER () AS share FROM"
            " (SELECT region, COUNT(*) AS n FROM data GROUP BY ROLLUP (region)) t ORDER BY place"
        ),
        rho=HUGE,
    )
    shares = {row["place"]: row["share"] for row in answer.to_arrow().to_pylist()}
    assert shares["all"] == 1
    assert sum(shares.values()) == pytest.approx(2)
    again = Release.from_dict(json.loads(json.dumps(answer.to_dict())))
    assert again.interval(0.95).equals(answer.interval(0.95))
