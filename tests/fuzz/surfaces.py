"""The readers of what others write, each with sound inputs to begin from and a way to break them."""

from __future__ import annotations

import base64
import datetime
import hashlib
import io
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sordino as sd
from collecting import KEY, task_of
from fuzz.collector_port import collector_port
from fuzz.curator_port import curator_port
from fuzz.mutation import bend_tree, mutate_bytes, mutate_text
from fuzz.sql_ports import sql_session, sql_start
from fuzz.surface import CANARY, Surface
from protecting import protect
from serving import served
from sordino.ask.curator.plan import DataAccess
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.project.load import check_file, load_project
from sordino.ask.queries.build import Selection
from sordino.ask.queries.question_records import question_from_json, question_to_json
from sordino.ask.queries.sql import grammar
from sordino.core.noise.rng import Rng
from sordino.core.release import Release
from sordino.core.source import source_from
from sordino.errors import SordinoError
from sordino.local.protocols.response import GRR
from sordino.local.reports import Reports
from sordino.local.task import read_task
from sordino.serve.server.sql_wire import wire_frames as wire
from sordino.serve.server.sql_wire.sqlstates import WireError
from sordino.serve.server.sql_wire.wire_cursors import read_copy, read_declare, read_fetch
from sordino.serve.server.sql_wire.wire_statements import split_statements
from sordino.serve.server.sql_wire.wire_values import literal_of

WORDS = re.findall(
    r"\S+",
    """SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT COUNT SUM AVG MIN MAX MEDIAN MODE STDDEV CASE WHEN THEN ELSE END CAST AS
    INTEGER DATE BETWEEN IN LIKE NOT AND OR IS NULL DISTINCT JOIN ON WITH UNION OVER EXTRACT INTERVAL ROUND COALESCE EXISTS
    FILTER people jobs age pay job town member joined tags id * ( ) , . ' " = < > + - / % || :: [ ] ; 1 0 2.5 1e9""",
)


def _people() -> pa.Table:
    size = 60
    return pa.table(
        {
            "id": [i % 20 for i in range(size)],
            "age": [i % 90 for i in range(size)],
            "pay": [i * 1.5 for i in range(size)],
            "job": [("cook", "clerk", CANARY)[i % 3] for i in range(size)],
            "town": [CANARY + str(i) for i in range(size)],
            "member": [i % 2 == 0 for i in range(size)],
            "joined": [datetime.date(2020, 1, 1 + i % 28) for i in range(size)],
            "tags": [["a", CANARY] for _ in range(size)],
        }
    )


def make_curator() -> sd.Curator:
    """Protect sixty people in memory, with every kind of column and a canary in the cells."""
    domain = sd.Domain(
        {
            "age": sd.Integer(0, 99),
            "pay": sd.Real(0, 100, resolution="0.5"),
            "job": sd.Category(["cook", "clerk"]),
            "town": sd.Identifier(),
            "member": sd.Boolean(),
            "joined": sd.Date("2020-01-01", "2020-12-31"),
        }
    )
    return protect(_people(), domain, name="people")


@contextmanager
def sql(_: Path) -> Iterator[Surface]:
    """Plan SQL, and ask every tenth question that can be planned; what is refused charges nothing."""
    curator = make_curator()
    corpus = re.findall(r"^\|[^|]*\| `+ ?((?:SELECT|WITH) .*?) ?`+ \|", grammar.page(), re.MULTILINE)
    assert len(corpus) > 15
    asked = [0]

    def read(text: str) -> None:
        before = curator.remaining
        try:
            plan = curator.plan(sd.sql(text), epsilon=1)
            asked[0] += 1
            if asked[0] % 10 == 0:
                curator.ask(sd.sql(text), epsilon=1)
                before = curator.remaining
            str(plan)
        finally:
            assert curator.remaining == before, "a question that was only planned, or refused, was charged"

    yield Surface(read, lambda draw: mutate_text(corpus, WORDS, draw), (corpus[0],))


PROJECT = """# what people of the town told
[budgets.people]
cap = {epsilon = 1.5, delta = 1e-9}
ledger = "people.ledger"

[budgets.people.shares]
research = {epsilon = 0.5, delta = 1e-10}

[tables.people]
source = "people.parquet"
budget = "people"
neighbors = "add_remove"
privacy_unit = {column = "id", max_rows = 5}
row_ceiling = 1000

[tables.people.columns]
id = {type = "identifier"}
age = {type = "integer", lower = 0, upper = 99}
sex = {type = "category", values = ["f", "m"], missing = "keep"}

[tables.visits]
source = "postgresql://SERVER/town"
relation = "public.visits"
budget = "people"
neighbors = "add_remove"
privacy_unit = {column = "id", max_rows = 2}

[tables.visits.columns]
id = {type = "identifier"}
at = {type = "date", lower = 2020-01-01, upper = 2020-12-31}
pay = {type = "real", lower = 0, upper = 1e3, resolution = 0.01}
"""


@contextmanager
def project(place: Path) -> Iterator[Surface]:
    """Read project files; one without a problem opens, and says the same twice."""
    pq.write_table(_people(), place / "people.parquet")
    (place / ".pgpass").write_text(f"*:*:*:*:{CANARY}\n")
    path = place / "sordino.toml"
    words = [
        *re.findall(r"\w+|[=\[\]{}.\"]", PROJECT),
        "csv",
        "header",
        "public",
        "1e999999999",
        "1e-999999999",
        "9999",
    ]

    def read(text: str) -> None:
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        found = check_file(path)
        assert not [one for one in found if CANARY in str(one)], "a secret in a diagnostic"
        assert found == check_file(path)
        if found:
            try:
                load_project(path)
            except SordinoError:
                return
            raise AssertionError("a file with problems opens")
        assert load_project(path) == load_project(path)

    yield Surface(read, lambda draw: mutate_text([PROJECT], words, draw), (PROJECT,))


@contextmanager
def release(_: Path) -> Iterator[Surface]:
    """Read releases as JSON; one that is read is written as it was."""
    curator = make_curator()
    texts = (
        "SELECT COUNT(*) AS n, AVG(age) AS a FROM people",
        "SELECT job, SUM(pay) AS s FROM people GROUP BY job",
        "SELECT MEDIAN(age) AS m FROM people",
        "SELECT MODE(job) FROM people",
    )
    corpus = [curator.ask(sd.sql(text), epsilon=1).to_dict() for text in texts]

    def read(plain: Any) -> None:
        made = Release.from_dict(plain)
        str(made), repr(made)
        assert Release.from_dict(json.loads(made.to_json())).to_dict() == made.to_dict()

    yield Surface(read, lambda draw: bend_tree(draw.choice(corpus), draw), tuple(corpus))


@contextmanager
def question(_: Path) -> Iterator[Surface]:
    """Read questions as JSON and plan them; one that is read is written as it was."""
    curator = make_curator()
    col = sd.col
    corpus = [
        question_to_json(one)
        for one in (
            sd.sql("SELECT job, COUNT(*) FROM people GROUP BY job"),
            Selection().where(col("age") > 40).group_by("job").agg(n=sd.count(), a=sd.mean("pay")),
            Selection().agg(m=sd.sum(col("age").clip(0, 50)), s=sd.count()),
            Selection().where((col("age") + 1) * 2 < Fraction(7, 3)).agg(sd.count()),
        )
    ]

    def read(plain: Any) -> None:
        made = question_from_json(plain)
        again = question_to_json(made)
        assert question_to_json(question_from_json(json.loads(json.dumps(again)))) == again
        before = curator.remaining
        curator.plan(made, epsilon=1)
        assert curator.remaining == before

    yield Surface(read, lambda draw: bend_tree(draw.choice(corpus), draw), tuple(corpus))


@contextmanager
def http(place: Path) -> Iterator[Surface]:
    """Send bodies to a server: it answers or refuses, in words without a secret, and never with an error of its own."""
    with served(place, rows=50) as server:
        secrets = (*server.tokens.values(),)
        bodies = [
            b'{"sql": "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", "epsilon": "0.001", "confidence": 0.9}',
            b'{"sql": "SELECT AVG(age) FROM people", "epsilon": 0.001, "keys": [["a", 1]], "min_units": 2}',
            b'{"question": {"is": "SqlText"}, "table": "people", "rho": "1/1000", "weights": [1, 2]}',
        ]

        def read(sent: tuple[str, bytes]) -> None:
            path, body = sent
            before = server.service.account_service is not None and _remaining(server)
            answer = server.send("POST", path, content=body, headers={"content-type": "application/json"})
            assert answer.status_code < 500, f"{answer.status_code} {answer.text[:200]}"
            assert not any(secret in answer.text for secret in (*secrets, CANARY)), "a secret in an answer"
            if path == "/v1/plan" or answer.status_code >= 400:
                assert _remaining(server) == before, "what was planned or refused was charged"

        def make(draw: random.Random) -> tuple[str, bytes]:
            return draw.choice(["/v1/plan", "/v1/plan", "/v1/ask"]), mutate_bytes(bodies, draw)

        yield Surface(read, make, (("/v1/plan", bodies[0]),))


def _remaining(server: Any) -> Any:
    return server.send("GET", "/v1/budgets").json()


@contextmanager
def sql_wire(_: Path) -> Iterator[Surface]:
    """Read the frames, statements and parameters of SQL clients: each is read, or said to be broken."""
    frames = [
        b"s\0SELECT $1 FROM people\0\0\1\0\0\0\x17",
        b"p\0s\0\0\1\0\0\0\1\0\0\0\0012\0\1\0\0",
        b"p\0\0\0\0\x64",
        b"SCRAM-SHA-256\0\0\0\0\x20n,,n=,r=fyko+d2lbbFgONRv9qkxdawL",
        b"\0\3\0\0user\0ana\0database\0people\0application_name\0psql\0\0",
        b"BEGIN; /* epsilon 0.1 */ SELECT COUNT(*) FROM people WHERE age > $1; FETCH FORWARD 5 FROM c",
        b"DECLARE c SCROLL CURSOR FOR SELECT 1; COPY (SELECT 1) TO STDOUT WITH (FORMAT csv, HEADER)",
        b"SET a = 'b'; -- epsilon 0.2, delta 1e-6",
    ]
    readers = (wire.read_bind, wire.read_execute, wire.read_parse, wire.read_sasl_first, wire.read_startup)

    def read(given: bytes) -> None:
        for reader in (*readers, wire.read_target, wire.read_text):
            _refuse_broken(reader, given)
        for oid in (16, 17, 20, 21, 23, 25, 700, 701, 1043, 1082, 1114, 1700):
            for form in (0, 1):
                _refuse_broken(partial(literal_of, form=form, oid=oid), given[-40:])
        for statement in split_statements(given.decode("utf-8", "replace").replace("\0", "")):
            for one in (read_declare, read_copy, read_fetch, lambda s: s.loss):
                _refuse_broken(one, statement)

    yield Surface(read, lambda draw: mutate_bytes(frames, draw), tuple(frames))


def _refuse_broken(reader: Callable[[Any], object], given: Any) -> None:
    with suppress(wire.BrokenFrame, WireError, SordinoError):
        reader(given)


@contextmanager
def collector(_: Path) -> Iterator[Surface]:
    """Read signed tasks, also with a good signature under a broken manifest, and batches of reports."""
    tasks = [task_of(), task_of(GRR(("tea", "coffee", "milk"), epsilon=1))]
    protocols: list[Any] = [task.protocol for task in tasks]
    batches = [protocol.perturb(["tea", "milk"], Rng.seeded(2)).to_bytes() for protocol in protocols]

    def read(given: tuple[str, Any]) -> None:
        kind, value = given
        if kind == "envelope":
            task = read_task(value, key=None)
            assert read_task(task.envelope, key=KEY.public).manifest == task.manifest
        elif kind == "manifest":
            text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            signature = base64.b64encode(KEY.sign(text.encode("utf-8", "replace"))).decode()
            read_task(json.dumps({"key": KEY.public, "manifest": text, "signature": signature}), key=KEY.public)
        else:
            protocol = protocols[0 if kind == "sue" else 1]
            reports = Reports.from_bytes(value, protocol)
            assert reports.to_bytes() == value
            protocol.estimate(protocol.count(reports))

    def make(draw: random.Random) -> tuple[str, Any]:
        kind = draw.choice(["envelope", "manifest", "manifest", "manifest", "sue", "grr"])
        if kind == "envelope":
            return kind, mutate_text([task.envelope for task in tasks], ["key", "manifest", "signature"], draw)
        if kind == "manifest":
            return kind, bend_tree(json.loads(draw.choice(tasks).manifest.text), draw)
        return kind, mutate_bytes(batches, draw)

    yield Surface(read, make, (("envelope", tasks[0].envelope), ("sue", batches[0])))


CSV = f"""id,age,job,joined
1,34,cook,2020-01-01
2,,clerk,2020-02-30
3,1e309,{CANARY},not a date
4,"7","a ""b"" c",2020-12-31
"""


@contextmanager
def csv(place: Path) -> Iterator[Surface]:
    """Ask of CSV files, quoted and not: whatever the rows hold, the question is answered, or the file refused at once."""
    path = place / "people.csv"
    domain = sd.Domain(
        {"age": sd.Integer(0, 99), "job": sd.Category(["cook", "clerk"]), "joined": sd.Date("2020-01-01", "2020-12-31")}
    )
    forms = (
        sd.Csv(header=True),
        sd.Csv(header=True, quote='"'),
        sd.Csv(header=False, names=("id", "age", "job", "joined")),
    )
    asked = sd.sql("SELECT job, COUNT(*), AVG(age), MEDIAN(joined) FROM people GROUP BY job")
    head, _, rows = CSV.encode().partition(b"\n")
    path.write_bytes(CSV.encode())
    # To open, plan and draw costs ten times what reading does, and none of it follows the bytes of a file whose names are
    # sound: such a file is read by the prepared statements of a question, and every eighth by a question from the start.
    curators = [protect(path, domain, csv=form, name="people") for form in forms]
    plans = [curator.plan(asked, epsilon=1) for curator in curators]
    engines = [DuckDBEngine(source_from(path, csv=form), domain=domain, unit=None) for form in forms]
    procedure: Any = plans[0].procedure
    for engine in engines:
        counts, medians = procedure.write(DataAccess(engine))
        for name, statement in (("counts", counts), ("medians", medians[-1])):
            engine._connection.execute(f"PREPARE {name} AS {statement.text}")
    fed = [0]

    def read(given: tuple[int, bytes]) -> None:
        form, cells = given
        path.write_bytes(cells)
        fed[0] += 1
        if form != 2 and not cells.startswith(head + b"\n"):
            curator = protect(path, domain, csv=forms[form], name="people")
            curator.ask(asked, epsilon=1)
            curator.close()
        elif fed[0] % 8:
            for name in ("counts", "medians"):
                with suppress(duckdb.Error):  # a question says that the engine could not answer, and no more
                    engines[form]._connection.execute(f"EXECUTE {name}").fetchall()
        else:
            curators[form].ask(plans[form])

    def make(draw: random.Random) -> tuple[int, bytes]:
        form = draw.randrange(3)
        changed = mutate_bytes([rows], draw)
        if form == 2:
            return form, changed
        return form, mutate_bytes([CSV.encode()], draw) if draw.random() < 0.2 else head + b"\n" + changed

    yield Surface(read, make, ((0, CSV.encode()), (1, CSV.encode())))
    opened: list[Any] = [*engines, *curators]
    for one in opened:
        one.close()


@contextmanager
def model(place: Path) -> Iterator[Surface]:
    """Open model files, with bytes flipped, and with a broken header or array under a good checksum."""
    path = place / "people.model"
    header, arrays = write_model(path)
    whole = path.read_bytes()

    def read(given: bytes) -> None:
        path.write_bytes(given)
        made = sd.synth.load(path)
        made.save(place / "again")
        assert sd.synth.load(place / "again").sample(3, rng=Rng.seeded(1)).equals(made.sample(3, rng=Rng.seeded(1)))

    def make(draw: random.Random) -> bytes:
        if draw.random() < 0.3:
            return mutate_bytes([whole], draw)
        raw = dict(arrays)
        if draw.random() < 0.4:
            raw[draw.choice(list(raw))] = draw.choice(list(arrays.values()))
        return _pack(bend_tree(header, draw), raw)

    yield Surface(read, make, (whole,))


def write_model(
    path: Path, header: Mapping[str, Any] | None = None, arrays: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write a model file, of these parts where given, under a checksum that fits; return its parts."""
    if header is None or arrays is None:
        domain = sd.Domain({"age": sd.Integer(0, 99), "job": sd.Category(["cook", "clerk"]), "member": sd.Boolean()})
        sd.synth.Tree().fit(protect(_people(), domain), epsilon=1).save(path)
    else:
        path.write_bytes(_pack(header, arrays))
    with np.load(path) as archived:
        found = {name: archived[name] for name in archived.files if name != "checksum"}
    return json.loads(found.pop("header").tobytes()), found


def _pack(header: Any, arrays: Mapping[str, Any]) -> bytes:
    raw = {"header": np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays}
    digest = hashlib.sha256()
    for name in sorted(raw):
        array = np.ascontiguousarray(raw[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
    buffer = io.BytesIO()
    np.savez(buffer, checksum=np.frombuffer(digest.digest(), dtype=np.uint8), **raw)
    return buffer.getvalue()


SURFACES = {
    one.__name__: one
    for one in (
        sql,
        project,
        release,
        question,
        http,
        sql_wire,
        sql_start,
        sql_session,
        collector,
        collector_port,
        curator_port,
        csv,
        model,
    )
}
