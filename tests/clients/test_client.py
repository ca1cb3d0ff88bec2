"""The browser client agrees with Python, bit for bit, in Node.js and in Chromium; as served it is under 6 kB."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from browsing import opened_browser, opened_page
from clients.vectors import vectors
from collecting import running, task_of, with_tokens
from sordino.local.collector.pages import client_module
from sordino.local.task import read_task

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "clients" / "js" / "sordino.js"
VECTORS: dict[str, Any] = json.loads((HERE / "vectors.json").read_text(encoding="utf-8"))
LEAST = 500  # comparisons that a run must have made


def test_the_vectors_are_those_that_python_makes() -> None:
    assert json.loads(json.dumps(vectors())) == VECTORS


def test_python_refuses_what_a_browser_must() -> None:
    """Python checks expiry and origin elsewhere (`Task.has_expired`, and by whom it sends to), and hashes onto more values."""
    refused = 0
    for envelope in VECTORS["refused"]:
        try:
            read_task(json.dumps(envelope), key=VECTORS["key"])
        except ValueError:
            refused += 1
    assert refused == len(VECTORS["refused"]) - 3


def test_the_module_as_served_is_under_6_kb() -> None:
    served = client_module()
    assert len(served.encode()) < 6000
    assert "//" not in re.sub(r"https?://", "", served)


def test_the_module_needs_nothing_else() -> None:
    text = SOURCE.read_text(encoding="utf-8")
    assert not re.search(r"\bimport\s|\brequire\(|Math\.random|eval\(|Function\(|innerHTML|https?:", text)


def test_node_agrees_with_python(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not here; Chromium runs the same check")
    (tmp_path / "sordino.mjs").write_text(client_module())
    for name in ("check.mjs", "vectors.json"):
        shutil.copy(HERE / name, tmp_path)
    script = (
        "import * as client from './sordino.mjs'; import { check } from './check.mjs'; import fs from 'node:fs';"
        "console.log(JSON.stringify(await check(client, JSON.parse(fs.readFileSync('vectors.json')))));"
    )
    (tmp_path / "run.mjs").write_text(script)
    done = subprocess.run([node, "run.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert found["checked"] > LEAST


@pytest.mark.deep
def test_chromium_agrees_with_python(tmp_path: Path) -> None:
    store = with_tokens(str(tmp_path / "reports.db"))
    script = f"""async vectors => {{
        {(HERE / "check.mjs").read_text(encoding="utf-8").replace("export ", "")}
        return await check(await import('/page/sordino.js'), vectors);
    }}"""
    with running(store, [task_of()]) as service, opened_browser() as browser, opened_page(browser) as page:
        page.goto(f"{service.url}/tasks/drinks")
        found = page.evaluate(script, VECTORS)
    assert found["wrong"] == []
    assert found["checked"] > LEAST
