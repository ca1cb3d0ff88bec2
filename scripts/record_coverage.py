"""Write bench/results/line-coverage.md, and the figure in the README, out of what `make coverage` measured.

python scripts/record_coverage.py build/coverage.json
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "bench" / "results" / "line-coverage.md"
README = ROOT / "README.md"
FIGURE = re.compile(r"(The quick tests run )[\d.]+(% of the lines)")
HEAD = """# Which lines the tests run

`make coverage` writes this page; nobody edits it. It runs every test but the deep ones and counts the statements of
`src/sordino` that ran in the tests' own processes: what a test starts as a process of its own, such as a command or a
server, is not counted. A line that ran is not thereby right: [planted bugs](mutants.md) say what the tests see.

| package | statements | ran | share |
|---|---|---|---|
"""


def count_packages(measured: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Return, for each package of sordino and for its single files together, the statements and how many of them ran."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, file in measured["files"].items():
        inside = Path(name).parts[Path(name).parts.index("sordino") + 1 :]
        counts = found[f"`{inside[0]}/`" if len(inside) > 1 else "single files"]
        counts[0] += file["summary"]["num_statements"]
        counts[1] += file["summary"]["covered_lines"]
    return {name: (counts[0], counts[1]) for name, counts in sorted(found.items())}


def share_of(statements: int, ran: int) -> str:
    """Return a share in percent, rounded down to a tenth."""
    return f"{ran * 1000 // statements / 10:.1f}" if statements else "100.0"


def write_page(measured: dict[str, Any]) -> str:
    """Return the page: a row for each package, and one for all."""
    packages = count_packages(measured)
    total = sum(s for s, _ in packages.values()), sum(r for _, r in packages.values())
    rows = [*packages.items(), ("all", total)]
    return HEAD + "".join(f"| {name} | {s:,} | {r:,} | {share_of(s, r)}% |\n" for name, (s, r) in rows)


def main() -> None:
    """Write both."""
    page = write_page(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    PAGE.write_text(page, encoding="utf-8")
    total = page.rsplit("| ", 1)[1].split("%")[0]
    README.write_text(FIGURE.sub(rf"\g<1>{total}\2", README.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"{total}% of the lines ran: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
