"""Tabulations beside separate asks, synthetic rows and the reference optimum, and nested areas at scale.

python bench/tabulations.py [--rows 30000] [--runs 5] [--json]
python bench/tabulations.py --areas 100000

The table is made up, in the shape of an extract of the American Community Survey: twelve columns, 5,857 cells in its 66 two-way
tables, asked for at rho .0119 in all; where each is asked for by itself, 19% of the cells are below 0. `--areas` tabulates that
number of areas by 50 cells, under counties and states, from the rows to the tables with intervals, and says what it took.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sordino as sd

SIZES = (29, 16, 14, 12, 9, 9, 7, 6, 5, 5, 2, 2)
RHO = "0.0119"
Pair = tuple[str, str]
Cells = dict[Pair, Any]


def make_people(rows: int) -> tuple[pa.Table, sd.Domain]:
    """Return rows whose columns are independent within 12 classes, with skewed shares of values."""
    draws = np.random.default_rng(33)
    classes = draws.choice(12, rows, p=draws.dirichlet(np.full(12, 1.0)))
    columns: dict[str, Any] = {}
    domain: dict[str, Any] = {}
    for place, size in enumerate(SIZES):
        shares = np.cumsum(draws.dirichlet(np.full(size, 0.12), 12), axis=1)
        codes = (draws.random((rows, 1)) > shares[classes]).sum(axis=1)
        columns[f"c{place}"] = np.minimum(codes, size - 1)
        domain[f"c{place}"] = sd.Integer(0, size - 1)
    return pa.table(columns), sd.Domain(domain)


def count_pairs(table: pa.Table) -> Cells:
    """Return the two-way tables of rows."""
    codes = {name: table.column(name).to_numpy() for name in table.column_names}
    sizes = dict(zip(table.column_names, SIZES, strict=True))
    cells: Cells = {}
    for one, other in itertools.combinations(table.column_names, 2):
        place = codes[one] * sizes[other] + codes[other]
        cells[one, other] = np.bincount(place.astype(np.int64), minlength=sizes[one] * sizes[other])
    return cells


def released_cells(tables: Mapping[Any, pa.Table]) -> Cells:
    """Return the counts of released tables."""
    return {pair: tables[pair].column("count").to_numpy() for pair in tables}


def describe_errors(cells: Cells, exact: Cells) -> dict[str, float]:
    """Return the error a cell, the share of negative cells, and how many totals the tables have."""
    gaps = np.concatenate([cells[pair] - exact[pair] for pair in exact])
    flat = np.concatenate([cells[pair] for pair in exact])
    totals = {round(float(cells[pair].sum()), 3) for pair in exact}
    return {
        "rms": float(np.sqrt(np.square(gaps, dtype=np.float64).mean())),
        "negative": float((flat < 0).mean()),
        "totals": len(totals),
    }


def reference_rms() -> float:
    """Return the least error a cell of unbiased estimates with Gaussian noise, add_remove, by its closed form.

    Of the parts of all two-way tables (the total, each column, each pair), part A costs c_A / (2 s_A) in rho and adds v_A s_A
    to the sum of squared errors, so the least sum is (sum of sqrt(c_A v_A))^2 / (2 rho), here for two-way tables alone.
    """
    pairs = list(itertools.combinations(SIZES, 2))
    # A cell of an a x b table has s / (ab)^2 of the total, s (1 - 1/a) / b^2 of column a, s (1 - 1/a)(1 - 1/b) of the pair.
    roots = [math.sqrt(sum(1 / (a * b) for a, b in pairs))]
    for place, a in enumerate(SIZES):
        others = SIZES[:place] + SIZES[place + 1 :]
        roots.append((1 - 1 / a) * math.sqrt(sum(a / b for b in others)))
    roots += [(1 - 1 / a) * (1 - 1 / b) * math.sqrt(a * b) for a, b in pairs]
    return sum(roots) / math.sqrt(2 * float(RHO) * sum(a * b for a, b in pairs))


def compare(rows: int, runs: int) -> dict[str, Any]:
    """Return the errors of each way at the same loss, the mean over runs."""
    table, domain = make_people(rows)
    exact = count_pairs(table)
    pairs = list(exact)

    def ask(finish: Any) -> Callable[[sd.Curator, Any], Cells]:
        def tabulate(people: sd.Curator, _: Any) -> Cells:
            return released_cells(people.ask(sd.tabulate([list(p) for p in pairs], finish=finish), rho=RHO).tables)

        return tabulate

    def ask_apart(people: sd.Curator, _: Any) -> Cells:
        share = sd.ZCDP(sd.ZCDP(RHO, "1e-6").rho / len(pairs), "1e-6")
        cells: Cells = {}
        for pair in pairs:
            answer = people.ask(
                sd.sql("SELECT {0}, {1}, COUNT(*) AS n FROM data GROUP BY {0}, {1}".format(*pair)), rho=share.rho
            )
            cells[pair] = answer.table.column("n").to_numpy()
        return cells

    def draw(people: sd.Curator, rng: Any) -> Cells:
        model = sd.synth.fit(people, rho=RHO, rng=rng)
        return count_pairs(model.sample(rows, rng=rng).select(table.column_names))

    ways = {"asked apart": ask_apart, "raw": ask("raw"), "linear": ask("linear"), "whole": ask("whole"), "rows": draw}
    answer: dict[str, Any] = {"rows": rows, "runs": runs, "cells": sum(map(len, exact.values())), "rho": RHO}
    answer["exact cells below 53"] = float((np.concatenate(list(exact.values())) < 53).mean())
    answer["reference rms"] = reference_rms()
    for name, way in ways.items():
        results = []
        # Rows of a model take a minute each.
        for seed in range(1 if name == "rows" else runs):
            people = sd.protect(
                table,
                domain=domain,
                neighbors="add_remove",
                privacy_unit="row",
                budget=sd.ZCDP(1, "1e-6"),
                ledger=None,
                rng=sd.Rng.seeded(seed),
            )
            results.append(describe_errors(way(people, sd.Rng.seeded(100 + seed)), exact))
        answer[name] = {key: float(np.mean([result[key] for result in results])) for key in results[0]}
    return answer


def make_country(areas: int) -> tuple[pa.Table, pa.Table, sd.Domain]:
    """Return rows of people in small areas, the public table of areas in counties in states, and the declaration."""
    draws = np.random.default_rng(1)
    counties = max(1, areas // 33)
    states = max(1, counties // 60)

    def nest(below: int, above: int) -> Any:
        return np.sort(np.concatenate([np.arange(above), draws.integers(0, above, below - above)]))

    names = pa.array([f"t{i:06}" for i in range(areas)])
    county_of = nest(areas, counties)
    state_of = nest(counties, states)[county_of]
    nested = pa.table(
        {"state": [f"s{i:03}" for i in state_of], "county": [f"c{i:05}" for i in county_of], "tract": names}
    )
    rows = areas * 60
    kinds = draws.choice(50, rows, p=draws.dirichlet(np.ones(50)))
    people = pa.table({"tract": names.take(pa.array(draws.integers(0, areas, rows))), "kind": kinds})
    return people, nested, sd.Domain({"tract": sd.Category(names.to_pylist()), "kind": sd.Integer(0, 49)})


def tabulate_areas(areas: int) -> dict[str, Any]:
    """Return the processor time and the most memory that a tabulation of nested areas took, and whether tables add up."""
    rows, nested, domain = make_country(areas)
    people = sd.protect(
        rows,
        domain=domain,
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.ZCDP(1, "1e-6"),
        ledger=None,
        rng=sd.Rng.seeded(1),
    )
    before = time.process_time()
    levels = {"columns": ["state", "county", "tract"], "areas": nested}
    answer = people.ask(sd.tabulate([["tract", "kind"], ["county", "kind"], ["state"]], levels=levels), rho="0.5")
    tables = {name: table.column("count").to_numpy() for name, table in answer.tables.items()}
    spent = time.process_time() - before
    status = Path("/proc/self/status").read_text()
    return {
        "areas": areas,
        "cells": len(answer.keys[0].labels),
        "processor seconds": spent,
        "most megabytes": int(status.split("VmHWM:")[1].split()[0]) / 1000,
        "one total": len({int(cells.sum()) for cells in tables.values()}) == 1,
        "least cell": int(min(cells.min() for cells in tables.values())),
    }


def main() -> None:
    """Print the errors, or what areas took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--areas", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    answer = tabulate_areas(given.areas) if given.areas else compare(given.rows, given.runs)
    if given.json:
        print(json.dumps(answer))
        return
    for name, value in answer.items():
        print(f"{name:24}", json.dumps(value))


if __name__ == "__main__":
    main()
