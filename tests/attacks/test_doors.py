"""Attacks through every way in: errors that one row raises, keys that one person has, replays, and texts of an attacker."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from attacks.doors import DOORS, Seen, open_door, people, run_command
from attacks.test_sql_injection import payloads, quote
from forking import Fork
from sordino.cli.main import main
from sordino.core.loss import ApproxDP

VICTIM = {"age": 77, "town": "hamlet-4711", "sex": "x-4711"}
CELLS: dict[str, dict[str, Any]] = {
    "nan": {"pay": float("nan"), "code": "abc"},
    "inf": {"pay": float("inf"), "code": "1e999"},
    "1e308": {"pay": 1e308, "code": ""},
    "-inf": {"pay": float("-inf"), "code": "NaN"},
    "missing": {"pay": None, "code": None},
}
# Some fail in an engine iff she is there, some are refused, some are answered. Each is the same response without her.
QUESTIONS = (
    "SELECT COUNT(*) AS n, SUM(code) AS s FROM data",
    "SELECT sex, SUM(pay) AS s FROM data GROUP BY sex",
    "SELECT MEDIAN(pay) AS m FROM data",
    "SELECT VAR_POP(pay) AS v FROM data",
    "SELECT COUNT(*) AS n FROM data WHERE 100 // (age - 77) > -1000",
    "SELECT SUM(CASE WHEN age = 77 THEN CAST('x' AS INTEGER) ELSE 1 END) AS s FROM data",
    "SELECT SUM(CAST(town AS INTEGER)) AS s FROM data",
    "SELECT MAX(pay) AS m FROM data",
    "SELECT COUNT(*) AS n FROM data WHERE age = (SELECT MAX(age) FROM data)",
    "SELECT COUNT(*) AS n FROM nobody",
)
TOWNS = "SELECT town, COUNT(*) AS n FROM data GROUP BY town"
COUNT = "SELECT COUNT(*) AS n FROM data"


def respond(door: str, directory: Path, **victim: Any) -> list[Any]:
    """Return all that is seen of each question without its numbers, and of the charges at the end."""
    seen: list[Any] = []
    with open_door(door, directory, people(**victim)) as opened:
        for text in QUESTIONS:
            found = opened.ask(text, epsilon="1000")  # no note on what noise has made of a number
            seen.append((text, found.answered, found.words, [(c.state, dict(c.amounts)) for c in opened.charges()]))
    return seen


@pytest.mark.deep
@pytest.mark.attack("read data from an error or a failure")
@pytest.mark.each(26)
@pytest.mark.parametrize(("cell", "door"), [(cell, door) for cell in CELLS for door in DOORS])
def test_a_hostile_row_changes_no_response_of_any_door(cell: str, door: str, tmp_path: Path) -> None:
    """Same words, same status or exit code, same columns, same charges, whether she is there or not."""
    there = respond(door, tmp_path / "a", **VICTIM, **CELLS[cell])
    without = respond(door, tmp_path / "b")
    for one, other in zip(there, without, strict=True):
        assert one == other
    assert "4711" not in str(there)
    answered = [one[1] for one in there]
    assert 3 <= sum(answered) < len(QUESTIONS), "some are answered, some refused"


@pytest.mark.deep
@pytest.mark.attack("find a person by a key or a column that only they have")
@pytest.mark.each(4)
@pytest.mark.parametrize("door", DOORS)
def test_no_door_shows_a_key_that_one_person_has(door: str, tmp_path: Path) -> None:
    """A town of one shows with chance delta = 1e-9 an answer; the columns are described alike with her and without."""
    described = []
    for place, victim in (("a", {**VICTIM, **CELLS["nan"]}), ("b", {})):
        with open_door(door, tmp_path / place, people(**victim)) as opened:
            found = [opened.ask(TOWNS, epsilon="5", delta="1e-9") for _ in range(3)]
            found += [opened.ask("SELECT sex, COUNT(*) AS n FROM data GROUP BY sex", epsilon="5")]
            assert all(one.answered for one in found)
            assert "4711" not in str(found)
            described.append([one.words for one in found])
    assert described[0] == described[1]
    assert "oslo" in str(described) or door == "workbench"


CATALOG = (
    "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'data' ORDER BY 1",
    "SELECT a.attname, a.atttypid, a.attnotnull FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid ORDER BY 1",
    "SELECT relname, reltuples FROM pg_class WHERE relname = 'data'",
    "SELECT * FROM pg_stats",
    "SHOW ALL",
)


@pytest.mark.deep
@pytest.mark.attack("find a person by a key or a column that only they have")
def test_a_catalog_of_declarations_is_the_same_without_her(tmp_path: Path) -> None:
    """Clients of SQL read types, sizes and statistics of columns; here these are declared, never counted."""
    said: list[list[Any]] = []
    for place, victim in (("a", {**VICTIM, **CELLS["1e308"]}), ("b", {})):
        with open_door("SQL wire", tmp_path / place, people(**victim)) as opened:
            said.append([])
            with psycopg.connect(
                host="127.0.0.1", port=opened.port, user="ana", password=opened.served.tokens["ana"],
                dbname="sordino", sslmode="disable", autocommit=True,
            ) as client:  # fmt: skip
                for text in CATALOG:
                    try:
                        found = client.execute(text.encode())
                        said[-1].append((found.description, found.fetchall()))
                    except psycopg.Error as error:
                        said[-1].append((error.sqlstate, str(error)))
            assert opened.charges() == []
    assert str(said[0]) == str(said[1])
    assert "hamlet" not in str(said)


@pytest.mark.deep
@pytest.mark.attack("replay a request id")
@pytest.mark.each(4)
@pytest.mark.parametrize("door", DOORS)
def test_a_replayed_request_of_any_door_is_one_charge_and_one_answer(door: str, tmp_path: Path) -> None:
    """Also eight at once; another question, or another loss, under the same id is none of both."""
    with open_door(door, tmp_path, people()) as opened:
        first = opened.ask(COUNT, epsilon="0.01", request="r1")
        assert first.answered
        for _ in range(3):
            assert opened.ask(COUNT, epsilon="0.01", request="r1").numbers == first.numbers
        assert len(opened.charges()) == 1
        for text, epsilon in (
            (COUNT, "0.02"),
            (COUNT + " WHERE age > 30", "0.01"),
            ("SELECT SUM(code) FROM data", "0.01"),
        ):
            refused = opened.ask(text, epsilon=epsilon, request="r1")
            assert not refused.answered or refused.numbers != first.numbers
            assert not refused.answered
        assert len(opened.charges()) == 1
        if door != "command line":  # which is a process of its own: the next test
            with ThreadPoolExecutor(8) as pool:
                at_once: list[Seen] = list(pool.map(partial(opened.ask, epsilon="0.01", request="r2"), [COUNT] * 8))
            assert {one.numbers for one in at_once if one.answered} == {next(o.numbers for o in at_once if o.answered)}
            assert len(opened.charges()) == 2
        assert opened.ask(COUNT, epsilon="0.01").numbers != first.numbers  # without an id: noise of its own


@pytest.mark.attack("insert SQL by a name, a text or an id")
@pytest.mark.parametrize(
    ("door", "every"), [("HTTP", 3), *(pytest.param(door, 1, marks=pytest.mark.deep) for door in DOORS)]
)
def test_no_text_of_any_door_is_run(door: str, every: int, tmp_path: Path) -> None:
    """Literals, aliases, whole questions, losses and request ids: answered as what they are, or refused in a line."""
    trap = tmp_path / "trap.csv"
    with open_door(door, tmp_path / "p", people()) as opened:
        for number, text in enumerate(payloads(trap)[::every]):
            literal = opened.ask(f"{COUNT} WHERE town = {quote(text, chr(39))}", epsilon="1")
            assert literal.answered or "`" in text
            opened.ask(f"SELECT COUNT(*) AS {quote(text)} FROM data", epsilon="1")
            before = len(opened.charges())
            assert not opened.ask(text, epsilon="1").answered
            with contextlib.suppress(psycopg.Error):  # a SET that is none
                assert not opened.ask(COUNT, epsilon=text).answered
            assert len(opened.charges()) == before
            with contextlib.suppress(psycopg.Error):
                opened.ask(COUNT, epsilon="1", request=text)
            assert not trap.exists(), number
        last = opened.ask(COUNT, epsilon="1000")
        assert abs(last.numbers[0] - 60) <= 1 or door in ("workbench", "command line")  # whose first numbers are steps
        assert sum(1 for c in opened.charges() if c.amounts["epsilon"] == 1000) == 1


@pytest.mark.attack("insert SQL by a name, a text or an id")
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.deep)])
def test_names_tokens_headers_and_addresses_of_http_are_texts(every: int, tmp_path: Path) -> None:
    trap = tmp_path / "trap.csv"
    with open_door("HTTP", tmp_path / "p", people()) as opened:
        served, names = opened.served, {"ana", "ola"}
        for text in payloads(trap)[::every]:
            plain = text.encode("ascii", "replace").decode().replace("\n", " ")
            made = served.send("POST", "/v1/accounts", who="ola", json={"name": text, "role": "analyst"})
            assert made.status_code in (200, 201, 400, 422)
            names |= {text} if made.status_code < 300 else set()
            body = {"sql": COUNT, "epsilon": "0.01"}
            answers = [
                served.send("GET", "/v1/me", who=None, headers={"authorization": f"Bearer {plain}"}),
                served.send("GET", "/v1/me", who=None, headers={"authorization": f"Basic {plain}"}),
                served.send("POST", "/v1/session", who=None, json={"name": text, "password": text}),
                served.send("GET", "/v1/releases", params={"budget": text, "table": text, "limit": text, text: text}),
                served.send("GET", f"/v1/releases/{plain.replace('/', '|').replace('?', '')}"),
                served.send("POST", "/v1/tokens", json={"name": text}),
                served.send("PUT", "/v1/shares/data/ana", who="ola", json={"epsilon": text}),
                served.send("GET", "/v1/me", headers={"x-forwarded-for": plain, "user-agent": plain, "cookie": plain}),
                *(
                    served.send("POST", "/v1/ask", json=body | {name: text})
                    for name in ("table", "dialect", "share", "on")
                ),
                served.send("POST", "/v1/ask", json=body | {"weights": {text: 1}}),
                served.send("POST", "/v1/plan", json={"sql": TOWNS, "epsilon": 1, "keys": [[text], ["oslo"]]}),
            ]
            assert all(answer.status_code < 500 for answer in answers), [a.status_code for a in answers]
        accounts = served.service.account_service.accounts
        assert {one.name for one in accounts.all()} == names
        assert not trap.exists()
        assert opened.ask(COUNT, epsilon="1000").answered
        assert served.service.ledger("data").verify()


@pytest.mark.attack("insert SQL by a name, a text or an id")
@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.deep)])
def test_names_and_settings_of_a_sql_client_are_texts(every: int, tmp_path: Path) -> None:
    """Users, databases, applications, options, statements, cursors and parameters."""
    trap = tmp_path / "trap.csv"
    with open_door("SQL wire", tmp_path / "p", people()) as opened:
        to: dict[str, Any] = {"host": "127.0.0.1", "port": opened.port, "sslmode": "disable", "autocommit": True}
        token = opened.served.tokens["ana"]
        for text in payloads(trap)[::every]:
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(**to, user=text, password=token, dbname="sordino")
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(**to, user="ana", password=text, dbname="sordino")
            with psycopg.connect(**to, user="ana", password=token, dbname=text, application_name=text) as client:
                client.execute("SET sordino.epsilon = 0.01")
                found = client.execute("SELECT COUNT(*) FROM data WHERE town = %s", [text]).fetchone()
                assert found is not None
                with contextlib.suppress(psycopg.Error):
                    client.execute(f"SET sordino.request = {quote(text, chr(39))}".encode())
                    client.execute(COUNT.encode())
                for statement in (
                    "DECLARE {} CURSOR WITH HOLD FOR " + COUNT,
                    "FETCH ALL FROM {}",
                    "CLOSE {}",
                    "SHOW {}",
                ):
                    with contextlib.suppress(psycopg.Error):
                        client.execute(statement.format(quote(text)).encode())
        assert not trap.exists()
        assert abs(opened.ask(COUNT, epsilon="1000").numbers[0] - 60) <= 1
        assert opened.served.service.ledger("data").verify()


@pytest.mark.deep
@pytest.mark.attack("average many answers to one question")
@pytest.mark.each(2)
@pytest.mark.parametrize("door", ["HTTP", "SQL wire"])
def test_averaging_ends_at_the_cap_of_any_door(door: str, tmp_path: Path) -> None:
    """Twenty answers at 1/20 of a share are all that there are; their mean errs as it must, by 6.3 in standard deviation."""
    with open_door(door, tmp_path, people()) as opened:
        opened.served.service.set_share("test", "ana", "data", lambda _: ApproxDP(1, delta=0))
        found = [opened.ask(COUNT, epsilon="0.05") for _ in range(30)]
        answers = [one.numbers[0] for one in found if one.answered]
        assert [one.answered for one in found] == [True] * 20 + [False] * 10
        assert len(opened.charges()) == 20
        assert len(set(answers)) > 5
        assert len({one.words for one in found[20:]}) == 1
        assert not opened.ask(COUNT + " WHERE age >= 0", epsilon="0.05").answered  # the same count in other words


@pytest.mark.attack("replay a request id")
@pytest.mark.parametrize("processes", [2, pytest.param(6, marks=pytest.mark.deep)])
def test_commands_at_once_with_one_request_id_are_one_charge_and_one_answer(tmp_path: Path, processes: int) -> None:
    """Each is told the stored answer, or that the charge of this id has none yet; the deep test types the commands."""
    with open_door("command line", tmp_path, people()) as opened:
        words = ["ask", COUNT, "--epsilon", "0.01", "--project", str(opened.project), "--format", "json"]
        words_of_one = [*words, "--request-id", "r1"]
        if processes == 2:
            forks = [Fork(lambda: main(words_of_one)) for _ in range(processes)]
            said = [fork.communicate() for fork in forks]
        else:
            command = [sys.executable, "-m", "sordino", *words_of_one]
            runs = [
                subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                for _ in range(processes)
            ]
            said = [(*one.communicate(), one.returncode) for one in runs]
        answers = {json.dumps(json.loads(out)["estimates"]) for out, _, code in said if code == 0}
        assert len(answers) == 1
        assert all("being answered now" in err and (out, code) == ("", 5) for out, err, code in said if code)
        assert len(opened.charges()) == 1
        assert json.dumps(json.loads(run_command(words_of_one)[1])["estimates"]) in answers
