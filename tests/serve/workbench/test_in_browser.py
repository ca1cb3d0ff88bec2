"""The workbench in a real headless Chromium: from signing in to an answer by keyboard, axe on each page, no foreign request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from browsing import opened_browser
from collecting import store_reports, task_of
from serving import COUNT, Served, served
from sordino.errors import ApprovalNeeded
from sordino.serve.server.evaluation_service import EvaluationService
from sordino.serve.server.model_service import ModelService
from sordino.serve.server.question_request import read_question_request
from sordino.serve.workbench.local_door import open_door
from sordino.serve.workbench.workbench_app import workbench_app
from visiting import PASSWORD, listening

NARROW = {"viewport": {"width": 400, "height": 800}}
LOOKS: tuple[dict[str, Any], ...] = ({}, {"color_scheme": "dark"}, NARROW)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    with served(tmp_path_factory.mktemp("site"), serve="approve_above = {epsilon = 1}") as server:
        for name in ("ana", "ola"):
            server.service.account_service.accounts.set_password(
                server.service.account_service.accounts.find(name), PASSWORD
            )
        with listening(workbench_app(server.service)) as address:
            yield server, address


def open_page(browser: Any, address: str, **look: Any) -> tuple[Any, list[str]]:
    """Open an empty page, and a list of what it complains about and asks elsewhere."""
    page = browser.new_context(**look).new_page()
    page.set_default_timeout(15_000)
    complaints: list[str] = []
    page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: complaints.append(str(e)))
    page.on("request", lambda r: None if r.url.startswith(f"{address}/") else complaints.append(r.url))
    return page, complaints


def sign_in(page: Any, address: str, name: str) -> None:
    page.goto(f"{address}/sign-in")
    page.fill("#name", name)
    page.fill("#password", PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{address}/")


@pytest.mark.deep
def test_the_keyboard_alone_asks(browser: Any, site: tuple[Served, str]) -> None:
    server, address = site
    page, complaints = open_page(browser, address)
    sign_in(page, address, "ana")

    def reach(selector: str) -> None:
        for _ in range(60):
            if page.evaluate("s => document.activeElement.matches(s)", selector):
                return
            page.keyboard.press("Tab")
        raise AssertionError(f"no Tab reaches {selector}")

    reach("a[href='/tables/people']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tables/people")
    reach("#measure")
    page.keyboard.type("the mean")
    reach("#of")
    page.keyboard.type("age")
    reach("[name='group:sex']")
    page.keyboard.press("Space")
    page.locator("#price").get_by_text("the mean of age, for each sex").first.wait_for()
    before = page.locator("#price strong").first.inner_text()
    reach("#slide")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("before => document.querySelector('#price strong').innerText !== before", arg=before)
    assert page.locator("#epsilon").input_value() == "0.11"
    assert server.service.ledger("people").charges() == []
    reach("button[data-practise]")
    page.keyboard.press("Enter")
    page.get_by_text("DUMMY DATA").wait_for()
    assert server.service.ledger("people").charges() == []
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/history/people/c-0001")
    assert page.locator("main table tbody tr").count() == 2
    assert page.locator("figure img").evaluate("i => i.complete && i.naturalWidth") > 100
    assert page.get_by_text("sure of it afterwards").count() == 1
    assert complaints == []
    page.context.close()


def test_the_editor_completes_and_marks(browser: Any, site: tuple[Served, str]) -> None:
    _, address = site
    page, complaints = open_page(browser, address)
    sign_in(page, address, "ana")
    page.goto(f"{address}/sql")
    page.fill("#sql", "")
    page.locator("#sql").type("SELECT AVG(a")
    page.locator("[role=option]").first.wait_for()
    page.keyboard.press("Control+Space")
    assert "age" in page.locator("#words").inner_text()
    while page.locator("[aria-selected=true]").inner_text().split()[0] != "age":
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#sql").input_value() == "SELECT AVG(age"
    page.fill("#sql", "SELECT AVG(age) AS m FROM peple")
    page.locator("#backdrop mark").wait_for()
    assert page.locator("#sql").get_attribute("aria-invalid") == "true"
    page.fill("#sql", "SELECT AVG(age) AS m FROM people")
    page.get_by_text("the mean of age").first.wait_for()
    assert page.locator("#backdrop mark").count() == 0
    assert complaints == []
    page.context.close()


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    """Give a site with something on every page."""
    serve = 'approve_above = {epsilon = 1}\ncollections = ["reports.db"]'
    with served(tmp_path_factory.mktemp("rich"), serve=serve) as server:
        visitor = server.service.account_service.enter(server.tokens["ana"])
        server.service.ask(visitor, read_question_request({"sql": COUNT, "epsilon": "0.1"}), request="axe")
        with suppress(ApprovalNeeded):
            server.service.ask(visitor, read_question_request({"sql": COUNT, "epsilon": "1.5"}), request="waits")
        models = ModelService(server.service)
        models.fit(visitor, {"table": "people", "epsilon": "0.3"})
        models.close()  # waits for it
        models = ModelService(server.service)
        EvaluationService(models).begin(visitor, 1, {"epsilon": "0.3", "predict": "age > 50"})
        models.close()
        store_reports(server.service.settings.collections[0], task_of(), ["tea", "milk"] * 50)
        for name in ("ana", "ola", "udo"):
            server.service.account_service.accounts.set_password(
                server.service.account_service.accounts.find(name), PASSWORD
            )
        with listening(workbench_app(server.service)) as address:
            yield server, address


def faults(page: Any, address: str, paths: tuple[str, ...]) -> list[str]:
    """Return what axe says of pages, and which are wider than the window."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python").Axe()
    problems = []
    for path in paths:
        answer = page.goto(f"{address}{path}")
        if "/collections/" not in path and "/waiting/" not in path:  # these look again and again
            page.wait_for_load_state("networkidle")
        problems += [] if answer.status == 200 else [f"{path}: {answer.status}"]
        found = axe.run(page).response["violations"]
        problems += [f"{path}: {one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]
        width = page.evaluate("document.documentElement.scrollWidth")
        problems += [f"{path} is {width} wide"] if width > page.viewport_size["width"] else []
    return problems


@pytest.mark.deep
@pytest.mark.parametrize("look", LOOKS, ids=("light", "dark", "narrow"))
def test_pages_pass_axe(browser: Any, rich: tuple[Served, str], look: dict[str, Any]) -> None:
    _, address = rich
    problems = []
    for name, paths in (("ana", ANALYST_PAGES), ("ola", OFFICER_PAGES), ("udo", AUDITOR_PAGES)):
        page, complaints = open_page(browser, address, **look)
        problems += faults(page, address, ("/sign-in",))
        sign_in(page, address, name)
        problems += faults(page, address, paths) + complaints
        page.context.close()
    assert problems == []


@pytest.mark.deep
@pytest.mark.parametrize("look", LOOKS, ids=("light", "dark", "narrow"))
def test_pages_of_the_owner_pass_axe(browser: Any, tmp_path: Path, look: dict[str, Any]) -> None:
    with served(tmp_path) as server:
        secret = open_door(server.service)
        with listening(workbench_app(server.service)) as address:
            page, complaints = open_page(browser, address, **look)
            problems = faults(page, address, ("/sign-in",))
            page.goto(f"{address}/")  # a secret in a fragment alone would be no new page
            page.goto(f"{address}/sign-in?#{secret}")
            page.wait_for_url(f"{address}/")
            page.goto(f"{address}/models/fit/people")
            page.get_by_role("button", name="Fit, and spend").click()
            page.get_by_role("link", name="Open model 1").wait_for()
            assert problems + faults(page, address, OWNER_PAGES) + complaints == []
            page.context.close()


@pytest.mark.deep
def test_the_keyboard_alone_fits_a_model_and_makes_a_token(browser: Any, rich: tuple[Served, str]) -> None:
    server, address = rich
    page, complaints = open_page(browser, address)
    sign_in(page, address, "ana")

    def reach(words: str, role: Any = "link") -> None:
        goal = page.get_by_role(role, name=words).first
        goal.wait_for()
        for _ in range(60):
            if goal.evaluate("e => e === document.activeElement"):
                return
            page.keyboard.press("Tab")
        raise AssertionError(f"no Tab reaches {words}")

    for words in ("Models", "Synthetic rows of people"):
        reach(words)
        page.keyboard.press("Enter")
    reach("sex", "checkbox")
    page.keyboard.press("Space")
    page.get_by_text("a synthetic table (fit) of age").wait_for()
    reach("Fit, and spend", "button")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/*")
    reach("Open model")  # comes without another look at the page
    page.keyboard.press("Enter")
    page.get_by_text("drawn anew at each look").wait_for()
    reach("Only rows where", "textbox")
    page.keyboard.type("age > 100")
    page.wait_for_function(
        "() => [...document.querySelectorAll('#rows-shown td')].every(td => Number(td.innerText) > 100)"
    )
    reach("ana, analyst")
    page.keyboard.press("Enter")
    reach("What it is for", "textbox")
    page.keyboard.type("notebook")
    page.keyboard.press("Enter")
    secret = page.locator("#secret").input_value()
    assert server.service.account_service.enter(secret).name == "ana"
    assert complaints == []
    page.context.close()


ALL = (
    "/",
    "/tables/people",
    "/sql",
    "/history",
    "/models",
    "/models/fit/people",
    "/models/predict/people",
    "/jobs/1",
    "/models/1",
    "/epsilon",
    "/declare",
)
SHOWN = (
    "/waiting/1",
    "/tables/people?column:1=sex&column:2=age&measure:2=quantile&of:2=age",
    "/history/people/c-0001",
    "/models/1/evaluations/1",
    "/collections",
    "/collections/drinks",
    "/account",
)
DESK = ("/desk", "/desk/audit", "/desk/board", "/waiting/1")
ANALYST_PAGES = (*ALL, *SHOWN)
OFFICER_PAGES = (*DESK, "/desk/accounts/ana", "/collections/drinks", "/models", "/models/1", "/account")
AUDITOR_PAGES = (*DESK, "/models/1", "/tables/people", "/account")
OWNER_PAGES = (*ALL, *DESK[:3], "/history/people/c-0001")


def test_the_owner_comes_in_by_the_link(browser: Any, tmp_path: Path) -> None:
    with served(tmp_path) as server:
        secret = open_door(server.service)
        with listening(workbench_app(server.service)) as address:
            page, complaints = open_page(browser, address)
            page.goto(f"{address}/sign-in#{secret}")
            page.wait_for_url(f"{address}/")
            assert page.get_by_text("local, without accounts").count() == 1
            assert not any(secret in url for url in page.evaluate("performance.getEntries().map(e => e.name)"))
            assert complaints == []
            page.context.close()
