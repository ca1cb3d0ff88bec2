"""A password that opens a PostgreSQL server, wherever it stands, is in nothing that Sordino writes, prints or raises."""

from __future__ import annotations

import logging
import subprocess
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import postgres_server as postgres
import sordino as sd
from protecting import protect
from sordino.cli.main import main
from sordino.errors import SordinoError

PASSWORD, WRONG = "Kq7-sehr-geheim-x81", "Zt4-ganz-falsch-y92"
DOMAIN = sd.Domain({"age": sd.Integer(0, 125)})
PROJECT = """
[budgets.all]
cap = {epsilon = 10}
ledger = "LEDGER"

[tables.people]
source = "SOURCE"
relation = "people"
budget = "all"
neighbors = "add_remove"
privacy_unit = "row"

[tables.people.columns]
age = {type = "integer", lower = 0, upper = 125}
"""


@pytest.fixture(scope="module")
def guarded(postgres_server: postgres.Server) -> Iterator[str]:
    """The address of a database that asks its user `keeper` for a password."""
    postgres_server.execute(
        f"CREATE ROLE keeper LOGIN PASSWORD '{PASSWORD}'", "CREATE DATABASE vault TEMPLATE template0 ENCODING 'UTF8'"
    )
    postgres_server.execute(
        "CREATE TABLE people AS SELECT i % 90 AS age FROM generate_series(1, 1000) AS numbers(i)",
        "GRANT SELECT ON people TO keeper",
        "GRANT CREATE ON DATABASE vault TO keeper",
        database="vault",
    )
    rules = Path(postgres_server.control[postgres_server.control.index("-D") + 1]) / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"host all keeper 127.0.0.1/32 scram-sha-256\n{before}")
    postgres_server.execute("SELECT pg_reload_conf()")
    yield postgres_server.url.replace("sordino@", "keeper@") + "/vault"
    rules.write_text(before)
    postgres_server.execute("SELECT pg_reload_conf()")


def give(how: str, password: str, address: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Leave the password where libpq finds it; return the source's address."""
    host, port = address.partition("@")[2].partition("/")[0].split(":")
    for name in ("PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    if how == "environment":
        monkeypatch.setenv("PGPASSWORD", password)
    elif how == ".pgpass":
        (home / ".pgpass").write_text(f"{host}:{port}:*:keeper:{password}\n")
        (home / ".pgpass").chmod(0o600)
        monkeypatch.setenv("PGPASSFILE", str(home / ".pgpass"))
    else:
        lines = {"host": host, "port": port, "dbname": "vault", "user": "keeper", "password": password}
        (home / "services").write_text("[vault]\n" + "".join(f"{k}={v}\n" for k, v in lines.items()))
        monkeypatch.setenv("PGSERVICEFILE", str(home / "services"))
        return "postgresql:///?service=vault"
    return address


def shown(error: BaseException) -> str:
    """Return all that an error shows: itself, its causes, and the frames with what their variables hold."""
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [f for f in told.stack if "sordino" in f.filename and f.filename != __file__]
    held = [str(f.locals) for f in frames]
    return "".join([*traceback.format_exception(error), repr(error), *held])


def outcome(words: list[str]) -> str:
    """Return how a command that fails ends: its code, or all that its error shows."""
    try:
        code = main(words)
    except SordinoError as error:
        return shown(error)
    return str(code)


@pytest.mark.deep
@pytest.mark.parametrize("how", ["environment", ".pgpass", "service file"])
def test_a_password_is_in_nothing_that_is_written_or_raised(
    how: str,
    guarded: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    source = give(how, PASSWORD, guarded, tmp_path, monkeypatch)
    ledger = f"{source}#l{how[0] if how[0].isalpha() else 'p'}" if how != "service file" else str(tmp_path / "a.ledger")
    (tmp_path / "sordino.toml").write_text(PROJECT.replace("SOURCE", source).replace("LEDGER", ledger))
    monkeypatch.chdir(tmp_path)
    seen: list[Any] = []
    for words in (
        ["init", source, "--relation", "people", "-o", "proposed.toml"],
        ["check"],
        ["check", "--against-data"],
        ["ask", "SELECT COUNT(*) FROM people", "--epsilon", "1"],
        ["synth", "fit", "--epsilon", "1", "-o", "people.model"],
        ["ledger", "verify"],
        ["ledger", "export", "-o", "chain.jsonl"],
        ["report", "-o", "board.html"],
        ["budget"],
    ):
        assert main(words) == 0, words
    connection = sd.connect()
    people = connection.table("people")
    release = people.ask(sd.count(), epsilon=1)
    seen += [repr(connection), repr(people), repr(people._engine), release.to_json(), people.ledger.verify().describe()]
    seen += [str(people.ledger.declarations()), *map(str, people.ledger.entries())]
    with pytest.raises(SordinoError) as failed:
        protect(source, sd.Domain({"missing": sd.Integer(0, 1)}), relation="people")
    seen.append(shown(failed.value))
    people.close()

    give(how, WRONG, guarded, tmp_path, monkeypatch)
    for words in (["check"], ["ask", "SELECT COUNT(*) FROM people", "--epsilon", "1"]):
        assert main(words) != 0
    for attempt in (
        lambda: protect(source, DOMAIN, relation="people"),
        lambda: sd.Ledger.open(f"{source}#other", cap=sd.PureDP(1)),
        lambda: people.ask(sd.count(), epsilon=1),
    ):
        with pytest.raises(SordinoError, match=r"the server refused the password|refuses this user") as failed:
            attempt()
        seen.append(shown(failed.value))
    said = capfd.readouterr()
    seen += [said.out, said.err, caplog.text, *(record.getMessage() for record in caplog.records)]
    private = {tmp_path / ".pgpass", tmp_path / "services"}
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path not in private]
    assert len(files) >= 5
    seen += [path.read_bytes().decode("latin-1") for path in files]
    for text in map(str, seen):
        assert PASSWORD not in text
        assert WRONG not in text


def test_a_command_that_fails_shows_no_password(
    guarded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the debug switch too, which prints a traceback."""
    source = give("environment", WRONG, guarded, tmp_path, monkeypatch)
    (tmp_path / "sordino.toml").write_text(PROJECT.replace("SOURCE", source).replace("LEDGER", "a.ledger"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORDINO_DEBUG", "1")
    for words in (["check"], ["ask", "SELECT COUNT(*) FROM people", "--epsilon", "1"]):
        assert WRONG not in outcome(words)
    told = capfd.readouterr()
    assert told.out + told.err
    assert WRONG not in told.out + told.err
    assert subprocess.run(["grep", "-r", WRONG, str(tmp_path)], capture_output=True, check=False).returncode == 1
