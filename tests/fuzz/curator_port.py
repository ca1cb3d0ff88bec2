"""The curator's server under broken requests, over a real socket: its API, and every page and form of the workbench.

Who sends them is signed in, as an analyst or an officer, by a token or by a cookie with the token of its forms. Routes, and the
fields of forms, are those that the application has: a new page is fuzzed as soon as it exists.
"""

from __future__ import annotations

import html
import json
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from starlette.routing import Route

from fuzz.collector_port import HOSTILE_HEADERS, converse, http_request, parse_answers
from fuzz.mutation import bend_tree, mutate_bytes, mutate_text
from fuzz.ports import check_words, watch_log
from fuzz.surface import Surface
from serving import Served, served
from sordino.core.loss import PureDP
from sordino.serve.workbench.workbench_app import PAGE_ROUTERS, workbench_app
from visiting import listening

BODIES: Mapping[str, tuple[Any, ...]] = {
    "/v1/plan": ({"sql": "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", "epsilon": "0.001", "confidence": 0.9},),
    "/v1/ask": (
        {"sql": "SELECT AVG(age) FROM people", "epsilon": 0.000001},
        {"sql": "SELECT MEDIAN(age) FROM people WHERE sex = 'f'", "table": "people", "rho": "1/1000000"},
    ),
    "/v1/session": ({"name": "ben", "password": "not this one"},),
    "/v1/accounts": ({"name": "eva", "role": "analyst"},),
    "/v1/accounts/{name}/password": ({"new": "correct horse battery staple"},),
    "/v1/shares/{budget}/{spender}": ({"epsilon": "1.5"},),
    "/v1/tokens": ({"name": "my notebook"},),
    "/v1/approvals/{number}": ({"decision": "approve", "reason": "fine"},),
    "/v1/models/{number}/sample": ({"rows": 3},),
}
NAMES = {"budget": "people", "spender": "ben", "number": "1", "evaluation": "1", "charge": "1"}
WORDS = (
    "people",
    "age",
    "sex",
    "count",
    "0.001",
    "1",
    "f",
    "m",
    "%00",
    "%ff",
    "..",
    "/",
    "?",
    "&",
    "=",
    "ben",
    "next=//x",
)
ODD = ("x", "0", "-1", "9" * 30, "\0", "é", "..")  # as parts of an address
TEXTS = ("2", "0.000001", "people", "age", "sex", "count", "mean", "f", "60", "on", "", "SELECT COUNT(*) FROM people")


@dataclass
class Caller:
    """Someone who sends requests by a token, or as a browser does."""

    token: str
    cookie: str
    csrf: str


@dataclass(frozen=True, slots=True)
class Form:
    """State a form that a page showed: where it is sent, and its fields as they stood."""

    path: str
    fields: dict[str, str]


def find_forms(page: str) -> list[Form]:
    """Return the forms of a page that are sent by POST, with what a browser would send of them unchanged."""
    found = []
    for attributes, inner in re.findall(r"<form\b([^>]*)>(.*?)</form>", page, re.DOTALL):
        action = re.search(r'action="([^"]*)"', attributes)
        fields = {
            html.unescape(name): html.unescape((re.search(r'value="([^"]*)"', tag) or ("", ""))[1])
            for tag, name in re.findall(r'(<(?:input|select|textarea|button)\b[^>]*\bname="([^"]*)"[^>]*>)', inner)
        }
        for name, options in re.findall(r'<select\b[^>]*\bname="([^"]*)"[^>]*>(.*?)</select>', inner, re.DOTALL):
            values = re.findall(r'<option\b[^>]*value="([^"]*)"', options)
            fields[name] = html.unescape(values[0]) if values else ""
        places = [action[1]] if action else re.findall(r'formaction="([^"]*)"', inner)
        found += [Form(place, fields) for place in {*places, *re.findall(r'formaction="([^"]*)"', inner)}]
    return found


class Visitors:
    """Send requests to the port, as people who are signed in."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.callers: dict[str, Caller] = {}
        self.origin = f"http://127.0.0.1:{port}"

    def trusted(self) -> list[str]:
        """Return what tells an officer's or an auditor's request."""
        return [word for name in ("ola", "udo") for word in (self.callers[name].token, self.callers[name].cookie)]

    def send(self, line: str, body: bytes = b"", /, **headers: str) -> str:
        """Send a request, and return the whole answer."""
        sent = http_request(line, body, host=self.origin.removeprefix("http://"), **headers)
        return converse(self._port, sent)[0].decode("utf-8", "replace")


def _fill(path: str, draw: random.Random | None = None) -> str:
    """Give each part of a route's address a value that exists; with a `draw`, sometimes another."""
    known = {**NAMES, "name": "ben" if "account" in path else "people"}

    def value(match: re.Match[str]) -> str:
        name = match[1].partition(":")[0]
        return known.get(name, "people") if draw is None or draw.random() < 0.7 else quote(draw.choice(ODD))

    return re.sub(r"\{([^}]*)\}", value, path)


def _line_text(text: str) -> str:
    return text.replace(" ", "+").replace("\r", "").replace("\n", "")


class Requests:
    """Make requests: forms with broken fields, bent JSON, odd addresses and headers, or bytes of none."""

    def __init__(self, visitors: Visitors, routes: Sequence[tuple[str, str]], forms: Sequence[Form]) -> None:
        self.visitors, self.routes, self.forms = visitors, routes, forms
        self.fields = sorted({name for form in forms for name in form.fields} - {"csrf_token"})
        self.posted = [(method, path) for method, path in routes if method not in ("GET", "HEAD")]

    def make(self, draw: random.Random) -> bytes:
        """Return a request."""
        act = draw.random()
        caller = draw.choice(list(self.visitors.callers.values()))
        headers = {"host": self.visitors.origin.removeprefix("http://"), "origin": self.visitors.origin}
        if draw.random() < 0.1:
            name, value = draw.choice(HOSTILE_HEADERS)
            headers[name] = value
        if act < 0.55:
            made = self._form(draw, caller, headers)
        elif act < 0.75:
            made = self._json(draw, caller, headers)
        else:
            method, path = draw.choice(self.routes)
            address = _fill(path, draw)
            if draw.random() < 0.5:
                address = mutate_text(
                    [address + draw.choice(["", "?next=/", "?page=2", "?limit=5&after=1"])], WORDS, draw
                )
            made = http_request(f"{method} {_line_text(address)}", **(headers | self._who(draw, caller)))
        return mutate_bytes([made], draw) if act > 0.95 else made

    def _who(self, draw: random.Random, caller: Caller) -> dict[str, str]:
        if draw.random() < 0.5:
            return {"cookie": caller.cookie, "x_csrf_token": caller.csrf}
        return (
            {"authorization": f"Bearer {caller.token}"}
            if draw.random() < 0.9
            else {"cookie": "sordino_session=" + "a" * 40}
        )

    def _form(self, draw: random.Random, caller: Caller, headers: dict[str, str]) -> bytes:
        if draw.random() < 0.7:
            form = draw.choice(self.forms)
            if form.path == "/sign-out" and draw.random() < 0.9:  # all that the caller sends after it is refused
                form = draw.choice(self.forms)
            path, fields = form.path, dict(form.fields)
        else:  # any form's fields, sent to any place
            path = _fill(draw.choice(self.posted)[1], draw)
            fields = {draw.choice(self.fields): draw.choice(TEXTS) for _ in range(draw.choice([0, 1, 3, 8]))}
        for _ in range(draw.choice([0, 1, 1, 2, 4])):
            name = draw.choice([*fields, draw.choice(self.fields)])
            act = draw.random()
            if act < 0.2:
                fields.pop(name, None)
            elif act < 0.6:
                fields[name] = draw.choice(TEXTS)
            else:
                fields[name] = mutate_text([fields.get(name) or draw.choice(TEXTS)], TEXTS, draw)
        if draw.random() < 0.95:
            fields["csrf_token"] = caller.csrf
        body = urlencode(fields, errors="replace").encode()
        if draw.random() < 0.1:
            body = mutate_bytes([body], draw)
        stated = {"content_type": "application/x-www-form-urlencoded", "cookie": caller.cookie}
        return http_request(f"POST {_line_text(path)}", body, **(headers | stated))

    def _json(self, draw: random.Random, caller: Caller, headers: dict[str, str]) -> bytes:
        method, path = draw.choice([one for one in self.posted if one[1].startswith("/v1/")])
        known = BODIES.get(path, ({"table": "people", "epsilon": 0.001},))
        sent = draw.choice(known) if draw.random() < 0.2 else bend_tree(draw.choice(known), draw)
        body = json.dumps(sent).encode("utf-8", "replace")
        if draw.random() < 0.15:
            body = mutate_bytes([body], draw)
        stated = {"content_type": "application/json"} | self._who(draw, caller)
        if draw.random() < 0.3:
            stated["idempotency_key"] = draw.choice(["a", "b", "é", "k" * 300, "\0"])
        return http_request(f"{method} {_line_text(_fill(path, draw))}", body, **(headers | stated))


def _routes(app: Any) -> list[tuple[str, str]]:
    """Return method and address of every route of the API and of every page."""
    described = {(method.upper(), path) for path, ways in app.openapi()["paths"].items() for method in ways}
    routes = [one for router in PAGE_ROUTERS for one in router.routes if isinstance(one, Route)]
    pages = {(method, one.path) for one in routes for method in one.methods or ()}
    return sorted(described | pages)


def _forms(visitors: Visitors, routes: Sequence[tuple[str, str]]) -> list[Form]:
    """Ask for every page as everyone, and return the forms that were shown."""
    found: dict[tuple[str, ...], Form] = {}
    for caller in visitors.callers.values():
        for method, path in routes:
            if method == "GET" and not path.startswith("/v1/"):
                for form in find_forms(visitors.send(f"GET {_fill(path)}", cookie=caller.cookie)):
                    found[form.path, *sorted(form.fields)] = form
    return list(found.values())


def _sign_in(server: Served) -> dict[str, Caller]:
    """Give everyone a token and a session, whatever requests have done to them."""
    account_service = server.service.account_service
    found: dict[str, Caller] = {}
    for name, role in {"ana": "analyst", "ben": "analyst", "ola": "officer", "udo": "auditor"}.items():
        account = account_service.accounts.change(account_service.accounts.find(name), role=role, disabled=False)
        cookie, session = account_service.begin_session(account, by="test")
        found[name] = Caller(account_service.accounts.make_token(account, "test")[1], f"sordino={cookie}", session.csrf)
    return found


def _fit_model(server: Served) -> None:
    """Make model 1, ana's, so that there is one to ask, to evaluate and to draw from."""
    fit = {"table": "people", "epsilon": "1", "method": "marginals", "marginals": [["age", "sex"]]}
    assert server.send("POST", "/v1/models", json=fit).status_code == 201
    while (state := server.send("GET", "/v1/jobs/1").json()["state"]) == "running":
        time.sleep(0.02)
    assert state == "done"


def _statuses(answer: bytes) -> list[int]:
    found = parse_answers(answer)
    for status, body in found:
        assert status < 500 or status == 503, f"{status}: {body[:200]!r}"
    return [status for status, _ in found]


@contextmanager
def curator_port(place: Path) -> Iterator[Surface]:
    """Send requests to a curator's server: no error of its own, nothing private, no charge that was not answered for."""
    directory = place / "town"
    directory.mkdir()
    with served(directory, rows=50, cap=5000) as server, watch_log() as log:
        for name in ("ana", "ben"):
            server.service.set_share("test", name, "people", lambda _: PureDP("1000"))
        _fit_model(server)
        guard = workbench_app(server.service)
        routes = _routes(guard.app)
        with listening(guard) as url:
            port = int(url.rpartition(":")[2])
            visitors = Visitors(port)
            visitors.callers = _sign_in(server)
            requests = Requests(visitors, routes, _forms(visitors, routes))
            assert {"/question/ask", "/sign-out", "/desk/shares"} <= {form.path for form in requests.forms}
            ledger, fed = server.service.ledger("people"), [0]
            known, fitting = [ledger.spent()], [0]  # what is spent, and until which request a fit may be under way

            def read(given: bytes) -> None:
                answer, whole = converse(port, given)
                said = answer.decode("utf-8", "replace")
                trusted = any(one.encode() in given for one in visitors.trusted())
                check_words(
                    said, () if trusted else [str(directory)]
                )  # officers and auditors know where the ledger lies
                statuses = [] if given.startswith(b"HEAD") else _statuses(answer)
                assert log == [], f"an error that no client saw: {log.pop()}"
                fed[0] += 1
                if re.match(rb"[A-Z]+ \S*(model|approval)", given) or not whole:
                    fitting[0] = fed[0] + 50
                spent = ledger.spent()
                if statuses and min(statuses) >= 400 and fed[0] > fitting[0]:
                    assert spent == known[0], f"a request that was refused was charged: {statuses}"
                known[0] = spent
                if fed[0] % 25 == 0:
                    visitors.callers = _sign_in(server)

            yield Surface(read, requests.make)
