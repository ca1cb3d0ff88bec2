"""Coverage of every kind of interval over a grid of sizes, losses and data, and mean width beside the narrowest that covers.

Run `python bench/interval_coverage.py [--quick | --size 2000] [--only curator] [--all] [--json]
[--write bench/results/coverage.md]`.
`--write` keeps what was found in bench/interval_coverage.csv, in the place of what the same sources found before, and writes the
page from all that is kept.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from curator_intervals import curator_draws
from interval_check import ABOVE, BELOW, CONFIDENCES, FALSE_ALARMS, Check, Draws, check, judge
from local_intervals import local_draws
from model_intervals import model_draws
from rarer_intervals import rarer_draws
from report_intervals import report_draws
from sample_intervals import sample_draws

PAGE = Path(__file__).resolve().parents[1] / "bench" / "results" / "coverage.md"
DATA = Path(__file__).with_suffix(".csv")
FULL, QUICK = 2000, 100
SOURCES: dict[str, Callable[[int], Iterator[Draws]]] = {
    "curator": curator_draws,
    "rarer": rarer_draws,
    "samples": sample_draws,
    "local": local_draws,
    "reports": report_draws,
    "models": model_draws,
}
_FIELDS = [field.name for field in dataclasses.fields(Check)]
_TEXTS = ("kind", "place", "promise")
PROMISES = {
    "each": "each value by itself, from both sides",
    "together": "all rows at once: at least",
    "at least": "for the worst data: at least",
    "on average": "over questions: at least",
}

INTRODUCTION = """\
# Coverage of intervals

`python bench/interval_coverage.py --write bench/results/coverage.md` writes this page out of `bench/interval_coverage.csv`,
which holds each check; nobody edits it. What an interval promises is on the page [Intervals](../../docs/intervals.md).

{places:,} places of a grid of kinds, sizes, losses and data, at {levels} confidences each: {checks:,} checks, {draws:,}
intervals. Answers of a curator go through `ask` itself, with seeded noise; many equal groups are asked at once, since each has
noise of its own.

An interval that promises its confidence for each value must cover within [nominal - {below:g}, nominal + {above:g}], a bound
at least nominal - {below:g}. Whole steps of noise make more coverage unavoidable: the upper end is then counted from the
coverage of the narrowest interval that these very errors allow, [value - s, value + t] with s = t or with equal tails (s = t
alone where values are clamped to a bound, since nobody knows that the truth lies there), and a width of one step more is allowed.
Each check is two tests (binomial; Student's t where questions hang together), each at {alpha:.1e}, so that the chance of any
false alarm is at most {alarms:g} (Bonferroni). A check of {full:,} draws finds coverage {half:.3f} below its band at .5, or
{high:.3f} at .95, in half of all cases.

Distributions of the local model promise a bound for the worst distribution: it is met where answers lie at two numbers far
apart, for shares and quantiles between them, and more is covered elsewhere, since nothing is known of the shape. Where noise
leaves the count or the means of a group open - means of one row, variances and correlations of ten - intervals hold more often
than stated, as they must hold whatever these are; so do means at a bound whose Laplace noises depend on each other. Values that
are both clamped and on few points (shares of 100 people, one bin at epsilon 1) may be held to less here than their steps allow.

Found: {low} below, {many} above. `width` is the mean width of the intervals over that of the narrowest that covers, the median of
the places; 1 is the least there is, - where no error at all would cover. `mean` is the mean of these ratios over the places that
have one: an interval that always covers shows there what it wastes. Places of heavier kinds have fewer draws.

The interval of a sample is for what the sample itself would say, which the check reads behind the ask. A search of
contribution bounds counts a unit by the middle of its bin of rows, and its interval is for that figure. Smooth
sensitivity and other robust statistics state no interval (the width of their noise is private), nor does the yes or no
of above_threshold, so none is checked.
"""


def run(size: int = FULL, *, only: str = "") -> dict[str, list[Check]]:
    """Return, by source, the check of each place of the grid at each confidence, of about `size` draws each."""
    return {
        name: [check(drawn, level) for drawn in source(size) for level in CONFIDENCES]
        for name, source in SOURCES.items()
        if only in ("", name)
    }


def load(path: Path = DATA) -> dict[str, list[Check]]:
    """Return the checks that a file keeps, by source in the order of the page."""
    kept: dict[str, list[Check]] = {name: [] for name in SOURCES}
    if path.is_file():
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                cells: dict[str, Any] = {n: row[n] if n in _TEXTS else float(row[n]) for n in _FIELDS}
                kept[row["source"]].append(Check(**{**cells, "draws": int(row["draws"])}))
    return kept


def save(kept: dict[str, list[Check]], path: Path = DATA) -> None:
    """Write the checks of each source, numbers to six digits."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["source", *_FIELDS])
        for name, checks in kept.items():
            for c in checks:
                cells = (getattr(c, n) for n in _FIELDS)
                writer.writerow([name, *(f"{cell:.6g}" if isinstance(cell, float) else cell for cell in cells)])


def record(found: dict[str, list[Check]], path: Path = PAGE) -> list[Check]:
    """Keep what was found in the place of what the same sources found before, write the page, and return all checks."""
    save(load() | found)
    checks = [c for own in load().values() for c in own]
    path.write_text(page(checks), encoding="utf-8")
    return checks


def summary(checks: Sequence[Check]) -> dict[str, int]:
    """Return how many checks were made, and how many of them found coverage too low and too high."""
    verdicts = judge(checks)
    return {"checks": len(checks), "below": verdicts.count("below"), "above": verdicts.count("above")}


def page(checks: Sequence[Check]) -> str:
    """Return the page: what was checked and how, a line for each kind, and every place whose coverage is out of its band."""
    verdicts = judge(checks)
    places, total = len({(c.kind, c.place) for c in checks}), sum(c.draws for c in checks)
    usual = statistics.median_low(c.draws for c in checks)
    lines = [
        INTRODUCTION.format(
            places=places, levels=len(CONFIDENCES), checks=len(checks), draws=total, below=BELOW, above=ABOVE,
            alpha=FALSE_ALARMS / (2 * len(checks)), alarms=FALSE_ALARMS, full=usual,
            half=math.sqrt(0.25 / usual) * 4.6, high=math.sqrt(0.0475 / usual) * 4.6,
            low=verdicts.count("below"), many=verdicts.count("above"),
        ),
        "| kind | promise | places | confidence | least coverage | median | most | width | mean | below | above |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for kind in dict.fromkeys(c.kind for c in checks):
        for confidence in CONFIDENCES:
            own = [
                (c, v) for c, v in zip(checks, verdicts, strict=True) if c.kind == kind and c.confidence == confidence
            ]
            lines.append(_line(own, first=confidence == CONFIDENCES[0]))
    out = [(c, v) for c, v in zip(checks, verdicts, strict=True) if v]
    if out:
        lines += [
            "", "## Out of the band", "",
            "| kind | place | confidence | coverage | the narrowest that covers | width | |", "|---|---|---|---|---|---|---|",
        ]  # fmt: skip
    for c, verdict in out:
        lines.append(
            f"| {c.kind} | {c.place} | {c.confidence:g} | {c.coverage:.3f} | {c.unavoidable:.3f} | {_show(c.ratio)} | {verdict} |"
        )
    return "\n".join(lines) + "\n"


def _line(own: Sequence[tuple[Check, str]], *, first: bool) -> str:
    checks, verdicts = [c for c, _ in own], [v for _, v in own]
    coverage, widths = sorted(c.coverage for c in checks), sorted(c.ratio for c in checks)
    head = f"| {checks[0].kind} | {PROMISES[checks[0].promise]} | {len(checks)}" if first else "| | | "
    shares = " | ".join(f"{coverage[i]:.3f}" for i in (0, len(checks) // 2, -1))
    finite = [width for width in widths if width < 1e6]
    width = mean = ""
    if checks[0].promise != "together":
        width, mean = _show(widths[len(widths) // 2]), _show(statistics.fmean(finite) if finite else math.inf)
    return (
        f"{head} | {checks[0].confidence:g} | {shares} | {width} | {mean} | {verdicts.count('below') or ''} "
        f"| {verdicts.count('above') or ''} |"
    )


def _show(ratio: float) -> str:
    if math.isinf(ratio):
        return "-"  # no error at all would cover
    return f"{ratio:.2f}" if ratio < 1e6 else "no end"


def main() -> None:
    """Print the checks whose coverage is out of its band, or all; write the page where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--size", type=int, default=FULL, help="draws at each place, about")
    parser.add_argument("--only", default="", choices=["", *SOURCES])
    parser.add_argument("--kept", action="store_true", help="draw nothing: what the file keeps")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    found = load() if options.kept else run(QUICK if options.quick else options.size, only=options.only)
    checks = [c for own in found.values() for c in own]
    if options.write:
        record(found, options.write)
    if options.json:
        print(json.dumps([dataclasses.asdict(c) for c in checks], indent=2))
        return
    for c, verdict in zip(checks, judge(checks), strict=True):
        if verdict or options.all:
            shares = f"{c.coverage:.4f} of {c.draws:5} ({c.unavoidable:.3f})"
            print(f"{verdict:6}{c.confidence:5} {shares} x{_show(c.ratio):>6}  {c.kind}: {c.place}")
    print(json.dumps(summary(checks)))


if __name__ == "__main__":
    main()
