"""The program that repeats an analysis, as a Python script or a notebook. It knows what was asked, not what was answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["notebook_of", "script_of"]

_LOSSES = ("epsilon", "delta", "rho")


def script_of(asked: Mapping[str, Any], *, question: str, cost: str) -> bytes:
    """Return the script.

    >>> print(script_of({"sql": "SELECT COUNT(*) FROM t", "epsilon": "1/2"}, question="rows", cost="0.5").decode())
    # rows
    # Each run asks anew, and is charged again: 0.5. A past answer is free: connection.release("c-0001").
    import sordino as sd
    <BLANKLINE>
    connection = sd.connect("sordino.toml")
    question = sd.sql('SELECT COUNT(*) FROM t')
    plan = connection.plan(question, epsilon='1/2')
    print(plan)
    <BLANKLINE>
    release = connection.ask(plan)
    print(release)
    <BLANKLINE>
    """
    return "\n".join([*_comment(question, cost), *_price(asked), "", *_ask(), ""]).encode()


def notebook_of(asked: Mapping[str, Any], *, question: str, cost: str) -> bytes:
    """Return the notebook, in the format of Jupyter, version 4.5: its cells are the parts of the script."""
    said = "\n\n".join(line.removeprefix("# ") for line in _comment(question, cost))
    cells = [
        {"cell_type": "markdown", "id": "question", "metadata": {}, "source": _lines(_plain(said))},
        _code("price", _price(asked)),
        _code("answer", ["release = connection.ask(plan)", "release"]),
        _code("picture", ["sd.plot(release)"]),
    ]
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    notebook = {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()


def _comment(question: str, cost: str) -> list[str]:
    flat = " ".join(question.split())
    again = 'A past answer is free: connection.release("c-0001").'
    return [f"# {flat}", f"# Each run asks anew, and is charged again: {cost}. {again}"]


def _price(asked: Mapping[str, Any]) -> list[str]:
    losses = ", ".join(f"{name}={asked[name]!r}" for name in _LOSSES if name in asked)
    return [
        "import sordino as sd",
        "",
        'connection = sd.connect("sordino.toml")',
        f"question = sd.sql({asked['sql']!r})",
        f"plan = connection.plan(question, {losses})",
        "print(plan)",
    ]


def _ask() -> list[str]:
    return ["release = connection.ask(plan)", "print(release)"]


def _code(name: str, lines: list[str]) -> dict[str, Any]:
    source = _lines("\n".join(lines))
    return {"cell_type": "code", "id": name, "execution_count": None, "metadata": {}, "outputs": [], "source": source}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is, without HTML or links."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|!&" else c for c in text)
