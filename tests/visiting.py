"""What tests of the workbench share: a served project with pages, and a person who is signed in over HTTP."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn

from ports import free_port
from serving import Served
from sordino.serve.workbench.workbench_app import workbench_app

PASSWORD = "correct horse battery"


@dataclass
class Person:
    """Someone in a browser without a script: a cookie, and the token of the forms that were shown."""

    server: Served
    cookie: str
    _token: str = ""

    def get(self, path: str) -> httpx.Response:
        return self.server.send("GET", path, who=None, headers={"cookie": self.cookie})

    def post(
        self, path: str, *, token: str | None = None, origin: str = "http://test", **fields: str
    ) -> httpx.Response:
        """Send a form as the page at / would, or with another token or origin."""
        given = self.token() if token is None else token
        return self.send_form(path, {**fields, "csrf_token": given}, origin=origin)

    def send_form(self, path: str, form: Mapping[str, str], *, origin: str = "http://test") -> httpx.Response:
        headers = {"cookie": self.cookie, "origin": origin}
        return self.server.send("POST", path, who=None, headers=headers, data=dict(form))

    def token(self) -> str:
        """Return the token of the forms of this session, as the first page shows it: it is the same to its end."""
        if not self._token:
            found = re.search(r'name="csrf_token" value="([0-9a-f]+)"', self.get("/").text)
            assert found is not None
            self._token = found[1]
        return self._token


def person_of(server: Served, name: str = "ana") -> Person:
    """Sign in by the form."""
    account_service = server.service.account_service
    account_service.accounts.set_password(account_service.accounts.find(name), PASSWORD)
    server.app = workbench_app(server.service)
    body = {"name": name, "password": PASSWORD}
    answer = server.send("POST", "/sign-in", who=None, headers={"origin": "http://test"}, data=body)
    assert answer.status_code == 303, answer.text
    return Person(server, answer.headers["set-cookie"].split(";")[0])


def wait_for(person: Person, job: str) -> None:
    """Look at the page of a job until it is done."""
    for _ in range(1000):
        found = person.get(job).text
        if "data-done" in found:
            break
        time.sleep(0.02)
    assert "<strong>done</strong>" in found, found


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """Serve an application to a real browser, and give its address."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
