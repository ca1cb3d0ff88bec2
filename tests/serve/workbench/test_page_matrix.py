"""Who gets which page: each route of the workbench x role x object, over real HTTP, from the table of access."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, get_args

import pytest
from fastapi._compat import ModelField
from fastapi.routing import APIRoute

from collecting import store_reports, task_of
from places import ROOT
from serving import served
from sordino.serve.server.access import ACCESS, Role
from sordino.serve.server.http_service import COLLECTIONS, DESK, MODELS_AND_JOBS, QUESTIONS
from sordino.serve.workbench.local_door import open_door
from sordino.serve.workbench.page_route import _NAVIGATION
from sordino.serve.workbench.workbench_app import PAGE_ROUTERS, workbench_app
from visiting import PASSWORD, Person, person_of, wait_for

ROLES: dict[str, Role] = {"ana": "analyst", "ben": "analyst", "ola": "officer", "udo": "auditor"}
OPEN = {"/sign-in", "/enter", "/page/{name}", "/favicon.ico", "/sign-out"}
SQL = {"sql": "SELECT COUNT(*) AS n FROM people", "epsilon": "0.001"}
FIT = {"table": "people", "method": "independent", "column:age": "on", "column:sex": "on", "epsilon": "0.002"}
OWN = "own"  # of the account that looks, whoever it is


class Page(NamedTuple):
    """A page: the action that it needs, its route and an address of it, whose the object is, and the form it is sent."""

    action: str
    route: str
    address: str = ""
    owner: str = OWN
    form: dict[str, str] | None = None
    success: int = 200


ANSWER, MODEL = "/history/people/c-0001", "/models/1"
PAGES = (
    Page("table.read", "/"),
    Page("table.read", "/tables/{name}", "/tables/people"),
    Page("table.read", "/sql"),
    Page("question.plan", "/question/price", form=SQL),
    Page("question.practise", "/question/practise", form=SQL),
    Page("question.ask", "/question/ask", form=SQL, success=303),
    Page("approval.read", "/waiting/{number}", "/waiting/1", "ana"),
    Page("release.read", "/history"),
    Page("release.read", "/history/{budget}/{charge}", ANSWER, "ana"),
    Page("release.read", "/history/{budget}/{charge}/{shade}.png", f"{ANSWER}/dark.png", "ana"),
    Page("release.read", "/history/{budget}/{charge}/export/{kind}", f"{ANSWER}/export/csv", "ana"),
    Page("model.read", "/models"),
    Page("table.read", "/models/fit/{name}", "/models/fit/people"),
    Page("table.read", "/models/predict/{name}", "/models/predict/people"),
    Page("model.fit", "/models/fit", form=FIT, success=303),
    Page("job.read", "/jobs/{number}", "/jobs/1", "ana"),
    Page("model.read", "/models/{number}", MODEL, "ana"),
    Page("model.read", "/models/{number}/{shade}.png", f"{MODEL}/light.png", "ana"),
    Page("model.read", "/models/{number}/file", f"{MODEL}/file", "ana"),
    Page("model.read", "/models/{number}/sample", f"{MODEL}/sample", "ana", {"rows": "3"}),
    Page("model.evaluate", "/models/{number}/evaluations", f"{MODEL}/evaluations", "ana", {"epsilon": "0.001"}, 303),
    Page("model.read", "/models/{number}/evaluations/{evaluation}", f"{MODEL}/evaluations/1", "ana"),
    Page("model.read", "/models/{number}/evaluations/{evaluation}/file", f"{MODEL}/evaluations/1/file", "ana"),
    Page(
        "model.read",
        "/models/{number}/evaluations/{evaluation}/{section}-{drawing}-{shade}.png",
        f"{MODEL}/evaluations/1/1-0-dark.png",
        "ana",
    ),
    Page("collection.read", "/collections"),
    Page("collection.read", "/collections/{name}", "/collections/drinks"),
    Page(
        "collection.close", "/collections/{name}/close", "/collections/drinks/close", form={"sure": "on"}, success=303
    ),
    Page("account.read", "/account"),
    Page("token.make", "/account/tokens", form={"name": "t"}),
    Page("token.revoke", "/account/tokens/{number}", "/account/tokens/1", "ana", {}, 303),
    Page("audit.read", "/desk"),
    Page("audit.read", "/desk/audit"),
    Page("audit.read", "/desk/board"),
    Page("audit.read", "/desk/board/file"),
    Page(
        "approval.decide", "/desk/approvals/{number}", "/desk/approvals/1", form={"decision": "declined"}, success=303
    ),
    Page("share.change", "/desk/shares", form={"budget": "people", "spender": "ben", "epsilon": "3"}, success=303),
    Page("account.change", "/desk/accounts", form={"name": "new", "role": "analyst"}, success=303),
    Page("account.change", "/desk/accounts/{name}", "/desk/accounts/eve"),
    Page("account.change", "/desk/accounts/{name}", "/desk/accounts/eve", form={"disabled": "no"}, success=303),
    Page(
        "account.change",
        "/desk/accounts/{name}/password",
        "/desk/accounts/eve/password",
        form={"new": PASSWORD},
        success=303,
    ),
    Page(
        "account.change", "/desk/accounts/{name}/tokens/{number}", "/desk/accounts/eve/tokens/5", form={}, success=303
    ),
    Page("table.read", "/epsilon"),
    Page("table.read", "/epsilon/interval", form={"table": "people", "max_posterior": "0.75"}),
    Page("table.read", "/declare"),
    Page("table.read", "/declare", form={"name": "people"}),
)
IN_PLACE = {  # their errors are words in the page that asked, and they show nothing that their page does not
    "/models/price",
    "/models/{number}/price",
    "/models/{number}/rows",
    "/models/{number}/answer",
    "/epsilon/{shade}.png",
    "/declare/file",
    "/declare/more",
    "/account/password",
}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Person]]:
    serve = 'approve_above = {epsilon = 0.5}\ncollections = ["reports.db"]'
    with served(tmp_path_factory.mktemp("pages"), serve=serve) as server:
        server.add("eve", "analyst")
        store_reports(server.service.settings.collections[0], task_of(), ["tea", "milk"] * 20)
        visitors = {name: person_of(server, name) for name in ROLES}
        assert visitors["ana"].post("/question/ask", **SQL).headers["location"] == ANSWER
        assert visitors["ana"].post("/question/ask", **SQL | {"epsilon": "0.6"}).headers["location"] == "/waiting/1"
        wait_for(visitors["ana"], visitors["ana"].post("/models/fit", **FIT).headers["location"])
        wait_for(visitors["ana"], visitors["ana"].post(f"{MODEL}/evaluations", epsilon="0.001").headers["location"])
        yield visitors


def send(person: Person, page: Page) -> int:
    address = page.address or page.route
    answer = person.get(address) if page.form is None else person.post(address, **page.form)
    return answer.status_code


def is_drawn(page: Page) -> bool:
    return page.address.endswith((".png", "/evaluations/1/file"))


@pytest.mark.parametrize("shown", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["refused", "all"])
@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.address or page.route} {page.form is not None}")
def test_each_page_is_for_its_roles(people: dict[str, Person], page: Page, shown: bool) -> None:
    """Whom each page refuses, and where a form leads; `shown`: it is shown to each role that may see it, too.

    The owner of this machine sees each page in a test of its own.
    """
    others = [name for name in ROLES if name != "ana"]
    for name in [*others, "ana"]:  # whoever owns it comes last: what it removes is there for the others
        reach = ACCESS[page.action][ROLES[name]]
        expected = page.success
        if reach == "none":
            expected = 403
        elif reach == "own" and page.owner not in (OWN, name):
            expected = 404
        if expected == 200 and name in ("ola", "ana") and is_drawn(page):
            continue  # a picture takes long, and is the same for all
        if page.route == "/account/tokens/{number}" and name != "ana":
            expected = 404  # on one's own page nobody revokes another's, officers neither
        if expected == 200 and not shown:
            continue
        assert send(people[name], page) == expected, name


def test_nobody_comes_in_without_a_session(people: dict[str, Person]) -> None:
    stranger = Person(people["ana"].server, "sordino=nobody")
    for page in PAGES:
        address = page.address or page.route
        answer = stranger.get(address) if page.form is None else stranger.post(address, token="x", **page.form)
        assert answer.status_code == 303, address
        assert answer.headers["location"] == "/sign-in"


def test_every_page_is_in_the_matrix() -> None:
    routes = {route.path for router in PAGE_ROUTERS for route in router.routes if isinstance(route, APIRoute)}
    assert routes == {page.route for page in PAGES} | OPEN | IN_PLACE


def test_what_answers_in_place_shows_nothing_of_others(people: dict[str, Person]) -> None:
    for name, seen in (("ana", True), ("ben", False), ("udo", True)):
        rows = people[name].post(f"{MODEL}/rows", rows="2").text
        told = people[name].post(f"{MODEL}/answer", sql="SELECT COUNT(*) AS n FROM model").text
        assert ("nobody&#39;s" in rows or "nobody's" in rows, "charge c-" in told) == (seen, seen), name
    assert "Leaves" in people["ana"].post(f"{MODEL}/price", epsilon="0.1").text
    for name in ("ben", "ola", "udo"):
        assert "problem" in people[name].post(f"{MODEL}/price", epsilon="0.1").text
    assert "does not include" in people["ola"].post("/models/price", **FIT).text


def test_the_owner_has_all_but_accounts(people: dict[str, Person]) -> None:
    server = people["ana"].server
    before, app = server.service.account_service.sessions, server.app
    try:
        secret = open_door(server.service)
        server.app = workbench_app(server.service)
        body, origin = {"secret": secret}, {"origin": "http://test"}
        entered = server.send("POST", "/enter", who=None, headers=origin, data=body)
        owner = Person(server, entered.headers["set-cookie"].split(";")[0])
        for page in PAGES:
            if page.form is None and not is_drawn(page):
                expected = 404 if page.route == "/account" or page.address == "/desk/accounts/eve" else 200
                assert send(owner, page) == expected, page
        assert owner.post("/account/tokens", name="t").status_code == 404
        wait_for(owner, owner.post("/models/fit", **FIT).headers["location"])
        assert server.service.ledger("people").charges()[-1].spender is None
    finally:
        server.service.account_service.sessions, server.app = before, app


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Person, Person]]:
    """An analyst and an officer of a server with a model and an evaluation: a route of theirs finds them by a right number."""
    with served(tmp_path_factory.mktemp("fitted")) as server:
        ana = person_of(server)
        wait_for(ana, ana.post("/models/fit", **FIT).headers["location"])
        wait_for(ana, ana.post("/models/1/evaluations", epsilon="0.001").headers["location"])
        yield ana, person_of(server, "ola")


@pytest.mark.deep
@pytest.mark.parametrize(
    "number", ["99999999999999999999", "-99999999999999999999", "-1", "0", "1" * 5000, "1e9", "%F1"]
)
def test_no_number_in_an_address_makes_a_route_fail(fitted: tuple[Person, Person], number: str) -> None:
    """Whatever a route reads as a whole number: too large for the stores, below nothing, or none."""
    routers = (*PAGE_ROUTERS, QUESTIONS, DESK, MODELS_AND_JOBS, COLLECTIONS)
    routes = routes_with_numbers(route for router in routers for route in router.routes)
    assert {"show_drawing", "show_model", "show_job", "revoke_token", "read_audit_log"} <= {r.name for r in routes}
    for route in routes:
        numbers = [f.name for f in route.dependant.path_params if is_whole(f)]
        queries = [f.name for f in route.dependant.query_params if is_whole(f)]
        for wrong in [*numbers, *queries]:
            address = route.path
            for name in re.findall(r"{(\w+)}", address):
                right = {"shade": "light", "name": "ana"}.get(name, "1")
                address = address.replace(f"{{{name}}}", number if name == wrong else right)
            if wrong in queries:
                address += f"?{wrong}={number}"
            for person in fitted:
                for method in route.methods or ():
                    answer = person.get(address) if method == "GET" else person.post(address)
                    assert answer.status_code < 500, (method, address, answer.text)


def routes_with_numbers(routes: Iterable[object]) -> list[APIRoute]:
    found = [route for route in routes if isinstance(route, APIRoute)]
    return [r for r in found if any(map(is_whole, (*r.dependant.path_params, *r.dependant.query_params)))]


def is_whole(field: ModelField) -> bool:
    return int in (field.field_info.annotation, *get_args(field.field_info.annotation))


def test_the_manual_names_each_page_as_its_link_does() -> None:
    """It said "Synthetic tables" of the page whose link had become "Models"."""
    manual = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    section = manual.partition("## The workbench, in a browser")[2].partition("## Python")[0]
    # Tasks are a class's own.
    names = {name for path, name, _ in _NAVIGATION if path != "/tasks"}
    assert names <= set(re.findall(r"\*\*(.+?)\*\*", section))
