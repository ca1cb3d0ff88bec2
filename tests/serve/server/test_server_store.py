"""The server's store: SQLite or PostgreSQL, migrations, an audit log that nobody edits, and what it never holds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from postgres_server import Server as PostgresServer
from serving import Served, served
from sordino.errors import DeclarationError
from sordino.serve.server.account_schema import MIGRATIONS
from sordino.serve.server.accounts import Accounts
from sordino.serve.server.database import ServerDatabase, StoreUnusable
from sordino.serve.server.locks import SharedWrites
from sordino.serve.server.model_service import ModelService
from sordino.serve.server.opening import open_service


def test_the_audit_log_says_who_did_what_and_holds_no_secret(server: Served) -> None:
    answer = server.ask(key="k")
    server.ask(epsilon="9")
    server.send("PUT", "/v1/shares/people/ben", who="ola", json={"epsilon": "3"})
    made = server.send("POST", "/v1/tokens", json={"name": "notebook"}).json()
    lines = server.send("GET", "/v1/audit", who="udo").json()["lines"]
    said = [(line["account"], line["action"], line["outcome"]) for line in lines[-4:]]
    assert said == [
        ("ana", "question.ask", answer.json()["charge"]),
        ("ana", "question.ask", "BudgetExhausted"),
        ("ola", "share.change", "done"),
        ("ana", "token.make", "done"),
    ]
    for secret in (made["secret"], server.tokens["ana"], f'"n": {answer.json()["rows"][0]["n"]}'):
        assert secret not in str(lines)
    after = server.send("GET", f"/v1/audit?after={lines[-2]['id']}", who="udo").json()["lines"]
    assert after == lines[-1:]


def test_nobody_edits_the_audit_log(server: Served) -> None:
    for statement in ("DELETE FROM audit", "UPDATE audit SET account = 'nobody'"):
        with pytest.raises(DBAPIError), server.service.store._engine.begin() as db:
            db.execute(text(statement))


def test_a_store_of_a_newer_version_or_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    ServerDatabase.open(str(path)).close()
    opened = ServerDatabase.open(str(path))
    with opened.transact() as db:
        db.execute(text("UPDATE settings SET value = '99' WHERE name = 'version'"))
    opened.close()
    with pytest.raises(DeclarationError, match="version 99"):
        ServerDatabase.open(str(path))
    other = ServerDatabase.open(str(tmp_path / "o.db"))
    with other.transact() as db:
        db.execute(text("ALTER TABLE settings RENAME TO things"))
    with pytest.raises(DeclarationError, match="another program"):
        ServerDatabase.open(str(tmp_path / "o.db"))


def test_a_store_of_this_version_is_migrated_and_keeps_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path) as server:
        before = [account.to_dict() for account in server.service.account_service.accounts.all()]
        token = server.tokens["ana"]
    later = (*MIGRATIONS, lambda db: db.execute(text("ALTER TABLE accounts ADD COLUMN note TEXT")))
    monkeypatch.setattr("sordino.serve.server.database.MIGRATIONS", later)
    for _ in range(2):  # the second time there is nothing to do
        store = ServerDatabase.open(str(tmp_path / "sordino-server.db"))
        assert [account.to_dict() for account in Accounts(store).all()] == before
        assert Accounts(store).visitor_of_token(token).name == "ana"
        store.close()


def test_a_store_is_for_its_own_user(tmp_path: Path) -> None:
    ServerDatabase.open(str(tmp_path / "s.db")).close()
    assert (tmp_path / "s.db").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("url", ["postgresql://u:secret@h/d", "mysql://h/d", "/nowhere/at/all.db"])
def test_an_address_that_cannot_be_a_store_is_refused(url: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        ServerDatabase.open(url)
    assert "secret" not in str(refused.value)


def test_two_processes_share_a_store_on_postgresql(tmp_path: Path, postgres_database: str) -> None:
    with served(tmp_path, serve=f'store = "{postgres_database}"\napprove_above = {{epsilon = 0.5}}') as server:
        waiting = server.ask(epsilon="0.6", key="k").json()
        other = Served(open_service(tmp_path / "sordino.toml"), server.tokens)
        decided = other.send("POST", f"/v1/approvals/{waiting['approval']}", who="ola", json={"decision": "approved"})
        assert decided.status_code == 200
        answer = server.ask(epsilon="0.6", key="k")
        assert answer.status_code == 200
        assert other.ask(epsilon="0.6", key="k").json() == answer.json()
        for statement in ("DELETE FROM audit", "UPDATE audit SET account = 'nobody'"):
            with pytest.raises(DBAPIError), server.service.store._engine.begin() as db:
                db.execute(text(statement))
        other.service.close()


def test_a_database_server_that_restarts_costs_nothing(
    tmp_path: Path, postgres_server: PostgresServer, postgres_database: str
) -> None:
    with served(tmp_path, serve=f'store = "{postgres_database}"') as server:
        assert server.ask(key="k").status_code == 200
        postgres_server.stop()
        try:
            gone = [server.ask(key="l"), server.send("GET", "/readyz", who=None)]
            assert [answer.status_code for answer in gone] == [503, 503]
            assert all(postgres_database not in answer.text for answer in gone)
            assert server.send("GET", "/healthz", who=None).status_code == 200
        finally:
            postgres_server.start()
        assert server.ask(key="l").json()["charge"] == "c-0002"


def test_a_store_that_is_gone_by_then_withholds_no_answer(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> None:
        raise StoreUnusable

    monkeypatch.setattr(SharedWrites, "write", gone)
    answer = server.ask()
    assert (answer.status_code, answer.json()["charge"]) == (200, "c-0001")
    assert (
        server.send("POST", "/v1/tokens", json={"name": "t"}).status_code == 503
    )  # what is on no other record is refused


def test_a_model_that_cannot_be_kept_says_that_the_charge_stands(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> int:
        raise StoreUnusable

    monkeypatch.setattr(ModelService, "_keep", gone)
    fit = {"table": "people", "method": "independent", "epsilon": "0.1"}
    job = server.send("POST", "/v1/models", json=fit).json()["id"]
    found = server.send("GET", f"/v1/jobs/{job}").json()
    while found["state"] == "running":
        time.sleep(0.02)
        found = server.send("GET", f"/v1/jobs/{job}").json()
    assert (found["state"], found["problem"]["exit_code"], found["problem"]["charge"]) == ("failed", 5, "c-0001")
