"""A question to PostgreSQL's catalog in the words of DuckDB: its relations, functions, casts and operators. It runs nothing."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from functools import cached_property

import sqlglot
from sqlglot import exp

from sordino.serve.server.sql_wire.sqlstates import WireError

_TYPE_NAMES = {
    16: "boolean", 17: "bytea", 18: '"char"', 19: "name", 20: "bigint", 21: "smallint", 23: "integer", 25: "text", 26: "oid",
    114: "json", 700: "real", 701: "double precision", 1042: "character", 1043: "character varying", 1082: "date",
    1083: "time without time zone", 1114: "timestamp without time zone", 1184: "timestamp with time zone", 1186: "interval",
    1700: "numeric", 2950: "uuid", 3802: "jsonb",
}  # fmt: skip
_FORMAT = "CASE {0} " + " ".join(f"WHEN {k} THEN '{v}'" for k, v in _TYPE_NAMES.items()) + " ELSE '???' END"
# What a function of PostgreSQL returns for a catalog of declared tables.
_FUNCTIONS: Mapping[str, str] = {
    "format_type": _FORMAT,
    "pg_get_userbyid": "'sordino'",
    "pg_encoding_to_char": "'UTF8'",
    "pg_char_to_encoding": "6",
    "quote_ident": "{0}",
    "array_upper": "len({0})",
    "array_lower": "1",
    "array_length": "len({0})",
    "array_size": "len({0})",
    "pg_my_temp_schema": "0",
    # There are no such locks here, so none is left.
    "pg_advisory_unlock_all": "''",
    "pg_size_pretty": "'0 bytes'",
    "current_schemas": "['pg_catalog', 'public']",
    "obj_description": "(SELECT d.description FROM pg_description AS d WHERE d.objoid = {0} AND d.objsubid = 0 LIMIT 1)",
    "col_description": "(SELECT d.description FROM pg_description AS d WHERE d.objoid = {0} AND d.objsubid = {1} LIMIT 1)",
    "pg_get_constraintdef": "(SELECT k.conbin FROM pg_constraint AS k WHERE k.oid = {0} LIMIT 1)",
    "to_regtype": "(SELECT k.oid FROM pg_type AS k WHERE k.typname = {0} LIMIT 1)",
    "to_regclass": "(SELECT k.oid FROM pg_class AS k WHERE k.relname = {0} LIMIT 1)",
}
_TRUE = "pg_relation_is_publishable"
_FALSE = "pg_is_in_recovery pg_is_other_temp_schema row_security_active"
_ZERO = "pg_relation_size pg_table_size pg_total_relation_size pg_indexes_size pg_database_size pg_tablespace_size"
_NULL = (
    "pg_get_expr pg_get_viewdef pg_get_indexdef pg_get_ruledef pg_get_triggerdef pg_get_partkeydef pg_get_serial_sequence "
    "pg_get_statisticsobjdef_columns pg_get_functiondef pg_get_function_result pg_get_function_arguments "
    "pg_get_function_identity_arguments shobj_description pg_tablespace_location inet_server_addr inet_server_port "
    "json_build_object inet_client_addr pg_stat_get_numscans pg_collation_for age pg_last_committed_xact pg_postmaster_start_time"
)
# functions that mean the same in DuckDB, and reach nothing
_ALLOWED = (
    "abs all and any array array_agg array_append array_position array_to_string avg bool_and bool_or cardinality "
    "case cast ceil coalesce concat count count_star current_date exists explode exploding_generate_series floor "
    "generate_series generate_subscripts greatest group_concat if ifnull in least left length list_agg logical_and "
    "logical_or lower ltrim max min mod not nullif or rank regexp_like regexp_replace replace right round row_number "
    "rtrim split_part starts_with str_position string_agg strpos substr substring sum trim try_cast unnest upper xor"
)


class CatalogQuestion:
    """A SELECT as PostgreSQL writes it: which relations it names, and what it says in DuckDB's words."""

    def __init__(self, tree: exp.Expr) -> None:
        self._tree = tree

    @cached_property
    def names(self) -> set[str]:
        """The relations that it names: NAME of pg_catalog, information_schema.NAME; without those that WITH defines."""
        defined = {cte.alias.lower() for cte in self._tree.find_all(exp.CTE)}
        relations = set()
        for table in self._tree.find_all(exp.Table):
            if not isinstance(table.this, exp.Identifier):
                # A function is judged where functions are.
                continue
            name = table.name.lower()
            if name in defined and not table.db:
                continue
            schema = table.db.lower()
            relations.add(name if schema in ("", "pg_catalog") else f"{schema}.{name}")
        return relations

    def in_duckdb(self, places: Mapping[str, str], values: Mapping[str, str]) -> str:
        """Return it as DuckDB's SQL; raises WireError for a function or a type that it should not use."""
        self._places = places
        self._values = values
        defined = {cte.alias.lower() for cte in self._tree.find_all(exp.CTE)}
        tree = self._rewrite_all(_name_columns(self._tree.copy()))
        for table in tree.find_all(exp.Table):
            if not isinstance(table.this, exp.Identifier):
                # It is a function: its schema says nothing here.
                table.set("db", None)
            elif not (table.name.lower() in defined and not table.db):
                self._place(table)
        return tree.sql(dialect="duckdb")

    def _rewrite_all(self, node: exp.Expr) -> exp.Expr:
        for child in list(node.iter_expressions()):
            rewritten = self._rewrite_all(child)
            if rewritten is not child:
                child.replace(rewritten)
        return self._rewrite(node)

    def _place(self, table: exp.Table) -> None:
        schema = table.db.lower()
        name = table.name.lower() if schema in ("", "pg_catalog") else f"{schema}.{table.name.lower()}"
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
        db, _, relation = self._places[name].partition(".")
        table.set("db", exp.to_identifier(db))
        table.set("catalog", None)
        table.set("this", exp.to_identifier(relation.strip('"'), quoted=True))

    def _rewrite(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Dot) and node.this.name.lower() == "pg_catalog":
            function: exp.Expr = node.expression
            return function
        if isinstance(node, exp.Column) and node.db.lower() in ("pg_catalog", "information_schema"):
            return exp.column(node.this, table=node.args.get("table"))
        if isinstance(node, exp.Operator):
            return self._operator(node)
        if isinstance(node, exp.Collate):
            collated: exp.Expr = node.this
            return collated
        if isinstance(node, exp.Cast):
            return self._cast(node)
        if isinstance(node, exp.Func):
            return self._function(node)
        if (
            isinstance(node, exp.Column)
            and node.name.lower() in ("current_user", "session_user", "user")
            and not node.table
        ):
            return exp.Literal.string(self._values["current_user"])
        if isinstance(node, (exp.Lock, exp.Into, exp.Parameter, exp.Placeholder)):
            raise WireError("0A000", "the catalog is only read")
        return node

    def _operator(self, node: exp.Operator) -> exp.Expr:
        symbol = str(node.args["operator"]).rpartition(".")[2]
        operators: Mapping[str, Callable[[exp.Expr, exp.Expr], exp.Expr]] = {
            "~": lambda a, b: exp.RegexpLike(this=a, expression=b),
            "!~": lambda a, b: exp.Not(this=exp.RegexpLike(this=a, expression=b)),
            "~~": lambda a, b: exp.Like(this=a, expression=b),
            "=": lambda a, b: exp.EQ(this=a, expression=b),
        }
        if symbol not in operators:
            raise WireError("42883", "the catalog does not know this operator")
        return operators[symbol](node.this, node.expression)

    def _cast(self, node: exp.Cast) -> exp.Expr:
        kind = node.to.sql("postgres").lower().rpartition(".")[2].strip('"')
        inner: exp.Expr = node.this
        if kind in ("regclass", "regnamespace", "regtype", "regproc", "regrole"):
            return self._translate_name(inner, kind)
        if kind in ("oid", "xid", "cid"):
            return exp.cast(inner, "bigint")
        if kind in (
            "name",
            "char",
            "cstring",
            "text",
            "varchar",
            "bpchar",
            "regdictionary",
            "regconfig",
            "json",
            "jsonb",
        ):
            return exp.cast(inner, "text")
        if kind in ("text[]", "name[]", "varchar[]", "int2vector", "oidvector", "int2[]", "_text"):
            return inner
        return node

    def _translate_name(self, inner: exp.Expr, kind: str) -> exp.Expr:
        """Return a number by a name, or a name by a number, as regclass and its like do."""
        by = {
            "regclass": ("pg_class", "relname"),
            "regnamespace": ("pg_namespace", "nspname"),
            "regrole": ("pg_roles", "rolname"),
            "regtype": ("pg_type", "typname"),
        }
        if kind not in by:
            return exp.cast(inner, "text")
        relation, name = by[kind]
        while isinstance(inner, exp.Cast):
            inner = inner.this
        if isinstance(inner, exp.Literal) and inner.is_string and not inner.name.isdigit():
            wanted = inner.name.rpartition(".")[2].strip('"')
            if relation == "pg_class" and (wanted in self._places or f"information_schema.{wanted}" in self._places):
                return exp.Literal.number(1259 if wanted == "pg_class" else 1)
            return (
                exp.select("k.oid")
                .from_(f"{relation} AS k")
                .where(exp.column(name, "k").eq(wanted))
                .limit(1)
                .subquery()
            )
        if isinstance(inner, exp.Literal):
            return exp.Literal.number(inner.name)
        name_of = exp.select(f"k.{name}").from_(f"{relation} AS k").where(exp.column("oid", "k").eq(inner.copy()))
        return name_of.limit(1).subquery()

    def _function(self, node: exp.Func) -> exp.Expr:
        name = (node.name if isinstance(node, exp.Anonymous) else node.sql_names()[0]).lower()
        if name in ("current_setting", "set_config"):
            first = node.expressions[0].name.lower() if node.expressions else ""
            return exp.Literal.string(self._values.get(first, ""))
        aliases = {
            "version_": "version",
            "current_catalog": "current_database",
            "session_user": "current_user",
            "current_version": "version",
        }
        if (setting := aliases.get(name, name)) in self._values:
            return exp.Literal.string(self._values[setting])
        if name in ("now", "current_timestamp", "localtimestamp", "clock_timestamp"):
            return exp.Literal.string(datetime.datetime.now(datetime.UTC).isoformat(" ", "milliseconds"))
        if name in _FUNCTIONS:
            arguments = {str(i): one.sql("duckdb") for i, one in enumerate(node.expressions)}
            if len(arguments) < _FUNCTIONS[name].count("{"):
                raise WireError("42883", f"{name} needs more arguments")
            return sqlglot.parse_one(_FUNCTIONS[name].format(*arguments.values()), read="duckdb")
        if (
            name in _TRUE.split()
            or name.endswith("_is_visible")
            or (name.startswith("has_") and name.endswith("_privilege"))
        ):
            return exp.true()
        if name in _FALSE.split():
            return exp.false()
        if name in _ZERO.split():
            return exp.Literal.number(0)
        if name in _NULL.split():
            return exp.cast(exp.null(), "text")
        if name not in _ALLOWED.split():
            raise WireError("42883", f"the catalog does not know the function {name[:60]!r}")
        return node


def _name_columns(tree: exp.Expr) -> exp.Expr:
    """Give each unnamed column of the answer the name that PostgreSQL gives it."""
    select = tree.find(exp.Select)
    for item in select.expressions if select is not None and isinstance(tree, exp.Select) else []:
        if item.alias or isinstance(item, (exp.Star, exp.Column)):
            continue
        item.replace(exp.alias_(item.copy(), _own_name(item), quoted=True))
    return tree


def _own_name(item: exp.Expr) -> str:
    while isinstance(item, (exp.Dot, exp.Cast, exp.Paren)):
        item = item.expression if isinstance(item, exp.Dot) else item.this
    if isinstance(item, exp.Column):
        return item.name
    if isinstance(item, exp.Func):
        name = (item.name if isinstance(item, exp.Anonymous) else item.sql_names()[0]).lower()
        return {"current_version": "version"}.get(name, name)
    return "?column?"
