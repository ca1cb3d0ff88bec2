"""Attacks by looking: whether an exact value, a noise or a cell stands in anything that is shown, written, logged or kept."""

from __future__ import annotations

import gc
import json
import logging
import pickle
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from protecting import protect
from serving import served
from sordino import synth
from sordino.errors import SordinoError

ROWS, TOTAL, CELL = 86_753, 7_186_753_919, "canary-4711"
DOMAIN = sd.Domain({"x": sd.Integer(0, 10**6), "c": sd.Category(["a", "b"], other="a"), "who": sd.Identifier()})
SECRETS = re.compile(rf"(?<![0-9A-Za-z.])(?:{ROWS}|{ROWS:,})(?![0-9A-Za-z])|{TOTAL}|{TOTAL:,}|{CELL}")
LOSS = "0.000001"  # noise of a million a count: by chance it hides or shows one of the numbers once in 100,000 runs
QUESTIONS = [
    "SELECT COUNT(*) AS n, SUM(x) AS s FROM people",
    "SELECT c, COUNT(*) AS n, AVG(x) AS m FROM people GROUP BY c ORDER BY n DESC",
    "SELECT MEDIAN(x) AS m FROM people",
    "SELECT VAR_POP(x) AS v FROM people",
    "SELECT COUNT(DISTINCT who) AS n FROM people",
]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Rows whose number and sum are known to nobody, and a cell that is no declared value."""
    x, rest = divmod(TOTAL, ROWS)
    return pa.table(
        {
            "x": pa.array([x + (i < rest) for i in range(ROWS)]),
            "c": pa.array([CELL if i == 7 else "a" for i in range(ROWS)]),
            "who": pa.array([CELL if i == 7 else f"u{i}" for i in range(ROWS)]),
        }
    )


def shown(release: sd.Release, plan: Any) -> Iterator[str]:
    """Yield everything that can be seen of an answer and of its plan."""
    for one in (release, plan, release.question, release.outputs, release.event, release.notes, release.chosen):
        yield repr(one)
        yield str(one)
    yield release.to_json()
    yield json.dumps(release.to_dict(), default=str)
    yield str(release.interval(0.95))
    yield str(release.table.to_pydict()) + str(release.table.schema.metadata)
    yield plan.describe()
    yield json.dumps(plan.to_dict(), default=str)
    for one in (release, plan):
        yield one._repr_html_() if hasattr(one, "_repr_html_") else ""


def reachable(start: object, most: int = 20_000) -> Iterator[object]:
    """Yield what an object leads to by its fields and items alone: what a colleague can see who is handed it."""
    seen, wait = set[int](), [start]
    while wait and len(seen) < most:
        one = wait.pop()
        if id(one) in seen or isinstance(one, type) or callable(one):
            continue
        seen.add(id(one))
        yield one
        if is_dataclass(one):
            wait += [getattr(one, field.name, None) for field in fields(one)]
        elif isinstance(one, dict):
            wait += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple, set, frozenset)):
            wait += list(one)
        elif not isinstance(one, (str, bytes, int, float)):
            wait += [o for o in gc.get_referents(one) if not isinstance(o, type)]


def assert_nothing(texts: Any) -> None:
    for text in texts:
        found = SECRETS.search(text)
        assert found is None, f"an exact value stands in ...{text[max(0, found.start() - 80) : found.end() + 20]}"


@pytest.mark.attack("find an exact value in what is shown", source="CWE-200; CWE-532")
def test_a_careless_release_is_found(table: pa.Table) -> None:
    """The control: an answer that carries its exact count, or the noise beside the answer, gives it away."""
    careless = {"value": 86_000, "exact": table.num_rows}
    with pytest.raises(AssertionError):
        assert_nothing([json.dumps(careless)])
    assert ROWS in list(reachable([{"a": (careless,)}]))


@pytest.mark.attack("find an exact value in what is shown")
def test_nothing_shown_logged_or_kept_holds_an_exact_value(
    table: pa.Table, tmp_path: Path, state: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """In memory, on disk, in the state directory, in logs at debug level, and in what errors say."""
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "people.ledger"
    curator = protect(table, DOMAIN, ledger=path, budget=sd.PureDP(1), name="people")
    for i, text in enumerate(QUESTIONS):
        plan = curator.plan(sd.sql(text), epsilon=LOSS)
        release = curator.ask(sd.sql(text), epsilon=LOSS, request_id=f"r{i}")
        again = curator.ask(sd.sql(text), epsilon=LOSS, request_id=f"r{i}")
        assert again.to_json() == release.to_json()
        numbers = {v for v in reachable(release) if isinstance(v, (int, float)) and not isinstance(v, bool)}
        assert not numbers & {ROWS, TOTAL}
        assert_nothing(shown(release, plan))
    model = synth.Independent(["c"]).fit(curator, epsilon=LOSS)
    model.save(tmp_path / "people.model")
    assert_nothing([repr(model), str(model.facts), repr(curator), repr(curator.ledger), str(curator.releases())])
    assert_nothing(str(charge) for charge in curator.ledger.charges())
    for text in (
        "SELECT canary FROM people",
        "SELECT MIN(x) FROM people",
        "SELECT COUNT(*) FROM other",
        "SELECT x FROM people",
    ):
        with pytest.raises(SordinoError) as refused:
            curator.ask(sd.sql(text), epsilon=LOSS)
        assert_nothing([str(refused.value), repr(refused.value)])
    with pytest.raises((TypeError, AttributeError, SordinoError)):
        pickle.dumps(curator)
    curator.close()
    assert_nothing([caplog.text, *capfd.readouterr()])
    kept = [file for folder in (tmp_path, state) for file in folder.rglob("*") if file.is_file()]
    assert len(kept) >= 3  # the ledger, the mark, the model
    assert_nothing(file.read_bytes().decode("latin-1") for file in kept)


@pytest.mark.deep
@pytest.mark.attack("find an exact value in what is shown")
def test_a_picture_is_made_of_what_was_released(table: pa.Table) -> None:
    curator = protect(table, DOMAIN, name="people")
    release = curator.ask(sd.sql(QUESTIONS[1]), epsilon=LOSS)
    drawn = json.dumps(sd.plot(release).spec(), default=str)
    assert_nothing([drawn])
    for number in ("noise", "exact", "seed"):
        assert f'"{number}"' not in release.to_json()
    curator.close()


@pytest.mark.attack("find an exact value in what is shown")
def test_a_server_says_no_exact_value_nor_place_whatever_it_is_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The table has 86,753 rows; every road of an analyst is walked, also wrongly."""
    caplog.set_level(logging.DEBUG)
    with served(tmp_path) as server:
        rows = pa.table({"age": [40] * ROWS, "sex": ["f"] * (ROWS - 1) + [CELL]})
        pq.write_table(rows, tmp_path / "people.parquet")
        bodies: list[Any] = [
            {"sql": "SELECT COUNT(*) AS n FROM people", "epsilon": LOSS},
            {"sql": "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", "epsilon": LOSS},
            {"sql": "SELECT age FROM people", "epsilon": LOSS},
            {"sql": "SELECT COUNT(*) FROM people", "epsilon": "99"},
            {"sql": "SELECT COUNT(*) FROM people WHERE sex = 1/0", "epsilon": "1"},
            {"sql": 7},
            [],
        ]
        answers = [server.send("POST", f"/v1/{way}", json=body) for way in ("plan", "ask") for body in bodies]
        answers += [
            server.send("GET", f"/v1/{way}")
            for way in ("tables", "budgets", "releases", "nothing", "../people.parquet")
        ]
        answers += [server.send("GET", way, who=None) for way in ("/health", "/metrics", "/openapi.json", "/")]
        assert {200} < {answer.status_code for answer in answers}
        assert all(answer.status_code < 500 for answer in answers)
        texts = [answer.text + str(answer.headers) for answer in answers]
    assert_nothing(texts)
    assert not any(str(tmp_path) in text for text in texts)
    assert_nothing([caplog.text, *capfd.readouterr()])
