"""The pages for people who come from another library: their snippets run where that library installs, ten a page, beside ours.

Ours run as doctests with every page. Some libraries want other versions of NumPy than Sordino does: install such a one anywhere
and name its Python, `SORDINO_PEER_PYTHON=/path/to/bin/python pytest tests/docs/test_coming_from.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from places import ROOT

PAGES = ROOT / "docs" / "coming-from"
PEERS = {  # page: what must import for its snippets to run, and what installs it
    "opendp": ("import opendp, polars; assert polars.__version__ == '1.36.1'", "opendp[polars]==0.16"),
    "diffprivlib": ("import diffprivlib", "diffprivlib"),
    "pure-ldp": ("import pure_ldp", "pure-ldp"),
    "pipelinedp": ("import pipeline_dp", "pipeline-dp"),
    "smartnoise": ("import snsql", "smartnoise-sql"),
    "tumult": ("import tmlt.analytics", "tmlt-analytics"),
}
PYTHON = os.environ.get("SORDINO_PEER_PYTHON", sys.executable)


def snippets(page: str) -> list[str]:
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_each_page_shows_ten_things_twice() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == set(PEERS)
    for page in PEERS:
        text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
        chapters = re.split(r"^## \d+\. ", text, flags=re.MULTILINE)[1:]
        assert len(chapters) == 10, page
        for chapter in chapters:
            assert "```python\n" in chapter, f"{page}: {chapter.splitlines()[0]}"
            assert "```pycon\n" in chapter, f"{page}: {chapter.splitlines()[0]}"


@pytest.mark.parametrize("page", PEERS)
def test_their_snippets_run(page: str, tmp_path: Path) -> None:
    test, package = PEERS[page]
    if subprocess.run([PYTHON, "-c", test], capture_output=True, check=False).returncode:
        pytest.skip(f"pip install '{package}' in an environment of its own, and set SORDINO_PEER_PYTHON")
    census = sd.datasets.make_census(5_000, sd.Rng.seeded(1))
    plain = pa.table({name: _plain(census[name]) for name in census.column_names})
    pq.write_table(plain, tmp_path / "people.parquet")
    (tmp_path / "theirs.py").write_text("\n".join(snippets(page)), encoding="utf-8")
    done = subprocess.run(
        [PYTHON, "-W", "ignore", "theirs.py"],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": PYTHON},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
