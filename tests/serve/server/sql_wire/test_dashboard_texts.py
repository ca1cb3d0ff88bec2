"""Questions of the shapes that drivers and dashboards ask, written here, to the port: the catalog, snapshots and charts."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from serving import Served, write_project
from sordino.serve.server.opening import open_service
from sordino.serve.server.sql_wire.wire_server import WireServer
from sql_clients import SqlPort, make_certificate


class Port(SqlPort):
    """A port behind which answers are exact: so much may be spent that the noise is less than half a row."""

    def options(self, who: str = "ana", **more: Any) -> dict[str, Any]:
        return super().options(who, **{"options": "-c sordino.epsilon=60", **more})


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Port]:
    folder: Path = tmp_path_factory.mktemp("people")
    served = Served(open_service(write_project(folder, cap=10**9)))
    served.add("ana", "analyst", epsilon="1e8")
    tls = make_certificate(folder)
    with WireServer(served.service, tls=tls).serving(host="localhost", port=0) as server:
        yield Port(served, server, tls)
    served.service.close()


COLUMNS = [("age",), ("sex",)]
# Each with what it finds, or with how many rows at least.
ASKED: dict[str, tuple[str, list[tuple[Any, ...]] | int]] = {
    "Npgsql: types, with their element found by the function that receives them": (
        "SELECT space.nspname, one.typname, CASE WHEN receiver.proname = 'array_recv' THEN item.typname END AS item "
        "FROM pg_type one JOIN pg_namespace space ON space.oid = one.typnamespace LEFT JOIN pg_proc receiver "
        "ON receiver.oid = one.typreceive LEFT JOIN pg_type item ON item.oid = one.typelem LEFT JOIN pg_range r "
        "ON r.rngtypid = one.oid WHERE one.typtype IN ('b', 'e', 'd') AND r.rngsubtype IS NULL "
        "ORDER BY CASE WHEN one.typtype = 'b' THEN 0 ELSE 1 END",
        20,
    ),
    "Npgsql: fields of composite types": (
        "SELECT a.attname, a.atttypid FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid JOIN pg_attribute a "
        "ON a.attrelid = c.oid WHERE t.typtype = 'c' AND c.relkind = 'c' AND NOT a.attisdropped",
        [],
    ),
    "ODBC of Tableau: tables by a comma join": (
        "select c.relname, n.nspname, c.relkind from pg_catalog.pg_class c, pg_catalog.pg_namespace n where c.relkind in "
        "('r', 'p') and n.oid = c.relnamespace and n.nspname not in ('pg_catalog', 'pg_toast')",
        [("people", "public", "r")],
    ),
    "ODBC of Tableau: columns, with defaults and domains": (
        "select a.attname from ((pg_class c inner join pg_namespace n on n.oid = c.relnamespace and c.relname like 'people') "
        "inner join pg_attribute a on (not a.attisdropped) and a.attnum > 0 and a.attrelid = c.oid) inner join pg_type t on "
        "t.oid = a.atttypid left outer join pg_attrdef d on a.atthasdef and d.adrelid = a.attrelid where pg_get_expr(d.adbin, "
        "d.adrelid) is null and case t.typtype when 'd' then t.typbasetype else 0 end = 0 order by a.attnum",
        COLUMNS,
    ),
    "ODBC of Tableau: a key's columns by their place in the index": (
        "select a.attname from pg_attribute a, pg_attribute ia, pg_index i where i.indisprimary = 't' and ia.attrelid = "
        "i.indexrelid and a.attrelid = i.indrelid and a.attnum = i.indkey[ia.attnum - 1]",
        [],
    ),
    "Power BI: character sets": ("select CHARACTER_SET_NAME from INFORMATION_SCHEMA.CHARACTER_SETS", []),
    "Power BI: columns, in capitals": (
        "select COLUMN_NAME, case when DATA_TYPE like '%unsigned%' then 'u' else IS_NULLABLE end from "
        "INFORMATION_SCHEMA.COLUMNS where TABLE_NAME = 'people' order by ORDINAL_POSITION",
        [("age", "YES"), ("sex", "YES")],
    ),
    "Power BI: foreign keys": (
        "select k.COLUMN_NAME from (select distinct CONSTRAINT_NAME, UNIQUE_CONSTRAINT_NAME from "
        "INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS) r inner join INFORMATION_SCHEMA.KEY_COLUMN_USAGE k "
        "on k.CONSTRAINT_NAME = r.CONSTRAINT_NAME",
        [],
    ),
    "Power BI: unique indexes": (
        "select t.CONSTRAINT_SCHEMA || '_' || t.CONSTRAINT_NAME, k.COLUMN_NAME from INFORMATION_SCHEMA.TABLE_CONSTRAINTS t "
        "inner join INFORMATION_SCHEMA.KEY_COLUMN_USAGE k on k.CONSTRAINT_NAME = t.CONSTRAINT_NAME where t.CONSTRAINT_TYPE "
        "in ('PRIMARY KEY', 'UNIQUE')",
        [],
    ),
    "Superset: schemas": (
        "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' ORDER BY nspname",
        [("information_schema",), ("public",)],
    ),
    "Redash: columns of materialized views and of tables that may be read": (
        "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relkind = 'm' AND "
        "has_table_privilege(c.relname, 'select') UNION SELECT table_name, column_name FROM information_schema.columns WHERE "
        "has_schema_privilege(table_schema, 'usage') AND table_schema = 'public' ORDER BY 2",
        [("people", "age"), ("people", "sex")],
    ),
    "DBeaver: schemas with their comments, by a class": (
        "SELECT n.nspname, d.description FROM pg_namespace n LEFT OUTER JOIN pg_description d ON d.objoid = n.oid AND d.objsubid "
        "= 0 AND d.classoid = 'pg_namespace'::regclass WHERE n.nspname = 'public'",
        [("public", None)],
    ),
    "DBeaver: keywords without those of the standard": (
        "select count(*) > 10 from pg_catalog.pg_get_keywords() where word <> ALL ('{select,from}'::text[])",
        [(True,)],
    ),
    "DBeaver: partitions of a table": (
        "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid), pg_get_partkeydef(c.oid) FROM pg_class c WHERE c.relkind "
        "NOT IN ('i', 'I', 'c')",
        [("people", None, None)],
    ),
    "DBeaver: what depends on a column": (
        "SELECT a.attname FROM pg_attribute a LEFT OUTER JOIN pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = 'i' "
        "AND dep.refobjsubid = a.attnum AND dep.classid = dep.refclassid WHERE dep.objid IS NULL AND a.attrelid = "
        "'people'::regclass ORDER BY a.attnum",
        COLUMNS,
    ),
    "DBeaver: roles and sizes": (
        "SELECT (SELECT count(*) FROM pg_roles) > 0, pg_total_relation_size(c.oid) FROM pg_class c",
        [(True, 0)],
    ),
    "Metabase: privileges, by aliases that are words of SQL": (
        """WITH seen AS (SELECT t.tablename AS "table", has_any_column_privilege(current_user, '"' ||"""
        """ replace(t.schemaname, '"', '""') || '"."' || t.tablename || '"', 'select') AS "select" FROM pg_tables t """
        """WHERE t.schemaname !~ '^pg_') """
        'SELECT seen."table", seen."select" FROM seen',
        [("people", True)],
    ),
    "an alias that is a word of SQL": (
        'SELECT relname AS "select", relkind AS "from" FROM pg_class',
        [("people", "r")],
    ),
    "DuckDB: what the server is": (
        "SELECT pg_is_in_recovery(), (SELECT COUNT(*) FROM pg_settings WHERE name LIKE 'rds%')",
        [(False, 0)],
    ),
    "DuckDB: columns, and keys below them": (
        "SELECT attname, NULL AS con FROM pg_class c JOIN pg_attribute a ON c.oid = a.attrelid WHERE attnum > 0 UNION ALL SELECT "
        "NULL, conname FROM pg_constraint WHERE contype IN ('p', 'u') ORDER BY attname",
        [("age", None), ("sex", None)],
    ),
    "DuckDB: indexes": (
        "SELECT n.oid, i.indexname FROM pg_indexes i JOIN pg_namespace n ON i.schemaname = n.nspname",
        [],
    ),
    "Tableau: a chart": (
        'SELECT "people"."sex" AS "sex", SUM(CAST(1 AS BIGINT)) AS "cnt" FROM "public"."people" "people" GROUP BY 1',
        [("f", 500), ("m", 500)],
    ),
    "Power BI: a chart over a nested table": (
        'select "_"."sex", "_"."a0" from (select "rows"."sex" as "sex", count(1) as "a0" from "public"."people" "rows" group by '
        '"sex") "_" where not "_"."a0" is null limit 1001 offset 0',
        [("f", 500), ("m", 500)],
    ),
    "Tableau: the number of records, where there are any": (
        'SELECT SUM(1) AS "sum:Number of Records:ok" FROM "public"."people" "people" HAVING (COUNT(1) > 0)',
        [(1000,)],
    ),
    "Tableau: the same where there are none": (
        'SELECT SUM(1) AS "n", AVG("people"."age") AS "a" FROM "people" WHERE "people"."age" < 0 HAVING (COUNT(1) > 500)',
        [],
    ),
    "Superset: a big number": ("SELECT COUNT(*) AS n FROM people ORDER BY n DESC LIMIT 50000", [(1000,)]),
    "Redash: distinct totals": (
        "SELECT DISTINCT COUNT(*) AS n, COUNT(*) / 7 AS w FROM people LIMIT 1000",
        [(1000, 142)],
    ),
    "Metabase: a total with a condition and a first page": (
        "SELECT COUNT(*) AS n FROM people HAVING COUNT(*) BETWEEN 1 AND 5000 ORDER BY 1 LIMIT 10 OFFSET 0",
        [(1000,)],
    ),
    "Power BI: no rows, to learn the columns": (
        'select "n" from (select count(*) as "n" from "people") "_" limit 0',
        [],
    ),
    "a list written as text": ("SELECT COUNT(*) FROM people WHERE age = ANY('{1, 2}')", [(20,)]),
    "a list of words written as text": ("""SELECT COUNT(*) FROM people WHERE sex = ANY('{f,"m"}')""", [(1000,)]),
    "all but a list written as text": ("SELECT COUNT(*) FROM people WHERE age <> ALL('{1,2}')", [(980,)]),
    "an empty list written as text": ("SELECT COUNT(*) FROM people WHERE age = ANY('{}')", [(0,)]),
}


# Of the shapes that clients send when they connect and read a schema, written anew after reading the public repositories of
# Npgsql, Grafana, Metabase, Redash, pgcli, dbt and DuckDB's extension; those of the others are from knowledge of what they send.
CONNECTING: dict[str, tuple[str, list[tuple[Any, ...]] | int]] = {
    "Npgsql: types with their elements, in nested tables": (
        "SELECT space.nspname, t.oid, t.typname, t.kind, t.typnotnull, t.item FROM (SELECT one.oid, "
        "one.typnamespace, one.typname, one.kind, one.typnotnull, one.relkind, elem.oid AS item, elem.typname AS "
        "itemname, holder.relkind AS itemkind, CASE WHEN maker.proname='array_recv' THEN 'a' ELSE elem.typtype "
        "END AS itemtype FROM (SELECT y.oid, typnamespace, typname, typrelid, typnotnull, relkind, typelem AS "
        "elemoid, CASE WHEN p.proname='array_recv' THEN 'a' ELSE y.typtype END AS kind, CASE WHEN "
        "p.proname='array_recv' THEN y.typelem WHEN y.typtype='r' THEN rngsubtype WHEN y.typtype='m' THEN "
        "(SELECT rngtypid FROM pg_range WHERE rngmultitypid = y.oid) WHEN y.typtype='d' THEN y.typbasetype END "
        "AS itemoid FROM pg_type AS y LEFT JOIN pg_class AS k ON (k.oid = y.typrelid) LEFT JOIN pg_proc AS p ON "
        "p.oid = y.typreceive LEFT JOIN pg_range ON (pg_range.rngtypid = y.oid)) AS one LEFT JOIN pg_type AS "
        "elem ON elem.oid = itemoid LEFT JOIN pg_class AS holder ON (holder.oid = elem.typrelid) LEFT JOIN "
        "pg_proc AS maker ON maker.oid = elem.typreceive) AS t JOIN pg_namespace AS space ON (space.oid = "
        "typnamespace) WHERE kind IN ('b','r','m','e','d') OR (kind = 'c' AND relkind='c') OR (kind = 'p' AND "
        "typname IN ('record','void')) OR (kind = 'a' AND (itemtype IN ('b','r','m','e','d') OR (itemtype='p' "
        "AND itemname IN ('record','void')) OR (itemtype='c' AND itemkind='c'))) ORDER BY CASE WHEN kind IN "
        "('b','e','p') THEN 0 WHEN kind = 'r' THEN 1 WHEN kind='m' THEN 2 WHEN kind = 'd' AND itemtype <> 'a' "
        "THEN 4 WHEN kind = 'a' THEN 5 END",
        1,
    ),
    "Npgsql: enums": (
        "SELECT pg_type.oid, enumlabel FROM pg_enum JOIN pg_type ON pg_type.oid = enumtypid ORDER BY oid, "
        "enumsortorder",
        [],
    ),
    "Grafana: version": (
        "SELECT current_setting('server_version_num')::int/100 AS version",
        [(1500,)],
    ),
    "Grafana: an extension": (
        "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'",
        [],
    ),
    "Grafana: schemas": (
        'SELECT schema_name AS "name" FROM information_schema.schemata WHERE schema_name NOT IN '
        "('information_schema','pg_catalog','pg_toast','_timescaledb_cache') ORDER BY schema_name",
        [("public",)],
    ),
    "Grafana: tables of the search path": (
        "SELECT CASE WHEN quote_ident(table_schema) IN (SELECT CASE WHEN trim(p[n]) = '\"$user\"' THEN user ELSE "
        "trim(p[n]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'),','),1), "
        "array_upper(string_to_array(current_setting('search_path'),','),1)) AS n, "
        "string_to_array(current_setting('search_path'),',') p) THEN quote_ident(table_name) ELSE "
        "quote_ident(table_schema) || '.' || quote_ident(table_name) END AS \"table\" FROM "
        "information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema','pg_catalog') "
        "ORDER BY CASE WHEN quote_ident(table_schema) IN (SELECT trim(p[n]) FROM generate_series(1, 2) AS n, "
        "string_to_array(current_setting('search_path'),',') p) THEN 0 ELSE 1 END, 1",
        [("people",)],
    ),
    "Grafana: columns": (
        'SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE '
        "CASE WHEN array_length(parse_ident('public.people'),1) = 2 THEN quote_ident(table_schema) = "
        "(parse_ident('public.people'))[1] AND quote_ident(table_name) = (parse_ident('public.people'))[2] ELSE "
        "quote_ident(table_name) = 'public.people' END",
        [("age", "bigint"), ("sex", "text")],
    ),
    "Metabase: tables with estimated rows": (
        'SELECT "space"."nspname" AS "schema", "rel"."relname" AS "name", CASE "rel"."relkind" WHEN \'r\' THEN '
        "'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE "
        'NULL END AS "type", "remark"."description" AS "description", "counted"."n_live_tup" AS '
        '"estimated_row_count" FROM "pg_catalog"."pg_class" AS "rel" INNER JOIN "pg_catalog"."pg_namespace" AS '
        '"space" ON "rel"."relnamespace" = "space"."oid" LEFT JOIN "pg_catalog"."pg_description" AS "remark" ON '
        '("rel"."oid" = "remark"."objoid") AND ("remark"."objsubid" = 0) AND ("remark"."classoid" = '
        '\'pg_class\'::regclass) LEFT JOIN "pg_stat_user_tables" AS "counted" ON ("space"."nspname" = '
        '"counted"."schemaname") AND ("rel"."relname" = "counted"."relname") WHERE ("rel"."relnamespace" = '
        '"space"."oid") AND ("space"."nspname" !~ \'^pg_\') AND ("space"."nspname" <> \'information_schema\') AND '
        "rel.relkind in ('r','p','v','f','m') AND (\"space\".\"nspname\" IN ('public')) ORDER BY \"type\" ASC, "
        '"schema" ASC, "name" ASC',
        [("public", "people", "TABLE", "budget: people; neighbors: add_remove; privacy unit: row", None)],
    ),
    "Metabase: fields": (
        'SELECT "c"."column_name" AS "name", CASE WHEN "c"."udt_schema" IN (\'public\',\'pg_catalog\') THEN '
        'FORMAT(\'%s\', "c"."udt_name") ELSE FORMAT(\'"%s"."%s"\', "c"."udt_schema", "c"."udt_name") END AS '
        '"database-type", "c"."ordinal_position" - 1 AS "database-position", "keyed"."column_name" IS NOT NULL '
        'AS "keyed?", COL_DESCRIPTION(CAST(CAST(FORMAT(\'%I.%I\', CAST("c"."table_schema" AS TEXT), '
        'CAST("c"."table_name" AS TEXT)) AS REGCLASS) AS OID), "c"."ordinal_position") AS "field-comment", '
        '(("column_default" IS NULL) OR (LOWER("column_default") = \'null\')) AND ("is_nullable" = \'NO\') AND NOT '
        '((("column_default" IS NOT NULL) AND ("column_default" LIKE \'%nextval(%\')) OR ("is_identity" <> \'NO\')) '
        'AS "required" FROM "information_schema"."columns" AS "c" LEFT JOIN (SELECT "rule"."table_schema", '
        '"rule"."table_name", "used"."column_name" FROM "information_schema"."table_constraints" AS "rule" INNER '
        'JOIN "information_schema"."key_column_usage" AS "used" ON ("rule"."constraint_name" = '
        '"used"."constraint_name") AND ("rule"."table_schema" = "used"."table_schema") AND ("rule"."table_name" '
        '= "used"."table_name") WHERE "rule"."constraint_type" = \'PRIMARY KEY\') AS "keyed" ON '
        '("c"."table_schema" = "keyed"."table_schema") AND ("c"."table_name" = "keyed"."table_name") AND '
        '("c"."column_name" = "keyed"."column_name") WHERE c.table_schema !~ '
        "'^information_schema|catalog_history|pg_' AND (\"c\".\"table_schema\" IN ('public')) UNION ALL SELECT "
        '"field"."attname" AS "name", CASE WHEN "kindspace"."nspname" IN (\'public\',\'pg_catalog\') THEN '
        'FORMAT(\'%s\', "kind"."typname") ELSE FORMAT(\'"%s"."%s"\', "kindspace"."nspname", "kind"."typname") END, '
        '"field"."attnum" - 1, FALSE, NULL, FALSE FROM "pg_catalog"."pg_class" AS "rel" INNER JOIN '
        '"pg_catalog"."pg_namespace" AS "space" ON "space"."oid" = "rel"."relnamespace" INNER JOIN '
        '"pg_catalog"."pg_attribute" AS "field" ON "field"."attrelid" = "rel"."oid" INNER JOIN '
        '"pg_catalog"."pg_type" AS "kind" ON "kind"."oid" = "field"."atttypid" INNER JOIN '
        '"pg_catalog"."pg_namespace" AS "kindspace" ON "kindspace"."oid" = "kind"."typnamespace" WHERE '
        '"rel"."relkind" = \'m\' AND "field"."attnum" >= 1 ORDER BY 1',
        2,
    ),
    "Metabase: enums": (
        "SELECT nspname, typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid IN "
        "(SELECT DISTINCT enumtypid FROM pg_enum e)",
        [],
    ),
    "Metabase: the zone": (
        "show timezone",
        [("UTC",)],
    ),
    "Redash: relations and columns": (
        "SELECT space.nspname AS table_schema, rel.relname AS table_name, field.attname AS column_name FROM "
        "pg_class rel JOIN pg_namespace space ON rel.relnamespace = space.oid AND space.nspname NOT IN "
        "('pg_catalog','information_schema') JOIN pg_attribute field ON field.attrelid = rel.oid AND "
        "field.attnum > 0 AND NOT field.attisdropped WHERE rel.relkind IN ('m','f','p') UNION SELECT "
        "table_schema, table_name, column_name FROM information_schema.columns WHERE table_schema NOT IN "
        "('pg_catalog','information_schema')",
        [("public", "people", "age"), ("public", "people", "sex")],
    ),
    "pgcli: columns with defaults": (
        "SELECT s.nspname, r.relname, f.attname, f.atttypid::regtype::text AS kind, f.atthasdef, "
        "pg_catalog.pg_get_expr(v.adbin, v.adrelid, true) FROM pg_catalog.pg_attribute f INNER JOIN "
        "pg_catalog.pg_class r ON f.attrelid = r.oid INNER JOIN pg_catalog.pg_namespace s ON r.relnamespace = "
        "s.oid LEFT OUTER JOIN pg_attrdef v ON v.adrelid = f.attrelid AND v.adnum = f.attnum WHERE r.relkind = "
        "ANY('{r,p,f}') AND NOT f.attisdropped AND f.attnum > 0 ORDER BY 1, 2, f.attnum",
        [("public", "people", "age", "int8", False, None), ("public", "people", "sex", "text", False, None)],
    ),
    "pgcli: foreign keys": (
        "SELECT ps.nspname, pt.relname, unnest((select array_agg(attname ORDER BY i) from (select "
        "unnest(confkey) as attnum, generate_subscripts(confkey, 1) as i) pairs JOIN pg_catalog.pg_attribute "
        "field USING(attnum) WHERE field.attrelid = k.confrelid)) AS parent, cs.nspname FROM "
        "pg_catalog.pg_constraint k JOIN pg_catalog.pg_class pt ON pt.oid = k.confrelid JOIN "
        "pg_catalog.pg_namespace ps ON ps.oid = pt.relnamespace JOIN pg_catalog.pg_class ct ON ct.oid = "
        "k.conrelid JOIN pg_catalog.pg_namespace cs ON cs.oid = ct.relnamespace WHERE k.contype = 'f'",
        [],
    ),
    "pgcli: functions": (
        "SELECT space.nspname, f.proname, f.proargnames, COALESCE(proallargtypes::regtype[], "
        "proargtypes::regtype[])::text[], f.proargmodes, prorettype::regtype::text, f.prokind = 'a', f.prokind = "
        "'w', f.proretset, need.deptype = 'e', pg_get_expr(proargdefaults, 0) FROM pg_catalog.pg_proc f INNER "
        "JOIN pg_catalog.pg_namespace space ON space.oid = f.pronamespace LEFT JOIN pg_depend need ON need.objid "
        "= f.oid AND need.deptype = 'e' WHERE f.prorettype::regtype != 'trigger'::regtype ORDER BY 1, 2",
        [],
    ),
    "pgcli: search path": (
        "SELECT * FROM unnest(current_schemas(true))",
        [("pg_catalog",), ("public",)],
    ),
    "pgcli: databases": (
        "SELECT d.datname FROM pg_catalog.pg_database d ORDER BY 1",
        [("sordino",)],
    ),
    "Rails: types": (
        "SELECT t.oid, t.typname, t.typelem, t.typdelim, t.typinput, r.rngsubtype, t.typtype, t.typbasetype FROM "
        "pg_type AS t LEFT JOIN pg_range AS r ON oid = rngtypid WHERE t.typname IN "
        "('int2','int4','int8','text','bool') OR t.typtype IN ('r','e','d') OR t.typelem IN (16,20)",
        1,
    ),
    "Rails: columns": (
        "SELECT field.attname, format_type(field.atttypid, field.atttypmod), pg_get_expr(preset.adbin, "
        "preset.adrelid), field.attnotnull, field.atttypid, field.atttypmod, order_by.collname, "
        "col_description(field.attrelid, field.attnum) AS comment, field.attidentity, field.attgenerated FROM "
        "pg_attribute field LEFT JOIN pg_attrdef preset ON field.attrelid = preset.adrelid AND field.attnum = "
        "preset.adnum LEFT JOIN pg_type kind ON field.atttypid = kind.oid LEFT JOIN pg_collation order_by ON "
        "field.attcollation = order_by.oid AND field.attcollation <> kind.typcollation WHERE field.attrelid = "
        "'\"people\"'::regclass AND field.attnum > 0 AND NOT field.attisdropped ORDER BY field.attnum",
        2,
    ),
    "Rails: tables": (
        "SELECT c.relname FROM pg_class c LEFT JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = "
        "ANY (current_schemas(false)) AND c.relkind IN ('r','v','m','p','f')",
        [("people",)],
    ),
    "Rails: primary keys": (
        "SELECT a.attname FROM (SELECT indrelid, indkey, generate_subscripts(indkey, 1) idx FROM pg_index WHERE "
        "indrelid = '\"people\"'::regclass AND indisprimary) i JOIN pg_attribute a ON a.attrelid = i.indrelid AND "
        "a.attnum = i.indkey[i.idx] ORDER BY i.idx",
        [],
    ),
    "Rails: settings": (
        "SELECT name, setting FROM pg_settings WHERE name IN ('max_identifier_length')",
        [("max_identifier_length", "63")],
    ),
    "Rails: max identifier": (
        "SHOW max_identifier_length",
        [("63",)],
    ),
    "knex: columns": (
        "select * from information_schema.columns where table_name = 'people' and table_catalog = "
        "current_database() and table_schema = current_schema()",
        2,
    ),
    "knex: has a table": (
        "select * from information_schema.tables where table_name = 'people' and table_schema = current_schema()",
        1,
    ),
    "dbt: relations": (
        "select 'sordino' as base, tablename as called, schemaname as schema, 'table' as type from pg_tables "
        "where schemaname ilike 'public' union all select 'sordino', viewname, schemaname, 'view' from pg_views "
        "where schemaname ilike 'public' union all select 'sordino', matviewname, schemaname, "
        "'materialized_view' from pg_matviews where schemaname ilike 'public'",
        [("sordino", "people", "public", "table")],
    ),
    "dbt: columns": (
        "select column_name, data_type, character_maximum_length, numeric_precision, numeric_scale from "
        "\"sordino\".INFORMATION_SCHEMA.columns where table_name = 'people' and table_schema = 'public' order by "
        "ordinal_position",
        [("age", "bigint", None, None, None), ("sex", "text", None, None, None)],
    ),
    "dbt: schemas": (
        "select distinct nspname from pg_namespace",
        3,
    ),
    "dbt: a catalog": (
        "select 'sordino' as base, space.nspname as table_schema, rel.relname as table_name, case rel.relkind "
        "when 'v' then 'VIEW' when 'm' then 'MATERIALIZED VIEW' else 'BASE TABLE' end as table_type, "
        "about.description as words, field.attname, field.attnum, pg_catalog.format_type(field.atttypid, "
        "field.atttypmod), remark.description, pg_get_userbyid(rel.relowner) as keeper from "
        "pg_catalog.pg_namespace space join pg_catalog.pg_class rel on rel.relnamespace = space.oid join "
        "pg_catalog.pg_attribute field on field.attrelid = rel.oid left outer join pg_catalog.pg_description "
        "about on (about.objoid = rel.oid and about.objsubid = 0) left outer join pg_catalog.pg_description "
        "remark on (remark.objoid = rel.oid and remark.objsubid = field.attnum) where (upper(space.nspname) = "
        "upper('public')) and not pg_is_other_temp_schema(space.oid) and rel.relpersistence in ('p','u') and "
        "rel.relkind in ('r','v','f','p','m') and field.attnum > 0 and not field.attisdropped order by "
        "space.nspname, rel.relname, field.attnum",
        2,
    ),
    "dbt: dependencies of views": (
        "with rewrites as (select pg_rewrite.ev_class as rels, pg_rewrite.oid as number from pg_rewrite), rels "
        "as (select oid as number, relname as name, relnamespace as spaces, relkind as kind from pg_class), "
        "needs as (select distinct pg_depend.objid as number, pg_depend.refobjid as target from pg_depend), "
        "spaces as (select pg_namespace.oid as number, pg_namespace.nspname as name from pg_namespace where "
        "nspname != 'information_schema' and nspname not like 'pg\\_%') select s.name, c.name from rewrites r "
        "join rels c on r.rels = c.number join spaces s on c.spaces = s.number join needs d on d.number = "
        "r.number where c.kind in ('r','v','m')",
        [],
    ),
    "DuckDB: tables, columns and constraints": (
        "SELECT pg_namespace.oid AS space, relname, relpages, attname, pg_type.typname kind, atttypmod modifier, "
        "pg_attribute.attndims dims, attnum, pg_attribute.attnotnull AS required, NULL rule, NULL rule_kind, "
        "NULL rule_key FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid JOIN pg_attribute ON "
        "pg_class.oid = pg_attribute.attrelid JOIN pg_type ON atttypid = pg_type.oid WHERE attnum > 0 AND "
        "relkind IN ('r','v','m','f','p') UNION ALL SELECT pg_namespace.oid, relname, NULL, NULL, NULL, NULL, "
        "NULL, NULL, NULL, pg_constraint.oid, contype, conkey FROM pg_class JOIN pg_namespace ON relnamespace = "
        "pg_namespace.oid JOIN pg_constraint ON (pg_class.oid = pg_constraint.conrelid) WHERE relkind IN "
        "('r','v') AND contype IN ('p','u') ORDER BY space, relname, attnum, rule",
        2,
    ),
    "DuckDB: enums and composites": (
        "SELECT space.oid, enumtypid, typname, enumlabel FROM pg_enum label JOIN pg_type kind ON label.enumtypid "
        "= kind.oid JOIN pg_namespace AS space ON (typnamespace = space.oid) ORDER BY space.oid, enumtypid, "
        "enumsortorder",
        [],
    ),
    "DuckDB: schemas": (
        "SELECT oid, nspname FROM pg_namespace ORDER BY oid",
        3,
    ),
    "DuckDB: version and settings": (
        "SELECT version(), (SELECT COUNT(*) FROM pg_settings WHERE name LIKE 'rds%')",
        1,
    ),
    "DuckDB: a ctid scan": (
        "SELECT relpages FROM pg_class WHERE relname = 'people'",
        [(0,)],
    ),
    "ADBC: types": (
        "SELECT oid, typname, typreceive, typbasetype, typrelid, typarray FROM pg_catalog.pg_type WHERE "
        "(typreceive != 0 OR typsend != 0) AND typtype != 'r' AND typreceive::TEXT != 'array_recv'",
        1,
    ),
    "ADBC: attributes": (
        "SELECT attrelid, attname, atttypid FROM pg_catalog.pg_attribute ORDER BY attrelid, attnum",
        2,
    ),
    "Superset: tables": (
        "SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON "
        "pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace WHERE pg_catalog.pg_class.relkind = ANY "
        "(ARRAY['r','p']) AND pg_catalog.pg_class.relpersistence != 't' AND "
        "pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname != "
        "'pg_catalog'",
        [("people",)],
    ),
    "Superset: catalogs": (
        "SELECT datname FROM pg_database WHERE datistemplate = false",
        [("sordino",)],
    ),
    "Superset: the price": (
        "EXPLAIN SELECT COUNT(*) FROM people",
        1,
    ),
    "DBeaver: a database": (
        "SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE datname = 'sordino'",
        1,
    ),
    "DBeaver: schemas": (
        "SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN "
        "pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = "
        "'pg_namespace'::regclass ORDER BY nspname",
        1,
    ),
    "DBeaver: tables of a schema": (
        "SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr, "
        "pg_catalog.pg_get_partkeydef(c.oid) AS partition_key FROM pg_catalog.pg_class c LEFT OUTER JOIN "
        "pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = "
        "'pg_class'::regclass WHERE c.relnamespace = 2200 AND c.relkind NOT IN ('i','I','c')",
        1,
    ),
    "DBeaver: columns": (
        "SELECT c.relname, field.*, pg_catalog.pg_get_expr(preset.adbin, preset.adrelid, true) AS preset_words, "
        "remark.description, need.objid FROM pg_catalog.pg_attribute field INNER JOIN pg_catalog.pg_class c ON "
        "(field.attrelid = c.oid) LEFT OUTER JOIN pg_catalog.pg_attrdef preset ON (field.attrelid = "
        "preset.adrelid AND field.attnum = preset.adnum) LEFT OUTER JOIN pg_catalog.pg_description remark ON "
        "(c.oid = remark.objoid AND field.attnum = remark.objsubid) LEFT OUTER JOIN pg_depend need ON "
        "need.refobjid = field.attrelid AND need.deptype = 'i' AND need.refobjsubid = field.attnum AND "
        "need.classid = need.refclassid WHERE NOT field.attisdropped AND c.relkind NOT IN ('i','I','c') AND "
        "c.oid = 'people'::regclass ORDER BY field.attnum",
        2,
    ),
    "DBeaver: constraints": (
        "SELECT c.oid, c.*, t.relname AS relation, other.relnamespace AS other_space, d.description, CASE WHEN "
        "c.contype = 'c' THEN substring(pg_get_constraintdef(c.oid) from 7) ELSE NULL END AS words FROM "
        "pg_catalog.pg_constraint c INNER JOIN pg_catalog.pg_class t ON t.oid = c.conrelid LEFT OUTER JOIN "
        "pg_catalog.pg_class other ON other.oid = c.confrelid LEFT OUTER JOIN pg_catalog.pg_description d ON "
        "d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_constraint'::regclass WHERE c.conrelid = "
        "'people'::regclass ORDER BY c.oid",
        1,
    ),
    "DBeaver: settings, session": (
        "SELECT current_schema(), session_user, setting FROM pg_catalog.pg_settings WHERE name = "
        "'standard_conforming_strings' UNION ALL SELECT current_schema(), session_user, 'x'",
        [("public", "ana", "on"), ("public", "ana", "x")],
    ),
    "DBeaver: types": (
        "SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base, d.description "
        "FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type item ON item.oid = t.typelem LEFT OUTER "
        "JOIN pg_catalog.pg_class c ON c.oid = t.typrelid LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid = "
        "d.objoid WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND (item.typcategory "
        "IS NULL OR item.typcategory <> 'C')",
        1,
    ),
    "Looker: tables": (
        "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_schema NOT IN "
        "('information_schema','pg_catalog') ORDER BY 1, 2",
        [("public", "people", "BASE TABLE")],
    ),
    "Looker: now": (
        "SELECT CURRENT_TIMESTAMP AT TIME ZONE 'UTC'",
        1,
    ),
    "Power BI: tables with kinds": (
        "select TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE from INFORMATION_SCHEMA.tables where TABLE_SCHEMA not in "
        "('information_schema','pg_catalog') order by TABLE_SCHEMA, TABLE_NAME",
        [("public", "people", "BASE TABLE")],
    ),
    "Tableau: what the server can": (
        "SELECT 1 WHERE has_function_privilege('pg_catalog.version()', 'execute')",
        [(1,)],
    ),
    "Hibernate: sequences": (
        "select * from information_schema.sequences",
        [],
    ),
    "Power BI: totals by a folded step": (
        'select "rows"."sex" as "sex", count(*) as "n", cast(sum("rows"."age") as decimal) / '
        'cast(count("rows"."age") as decimal) as "a" from "public"."people" "rows" group by "sex"',
        2,
    ),
    "Metabase: share by window": (
        'SELECT "public"."people"."sex" AS "sex", COUNT(*) AS "n", CAST(COUNT(*) AS DOUBLE PRECISION) / '
        'SUM(COUNT(*)) OVER () AS "share" FROM "public"."people" GROUP BY "public"."people"."sex"',
        [("f", 500, 0.5), ("m", 500, 0.5)],
    ),
    "Looker: top rows by a rank": (
        'SELECT * FROM (SELECT sex AS "people.sex", COUNT(*) AS "people.count", RANK() OVER (ORDER BY COUNT(*) '
        "DESC) AS r FROM public.people AS people GROUP BY 1) t WHERE r <= 5",
        2,
    ),
    "dbt: indexes": (
        'select named.relname as name, way.amname as by, x.indisunique as "unique", '
        "array_to_string(array_agg(field.attname), ',') as fields from pg_index x join pg_class named on "
        "named.oid = x.indexrelid join pg_am way on way.oid=named.relam join pg_class rel on rel.oid = "
        "x.indrelid join pg_namespace space on space.oid = rel.relnamespace join pg_attribute field on "
        "field.attrelid = rel.oid and field.attnum = ANY(x.indkey) where rel.relname = 'people' and "
        "space.nspname = 'public' group by 1, 2, 3 order by 1, 2, 3",
        [],
    ),
    "dbt: grants": (
        'select grantee, privilege_type from "sordino".information_schema.role_table_grants where grantor = '
        "current_role and grantee != current_role and table_schema = 'public' and table_name = 'people'",
        [],
    ),
    "dbt: a schema": (
        "select count(*) from pg_namespace where nspname = 'public'",
        [(1,)],
    ),
}


@pytest.mark.each(4)
@pytest.mark.parametrize("what", [*ASKED, *CONNECTING])
def test_what_a_client_asks_is_answered(port: Port, what: str) -> None:
    text, expected = (ASKED | CONNECTING)[what]
    with port.connect() as connection:
        rows = connection.execute(text.encode()).fetchall()
    if isinstance(expected, int):
        assert len(rows) >= expected
    else:
        assert rows == expected


def test_the_types_of_columns_are_named_to_metabase(port: Port) -> None:
    with port.connect() as connection:
        rows = connection.execute(CONNECTING["Metabase: fields"][0].encode()).fetchall()
    assert [row[:3] for row in rows] == [("age", "int8", 0), ("sex", "text", 1)]


@pytest.mark.parametrize("listed", ["{1,NULL}", "{{1},{2}}", "{1,}", "{", "1", '{"1}', '{a"b}'])
def test_a_text_that_is_no_list_is_refused_before_a_charge(port: Port, listed: str) -> None:
    before = port.spent()
    with port.connect() as connection, pytest.raises(psycopg.Error, match="ANY takes a list of constants"):
        connection.execute(f"SELECT COUNT(*) FROM people WHERE age = ANY('{listed}')".encode())
    assert port.spent() == before


def test_duckdb_copies_within_a_snapshot(port: Port) -> None:
    """As DuckDB's extension reads: several connections in one snapshot, each with a copy in binary."""
    begin = b"BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
    with port.connect() as first, port.connect() as second:
        first.execute(begin)
        ((snapshot,),) = first.execute("SELECT pg_export_snapshot()").fetchall()
        second.execute(begin)
        second.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'".encode())
        text = b'COPY (SELECT "sex", COUNT(*) AS n FROM "public"."people" GROUP BY "sex") TO STDOUT (FORMAT "binary")'
        with second.cursor().copy(text) as copy:
            copy.set_types(["text", "int8"])
            assert list(copy.rows()) == [("f", 500), ("m", 500)]
        second.execute("COMMIT")


def test_the_time_of_day_is_text(port: Port) -> None:
    with port.connect() as connection:
        ((now, description),) = connection.execute("SELECT current_time, 'x' FROM pg_class").fetchall()
    assert (datetime.time.fromisoformat(now).tzinfo, description) == (None, "x")
