"""What broken inputs have brought to light, each at its smallest: a refusal in words where an error of Python had left."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sordino as sd
from collecting import KEY, task_of
from fuzz.surfaces import PROJECT, make_curator, write_model
from serving import served
from sordino.ask.project.load import check_file
from sordino.core.ledger.location import locate
from sordino.core.release import Release
from sordino.errors import DeclarationError, QuestionRefused
from sordino.local.task import read_task


@pytest.mark.parametrize(
    "text", ["SELECT T() FILTER (WHERE age > 3) FROM people", "SELECT COUNT(DISTINCT) FROM people"]
)
def test_a_call_that_holds_nothing_is_refused(text: str) -> None:
    with pytest.raises(QuestionRefused):
        make_curator().plan(sd.sql(text), epsilon=1)


@pytest.mark.parametrize("number", ["1e999999999", "1e-999999999", "1e3333333333333333333"])
def test_a_number_whose_digits_would_fill_the_memory_is_refused_in_a_project(number: str, tmp_path: Path) -> None:
    path = tmp_path / "sordino.toml"
    path.write_text(PROJECT.replace("1.5", number))
    assert len(check_file(path)) == 1


def test_a_decimal_whose_digits_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(DeclarationError, match="must be a number such as"):
        sd.PureDP(Decimal("1e999999999"))


def test_a_source_whose_name_no_file_can_have_is_a_source_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "sordino.toml"
    path.write_text(PROJECT.replace("people.parquet", "p" * 300 + ".parquet"))
    assert check_file(path) == []


@pytest.mark.parametrize("name", ["p" * 300, "a\0b", "~nobody-lives-here/l"])
def test_a_ledger_whose_name_no_file_can_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="none that a file can have"):
        locate(name)
    if "~" not in name:
        with pytest.raises(DeclarationError, match="none that a file can have"):
            locate(name, beside=tmp_path)


@pytest.mark.each(3)
@pytest.mark.parametrize("part", ["tables.people", "tables.visits", "budgets.people"])
def test_whatever_lies_below_a_name_that_is_refused_is_not_read(part: str, tmp_path: Path) -> None:
    """Each line left out or emptied, with and without a sound name above it: problems in words, whatever the rest says."""
    path = tmp_path / "sordino.toml"
    for name in (part, part.partition(".")[0] + ".199"):
        text = PROJECT.replace(f"[{part}", f"[{name}")
        lines = text.splitlines()
        for i, line in enumerate(lines):
            key = line.partition(" = ")[0]
            for instead in (
                ("", f"{key} = {{}}", f"{key} = {{t = 1}}", f"{key} = []", f'{key} = ""') if " = " in line else ("",)
            ):
                path.write_text("\n".join([*lines[:i], instead, *lines[i + 1 :]]))
                found = check_file(path)
                assert found or name == part
                assert found == check_file(path)


BREAKS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no object": lambda _: 5e-324,
    "no time": lambda plain: {name: value for name, value in plain.items() if name != "time"},
    "no columns": lambda plain: plain | {"columns": ["1/3"]},
    "no outputs": lambda plain: plain | {"estimates": []},
    "a number for a text": lambda plain: plain | {"neighbors": 7},
    "infinity": lambda plain: plain | {"private": float("inf")},
    "an estimate without numbers": lambda plain: (
        plain | {"estimates": [plain["estimates"][0] | {"parts": [], "mix": 1}]}
    ),
}


@pytest.mark.parametrize("kind", BREAKS)
def test_a_release_that_was_altered_is_refused(kind: str) -> None:
    plain = json.loads(make_curator().ask(sd.sql("SELECT AVG(age) AS a FROM people"), epsilon=1).to_json())
    assert Release.from_dict(plain).to_dict() == plain
    with pytest.raises(DeclarationError, match="this"):
        Release.from_dict(BREAKS[kind](plain))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_signed_manifest_with_a_number_that_is_none_is_refused(number: str) -> None:
    text = task_of().manifest.text.replace('"bits":32', f'"bits":{number}')
    signature = base64.b64encode(KEY.sign(text.encode())).decode()
    with pytest.raises(DeclarationError, match="must be a JSON object"):
        read_task(json.dumps({"key": KEY.public, "manifest": text, "signature": signature}), key=KEY.public)


HEADERS: dict[str, Any] = {
    "cliques": [[0, 1], [1, "2"]],
    "links": [[0, 1, [7]]],
    "measured": [[0, {}]],
    "errors": {"own": 10**400, "measured": 1, "unmeasured": 1, "higher": 1, "rows": 1},
    "facts": ["loss"],
    "loose": [[[0, 1], "many"]],
    "domain": [["\ud800", {"type": "boolean"}]],
}


@pytest.mark.deep
@pytest.mark.parametrize("part", [*HEADERS, "table0", "codes0", "noise0"])
def test_a_model_file_whose_parts_do_not_fit_is_refused_when_it_is_opened(part: str, tmp_path: Path) -> None:
    """Also under a checksum that fits: anybody can compute one."""
    path = tmp_path / "people.model"
    header, arrays = write_model(path)
    assert sd.synth.load(path).sample(2, rng=sd.Rng.seeded(1)).num_rows == 2
    changed = {part: np.zeros((2, 5)) if part == "table0" else np.array([0.5, 2.0])} if part in arrays else {}
    write_model(path, header | ({part: HEADERS[part]} if part in HEADERS else {}), arrays | changed)
    with pytest.raises(DeclarationError, match="is not a whole model file"):
        sd.synth.load(path)


@pytest.mark.each(5)
@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
@pytest.mark.parametrize(
    "call",
    [
        "DELETE /v1/tokens/{}",
        "GET /v1/approvals/{}",
        "GET /v1/models/{}",
        "GET /v1/models/1/evaluations/{}",
        "GET /v1/jobs/{}",
        "GET /v1/audit?after={}",
    ],
)
def test_a_number_that_no_database_holds_is_refused(call: str, number: int, tmp_path: Path) -> None:
    with served(tmp_path, rows=10) as server:
        method, path = call.format(number).split()
        assert server.send(method, path, who="ola").status_code == 400


@pytest.mark.parametrize("table", [1e308, 7])
def test_a_fit_of_a_table_whose_name_is_a_number_is_refused(table: float, tmp_path: Path) -> None:
    with served(tmp_path, rows=10) as server:
        answer = server.send("POST", "/v1/models", json={"table": table, "epsilon": 1})
        assert answer.status_code == 400
        assert answer.json()["detail"] == "table must be text"


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/ask", b'{"\\ud800": 1}'), ("/v1/tokens", b'{"name": "a\\udfff"}'), ("/v1/session", b'{"\\ud800": 1}')],
)
def test_half_a_character_in_a_body_is_refused(path: str, body: bytes, tmp_path: Path) -> None:
    with served(tmp_path, rows=10) as server:
        answer = server.send("POST", path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400
        assert "half a character" in answer.json()["detail"]
