"""Tables over the same columns are counted together only as far as few cells tell them all apart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from places import ROOT
from protecting import protect
from sordino.ask.curator.adaptive_session import _MOST_TOGETHER, _cells, _groupings, _order
from sordino.ask.queries.adaptive.marginal import Axis, ContingencyTable, MarginalQuery, tells_apart
from sordino.core.loss import PureDP

VALUES = 300
NAMES = ("a", "b", "c")
DOMAIN = sd.Domain({name: sd.Category(list(range(VALUES))) for name in NAMES})


def random_halves(count: int, seed: int) -> list[ContingencyTable]:
    """Tables of three columns, each cut in two at random, as a fit measures its own error by."""
    rng = np.random.default_rng(seed)
    return [
        ContingencyTable(tuple(Axis(name, None, tuple(rng.permutation(VALUES) % 2)) for name in NAMES))
        for _ in range(count)
    ]


@pytest.mark.parametrize("count", [1, 5, 40])
def test_no_grouping_has_more_cells_than_are_kept_together(count: int) -> None:
    tables = random_halves(count, 1)
    groupings = _groupings(_order(tables[0]), tables, DOMAIN)
    assert all(_cells(grouping, DOMAIN) <= _MOST_TOGETHER for grouping in groupings)
    assert all(any(tells_apart(grouping, table) for grouping in groupings) for table in tables)
    assert len(groupings) <= -(-count // 5)


@pytest.mark.deep
def test_counts_by_several_groupings_are_those_of_the_rows() -> None:
    rng = np.random.default_rng(2)
    columns = {name: rng.integers(0, VALUES, 2_000) for name in NAMES}
    curator = protect(pa.table(columns), DOMAIN, budget=sd.PureDP(10**9))
    tables = random_halves(12, 3)
    asked = MarginalQuery(tuple(tables))
    found, _ = curator.adapt(lambda data: data.release(asked, PureDP(10**6)), describe="counts", epsilon=10**6)
    for table, output in zip(tables, found.outputs, strict=True):
        cells = np.zeros(2_000, dtype=np.int64)
        for axis in table.axes:
            cells = cells * 2 + np.asarray(axis.codes)[columns[axis.column]]
        noisy: Any = output.estimate
        assert list(noisy.steps) == np.bincount(cells, minlength=8).tolist()


# Processes of their own read `places`: what they held themselves, of which the tests' own memory is no part.
TESTS = str(ROOT / "tests")
FIT = """
import sys
sys.path.insert(0, sys.argv[3])
import sordino as sd
from places import peak_memory
names = ("a", "b", "c")
domain = sd.Domain({n: sd.Category(list(range(300))) for n in names} if sys.argv[2] == "categories"
                   else {n: sd.Integer(0, 999) for n in names})
table = sd.protect(sys.argv[1], domain=domain, neighbors="add_remove", privacy_unit="row", budget=sd.ApproxDP(9, "1e-6"),
                   ledger=None, rng=sd.Rng.seeded(1))
sd.synth.fit(table, epsilon=1, delta="1e-9", rng=sd.Rng.seeded(2))
print(peak_memory())
"""


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["categories", "numbers"])
def test_a_fit_of_three_columns_and_ten_million_rows_takes_a_gigabyte_at_most(kind: str, tmp_path: Path) -> None:
    """It took 2.7 GB: the check of the model told every value of every column apart, in as many cells as rows."""
    make = (
        "import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq\n"
        "rng = np.random.default_rng(1)\n"
        "most = 300 if sys.argv[2] == 'categories' else 1000\n"
        "pq.write_table(pa.table({n: rng.integers(0, most, 10**7) for n in 'abc'}), sys.argv[1])\n"
    )
    rows = tmp_path / "rows.parquet"
    subprocess.run([sys.executable, "-c", make, str(rows), kind], check=True)
    fit = [sys.executable, "-c", FIT, str(rows), kind, TESTS]
    done = subprocess.run(fit, check=True, capture_output=True, text=True)
    assert int(done.stdout) < 10**6


WIDE = """
import sys
from resource import RUSAGE_SELF, getrusage
sys.path.insert(0, sys.argv[-1])
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
import sordino as sd
from places import peak_memory
def column(i):
    kind, most = i % 3, 30 + 7 * i % 70
    if kind == 0:
        return sd.Category(list(range(2 + i % 11)))
    return sd.Integer(0, most - 1 if kind == 1 else 199_999 if i % 2 else 299)
def write(path, rows, columns):
    rng = np.random.default_rng(1)
    before, cells = rng.normal(size=rows), {}
    for i in range(columns):
        before = 0.6 * before + 0.8 * rng.normal(size=rows)
        most = len(column(i).values) if i % 3 == 0 else column(i).upper + 1
        even = (before + 3) / 6 * most
        cells[f"c{i}"] = np.clip(1000 * np.exp(1.2 * before) if most == 200_000 else even, 0, most - 1).astype(np.int64)
    pq.write_table(pa.table(cells), path)
def fit(path, columns):
    domain = sd.Domain({f"c{i}": column(i) for i in range(columns)})
    budget = sd.ApproxDP(9, "1e-5")
    table = sd.protect(path, domain=domain, neighbors="add_remove", privacy_unit="row", budget=budget, ledger=None,
                       rng=sd.Rng.seeded(1))
    before = getrusage(RUSAGE_SELF)
    sd.synth.fit(table, epsilon=1, delta="1e-6", rng=sd.Rng.seeded(2))
    after = getrusage(RUSAGE_SELF)
    print(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, peak_memory())
write(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])) if sys.argv[1] == "write" else fit(sys.argv[2], int(sys.argv[3]))
"""


@pytest.mark.deep
def test_a_fit_of_a_million_rows_and_a_hundred_columns_takes_150_processor_seconds_at_most(tmp_path: Path) -> None:
    """It took 52; more than 360, and 1.1 GB, by scans of twenty columns each."""
    rows = str(tmp_path / "rows.parquet")
    subprocess.run([sys.executable, "-c", WIDE, "write", rows, "1000000", "100", TESTS], check=True)
    fit = [sys.executable, "-c", WIDE, "fit", rows, "100", TESTS]
    done = subprocess.run(fit, check=True, capture_output=True, text=True)
    seconds, kilobytes = map(float, done.stdout.split())
    assert seconds <= 150
    assert kilobytes <= 1_000_000
