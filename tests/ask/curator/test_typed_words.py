"""What users of pandas, polars, OpenDP, Tumult and diffprivlib type: it works, or the error names what does."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import python_calamine

import sordino as sd
from sordino.core.errors import QuestionRefused, UnknownName
from sordino.reporting.workbook import Sheet, encode_workbook

TABLE = pa.table({"age": [20, 30, 40, 50] * 50, "job": ["a", "b"] * 100})
DOMAIN = sd.Domain({"age": sd.Integer(0, 125), "job": sd.Category(["a", "b"])})


def protect(domain: sd.Domain = DOMAIN, table: pa.Table = TABLE) -> Any:
    return sd.protect(
        table,
        domain=domain,
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10**7),
        ledger=None,
    )


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    table = protect()
    one = table.ask(sd.count(), epsilon=10**5)
    two = table.ask(table.agg(sd.count(), sd.mean("age")), epsilon=10**5)
    groups = table.ask(table.group_by("job").agg(sd.count(), sd.mean("age")), epsilon=10**5)
    return {"t": table, "r": one, "two": two, "g": groups, "sd": sd, "col": sd.col}


REFUSED = """
t.groupby("job") | t.query("age > 3") | t.mean("age") | t.shape | t.dtypes | t.sql("SELECT 1") | t.budget | t.evaluate | t.age
t.info() | t.sort_values("age") | t.iloc[0] | t.loc[0] | t.to_pandas() | t.to_csv("x") | t.apply(len) | t.merge(t) | t.drop("age")
t.rename({}) | t.nunique() | t.median("age") | t.quantile(.5) | t.hist() | t.plot() | t.corr() | t.pivot_table() | t.select("job")
t.group_by("job").size() | t.group_by("job").mean("age") | t.group_by("job").sum("age") | t.where("age > 3")
t.agg({"age": "mean"}) | sd.avg("age") | sd.Session | sd.Context | sd.laplace | sd.read_csv("x.csv") | sd.from_pandas
sd.Laplace | sd.stddev("age") | sd.nunique("age") | sd.Table | sd.Dataset | sd.Budget | sd.privacy_loss | r["n"] | g.df | g.head()
g.shape | g.loc[0] | g.iloc[0] | g.sort("count") | r.result | r.data | r.epsilon | g.groupby("job") | float(g) | round(two) | r.ci
len(t) | t.query_builder | t.epsilon | t.privacy_accountant | t.count().xyz | t.group_by("job").xyz
"""


@pytest.mark.parametrize("typed", [one.strip() for line in REFUSED.strip().splitlines() for one in line.split("|")])
def test_what_does_not_exist_names_what_does(names: dict[str, Any], typed: str) -> None:
    with pytest.raises((AttributeError, QuestionRefused, KeyError, TypeError)) as caught:
        eval(typed, names)
    words = str(caught.value)
    assert any(way in words for way in ("did you mean", "write", "use", "take")), words


def test_a_column_is_no_attribute_and_its_name_says_what_to_write(names: dict[str, Any]) -> None:
    with pytest.raises(AttributeError, match=r'write agg\(sd.mean\("age"\)\), or col\("age"\)'):
        eval("t.age", names)
    assert bool(names["t"])


@pytest.mark.parametrize(
    ("typed", "same"),
    [
        ("t.columns", '("age", "job")'),
        ("t.schema", "t.domain"),
        ("t.count()", "t.agg(sd.count())"),
        ('t.group_by("job").count()', 't.group_by("job").agg(sd.count())'),
        ('t.filter(job="a").count()', 't.where(col("job") == "a").agg(sd.count())'),
        ('t.value_counts("job")', 't.group_by("job").agg(sd.count())'),
        ('r["count"]', "r.value"),
        ('g["job"]', '["a", "b"]'),
        ('g["count"]', '[row["count"] for row in g.rows]'),
        ('two["mean_age"]', 'two.value["mean_age"]'),
        ("float(r)", "float(r.value)"),
        ("int(r)", "r.value"),
        ("round(r, -1)", "round(r.value, -1)"),
        ('f"{r:.1f}"', 'f"{r.value:.1f}"'),
        ('f"{r}"', "str(r)"),
        ("r.interval()", "r.interval(0.95)"),
    ],
)
def test_what_peers_have_works(names: dict[str, Any], typed: str, same: str) -> None:
    assert eval(typed, names) == eval(same, names)


def test_nothing_typed_is_charged() -> None:
    table = protect()
    before = table.spent
    for typed in ("t.describe()", 't.value_counts("job")', "t.count()", "t.columns"):
        eval(typed, {"t": table})
    assert table.spent == before


def test_intervals_of_several_values_are_one_table(names: dict[str, Any]) -> None:
    ends = names["two"].interval(0.95)
    assert ends.column_names == ["count_lower", "count_upper", "mean_age_lower", "mean_age_upper"]
    assert ends.num_rows == 1
    assert names["g"].interval().column_names == ["job", *ends.column_names]


@pytest.mark.deep
def test_a_release_writes_a_workbook_and_draws_itself(names: dict[str, Any], tmp_path: Path) -> None:
    names["g"].to_excel(tmp_path / "a.xlsx")
    book = python_calamine.CalamineWorkbook.from_path(str(tmp_path / "a.xlsx"))
    rows = book.get_sheet_by_index(0).to_python()
    assert rows[2][:3] == ["job", "count", "count_lower"]
    assert names["g"].plot().chart.to_dict() == sd.plot(names["g"]).chart.to_dict()


def test_a_text_of_an_answer_is_no_formula(tmp_path: Path) -> None:
    domain = sd.Domain({"job": sd.Category(["=1+1", "b"])})
    table = protect(domain, pa.table({"job": ["=1+1", "b"]}))
    table.ask(table.group_by("job").count(), epsilon=1).to_excel(tmp_path / "a.xlsx")
    sheet = python_calamine.CalamineWorkbook.from_path(str(tmp_path / "a.xlsx")).get_sheet_by_index(0)
    assert sheet.to_python()[3][0] == "=1+1"


def test_what_excel_cannot_hold_is_written_as_text(tmp_path: Path) -> None:
    """Its calendar begins in 1900: earlier days were all written as the same 0."""
    days = [datetime.date(1850, 1, 1), datetime.date(1899, 12, 31), datetime.date(1900, 3, 1)]
    numbers = [2**53, 2**53 + 1]
    table = pa.table({"day": pa.array(days, pa.date32()), "n": pa.array([*numbers, 2**60])})
    path = tmp_path / "a.xlsx"
    path.write_bytes(encode_workbook([Sheet("a", "a", table)], title="a"))
    rows = python_calamine.CalamineWorkbook.from_path(str(path)).get_sheet_by_index(0).to_python()[3:]
    assert [row[0] for row in rows] == ["1850-01-01", "1899-12-31", days[2]]
    assert [row[1] for row in rows] == [2.0**53, str(2**53 + 1), str(2**60)]


def test_a_mean_of_a_category_names_the_share() -> None:
    words = r"a share is COUNT\(\*\) FILTER \(WHERE job = 'a'\) / COUNT\(\*\)"
    with pytest.raises(QuestionRefused, match=words):
        protect().ask(sd.sql("SELECT COUNT(*), AVG(job) FROM data"), epsilon=1)


def test_a_name_with_a_sign_is_to_be_quoted() -> None:
    table = protect(sd.Domain({"Education-Num": sd.Integer(0, 20)}), pa.table({"Education-Num": [1, 2]}))
    with pytest.raises(UnknownName, match='"Education-Num" is written in double quotes'):
        table.ask(sd.sql("SELECT COUNT(*) FROM data WHERE Education-Num <= 10"), epsilon=1)
