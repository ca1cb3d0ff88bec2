"""In a notebook without ipywidgets DuckDB refuses every setting of its progress bar: tables open all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_NOTEBOOK = """
import sys, types
shell = types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules["IPython"] = notebook = types.ModuleType("IPython")
notebook.get_ipython = lambda: shell
sys.modules["ipywidgets"] = None  # as where it is not installed
import duckdb
try:
    duckdb.connect().execute("SET enable_progress_bar = false")
    print("believed not")
except duckdb.Error:
    print("believed")
import pyarrow as pa
import sordino as sd
table = pa.table({"age": [20, 30, 40]})
people = sd.protect(table, domain=sd.Domain({"age": sd.Integer(0, 125)}), neighbors="add_remove", privacy_unit="row",
                    budget=sd.PureDP(100), ledger=None)
print(round(people.ask(sd.count(), epsilon=50).value))
"""


@pytest.mark.deep
def test_a_table_opens_in_a_notebook_without_ipywidgets(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _NOTEBOOK], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr[-400:]
    assert done.stdout.split() == ["believed", "3"]
