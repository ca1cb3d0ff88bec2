"""The corpus of SQL as tools and books write it: each text is answered as by DuckDB, or refused with its reason."""

from __future__ import annotations

import datetime as dt
import random
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot

import sordino as sd
from sordino.ask.queries.sql.noise_lineage import follow_noise, table_answers
from sordino.ask.queries.sql.outside_select import read_outside
from sordino.core.estimates.replicates import Computed
from sordino.errors import SordinoError

CORPUS = Path(__file__).parent.parent / "queries" / "sql" / "corpus.sql"
REGIONS = ["north", "south", "east", "west"]
CHANNELS = ["web", "shop", "phone"]
DEVICES = ["phone", "laptop"]
FIRST, LAST = dt.date(2023, 1, 1), dt.date(2024, 12, 31)
ORDERS = sd.Domain(
    {
        "customer": sd.Identifier(),
        "region": sd.Category(REGIONS),
        "channel": sd.Category(CHANNELS, missing="keep"),
        "member": sd.Boolean(),
        "returned": sd.Boolean(),
        "qty": sd.Integer(1, 10),
        "price": sd.Real(0, "99.99", resolution="0.01"),
        "rating": sd.Integer(1, 5),
        "store_id": sd.Integer(1, 6),
        "day": sd.Date(FIRST.isoformat(), LAST.isoformat()),
        "placed": sd.DateTime("2023-01-01", "2024-12-31 23:59:59", zone="UTC"),
    }
)
LOGINS = sd.Domain(
    {"customer": sd.Identifier(), "device": sd.Category(DEVICES), "minutes": sd.Integer(0, 60), "failed": sd.Boolean()}
)
STORES = sd.Domain(
    {
        "store_id": sd.Integer(1, 6),
        "city": sd.Category(["Utrecht", "Ghent", "Lyon", "Delft", "Bern", "Cork"]),
        "country": sd.Category(["NL", "BE", "FR", "CH", "IE"]),
        "area": sd.Integer(0, 500),
    }
)
GOALS = sd.Domain({"region": sd.Category(REGIONS), "goal": sd.Integer(0, 5000)})
STANDARD = sd.Domain({"band": sd.Category(["cheap", "dear"]), "weight": sd.Integer(0, 100)})
YEARS = sd.Domain({"year": sd.Integer(2023, 2024), "target": sd.Integer(0, 9000)})
SIZES = sd.Domain({"lo": sd.Integer(0, 20), "hi": sd.Integer(0, 20), "size": sd.Category(["one", "some", "many"])})
HEADS = sd.Domain({"title": sd.Category(["NORTH", "SOUTH", "EAST", "WEST"]), "head": sd.Category(["ann", "bo", "cy"])})


@dataclass(frozen=True)
class Text:
    """A text of the corpus, in what style it is written, and what is expected of it."""

    style: str
    sql: str
    state: str
    words: str

    @property
    def duckdb(self) -> str:
        """The text as DuckDB reads it: T-SQL if it has brackets or TOP, and with exact counts for its approximate ones."""
        if "[" in self.sql or re.search(r"\bTOP\b", self.sql):
            return sqlglot.transpile(self.sql, read="tsql", write="duckdb")[0]
        return re.sub(r"\bAPPROX_COUNT_DISTINCT\((\w+)\)", r"COUNT(DISTINCT \1)", self.sql)


def read_corpus() -> list[Text]:
    texts = []
    style = ""
    for line in CORPUS.read_text().splitlines():
        if line.startswith("-- =="):
            style = line.removeprefix("-- ==").strip()
        elif line and not line.startswith("--"):
            sql, _, note = line.partition("; -- ") if "; -- " in line else (line.removesuffix(";"), "", "")
            state, _, words = note.partition(": ")
            texts.append(Text(style, sql, state or "answered", words))
    return texts


TEXTS = read_corpus()


def make_orders(draw: random.Random) -> list[tuple[Any, ...]]:
    days = (LAST - FIRST).days + 1
    rows: list[tuple[Any, ...]] = []
    for customer in range(500):
        member = draw.random() < 0.6
        for _ in range(draw.randint(2, 10)):
            # Each day has orders.
            day = FIRST + dt.timedelta(days=len(rows) % days)
            seconds = draw.randrange(86400)
            region = draw.choices(REGIONS, [3, 4, 2, 1])[0]
            rows.append(
                (
                    f"c{customer}",
                    region,
                    draw.choices([*CHANNELS, None], [5, 3, 2, 1])[0],
                    member,
                    draw.random() < 0.2,
                    draw.choices(range(1, 11), range(12, 2, -1))[0],
                    draw.randint(0, 6000 if member else 9000) / 100,
                    draw.choices([None, 1, 2, 3, 4, 5], [3, 1, 1, 2, 4, 3])[0],
                    draw.choices(range(1, 7), [5, 4, 4, 3, 2, 1])[0],
                    day,
                    dt.datetime.combine(day, dt.time()) + dt.timedelta(seconds=seconds),
                )
            )
    return rows


@cache
def tables() -> dict[str, pa.Table]:
    draw = random.Random(11)
    orders = make_orders(draw)
    logins = [
        (f"c{customer}", draw.choice(DEVICES), draw.randint(0, 60), draw.random() < 0.1)
        for customer in range(0, 500, 2)
        for _ in range(draw.randint(1, 4))
    ]
    named = STORES["city"]
    assert isinstance(named, sd.Category)
    cities = list(zip(named.values, ["NL", "BE", "FR", "NL", "CH", "IE"], strict=True))
    return {
        "orders": pa.table({name: [row[i] for row in orders] for i, name in enumerate(ORDERS)}),
        "logins": pa.table({name: [row[i] for row in logins] for i, name in enumerate(LOGINS)}),
        "stores": pa.table(
            {
                "store_id": list(range(1, 7)),
                "city": [city for city, _ in cities],
                "country": [country for _, country in cities],
                "area": [100, 250, 80, 400, 60, 120],
            }
        ),
        "goals": pa.table({"region": REGIONS, "goal": [1000, 900, 800, 300]}),
        "standard": pa.table({"band": ["cheap", "dear"], "weight": [30, 70]}),
        "years": pa.table({"year": [2023, 2024], "target": [5000, 6000]}),
        "sizes": pa.table({"lo": [0, 2, 6], "hi": [2, 6, 11], "size": ["one", "some", "many"]}),
        "heads": pa.table({"title": ["NORTH", "SOUTH", "EAST", "WEST"], "head": ["ann", "bo", "cy", "ann"]}),
    }


@pytest.fixture(scope="module")
def shop() -> Any:
    unit = {
        "orders": sd.PrivacyUnit("customer", max_rows=10, of="customer"),
        "logins": sd.PrivacyUnit("customer", max_rows=4, of="customer"),
    }
    return sd.protect(
        {name: tables()[name] for name in ("orders", "logins")},
        domain={"orders": ORDERS, "logins": LOGINS},
        neighbors="add_remove",
        privacy_unit=unit,
        budget=sd.PureDP(10**12),
        ledger=None,
        public={
            "stores": sd.public(tables()["stores"], key="store_id", columns=STORES),
            "goals": sd.public(tables()["goals"], key="region", columns=GOALS),
            "standard": sd.public(tables()["standard"], key="band", columns=STANDARD),
            "years": sd.public(tables()["years"], key="year", columns=YEARS),
            "sizes": sd.public(tables()["sizes"], key="lo", columns=SIZES),
            "heads": sd.public(tables()["heads"], key="title", columns=HEADS),
        },
        rng=sd.Rng.seeded(5),
    )


@pytest.fixture(scope="module")
def oracle() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, table in tables().items():
        connection.register("incoming", table)
        # A price is a decimal, as it is declared.
        typed = (
            "SELECT * REPLACE (price::DECIMAL(6, 2) AS price) FROM incoming" if name == "orders" else "FROM incoming"
        )
        connection.execute(f"CREATE TABLE {name} AS {typed}")
    # What other dialects have, as tools write it.
    connection.execute("CREATE MACRO to_date(words, form) AS CAST(words AS DATE)")
    return connection


def plain(cell: Any) -> Any:
    """Return a cell in the form in which answers are compared: numbers as numbers, days and moments as text."""
    if cell is None or isinstance(cell, (str, bool)):
        return cell
    if isinstance(cell, (dt.date, dt.datetime)):
        text = cell.replace(tzinfo=None).isoformat() if isinstance(cell, dt.datetime) else cell.isoformat()
        return text.removesuffix("T00:00:00").replace("T", " ")
    return float(cell)


def is_near(cell: Any, other: Any) -> bool:
    if isinstance(cell, float) and isinstance(other, float):
        return abs(cell - other) <= 0.02 + 2e-4 * abs(other)
    if isinstance(cell, str) and isinstance(other, str):
        return cell.removesuffix(" 00:00:00") == other.removesuffix(" 00:00:00")
    return bool(cell == other) and isinstance(cell, bool) == isinstance(other, bool)


def cells_of(release: Any) -> list[list[Any]]:
    return [[plain(cell) for cell in row.values()] for row in release.table.to_pylist()]


def difference(text: Text, release: Any, oracle: duckdb.DuckDBPyConnection) -> str:
    """Say how an answer differs from DuckDB's in names, values or order; empty where it does not."""
    expected = oracle.execute(text.duckdb)
    names = [column[0] for column in expected.description or []]
    right = [[plain(cell) for cell in row] for row in expected.fetchall()]
    if (list(release.columns) == names) == (text.state == "named"):
        return f"columns {list(release.columns)} for {names}"
    answer = cells_of(release)
    if text.state == "keys":
        empty = [row for row in answer if not any(all(map(is_near, row, other)) for other in right)]
        if not empty or any(abs(cell) > 0.5 for row in empty for cell in row[-1:]):
            return f"rows beyond DuckDB's that are no declared keys without rows: {empty}"
        answer = [row for row in answer if row not in empty]
    if len(answer) != len(right):
        return f"{len(answer)} rows for {len(right)}: {answer[:12]} for {right[:12]}"
    ordered = re.search(r"\bORDER BY\b[^()]*(\([^()]*\)[^()]*)*$", text.sql) is not None
    for place, row in enumerate(right):
        if ordered:
            same = all(map(is_near, answer[place], row))
        else:
            match = next((one for one in answer if all(map(is_near, one, row))), None)
            same = match is not None
            if match is not None:
                answer.remove(match)
        if not same:
            return f"row {place}: {answer[place] if ordered else answer} for {row}"
    return ""


def test_the_corpus_is_wide() -> None:
    assert len(TEXTS) >= 1_100
    assert len({text.style for text in TEXTS}) >= 15
    assert len({text.sql for text in TEXTS}) == len(TEXTS)
    answered = [text for text in TEXTS if text.state == "answered"]
    assert len(answered) >= 990
    assert sum(text.state == "refused" for text in TEXTS) >= 80


@pytest.mark.each(131)
@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.style.replace(" ", "-"))
def test_a_text_is_answered_as_by_duckdb_or_refused_with_its_reason(
    text: Text, shop: Any, oracle: duckdb.DuckDBPyConnection
) -> None:
    """At an epsilon of a million, so that no noise shows: what is compared is SQL."""
    if text.state in ("refused", "later"):
        with pytest.raises(SordinoError) as refused:
            shop.ask(sd.sql(text.sql), epsilon=1_000_000)
        assert text.state == "later" or text.words.lower() in str(refused.value).lower()
        return
    found = difference(text, shop.ask(sd.sql(text.sql), epsilon=1_000_000), oracle)
    # A fault that is known is no longer one when it is mended: then the text's state is another.
    assert (found == "") == (text.state != "wrong"), found


@pytest.mark.each(131)
@pytest.mark.parametrize(
    "text",
    [t for t in TEXTS[::2] if t.state in ("answered", "keys", "named")],
    ids=lambda text: text.style.replace(" ", "-"),
)
def test_replicates_of_a_text_are_of_its_answer(text: Text, shop: Any) -> None:
    """The first is what was released, and what is said to have no noise is the same in all: rows, keys and constants."""
    release = shop.ask(sd.sql(text.sql), epsilon=1)
    statement = release.statement
    if statement is None:
        return
    replicates = statement.replicates(0.95)
    lineage = follow_noise(read_outside(statement.outside, list(table_answers(statement))), table_answers(statement))
    for output in release.outputs:
        estimate = output.estimate
        if not isinstance(estimate, Computed) or estimate.column is None:
            continue
        cells = np.array([np.nan if cell is None else float(cell) for cell in estimate.cells])
        known = np.isfinite(cells) & np.isfinite(replicates[0, estimate.column])
        np.testing.assert_allclose(replicates[0, estimate.column][known], cells[known], rtol=1e-9, atol=1e-9)
        assert known.sum() >= np.isfinite(cells).sum() - len(cells) * bool(lineage.guarded)
        if not lineage.columns[estimate.column].noisy:
            assert all(np.array_equal(one, cells, equal_nan=True) for one in replicates[:, estimate.column])
