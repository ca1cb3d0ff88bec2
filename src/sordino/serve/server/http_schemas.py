"""What the OpenAPI document says of answers: the JSON of each, by name, and what is no JSON. It encodes nothing itself.

An answer is what the library's own `to_dict` gives, and the tests compare each with its schema here. So a client that is
generated from the document has a class for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, with_config

# Of the standard library's own, pydantic makes no schema before Python 3.12.
from typing_extensions import TypedDict

_CLOSED = ConfigDict(extra="forbid")
_OPEN = ConfigDict(extra="allow")
# A number, or text such as "1/3" where no float has it as its shortest decimal.
Amount = float | str


# ---- What several answers hold


@with_config(_CLOSED)
class Done(TypedDict):
    """It is done, and there is nothing else to say."""

    schema: Literal[1]


@with_config(_CLOSED)
class Problem(TypedDict):
    """Why there is no answer (RFC 9457): `exit_code` is what the command line would end with."""

    type: str
    title: str
    status: NotRequired[int]
    detail: str
    exit_code: int
    charge: NotRequired[str]
    approval: NotRequired[int]
    request: NotRequired[str]
    wait: NotRequired[float]
    resumable: NotRequired[bool]


@with_config(_CLOSED)
class Waiting(TypedDict):
    """An officer has to approve first, and nothing was charged: ask again with the same Idempotency-Key."""

    type: str
    title: str
    status: Literal[202]
    detail: str
    exit_code: Literal[7]
    approval: int
    request: str


@with_config(_CLOSED)
class Cost(TypedDict):
    """A loss: epsilon, epsilon and delta, or rho, with the delta at which it converts to an epsilon."""

    epsilon: NotRequired[Amount]
    delta: NotRequired[Amount]
    rho: NotRequired[Amount]
    at_delta: NotRequired[Amount]


@with_config(_CLOSED)
class Currencies(TypedDict):
    """What one release costs in each currency; null where no such bound is known."""

    epsilon: Amount | None
    approx: list[Amount] | None
    rho: Amount | None


# ---- Questions


@with_config(_OPEN)
class Column(TypedDict):
    """A declared column: its type, and what that type declares, such as lower and upper, or values."""

    type: str


@with_config(_OPEN)
class DeclaredTable(TypedDict):
    """A declared table; `declaration` is the digest by which a question says which declaration it has seen."""

    name: str
    budget: str
    columns: dict[str, Column]
    neighbors: str
    privacy_unit: str | dict[str, Any]
    row_ceiling: int
    declaration: str


@with_config(_CLOSED)
class Tables(TypedDict):
    """The declared tables."""

    schema: Literal[1]
    tables: list[DeclaredTable]


@with_config(_CLOSED)
class PlannedColumn(TypedDict):
    """What a plan says of one column: its expected error, and the mechanisms behind it."""

    name: str
    question: str
    expected_error: float | None
    error_unit: str
    error_supposes: str | None
    share: str | None
    parts: list[dict[str, Any]]


@with_config(_CLOSED)
class Plan(TypedDict):
    """What a question would cost, and how wrong its answer would be."""

    schema: Literal[1]
    question: str
    table: str
    cost: Cost
    currencies: Currencies
    neighbors: str
    privacy_unit: str | dict[str, Any]
    sample: str | None
    rows: int | None
    private_keys: str | None
    confidence: float
    columns: list[PlannedColumn]
    error_times_rows: dict[str, float]
    notes: list[str]
    earlier: list[str]
    declaration: str


@with_config(_CLOSED)
class Batch(TypedDict):
    """The plans of several questions, and what they cost together."""

    schema: Literal[1]
    cost: Cost
    confidence: float
    errors: list[float | None]
    plans: list[Plan]
    notes: NotRequired[list[str]]
    as_tabulation: NotRequired[dict[str, Any]]


@with_config(_OPEN)
class Release(TypedDict):
    """A private answer: rows by column, errors and intervals at the confidence, and what it cost.

    What computes it again (`event`, `keys`, `estimates`, and for some questions more) is in the form of the library's own.
    """

    schema: Literal[1]
    private: bool
    practice: NotRequired[bool]
    spender: NotRequired[str]
    charge: str
    request: str | None
    time: str
    table: str
    question: str
    columns: list[str]
    rows: list[dict[str, Any]]
    confidence: float
    errors: list[dict[str, Any]]
    error_units: dict[str, str]
    intervals: list[dict[str, Any]]
    mechanism: dict[str, str]
    cost: Cost
    currencies: Currencies
    spent: Cost | None
    remaining: Cost | None
    neighbors: str
    privacy_unit: str
    declaration: str
    notes: list[str]
    remarks: list[str]
    chosen: dict[str, str | None]
    event: dict[str, Any]
    keys: list[dict[str, Any]]
    estimates: list[dict[str, Any]]


@with_config(_CLOSED)
class Charge(TypedDict):
    """A question that was charged, and its outcome; the answer is under its id."""

    id: str
    budget: str
    time: str
    state: str
    cost: Cost
    request: str | None
    question: str
    spender: str | None


@with_config(_CLOSED)
class Charges(TypedDict):
    """The questions that were charged."""

    schema: Literal[1]
    releases: list[Charge]


@with_config(_CLOSED)
class Explanation(TypedDict):
    """In plain words, what a release reveals at most."""

    schema: Literal[1]
    charge: str
    cost: Cost
    explanation: str


@with_config(_CLOSED)
class Share(TypedDict):
    """A share of a budget."""

    cap: Cost
    spent: Cost
    remaining: Cost


@with_config(_OPEN)
class Budget(TypedDict):
    """How a budget stands; an analyst sees its own share alone, and no path."""

    budget: str
    cap: Cost
    spent: Cost
    remaining: Cost
    charges: int
    answered: int
    failed: int
    in_doubt: int
    ledger: str | None
    mark: str | None
    predecessor: list[str | int] | None
    declared_cap: Cost
    reason: str | None
    shares: dict[str, Share]
    allowance: dict[str, Any] | None
    tight: dict[str, Any] | None


@with_config(_CLOSED)
class Budgets(TypedDict):
    """The budgets."""

    schema: Literal[1]
    budgets: list[Budget]


# ---- People


@with_config(_CLOSED)
class Session(TypedDict):
    """Who is signed in; each change sends `csrf` in the header X-CSRF-Token."""

    schema: Literal[1]
    name: str
    role: str
    csrf: str


@with_config(_CLOSED)
class Visitor(TypedDict):
    """Who asks, and whose share is spent."""

    schema: Literal[1]
    name: str
    role: str
    spender: str


@with_config(_CLOSED)
class Account(TypedDict):
    """An account, without any secret: whether it has a password, and an OpenID subject."""

    id: int
    name: str
    role: str
    disabled: bool
    created: str
    password: bool
    openid: bool


@with_config(_CLOSED)
class Accounts(TypedDict):
    """The accounts."""

    schema: Literal[1]
    accounts: list[Account]


@with_config(_CLOSED)
class Token(TypedDict):
    """A token as it is listed, without its secret."""

    id: int
    name: str
    spender: str
    created: str
    expires: str | None


@with_config(_CLOSED)
class NewToken(TypedDict):
    """A token just made; its secret is never shown again."""

    id: int
    name: str
    spender: str
    created: str
    expires: str | None
    secret: str


@with_config(_CLOSED)
class Tokens(TypedDict):
    """The tokens of an account."""

    schema: Literal[1]
    tokens: list[Token]


@with_config(_OPEN)
class Approval(TypedDict):
    """What waits for an officer, or did; `request` is the Idempotency-Key that the analyst asks again with.

    `asked` are the questions with their losses, as they were stated; null where they cannot be said as data.
    """

    id: int
    account: str
    spender: str
    question: str
    asked: list[dict[str, Any]] | None
    cost: Cost
    plans: list[dict[str, Any]]
    reveals: str
    state: str
    officer: str | None
    reason: str | None
    created: str
    decided: str | None
    request: str


@with_config(_CLOSED)
class Approvals(TypedDict):
    """What waits for an officer, or did."""

    schema: Literal[1]
    approvals: list[Approval]


@with_config(_CLOSED)
class AuditLine(TypedDict):
    """Who did what when."""

    id: int
    time: str
    account: str
    role: str
    via: str
    action: str
    object: str
    outcome: str


@with_config(_CLOSED)
class AuditLog(TypedDict):
    """Lines of the audit log, oldest first."""

    schema: Literal[1]
    lines: list[AuditLine]


# ---- Models, jobs and collections


@with_config(_CLOSED)
class Job(TypedDict):
    """A job: when its state is "done", `model` is the number of its model, or `step` that of the period that it released."""

    schema: Literal[1]
    account: str
    id: int
    kind: str
    state: Literal["running", "done", "failed", "stopped"]
    stage: str
    seconds: float
    problem: Problem | None
    model: NotRequired[int | None]
    step: NotRequired[int | None]


@with_config(_CLOSED)
class Jobs(TypedDict):
    """Jobs."""

    schema: Literal[1]
    jobs: list[Job]


# ---- Series


@with_config(_CLOSED)
class Series(TypedDict):
    """A series: `step` is the number of periods up to the last released one, `ended` why it goes on no more."""

    schema: Literal[1]
    series: str
    spender: str | None
    budget: str
    table: str
    every: str
    charge: str
    last: str | None
    step: int
    horizon: int
    ended: str | None


@with_config(_CLOSED)
class OpenedSeries(Series):
    """A series with what it cost."""

    cost: Cost


@with_config(_CLOSED)
class SeriesRows(Series):
    """A series with the rows of all released periods."""

    periods: list[str]
    rows: list[dict[str, Any]]


@with_config(_CLOSED)
class SeriesList(TypedDict):
    """Series."""

    schema: Literal[1]
    series: list[Series]


@with_config(_CLOSED)
class ListedModel(TypedDict):
    """A model as it is listed."""

    id: int
    account: str
    table: str
    charge: str
    created: str


@with_config(_CLOSED)
class Models(TypedDict):
    """The models."""

    schema: Literal[1]
    models: list[ListedModel]


@with_config(_CLOSED)
class ModelColumn(TypedDict):
    """A column of a model: its declared keys, and the codes that the model tells apart."""

    name: str
    type: str
    keys: int
    codes: int
    missing: bool


@with_config(_CLOSED)
class Prediction(TypedDict):
    """A model that predicts: its card as facts by name, and its prediction in SQL, a list where it has several expressions."""

    schema: Literal[1]
    model: str
    table: str
    cost: str
    charge: str
    private: bool
    facts: dict[str, str]
    notes: list[str]
    sql: str | list[str] | None


@with_config(_CLOSED)
class Model(TypedDict):
    """What a synthetic model is: how it was made, its columns, and its stated errors at the confidence."""

    schema: Literal[1]
    table: str | None
    method: str | None
    tier: str | None
    cost: str | None
    charge: str | None
    protects: str | None
    note: str | None
    private: bool
    rows: int
    columns: list[ModelColumn]
    cliques: list[list[str]]
    cells: int
    measured: list[list[str]]
    constraints: list[str]
    confidence: float
    errors: dict[str, float | None]


@with_config(_CLOSED)
class Evaluation(TypedDict):
    """An evaluation of a model: mean distances over one, two and three columns; null where none was measured."""

    id: int
    charge: str
    created: str
    figures: dict[str, float | None]


@with_config(_CLOSED)
class Evaluations(TypedDict):
    """The evaluations of a model."""

    schema: Literal[1]
    evaluations: list[Evaluation]


@with_config(_CLOSED)
class Collection(TypedDict):
    """A collection of reports from devices, as far as it has come."""

    task: str
    question: str
    reports: int
    closed: bool
    epsilon: str
    lifetime_epsilon: str
    permanent: bool
    expires: str
    origin: str


@with_config(_CLOSED)
class Collections(TypedDict):
    """The collections of the project."""

    schema: Literal[1]
    collections: list[Collection]


@with_config(_CLOSED)
class LabelEstimate(TypedDict):
    """The estimate of one label; the adversarial ends hold where a share of the reports was made up to move it."""

    label: str
    count: float | None
    frequency: float | None
    error: float | None
    lower: float | None
    upper: float | None
    adversarial_lower: float | None
    adversarial_upper: float | None
    projected: float | None


@with_config(_CLOSED)
class CollectionEstimate(TypedDict):
    """The estimates of a collection with their intervals."""

    schema: Literal[1]
    task: str
    question: str
    reports: int
    closed: bool
    epsilon: str
    lifetime_epsilon: str
    permanent: bool
    confidence: float
    simultaneous: bool
    malicious: float
    assumes: str
    labels: list[LabelEstimate]


@with_config(_CLOSED)
class Status(TypedDict):
    """Whether the process answers, or can be used."""

    status: Literal["alive", "ready"]


# ---- How a route states them

Answers = dict[int | str, dict[str, Any]]

_PROBLEM = {"schema": {"$ref": "#/components/schemas/Problem"}}
# What every route may answer with.
PROBLEMS: Answers = {
    "4XX": {"description": "refused; nothing was charged", "content": {"application/problem+json": _PROBLEM}},
    "5XX": {"description": "failed; `exit_code` 5: a charge stands", "content": {"application/problem+json": _PROBLEM}},
}
# What a question, a fit or an evaluation may answer with.
WAITS: Answers = {202: {"model": Waiting, "description": "an officer has to approve first; nothing was charged"}}


def answers(model: Any, *, status: int = 200, description: str = "the answer", waits: bool = False) -> Answers:
    """Return what a route answers with, as JSON; with `waits`, also that an officer has to approve first."""
    return {status: {"model": model, "description": description}, **(WAITS if waits else {})}


def sends(media_type: str, *, description: str, binary: bool = False) -> Answers:
    """Return what a route answers with that is no JSON: text, or bytes."""
    schema = {"type": "string", **({"format": "binary"} if binary else {})}
    return {200: {"description": description, "content": {media_type: {"schema": schema}}}}


# How a request shows who sends it; a session's cookie changes something only with the token of its session.
SECURITY_SCHEMES: Mapping[str, Any] = {
    "token": {"type": "http", "scheme": "bearer", "description": "a token of an account"},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "sordino",
        "description": "the cookie of POST /v1/session; __Host-sordino where the server's origin is https",
    },
    "csrf": {"type": "apiKey", "in": "header", "name": "X-CSRF-Token", "description": "`csrf` of the session"},
}


def security_of(method: str) -> list[dict[str, list[str]]]:
    """Return the ways in that a route takes: a token, or a session, which a change has to prove is its own."""
    session: dict[str, list[str]] = {"session": []}
    return [{"token": []}, session if method in ("get", "head") else {**session, "csrf": []}]
