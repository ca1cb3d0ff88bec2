"""The four ways in - HTTP, the SQL wire, the workbench, the command line - to one project, each as an attacker sees it.

A door answers a question by everything that is seen there but the numbers: these are noise.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from serving import Served
from sordino.cli.main import main
from sordino.core.ledger.ledger import Ledger
from sordino.core.loss import ApproxDP
from sordino.serve.server.opening import open_service
from sordino.serve.server.sql_wire.wire_server import WireServer
from visiting import Person, person_of

PROJECT = """
[budgets.data]
cap = {epsilon = 100000, delta = 0.01}
ledger = "data.ledger"

[tables.data]
source = "data.parquet"
budget = "data"
neighbors = "add_remove"
privacy_unit = "row"

[tables.data.columns]
age = {type = "integer", lower = 0, upper = 120}
pay = {type = "real", lower = 0, upper = 1000000, resolution = 1}
code = {type = "integer", lower = 0, upper = 9}
town = {type = "identifier"}
sex = {type = "category", values = ["f", "m"]}

[serve]
answer_every = "1ms"
"""
_NUMBER = re.compile(r"[+\-\N{MINUS SIGN}]?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?", re.I)
_DRAWN = ("time", "charge", "notes", "estimates")  # of a release: what holds nothing but noisy numbers
_NOISE = re.compile(r"^.*that is noise.*$", re.M)  # a note on what the noise has made of a number


@dataclass(frozen=True)
class Seen:
    """What somebody sees of a response: whether it answers, its words and columns without numbers, and the answer's numbers."""

    answered: bool
    words: str
    numbers: tuple[float, ...] = ()


class Door(Protocol):
    """A way in."""

    def ask(self, sql: str, *, epsilon: str = "10", delta: str = "", request: str = "") -> Seen:
        """Ask, and return what is seen."""

    def charges(self) -> list[Any]:
        """Return the charges of the budget, in their order."""


def strip_numbers(text: str) -> str:
    """Return a text with # for each number, and without the notes that depend on noise."""
    return _NUMBER.sub("#", _NOISE.sub("", text))


def people(**victim: Any) -> pa.Table:
    """Return sixty people, and one more with these cells, where any are given."""
    rows = range(60)
    plain: dict[str, list[Any]] = {
        "age": [20 + i for i in rows],
        "pay": [1000.0 + i for i in rows],
        "code": [str(i % 10) for i in rows],
        "town": [("oslo", "bern")[i % 2] for i in rows],
        "sex": [("f", "m")[i % 2] for i in rows],
    }
    if victim:
        plain = {name: [*cells, victim[name]] for name, cells in plain.items()}
    kinds = {"age": pa.int64(), "pay": pa.float64(), "code": pa.string(), "town": pa.string(), "sex": pa.string()}
    return pa.table({name: pa.array(cells, kinds[name]) for name, cells in plain.items()})


def write_data(directory: Path, rows: pa.Table) -> Path:
    """Write the project and its table; return the project's file."""
    directory.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, directory / "data.parquet")
    path = directory / "sordino.toml"
    path.write_text(PROJECT)
    return path


@contextmanager
def _serve(path: Path) -> Iterator[Served]:
    made = Served(open_service(path))
    made.add("ana", "analyst")
    made.add("ola", "officer")
    made.service.set_share("test", "ana", "data", lambda _: ApproxDP(90_000, delta="9e-3"))
    try:
        yield made
    finally:
        made.service.close()


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield float(value)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _floats(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _floats(one)


@dataclass
class Http:
    """JSON over HTTP."""

    served: Served

    def ask(self, sql: str, *, epsilon: str = "10", delta: str = "", request: str = "") -> Seen:
        """Post the question."""
        body = {"sql": sql, "epsilon": epsilon} | ({"delta": delta} if delta else {})
        headers: Any = {"idempotency-key": request.encode()} if request else {}
        answer = self.served.send("POST", "/v1/ask", json=body, headers=headers)
        plain = answer.json()
        rows = plain.get("rows", [])
        fixed = {name: value for name, value in plain.items() if name not in _DRAWN}
        words = strip_numbers(json.dumps([answer.status_code, fixed, sorted(answer.headers)], default=str))
        return Seen(answer.status_code == 200, f"{answer.status_code} {words}", tuple(_floats(rows)))

    def charges(self) -> list[Any]:
        """Return the charges."""
        return self.served.service.ledger("data").charges()


@dataclass
class Workbench(Http):
    """The forms of the workbench, without a script."""

    person: Person

    def ask(self, sql: str, *, epsilon: str = "10", delta: str = "", request: str = "") -> Seen:
        """Send the form, and open the page of the answer."""
        fields = {"sql": sql, "epsilon": epsilon, "delta": delta, "request_id": request}
        answer = self.person.post("/question/ask", **{name: text for name, text in fields.items() if text})
        if answer.status_code != 303:
            shown = re.sub(r'value="[0-9a-f]{20,}"', "", answer.text)
            return Seen(False, strip_numbers(f"{answer.status_code} {shown}"))
        place = answer.headers["location"]
        page, plain = self.person.get(place), json.loads(self.person.get(f"{place}/export/json").text)
        shown = re.sub(r"<(svg|figure|pre|code)\b.*?</\1>|[0-9a-f]{16,}|value=\"[^\"]*\"", "", page.text, flags=re.S)
        return Seen(True, strip_numbers(f"{page.status_code} {shown}"), tuple(_floats(plain["estimates"])))


@dataclass
class Wire:
    """A client of PostgreSQL."""

    served: Served
    port: int

    def ask(self, sql: str, *, epsilon: str = "10", delta: str = "", request: str = "") -> Seen:
        """Sign in, state the loss and ask."""
        notices: list[str] = []
        with psycopg.connect(
            host="127.0.0.1", port=self.port, user="ana", password=self.served.tokens["ana"], dbname="sordino",
            sslmode="disable", autocommit=True,
        ) as client:  # fmt: skip
            client.add_notice_handler(lambda said: notices.append(str(said.message_primary)))
            for name, value in (("epsilon", epsilon), ("delta", delta), ("request", request)):
                if value:
                    client.execute(f"SET sordino.{name} = '{value}'".encode())
            try:
                found = client.execute(sql.encode())
                rows = found.fetchall()
            except psycopg.Error as error:
                return Seen(False, strip_numbers(f"{error.sqlstate} {error}"))
            columns = [(one.name, one.type_code, one.internal_size) for one in found.description or ()]
            said = "\n".join(line for text in notices for line in text.splitlines())
            labels = [cell for row in rows for cell in row if isinstance(cell, str)]
            return Seen(True, f"{columns} {strip_numbers(said)} {len(rows)} {labels}", tuple(_floats(rows)))

    def charges(self) -> list[Any]:
        """Return the charges."""
        return self.served.service.ledger("data").charges()


@dataclass
class CommandLine:
    """The owner's command."""

    project: Path

    def ask(self, sql: str, *, epsilon: str = "10", delta: str = "", request: str = "") -> Seen:
        """Run `sordino ask`."""
        words = ["ask", sql, "--epsilon", epsilon, "--project", str(self.project), "--format", "json"]
        words += ["--delta", delta] if delta else []
        words += ["--request-id", request] if request else []
        code, out, err = run_command(words)
        plain = json.loads(out) if code == 0 else {}
        said = json.dumps({k: v for k, v in plain.items() if k not in _DRAWN}, default=str)
        shown = strip_numbers(f"{said}\n{err}".replace(str(self.project.parent), ""))
        return Seen(code == 0, f"exit {code} {shown}", tuple(_floats(plain.get("estimates", plain))))

    def charges(self) -> list[Any]:
        """Return the charges."""
        with Ledger.existing(self.project.parent / "data.ledger") as ledger:
            return ledger.charges()


def run_command(words: list[str]) -> tuple[int, str, str]:
    """Return the exit code of a command, and what it printed on either stream."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    return code, out.getvalue(), err.getvalue()


DOORS = ("HTTP", "SQL wire", "workbench", "command line")


@contextmanager
def open_door(name: str, directory: Path, rows: pa.Table) -> Iterator[Any]:
    """Give a door to a project of these rows."""
    path = write_data(directory, rows)
    if name == "command line":
        yield CommandLine(path)
        return
    with _serve(path) as made:
        if name == "HTTP":
            yield Http(made)
        elif name == "workbench":
            yield Workbench(made, person_of(made))
        else:
            with WireServer(made.service).serving(host="127.0.0.1", port=0) as server:
                yield Wire(made, server.port)
