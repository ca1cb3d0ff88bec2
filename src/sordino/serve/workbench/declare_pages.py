"""Pages that declare a table."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from sordino.ask.project.load import Project, check_file, load_project
from sordino.ask.project.positions import dotted_key, quote_text, write_key
from sordino.core.errors import DeclarationError
from sordino.core.loss import to_fraction
from sordino.serve.server.access import check_access
from sordino.serve.server.http_request import read_form
from sordino.serve.server.problems import words_of
from sordino.serve.server.sessions import Session
from sordino.serve.workbench.page_route import HEADERS, Changing, PageRoute, Reading, fragment, page, split_lines
from sordino.synth.rule_proposals import Proposal, propose_rules
from sordino.synth.rule_text import find_rule_problems, names_file

# ---- A declaration by form: its fields become the text of a project file, checked as such. It opens no source and
# sees no data

# The columns that the form begins with; its script adds more.
COLUMNS = 8
# What each type takes beside its name.
TYPES: Mapping[str, str] = {
    "integer": "bounds missing",
    "real": "bounds resolution missing",
    "date": "bounds missing",
    "datetime": "bounds zone resolution missing",
    "category": "values missing",
    "boolean": "missing",
    "identifier": "",
    "list": "items",
}
# What a list may hold.
ITEMS = ("integer", "real", "category", "boolean", "date")
_MISSING = ("drop", "keep", "fill")
_MOST_COLUMNS = 500
_MOST_TABLES = 20
_CAP = ("epsilon", "rho", "delta")


def write_declaration(form: Mapping[str, str]) -> str:
    """Return the project file that a form states; raises DeclarationError with every problem that `sordino check` finds.

    Nothing is filled in: what the form leaves out is a problem. Bounds and values are what a person knows without the data.
    """
    lines: list[str] = []
    budgets: set[str] = set()
    for table in read_tables(form):
        lines += [""] * bool(lines) + (_public(table) if table.get("kind") == "public" else _private(table, budgets))
    text = "\n".join([*lines, ""])
    _read_project(text)
    return text


def propose_for(text: str) -> dict[str, list[Proposal]]:
    """Return by table the rules that names and types suggest beside those that a declaration states; it is sound.

    They are drafts for a person to judge: no source is opened.
    """
    tables = _read_project(text).tables.values()
    proposals = {t.name: [p for p in propose_rules(t.domain) if p.text not in t.rules] for t in tables}
    return {name: drafts for name, drafts in proposals.items() if drafts}


def read_tables(form: Mapping[str, str]) -> list[Mapping[str, str]]:
    """Return the forms of the tables that were declared before on this page, and this one."""
    try:
        before = json.loads(form.get("before") or "[]")
    except (ValueError, RecursionError):
        before = None
    if not isinstance(before, list) or len(before) >= _MOST_TABLES or not all(map(_is_form, before)):
        raise DeclarationError("are not as this page sent them: declare them again", key="the tables of before")
    return [*before, {name: value for name, value in form.items() if name not in ("before", "csrf_token")}]


def _is_form(plain: Any) -> bool:
    return isinstance(plain, dict) and all(isinstance(value, str) for value in plain.values())


def _private(form: Mapping[str, str], budgets: set[str]) -> list[str]:
    """Return the section of a table that is protected, and of its budget where no table before has it."""
    name = _text(form, "budget")
    lines = []
    if name not in budgets:
        budgets.add(name)
        lines = [
            f"[budgets.{write_key(name)}]",
            f"cap = {{{_cap(form)}}}",
            f"ledger = {quote_text(name + '.ledger')}",
            *([f"reason = {quote_text(form['reason'])}"] if form.get("reason") else []),
            "",
        ]
    return [
        *lines,
        f"[tables.{write_key(_text(form, 'name'))}]",
        f"source = {quote_text(_text(form, 'source'))}",
        f"budget = {quote_text(name)}",
        f"neighbors = {quote_text(_text(form, 'neighbors'))}",
        f"privacy_unit = {_unit(form)}",
        *_rules(form),
        *_columns(form, "tables"),
    ]


def _public(form: Mapping[str, str]) -> list[str]:
    """Return the section of a table that holds nothing private, which others are joined with by its key."""
    keys = [quote_text(part.strip()) for part in _text(form, "key").split(",")]
    most = form.get("public_rows", "").strip()
    return [
        f"[public.{write_key(_text(form, 'name'))}]",
        f"source = {quote_text(_text(form, 'source'))}",
        f"key = {keys[0] if len(keys) == 1 else '[' + ', '.join(keys) + ']'}",
        *([f"max_rows = {_whole(most, 'the most rows of a key')}"] if most else []),
        *_columns(form, "public"),
    ]


def _rules(form: Mapping[str, str]) -> list[str]:
    """Return the key of the rules of synthetic rows; raises DeclarationError for one whose list is in a file."""
    rules = split_lines(form.get("rules", ""))
    for text in rules:
        if names_file(text):
            raise DeclarationError(
                f"{text}: its file is not here; write this line into the saved project file, beside which it lies",
                key="rules",
            )
    return [f"rules = [{', '.join(map(quote_text, rules))}]"] if rules else []


def _cap(form: Mapping[str, str]) -> str:
    stated = [name for name in _CAP if form.get(name, "").strip()]
    if not stated:
        _text(form, "epsilon")
    return ", ".join(f"{name} = {quote_text(str(to_fraction(form[name], name=name)))}" for name in stated)


def _text(form: Mapping[str, str], name: str) -> str:
    if not form.get(name, "").strip():
        raise DeclarationError("is missing; state it", key=name)
    return form[name].strip()


def _whole(text: str, key: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise DeclarationError("must be a whole number", key=key)
    return int(text)


def _unit(form: Mapping[str, str]) -> str:
    """Return the privacy unit: a row, or the rows of one value of a column, at most so many of them."""
    if not form.get("unit"):
        return '"row"'
    parts = [f"column = {quote_text(form['unit'])}", f"max_rows = {_whole(_text(form, 'max_rows'), 'max_rows')}"]
    parts += [f"of = {quote_text(form['of'])}"] if form.get("of") else []
    return f"{{{', '.join(parts)}}}"


def _columns(form: Mapping[str, str], kind: str) -> list[str]:
    suffixes = [name.partition(":")[2] for name in form if name.startswith("name:") and form[name].strip()]
    places = sorted((place for place in suffixes if place.isascii() and place.isdigit()), key=int)
    if len(places) > _MOST_COLUMNS:
        raise DeclarationError(f"are at most {_MOST_COLUMNS} by form; write the others into the file", key="columns")
    head = ["", f"[{kind}.{write_key(form['name'].strip())}.columns]"]
    return head + [f"{write_key(form[f'name:{at}'].strip())} = {{{', '.join(_column(form, at))}}}" for at in places]


def _column(form: Mapping[str, str], at: str) -> list[str]:
    """Return the keys of a column, as its type takes them."""
    name = form[f"name:{at}"]
    kind = form.get(f"type:{at}", "")
    _check_word(kind, list(TYPES), f"the type of {name}")
    if kind != "list":
        return [*_values(form, at, kind), *_missing(form, at, kind)]
    of = form.get(f"items:{at}", "")
    _check_word(of, ITEMS, f"the items of {name}")
    most = _whole(form.get(f"max_items:{at}", "").strip(), f"the most items of {name}")
    return [f"type = {quote_text(kind)}", f"of = {{{', '.join(_values(form, at, of))}}}", f"max_items = {most}"]


def _values(form: Mapping[str, str], at: str, kind: str) -> list[str]:
    """Return the type of cells or of items, and what they may be."""
    name = form[f"name:{at}"]
    takes = TYPES[kind].split()
    parts = [f"type = {quote_text(kind)}"]
    if "bounds" in takes:
        parts += [
            f"{end} = {_bound(form.get(f'{end}:{at}', ''), kind, f'{name}, {end}')}" for end in ("lower", "upper")
        ]
    if "values" in takes:
        values = [line.strip() for line in form.get(f"values:{at}", "").splitlines() if line.strip()]
        parts.append(f"values = [{', '.join(quote_text(value) for value in values)}]")
    if "zone" in takes:
        parts.append(f"zone = {quote_text(form.get(f'zone:{at}', '').strip())}")
    step = form.get(f"resolution:{at}", "").strip()
    if "resolution" in takes and step:
        parts.append(f"resolution = {quote_text(step) if step.isalpha() else _number(step, f'{name}, resolution')}")
    return parts


def _missing(form: Mapping[str, str], at: str, kind: str) -> list[str]:
    rule = form.get(f"missing:{at}", "")
    if not rule or "missing" not in TYPES[kind].split():
        return []
    key = f"missing of {form[f'name:{at}']}"
    _check_word(rule, _MISSING, key)
    if rule != "fill":
        return [f"missing = {quote_text(rule)}"]
    value = form.get(f"fill:{at}", "").strip()
    if kind == "boolean":
        _check_word(value, ("true", "false"), key)
        return [f"missing = {{fill = {value}}}"]
    literal = _number(value, key) if kind in ("integer", "real") else quote_text(value)
    return [f"missing = {{fill = {literal}}}"]


def _check_word(word: str, known: Sequence[str], key: str) -> None:
    if word not in known:
        raise DeclarationError(f"is one of {', '.join(known)}", key=key)


def _bound(text: str, kind: str, key: str) -> str:
    """Return a bound as TOML writes it: a day or a moment as text, a number as it was stated."""
    if not text.strip():
        raise DeclarationError("is missing; state what is publicly known, never what the data holds", key=key)
    return quote_text(text.strip()) if kind in ("date", "datetime") else _number(text, key)


def _number(text: str, key: str) -> str:
    number = to_fraction(text, name=key)
    if number.denominator == 1:
        return str(number.numerator)
    if not text.strip().replace(".", "", 1).removeprefix("-").isdigit():
        raise DeclarationError("is a number, such as 12.5", key=key)
    return text.strip()


def _read_project(text: str) -> Project:
    """Return what a declaration states; raises DeclarationError with every problem that it has."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "sordino.toml"
        path.write_text(text, encoding="utf-8")
        problems = [(one.key, one.message) for one in check_file(path)]
        if not problems:
            project = load_project(path)
            problems = [(dotted_key(at), message) for at, message in find_rule_problems(project)]
    if problems:
        raise DeclarationError("; ".join(f"{key}: {message}" if key else message for key, message in problems))
    return project


# ---- The page that declares a table by form. It writes no file here: whoever holds the data puts the text into the
# project

DECLARE_PAGES = APIRouter(route_class=PageRoute, include_in_schema=False)


@DECLARE_PAGES.get("/declare")
async def show_declaration_form(request: Request, session: Reading) -> Response:
    """Show the form."""
    return _form_page(request, session, [])


@DECLARE_PAGES.post("/declare/more")
async def declare_another(request: Request, session: Changing) -> Response:
    """Show the form for another table, beside those that are declared so far."""
    check_access(session.visitor, "table.read")
    form = await read_form(request)
    await run_in_threadpool(write_declaration, form)
    return _form_page(request, session, read_tables(form))


def _form_page(request: Request, session: Session, before: Sequence[Mapping[str, str]]) -> Response:
    budgets = {one["budget"] for one in before if one.get("budget")}
    words: dict[str, Any] = {
        "types": TYPES,
        "items": ITEMS,
        "places": range(1, COLUMNS + 1),
        "budgets": sorted(budgets),
    }
    names = [one["name"] for one in before]
    return page(request, "declare.html", session, before=json.dumps(before), names=names, **words)


@DECLARE_PAGES.post("/declare")
async def check_declaration(request: Request, session: Changing) -> Response:
    """Answer the project file that the form states so far, or what is wrong with it."""
    check_access(session.visitor, "table.read")
    form = await read_form(request)
    if not form.get("name", "").strip():
        return fragment("hint.html", words="Begin with the table's name. What is still missing will stand here.")
    try:
        text = await run_in_threadpool(write_declaration, form)
    except DeclarationError as error:
        return fragment("problem.html", words=words_of(error))
    proposals = await run_in_threadpool(propose_for, text)
    return fragment("declared.html", text=text, proposals=proposals)


@DECLARE_PAGES.post("/declare/file")
async def export_declaration(request: Request, session: Changing) -> Response:
    """Return the project file that the form states."""
    check_access(session.visitor, "table.read")
    text = await run_in_threadpool(write_declaration, await read_form(request))
    disposition = {"content-disposition": 'attachment; filename="sordino.toml"'}
    return Response(text, media_type="application/toml", headers=HEADERS | disposition)
