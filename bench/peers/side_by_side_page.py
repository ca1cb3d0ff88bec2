"""The page of Sordino beside other libraries: what bench/peers/side_by_side.py writes from its results."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
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
METHOD = """\
The table is the generated census: a region, an age and a gain in each row, without missing cells. The questions, at epsilon 1:
the number of people over 64, the sum of gains within 0 and 100,000, the mean and the median age within 17 and 90, and the
number of people in each of six regions. Sordino is asked under add_remove, and under replace beside diffprivlib, which supports
only replace; the other libraries support add_remove. Each release is timed from question to value. The first is left out.

The machine has 2 cores and 24 GiB. It was shared, and other work ran on it all the time
({load}).
So the tables give processor time, and ratios say more than times, because both sides take turns in one run. Each figure is the
median of five turns; in a turn, a short release is repeated many times. A library was stopped if a release took longer than a
minute by the clock (Tumult: two and a half), or if reading its table took longer than five. The table then says so, and states
how long the processor worked for it, which is little where much else ran.
The threads and child processes of a library are counted too.

`python bench/peers/side_by_side.py --make-venvs` installs each library at its pinned version (`bench/peers/*.txt`). `--peers`,
`--rows` and `--parts` choose what to measure, and `--write` writes this page. This is how each library was asked:
"""
AHEAD = 0.95  # below this share of ours a peer is ahead; nearer is a draw

INTRODUCTION = """\
# Sordino beside other libraries

`python bench/peers/side_by_side.py --write` writes this page from `bench/peers/results.json`, where the same script keeps what it
measures; nobody edits the page. Each library gets the same table, the same questions and the same epsilon, in a process and an
environment of its own. If Sordino has the library's neighbor relation, Sordino is asked under that relation. Nothing was tuned
against a peer.
"""


def page(results: Results) -> str:
    """Return the page: where others are ahead first, then each table of figures, then how they were measured."""
    sections = (ahead, attacks, time, memory, errors, noise, accounting, surveys, synthesis, method)
    return "\n".join([INTRODUCTION, *(line for section in sections for line in section(results))]).rstrip("\n") + "\n"


def peers(results: Results, part: str) -> list[str]:
    """Return the libraries that a part has figures of, in the order of this page."""
    return [name for name in TITLES if name in results.get(part, {})]


def sizes(results: Results) -> list[str]:
    """Return the numbers of rows that were run, the fewest first."""
    return sorted({rows for found in results.get("speeds", {}).values() for rows in found}, key=int)


def ahead(results: Results) -> Iterator[str]:
    """Yield where a peer takes less time, has less error, or less memory than ours."""
    yield "## Where others are ahead\n"
    lines = [*_faster(results), *_nearer(results), *_elsewhere(results)]
    yield from lines or ["Nowhere in these figures."]
    yield ""
    yield from _worth(results)


def _worth(results: Results) -> Iterator[str]:
    """Yield in two sentences who answers a small question faster, and what ours does in its milliseconds."""
    rows = sizes(results)[:1]
    costs: dict[str, list[float]] = {}
    ours: list[float] = []
    for peer in peers(results, "speeds"):
        for found in results["speeds"][peer].get(rows[0], {"questions": {}})["questions"].values():
            if "ratio" in found:
                ours.append(1000 * statistics.median(found["cpu"]["ours"]))
                costs.setdefault(peer, []).append(1000 * statistics.median(found["cpu"]["theirs"]))
    fast = {peer: of for peer, of in costs.items() if max(of) < min(ours)}
    if not fast or "durable" not in results:
        return
    names = sorted(fast, key=lambda peer: statistics.median(fast[peer]))
    *rest, last = (f"{TITLES[p]} ({_figure(min(fast[p]))} to {_figure(max(fast[p]))} ms)" for p in names)
    shown = f"{'; '.join(rest)}; and {last}" if rest else last
    disk = results["durable"]["sordino"][rows[0]]["ratio"]
    text = (
        f"For every small question, a bare function call is faster than an `ask`. Over {int(rows[0]):,} rows, {shown} answer "
        f"well before Sordino, which takes {_figure(min(ours))} to {_figure(max(ours))} ms of processor time with its account in "
        f"memory, and {_figure(disk)} times as long for a count with its account on disk. In that time Sordino makes a plan that "
        "proves the sensitivity from the declaration, refuses what the budget or the declaration does not allow, records a "
        "charge before it touches data, and draws exact noise from a secure generator. A bare call leaves all this to its caller."
    )
    yield textwrap.fill(text, 130) + "\n"


def _faster(results: Results) -> Iterator[str]:
    for peer in peers(results, "speeds"):
        for rows, found in sorted(results["speeds"][peer].items(), key=lambda item: int(item[0])):
            ratios = {q: found["questions"].get(q, {}).get("ratio") for q in QUESTIONS}
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


def _elsewhere(results: Results) -> Iterator[str]:
    """Yield where a peer draws noise faster, states less for the same list, or is ahead in a survey or in memory."""
    for law in ("laplace", "gaussian"):
        for peer in peers(results, "noise"):
            found = results["noise"][peer].get(law, {})
            if "theirs" in found and found["theirs"] > found["ours"]:
                yield f"- {TITLES[peer]}, {law} draws a second: {_figure(found['theirs'] / found['ours'])} times ours."
    for peer in peers(results, "accounting"):
        for name, found in results["accounting"][peer].items():
            theirs, ours = (found.get(side, {}).get("epsilon") for side in ("theirs", "ours"))
            if theirs is not None and ours is not None and theirs < ours:
                yield f"- {TITLES[peer]}, epsilon of {name} at delta 1e-6: {theirs:.6g} for {ours:.6g}."
    for peer in peers(results, "surveys"):
        for name, found in results["surveys"][peer].items():
            if "theirs" not in found:
                continue
            doubt = 2 / math.sqrt(found["shares"])  # of a ratio of two root mean squares of normal errors
            least = {"client": AHEAD, "server": AHEAD, "rmse": 1 - doubt}
            won = [of for of in least if found["theirs"][of] < least[of] * found["ours"][of]]
            shares = [f"{of} {_figure(found['theirs'][of] / found['ours'][of])}" for of in won]
            if shares:
                yield f"- {TITLES[peer]}, survey by {name}, as a share of ours: {', '.join(shares)}."
    for peer in peers(results, "speeds"):
        for rows, found in sorted(results["speeds"][peer].items(), key=lambda item: int(item[0])):
            theirs, ours = found["memory"]["theirs"], found["memory"]["ours"]
            if theirs is not None and theirs < AHEAD * ours:
                yield f"- {TITLES[peer]}, peak memory at {int(rows):,} rows: {_figure(theirs)} MB for {_figure(ours)}."
    yield "- Synthetic tables: [their page](synth-beside-peers.md) begins with what is ahead of `synth.fit`."


def _doubt(found: Results) -> float:
    """Return twice the standard error of a ratio of root mean squares of Laplace noise, whose kurtosis is 6."""
    return 2 * math.sqrt(sum(5 / 4 / found[side]["times"] for side in ("ours", "theirs")))


def time(results: Results) -> Iterator[str]:
    """Yield tables of the processor seconds of a release."""
    if not peers(results, "speeds"):
        return
    yield (
        "## Time\n\n"
        "Processor milliseconds per release, theirs / ours in the same run. In bold: their time divided by ours (below 1\n"
        "they are faster). In brackets: the same ratio of wall times. All are medians of alternating turns.\n"
    )
    for rows in sizes(results):
        yield f"### {int(rows):,} rows\n"
        yield f"| | {' | '.join(QUESTIONS)} |\n|---|{'---|' * len(QUESTIONS)}"
        for peer in peers(results, "speeds"):
            if rows in results["speeds"][peer]:
                cells = [_cost(results["speeds"][peer][rows]["questions"].get(q)) for q in QUESTIONS]
                yield f"| {TITLES[peer]} | {' | '.join(cells)} |"
        yield ""


def _cost(found: Results | None) -> str:
    if found is None:
        return "not run"
    if "ratio" not in found:
        return _none(found["none"])
    theirs, ours = (statistics.median(found["cpu"][side]) * 1000 for side in ("theirs", "ours"))
    walls = [statistics.median(found["wall"][side]) for side in ("theirs", "ours")]
    return f"{_figure(theirs)} / {_figure(ours)} **{_figure(found['ratio'])}** ({_figure(walls[0] / walls[1])})"


def _none(found: Results) -> str:
    if "no" in found:
        return "no"
    return found["says"] if found["error"] in ("stopped", "ended") else f"raises {found['error']}"


def memory(results: Results) -> Iterator[str]:
    """Yield a table of start-up and memory."""
    if not peers(results, "speeds"):
        return
    yield (
        "## Start and memory\n\n"
        "Processor seconds for importing the library and for reading the table into the form that it needs, and\n"
        "the peak memory of the process over all its releases, in megabytes. Theirs / ours.\n"
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
        "## Error\n\n"
        "Root mean square error of an answer at epsilon 1 and 1,000 rows: theirs / ours / the textbook's mechanism. In\n"
        "brackets: the number of their answers.\n"
    )
    yield f"| | {' | '.join(QUESTIONS)} |\n|---|{'---|' * len(QUESTIONS)}"
    for peer in peers(results, "errors"):
        found = results["errors"][peer]["1000"]
        yield f"| {TITLES[peer]} | {' | '.join(_error(found[q]) for q in QUESTIONS)} |"
    yield ""
    yield "### Stated errors\n\nShare of the 95% intervals stated by a library that contain the true answer: theirs / ours.\n"
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
    if theirs["times"] < 30:
        return f"too few answers ({theirs['times']})"
    return (
        f"{_figure(theirs['rmse'])} / {_figure(found['ours']['rmse'])} / {_figure(found['theory'])} ({theirs['times']})"
    )


def _share(found: Results) -> str:
    if "coverage" not in found:
        return "no"
    return f"{found['coverage']:.3f}" if found["intervals"] >= 30 else "too few"


ATTACKS = {
    "low bits": "distinguish a sum of 0 from a sum of 1 by the low digits of floats (Mironov 2012; Haney et al. 2022)",
    "float sum": "move a sum of floats further than one row may, by rounding (Casacuberta et al. 2022)",
    "whole sum": "move a sum of whole numbers further than one row may, by overflow",
    "poison": "turn an answer into nan or an infinity by one cell: nan, an infinity, 1e308, or a missing cell",
    "averages": "average 1,000 answers to the same count, although the stated budget covers ten",
    "restarts": "spend that budget, start the process again, and go on asking",
    "presence": "find a person by the name of a group that nobody else is in, where names are not public, at delta 1e-6",
    "seeds": "repeat noise by seeding the generators that the whole process shares",
    "forks": "find the same noise in two forked children",
}


def attacks(results: Results) -> Iterator[str]:
    """Yield which attacks succeed against whom, and by which figures."""
    found = results.get("attacks", {})
    names = [name for name in ("sordino", *TITLES) if name in found]
    if not names:
        return
    yield (
        "## Attacks\n\n"
        "Each attack uses only the ordinary questions of a library, and is run on ours too. The figures are what the runs\n"
        "showed. A run ends after 30 seconds (for OpenDP's Context and Tumult after up to four minutes), so slow libraries\n"
        "answered less often than fast ones.\n"
    )
    titles = [TITLES.get(name, "Sordino") for name in names]
    yield f"| attack | {' | '.join(titles)} |\n|---|{'---|' * len(names)}"
    for attack, text in ATTACKS.items():
        yield f"| {text} | {' | '.join(_outcome(attack, found[name].get(attack)) for name in names)} |"
    yield ""
    yield from _raising(found, names)


def _outcome(attack: str, found: Results | None) -> str:
    """Return whether an attack succeeds, with the figure that says so."""
    if found is None:
        return "not run"
    if "succeeds" not in found:
        return _none(found) if found.get("error") in (None, "stopped", "ended") else f"refused: {found['error']}"
    if found.get("undecided"):
        return f"too slow to tell{DETAILS[attack](found)}"
    return f"{'**succeeds**' if found['succeeds'] else 'fails'}{DETAILS[attack](found)}"


CHILDREN = {"numbers": "", "ended": ": children hang and give no answer"}
DETAILS: dict[str, Callable[[Results], str]] = {
    "low bits": lambda f: f", showed epsilon {f['shown']:.2f} of {f['claimed']:g}, {f['runs']:,} runs",
    "float sum": lambda f: f", moved {_figure(f['times'])} times what is declared",
    "whole sum": lambda f: f", moved {_figure(f['times'])} times what is declared",
    "poison": lambda f: "" if f["succeeds"] else ", but a cell raises an error" if f["raises"] else "",
    "averages": lambda f: f": {f['capped']['answers']:,} answers",
    "restarts": lambda f: f": {f['answers'][1]} more answers",
    "presence": lambda f: f", seen {f['seen']:,} of {f['runs']:,} times",
    "seeds": lambda _found: "",
    "forks": lambda f: CHILDREN.get(f["children"][0], f": children are refused ({f['children'][0]})"),
}


def _raising(found: Results, names: list[str]) -> Iterator[str]:
    """Yield what a cell changed of the kind of an answer, and how a count is averaged where no budget is stated."""
    yield "How one cell among 1,000 changed the kind of an answer:\n"
    for name in [n for n in names if "poison" in found[n]]:
        changed = found[name]["poison"].get("changed", {})
        says = "; ".join(
            f"{kind} with {', '.join(f'{cell}: {outcome}' for cell, outcome in of.items())}"
            for kind, of in changed.items()
        )
        yield f"- {TITLES.get(name, 'Sordino')}: {says or 'nothing'}."
    yield "\nAnswers to the same count, asked 1,000 times at epsilon 0.5 with no stated budget:\n"
    for name in names:
        asked = found[name].get("averages", {}).get("open")
        if asked:
            end = f", then {asked['stopped']}" if asked["stopped"] else ""
            off = f"; their mean is off by {_figure(asked['off by'])}" if "off by" in asked else ""
            yield f"- {TITLES.get(name, 'Sordino')}: {asked['answers']:,} answers{end}{off}."
    yield ""


def noise(results: Results) -> Iterator[str]:
    """Yield a table of draws of noise."""
    names = peers(results, "noise")
    if not names:
        return
    yield (
        "## Noise\n\n"
        "Millions of draws per processor second from each library's own sampler of noise on whole numbers, at scale 10:\n"
        "theirs / ours, medians of alternating turns.\n"
    )
    yield "| | Laplace | Gaussian | theirs are |\n|---|---|---|---|"
    for peer in names:
        found = results["noise"][peer]
        if not any("theirs" in f for f in found.values()):
            continue
        cells = [_rate(found.get(law, {"no": ""})) for law in ("laplace", "gaussian")]
        yield f"| {TITLES[peer]} | {' | '.join(cells)} | {found.get('laplace', {}).get('kind', '')} |"
    without = [TITLES[p] for p in names if not any("theirs" in f for f in results["noise"][p].values())]
    yield f"\nLibraries without a sampler meant for users: {', '.join(without)}.\n" if without else ""


def _rate(found: Results) -> str:
    return f"{_figure(found['theirs'] / 1e6)} / {_figure(found['ours'] / 1e6)}" if "theirs" in found else _none(found)


def accounting(results: Results) -> Iterator[str]:
    """Yield a table of the epsilon that is stated for a finished list."""
    names = peers(results, "accounting")
    if not names:
        return
    lists = list(dict.fromkeys(name for peer in names for name in results["accounting"][peer]))
    yield (
        "## Accounting\n\n"
        "Epsilon at delta 1e-6 that a library states for a finished list of answers: sums of real numbers with\n"
        "sensitivity 1, with Gaussian noise of standard deviation 20 (the single one: 5) or Laplace noise of scale 20. Theory\n"
        "is the exact epsilon of continuous noise. Every figure is an upper bound, so a smaller one is tighter.\n"
    )
    yield f"| | {' | '.join(lists)} |\n|---|{'---|' * len(lists)}"
    some = results["accounting"][names[0]]
    whole = next(p for p in names if any("ours" in f for f in results["accounting"][p].values()))
    some = results["accounting"][whole]
    yield f"| theory | {' | '.join(_epsilon(some[name].get('theory')) for name in lists)} |"
    yield f"| Sordino | {' | '.join(_epsilon(some[name].get('ours', {}).get('epsilon')) for name in lists)} |"
    for peer in names:
        cells = [results["accounting"][peer].get(name, {"no": ""}) for name in lists]
        if any("theirs" in cell for cell in cells):
            yield f"| {TITLES[peer]} | {' | '.join(_stated(cell) for cell in cells)} |"
    without = [TITLES[p] for p in names if not any("theirs" in cell for cell in results["accounting"][p].values())]
    yield (
        f"\nLibraries without an accountant that users can ask about a list of releases: {', '.join(without)}.\n"
        if without
        else ""
    )


def _epsilon(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def _stated(found: Results) -> str:
    return _epsilon(found["theirs"].get("epsilon")) or _none(found["theirs"]) if "theirs" in found else _none(found)


def surveys(results: Results) -> Iterator[str]:
    """Yield a table of surveys in the local model."""
    names = [p for p in peers(results, "surveys") if any("theirs" in f for f in results["surveys"][p].values())]
    if not names:
        return
    yield (
        "## Surveys\n\n"
        "10,000 respondents at epsilon 1, with shares that fall as 1/k over 14 labels (GRR) or 64 labels (the others).\n"
        "The table gives processor milliseconds of all clients and of the server, and the root mean square error of a share:\n"
        "theirs / ours, medians. multi-freq-ldpy clips shares at 0 and scales them to sum to one, so ours are projected beside\n"
        "it. Theory is for raw shares.\n"
    )
    yield "| | clients | server | error | theory |\n|---|---|---|---|---|"
    for peer in names:
        for name, found in results["surveys"][peer].items():
            if "theirs" not in found:
                yield f"| {TITLES[peer]}, {name} | {_none(found)} | | | |"
                continue
            pairs = [
                (found["theirs"][of], found["ours"][of], by)
                for of, by in (("client", 1e3), ("server", 1e3), ("rmse", 1))
            ]
            cells = [f"{_figure(theirs * by)} / {_figure(ours * by)}" for theirs, ours, by in pairs]
            yield f"| {TITLES[peer]}, {name} | {' | '.join(cells)} | {_figure(found['theory'])} |"
    yield ""


def synthesis(_results: Results) -> Iterator[str]:
    """Yield where synthetic tables are compared."""
    yield (
        "## Synthetic tables\n\n"
        "[A page of their own](synth-beside-peers.md) compares MST, AIM and PrivBayes of dpmm and of SmartNoise synth\n"
        "over tables of many shapes. The package mbi itself does inference only and has no mechanism: its MST and AIM are run\n"
        "there through those two.\n"
    )


ASKED = {
    "sordino": "`ask` of a curator over an Arrow table in memory, with a budget and with its account in memory.",
    "opendp": "a `Context` over a Polars frame in memory, renewed after 50 questions. It searches for the scale in each query.",
    "opendp_vectors": "its framework's measurements over NumPy arrays; scales follow from the sensitivity that its map states.",
    "diffprivlib": "`tools` over NumPy arrays. Its neighbors differ in one row (replace), and the number of rows is public.",
    "pydp": "one algorithm object per release, over lists. `noise_confidence_interval` raises TypeError in this version.",
    "smartnoise_sql": "SQL over a pandas frame. Its epsilon is per column, and an average has several columns, so epsilon is "
    "divided by what `get_privacy_cost` states, to make losses equal. Groups come from the table, above a threshold.",
    "pipelinedp": "one engine per release, over a list of tuples, with its local backend; each row is a unit.",
    "tumult": "a `Session` on Spark with two local threads and a cached frame; a thousand rows only. The processor time of "
    "Python workers that Spark ended meanwhile is missing, so its times are too short if anything.",
    "qrlew": "SQL that it rewrites for PostgreSQL, run by DuckDB. It has only Gaussian noise, at (1, 1e-6) where ours is at 1, "
    "and knows the number of rows. Each row is a unit, declared unique.",
    "dp_accounting": "its accountant of privacy loss distributions, at its own grid.",
    "pure_ldp": "one respondent at a time.",
    "multi_freq_ldpy": "one respondent at a time, compiled by numba before the clock starts.",
}


def method(results: Results) -> Iterator[str]:
    """Yield how each was asked and measured, and the versions."""
    versions = results["versions"]
    yield "## How it was measured\n"
    yield METHOD.format(load=_load(results))
    for name, text in ASKED.items():
        if name in versions:
            at = _commits(results) if name == "sordino" else versions[name]
            yield f"- {TITLES.get(name, 'Sordino')} {at}: {text}"


def _commits(results: Results) -> str:
    """Return the commits of ours that were measured, with how many runs each had where there are several."""
    runs = Counter(results["commits"].values()).most_common()
    return "at " + (runs[0][0] if len(runs) == 1 else ", ".join(f"{commit} ({n} runs)" for commit, n in runs))


def _load(results: Results) -> str:
    """Return the load of the machine over the runs, in words."""
    loads = sorted(results["loads"].values())
    return f"a load average of {loads[0]:.0f} to {loads[-1]:.0f}, {statistics.median(loads):.0f} in the middle"


def _figure(value: float | None) -> str:
    if value is None:
        return "none"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.01 or value == 0 else f"{value:.2g}"
