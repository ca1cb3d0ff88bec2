"""Attacks on each library through its ordinary questions, ours among them: what bench/peers/side_by_side.py runs and keeps.

Each returns whether it succeeds, and the figures by which it does; `undecided` where a library was too slow for either answer.
Tables are tiny and chosen, as an attacker would choose them; bounds and epsilon are declared as ever.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Found = dict[str, Any]
UNIT = {"x": (0.0, 1.0)}


def table(bench: Any, name: str, columns: dict[str, pa.Array]) -> Path:
    """Return a Parquet file of a small table."""
    path: Path = bench.folder / f"{name}.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def ask(process: Any, question: Found, *, times: int, **more: Any) -> Found:
    """Return the answers to a question asked over again, for a third of the time that the process has."""
    found: Found = process.ask("ask", **question, times=times, limit=process.limit / 3, values=True, **more)
    return found


def bounded(kind: str, epsilon: float, lower: float, upper: float) -> Found:
    """Return a question of the column x."""
    return {"kind": kind, "column": "x", "epsilon": epsilon, "lower": lower, "upper": upper}


def low_bits(bench: Any, library: Any) -> Found:
    """Tell a sum of 0 from a sum of 1 by digits that floats of one have and of the other lack (Mironov 2012; Haney et al. 2022).

    Near 0 a float that came of adding noise to 1 is a multiple of 2^-53, as one that is noise alone is not. The events are
    fixed beforehand: that the answer is no multiple of 2^-k for k of 50 to 53, and that it is. What is shown is the greatest
    log of a lower bound of one chance over an upper bound of the other, at 95% for all of them together.
    """
    answers = []
    with bench.start(library, limit=3 * bench.options.seconds) as process:
        rest = 999 if library.relation == "replace" else 1000
        for name, cells in (("zero", [0.0] * 1000), ("one", [0.0] * rest + [1.0])):
            path = table(bench, name, {"x": pa.array(cells)})
            process.open(**bench.opening(path, library.relation, bounds=UNIT))
            found = ask(process, bounded("sum", 1.0, 0, 1), times=3000)
            if not found.get("values"):
                return refusal(found)
            answers.append(np.array(found["values"], dtype=float))
    shown = 0.0
    for power in (50, 51, 52, 53):
        fine = [np.ldexp(a, power) % 1 != 0 for a in answers]
        for events in (fine, [~f for f in fine]):
            for one, other in (events, events[::-1]):
                shown = max(shown, shown_epsilon(one, other, alpha=0.05 / 16))
    runs = min(len(a) for a in answers)
    most = shown_epsilon(np.ones(runs, bool), np.zeros(runs, bool), alpha=0.05 / 16)
    return {"succeeds": shown > 1, "undecided": most <= 1, "shown": shown, "claimed": 1.0, "runs": runs}


def shown_epsilon(one: Any, other: Any, *, alpha: float) -> float:
    """Return the loss that is shown by how often an event was seen on either side (Clopper, Pearson 1934)."""
    lower = 1 - binomial_upper(len(one) - int(one.sum()), len(one), alpha / 2)
    upper = binomial_upper(int(other.sum()), len(other), alpha / 2)
    return max(0.0, math.log(lower / upper)) if lower > 0 else 0.0


def binomial_upper(seen: int, runs: int, alpha: float) -> float:
    """Return the chance above which so few would be seen with less than alpha, by bisection of the binomial's sum."""
    if seen >= runs:
        return 1.0
    low, high = seen / runs, 1.0
    logs = [math.lgamma(runs + 1) - math.lgamma(k + 1) - math.lgamma(runs - k + 1) for k in range(seen + 1)]
    for _ in range(60):
        middle = (low + high) / 2
        terms = [c + k * math.log(middle) + (runs - k) * math.log1p(-middle) for k, c in enumerate(logs)]
        greatest = max(terms)
        total = greatest + math.log(sum(math.exp(t - greatest) for t in terms))
        low, high = (middle, high) if total > math.log(alpha) else (low, middle)
    return high


def float_sum(bench: Any, library: Any) -> Found:
    """Move a sum further than one row may, by rounding (Casacuberta, Shoup, Vadhan, Wagner 2022).

    A thousand rows lie in [M, M + 1], M = 2^50, chosen so that NumPy's sum of floats jumps where one of them moves: under replace
    a sum is declared to move by 1. Under add_remove that row is added, which is declared to move the sum by M + 1. The noise is
    made small to see the sum move.
    """
    base = float(2**50)
    before, after = jumping_rows(base)
    if library.relation != "replace":
        before, after = np.delete(after, 0), after
    declared = 1.0 if library.relation == "replace" else base + 1
    return moved(bench, library, (before, after), (base, base + 1), declared, epsilon=1e6)


def jumping_rows(base: float) -> tuple[Any, Any]:
    """Return the two tables, of twenty times a thousand that differ in a row, between which NumPy's sum moves most."""
    draw = np.random.Generator(np.random.PCG64(1))
    greatest, found = -1.0, (np.empty(0), np.empty(0))
    for _ in range(20):
        before = base + draw.integers(0, 5, 1000) / 4
        for place in range(0, 1000, 20):
            after = before.copy()
            after[place] = base + (1 if before[place] < base + 0.5 else 0)
            if abs(float(after.sum() - before.sum())) > greatest:
                greatest, found = abs(float(after.sum() - before.sum())), (before, after)
    return found


def whole_sum(bench: Any, library: Any) -> Found:
    """Move a sum of whole numbers further than one row may, by overflow: 2^62 is added to 2^62, all within [0, 2^62]."""
    top = 2**62
    before = np.array([top, 0], dtype=np.int64)
    after = np.array([top, top], dtype=np.int64)
    if library.relation != "replace":
        before = before[:1]
    return moved(bench, library, (before, after), (0, top), float(top), epsilon=1e3)


def moved(
    bench: Any, library: Any, rows: tuple[Any, Any], bounds: tuple[float, float], declared: float, *, epsilon: float
) -> Found:
    """Return how far a sum moves between two tables, as a multiple of what is declared; medians of answers of little noise."""
    middles = []
    with bench.start(library, limit=3 * bench.options.seconds) as process:
        for place, cells in enumerate(rows):
            path = table(bench, f"moved-{place}", {"x": pa.array(cells)})
            opened = process.open(**bench.opening(path, library.relation, bounds={"x": bounds}, epsilon=epsilon))
            found = ask(process, bounded("sum", epsilon, *bounds), times=9)
            if not found.get("values"):
                return refusal(opened if "error" in opened else found)
            middles.append(statistics.median(float(v) for v in found["values"]))
    times = abs(middles[1] - middles[0]) / declared
    return {"succeeds": not times <= 1.01, "times": times, "declared": declared}


CELLS: dict[str, float | None] = {"nan": math.nan, "inf": math.inf, "1e308": 1e308, "null": None}


def poison(bench: Any, library: Any) -> Found:
    """Change the kind of an answer by one cell: nan, an infinity, 1e308 or no value among 1,000 cells between 0 and 1."""
    rest = [i / 999 for i in range(999)]
    kinds: dict[str, dict[str, str]] = {}
    with bench.start(library, limit=3 * bench.options.seconds) as process:
        for name, cell in (("none", 0.5), *CELLS.items()):
            path = table(bench, f"poison-{name}", {"x": pa.array([*rest, cell], pa.float64())})
            opened = process.open(**bench.opening(path, library.relation, bounds=UNIT))
            for kind in ("count", "sum", "mean", "median"):
                found = opened if "error" in opened else ask(process, bounded(kind, 1.0, 0, 1), times=1)
                kinds.setdefault(kind, {})[name] = class_of(found)
    changed = {k: {n: c for n, c in of.items() if c != of["none"]} for k, of in kinds.items()}
    changed = {k: of for k, of in changed.items() if of}
    silent = any(c in ("nan", "inf") for of in changed.values() for c in of.values())
    raised = any(c.startswith("raises") for of in changed.values() for c in of.values())
    return {"succeeds": silent, "raises": raised, "kinds": kinds, "changed": changed}


def class_of(found: Found) -> str:
    """Return the kind of an answer: a number, nan, inf, null, or the error that was raised."""
    if "no" in found:
        return "no"
    if not found.get("values"):
        return f"raises {found.get('error', 'nothing')}"
    value = found["values"][0]
    if value is None:
        return "null"
    return "number" if math.isfinite(value) else "nan" if math.isnan(value) else "inf"


def averages(bench: Any, library: Any) -> Found:
    """Ask the same count 1,000 times at epsilon 0.5, and average: with no budget stated, and with one of ten such questions."""
    path = table(bench, "averages", {"x": pa.array([1.0] * 137 + [0.0] * 863)})
    if library.name == "opendp_vectors":
        return {"no": "its budgets are those of its Context"}
    found: Found = {}
    with bench.start(library, limit=3 * bench.options.seconds) as process:
        for name, releases in (("open", None), ("capped", 10)):
            changed = {"bounds": UNIT, "epsilon": 0.5, "releases": releases}
            process.open(**bench.opening(path, library.relation, **changed))
            asked = ask(process, bounded("count", 0.5, 0.5, 1), times=1000)
            found[name] = {"answers": asked.get("times", 0), "stopped": asked.get("error", "")}
            if asked.get("values"):
                found[name]["off by"] = abs(statistics.fmean(asked["values"]) - 137)
    capped = found["capped"]
    found["succeeds"] = capped["answers"] > 10
    found["undecided"] = capped["answers"] <= 10 and not capped["stopped"]
    return found


def restarts(bench: Any, library: Any) -> Found:
    """Spend a budget of ten questions, end the process, start it again on the same table, and ask on."""
    if library.name == "opendp_vectors":
        return {"no": "its budgets are those of its Context"}
    path = table(bench, "restarts", {"x": pa.array([1.0] * 137 + [0.0] * 863)})
    ledger = bench.folder / f"{library.name}.ledger"
    answers = []
    for _ in range(2):
        with bench.start(library, limit=3 * bench.options.seconds) as process:
            changed = {"bounds": UNIT, "epsilon": 0.5, "releases": 10, "ledger": str(ledger)}
            process.open(**bench.opening(path, library.relation, **changed))
            answers.append(ask(process, bounded("count", 0.5, 0.5, 1), times=12).get("times", 0))
    return {"succeeds": answers[1] > 0, "undecided": answers[0] < 10, "answers": answers}


def presence(bench: Any, library: Any) -> Found:
    """See a person by the name of a group that only this person is in, where group names are not public: delta 1e-6."""
    path = table(bench, "presence", {"k": pa.array(["a"] * 500 + ["b"] * 500 + ["alone"])})
    with bench.start(library, limit=3 * bench.options.seconds) as process:
        process.open(**bench.opening(path, library.relation, bounds={"k": None}))
        question = {"kind": "groups", "column": "k", "epsilon": 1.0, "keys": None, "delta": 1e-6}
        found = ask(process, question, times=1000)
    if not found.get("values"):
        return refusal(found)
    seen = sum("alone" in v for v in found["values"])
    lower = 1 - binomial_upper(found["times"] - seen, found["times"], 0.05) if seen else 0.0
    return {"succeeds": lower > 1e-6, "seen": seen, "runs": found["times"]}


HALVES = {"x": pa.array([0.0, 1.0] * 500)}
WIDE = 0.05  # epsilon of noise so wide that six answers agree by chance less than once in a million


def seeds(bench: Any, library: Any) -> Found:
    """Seed the generators that a process shares (random, NumPy's, torch's), ask, seed again and ask: is the noise the same?"""
    path = table(bench, "seeds", HALVES)
    with bench.start(library, limit=3 * bench.options.seconds) as process:
        process.open(**bench.opening(path, library.relation, bounds=UNIT, epsilon=WIDE))
        found = [ask(process, bounded("count", WIDE, 0.5, 1), times=6, seed=7) for _ in range(2)]
    if not found[0].get("values"):
        return refusal(found[0])
    return {"succeeds": found[0]["values"] == found[1].get("values")}


def forks(bench: Any, library: Any) -> Found:
    """Fork two children of a process that has asked before, and compare their noise: equal noise cancels out."""
    path = table(bench, "forks", HALVES)
    with bench.start(library, limit=6 * bench.options.seconds) as process:
        process.open(**bench.opening(path, library.relation, bounds=UNIT, epsilon=WIDE))
        first = ask(process, bounded("count", WIDE, 0.5, 1), times=1)
        if not first.get("values"):
            return refusal(first)
        found = process.ask("fork", **bounded("count", WIDE, 0.5, 1))
    if "no" in found or "error" in found:
        return refusal(found)
    children = found["values"]
    if any(child is None or isinstance(child, str) for child in children):
        return {"succeeds": False, "children": [str(child or "ended") for child in children]}
    return {"succeeds": children[0] == children[1], "children": ["numbers", "numbers"]}


def refusal(found: Found) -> Found:
    """Return why there is nothing to attack."""
    return {name: found[name] for name in ("no", "error", "says") if name in found}


ATTACKS: dict[str, Callable[[Any, Any], Found]] = {
    "low bits": low_bits,
    "float sum": float_sum,
    "whole sum": whole_sum,
    "poison": poison,
    "averages": averages,
    "restarts": restarts,
    "presence": presence,
    "seeds": seeds,
    "forks": forks,
}
