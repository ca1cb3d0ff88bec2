"""Who gets what: each route x role x object, generated from the table of access, over real HTTP."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from sqlalchemy import update

from collecting import store_reports, task_of
from serving import COUNT, SERIES_SQL, Served, served, served_visits
from sordino.serve.server.access import ACCESS, ROLES, Role
from sordino.serve.server.account_schema import ACCOUNTS
from sordino.serve.server.http_app import curator_app

WHO = {"analyst": "ana", "officer": "ola", "auditor": "udo"}
OTHER = "ben"


class Call(NamedTuple):
    """A request for an object of an account: its action, its method and path, its body, and what success answers."""

    action: str
    method: str
    path: str
    body: dict[str, Any] | None = None
    success: int = 200
    lists: str = ""  # the key of a list that holds objects of others too, where the role sees them


ASKERS = ("{charge}", "{approval}", "{model}", "{job}", "{series}")  # objects that only those have who may ask
_TAKEN = itertools.count()
ASKED = {"sql": COUNT, "epsilon": "0.1"}
FIT = {"table": "people", "method": "independent", "epsilon": "0.001"}
OPENED: dict[str, Any] = {
    "name": "opened",
    "table": "visits",
    "sql": SERIES_SQL,
    "over": "day",
    "every": "day",
    "rho": "0.001",
    "max_periods": 1,
}
SERVE = 'approve_above = {epsilon = 0.5}\ncollections = ["reports.db"]'
CALLS = (
    Call("table.read", "GET", "/v1/tables"),
    Call("question.plan", "POST", "/v1/plan", ASKED),
    Call("question.ask", "POST", "/v1/ask", ASKED),
    Call("question.practise", "POST", "/v1/ask", ASKED | {"on": "dummy"}),
    Call("release.read", "GET", "/v1/releases", lists="releases"),
    Call("release.read", "GET", "/v1/releases/{charge}"),
    Call("release.read", "GET", "/v1/releases/{charge}/explanation"),
    Call("budget.read", "GET", "/v1/budgets"),
    Call("share.change", "PUT", "/v1/shares/people/{account}", {"epsilon": "3"}),
    Call("account.read", "GET", "/v1/accounts", lists="accounts"),
    Call("account.change", "POST", "/v1/accounts", {"name": "new", "role": "analyst"}, 201),
    Call("account.change", "PATCH", "/v1/accounts/{account}", {"disabled": False}),
    Call("password.change", "PUT", "/v1/accounts/{account}/password", {"new": "a long enough one"}),
    Call("token.read", "GET", "/v1/accounts/{account}/tokens"),
    Call("token.make", "POST", "/v1/tokens", {"name": "t"}, 201),
    Call("token.revoke", "DELETE", "/v1/tokens/{token}"),
    Call("approval.read", "GET", "/v1/approvals", lists="approvals"),
    Call("approval.read", "GET", "/v1/approvals/{approval}"),
    Call("approval.decide", "POST", "/v1/approvals/{approval}", {"decision": "declined"}),
    Call("audit.read", "GET", "/v1/audit"),
    Call("model.read", "GET", "/v1/models", lists="models"),
    Call("model.read", "GET", "/v1/models/{model}"),
    Call("model.read", "GET", "/v1/models/{model}/file"),
    Call("model.read", "POST", "/v1/models/{model}/sample", {"rows": 3}),
    Call("model.read", "POST", "/v1/models/{model}/answer", {"sql": COUNT}),
    Call("model.fit", "POST", "/v1/models", FIT, 201),
    Call("model.evaluate", "POST", "/v1/models/{model}/evaluations", {"epsilon": "0.001"}, 201),
    Call("model.read", "GET", "/v1/models/{model}/evaluations"),
    Call("model.read", "GET", "/v1/models/{model}/evaluations/{evaluation}"),
    Call("collection.read", "GET", "/v1/collections"),
    Call("collection.read", "GET", "/v1/collections/drinks"),
    Call("collection.close", "POST", "/v1/collections/drinks/close"),
    Call("job.read", "GET", "/v1/jobs", lists="jobs"),
    Call("job.read", "GET", "/v1/jobs/{job}"),
    Call("series.open", "POST", "/v1/series", OPENED, 201),
    Call("series.read", "GET", "/v1/series", lists="series"),
    Call("series.read", "GET", "/v1/series/{series}"),
    Call("series.release", "POST", "/v1/series/{series}/releases", {"period": "2026-11-02"}, 201),
    Call("series.read", "GET", "/v1/series/{series}/releases/2026-11-02"),
    Call("series.read", "GET", "/v1/series/{series}/window?first=2026-11-02&last=2026-11-02"),
)
# Whose the objects are makes another request only where the call names or lists some.
CELLS = [
    (call, role, own)
    for call, role, own in itertools.product(CALLS, ROLES, (True, False))
    if own or "{" in call.path or call.lists
]


def is_refused(call: Call, role: Role, own: bool) -> bool:
    """Return whether this role is refused, sees nothing of others, or would change the account that it acts with."""
    reach = ACCESS[call.action][role]
    return reach == "none" or (reach == "own" and not own) or (own and call.action == "account.change")


# Every refusal, and of what succeeds the analyst's own: what other roles may do, too, is left to the deep tests.
MARKED_CELLS = [
    pytest.param(*cell, marks=[pytest.mark.deep] * (not is_refused(*cell) and cell[1:] != ("analyst", True)))
    for cell in CELLS
]
OPEN = {"/healthz", "/readyz", "/metrics", "/v1/openapi.json"} | {  # no role, or every one
    f"/v1/{path}" for path in ("session", "me", "openid/login", "openid/return")
}


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    _MADE.clear()
    with served(tmp_path_factory.mktemp("matrix"), serve=SERVE) as made:
        store_reports(str(made.service.settings.collections[0]), task_of(), ["tea", "milk"] * 20)
        yield made


@pytest.fixture(scope="module")
def series_matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service of a table of days, whose budget is of rho."""
    with served_visits(tmp_path_factory.mktemp("series")) as made:
        yield made


# Charges, models, evaluations and series by account: of each one is enough, since no call of the matrix takes one away.
_MADE: dict[tuple[str, str], Any] = {}


def made_once(kind: str, owner: str, make: Callable[[], Any]) -> Any:
    """Return what an account has of a kind, made where it is first needed."""
    if (kind, owner) not in _MADE:
        _MADE[kind, owner] = make()
    return _MADE[kind, owner]


def prepare(server: Served, owner: str, call: Call) -> dict[str, Any]:
    """Return the objects of an account that a call names, and all of them where it lists some."""
    named = set(re.findall(r"{(\w+)}", call.path))
    if call.lists:
        named = {"series"} if call.lists == "series" else {"charge", "approval", "token", "model", "job"}
    objects: dict[str, Any] = {"account": owner}
    if call.action == "approval.decide":
        # each needs a request that still waits
        objects |= ask_once(server, owner)
    elif named & {"charge", "approval"}:
        objects |= made_once("asked", owner, lambda: ask_once(server, owner))
    if named & {"model", "job", "evaluation"}:
        objects["model"], objects["job"] = made_once("fitted", owner, lambda: fit_once(server, owner))
    if "evaluation" in named:
        objects["evaluation"] = made_once("evaluated", owner, lambda: evaluate_once(server, owner, objects["model"]))
    if "series" in named:
        objects["series"] = made_once("series", owner, lambda: release_once(server, owner))
    if "token" in named:
        objects["token"] = server.send("POST", "/v1/tokens", who=owner, json={"name": "t"}).json()["id"]
    return objects


def ask_once(server: Served, owner: str) -> dict[str, Any]:
    """Return a charge of an account, and a new request that waits for an officer; who may not ask has none of its own."""
    if owner not in ("ana", "ben"):
        return {"charge": "c-9999", "approval": 9999}
    server.ask(who=owner, epsilon="0.001")
    charges = server.send("GET", "/v1/releases", who=owner).json()["releases"]
    waits = server.ask(who=owner, epsilon="0.6", key=f"k{len(charges)}").json()["approval"]
    return {"charge": charges[-1]["id"], "approval": waits}


def fit_once(server: Served, owner: str) -> tuple[int, int]:
    """Return the numbers of a model and of a job of an account, made with its first fit."""
    if owner not in ("ana", "ben"):
        return 9999, 9999
    job = server.send("POST", "/v1/models", who=owner, json=FIT, headers={"idempotency-key": "fit"}).json()["id"]
    return wait_for(server, owner, job)["model"], job


def release_once(server: Served, owner: str) -> str:
    """Return the name of a series of an account, with one period released; who may not open one has none."""
    name = f"of {owner}"
    if owner in ("ana", "ben"):
        opened = server.send("POST", "/v1/series", who=owner, json=OPENED | {"name": name})
        assert opened.status_code == 201, opened.text
        released = server.send("POST", f"/v1/series/{name}/releases", who=owner, json={"period": "2026-11-02"})
        wait_for(server, owner, released.json()["id"])
    return name


def wait_for(server: Served, owner: str, job: int) -> dict[str, Any]:
    for _ in range(1000):
        found: dict[str, Any] = server.send("GET", f"/v1/jobs/{job}", who=owner).json()
        if found["state"] != "running":
            break
        time.sleep(0.02)
    assert found["state"] == "done", found
    return found


def evaluate_once(server: Served, owner: str, model: int) -> int:
    if model == 9999:
        return 9999
    at, body = f"/v1/models/{model}/evaluations", {"epsilon": "0.001"}
    found = server.send("GET", at, who=owner).json()["evaluations"]
    if not found:
        wait_for(server, owner, server.send("POST", at, who=owner, json=body).json()["id"])
        found = server.send("GET", at, who=owner).json()["evaluations"]
    return int(found[0]["id"])


@pytest.mark.parametrize(
    ("call", "role", "own"),
    MARKED_CELLS,
    ids=lambda x: str(getattr(x, "path", x)),
)
def test_each_cell(matrix: Served, series_matrix: Served, call: Call, role: Role, own: bool) -> None:
    if call.action.startswith("series"):
        matrix = series_matrix
    who = WHO[role]
    reach = ACCESS[call.action][role]
    objects = prepare(matrix, who if own else OTHER, call)
    named = "{" in call.path
    answer = matrix.send(call.method, call.path.format(**objects), who=who, json=call.body)
    exists = not own or role == "analyst" or (not any(of in call.path for of in ASKERS))
    if reach == "none":
        expected = 403
    elif (reach == "own" and named and not own) or not exists:
        expected = 404
    elif call.action == "account.change" and own and named:
        expected = 403  # nobody changes the account that it acts with
    elif call.action == "approval.decide" and own and role == "analyst":
        expected = 403
    else:
        expected = call.success
    assert answer.status_code == expected, answer.text
    if call.lists and reach == "own":
        shown = {one.get("spender", one.get("account", one.get("name"))) for one in answer.json()[call.lists]}
        assert shown <= {who}
    if "token" in objects:
        matrix.send("DELETE", f"/v1/tokens/{objects['token']}", who=objects["account"])
    if call.path == "/v1/accounts" and call.method == "POST" and answer.status_code == 201:
        rename_new(matrix)


def rename_new(server: Served) -> None:
    """Take the name of the account that was made out of the way of the next one."""
    with server.service.store.transact() as db:
        db.execute(update(ACCOUNTS).where(ACCOUNTS.c.name == "new").values(name=f"was{next(_TAKEN)}"))


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.method} {call.path}")
@pytest.mark.parametrize("token", [None, "sordino_token_of_nobody"])
def test_without_an_account_there_is_nothing(matrix: Served, call: Call, token: str | None) -> None:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    path = call.path.format(
        account="ana", charge="c-0001", approval=1, token=1, model=1, job=1, evaluation=1, series="s"
    )
    answer = matrix.send(call.method, path, who=None, headers=headers, json=call.body)
    assert answer.status_code in (401, 429)
    assert set(answer.json()) <= {"type", "title", "status", "detail", "exit_code", "wait"}


def test_every_route_is_in_the_matrix(matrix: Served) -> None:
    covered = {(call.method, shape_of(call.path)) for call in CALLS}
    routes = [
        (method.upper(), path)
        for path, of in curator_app(matrix.service).app.openapi()["paths"].items()
        for method in of
    ]
    assert len(routes) > 20
    for method, path in routes:
        assert path in OPEN or (method, shape_of(path)) in covered, (method, path)


def shape_of(path: str) -> str:
    path = path.partition("?")[0].replace("releases/{period}", "releases/2026-11-02")
    return re.sub(
        r"\{[a-z]+\}", "{}", path.replace("{budget}", "people").replace("collections/{name}", "collections/drinks")
    )


def test_every_action_is_tried() -> None:
    assert {call.action for call in CALLS} == set(ACCESS)
