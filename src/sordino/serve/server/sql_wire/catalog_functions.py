"""A question to PostgreSQL's catalog in the words of DuckDB: its relations, functions, casts and operators. It runs nothing."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from functools import cached_property

import sqlglot
from sqlglot import exp

from sordino.serve.server.sql_wire.sqlstates import WireError
from sordino.serve.server.sql_wire.wire_values import read_array

_TYPE_NAMES = {
    16: "boolean", 17: "bytea", 18: '"char"', 19: "name", 20: "bigint", 21: "smallint", 23: "integer", 25: "text", 26: "oid",
    114: "json", 700: "real", 701: "double precision", 1042: "character", 1043: "character varying", 1082: "date",
    1083: "time without time zone", 1114: "timestamp without time zone", 1184: "timestamp with time zone", 1186: "interval",
    1700: "numeric", 2950: "uuid", 3802: "jsonb",
}  # fmt: skip
_FORMAT = "CASE {0} " + " ".join(f"WHEN {k} THEN '{v}'" for k, v in _TYPE_NAMES.items()) + " ELSE '???' END"


def _lookup(relation: str, key: str, value: str) -> str:
    """Return the template that finds a value of a relation by its key {0}, whose names hide none of the question's own."""
    names = f"SELECT {key} AS sordino_key, {value} AS sordino_value FROM {relation}"
    return f"(SELECT k.sordino_value FROM ({names}) AS k WHERE k.sordino_key = {{0}} LIMIT 1)"


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
    "string_to_array": "string_to_array({0}, {1})",
    "parse_ident": "string_split(replace({0}, '\"', ''), '.')",
    # No declared table has an index or a key, so there is nothing to expand.
    "_pg_expandarray": "CAST(NULL AS STRUCT(x BIGINT, n BIGINT))",
    "obj_description": _lookup("pg_description WHERE objsubid = 0", "objoid", "description"),
    "col_description": _lookup("pg_description", "objoid * 10000 + objsubid", "description").replace(
        "{0}", "({0}) * 10000 + ({1})"
    ),
    "pg_get_constraintdef": _lookup("pg_constraint", "oid", "conbin"),
    "to_regtype": _lookup("pg_type", "typname", "oid"),
    "to_regclass": _lookup("pg_class", "relname", "oid"),
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
# columns that hold a function's name, and which clients compare with 0
_PROCEDURES = frozenset({"typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout", "typanalyze"})
_KEYWORDS = (
    "(SELECT keyword_name AS word, upper(left(keyword_category, 1)) AS catcode, keyword_category AS catdesc "
    "FROM duckdb_keywords())"
)
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
                if table.this.name.lower() == "pg_get_keywords":
                    table.replace(_keywords(table.alias))
                elif isinstance(table.this, exp.Split):
                    # one row that holds the array
                    row = exp.select(exp.alias_(table.this.copy(), table.alias or "string_to_array"))
                    table.replace(row.subquery(table.alias or "string_to_array"))
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
        if isinstance(node, exp.Dot) and node.this.name.lower() in ("pg_catalog", "information_schema"):
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
        if isinstance(node, (exp.EQ, exp.NEQ)):
            return _compare(node)
        if isinstance(node, exp.Div):
            # DuckDB's // goes by the types of its operands, as PostgreSQL's / does.
            return exp.IntDiv(this=node.this, expression=node.expression)
        if isinstance(node, exp.AtTimeZone):
            if node.args["zone"].name.upper() != "UTC":
                raise WireError("0A000", "the catalog knows the zone UTC alone")
            moment: exp.Expr = node.this
            return moment
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
        if kind.endswith("[]") or kind in ("int2vector", "oidvector", "_text"):
            return _list_of(inner) or inner
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
            # a function is known by its name
            is_name = isinstance(inner, exp.Literal) and inner.is_string
            return exp.Literal.string(inner.name.rpartition(".")[2]) if is_name else exp.cast(inner, "text")
        relation, name = by[kind]
        while isinstance(inner, exp.Cast):
            inner = inner.this
        if isinstance(inner, exp.Literal) and inner.is_string and not inner.name.isdigit():
            wanted = inner.name.rpartition(".")[2].strip('"')
            if relation == "pg_class" and (wanted in self._places or f"information_schema.{wanted}" in self._places):
                return exp.Literal.number(1259 if wanted == "pg_class" else 1)
            literal = exp.Literal.string(wanted).sql("duckdb")
            return sqlglot.parse_one(_lookup(relation, name, "oid").format(literal), read="duckdb")
        if isinstance(inner, exp.Literal):
            return exp.Literal.number(inner.name)
        if isinstance(inner, (exp.Concat, exp.DPipe)):
            # a text that is put together is a name, with its schema or without
            last = f"""string_split(replace({inner.sql("duckdb")}, '"', ''), '.')[-1]"""
            return sqlglot.parse_one(_lookup(relation, name, "oid").format(last), read="duckdb")
        return sqlglot.parse_one(_lookup(relation, "oid", name).format(inner.sql("duckdb")), read="duckdb")

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
            now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
            return exp.cast(exp.Literal.string(now.isoformat(" ", "milliseconds")), "timestamp")
        if name in ("current_time", "localtime"):
            clock = datetime.datetime.now(datetime.UTC).time()
            return exp.cast(exp.Literal.string(clock.isoformat("milliseconds")), "time")
        if name == "pg_export_snapshot":
            # every transaction sees the same catalog, so one name fits all
            return exp.Literal.string("00000001-00000001-1")
        if name == "current_date":
            today = datetime.datetime.now(datetime.UTC).date()
            return exp.cast(exp.Literal.string(today.isoformat()), "date")
        if isinstance(node, exp.Format):
            return _format(node)
        if name == "pg_get_keywords" and isinstance(node.parent, exp.Table):
            return node
        if name in _FUNCTIONS:
            # a function that the parser knows has its arguments by name
            given = node.expressions or [node.args.get("this"), node.args.get("expression")]
            arguments = [each.sql("duckdb") for each in given if isinstance(each, exp.Expression)]
            if len(arguments) < len(set(re.findall(r"\{[0-9]\}", _FUNCTIONS[name]))):
                raise WireError("42883", f"{name} needs more arguments")
            return sqlglot.parse_one(_FUNCTIONS[name].format(*arguments), read="duckdb")
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
            known = name[:60] if re.fullmatch("[a-z_][a-z0-9_]*", name) else "of another writing"
            raise WireError(
                "42883", f"the catalog does not know the function {name[:60]!r}", unknown=f"function {known}"
            )
        return node


def _keywords(alias: str) -> exp.Expr:
    """Return the relation of SQL's words, as pg_get_keywords() has them."""
    relation = sqlglot.parse_one(f"SELECT * FROM {_KEYWORDS} AS k", read="duckdb").find(exp.Subquery)
    assert relation is not None
    relation.set("alias", exp.TableAlias(this=exp.to_identifier(alias or "pg_get_keywords")))
    return relation


def _compare(node: exp.Binary) -> exp.Expr:
    """Return a comparison with an array, or of a function's name with 0, as DuckDB reads it."""
    listed = node.expression
    if isinstance(listed, exp.Any):
        listed = listed.this.unnest()
    elif isinstance(listed, exp.Anonymous) and listed.name.upper() in ("ALL", "SOME") and len(listed.expressions) == 1:
        listed = listed.expressions[0].unnest()
    else:
        sides = (node.this, node.expression)
        if any(isinstance(side, exp.Column) and side.name.lower() in _PROCEDURES for side in sides):
            for side in sides:
                if isinstance(side, exp.Literal):
                    side.replace(exp.Literal.string(side.name))
        return node
    listed = _list_of(listed) or listed
    if isinstance(listed, (exp.Query, exp.Subquery)) or (
        isinstance(node, exp.NEQ) and isinstance(node.expression, exp.Any)
    ):
        return node
    contains = exp.Anonymous(this="list_contains", expressions=[listed.copy(), node.this.copy()])
    return exp.Not(this=contains) if isinstance(node, exp.NEQ) else contains


def _list_of(array: exp.Expr) -> exp.Expr | None:
    """Return the list that a text is in PostgreSQL's writing, '{a,"b c"}'; None where it is no such text."""
    if not (isinstance(array, exp.Literal) and array.is_string and array.name[:1] == "{"):
        return None
    elements = [each.decode() for each in read_array(array.name.encode()) if each is not None]
    is_whole = all(re.fullmatch(r"-?[0-9]{1,18}", each) for each in elements)
    return exp.Array(expressions=[exp.Literal.number(e) if is_whole else exp.Literal.string(e) for e in elements])


def _format(node: exp.Format) -> exp.Expr:
    """Return format('%I.%s', a, b) as texts beside each other; a name is written as it is."""
    if not (isinstance(node.this, exp.Literal) and node.this.is_string):
        raise WireError("42883", "the catalog knows format() of a constant alone")
    pieces: list[exp.Expr] = []
    values = list(node.expressions)
    for place, text in enumerate(re.split(r"%[sIL]", node.this.name)):
        if place:
            if not values:
                raise WireError("22023", "format() has fewer values than places")
            pieces.append(exp.cast(values.pop(0).copy(), "text"))
        pieces.append(exp.Literal.string(text.replace("%%", "%")))
    return exp.Concat(expressions=pieces, safe=True, coalesce=True)


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
