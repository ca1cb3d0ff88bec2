"""Sessions: signed strict cookies, CSRF, fixation, replay after the end, throttled guesses, no enumeration of accounts."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import VerifyMismatchError

from serving import Served, served
from sordino.serve.server.accounts import hash_of_nobody

PASSWORD = "correct horse battery"
JSON = {"content-type": "application/json"}


@pytest.fixture
def people(server: Served) -> Served:
    for name in ("ana", "ola"):
        server.service.account_service.accounts.set_password(
            server.service.account_service.accounts.find(name), PASSWORD
        )
    return server


def sign_in(server: Served, name: str = "ana", password: str = PASSWORD, **headers: str) -> httpx.Response:
    body = {"name": name, "password": password}
    return server.send("POST", "/v1/session", who=None, headers=headers, json=body)


def cookie_of(answer: httpx.Response) -> dict[str, str]:
    return {"cookie": answer.headers["set-cookie"].split(";")[0]}


def test_a_session_asks_with_its_cookie_and_its_token(people: Served) -> None:
    begun = sign_in(people)
    attributes = begun.headers["set-cookie"].lower()
    assert begun.status_code == 200
    assert "httponly" in attributes
    assert "samesite=strict" in attributes
    cookie, csrf = cookie_of(begun), {"x-csrf-token": begun.json()["csrf"]}
    assert people.send("GET", "/v1/me", who=None, headers=cookie).json()["name"] == "ana"
    body = {"sql": "SELECT COUNT(*) AS n FROM people", "epsilon": "0.1"}
    assert people.send("POST", "/v1/ask", who=None, headers=cookie, json=body).status_code == 403
    assert (
        people.send("POST", "/v1/ask", who=None, headers=cookie | {"x-csrf-token": "0" * 64}, json=body).status_code
        == 403
    )
    assert people.send("POST", "/v1/ask", who=None, headers=cookie | csrf, json=body).status_code == 200
    foreign = cookie | csrf | {"origin": "https://evil.example"}
    assert people.send("POST", "/v1/ask", who=None, headers=foreign, json=body).status_code == 403
    fetched = cookie | csrf | {"sec-fetch-site": "cross-site"}
    assert people.send("POST", "/v1/ask", who=None, headers=fetched, json=body).status_code == 403


def test_over_tls_the_cookie_is_of_this_host_alone(tmp_path: Path) -> None:
    with served(tmp_path, serve='origin = "https://curator.example"') as server:
        server.service.account_service.accounts.set_password(
            server.service.account_service.accounts.find("ana"), PASSWORD
        )
        begun = sign_in(server, origin="https://curator.example")
        assert begun.headers["set-cookie"].startswith("__Host-sordino=")
        assert "; Secure" in begun.headers["set-cookie"]
        assert "max-age" in begun.headers["strict-transport-security"]
        assert sign_in(server, origin="http://curator.example").status_code == 403


def test_a_session_ends_for_good(people: Served) -> None:
    begun = sign_in(people)
    cookie, csrf = cookie_of(begun), {"x-csrf-token": begun.json()["csrf"]}
    assert people.send("DELETE", "/v1/session", who=None, headers=cookie | csrf).status_code == 200
    assert people.send("GET", "/v1/me", who=None, headers=cookie).status_code == 401


def test_sessions_end_with_the_password_the_role_and_the_account(people: Served) -> None:
    account_service = people.service.account_service
    officer = account_service.enter(people.tokens["ola"])
    for change in (
        lambda: account_service.change_password(officer, "ana", PASSWORD),
        lambda: account_service.change_account(officer, "ana", role="auditor"),
        lambda: account_service.change_account(officer, "ana", role="analyst"),
        lambda: account_service.change_account(officer, "ana", disabled=True),
    ):
        cookie = cookie_of(sign_in(people))
        assert people.send("GET", "/v1/me", who=None, headers=cookie).status_code == 200
        change()
        assert people.send("GET", "/v1/me", who=None, headers=cookie).status_code == 401
    assert people.send("GET", "/v1/me", who="ana").status_code == 401  # the tokens of a disabled account too


def test_no_session_is_taken_over_from_the_browser(people: Served) -> None:
    brought = {"cookie": "sordino=sordino_session_mine.0000"}
    assert people.send("GET", "/v1/me", who=None, headers=brought).status_code == 401
    first = cookie_of(sign_in(people, **brought))
    second = cookie_of(sign_in(people, **first))
    assert first != second != brought
    for part in (first["cookie"][:-1], first["cookie"].rpartition(".")[0], first["cookie"] + "0"):
        assert people.send("GET", "/v1/me", who=None, headers={"cookie": part}).status_code == 401


def test_a_session_is_over_after_its_hours(people: Served) -> None:
    cookie = cookie_of(sign_in(people))
    later = people.service.store.clock() + datetime.timedelta(hours=13)
    people.service.store.clock = lambda: later
    assert people.send("GET", "/v1/me", who=None, headers=cookie).status_code == 401


def test_nobody_learns_which_accounts_there_are(people: Served) -> None:
    known, unknown = sign_in(people, "ana", "wrong password"), sign_in(people, "nobody", "wrong password")
    without = sign_in(people, "ben", "wrong password")  # it has no password
    assert known.status_code == unknown.status_code == without.status_code == 401
    assert known.content == unknown.content == without.content


def test_every_try_at_a_password_takes_the_same_work(people: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """One hash of the same cost, whether there is such an account, with a password or not, disabled or not."""
    verify, costs = PasswordHasher.verify, list[str]()

    def count(hasher: PasswordHasher, stored: Any, password: Any) -> Any:
        costs.append(str(stored).split("$")[3])
        return verify(hasher, stored, password)

    monkeypatch.setattr(PasswordHasher, "verify", count)
    accounts = people.service.account_service.accounts
    accounts.change(accounts.find("udo"), disabled=True)
    for name in ("ana", "nobody", "ben", "udo", "'; --", "x" * 500):
        assert sign_in(people, name, "wrong password").status_code == 401
    assert len(costs) == 6
    assert len(set(costs)) == 1


QUICK = {"time_cost": 1, "memory_cost": 8, "parallelism": 1}


@pytest.mark.parametrize(
    "costs", [pytest.param({}, marks=pytest.mark.deep), QUICK, {**QUICK, "time_cost": 2, "type": Type.I}]
)
def test_the_hash_of_nobody_costs_what_any_other_does_and_fits_no_password(costs: dict[str, Any]) -> None:
    hasher = PasswordHasher(**costs)
    made = hash_of_nobody(hasher)
    assert extract_parameters(made) == extract_parameters(hasher.hash("a password"))
    assert len(made) == len(hasher.hash("a password"))
    assert made != hash_of_nobody(hasher)
    # a hash that cannot be read would be refused at once, without the work
    with pytest.raises(VerifyMismatchError):
        hasher.verify(made, "a password")


def test_guesses_are_throttled(people: Served) -> None:
    found = [sign_in(people, "ana", f"wrong password {i}").status_code for i in range(12)]
    assert found == [401] * 10 + [429] * 2
    late = sign_in(people)
    assert (late.status_code, int(late.headers["retry-after"]) > 0) == (429, True)
    assert sign_in(people, "ola").status_code == 200  # others are not locked out
    bad = [
        people.send("GET", "/v1/me", who=None, headers={"authorization": f"Bearer sordino_token_{i}"}).status_code
        for i in range(60)
    ]
    assert bad[:30] == [401] * 30
    assert 429 in bad[30:]
    assert people.send("GET", "/v1/me").status_code == 200


def test_a_form_of_another_site_cannot_sign_anyone_in(people: Served) -> None:
    body = b'{"name": "ana", "password": "correct horse battery"}'
    plain = people.send("POST", "/v1/session", who=None, content=body, headers={"content-type": "text/plain"})
    foreign = people.send(
        "POST", "/v1/session", who=None, content=body, headers=JSON | {"origin": "https://evil.example"}
    )
    assert plain.status_code == foreign.status_code == 403
    assert "set-cookie" not in {*plain.headers, *foreign.headers}


def test_secrets_are_stored_as_hashes(people: Served, tmp_path: Path) -> None:
    cookie = cookie_of(sign_in(people))["cookie"]
    people.service.store.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("sordino-server.db*"))
    assert b"ana" in stored
    assert b"$argon2id$" in stored
    for secret in (PASSWORD, cookie.partition("=")[2].partition(".")[0], people.tokens["ana"]):
        assert secret.encode() not in stored
