"""How each form that `sordino sql` prints is read in each dialect, and each engine's SQL of it, printed by one process."""

from __future__ import annotations

import sordino as sd
from sordino.ask.engines.duckdb_primitives import DuckDBPrimitives
from sordino.ask.engines.postgres import PostgresPrimitives
from sordino.ask.engines.spark import SparkPrimitives
from sordino.ask.engines.sql_primitives import SqlPrimitives
from sordino.ask.engines.table_layout import TableLayout
from sordino.ask.queries.aggregation import Aggregation, compile_query
from sordino.ask.queries.row_steps import apply_steps
from sordino.ask.queries.sql.grammar import AGGREGATE_FORMS, ROW_FORMS, TIME_FORMS
from sordino.ask.queries.sql.parse import parse_question, sql
from sordino.ask.queries.sql.text import DIALECTS
from sordino.errors import SordinoError

DOMAIN = sd.Domain(
    {
        "age": sd.Integer(0, 125),
        "pay": sd.Real(0, 90_000, resolution=0.01),
        "job": sd.Category(["nurse", "cook"], missing="keep"),
        "member": sd.Boolean(),
        "joined": sd.Date("2000-01-01", "2020-12-31"),
        "seen": sd.DateTime("2000-01-01", "2020-12-31", zone="Europe/Berlin"),
    }
)
HELD = dict(zip(DOMAIN.stored, ("BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP"), strict=True))
KINDS: tuple[type[SqlPrimitives], ...] = (DuckDBPrimitives, PostgresPrimitives, SparkPrimitives)


def write_texts(asked: Aggregation) -> list[str]:
    """Return the SQL of a question on each engine."""
    compiled, layout = compile_query(asked, DOMAIN), TableLayout(HELD, DOMAIN, None, None)
    made = []
    for kind in KINDS:
        on = kind(layout)
        made.append(compiled.select(apply_steps(on, asked.steps, DOMAIN)).sql(dialect=on.dialect))
    return made


def print_texts(each: int) -> None:
    """Print a line for each n-th form and each dialect: what it is read as, or why it is not, then what is written of it."""
    forms = [f for f, _ in AGGREGATE_FORMS.values()] + [f"COUNT({f})" for f, _ in (ROW_FORMS | TIME_FORMS).values()]
    forms = forms[::each]
    forms.append("SUM(CLIP(LOG2(pay + 1), 0, 20))")  # by a power, which ibis writes otherwise
    for form in forms:
        for dialect in DIALECTS:
            try:
                question = sql(f"SELECT {form} AS a FROM people", dialect=dialect)
                asked = parse_question(question, table="people", columns=DOMAIN.stored)
                assert isinstance(asked, Aggregation)
                print(dialect, repr(asked), *(write_texts(asked) if dialect == "duckdb" else []))
            except SordinoError as error:
                print(dialect, form, error)
