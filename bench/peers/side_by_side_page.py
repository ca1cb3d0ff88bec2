"""The page of Sordino beside other libraries: what bench/peers/side_by_side.py writes from its results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import Any

Results = dict[str, Any]
TITLES = {
    "opendp": "OpenDP, Context",
    "opendp_vectors": "OpenDP, vectors",
    "diffprivlib": "diffprivlib",
    "pydp": "PyDP",
    "smartnoise_sql": "SmartNoise SQL",
    "pipelinedp": "PipelineDP",
    "tumult": "Tumult Analytics",
    "qrlew": "qrlew",
    "dp_accounting": "dp-accounting",
    "pure_ldp": "pure-ldp",
    "multi_freq_ldpy": "multi-freq-ldpy",
}
QUESTIONS = ("count", "sum", "mean", "median", "groups")
AHEAD = 0.95  # below this share of ours a peer is ahead; nearer is a draw

INTRODUCTION = """\
# Sordino beside other libraries

`python bench/peers/side_by_side.py --write` writes this page from `bench/peers/results.json`, which that command fills; nobody
edits it. The same table, the same questions and the same epsilon go to each library, in a process and an environment of its own,
and where it has a relation of neighbors that Sordino has too, Sordino is asked under the same. Nothing was tuned against a peer.
"""


def page(results: Results) -> str:
    """Return the page: where others are ahead first, then each table of figures, then how they were measured."""
    parts = [INTRODUCTION, *ahead(results), *time(results), *memory(results), *errors(results), *method(results)]
    return "\n".join(parts).rstrip("\n") + "\n"


def peers(results: Results, part: str) -> list[str]:
    """Return the libraries that a part has figures of, in the order of this page."""
    return [name for name in TITLES if name in results.get(part, {})]


def sizes(results: Results) -> list[str]:
    """Return the numbers of rows that were run, the fewest first."""
    return sorted({rows for found in results.get("speeds", {}).values() for rows in found}, key=int)


def ahead(results: Results) -> Iterator[str]:
    """Yield where a peer takes less time, has less error, or less memory than ours."""
    yield "## Where others are ahead\n"
    lines = [*_faster(results), *_nearer(results)]
    yield from lines or ["Nowhere in these figures."]
    yield ""


def _faster(results: Results) -> Iterator[str]:
    for peer in peers(results, "speeds"):
        for rows, found in sorted(results["speeds"][peer].items(), key=lambda item: int(item[0])):
            ratios = {q: found["questions"][q].get("ratio") for q in QUESTIONS}
            won = [f"{q} {_figure(r)}" for q, r in ratios.items() if r is not None and r < AHEAD]
            if won:
                yield f"- {TITLES[peer]}, processor time at {int(rows):,} rows, as a share of ours: {', '.join(won)}."


def _nearer(results: Results) -> Iterator[str]:
    for peer in peers(results, "errors"):
        found = results["errors"][peer]["1000"]
        won = []
        for question in QUESTIONS:
            ours, theirs = (found[question].get(side, {}).get("rmse") for side in ("ours", "theirs"))
            if ours and theirs is not None and theirs < (1 - _doubt(found[question])) * ours:
                won.append(f"{question} {_figure(theirs / ours)}")
        if won:
            yield f"- {TITLES[peer]}, error at 1,000 rows, as a share of ours: {', '.join(won)}."


def _doubt(found: Results) -> float:
    """Return twice the standard error of a ratio of root mean squares of Laplace noise, whose kurtosis is 6."""
    return 2 * math.sqrt(sum(5 / 4 / found[side]["times"] for side in ("ours", "theirs")))


def time(results: Results) -> Iterator[str]:
    """Yield tables of the processor seconds of a release."""
    if not peers(results, "speeds"):
        return
    yield (
        "## Time\n\nProcessor milliseconds of a release, theirs / ours in the same run, and in bold how many times ours theirs\n"
        "takes (below 1 they are faster); medians of alternating turns.\n"
    )
    for rows in sizes(results):
        yield f"### {int(rows):,} rows\n"
        yield f"| | {' | '.join(QUESTIONS)} |\n|---|{'---|' * len(QUESTIONS)}"
        for peer in peers(results, "speeds"):
            if rows in results["speeds"][peer]:
                cells = [_cost(results["speeds"][peer][rows]["questions"][q]) for q in QUESTIONS]
                yield f"| {TITLES[peer]} | {' | '.join(cells)} |"
        yield ""


def _cost(found: Results) -> str:
    if "ratio" not in found:
        return _none(found["none"])
    theirs, ours = (statistics.median(found["cpu"][side]) * 1000 for side in ("theirs", "ours"))
    return f"{_figure(theirs)} / {_figure(ours)} **{_figure(found['ratio'])}**"


def _none(found: Results) -> str:
    if "no" in found:
        return "no"
    return found["says"] if found["error"] in ("stopped", "ended") else f"raises {found['error']}"


def memory(results: Results) -> Iterator[str]:
    """Yield a table of start-up and memory."""
    if not peers(results, "speeds"):
        return
    yield (
        "## Start and memory\n\nProcessor seconds of importing the library, and of reading the table into the form that it\n"
        "asks; megabytes at the peak of the process over all its releases. Theirs / ours.\n"
    )
    columns = [f"open {int(rows):,} | MB" for rows in sizes(results)]
    yield f"| | import | {' | '.join(columns)} |\n|---|---|{'---|---|' * len(columns)}"
    for peer in peers(results, "speeds"):
        found = results["speeds"][peer]
        start = next(iter(found.values()))["start"]
        cells = [f"{_figure(start['theirs'].get('cpu'))} / {_figure(start['ours'].get('cpu'))}"]
        for rows in sizes(results):
            of = found.get(rows, {"open": {"theirs": {}, "ours": {}}, "memory": {"theirs": None, "ours": None}})
            cells.append(f"{_figure(of['open']['theirs'].get('cpu'))} / {_figure(of['open']['ours'].get('cpu'))}")
            cells.append(f"{_figure(of['memory']['theirs'])} / {_figure(of['memory']['ours'])}")
        yield f"| {TITLES[peer]} | {' | '.join(cells)} |"
    yield ""


def errors(results: Results) -> Iterator[str]:
    """Yield tables of the root mean square error of each answer, and of the coverage of what is stated."""
    if not peers(results, "errors"):
        return
    yield (
        "## Error\n\nRoot mean square error of an answer at epsilon 1 and 1,000 rows: theirs / ours / the textbook's mechanism,\n"
        "and in brackets how many answers of theirs.\n"
    )
    yield f"| | {' | '.join(QUESTIONS)} |\n|---|{'---|' * len(QUESTIONS)}"
    for peer in peers(results, "errors"):
        found = results["errors"][peer]["1000"]
        yield f"| {TITLES[peer]} | {' | '.join(_error(found[q]) for q in QUESTIONS)} |"
    yield ""
    yield "### Stated errors\n\nShare of the 95% intervals that a library states of its answers which hold: theirs / ours.\n"
    yield f"| | {' | '.join(QUESTIONS)} |\n|---|{'---|' * len(QUESTIONS)}"
    for peer in peers(results, "errors"):
        found = results["errors"][peer]["1000"]
        cells = [f"{_share(found[q].get('theirs', {}))} / {_share(found[q].get('ours', {}))}" for q in QUESTIONS]
        yield f"| {TITLES[peer]} | {' | '.join(cells)} |"
    yield ""


def _error(found: Results) -> str:
    theirs = found.get("theirs", {})
    if "rmse" not in theirs:
        return _none(theirs)
    return (
        f"{_figure(theirs['rmse'])} / {_figure(found['ours']['rmse'])} / {_figure(found['theory'])} ({theirs['times']})"
    )


def _share(found: Results) -> str:
    return "no" if "coverage" not in found else f"{found['coverage']:.3f}"


def method(results: Results) -> Iterator[str]:
    """Yield the versions and how it was measured."""
    versions = results["versions"]
    yield "## How it was measured\n"
    yield (
        "On a machine of 2 cores and 24 GiB, beside other work: processor time is the first figure, and ratios of turns that\n"
        "alternate in one run say more than times. The clock runs over a release only, from the question to its value.\n"
    )
    stated = ", ".join(f"{TITLES[p]} {v}" for p, v in versions.items() if p in TITLES)
    yield f"Versions: {stated}; Sordino at {versions['sordino']}."


def _figure(value: float | None) -> str:
    if value is None:
        return "none"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.01 or value == 0 else f"{value:.2g}"
