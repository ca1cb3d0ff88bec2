"""The survey and live pages in a real headless Chromium: what is sent is shown, and nothing leaves the origin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from browsing import opened_browser, opened_page
from collecting import KEY, UNTIL, running, task_of, with_tokens
from ports import free_port
from sordino.core.noise.rng import Rng
from sordino.local.collector.pages import POLICY
from sordino.local.collector.report_store import Store
from sordino.local.collector.service import Limits
from sordino.local.protocols.hashing import BLH
from sordino.local.protocols.memoization import memoize
from sordino.local.protocols.response import GRR
from sordino.local.protocols.summed_histogram import SHE
from sordino.local.protocols.unary import SUE
from sordino.local.reports import Reports
from sordino.local.task import create_task

LABELS = ("tea", "coffee", "milk", "water")
CAP = "3"


class Visit:
    """A page with all that it asked for and complained about."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.asked: list[tuple[str, bytes | None]] = []
        self.complaints: list[str] = []
        page.on("request", lambda r: self.asked.append((r.url, r.post_data_buffer)))
        page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: self.complaints.append(str(e)))

    def answer(self, label: str, *, cap: str = CAP) -> None:
        self.page.get_by_label(label, exact=True).check()
        self.page.fill("#cap", cap)
        self.page.click("#mix")

    def send(self) -> None:
        self.page.click("#send")
        self.page.get_by_text("Sent, and stored.").wait_for()

    def spent(self) -> str:
        return str(self.page.locator("#spent").text_content())


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened_browser() as opened:
        yield opened


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    with opened_page(browser) as page:
        yield Visit(page)


def _survey(protocol: Any, tmp_path: Path, **how: Any) -> Any:
    """Return a collector whose task says the origin that it is served from."""
    port = free_port()
    task = task_of(protocol, origin=f"http://127.0.0.1:{port}")
    store = with_tokens(str(tmp_path / "reports.db"))
    return task, running(store, [task], port=port, **how)


@pytest.mark.deep
def test_a_person_answers_and_the_estimate_moves(visit: Visit, tmp_path: Path) -> None:
    task, service = _survey(memoize(SUE(LABELS, epsilon=2), epsilon=1), tmp_path)
    page = visit.page
    with service as at:
        page.goto(f"{at.url}/#token=r")
        page.wait_for_url("**/tasks/drinks#token=r")
        visit.answer("milk")
        page.get_by_text("This is all that will be sent").wait_for()
        told = [str(page.locator(f"#{part}").text_content()).replace(" ", "") for part in ("hash", "id", "report")]
        assert told[0] == task.manifest.hash.hex()
        assert at.estimate()["reports"] == 0
        visit.send()
        found = at.estimate()
        assert found["reports"] == 1
        posted = [data for url, data in visit.asked if url.endswith("/reports")]
        assert [data.hex() if data else None for data in posted] == ["".join(told)]
        assert len(posted[0] or b"") == 32 + 16 + 1
        stored = next(iter(Store.open(at.store).chunks(1)))
        assert (stored.ids + stored.reports).hex() == told[1] + told[2]

        live = page.context.new_page()
        seen = Visit(live)
        live.goto(f"{at.url}/tasks/drinks/live#token=a")
        live.get_by_text("1 reports").wait_for()
        assert live.locator("#rows tr").count() == 4
        before = live.locator("#rows").inner_text()
        assert live.locator("#chart rect").count() == 4
        assert re.search(r"\d% to \d", before)  # what malicious clients could do stands beside each interval
        at.post(_forty(task))
        live.get_by_text("41 reports").wait_for()
        assert live.locator("#rows").inner_text() != before

        visit.answer("tea")  # another answer, in the same epoch: charged nothing, since it changes nothing
        page.get_by_text("This is all that will be sent").wait_for()
        visit.send()
        assert visit.spent() == "2"
        assert at.estimate()["reports"] == 42
        state = json.loads(page.evaluate("localStorage.getItem('sordino')"))
        assert [c[1:3] + c[4:5] for c in state["charges"]] == [["drinks", "2026", "2"]]
        assert not any(label in json.dumps(state) for label in LABELS)
        for one in (visit, seen):
            assert one.asked
            assert all(url.startswith(f"{at.url}/") for url, _ in one.asked)
            assert one.complaints == []


def _forty(task: Any) -> bytes:
    """Return the body of 40 reports of tea: made by the second round alone, which has their form."""
    rows = task.protocol.instant.perturb(["tea"] * 40, Rng.seeded(9)).rows
    rng = Rng.seeded(10)
    return bytes(task.manifest.hash) + b"".join(rng.bytes(16) + row.tobytes() for row in rows)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("protocol", "words"),
    [(BLH(LABELS, epsilon=1), "a random half of the answers"), (SHE(LABELS, epsilon=1), "noise on each")],
)
def test_a_hash_and_noisy_numbers_are_explained_and_counted(
    visit: Visit, tmp_path: Path, protocol: Any, words: str
) -> None:
    task, service = _survey(protocol, tmp_path)
    with service as at:
        visit.page.goto(f"{at.url}/tasks/drinks#token=r")
        visit.answer("milk")
        visit.page.get_by_text(words).wait_for()
        said = str(visit.page.locator("#says").text_content())
        visit.send()
        assert at.estimate()["reports"] == 1
        stored = next(iter(Store.open(at.store).chunks(1))).reports
    if isinstance(protocol, SHE):
        numbers = protocol.numbers(Reports.from_rows(stored, task.protocol))[0].tolist()
        assert said.startswith(
            "It says " + ", ".join(f"{n} for {label}" for n, label in zip(numbers, LABELS, strict=True))
        )


def test_above_the_cap_nothing_is_sent(visit: Visit, tmp_path: Path) -> None:
    _, service = _survey(GRR(LABELS, epsilon=1), tmp_path, limits=Limits(per_minute=600, burst=100, open=True))
    with service as at:
        visit.page.goto(f"{at.url}/tasks/drinks")
        visit.answer("tea", cap="0.5")
        visit.page.get_by_text("Nothing was sent: above your cap").wait_for()
        assert visit.page.locator("#shown").is_hidden()
        for _ in range(2):  # fresh reports: each is charged
            visit.answer("tea", cap="2")
            visit.page.locator("#send:enabled").wait_for()
            visit.send()
        visit.answer("tea", cap="2")
        visit.page.get_by_text("Nothing was sent: above your cap").wait_for()
        assert at.estimate()["reports"] == 2
        assert len([url for url, _ in visit.asked if url.endswith("/reports")]) == 2


@pytest.mark.deep
def test_a_report_that_was_not_acknowledged_is_sent_again_as_it_was(visit: Visit, tmp_path: Path) -> None:
    _, service = _survey(GRR(LABELS, epsilon=1), tmp_path)
    with service as at:
        visit.page.goto(f"{at.url}/tasks/drinks#token=r")
        visit.page.route("**/reports", lambda route: (route.fetch(), route.abort()))  # stored, but the answer is lost
        visit.answer("tea")
        visit.page.locator("#send:enabled").wait_for()
        visit.page.click("#send")
        visit.page.get_by_text("The same bytes can be sent again").wait_for()
        visit.page.unroute("**/reports")
        visit.page.reload()
        visit.answer("milk")
        visit.page.locator("#send:enabled").wait_for()
        visit.send()
        assert at.estimate()["reports"] == 1
        assert visit.spent() == "1"


def test_a_task_that_does_not_hold_is_not_shown(visit: Visit, tmp_path: Path) -> None:
    _, service = _survey(GRR(LABELS, epsilon=1), tmp_path)
    with service as at:

        def altered(route: Any) -> None:
            plain = json.loads(route.fetch().text())
            plain["manifest"] = plain["manifest"].replace('"epsilon":"1"', '"epsilon":"2"', 1)
            route.fulfill(body=json.dumps(plain), content_type="application/json")

        visit.page.route("**/v1/tasks/drinks", altered)
        visit.page.goto(f"{at.url}/tasks/drinks")
        visit.page.get_by_text("your device will not answer it: bad signature").wait_for()
        assert visit.page.locator("#form").is_hidden()


def test_the_policy_blocks_what_is_not_of_this_origin(visit: Visit, tmp_path: Path) -> None:
    _, service = _survey(GRR(LABELS, epsilon=1), tmp_path)
    with service as at:
        visit.page.goto(f"{at.url}/tasks/drinks")
        tried = """async () => {
            const tell = new Promise(done =>
                document.addEventListener('securitypolicyviolation', e => done(e.violatedDirective)));
            fetch('http://localhost:1/steal').catch(() => 0);
            return await tell;
        }"""
        assert visit.page.evaluate(tried) == "connect-src"
        script = "() => { const s = document.createElement('script'); s.textContent = 'window.bad = 1'; document.body.append(s) }"
        with pytest.raises(Exception, match="TrustedScript"):
            visit.page.evaluate(script)
        assert visit.page.evaluate("window.bad") is None


def test_pages_carry_a_strict_policy_and_escape_what_they_show(tmp_path: Path) -> None:
    _, service = _survey(GRR(LABELS, epsilon=1), tmp_path)
    with service as at:
        for path in ("/tasks/drinks", "/tasks/drinks/live", "/page/sordino.js", "/page/survey.js", "/page/style.css"):
            answer = httpx.get(at.url + path, timeout=300)
            assert answer.status_code == 200
            assert answer.headers["content-security-policy"] == POLICY
            assert answer.headers["referrer-policy"] == "no-referrer"
        assert "unsafe" not in POLICY
        assert "default-src 'none'" in POLICY
        assert httpx.get(f"{at.url}/page/../app.py", timeout=300).status_code == 404
        assert httpx.get(f"{at.url}/tasks/nothing", timeout=300).status_code == 404
        text = httpx.get(f"{at.url}/tasks/drinks", timeout=300).text
        assert not re.search(r"<script(?![^>]*src=)|style=|onclick|javascript:", text)


@pytest.mark.deep
def test_a_wrong_token_is_asked_for_again(visit: Visit, tmp_path: Path) -> None:
    _, service = _survey(GRR(LABELS, epsilon=1), tmp_path)
    with service as at:
        visit.page.goto(f"{at.url}/tasks/drinks/live#token=r")  # a respondent's
        visit.page.get_by_text("no administrator's token").wait_for()
        visit.page.fill("#token", "a")
        visit.page.get_by_role("button", name="Show").click()
        visit.page.get_by_text("No reports yet.").wait_for()
        assert visit.page.locator("#door").is_hidden()
        assert all(url.startswith(f"{at.url}/") and "token" not in url.partition("#")[0] for url, _ in visit.asked)


@pytest.mark.each(3)
@pytest.mark.parametrize(
    ("fragment", "words"),
    [
        ("", "Your link holds no token"),
        ("#token=wrong", "does not know the token in your link"),
        ("#token=a", "an administrator's token"),
    ],
)
def test_a_refused_token_is_shown_before_anything_is_randomized(
    visit: Visit, tmp_path: Path, fragment: str, words: str
) -> None:
    _, service = _survey(GRR(LABELS, epsilon=1), tmp_path)
    with service as at:
        visit.page.goto(f"{at.url}/tasks/drinks{fragment}")
        visit.page.get_by_text(words).wait_for()
        assert "{" not in str(visit.page.locator("#status").text_content())
        assert visit.page.locator("#form").is_hidden()
        assert visit.page.evaluate("localStorage.getItem('sordino')") is None
        assert visit.complaints == []
        assert not [url for url, _ in visit.asked if url.endswith("/reports")]


def test_a_question_cannot_write_the_page(tmp_path: Path) -> None:
    sly = create_task(
        KEY,
        GRR(LABELS, epsilon=1),
        task="drinks",
        question="<script>alert(1)</script>",
        lifetime_epsilon=1,
        epoch="1",
        expires=UNTIL,
        origin="https://a.example",
    )
    with running(with_tokens(str(tmp_path / "reports.db")), [sly]) as at:
        assert "<script>alert" not in httpx.get(f"{at.url}/tasks/drinks", timeout=300).text


@pytest.mark.deep
def test_screens_are_not_empty(visit: Visit, tmp_path: Path) -> None:
    """What a person sees: the question, every answer, both epsilons, and the plain word on the browser's storage."""
    _, service = _survey(memoize(GRR(LABELS, epsilon=2), epsilon=1), tmp_path)
    with service as at:
        visit.page.goto(f"{at.url}/tasks/drinks#token=r")
        visit.page.locator("#form").wait_for()
        text = visit.page.locator("main").text_content()
        for words in (
            "What do you drink?",
            *LABELS,
            "asks for 2",
            "1 by one",
            "period (2026)",
            "clearing its storage forgets it",
        ):
            assert words in text
