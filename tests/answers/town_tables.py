"""Two tables as people have them, in each format that is read, and the same cells as plain SQL understands them.

`VIEWS` says by hand, in plain SQL, what each declaration makes of a cell: it shares nothing with the package.
"""

from __future__ import annotations

import csv
import datetime
import io
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

import sordino as sd
from sordino.ask.engines.readers.csv_import import import_csv

Rows = list[dict[str, Any]]
JOBS = ["nurse", "Nurse", 'O\'Hare "cook"', "Żółw, 龜", "two\nlines", "-1"]
TOWNS = [
    "Ash",
    "ash",
    "Zoë",
    "Zoe\u0308",
    "St. John's",
    'the "Elm"',
    "a,b;c",
    "two\nlines",
    "NULL",
    "42",
    "%_",
    "Übersee",
]
BLANKS = [" Ash", "Ash ", "  "]  # towns of their own where text is stored; a CSV file trims them
TAGS = ["a", "b", "ü c"]
MOST_TAGS, MOST_MARKS = 3, 4  # items of a row that count
MOMENT = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)

DOMAINS = {
    "people": sd.Domain(
        {
            "Person Id": sd.Identifier(),
            "age": sd.Integer(0, 125),
            "Größe": sd.Real(-2, 3, resolution="0.01"),
            "it's paid": sd.Real(-100, 5000, resolution="0.01"),
            "job": sd.Category(JOBS, missing="keep"),
            "order": sd.Category(["x", "y", ""], other="y"),
            "town": sd.Identifier(),
            "member": sd.Boolean(missing="keep"),
            "joined": sd.Date("2019-12-30", "2021-02-03", missing="keep"),
            "seen": sd.DateTime("2024-01-01", "2024-12-31", zone="Europe/Berlin", resolution="minute"),
            "balance": sd.Integer(-(10**9), 10**9),
            "score": sd.Real(-1, 4, resolution="0.25"),
            "level": sd.Integer(1, 5, missing=sd.Fill(3)),
        }
    ),
    "visits": sd.Domain(
        {
            "member_id": sd.Identifier(),
            "cost": sd.Integer(-50, 200),
            "kind": sd.Category(["er", "gp", "x-ray"]),
            "day": sd.Date("2024-01-01", "2024-12-31"),
        }
    ),
}
LISTS = {
    "tags": sd.List(sd.Category(TAGS, missing="keep"), max_items=MOST_TAGS),
    "marks": sd.List(sd.Integer(0, 9), max_items=MOST_MARKS),
}
UNITS = {
    "people": sd.PrivacyUnit("Person Id", max_rows=3, of="person"),  # nobody has more: no cap leaves out a row
    "visits": sd.PrivacyUnit("member_id", max_rows=4, of="person"),
}
SHOPS = pa.table(
    {
        "town": ["Ash", "Ash", "Zoë", "NULL", "42", "elsewhere", "two\nlines"],
        "Kind": ["big", "small", "big", None, "small", "big", "small"],
        "tax": [3, 5, -2, 7, None, 1, 0],
    }
)
PUBLIC = sd.public(
    SHOPS,
    key="town",
    max_rows=2,
    columns=sd.Domain(
        {"town": sd.Identifier(), "Kind": sd.Category(["small", "big"], missing="keep"), "tax": sd.Integer(-5, 10)}
    ),
)


def people_rows(count: int, rng: random.Random) -> Rows:
    """Return rows with cells that are missing, beyond their bounds, or not declared; some are there twice."""
    ids = [f"p{i}" for i in range(count // 2)] + [f"Ünal {i}" for i in range(count // 6)] + ["-7", "0007", "it's me"]
    rows: Rows = []
    for place in range(count):
        rows.append(
            {
                "Person Id": None if place % 41 == 40 else ids[place % len(ids)],
                "age": rng.choice([None, -3, 0, 125, 130, *range(5, 95)]),
                "Größe": rng.choice([None, Decimal("-2.50"), Decimal("9.99"), Decimal(rng.randrange(-199, 300)) / 100]),
                "it's paid": rng.choice([None, Decimal("-3000.10"), Decimal("99999.99"), Decimal(rng.randrange(500000)) / 100]),
                "job": rng.choice([None, *JOBS, *JOBS, "NURSE", "unheard of"]),
                "order": rng.choice([None, "x", "x", "y", "z"]),
                "town": rng.choice([None, *TOWNS, *BLANKS, *TOWNS[:5], *TOWNS[:2]]),
                "member": rng.choice([None, True, True, False]),
                "joined": rng.choice(
                    [None, datetime.date(1999, 1, 1), datetime.date(2019, 12, 25) + datetime.timedelta(rng.randrange(430))]
                ),
                "seen": rng.choice(
                    [None, MOMENT - datetime.timedelta(days=9), MOMENT + datetime.timedelta(seconds=rng.randrange(32_000_000))]
                ),
                "balance": rng.choice([None, -(2**62), 2**62, 0, *(rng.randrange(-(10**9), 10**9) for _ in range(5))]),
                "score": rng.choice([None, float("inf"), -0.0, 0.125, 7.5, *(rng.randrange(-400, 1600) / 400 for _ in range(5))]),
                "level": rng.choice([None, 0, 1, 2, 3, 4, 5, 9]),
            }
        )  # fmt: skip
    rows[1 : count // 20] = [{**rows[0], "Person Id": row["Person Id"]} for row in rows[1 : count // 20]]
    return add_lists(rows, random.Random(count))


def add_lists(rows: Rows, rng: random.Random) -> Rows:
    """Return the rows with two lists: missing ones, empty ones, items that are missing or not declared, and too many."""
    tags, marks = [None, *TAGS, *TAGS, "zz", "A"], [None, -4, 12, *range(10)]

    def draw(cells: list[Any], most: int) -> Any:
        return rng.choice([None, [], *([rng.choice(cells) for _ in range(rng.randint(1, most))] for _ in range(6))])

    return [{**row, "tags": draw(tags, MOST_TAGS + 2), "marks": draw(marks, MOST_MARKS + 2)} for row in rows]


def visit_rows(count: int, people: Rows, rng: random.Random) -> Rows:
    """Return visits of most of the people, at most four of each, and of some others."""
    ids = [*dict.fromkeys(row["Person Id"] for row in people)][: count // 4] + [f"guest {i}" for i in range(count // 8)]
    return [
        {
            "member_id": ids[place % len(ids)],
            "cost": rng.choice([None, -90, 500, *range(-40, 190, 7)]),
            "kind": rng.choice([None, "er", "gp", "gp", "GP"]),
            "day": datetime.date(2024, 1, 1) + datetime.timedelta(rng.randrange(366)),
        }
        for place in range(count)
    ]


SCHEMAS = {
    "people": pa.schema(
        [
            ("Person Id", pa.string()),
            ("age", pa.int16()),
            ("Größe", pa.decimal128(6, 2)),
            ("it's paid", pa.decimal128(12, 2)),
            ("job", pa.string()),
            ("order", pa.string()),
            ("town", pa.string()),
            ("member", pa.bool_()),
            ("joined", pa.date32()),
            ("seen", pa.timestamp("us", tz="UTC")),
            ("balance", pa.int64()),
            ("score", pa.float64()),
            ("level", pa.int8()),
            ("tags", pa.list_(pa.string())),
            ("marks", pa.list_(pa.int32())),
        ]
    ),
    "visits": pa.schema(
        [("member_id", pa.string()), ("cost", pa.int32()), ("kind", pa.string()), ("day", pa.date32())]
    ),
}


# ---- what plain SQL makes of a cell, in words that DuckDB and PostgreSQL share

_SEEN = "date_trunc('minute', seen AT TIME ZONE 'Europe/Berlin')"
VIEWS = {
    "people": f"""
        SELECT "Person Id",
            CASE WHEN age < 0 THEN 0 WHEN age > 125 THEN 125 ELSE CAST(age AS INTEGER) END AS age,
            CASE WHEN "Größe" < -2 THEN -2 WHEN "Größe" > 3 THEN 3 ELSE "Größe" END AS "Größe",
            CASE WHEN "it's paid" < -100 THEN -100 WHEN "it's paid" > 5000 THEN 5000 ELSE "it's paid" END AS "it's paid",
            CASE WHEN job IN ({{jobs}}) THEN job END AS job,
            CASE WHEN "order" IN ('x', 'y', '') THEN "order" WHEN "order" IS NOT NULL THEN 'y' END AS "order",
            town, member,
            CASE WHEN joined < DATE '2019-12-30' THEN DATE '2019-12-30' WHEN joined > DATE '2021-02-03' THEN DATE '2021-02-03'
                ELSE joined END AS joined,
            CASE WHEN {_SEEN} < TIMESTAMP '2024-01-01 00:00' THEN TIMESTAMP '2024-01-01 00:00'
                WHEN {_SEEN} > TIMESTAMP '2024-12-31 23:59' THEN TIMESTAMP '2024-12-31 23:59' ELSE {_SEEN} END AS seen,
            CASE WHEN balance < -1000000000 THEN -1000000000 WHEN balance > 1000000000 THEN 1000000000
                ELSE balance END AS balance,
            CASE WHEN score < -1 THEN -1 WHEN score > 4 THEN 4 ELSE FLOOR(score * 4 + 0.5) / 4 END AS score,
            CASE WHEN level < 1 THEN 1 WHEN level > 5 THEN 5 WHEN level IS NULL THEN 3 ELSE CAST(level AS INTEGER) END AS level,
            tags, marks
        FROM raw_people WHERE "Person Id" IS NOT NULL
    """.format(jobs=", ".join("'" + job.replace("'", "''") + "'" for job in JOBS)),
    "visits": """
        SELECT member_id, CASE WHEN cost < -50 THEN -50 WHEN cost > 200 THEN 200 ELSE cost END AS cost,
            CASE WHEN kind IN ('er', 'gp', 'x-ray') THEN kind END AS kind, day
        FROM raw_visits WHERE member_id IS NOT NULL
    """,
    "shops": 'SELECT town, "Kind", tax FROM raw_shops',
}  # fmt: skip


class Plain:
    """The tables in a DuckDB of their own, asked in plain SQL."""

    def __init__(self, people: Rows, visits: Rows) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("SET TimeZone = 'UTC'")
        for name, rows in (("people", people), ("visits", visits)):
            self.connection.register("arrow_rows", arrow(name, rows))
            self.connection.execute(f"CREATE TABLE raw_{name} AS FROM arrow_rows")
        self.connection.register("arrow_rows", SHOPS)
        self.connection.execute("CREATE TABLE raw_shops AS FROM arrow_rows")
        for name, view in VIEWS.items():
            self.connection.execute(f"CREATE TABLE {name} AS {view}")

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self.connection.execute(text).fetchall()


# ---- the formats


def arrow(name: str, rows: Rows) -> pa.Table:
    """Return the rows as an Arrow table."""
    kinds = SCHEMAS[name]
    return pa.Table.from_pylist(rows, schema=pa.schema([field for field in kinds if field.name in rows[0]]))


def dictionary_parquet(place: Path, name: str, rows: Rows) -> Any:
    """Write a Parquet file of several row groups whose text is stored by dictionary."""
    path = place / f"{name}.parquet"
    pyarrow.parquet.write_table(arrow(name, rows), path, row_group_size=97, use_dictionary=True)
    return str(path)


def quoted_csv(place: Path, name: str, rows: Rows) -> Any:
    """Write a CSV file as spreadsheets do: quotes where they must be, newlines in cells, an offset at moments."""
    path = place / f"{name}.csv"
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    return str(path)


def imported_csv(place: Path, name: str, rows: Rows) -> Any:
    """Convert such a file as `sordino import` does, which is how line breaks in cells are read."""
    path = place / f"{name}.parquet"
    import_csv(quoted_csv(place, name, rows), path, header=True)
    return str(path)


def frame(_: Path, name: str, rows: Rows) -> Any:
    """Return a DataFrame with categories, nullable whole numbers and booleans, and objects."""
    made = arrow(name, rows).to_pandas()
    types: dict[str, Any] = {"age": "Int16", "balance": "Int64", "level": "Int8", "member": "boolean", "cost": "Int32"}
    types |= {"job": "category", "kind": "category"}
    columns = {c: pd.Series([row[c] for row in rows], dtype=t) for c, t in types.items() if c in made}
    return made.assign(**columns)


def dictionary_arrow(_: Path, name: str, rows: Rows) -> Any:
    """Return an Arrow table whose texts are dictionaries, in several chunks."""
    table = arrow(name, rows)
    for at, field in enumerate(table.schema):
        if field.name in ("job", "town", "kind", "member_id"):
            table = table.set_column(at, field.name, table[field.name].dictionary_encode())
    return pa.concat_tables([table.slice(0, 60), table.slice(60)], promote_options="default").unify_dictionaries()


def duckdb_file(place: Path, name: str, rows: Rows) -> Any:
    """Write a table of a DuckDB file."""
    path = place / f"{name}.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("arrow_rows", arrow(name, rows))
        connection.execute(f"CREATE TABLE {name} AS FROM arrow_rows")
    return str(path)


@dataclass(frozen=True)
class Format:
    """How rows are written, and what a format of text does not keep: blanks at the ends, line breaks, infinities, 19 digits."""

    write: Callable[[Path, str, Rows], Any]
    text: bool = False
    breaks: bool = True
    lists: bool = False

    def keep(self, rows: Rows) -> Rows:
        """Return the rows as the format can hold them, which is what plain SQL is asked of too."""
        return [{name: self._cell(cell) for name, cell in row.items()} for row in rows]

    def _cell(self, cell: Any) -> Any:
        if isinstance(cell, str) and self.text:
            cell = cell.strip(" ") or None
        if isinstance(cell, str) and not self.breaks:
            cell = cell.replace("two\nlines", "-1")
        return None if self.text and (cell == math.inf or cell in (-(2**62), 2**62)) else cell  # of 19 digits


FORMATS = {
    "duckdb": Format(duckdb_file, lists=True),
    "parquet": Format(dictionary_parquet, lists=True),
    "csv": Format(quoted_csv, text=True, breaks=False),
    "imported csv": Format(imported_csv, text=True),
    "frame": Format(frame),
    "arrow": Format(dictionary_arrow, lists=True),
}


def open_tables(format_name: str, place: Path, seed: int, rows: int = 240) -> tuple[sd.Connection, Plain]:
    """Return both tables, written in a format, and the same cells in plain SQL."""
    rng, kept = random.Random(seed), FORMATS[format_name]
    people = kept.keep(people_rows(rows, rng))
    tables = {"people": people, "visits": kept.keep(visit_rows(rows, people, rng))}
    written = {name: own if kept.lists else _without_lists(own) for name, own in tables.items()}
    sources = {name: kept.write(place, name, own) for name, own in written.items()}
    relation = list(tables) if format_name == "duckdb" else ()
    opened = protect_tables(sources, seed, relation=relation, lists=kept.lists)
    return opened, Plain(people, tables["visits"])


def _without_lists(rows: Rows) -> Rows:
    return [{name: cell for name, cell in row.items() if name not in LISTS} for row in rows]


def protect_tables(
    sources: dict[str, Any], seed: int, relation: Sequence[str] = (), *, lists: bool = False
) -> sd.Connection:
    """Return both tables with a budget that nothing exhausts."""
    people = sd.Domain({**DOMAINS["people"].columns, **LISTS}) if lists else DOMAINS["people"]
    return sd.protect(
        sources,
        domain={**DOMAINS, "people": people},
        neighbors="add_remove",
        privacy_unit=UNITS,
        budget=sd.ApproxDP(10**12, "0.999"),
        ledger=None,
        relation={name: name for name in relation} or None,
        csv={n: sd.Csv(header=True, quote='"') for n, s in sources.items() if str(s).endswith(".csv")} or None,
        rng=sd.Rng.seeded(seed),
        public={"shops": PUBLIC},
    )
