"""How long exact sensitivities over a finite universe take, against the size of the universe, beside enumeration.

Run `python bench/sensitivity.py [--json]`. Tables have half of the universe, distances are within 1 and 10; each figure
is the time of one call, witness included. Enumeration computes the variance of every table once and compares each with
its neighbors; it stops after the first size that takes longer than two seconds, and larger sizes are counted, not run.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from sordino import sensitivity as sens

SIZES = (1_000, 10_000, 100_000)
DISTANCES = (1, 10)
LOCAL = ("mean", "median", "quantile:0.9", "var", "std")
GLOBAL = {"sum": 100_000, "mean": 100_000, "median": 100_000, "quantile:0.9": 100_000, "var": 10_000, "std": 10_000}
RELATIONS = ("add_remove", "replace")
SMALL = range(8, 41, 2)
PATIENCE = 2.0


def run() -> dict[str, Any]:
    """Measure every cell; return plain figures (seconds, megabytes)."""
    rng = np.random.Generator(np.random.PCG64(7))
    cells: list[dict[str, Any]] = []
    for size in SIZES:
        universe = rng.lognormal(3, 1, size)
        table = rng.choice(universe, size // 2, replace=False)
        for relation in RELATIONS:
            for k in DISTANCES:
                for query in LOCAL:
                    start = time.perf_counter()
                    found = sens.local_sensitivity(query, universe, table, neighbors=relation, within=k)
                    cells.append(_cell("local", query, relation, k, size, start, found))
                for query, most in GLOBAL.items():
                    if size <= most:
                        start = time.perf_counter()
                        found = sens.global_sensitivity(query, universe, size=size // 2, neighbors=relation, within=k)
                        cells.append(_cell("global", query, relation, k, size, start, found))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
    return {"cells": cells, "peak_megabytes": round(peak), "enumeration": _enumeration(rng)}


def main() -> None:
    """Print the figures as tables, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    figures = run()
    if as_json:
        print(json.dumps(figures, indent=2))
        return
    print("seconds a call, at N =" + "".join(f"{size:>12,}" for size in SIZES))
    rows: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
    for cell in figures["cells"]:
        key = (cell["scope"], cell["query"], cell["relation"], cell["within"])
        rows.setdefault(key, {})[cell["universe"]] = cell
    for (scope, query, relation, k), row in sorted(rows.items()):
        times = "".join(
            f"{row[size]['seconds']:>12.4f}" + ("" if row[size]["exact"] else "*") if size in row else f"{'-':>12}"
            for size in SIZES
        )
        print(f"{scope:>7} {query:<13}{relation:<11}{k:>3}{times}")
    print(f"* a bound; peak memory {figures['peak_megabytes']} MB")
    print("\nglobal var, replace within 1: enumeration beside the algorithm")
    print(f"{'N':>4}{'pairs':>12}{'enumeration s':>16}{'algorithm s':>14}")
    for row in figures["enumeration"]:
        slow = "-" if row["enumeration_seconds"] is None else f"{row['enumeration_seconds']:.4f}"
        print(f"{row['universe']:>4}{row['pairs']:>12.2e}{slow:>16}{row['algorithm_seconds']:>14.4f}")


def _cell(scope: str, query: str, relation: str, k: int, size: int, start: float, found: sens.Change) -> dict[str, Any]:
    return {
        "scope": scope,
        "query": query,
        "relation": relation,
        "within": k,
        "universe": size,
        "seconds": round(time.perf_counter() - start, 5),
        "exact": found.exact,
    }


def _enumeration(rng: np.random.Generator) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    patient = True
    for size in SMALL:
        universe = rng.lognormal(3, 1, size)
        start = time.perf_counter()
        ours = sens.global_sensitivity("var", universe, size=size // 2, neighbors="replace", within=1)
        seconds = time.perf_counter() - start
        slow = None
        if patient:
            start = time.perf_counter()
            truth = _every_exchange(universe, size // 2)
            slow = round(time.perf_counter() - start, 5)
            patient = slow < PATIENCE
            if not math.isclose(truth, ours.value, rel_tol=1e-9):
                raise AssertionError(f"N={size}: {ours.value} is not {truth}")
        pairs = math.comb(size, size // 2) * (size // 2) * (size - size // 2) // 2
        rows.append(
            {
                "universe": size,
                "pairs": pairs,
                "enumeration_seconds": slow,
                "algorithm_seconds": round(seconds, 5),
            }
        )
    return rows


def _every_exchange(universe: np.ndarray[Any, np.dtype[np.float64]], size: int) -> float:
    """Return the largest change of the variance over all tables of `size` (as sets of bits) and all exchanges of a record."""
    values = universe - universe.mean()
    tables = np.arange(2**values.size, dtype=np.uint32)
    tables = tables[np.bitwise_count(tables) == size]
    first, second = np.zeros(tables.size), np.zeros(tables.size)
    for bit, value in enumerate(values):
        inside = (tables >> bit) & 1
        first += inside * value
        second += inside * value**2
    variance = second / size - (first / size) ** 2
    place = np.zeros(2**values.size, dtype=np.uint32)
    place[tables] = np.arange(tables.size)
    most = 0.0
    for out in range(values.size):
        for into in range(out):  # each pair once
            here = np.flatnonzero(((tables >> out) & 1 == 1) & ((tables >> into) & 1 == 0))
            there = place[tables[here] ^ np.uint32((1 << out) | (1 << into))]
            most = max(most, float(np.abs(variance[there] - variance[here]).max()))
    return most


if __name__ == "__main__":
    main()
