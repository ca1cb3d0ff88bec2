"""What an ask costs, commit by commit: a line of bench/history.jsonl for each measurement, and the page that plots them.

python bench/history.py [--rows 2000000] [--commit HASH] [--note WORDS]    adds a line, and writes bench/results/bench-history.md
python bench/history.py --draw                                          writes the page and its picture alone

An older commit: `git worktree add old HASH`, then `PYTHONPATH=old/src python bench/history.py --commit HASH`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import ask

ROOT = Path(__file__).resolve().parents[1]
LINES = Path(__file__).with_name("history.jsonl")
PAGE = ROOT / "bench" / "results" / "bench-history.md"
PICTURE = ROOT / "bench" / "results" / "bench-history.svg"
QUESTIONS = {
    "count": "count",
    "sum": "sum of a real column",
    "group_by": "group-by count + mean",
    "group_by_where": "the same, filtered",
}


def record(found: dict[str, Any], *, commit: str | None = None, note: str = "") -> None:
    """Add a line for a measurement of `ask.run`: its commit, its machine and its ratios to plain DuckDB."""
    stated = commit or _git("rev-parse", "--short", "HEAD")
    line = {
        "commit": stated,
        "committed": _git("show", "-s", "--format=%cI", stated),
        "subject": _git("show", "-s", "--format=%s", stated),
        "measured": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "processors": found["processors"],
        "rows": found["rows"],
        "note": note,
        "ratios": {name: round(found[name]["ratio"], 3) for name in QUESTIONS},
    }
    with LINES.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read() -> list[dict[str, Any]]:
    """Return the measurements, in the order of their commits."""
    lines = LINES.read_text(encoding="utf-8").splitlines() if LINES.exists() else []
    return sorted((json.loads(line) for line in lines), key=lambda line: (line["committed"], line["measured"]))


def page(lines: list[dict[str, Any]]) -> str:
    """Return the page: the picture, and a row a measurement."""
    head = " | ".join(QUESTIONS.values())
    rows = [
        f"| `{x['commit']}` | {x['committed'][:10]} | {x['rows']:,} | "
        + " | ".join(f"{x['ratios'][name]:.2f}" for name in QUESTIONS)
        + f" | {x['note']} |"
        for x in lines
    ]
    return "\n".join(
        [
            "# Benchmarks over commits",
            "",
            "Time of an ask as a multiple of plain DuckDB doing the same, in alternating runs of one process.",
            "`make bench` adds a line; `bench/history.py` measures older commits too. Compare lines of one",
            "machine and one load only.",
            "",
            "![Ratios of four questions to plain DuckDB, by commit](bench-history.svg)",
            "",
            f"| commit | day | rows | {head} | note |",
            "|---" * (len(QUESTIONS) + 4) + "|",
            *rows,
            "",
        ]
    )


def draw(lines: list[dict[str, Any]]) -> None:
    """Write the page and the picture."""
    import altair as alt

    places = [f"{i}. {x['commit'][:7]}" for i, x in enumerate(lines, 1)]
    points = [
        {"commit": place, "question": words, "ratio": x["ratios"][name]}
        for place, x in zip(places, lines, strict=True)
        for name, words in QUESTIONS.items()
    ]
    chart = alt.Chart({"values": points}).encode(
        x=alt.X("commit:N", sort=places, title="commit, in order", axis=alt.Axis(labelAngle=-45)),
        y=alt.Y("ratio:Q", title="times plain DuckDB", scale=alt.Scale(zero=True)),
        color=alt.Color("question:N", sort=list(QUESTIONS.values()), title=None),
    )
    shown = (chart.mark_line() + chart.mark_point(filled=True, size=40)).properties(width=520, height=260)
    shown.configure(font="sans-serif").save(PICTURE)
    PAGE.write_text(page(lines), encoding="utf-8")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--commit", help="of the source on PYTHONPATH, where it is not this tree's")
    parser.add_argument("--note", default="", help="what else ran on the machine")
    parser.add_argument("--draw", action="store_true", help="measure nothing")
    options = parser.parse_args()
    if not options.draw:
        record(ask.run(options.rows), commit=options.commit, note=options.note)
    draw(read())


if __name__ == "__main__":
    main()
