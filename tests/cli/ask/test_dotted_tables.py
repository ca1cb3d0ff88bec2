"""Tables declared with a schema, and a project that names its SQL dialect: from the file to the ledger and the report."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from cli.support import Run, read_json
from sordino.errors import DeclarationError, QuestionRefused, UnknownName

_PROJECT = """
[project]
dialect = "bigquery"
[budgets.customers]
cap = {epsilon = 100000}
ledger = "customers.ledger"
[tables."shop.orders"]
source = "orders.parquet"
budget = "customers"
neighbors = "add_remove"
privacy_unit = "row"
[tables."shop.orders".columns]
price = {type = "integer", lower = 0, upper = 10}
region = {type = "category", values = ["north", "south"]}
"""
_SECOND = """
[tables."archive.orders"]
source = "orders.parquet"
budget = "customers"
neighbors = "add_remove"
privacy_unit = "row"
[tables."archive.orders".columns]
price = {type = "integer", lower = 0, upper = 10}
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pq.write_table(
        pa.table({"price": [1, 2, 3, 4] * 25, "region": ["north", "south"] * 50}), tmp_path / "orders.parquet"
    )
    (tmp_path / "sordino.toml").write_text(_PROJECT)
    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("shop")
@pytest.mark.each(3)
@pytest.mark.parametrize(
    "name", ["shop.orders", "orders", "SHOP.Orders", "`shop.orders`", "`shop`.`orders`", "main.shop.orders"]
)
def test_a_table_is_found_with_its_schema_and_without(run: Run, name: str) -> None:
    assert run("check").code == 0
    text = f"SELECT COUNT(*) AS n FROM {name} AS o WHERE o.price > 2"
    assert run("plan", text, "--epsilon", "1").code == 0
    assert read_json(run("ask", text, "--epsilon", "10000", "--format", "json"))["rows"] == [{"n": 50}]
    assert read_json(run("ask", text, "--epsilon", "1", "--dry-run", "--format", "json"))["practice"]


@pytest.mark.deep
def test_its_name_goes_everywhere(shop: Path, run: Run) -> None:
    text = "SELECT shop.orders.region, COUNT(*) AS n FROM shop.orders GROUP BY shop.orders.region"
    assert run("ask", text, "--epsilon", "10000", "-o", "answer.csv").code == 0
    assert (shop / "answer.csv").read_text().splitlines()[1].startswith("north,50")
    assert run("bounds", "price", "--epsilon", "1", "--table", "orders").code == 0
    assert "shop.orders" in run("releases").out
    assert "shop.orders" in run("show", "c-0001", "--format", "json").out
    assert run("budget").code == 0
    assert run("explain", "c-0001").code == 0
    assert run("ledger", "verify").code == 0
    assert run("ledger", "export", "-o", "charges.jsonl").code == 0
    assert run("dummy", "--table", "shop.orders", "-o", "made.parquet").code == 0
    assert run("report", "-o", "board.html").code == 0
    assert "shop.orders" in (shop / "board.html").read_text()


@pytest.mark.usefixtures("shop")
def test_in_python() -> None:
    project = sd.connect()
    orders = project.table("orders")
    assert orders is project.table("shop.orders")
    plan = orders.plan(
        sd.sql("SELECT IF(price > 2, 'dear', 'cheap') AS kind, COUNT(*) AS n FROM orders GROUP BY kind"), epsilon=1
    )
    assert plan.rows.count == 2


def test_a_name_that_fits_two_tables_is_refused(shop: Path, run: Run) -> None:
    (shop / "sordino.toml").write_text(_PROJECT + _SECOND)
    refused = run("plan", "SELECT COUNT(*) FROM orders", "--epsilon", "1")
    assert refused.code == 3
    assert "table 'orders' may be shop.orders or archive.orders: say which" in refused.err
    assert run("plan", "SELECT COUNT(*) FROM archive.orders", "--epsilon", "1").code == 0
    assert run("plan", "SELECT COUNT(*) FROM sales.orders", "--epsilon", "1").code == 3


@pytest.mark.usefixtures("shop")
def test_the_dialect_of_the_project_is_the_default(run: Run) -> None:
    text = 'SELECT COUNT(*) AS n FROM orders WHERE region = "north"'  # double quotes hold text in this dialect
    assert read_json(run("ask", text, "--epsilon", "10000", "--format", "json"))["rows"] == [{"n": 50}]
    refused = run("ask", text, "--epsilon", "1", "--dialect", "duckdb")
    assert refused.code == 3
    assert "write 'north', in single quotes" in refused.err
    orders = sd.connect().table()
    assert orders.ask(sd.sql(text), epsilon=10_000).value == 50
    with pytest.raises(UnknownName, match="in single quotes"):
        orders.plan(sd.sql(text, dialect="duckdb"), epsilon=1)
    with pytest.raises(UnknownName, match="in single quotes"):
        sd.connect(dialect="postgres").table().plan(sd.sql(text), epsilon=1)
    with pytest.raises(QuestionRefused, match="did you mean 'postgres'"):
        sd.connect(dialect="postgre")


def test_a_dialect_that_is_not_read_is_a_problem_of_the_file(shop: Path, run: Run) -> None:
    (shop / "sordino.toml").write_text(_PROJECT.replace('"bigquery"', '"bigquary"'))
    with pytest.raises(
        DeclarationError, match=r"sordino\.toml:3:1: project\.dialect: must be .*did you mean 'bigquery'"
    ):
        sd.connect()
    (shop / "sordino.toml").write_text(_PROJECT.replace('"shop.orders"', '"shop-orders"'))
    assert "name is letters, digits and _" in run("check").out
