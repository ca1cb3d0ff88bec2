"""Questions beside plain DuckDB: CPU seconds and memory of both, ratios, and how they grow with the rows.

python bench/speed.py [--rows 1000000 --rows 10000000] [--repeats 3] [--only WORDS] [--keep NOTE] [--page FILE]

Both sides run in turn in one process on one processor, so that a busy machine slows both. A question under a cap on a unit's
rows stands beside what an analyst would write for the same rows: a window that ranks them by a hash. `--keep` adds a line to
bench/speed-history.jsonl and writes bench/results/speed.md; `--page` appends the table, with what changed since the last line
that was kept for as many rows.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from timing import fetch

ROOT = Path(__file__).resolve().parents[1]
LINES = Path(__file__).with_name("speed-history.jsonl")
PAGE = ROOT / "bench" / "results" / "speed.md"
ROWS = 1_000_000
ITEMS = tuple(f"item {i:03d} {'abcdefgh'[i % 8] * 3}" for i in range(1000))
TOWNS = 20_000
# twice as fast or half as fast as before is no accident of a shared machine
_CHANGED = 1.5

# Ten rows a unit; a column of few numbers, of many, a decimal, floats, days, moments, 1,000 texts and 20,000 private ones.
_TABLE = f"""
SELECT CAST(hash(i, 1) % greatest(1, {{rows}} // 10) AS BIGINT) AS uid, CAST(17 + hash(i, 2) % 74 AS BIGINT) AS age,
  CAST(hash(i, 3) % 10 AS BIGINT) AS k10, CAST(hash(i, 4) % 1000 AS BIGINT) AS k1000,
  CAST(exp(2 * (hash(i, 5) % 1000000) / 1000000 + 6) AS DECIMAL(12, 2)) AS amt,
  50 + 20 * sqrt(-2 * ln((1 + hash(i, 6) % 1000000) / 1000001)) * cos(2 * pi() * (hash(i, 7) % 1000000) / 1000000) AS x,
  10 + 3 * sqrt(-2 * ln((1 + hash(i, 6) % 1000000) / 1000001)) * sin(2 * pi() * (hash(i, 7) % 1000000) / 1000000) AS y,
  DATE '2020-01-01' + CAST(hash(i, 8) % 1461 AS INTEGER) AS day,
  make_timestamp(1577836800000000 + CAST(hash(i, 9) % 126230400 AS BIGINT) * 1000000) AS moment,
  list_extract([{", ".join(f"'{item}'" for item in ITEMS)}], CAST(hash(i, 10) % 1000 AS BIGINT) + 1) AS item,
  'town ' || CAST(floor(pow((hash(i, 11) % 1000000) / 1000000, 2) * {TOWNS}) AS BIGINT) AS town,
  CAST(hash(i, 12) % 4 AS BIGINT) AS small
FROM range({{rows}}) AS r(i)
"""
_BY_HASH = (
    "(SELECT * FROM people QUALIFY row_number() OVER (PARTITION BY uid ORDER BY "
    "hash(uid, age, k10, k1000, amt, x, y, day, moment, item, town, small)) <= 5)"
)


@dataclass(frozen=True)
class Question:
    """A question, and the same in plain SQL where that is another text; `capped` says that a unit's rows are bounded."""

    text: str
    plain: str = ""
    capped: bool = False


QUESTIONS = {
    "count": Question("SELECT COUNT(*) AS n FROM people"),
    "count, filtered": Question("SELECT COUNT(*) AS n FROM people WHERE age > 40"),
    "count by a date range": Question(
        "SELECT COUNT(*) AS n FROM people WHERE day BETWEEN '2021-03-01' AND '2021-09-30'"
    ),
    "count of a year": Question("SELECT COUNT(*) AS n FROM people WHERE YEAR(day) = 2021"),
    "count of weekends": Question("SELECT COUNT(*) AS n FROM people WHERE ISODOW(day) >= 6"),
    "count, LIKE on 1,000 texts": Question("SELECT COUNT(*) AS n FROM people WHERE item LIKE '%7%'"),
    "sum of a decimal": Question("SELECT SUM(amt) AS n FROM people"),
    "sum of a float": Question("SELECT SUM(x) AS n FROM people"),
    "sum of a product": Question("SELECT SUM(age * k10) AS n FROM people"),
    "variance": Question("SELECT VAR_POP(age) AS n FROM people"),
    "correlation": Question("SELECT CORR(x, y) AS n FROM people"),
    "10 groups, mean": Question("SELECT k10, COUNT(*) AS n, AVG(age) AS m FROM people GROUP BY k10"),
    "1,000 groups, mean": Question("SELECT k1000, COUNT(*) AS n, AVG(age) AS m FROM people GROUP BY k1000"),
    "1,000 texts": Question("SELECT item, COUNT(*) AS n FROM people GROUP BY item"),
    "by month": Question("SELECT DATE_TRUNC('month', day) AS k, COUNT(*) AS n FROM people GROUP BY k"),
    "by weekday": Question("SELECT ISODOW(day) AS k, COUNT(*) AS n FROM people GROUP BY k"),
    "by month of a moment": Question("SELECT MONTH(moment) AS k, COUNT(*) AS n FROM people GROUP BY k"),
    "by hour": Question("SELECT HOUR(moment) AS k, COUNT(*) AS n FROM people GROUP BY k"),
    "by part of a text": Question("SELECT LEFT(item, 6) AS k, COUNT(*) AS n FROM people GROUP BY k"),
    "median of whole numbers": Question("SELECT MEDIAN(age) AS n FROM people"),
    "median of a decimal": Question("SELECT MEDIAN(amt) AS n FROM people"),
    "median of a decimal, 10 groups": Question("SELECT k10, MEDIAN(amt) AS n FROM people GROUP BY k10"),
    "join with a public table": Question(
        "SELECT s.label, COUNT(*) AS n, SUM(p.age) AS t FROM people AS p JOIN sizes AS s ON p.small = s.small GROUP BY s.label"
    ),
    "private keys": Question("SELECT town, COUNT(*) AS n FROM people GROUP BY town"),
    "different units": Question("SELECT COUNT(DISTINCT uid) AS n FROM people", capped=True),
    "capped count": Question(
        "SELECT COUNT(*) AS n FROM people",
        "SELECT SUM(LEAST(n, 5)) FROM (SELECT COUNT(*) AS n FROM people GROUP BY uid)",
        capped=True,
    ),
    "capped sum": Question("SELECT SUM(amt) AS n FROM people", f"SELECT SUM(amt) FROM {_BY_HASH}", capped=True),
    "capped, 10 groups": Question(
        "SELECT k10, COUNT(*) AS n FROM people GROUP BY k10",
        f"SELECT k10, COUNT(*) FROM {_BY_HASH} GROUP BY k10",
        capped=True,
    ),
    "capped median": Question(
        "SELECT MEDIAN(amt) AS n FROM people", f"SELECT MEDIAN(amt) FROM {_BY_HASH}", capped=True
    ),
    "capped private keys": Question(
        "SELECT town, COUNT(*) AS n FROM people GROUP BY town",
        f"SELECT town, COUNT(*) FROM {_BY_HASH} GROUP BY town",
        capped=True,
    ),
}


def run(sizes: Sequence[int] = (ROWS,), *, repeats: int = 3, only: str = "") -> dict[str, Any]:
    """Return, for each number of rows and each question, CPU seconds as medians, their ratio, and peaks of memory in MB."""
    use_one_processor()
    figures = {}
    for size in sorted(set(sizes)):
        with tempfile.TemporaryDirectory() as directory:
            figures[str(size)] = _measure(Path(directory), size, repeats, only)
    return figures


def use_one_processor() -> None:
    """Run on one processor, which both sides then use one thread for."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _measure(directory: Path, rows: int, repeats: int, only: str) -> dict[str, dict[str, float]]:
    import duckdb

    path = directory / "people.parquet"
    with duckdb.connect() as writer:
        writer.execute(f"COPY ({_TABLE.format(rows=rows)}) TO '{path}' (FORMAT parquet)")
    plain = duckdb.connect()
    plain.execute(f"CREATE VIEW people AS SELECT * FROM read_parquet('{path}')")
    plain.execute(
        "CREATE TABLE sizes AS SELECT * FROM (VALUES (0, 'a'), (1, 'b'), (2, 'c'), (3, 'd')) AS t(small, label)"
    )
    tables = {capped: _protect(path, capped=capped) for capped in (False, True)}
    figures = {}
    for name, question in QUESTIONS.items():
        if only not in name:
            continue
        ask = _asking(tables[question.capped], question)
        same = question.plain or question.text
        figures[name] = _compare(ask, partial(fetch, plain, same), repeats)
    for table in tables.values():
        table.close()
    plain.close()
    return figures


def _asking(table: Any, question: Question) -> Callable[[], object]:
    import sordino as sd

    loss: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"} if "town" in question.text else {"epsilon": 1}
    return lambda: table.ask(sd.sql(question.text), **loss)


def _compare(ours: Callable[[], object], theirs: Callable[[], object], repeats: int) -> dict[str, float]:
    """Return both sides' figures, run in turn after one run each, of which the memory is taken."""
    memory = [_peak(ours), _peak(theirs)]
    seconds: list[tuple[float, float]] = []
    for _ in range(repeats):
        pair = []
        for call in (ours, theirs):
            start = time.process_time()
            call()
            pair.append(time.process_time() - start)
        seconds.append((pair[0], pair[1]))
    a, b = (statistics.median(side) for side in zip(*seconds, strict=True))
    return {
        "sordino_s": round(a, 4),
        "duckdb_s": round(b, 4),
        "ratio": round(a / b, 2),
        "mb": memory[0],
        "duckdb_mb": memory[1],
    }


def _peak(call: Callable[[], object]) -> float:
    """Return how many MB a call takes beside what the process held; 0 where the system does not say."""
    status = Path("/proc/self/status")
    if not status.exists():
        call()
        return 0.0
    # the peak from now on
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _memory(status, "VmRSS")
    call()
    return round((_memory(status, "VmHWM") - before) / 1024, 1)


def _memory(status: Path, name: str) -> int:
    return next(
        int(line.split()[1]) for line in status.read_text(encoding="ascii").splitlines() if line.startswith(name)
    )


def _protect(path: Path, *, capped: bool) -> Any:
    import pyarrow as pa

    import sordino as sd

    columns = sd.Domain({"small": sd.Integer(0, 3), "label": sd.Category(["a", "b", "c", "d"])})
    sizes = pa.table({"small": [0, 1, 2, 3], "label": ["a", "b", "c", "d"]})
    return sd.protect(
        path,
        domain=sd.Domain(
            {
                "uid": sd.Identifier(),
                "age": sd.Integer(17, 90),
                "k10": sd.Integer(0, 9),
                "k1000": sd.Integer(0, 999),
                "amt": sd.Real(0, 1_000_000, resolution=0.01),
                "x": sd.Real(-100, 200, resolution=0.001),
                "y": sd.Real(-20, 50, resolution=0.001),
                "day": sd.Date("2020-01-01", "2023-12-31"),
                "moment": sd.DateTime("2020-01-01", "2023-12-31", zone="UTC"),
                "item": sd.Category(ITEMS),
                "town": sd.Identifier(),
                "small": sd.Integer(0, 3),
            }
        ),
        neighbors="add_remove",
        privacy_unit=sd.PrivacyUnit("uid", max_rows=5) if capped else "row",
        budget=sd.ApproxDP(10**7, "0.5"),
        ledger=None,
        name="people",
        public={"sizes": sd.public(sizes, key="small", columns=columns)},
    )


# ---- The table, and the lines that are kept


def table(figures: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Return the figures as a table in Markdown: seconds, ratio and memory for each number of rows, and how they grow."""
    sizes = sorted(figures, key=int)
    head = ["question"]
    for size in sizes:
        head += [f"{int(size):,} rows: DuckDB s", "Sordino s", "ratio", "MB, DuckDB and Sordino"]
    grows = len(sizes) > 1
    head += ["exponent, DuckDB and Sordino"] if grows else []
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name in figures[sizes[-1]]:
        cells = [name]
        for size in sizes:
            one = figures[size].get(name)
            cells += ["", "", "", ""] if one is None else _cells(one)
        cells += [_exponents([(int(size), figures[size][name]) for size in sizes])] if grows else []
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cells(one: Mapping[str, float]) -> list[str]:
    return [
        f"{one['duckdb_s']:.3f}",
        f"{one['sordino_s']:.3f}",
        f"{one['ratio']:.2f}",
        f"{one['duckdb_mb']:.0f}, {one['mb']:.0f}",
    ]


def _exponents(points: Sequence[tuple[int, Mapping[str, float]]]) -> str:
    """Return how CPU seconds grow from the fewest to the most rows: as which power of their number."""
    (fewest, small), (most, large) = points[0], points[-1]
    decades = math.log(most / fewest)
    return ", ".join(
        f"{math.log(large[side] / max(small[side], 1e-4)) / decades:.2f}" for side in ("duckdb_s", "sordino_s")
    )


def changes(figures: Mapping[str, Mapping[str, Mapping[str, float]]], lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return in words which ratios are another than in the last line that was kept for as many rows."""
    words = []
    for size, questions in figures.items():
        last: Mapping[str, float] = next(
            (line["ratios"][size] for line in reversed(lines) if size in line["ratios"]), {}
        )
        for name, one in questions.items():
            if name in last and max(one["ratio"] / last[name], last[name] / one["ratio"]) > _CHANGED:
                words.append(f"{name}, {int(size):,} rows: {one['ratio']:.2f} times DuckDB, {last[name]:.2f} before")
    return words


def read() -> list[dict[str, Any]]:
    """Return the lines that were kept, in their order."""
    return [json.loads(line) for line in LINES.read_text(encoding="utf-8").splitlines()] if LINES.exists() else []


def keep(figures: Mapping[str, Mapping[str, Mapping[str, float]]], note: str) -> None:
    """Add a line of the ratios of this commit, and write the page."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    line = {
        "commit": commit.stdout.strip(),
        "measured": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "note": note,
        "ratios": {size: {name: one["ratio"] for name, one in q.items()} for size, q in figures.items()},
    }
    with LINES.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    PAGE.write_text(page(figures, read()), encoding="utf-8")


def page(figures: Mapping[str, Mapping[str, Mapping[str, float]]], lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the page: the table of the last measurement, and the mean ratio of each line that was kept."""
    kept = [
        f"| `{line['commit']}` | {line['measured'][:10]} | {int(size):,} | {statistics.geometric_mean(ratios.values()):.2f} | "
        f"{max(ratios.values()):.2f} | {line['note']} |"
        for line in lines
        for size, ratios in line["ratios"].items()
        if ratios
    ]
    return "\n".join(
        [
            "# Speed beside plain DuckDB",
            "",
            "`bench/speed.py` asks each question and runs the same in plain DuckDB in turn, in one process on one processor:",
            "CPU seconds are medians, memory is what the first run took beside what the process held. A question under a cap of",
            "five rows a unit stands beside a window that ranks rows by a hash. Ratios of one run compare; seconds of several",
            "machines do not.",
            "",
            table(figures),
            "",
            "## Over commits",
            "",
            "| commit | day | rows | mean ratio | largest | note |",
            "|---|---|---|---|---|---|",
            *kept,
            "",
        ]
    )


def main() -> None:
    """Measure, print the table, and keep it where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rows", type=int, action="append", help="as often as there are sizes, from a million to 100 million"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="the questions whose names hold these words")
    parser.add_argument("--keep", metavar="NOTE", help="add a line to the history, with what else ran on the machine")
    parser.add_argument("--page", type=Path, help="append the table and what changed, such as $GITHUB_STEP_SUMMARY")
    options = parser.parse_args()
    figures = run(options.rows or (ROWS,), repeats=options.repeats, only=options.only)
    print(table(figures))
    changed = changes(figures, read())
    print(*changed, sep="\n")
    if options.page is not None:
        with options.page.open("a", encoding="utf-8") as file:
            file.write("\n\n".join([table(figures), *changed]) + "\n")
    if options.keep is not None:
        keep(figures, options.keep)


if __name__ == "__main__":
    main()
