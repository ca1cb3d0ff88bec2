"""The program that repeats an analysis, as a Python script or a notebook. It knows what was asked, not what was answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sordino.ask.queries.question_records import question_from_json, registering_module

_LOSSES = ("epsilon", "delta", "rho", "weights", "share", "scale", "assume_rows", "assume_mean")


@dataclass(frozen=True, slots=True)
class Repeat:
    """State what a program repeats: what was asked, in words too, what that cost, and where its answer lies.

    `address` is that of the server that answered; without one it was the project file's own.
    """

    asked: Mapping[str, Any]
    question: str
    cost: str
    charge: str
    budget: str
    address: str | None = None


def sql_of(asked: Mapping[str, Any]) -> str | None:
    """Return the SQL that was asked; None for a question in Python."""
    question = asked["question"]
    return question["text"] if question.get("is") == "SqlText" else None


def script_of(made: Repeat) -> bytes:
    """Return the script.

    >>> asked = {"question": {"is": "SqlText", "text": "SELECT COUNT(*) FROM t", "min_units": 1}, "epsilon": "1/2"}
    >>> print(script_of(Repeat(asked, "rows", "0.5", "c-0001", "people")).decode())
    # rows
    # Each run asks anew, and is charged again: 0.5. The answer as it was is free: connection.release('c-0001', budget='people').
    import os
    <BLANKLINE>
    import sordino as sd
    <BLANKLINE>
    connection = sd.connect('sordino.toml')
    # connection = sd.connect('https://curator.example', token=os.environ["SORDINO_TOKEN"])  # the same, from far away
    question = sd.sql('SELECT COUNT(*) FROM t')
    plan = connection.plan(question, epsilon='1/2')
    print(plan)
    <BLANKLINE>
    release = connection.ask(plan)
    print(release)
    <BLANKLINE>
    """
    return "\n".join(
        [*_comment(made), *_price(made), "", f"release = {_source(made.asked)}.ask(plan)", _SHOW, ""]
    ).encode()


def notebook_of(made: Repeat) -> bytes:
    """Return the notebook, in the format of Jupyter, version 4.5: its cells are the parts of the script."""
    heading = "\n\n".join(line.removeprefix("# ") for line in _comment(made))
    cells = [
        {"cell_type": "markdown", "id": "question", "metadata": {}, "source": _lines(_plain(heading))},
        _code("price", _price(made)),
        _code("answer", [f"release = {_source(made.asked)}.ask(plan)", "release"]),
        _code("picture", ["sd.plot(release)"]),
    ]
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    notebook = {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()


_SHOW = "print(release)"
_FILE = "sd.connect('sordino.toml')"


def _comment(repeat: Repeat) -> list[str]:
    again = f"The answer as it was is free: connection.release({repeat.charge!r}, budget={repeat.budget!r})."
    return [
        f"# {' '.join(repeat.question.split())}",
        f"# Each run asks anew, and is charged again: {repeat.cost}. {again}",
    ]


def _price(repeat: Repeat) -> list[str]:
    losses = ", ".join(f"{name}={repeat.asked[name]!r}" for name in _LOSSES if name in repeat.asked)
    question, needs, ours = _question(repeat.asked["question"])
    far = f'sd.connect({repeat.address or "https://curator.example"!r}, token=os.environ["SORDINO_TOKEN"])'
    if repeat.address is None:
        ways = [f"connection = {_FILE}", f"# connection = {far}  # the same, from far away"]
    else:
        ways = [f"connection = {far}", f"# connection = {_FILE}  # the same, where the project file is"]
    plan = f"plan = {_source(repeat.asked)}.plan(question, {losses})"
    imports = [*sorted(["import os", *needs]), "", "import sordino as sd", *ours, ""]
    return [*imports, *ways, question, plan, "print(plan)"]


def _source(asked: Mapping[str, Any]) -> str:
    """Return what is asked: the table, where one was named, else the connection."""
    return f"connection.table({asked['table']!r})" if "table" in asked else "connection"


def _question(plain: Any) -> tuple[str, list[str], list[str]]:
    """Return the line that makes the question, and what it imports: of the standard library, and of Sordino."""
    if plain.get("is") != "SqlText":
        ours = ["from sordino.ask.queries.question_records import question_from_json"]
        if module := registering_module(plain):
            ours.insert(0, f"import {module}  # its questions are registered by this")
        return f"question = question_from_json({plain!r})", [], ours
    read = question_from_json(plain)
    words = {} if read.dialect is None else {"dialect": repr(read.dialect)}
    words |= {} if read.keys is None else {"keys": _rows(read.keys)}
    words |= {} if read.min_units == 1 else {"min_units": repr(read.min_units)}
    bounds = {} if read.bounds is None else read.bounds.to_dict()
    limits = ", ".join(f"{name}={bound}" for name, bound in bounds.items())
    line = f"question = sd.sql({', '.join([repr(read.text), *(f'{n}={v}' for n, v in words.items())])})"
    needs = [f"import {name}" for name in ("datetime", "fractions") if f"{name}." in words.get("keys", "")]
    return line + (f".bound_contributions({limits})" if limits else ""), needs, []


def _rows(keys: Any) -> str:
    """Return the rows of a list of keys as Python writes them."""
    if isinstance(keys, str):
        return repr(keys)
    cell = {Fraction: lambda value: f"fractions.Fraction({str(value)!r})"}
    rows = ["".join(f"{cell.get(type(v), repr)(v)}, " for v in (r if isinstance(r, tuple) else (r,))) for r in keys]
    return f"[{', '.join(f'({row.rstrip()})' for row in rows)}]"


def _code(name: str, lines: list[str]) -> dict[str, Any]:
    source = _lines("\n".join(lines))
    return {"cell_type": "code", "id": name, "execution_count": None, "metadata": {}, "outputs": [], "source": source}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is, without HTML or links."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|!&" else c for c in text)
