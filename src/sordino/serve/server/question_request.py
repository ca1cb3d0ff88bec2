"""QuestionRequest: a question as it came in from outside, with the loss stated for it, for every way in. It asks nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

# Importing it registers its questions, so that they can be read.
import sordino.lab.robust  # noqa: F401
from sordino.ask.curator.plan import Plan, Share, Weights
from sordino.ask.queries.question_records import question_from_json
from sordino.ask.queries.sql.parse import SqlText, sql
from sordino.ask.queries.sql.tabulation_plan import read_tabulation
from sordino.core.errors import DeclarationChanged, DeclarationError, nearest
from sordino.core.loss import Number, loss_to_numbers

# Characters of a question, as on the command line.
_LONGEST = 200_000
# Questions of a batch, as SQL or as data.
_MOST_QUESTIONS = 1000
_LOSS = ("epsilon", "delta", "rho", "weights", "share", "scale", "assume_rows")
_STATED = (*_LOSS, "on", "table", "error", "assume_mean", "declarations", "costs")
# The ways to state a question, of which one is taken.
_QUESTIONS = ("sql", "question", "tabulate")
_BOUNDS = ("max_rows", "max_groups", "max_rows_per_group")
_KEYS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "sql": ((str,), "text"),
    "question": ((dict, list), "a question as sordino's Python client writes it"),
    "tabulate": ((dict,), "tables to release together: an object with the keys of sordino tabulate's plan"),
    "table": ((str,), "text"),
    "error": ((str, int, float, list), "a number, or a list of them"),
    "assume_mean": ((int, float), "a number"),
    "declarations": ((dict,), "the digest of each table's declaration, by the table's name"),
    "costs": ((list,), "the cost of each question, as planned"),
    "epsilon": ((str, int, float), 'a number, or text such as "1/3"'),
    "delta": ((str, int, float), 'a number, or text such as "1e-6"'),
    "rho": ((str, int, float), 'a number, or text such as "1/3"'),
    "weights": ((dict, list), "numbers by name, or a list of them"),
    "share": ((str,), '"equal", "relative" or "error"'),
    "scale": ((dict,), "numbers by name"),
    "assume_rows": ((int,), "a whole number"),
    "dialect": ((str,), "text"),
    "keys": ((list,), "a list of rows, each a list"),
    "min_units": ((int,), "a whole number"),
    "max_rows": ((int,), "a whole number"),
    "max_groups": ((int,), "a whole number"),
    "max_rows_per_group": ((int,), "a whole number"),
    "confidence": ((int, float), "a number between 0 and 1"),
    "on": ((str,), '"data" or "dummy"'),
}


class OutOfDate(DeclarationChanged):
    """Say that whoever asks has seen a declaration that is no longer the one served."""


class UnknownKey(DeclarationError):
    """Say that a request states something by a name that is not known there.

    `unknown` names it for the operator's log, where it looks like a name and nothing else, such as a secret.
    """

    def __init__(self, name: str, known: Iterable[str], *, what: str, kind: str) -> None:
        super().__init__(f"is unknown: {what} has no such {kind}; {nearest(name, known)}", key=name[:40])
        self.unknown = f"{kind} {name}" if re.fullmatch("[a-z_]{1,30}", name) else f"a {kind}"


def check_keys(stated: Iterable[str], known: Iterable[str], *, what: str, kind: str = "key") -> None:
    """Raise UnknownKey for the first name that is not known."""
    for name in stated:
        if name not in known:
            raise UnknownKey(name, known, what=what, kind=kind)


class TooLarge(DeclarationError):
    """Say that more was sent at once than is read."""


@dataclass(frozen=True, slots=True)
class QuestionRequest:
    """Hold a question, or several as SQL text, with the loss stated for it; `table` names the table of one that is no SQL.

    `declarations` and `costs` are what whoever asks has seen of tables and plans: nothing else is answered.
    """

    question: Any
    table: str | None = None
    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    weights: Weights | None = None
    share: Share = "equal"
    scale: Mapping[str, Number] | None = None
    assume_rows: int | None = None
    confidence: float = 0.95
    on: Literal["data", "dummy"] = "data"
    error: Number | Sequence[Number] | None = None
    assume_mean: float | None = None
    declarations: Mapping[str, str] | None = None
    costs: Sequence[Any] | None = None
    loss: Mapping[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        loss = {name: getattr(self, name) for name in _LOSS}
        if self.table is None and (self.error is not None or self.assume_mean is not None):
            raise DeclarationError("and assume_mean go with a question about one table: state the table", key="error")
        loss |= {} if self.assume_mean is None else {"assume_mean": self.assume_mean}
        loss |= {} if self.error is None else {"error": self.error, "confidence": self.confidence}
        object.__setattr__(self, "loss", loss)

    def check_length(self) -> None:
        """Raise TooLarge for more questions at once than a batch may have."""
        listed = self.question if isinstance(self.question, (list, tuple)) else [self.question]
        several = [len(one.statements()) if isinstance(one, SqlText) else 1 for one in listed]
        if sum(several) > _MOST_QUESTIONS:
            raise TooLarge(f"a batch has at most {_MOST_QUESTIONS:,} questions, not {sum(several):,}: send several")

    def check_seen(self, plans: Sequence[Plan]) -> None:
        """Raise OutOfDate where a table is declared otherwise than was seen, DeclarationError for another cost."""
        for plan in plans:
            if self.declarations and self.declarations.get(plan.table_name, plan.declaration) != plan.declaration:
                raise OutOfDate(
                    f"{plan.table_name} is declared otherwise than when its declaration was read: read it again (GET "
                    "/v1/tables), and state the digest that it has now; nothing was charged"
                )
        if self.costs is not None and list(self.costs) != [loss_to_numbers(plan.cost) for plan in plans]:
            raise DeclarationError("this plan does not match what its question costs here: plan again")


def read_question_request(plain: Mapping[str, Any]) -> QuestionRequest:
    """Return the question that JSON data states, by the names of the command line's flags; raises DeclarationError.

    >>> read_question_request({"sql": "SELECT COUNT(*) FROM people", "epsilon": "0.5"}).epsilon
    '0.5'
    """
    stated = {name: value for name, value in plain.items() if value is not None}
    check_keys(stated, _KEYS, what="a question")
    for name, value in stated.items():
        kinds, words = _KEYS[name]
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise DeclarationError(f"must be {words}", key=name)
    if sum(name in stated for name in _QUESTIONS) != 1:
        raise DeclarationError('is missing; state the question, such as "SELECT COUNT(*) AS n FROM people"', key="sql")
    if "tabulate" in stated and "table" not in stated:
        raise DeclarationError('is missing; name the table that is tabulated, such as "people"', key="table")
    if len(stated.get("sql", "")) > _LONGEST:
        raise DeclarationError(f"must have at most {_LONGEST:,} characters", key="sql")
    if stated.get("on", "data") not in ("data", "dummy"):
        raise DeclarationError('must be "data" or "dummy"', key="on")
    confidence = stated.get("confidence", 0.95)
    if not 0 < confidence < 1:
        raise DeclarationError("must lie between 0 and 1, such as 0.95", key="confidence")
    fields = {name: stated[name] for name in _STATED if name in stated}
    return QuestionRequest(_question(stated), confidence=confidence, **fields)


def asked_schema() -> dict[str, Any]:
    """Return the JSON Schema of what `read_question_request` reads."""
    words = {str: "string", int: "integer", float: "number", dict: "object", list: "array"}
    properties: dict[str, Any] = {}
    for name, (kinds, description) in _KEYS.items():
        stated = [words[kind] for kind in kinds]
        properties[name] = {"type": stated[0] if len(stated) == 1 else stated, "description": description}
        if list in kinds:
            properties[name]["items"] = {}
    properties["on"]["enum"] = ["data", "dummy"]
    properties["share"]["enum"] = [*get_args(Share)]
    properties["confidence"] |= {"exclusiveMinimum": 0, "exclusiveMaximum": 1}
    properties["sql"] |= {"minLength": 1, "maxLength": _LONGEST}
    properties = {name: or_null(schema) for name, schema in properties.items()}
    # Not as oneOf, of which generators of clients make no class.
    about = f"A question, stated by one of {', '.join(_QUESTIONS)}."
    return {"type": "object", "description": about, "properties": properties, "additionalProperties": False}


def or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a key that may be left out, or null, which is the same.

    >>> or_null({"type": "string", "enum": ["data", "dummy"]})
    {'type': ['string', 'null'], 'enum': ['data', 'dummy', None]}
    """
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    kinds = schema["type"]
    nullable = {**schema, "type": [*([kinds] if isinstance(kinds, str) else kinds), "null"]}
    return {**nullable, "enum": [*schema["enum"], None]} if "enum" in schema else nullable


def _question(stated: Mapping[str, Any]) -> Any:
    if "tabulate" in stated:
        try:
            return read_tabulation(stated["tabulate"])
        except DeclarationError as error:
            raise DeclarationError(error.rule, key=f"tabulate.{error.key}") from None
    if "question" in stated:
        return question_from_json(stated["question"])
    keys = stated.get("keys")
    if keys is not None and not all(isinstance(row, list) for row in keys):
        raise DeclarationError("must be a list of rows, each a list of cells", key="keys")
    rows = None if keys is None else [tuple(row) for row in keys]
    text = sql(stated["sql"], dialect=stated.get("dialect"), keys=rows, min_units=stated.get("min_units", 1))
    bounds = {name: stated[name] for name in _BOUNDS if name in stated}
    return text.bound_contributions(**bounds) if bounds else text
