"""The CPU time of an ask beside plain DuckDB doing the same, by the number of rows, with caps on a person's rows and without.

python bench/cost.py [--rows 10000000] [--json] [--plot bench/results/ask-cost.svg]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from timing import compare, fetch

ROWS = 10_000_000
_CELLS = "id, age, gain, job, edu, cost, flag, fee, code"
_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f")
_MAKE = """
COPY (SELECT CAST(hash(i, 'u') % {units} AS BIGINT) AS id, CAST(17 + hash(i, 'a') % 74 AS INTEGER) AS age,
    CAST(hash(i, 'm') % 10000000 AS DOUBLE) / 100 AS gain, 'job ' || (hash(i, 'j') % 15) AS job,
    CAST(hash(i, 'y') % 16 AS BIGINT) AS edu, CAST(hash(i, 'c') % 100000 AS BIGINT) AS cost, hash(i, 'b') % 2 = 0 AS flag,
    CAST(CAST(hash(i, 'd') % 1000000 AS DECIMAL(9, 0)) / 100 AS DECIMAL(9, 2)) AS fee, 'code ' || (hash(i, 'k') % {codes}) AS code
    FROM range({rows}) AS made(i)) TO '{path}'
"""
_KEPT = f"(SELECT * FROM $ QUALIFY row_number() OVER (PARTITION BY id ORDER BY hash({_CELLS}), cost) <= 5)"
QUESTIONS = {  # name: whether a unit has a cap, the question, what plain DuckDB does
    "capped count": (
        True,
        "SELECT COUNT(*) AS n FROM t",
        "SELECT sum(least(n, 5)) FROM (SELECT count(*) n FROM $ GROUP BY id)",
    ),
    "capped sum": (True, "SELECT SUM(cost) AS s FROM t", f"SELECT sum(cost) FROM {_KEPT}"),
    "group by": (
        False,
        "SELECT job, COUNT(*) AS n, AVG(age) AS a FROM t GROUP BY job",
        "SELECT job, count(*), avg(age) FROM $ GROUP BY job",
    ),
    "sum": (False, "SELECT SUM(gain) AS s FROM t", "SELECT sum(gain) FROM $"),
    "sum of decimals": (False, "SELECT SUM(fee) AS s FROM t", "SELECT sum(fee) FROM $"),
    "filtered count": (
        False,
        "SELECT COUNT(*) AS n FROM t WHERE age >= 40 AND edu < 12",
        "SELECT count(*) FROM $ WHERE age >= 40 AND edu < 12",
    ),
    "private keys": (
        False,
        "SELECT code, COUNT(*) AS n FROM t GROUP BY code",
        "SELECT code, count(*) FROM $ GROUP BY code",
    ),
    "correlation": (False, "SELECT CORR(age, gain) AS c FROM t", "SELECT corr(age, gain) FROM $"),
}
_MEASURED = ("capped sum", "group by", "sum of decimals", "private keys")  # whose memory is measured too


def run(rows: int = ROWS, repeats: int = 5) -> dict[str, Any]:
    """Return the median milliseconds of CPU time of both, runs in turn, and of some the peak memory in megabytes."""
    import duckdb

    plain = duckdb.connect()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SORDINO_STATE"] = directory
        path = Path(directory) / "t.parquet"
        plain.execute(
            _MAKE.format(units=max(rows // 10, 1), codes=min(50_000, max(rows // 100, 1)), rows=rows, path=path)
        )
        for name, (capped, text, same) in QUESTIONS.items():
            table = protect(path, capped=capped)
            theirs = same.replace("$", f"read_parquet('{path}')")
            ask, other = compare(
                partial(_ask, table, text), partial(fetch, plain, theirs), repeats, clock=time.process_time
            )
            found[name] = {"ask_ms": ask, "duckdb_ms": other, "ratio": round(ask / other, 2)}
        for name in _MEASURED:
            capped, text, same = QUESTIONS[name]
            theirs = same.replace("$", f"read_parquet('{path}')")
            ours = f"import cost; cost._ask(cost.protect({str(path)!r}, capped={capped}), {text!r})"
            found[name] |= {
                "ask_mb": _peak(ours),
                "duckdb_mb": _peak(f"import duckdb; duckdb.connect().execute({theirs!r}).fetchall()"),
            }
    return found


def protect(path: Path | str, *, capped: bool) -> Any:
    """Return the table, of people with five rows counted each, or of rows."""
    import sordino as sd

    domain = sd.Domain(
        {
            "id": sd.Identifier(),
            "age": sd.Integer(0, 125),
            "gain": sd.Real(0, 100_000, resolution=0.01),
            "job": sd.Category([f"job {i}" for i in range(15)]),
            "edu": sd.Integer(0, 16),
            "cost": sd.Integer(0, 100_000),
            "flag": sd.Boolean(),
            "fee": sd.Real(0, 10_000, resolution=0.01),
            "code": sd.Identifier(),
        }
    )
    unit, budget = sd.PrivacyUnit("id", max_rows=5) if capped else "row", sd.ApproxDP(1000, 0.5)
    return sd.protect(
        path, domain=domain, neighbors="add_remove", privacy_unit=unit, budget=budget, ledger=None, name="t"
    )


def _ask(table: Any, text: str) -> object:
    import sordino as sd

    if "GROUP BY code" in text:  # private keys, of which most show
        return table.ask(sd.sql(text), epsilon=1, delta="1e-9")
    return table.ask(sd.sql(text), epsilon=0.001)


def _peak(program: str) -> float | None:
    """Return the peak memory of a process of its own in megabytes; None where the system does not say."""
    shown = "; print(*(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    if not Path("/proc/self/status").exists():  # getrusage would count what the parent held at its fork
        return None
    place = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); "
    made = subprocess.run([sys.executable, "-c", place + program + shown], capture_output=True, text=True, check=True)
    return round(int(made.stdout.split()[-1]) / 1024, 1)


def draw(by_rows: dict[int, dict[str, Any]]) -> str:
    """Return an SVG of CPU time by rows, both in logarithms: lines are asks, dashes plain DuckDB."""
    low, high = min(by_rows), max(by_rows)
    times = [f[k] for found in by_rows.values() for f in found.values() for k in ("ask_ms", "duckdb_ms")]
    bottom, top = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))

    def across(rows: int) -> float:
        return 60 + 380 * math.log(rows / low) / math.log(high / low)

    def up(ms: float) -> float:
        return 290 - 260 * (math.log10(ms) - bottom) / (top - bottom)

    made = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 330" font-family="sans-serif" font-size="12">']
    made.append('<rect width="600" height="330" fill="white"/>')
    for power in range(bottom, top + 1):
        y = up(10.0**power)
        made.append(f'<path d="M60 {y:.1f}H440" stroke="#ddd"/><text x="54" y="{y + 4:.1f}" text-anchor="end">')
        made.append(f"{10.0**power:g}</text>")
    made += [f'<text x="{across(rows):.1f}" y="308" text-anchor="middle">{rows:,}</text>' for rows in by_rows]
    made.append('<text x="250" y="326" text-anchor="middle">rows</text><text x="8" y="18">CPU time, ms</text>')
    for i, (name, color) in enumerate(zip(QUESTIONS, _COLORS, strict=True)):
        for key, dash in (("ask_ms", ""), ("duckdb_ms", ' stroke-dasharray="5 4"')):
            points = " ".join(f"{across(rows):.1f},{up(found[name][key]):.1f}" for rows, found in by_rows.items())
            made.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"{dash}/>')
        made.append(f'<text x="455" y="{60 + 20 * i}" fill="{color}">{name}</text>')
    made.append('<text x="455" y="240">line: ask</text><text x="455" y="258">dashes: plain DuckDB</text></svg>')
    return "\n".join(made) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path, help="write the plot of a thousandth up to all of the rows here")
    options = parser.parse_args()
    sizes = [options.rows] if options.plot is None else [options.rows // power for power in (1000, 100, 10, 1)]
    by_rows = {rows: run(rows, 5 if rows <= ROWS else 3) for rows in sizes}
    if options.plot is not None:
        options.plot.write_text(draw(by_rows), encoding="utf-8")
    if options.json:
        print(json.dumps(by_rows, indent=2))
        return
    for rows, found in by_rows.items():
        for name, value in found.items():
            print(f"{rows:>12,} {name:14} {value}")


if __name__ == "__main__":
    main()
