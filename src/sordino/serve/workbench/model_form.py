"""A fit by form: its fields become what `POST /v1/models` takes. It sees declared columns only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sordino.core.errors import DeclarationError
from sordino.synth.methods import METHODS, load_method

_LOSS = ("epsilon", "delta", "rho")


def method_labels() -> dict[str, str]:
    """Return each method's name with its label for people."""
    return {name: load_method(name).label for name in METHODS}


def read_fit(form: Mapping[str, str], columns: Sequence[str]) -> dict[str, Any]:
    """Return what a form states of a fit; all columns, unless some are not ticked.

    >>> read_fit({"table": "t", "epsilon": "1", "column:age": "on", "never": "age > 90"}, ["age", "sex"])
    {'table': 't', 'epsilon': '1', 'columns': ['age'], 'never': ['age > 90']}
    """
    asked: dict[str, Any] = {name: form[name] for name in ("table", "method", *_LOSS) if form.get(name)}
    ticked = [name for name in columns if form.get(f"column:{name}")]
    if not ticked:
        raise DeclarationError("tick at least one", key="columns")
    if len(ticked) < len(columns) and asked.get("method") != "marginals":
        asked["columns"] = ticked
    for name in ("cap", "assume_rows"):
        asked |= whole_number(form, name)
    if rules := _lines(form.get("never", "")):
        asked["never"] = rules
    if pairs := _lines(form.get("at_most", "")):
        asked["at_most"] = [_split(line, "<=") for line in pairs]
    if sets := _lines(form.get("sets", "")):
        asked["marginals" if asked.get("method") == "marginals" else "workload"] = [_split(line, ",") for line in sets]
    return asked


def read_evaluation(form: Mapping[str, str]) -> dict[str, Any]:
    """Return what a form states of an evaluation."""
    asked: dict[str, Any] = {name: form[name].strip() for name in (*_LOSS, "predict") if form.get(name, "").strip()}
    return asked | whole_number(form, "rows")


def whole_number(form: Mapping[str, str], name: str) -> dict[str, int]:
    """Return a field that holds a whole number by its name, nothing where it is empty; raises DeclarationError."""
    text = form.get(name, "").strip()
    if not text:
        return {}
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise DeclarationError("must be a whole number", key=name)
    return {name: int(text)}


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _split(line: str, by: str) -> list[str]:
    return [part.strip() for part in line.split(by)]
