"""Pages of questions: the form, SQL with its errors marked, plans and answers."""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from sordino.ask.queries.sql.parse import SqlText
from sordino.core.errors import ApprovalNeeded, DeclarationError, QuestionRefused
from sordino.core.loss import to_fraction
from sordino.core.release import Release, show_columns
from sordino.serve.server.access import NotThere, Visitor
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.http_request import read_form, run_work, service_of
from sordino.serve.server.problems import words_of
from sordino.serve.server.question_request import QuestionRequest, read_question_request
from sordino.serve.workbench.page_route import Changing, PageRoute, Reading, float_of, fragment, go, new_request, page

# ---- A question built without SQL: measure, filters, groups become the text of one SELECT. It sees declared columns
# only

# The words of each measure, its SQL, and the types of column it takes.
MEASURES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "count": ("how many rows", "COUNT(*)", ()),
    "mean": ("the mean of", "AVG({})", ("integer", "real")),
    "sum": ("the sum of", "SUM({})", ("integer", "real")),
    "median": ("the median of", "MEDIAN({})", ("integer", "real")),
    "deviation": ("the standard deviation of", "STDDEV_SAMP({})", ("integer", "real")),
    "variance": ("the variance of", "VAR_SAMP({})", ("integer", "real")),
    "different": ("how many different values of", "COUNT(DISTINCT {})", ("integer", "category", "boolean", "date")),
}
FILTERS = 3
_OPERATORS = {"is": "=", "is not": "<>", "at least": ">=", "at most": "<=", "above": ">", "below": "<"}
_EQUALITY = ("is", "is not")


def filter_operators() -> tuple[str, ...]:
    """Return the words that a filter compares by."""
    return tuple(_OPERATORS)


def build_select(table: Mapping[str, Any], form: Mapping[str, str]) -> str:
    """Return the SELECT that the fields of a form state, about a table as the service lists it; raises DeclarationError.

    >>> people = {"name": "people", "columns": {"age": {"type": "integer"}, "sex": {"type": "category", "values": ["f"]}}}
    >>> fields = {"measure": "mean", "of": "age", "group:sex": "on", "column:1": "sex", "operator:1": "is", "value:1": "f"}
    >>> build_select(people, fields)
    "SELECT sex, AVG(age) AS mean FROM people WHERE sex = 'f' GROUP BY sex"
    """
    columns: Mapping[str, Mapping[str, Any]] = table["columns"]
    measure = form.get("measure", "count")
    if measure not in MEASURES:
        raise DeclarationError("must be one of the measures in the list", key="measure")
    _, template, types = MEASURES[measure]
    if types:
        of = _column(columns, form.get("of", ""), key="of")
        if columns[of]["type"] not in types:
            raise DeclarationError(f"takes a column of type {', '.join(types)}; choose another one", key=measure)
        template = template.format(_name(of))
    groups = [_name(column) for column in columns if form.get(f"group:{column}")]
    where = [_filter(columns, form, place) for place in range(1, FILTERS + 1) if form.get(f"column:{place}")]
    parts = [f"SELECT {', '.join([*groups, f'{template} AS {_name(measure)}'])} FROM {_name(table['name'])}"]
    parts += [f"WHERE {' AND '.join(where)}"] if where else []
    parts += [f"GROUP BY {', '.join(groups)}"] if groups else []
    return " ".join(parts)


def _column(columns: Mapping[str, Any], name: str, *, key: str) -> str:
    if name not in columns:
        raise DeclarationError("must be a declared column: choose one from the list", key=key)
    return name


def _name(name: str) -> str:
    """Return a name as SQL writes it, quoted where it is not plain."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and name[0].isalpha() and name.islower()
    return name if plain and _RESERVED.fullmatch(name) is None else '"' + name.replace('"', '""') + '"'


_RESERVED = re.compile(
    "all|and|as|asc|between|by|case|cast|count|create|cross|current|date|desc|distinct|else|end|exists|false|first|from|full|"
    "group|having|in|index|inner|interval|into|is|join|key|last|left|like|limit|not|null|offset|on|or|order|outer|primary|"
    "range|references|right|row|rows|schema|select|set|some|sum|table|then|time|timestamp|to|true|union|unique|update|user|"
    "using|values|view|when|where|with"
)


def _filter(columns: Mapping[str, Mapping[str, Any]], form: Mapping[str, str], place: int) -> str:
    name = _column(columns, form[f"column:{place}"], key=f"filter {place}")
    operator = form.get(f"operator:{place}", "is")
    kind = columns[name]["type"]
    if operator not in _OPERATORS or (operator not in _EQUALITY and kind in ("category", "boolean", "identifier")):
        raise DeclarationError(f"compares {name} by is or is not", key=f"filter {place}")
    return (
        f"{_name(name)} {_OPERATORS[operator]} {_literal(kind, columns[name], form.get(f'value:{place}', ''), place)}"
    )


def _literal(kind: str, column: Mapping[str, Any], text: str, place: int) -> str:
    key = f"filter {place}"
    if kind in ("integer", "real") or (kind == "category" and _is_number(column)):
        return str(_decimal(text, key=key))
    if kind == "boolean":
        if text.lower() not in ("true", "false"):
            raise DeclarationError("is true or false", key=key)
        return text.upper()
    if kind == "date":
        try:
            return f"DATE '{datetime.date.fromisoformat(text)}'"
        except ValueError:
            raise DeclarationError("is a day, such as 2024-05-31", key=key) from None
    return "'" + text.replace("'", "''") + "'"


def _is_number(column: Mapping[str, Any]) -> bool:
    return all(isinstance(value, int) for value in column.get("values", ()))


def _decimal(text: str, *, key: str) -> str:
    """Return a number as SQL writes it; the text of a form is read whole, so nothing else gets in."""
    number = to_fraction(text, name=key)
    if number.denominator == 1:
        return str(number.numerator)
    plain = text.strip()
    if not plain.replace(".", "", 1).lstrip("-").isdigit():
        raise DeclarationError("is a number, such as 12.5", key=key)
    return plain


# ---- Where in a text an error stands, by the line and column that its words name. It reads words and the text
# asked, no data

_PLACE = re.compile(r"line (\d{1,6}), column (\d{1,6})")
_QUOTED = re.compile(r"'(\w+)'")


@dataclass(frozen=True, slots=True)
class MarkedError:
    """Hold the line of an error in three parts, of which `at` is wrong, and where that begins and ends in the whole text."""

    line: int
    before: str
    at: str
    after: str
    start: int
    end: int


def mark_error(text: str, words: str) -> MarkedError | None:
    """Return the place that the words of an error name in a text; None where they name none.

    >>> mark_error("SELECT nn FROM t", "line 1, column 8: nn is unknown").at
    'nn'
    """
    lines = text.split("\n")
    place = _place_of(words, lines)
    if place is None:
        return None
    number, column = place
    line = lines[number - 1]
    word = re.match(r"\w+|\S|", line[column:])
    size = len(word[0]) if word is not None else 0
    start = sum(len(one) + 1 for one in lines[: number - 1]) + column
    return MarkedError(number, line[:column], line[column : column + size], line[column + size :], start, start + size)


def _place_of(words: str, lines: list[str]) -> tuple[int, int] | None:
    """Return line and column: as the words name them, else where the first name that they quote stands."""
    match = _PLACE.search(words)
    if match is not None:
        number = int(match[1])
        column = int(match[2]) - 1
        fits = 0 < number <= len(lines) and 0 <= column <= len(lines[number - 1])
        return (number, column) if fits else None
    for name in _QUOTED.findall(words)[:1]:
        for number, line in enumerate(lines, 1):
            at = re.search(rf"\b{re.escape(name)}\b", line)
            if at is not None:
                return number, at.start()
    return None


# ---- The words that the SQL editor completes: what questions may hold, and declared tables, columns and values

_LANGUAGE = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "HAVING",
    "ORDER BY",
    "LIMIT",
    "AS",
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "IS NULL",
    "CASE WHEN",
    "JOIN",
    "ON",
    "EXISTS",
    "COUNT(*)",
    "COUNT(DISTINCT ",
    "SUM(",
    "AVG(",
    "MEDIAN(",
    "QUANTILE_CONT(",
    "VAR_SAMP(",
    "STDDEV_SAMP(",
    "CORR(",
    "COVAR_SAMP(",
]
# Values of a column.
_MOST = 100


def words_of_tables(tables: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return each word with what it is; all of it is declared, nothing comes from data.

    >>> words_of_tables([{"name": "people", "columns": {"age": {"type": "integer"}}}])[-2:]
    [{'word': 'people', 'is': 'table'}, {'word': 'age', 'is': 'integer of people'}]
    """
    words = [{"word": word, "is": "SQL"} for word in _LANGUAGE]
    for table in tables:
        words.append({"word": table["name"], "is": "table"})
        for name, column in table["columns"].items():
            words.append({"word": name, "is": f"{column['type']} of {table['name']}"})
            for value in (column.get("values") or [])[:_MOST]:
                literal = "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
                words.append({"word": literal, "is": f"value of {name}"})
    return words


# ---- The pages of questions: tables, a question by form or as SQL, its price as it is changed, practice, and the
# asking

QUESTION_PAGES = APIRouter(route_class=PageRoute, include_in_schema=False)


@QUESTION_PAGES.get("/")
async def show_tables(request: Request, session: Reading) -> Response:
    """Show the tables that may be asked, and what is left of their budgets."""
    service = service_of(request)
    tables = await run_in_threadpool(service.tables, session.visitor)
    budgets = await run_in_threadpool(service.budgets, session.visitor)
    return page(request, "home.html", session, tables=tables, budgets=[left_of(b, session.visitor) for b in budgets])


@QUESTION_PAGES.get("/tables/{name}")
async def show_question_form(request: Request, session: Reading, name: str) -> Response:
    """Show a table's declaration, and the form that builds a question about it."""
    service = service_of(request)
    table = await run_in_threadpool(table_of, service, session.visitor, name)
    (budget,) = await run_in_threadpool(service.budgets, session.visitor, table["budget"])
    words: dict[str, Any] = {"measures": MEASURES, "filters": range(1, FILTERS + 1), "operators": filter_operators()}
    left = left_of(budget, session.visitor)
    return page(request, "table.html", session, table=table, left=left, request_id=new_request(), **words)


@QUESTION_PAGES.get("/sql")
async def show_editor(request: Request, session: Reading) -> Response:
    """Show the editor for questions as SQL."""
    tables = await run_in_threadpool(service_of(request).tables, session.visitor)
    text = f"SELECT COUNT(*) AS n FROM {tables[0]['name']}" if tables else ""
    words = words_of_tables(tables)
    return page(request, "sql.html", session, tables=tables, text=text, known=words, request_id=new_request())


@QUESTION_PAGES.post("/question/price")
async def show_price(request: Request, session: Changing) -> Response:
    """Answer what the question would cost and how wrong its answer would be; nothing is spent."""
    form = await read_form(request)
    service = service_of(request)
    text = ""
    try:
        text = await run_in_threadpool(_text, service, session.visitor, form)
        plan = await run_work(
            request, session.visitor, lambda: service.plan(session.visitor, _read_question(form, text))
        )
    except (QuestionRefused, DeclarationError) as error:
        return fragment("problem.html", words=words_of(error), marked=mark_error(text, words_of(error)))
    plans = plan.plans if hasattr(plan, "plans") else [plan]
    budgets = {
        b["budget"]: left_of(b, session.visitor) for b in await run_in_threadpool(service.budgets, session.visitor)
    }
    budget = budgets[service.project.tables[plans[0].table_name].budget]
    words = [_plan_words(part) for part in plans]
    return fragment(
        "price.html", sql=text, plans=words, left=budget, officer=service.needs_officer(session.visitor, plans)
    )


@QUESTION_PAGES.post("/question/practise")
async def practise(request: Request, session: Changing) -> Response:
    """Answer from a made-up table of the declared shape, at no cost."""
    form = await read_form(request)
    service = service_of(request)
    text = await run_in_threadpool(_text, service, session.visitor, form)
    answers = await run_work(
        request, session.visitor, lambda: service.ask(session.visitor, _read_question(form, text, on="dummy"))
    )
    return fragment("practice.html", releases=[release_words(release) for release in answers])


@QUESTION_PAGES.post("/question/ask")
async def ask(request: Request, session: Changing) -> Response:
    """Ask, be charged once, and go to the answer; the form's own id makes a second click the same request."""
    service = service_of(request)
    started = service.public_clock.start()
    form = await read_form(request)
    text = await run_in_threadpool(_text, service, session.visitor, form)
    key = form.get("request_id") or new_request()

    def work() -> list[Release]:
        try:
            return service.ask(session.visitor, _read_question(form, text), request=key)
        finally:
            # the thread waits too, as in http_questions.py
            service.public_clock.sleep(started)

    try:
        answers = await run_work(request, session.visitor, work)
    except ApprovalNeeded as error:
        words = words_of(error)
        again = {k: v for k, v in form.items() if k != "csrf_token"}
        return page(request, "waiting.html", session, status=202, words=words, again=again, action="/question/ask")
    if len(answers) > 1:
        return go("/history")
    budget = service.project.tables[answers[0].table_name].budget
    return go(f"/history/{quote(budget, safe='')}/{quote(answers[0].charge, safe='')}")


def release_words(release: Release) -> dict[str, Any]:
    """Return what a page shows of a release: its table with intervals, its summary and its remarks."""
    return {
        "question": release.question,
        "head": show_columns(release.parts),
        "rows": release.display_rows(0.95),
        "keys": len(release.keys),
        "summary": release.summary(),
        "remarks": release.remarks,
        "mechanisms": [(o.name, o.mechanism) for o in release.outputs],
    }


def table_of(service: CuratorService, visitor: Visitor, name: str) -> dict[str, Any]:
    """Return a declared table as the service lists it; raises NotThere."""
    for table in service.tables(visitor):
        if table["name"] == name:
            return table
    raise NotThere


def _text(service: CuratorService, visitor: Visitor, form: Mapping[str, str]) -> str:
    if "sql" in form:
        return form["sql"]
    return build_select(table_of(service, visitor, form.get("table", "")), form)


def _read_question(form: Mapping[str, str], text: str, *, on: str = "data") -> QuestionRequest:
    stated: dict[str, Any] = {name: form[name] for name in ("epsilon", "delta", "rho") if form.get(name)}
    if form.get("assume_rows"):
        with contextlib.suppress(ValueError):
            stated["assume_rows"] = int(form["assume_rows"])
    question = read_question_request({"sql": text, "on": on, **stated})
    assert isinstance(question.question, SqlText)
    return question


def left_of(budget: Mapping[str, Any], visitor: Visitor) -> dict[str, Any]:
    """Return what is left to a visitor: of its share, where it spends one, else of the whole."""
    share = budget["shares"].get(visitor.spender)
    whose = budget if share is None else share
    name = "epsilon" if "epsilon" in whose["cap"] else next(iter(whose["cap"]))
    return {
        "budget": budget["budget"],
        "currency": name,
        "share": share is not None,
        "cap": float_of(whose["cap"][name]),
        "left": max(0.0, float_of(whose["remaining"][name])),
        "reason": budget["reason"],
        "can_ask": visitor.role == "owner" or share is not None,
    }


def _plan_words(plan: Any) -> dict[str, Any]:
    return {
        "question": plan.sentence(),
        "cost": plan.cost.describe(),
        "amounts": {name: float(amount) for name, amount in plan.cost.amounts().items()},
        "errors": [pair for c in plan.procedure.columns(0.95) for pair in zip(c.names, c.say(), strict=True)],
        "entries": plan.entries(0.95),
        "rows": plan.rows.words,
        "earlier": plan.earlier,
        "unknown": plan.unknown,
    }
