"""Pages of questions: the form, SQL with its errors marked, plans and answers."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from sordino.ask.curator.plan import Plan, PlannedColumn
from sordino.ask.queries.sql.parse import SqlText
from sordino.core.accounting.belief import belief_within
from sordino.core.errors import ApprovalNeeded, DeclarationError, QuestionRefused
from sordino.core.loss import round_up
from sordino.core.release import Release, is_figure, show_columns
from sordino.serve.server.access import NotThere, Visitor
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.http_request import read_form, run_work, service_of
from sordino.serve.server.problems import words_of
from sordino.serve.server.question_request import QuestionRequest, read_question_request
from sordino.serve.workbench.page_route import Changing, PageRoute, Reading, float_of, fragment, go, new_request, page
from sordino.serve.workbench.question_form import (
    CONDITIONS,
    MEASURES,
    MEASURES_AT_ONCE,
    build_select,
    filter_operators,
    ready_questions,
)
from sordino.serve.workbench.waiting_pages import wait_for_officer

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

# Of the last answers on the first page: how many, and how many rows of each.
_LAST_ANSWERS = 3
_FIRST_ROWS = 6
# What the form begins with: a tenth of what is commonly allowed in all.
FIRST_AMOUNT = {"epsilon": "0.1", "rho": "0.005"}

QUESTION_PAGES = APIRouter(route_class=PageRoute, include_in_schema=False)


@QUESTION_PAGES.get("/")
async def show_tables(request: Request, session: Reading) -> Response:
    """Show the tables that may be asked, and what is left of their budgets."""
    service = service_of(request)
    tables = await run_in_threadpool(service.tables, session.visitor)
    budgets = await run_in_threadpool(service.budgets, session.visitor)
    promises = await run_in_threadpool(
        lambda: {t["name"]: _promise(service, session.visitor, t["name"]) for t in tables}
    )
    answers = await run_in_threadpool(_last_answers, service, session.visitor)
    words: dict[str, Any] = {"tables": tables, "promises": promises, "answers": answers}
    return page(request, "home.html", session, budgets=[left_of(b, session.visitor) for b in budgets], **words)


@QUESTION_PAGES.get("/tables/{name}")
async def show_question_form(request: Request, session: Reading, name: str) -> Response:
    """Show a table's declaration, and the form that builds a question about it."""
    service = service_of(request)
    table = await run_in_threadpool(table_of, service, session.visitor, name)
    (budget,) = await run_in_threadpool(service.budgets, session.visitor, table["budget"])
    left = left_of(budget, session.visitor)
    ready = await run_work(request, session.visitor, lambda: _price_ready(service, session.visitor, table, left))
    promise = await run_in_threadpool(_promise, service, session.visitor, name)
    # A link may fill the form in: that of a ready question, or one that somebody kept.
    filled = dict(request.query_params)
    words: dict[str, Any] = {"measures": MEASURES, "most_measures": MEASURES_AT_ONCE, "conditions": CONDITIONS}
    words |= {"measured": [c for c, column in table["columns"].items() if column["type"] != "identifier"]}
    words |= {"operators": filter_operators(), "filled": filled, "ready": ready, "promise": promise}
    return page(request, "table.html", session, table=table, left=left, request_id=new_request(), **words)


@QUESTION_PAGES.get("/sql")
async def show_editor(request: Request, session: Reading) -> Response:
    """Show the editor for questions as SQL."""
    service = service_of(request)
    tables = await run_in_threadpool(service.tables, session.visitor)
    # Of several budgets the first one's: an amount of another kind is refused before anything is spent.
    budgets = await run_in_threadpool(service.budgets, session.visitor)
    currency = left_of(budgets[0], session.visitor)["currency"] if budgets else "epsilon"
    text = f"SELECT COUNT(*) AS n FROM {tables[0]['name']}" if tables else ""
    words = words_of_tables(tables)
    return page(
        request, "sql.html", session, tables=tables, text=text, known=words, currency=currency, request_id=new_request()
    )


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
        return await wait_for_officer(request, session, error, {**form, "request_id": key}, "/question/ask")
    if len(answers) > 1:
        return go("/history")
    budget = service.project.tables[answers[0].table_name].budget
    return go(f"/history/{quote(budget, safe='')}/{quote(answers[0].charge, safe='')}")


def release_words(release: Release) -> dict[str, Any]:
    """Return what a page shows of a release: its table with intervals, its summary and its remarks."""
    rows = release.display_rows(0.95)
    columns = list(zip(*rows, strict=True)) or [()] * len(show_columns(release.parts))
    return {
        "question": release.question,
        "head": show_columns(release.parts),
        "rows": rows,
        "keys": len(release.keys),
        "numeric": [len(release.keys) <= place and all(map(is_figure, column)) for place, column in enumerate(columns)],
        "summary": release.summary(),
        "remarks": release.remarks,
        "mechanisms": [(o.name, o.mechanism) for o in release.outputs],
    }


def _promise(service: CuratorService, visitor: Visitor, name: str) -> str:
    """Return what the budget of a table promises the people in it, in a sentence: the visitor's share of it, where it has one."""
    table = service.project.tables[name]
    share = service.share_of(visitor.spender, table.budget)
    whole = service.ledger(table.budget).cap if share is None else share
    belief = belief_within(whole)
    unit = table.neighbors.describe_unit().partition(" (")[0]
    hidden = (
        "in or out is hidden" if table.neighbors.relation == "add_remove" else "changed to any other values is hidden"
    )
    odd = f" (but for a chance of {round_up(belief.chance, digits=1)})" if belief.chance else ""
    return (
        f"{unit[0].upper()}{unit[1:]} {hidden}: after all answers that {'the budget' if share is None else 'your share'} allows, "
        f"someone who knows everything else, and thought either as likely, is at most {belief.percent} sure{odd}."
    )


def _last_answers(service: CuratorService, visitor: Visitor) -> list[dict[str, Any]]:
    """Return the last answers that a visitor may see, the newest first, each with its first rows."""
    answered = [(budget, c) for budget, c in service.charges(visitor) if c.state == "committed"]
    latest = sorted(answered, key=lambda one: one[1].time)[-_LAST_ANSWERS:]
    answers = []
    for budget, charge in reversed(latest):
        words = release_words(service.release(visitor, charge.id, budget=budget))
        path = f"/history/{quote(budget, safe='')}/{quote(charge.id, safe='')}"
        further = max(0, len(words["rows"]) - _FIRST_ROWS)
        day = charge.time[:16].replace("T", " ")
        answers.append({**words, "path": path, "charge": charge.id, "time": day, "further": further})
    return [{**one, "rows": one["rows"][:_FIRST_ROWS], "remarks": ()} for one in answers]


def _price_ready(
    service: CuratorService, visitor: Visitor, table: Mapping[str, Any], left: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return questions that fit a table, each with its price, its error and the link that fills the form in with it."""
    priced = []
    for fields in ready_questions(table):
        amount = {left["currency"]: FIRST_AMOUNT[left["currency"]]}
        question = _read_question(amount, build_select(table, fields))
        try:
            plan = service.plan(visitor, question)
        # What no plan can be made of is no question to begin with.
        except (QuestionRefused, DeclarationError):
            continue
        # One question is one plan.
        assert isinstance(plan, Plan)
        errors = [words for column in plan.procedure.columns(0.95) for words in _say_error(column)]
        link = f"/tables/{quote(table['name'], safe='')}?{urlencode(fields)}"
        priced.append({"question": plan.sentence(), "cost": plan.cost.describe(), "errors": errors, "link": link})
    return priced


def _say_error(column: PlannedColumn) -> tuple[str, ...]:
    """Return each error of a column in words; one that depends on the number of rows is told for two of them."""
    if column.error_times_rows is None or not column.missing:
        return column.say("(state a guess of the rows, under More)")
    few, many = (f"{column.error_times_rows / rows:.2g}" for rows in (1_000, 10_000))
    return (f"+-{few} at 95% where 1,000 rows count, +-{many} where 10,000 do",) * len(column.names)


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
        "errors": [pair for c in plan.procedure.columns(0.95) for pair in zip(c.names, _say_error(c), strict=True)],
        "entries": plan.entries(0.95),
        "rows": plan.rows.words,
        "earlier": plan.earlier,
        "unknown": plan.unknown,
    }
