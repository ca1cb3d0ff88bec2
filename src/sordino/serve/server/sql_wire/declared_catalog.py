"""pg_catalog and information_schema for clients: an in-memory DuckDB database that holds the declared tables, and nothing else.

What a client asks its catalog, such as psql for \\d, runs here as DuckDB's SQL. No data and no ledger is within reach: the
database is made of public declarations, opens no file, and only the relations of catalog_columns.txt can be named.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sordino.serve.server.sql_wire.catalog_functions import CatalogQuestion
from sordino.serve.server.sql_wire.sqlstates import WireError
from sordino.serve.server.sql_wire.wire_frames import Column
from sordino.serve.server.sql_wire.wire_settings import SETTINGS
from sordino.serve.server.sql_wire.wire_values import TYPES

# The number of the first declared table, as in PostgreSQL.
_FIRST = 16384
# Seconds that a question to the catalog may take.
_SECONDS = 5.0
_MOST_ROWS = 100_000
_LONGEST_REASON = 300
_KINDS = {"i": "BIGINT", "b": "BOOLEAN", "r": "DOUBLE", "I": "BIGINT[]", "T": "VARCHAR[]", "t": "VARCHAR"}
_DECLARED = {  # a declared type: the type that clients see, its number, size and category
    "integer": ("bigint", 20, 8),
    "real": ("double precision", 701, 8),
    "boolean": ("boolean", 16, 1),
    "date": ("date", 1082, 4),
    # a moment in a declared zone, which answers show in UTC
    "datetime": ("timestamp with time zone", 1184, 8),
}
_TEXT = ("text", 25, -1)
_PG_TYPES = (
    "16 bool 1 B 1000|17 bytea -1 U 1001|18 char 1 Z 1002|19 name 64 S 1003|20 int8 8 N 1016|21 int2 2 N 1005|23 int4 4 N 1007|"
    "25 text -1 S 1009|26 oid 4 N 1028|114 json -1 U 199|700 float4 4 N 1021|701 float8 8 N 1022|1042 bpchar -1 S 1014|"
    "1043 varchar -1 S 1015|1082 date 4 D 1182|1083 time 8 D 1183|1114 timestamp 8 D 1115|1184 timestamptz 8 D 1185|"
    "1186 interval 16 T 1187|1700 numeric -1 N 1231|2950 uuid 16 U 2951|3802 jsonb -1 U 3807"
)
_UDT_NAMES = {int(line.split()[0]): line.split()[1] for line in _PG_TYPES.split("|")}
# Defaults of the rows that are made below; what is not named is NULL.
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "pg_class": {
        "relnamespace": 2200, "relowner": 10, "relam": 2, "reltuples": -1.0, "relkind": "r", "relpersistence": "p",
        "relreplident": "d", "relispopulated": True, "relpages": 0, "reltablespace": 0, "reltoastrelid": 0, "reloftype": 0,
        "relhasindex": False, "relisshared": False, "relhasrules": False, "relhastriggers": False, "relhassubclass": False,
        "relrowsecurity": False, "relforcerowsecurity": False, "relispartition": False,
    },
    "pg_attribute": {
        "atttypmod": -1, "attnotnull": False, "atthasdef": False, "attidentity": "", "attgenerated": "", "attcollation": 0,
        "attisdropped": False, "attislocal": True, "attstorage": "p", "attcompression": "", "attndims": 0, "attinhcount": 0,
    },
    "pg_type": {
        "typnamespace": 11, "typowner": 10, "typtype": "b", "typdelim": ",", "typrelid": 0, "typbasetype": 0, "typelem": 0,
        "typarray": 0, "typnotnull": False, "typcollation": 0, "typndims": 0, "typtypmod": -1, "typisdefined": True,
    },
}  # fmt: skip


_NAMES = re.compile(r"::\s*reg(?:type|class|proc|procedure|role|namespace)\s*\[\]")


class DeclaredCatalog:
    """Answer what clients ask of the catalog. `tables` are declared tables as `CuratorService.tables` has them."""

    def __init__(self, tables: Sequence[Mapping[str, Any]], *, database: str) -> None:
        # Guards the one connection.
        self._lock = threading.Lock()
        self._database = database
        self._db = duckdb.connect(":memory:", config={"enable_external_access": "false", "threads": "1"})
        self._db.execute("SET memory_limit = '256MB'")
        self._columns = dict(_relations())
        # The types of declared columns by name, for parameters that are compared with one.
        self.types: dict[str, int] = {}
        # A declared value of each column, as a literal.
        self.samples: dict[str, str] = {}
        self._db.execute("CREATE SCHEMA cat; CREATE SCHEMA inf; BEGIN")
        for name, columns in self._columns.items():
            declared = ", ".join(f'"{column}" {_KINDS[kind]}' for column, kind in columns)
            self._db.execute(f"CREATE TABLE {_place(name)} ({declared})")
        # Rows by relation and the names of their columns, until all are inserted at once.
        self._rows: dict[tuple[str, tuple[str, ...]], list[list[Any]]] = {}
        self._fill(tables)
        self._insert()
        self._db.execute("COMMIT")
        self._db.execute("SET lock_configuration = true")

    def names(self, text: str) -> set[str] | None:
        """Return the relations that a SELECT names besides its own; None where it is no SELECT that can be read."""
        question = self._read(text)
        return None if question is None else question.names

    def knows(self, names: set[str]) -> bool:
        """Return whether all relations of a question are the catalog's, and none a declared table."""
        return all(name in self._columns for name in names)

    def answer(self, text: str, values: Mapping[str, str]) -> tuple[list[Column], list[Sequence[Any]]]:
        """Return the columns and rows of a question to the catalog; `values` are what functions say of the session.

        Raises WireError for what it cannot answer.
        """
        question = self._read(text)
        if question is None or not self.knows(question.names):
            raise WireError("42P01", "the catalog has no such relation")
        sql = question.in_duckdb({name: _place(name) for name in self._columns}, values)
        timer = threading.Timer(_SECONDS, self._db.interrupt)
        with self._lock:
            timer.start()
            # It is never committed: nothing that a question does lasts.
            self._db.execute("BEGIN")
            try:
                cursor = self._db.execute(sql)
                columns = [_column(name, str(kind)) for name, kind, *_ in cursor.description]
                rows: list[Sequence[Any]] = [*cursor.fetchmany(_MOST_ROWS)]
            except (duckdb.Error, RuntimeError) as error:
                # the catalog holds nothing but declarations, so its words may leave
                why = " ".join(str(error).partition("\n\n")[0].split())[:_LONGEST_REASON]
                raise WireError(
                    "0A000",
                    f"the catalog cannot answer this: {why}",
                    hint="\\d NAME describes a table.",
                    unknown=f"question to {', '.join(sorted(question.names)) or 'no relation'}",
                ) from None
            finally:
                timer.cancel()
                self._db.execute("ROLLBACK")
        return columns, rows

    def _read(self, text: str) -> CatalogQuestion | None:
        try:
            # The parser knows no arrays of names.
            tree = sqlglot.parse_one(_NAMES.sub("::text[]", text), read="postgres")
        except (SqlglotError, RecursionError):
            return None
        reads = isinstance(tree, exp.Query) and tree.find(exp.DDL, exp.DML, exp.Command, exp.Into) is None
        return CatalogQuestion(tree) if reads else None

    def _fill(self, tables: Sequence[Mapping[str, Any]]) -> None:
        for number, name in ((11, "pg_catalog"), (2200, "public"), (13000, "information_schema")):
            self._add("pg_namespace", oid=number, nspname=name, nspowner=10)
            schema = {"catalog_name": self._database, "schema_name": name, "schema_owner": "sordino"}
            self._add("information_schema.schemata", **schema)
        self._add(
            "pg_database", oid=1, datname=self._database, datdba=10, encoding=6, datistemplate=False, datallowconn=True
        )
        self._add("pg_roles", oid=10, rolname="sordino", rolsuper=False, rolcanlogin=False)
        self._add("pg_am", oid=2, amname="heap", amtype="t")
        for line in _PG_TYPES.split("|"):
            oid, name, size, category, array = line.split()
            self._add(
                "pg_type", oid=int(oid), typname=name, typlen=int(size), typcategory=category, typarray=int(array),
                **_procedures(name),
            )  # fmt: skip
            self._add(
                "pg_type", oid=int(array), typname=f"_{name}", typlen=-1, typcategory="A", typelem=int(oid),
                **_procedures("array_"),
            )  # fmt: skip
        for setting, value in SETTINGS.items():
            self._add("pg_settings", name=setting, setting=value, context="user", vartype="string", source="default")
        for place, table in enumerate(tables):
            self._add_table(_FIRST + 2 * place, table)

    def _add_table(self, oid: int, table: Mapping[str, Any]) -> None:
        name = table["name"]
        columns = table["columns"]
        checks = [check for column, declared in columns.items() if (check := _check(column, declared))]
        self._add("pg_class", oid=oid, relname=name, relnatts=len(columns), relchecks=len(checks), relfilenode=oid)
        self._add("pg_tables", schemaname="public", tablename=name, tableowner="sordino")
        about = {"table_catalog": self._database, "table_schema": "public", "table_name": name}
        self._add("information_schema.tables", **about, table_type="BASE TABLE", is_insertable_into="NO")
        self._describe(oid, 0, _about_table(table))
        for place, (column, rule) in enumerate(checks):
            number = 100_000 + oid * 1000 + place
            key = {"conrelid": oid, "contype": "c", "conkey": [list(columns).index(column) + 1], "connamespace": 2200}
            self._add(
                "pg_constraint", oid=number, conname=f"{name}_{column}_check", conbin=rule, convalidated=True, **key
            )
        for place, (column, declared) in enumerate(columns.items(), 1):
            type_name, kind, size = _type_of(declared)
            self.types[column] = kind if self.types.get(column, kind) == kind else 0
            self.samples[column] = _sample(declared)
            shape = {"attname": column, "atttypid": kind, "attlen": size, "attnum": place}
            self._add("pg_attribute", attrelid=oid, **shape)
            self._add(
                "information_schema.columns", **about, column_name=column, ordinal_position=place, data_type=type_name,
                is_nullable="YES", udt_catalog=self._database, udt_schema="pg_catalog", udt_name=_UDT_NAMES[kind],
                is_updatable="NO",
            )  # fmt: skip
            self._describe(oid, place, _about_column(declared))

    def _describe(self, oid: int, place: int, text: str) -> None:
        self._add("pg_description", objoid=oid, classoid=1259, objsubid=place, description=text)

    def _add(self, relation: str, **cells: Any) -> None:
        row = {**_DEFAULTS.get(relation, {}), **cells}
        self._rows.setdefault((relation, tuple(row)), []).append(list(row.values()))

    def _insert(self) -> None:
        """Insert all rows: a statement for each took a third of a second."""
        for (relation, columns), rows in self._rows.items():
            names = ", ".join(f'"{name}"' for name in columns)
            cells = f"({', '.join('?' * len(columns))})"
            self._db.execute(
                f"INSERT INTO {_place(relation)} ({names}) VALUES {', '.join([cells] * len(rows))}",
                [cell for row in rows for cell in row],
            )
        self._rows.clear()


def _relations() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    text = (files("sordino.serve.server.sql_wire") / "catalog_columns.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        name, *columns = line.split()
        yield name, [(one.partition(":")[0], one.partition(":")[2] or "t") for one in columns]


def _procedures(name: str) -> dict[str, str]:
    """Return the names of the functions that read and write a type, as PostgreSQL calls them."""
    # those of days, moments and numbers have an underscore
    stem = (
        f"{name}_"
        if name in ("date", "time", "timestamp", "timestamptz", "interval", "numeric", "uuid", "json", "jsonb")
        else name
    )
    return {"typinput": f"{stem}in", "typoutput": f"{stem}out", "typreceive": f"{stem}recv", "typsend": f"{stem}send"}


def _place(relation: str) -> str:
    schema, _, name = relation.rpartition(".")
    return f'{"inf" if schema else "cat"}."{name}"'


def _type_of(declared: Mapping[str, Any]) -> tuple[str, int, int]:
    values = declared.get("values")
    if values and all(isinstance(one, int) and not isinstance(one, bool) for one in values):
        return _DECLARED["integer"]
    return _DECLARED.get(declared["type"], _TEXT)


def _check(column: str, declared: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return a column's declared bounds or values as a CHECK of SQL."""
    quoted = '"' + column.replace('"', '""') + '"'
    if declared.get("lower") is not None and declared.get("upper") is not None:
        # the bounds of a real column are texts of exact numbers
        write = str if declared["type"] == "real" else _literal
        return column, f"CHECK ({quoted} BETWEEN {write(declared['lower'])} AND {write(declared['upper'])})"
    if declared.get("values"):
        return column, f"CHECK ({quoted} IN ({', '.join(_literal(one) for one in declared['values'])}))"
    return None


def _sample(declared: Mapping[str, Any]) -> str:
    if declared["type"] == "boolean":
        return "TRUE"
    values = declared.get("values")
    lower = declared.get("lower")
    if declared["type"] == "real":
        return "0" if lower is None else str(lower)
    return _literal(values[0] if values else "" if lower is None else lower)


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, (int, float)) else "'" + str(value).replace("'", "''") + "'"


def _about_table(table: Mapping[str, Any]) -> str:
    unit = table["privacy_unit"]
    unit_text = unit if isinstance(unit, str) else ", ".join(f"{key} {value}" for key, value in unit.items())
    return f"budget: {table['budget']}; neighbors: {table['neighbors']}; privacy unit: {unit_text}"


def _about_column(declared: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in declared.items() if value is not None and key != "values")


def _column(name: str, kind: str) -> Column:
    if kind.endswith("[]"):
        # numbers of types and columns: asyncpg reads arrays of these two types without asking what they are
        return Column(name, 1028 if "INT" in kind else 1009, -1)
    if kind == "BOOLEAN":
        return Column(name, *TYPES["truth"])
    if kind == "DATE":
        return Column(name, *TYPES["day"])
    if kind == "TIMESTAMP":
        # now(), in UTC
        return Column(name, *TYPES["moment in a zone"])
    if "INT" in kind:
        return Column(name, *TYPES["whole"])
    return Column(name, *TYPES["real" if kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL") else "text"])
