"""How far synthetic tables lie from the original, and what they cost: our methods beside each other, exact noise throughout.

python bench/synth.py [--data FILE] [--seeds 2] [--epsilon .1,1,10] [--part short|all|adult|shapes|cost|million|coverage|low]
The default, short, takes a few minutes: two seeds of Adult, one of the generated tables at epsilon 1, cost, intervals. `all` is
every part at five seeds.
Distances are mean total-variation distances over all pairs, and all triples, of columns (of 400 random ones where there are
more); delta is 1e-9. Times are processor seconds of fit and sample, tables read through DuckDB.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import table_shapes
from table_shapes import ORDERED, Keys, distances

DELTA = "1e-9"


def peak_mb() -> float:
    """Return the most memory that this process held since it began: ru_maxrss would count its parent's."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found.group(1)) / 1024 if found else 0.0


def adult_domain(path: str) -> Any:
    """Return the declaration of the discretised Adult table."""
    return table_shapes.declare(table_shapes.adult_sizes(Path(path)), ORDERED)


def as_pair(table: table_shapes.Table) -> tuple[Any, Keys]:
    """Return the domain and the columns of a table."""
    return table.domain, table.keys


def adult(path: str) -> tuple[Any, Keys]:
    """Return the domain and the columns of the discretised Adult table."""
    return as_pair(table_shapes.adult_discrete(Path(path)))


def one_factor(rows: int) -> tuple[Any, Keys]:
    """Return a table whose columns all follow one hidden factor: every pair is dependent."""
    return as_pair(table_shapes.one_factor(rows))


def census(rows: int = 100_000) -> tuple[Any, Keys]:
    """Return the census-like generated table, all columns but identifiers, as keys."""
    import sordino as sd
    from sordino.core.neighbors import Neighbors
    from sordino.lab.datasets.census import census_domain, make_census
    from sordino.synth.encoded_column import encode_columns, encode_table

    table, domain = make_census(rows, sd.Rng.seeded(1)), census_domain()
    columns = tuple(encode_columns(domain, None, Neighbors("add_remove", None)))
    found = encode_table(table, columns)
    whole = np.all([k >= 0 for k in found], axis=0)
    keys = {c.name: k[whole] for c, k in zip(columns, found, strict=True)}
    sizes = {c.name: c.size for c in columns}
    made = {
        c.name: sd.Integer(0, sizes[c.name] - 1) if c.ordered else sd.Category(list(range(c.size))) for c in columns
    }
    return sd.Domain(made), keys


def protected(domain: Any, keys: Keys, seed: int) -> Any:
    """Return a curator of the table with seeded noise and a budget that is never the limit."""
    import pyarrow as pa

    import sordino as sd

    return sd.protect(
        pa.table(keys),
        domain=domain,
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.ApproxDP(10**6, "0.001"),
        ledger=None,
        name="table",
        rng=sd.Rng.seeded(seed),
    )


def methods() -> dict[str, Callable[..., Any]]:
    """Return each method as a call of a curator, an epsilon and an rng."""
    from sordino import synth

    def named(made: Any) -> Callable[..., Any]:
        return lambda source, epsilon, rng: made.fit(source, epsilon=epsilon, delta=DELTA, rng=rng)

    found: dict[str, Callable[..., Any]] = {
        "fit": lambda source, epsilon, rng: synth.fit(source, epsilon=epsilon, delta=DELTA, rng=rng)
    }
    for name in ("Independent", "Tree", "MST", "AIM"):
        found[name] = named(getattr(synth, name)())
    return found


def compare(
    table: tuple[Any, Keys], epsilons: list[float], seeds: int, names: list[str], *, ways: tuple[int, ...] = (2, 3)
) -> Iterator[dict[str, Any]]:
    """Yield the distances and processor seconds of each method at each epsilon, means over seeds."""
    import sordino as sd

    domain, keys = table
    real, rows = list(keys.values()), len(next(iter(keys.values())))
    named = [int(domain[n].upper) + 1 if hasattr(domain[n], "upper") else len(domain[n].values) for n in keys]
    sizes = [n + 1 for n in named]  # a model may draw a missing cell, the last key of each column
    for epsilon, name in itertools.product(epsilons, names):
        found: list[list[float]] = []
        for seed in range(seeds):
            source = protected(domain, keys, 1000 + seed)
            start = time.process_time()
            rng = sd.Rng.seeded(seed)
            model = methods()[name](source, epsilon, rng)
            drawn = model.draw_keys(rows, rng)
            spent = time.process_time() - start
            found.append([*(distances(real, drawn, sizes, w) for w in ways), spent])
            source.close()
        mean, spread = np.mean(found, axis=0), np.std(found, axis=0)
        yield {
            "method": name,
            "epsilon": epsilon,
            **{f"{w}-way": round(float(mean[i]), 4) for i, w in enumerate(ways)},
            "2-way sd": round(float(spread[0]), 4),
            "cpu_s": round(float(mean[-1]), 2),
            "tier": model.facts["tier"],
        }


Allowed = list[tuple[str, Any]]  # a column, and which of its codes are meant


def random_questions(keys: Keys, count: int) -> Iterator[tuple[Any, Allowed]]:
    """Yield conditions on one to three columns: a range where the codes are ordered, else half of them."""
    from sordino import col

    rng = np.random.default_rng(11)
    for _ in range(count):
        condition, allowed = None, []
        for name in rng.choice(list(keys), rng.integers(1, 4), replace=False):
            meant = np.zeros(int(keys[name].max()) + 1, dtype=bool)
            if name in ORDERED:
                low, high = sorted(int(v) for v in rng.integers(0, len(meant), 2))
                part, meant[low : high + 1] = col(name).is_between(low, high), True
            else:
                values = [int(v) for v in np.flatnonzero(rng.random(len(meant)) < 0.5)] or [0]
                part, meant[values] = col(name).is_in(values), True
            condition = part if condition is None else condition & part
            allowed.append((name, meant))
        yield condition, allowed


def count_rows(keys: Keys, allowed: Allowed) -> int:
    """Return how many rows a condition holds for; a blank cell is a code beyond the last."""
    held = [(keys[n] < len(meant)) & meant[np.minimum(keys[n], len(meant) - 1)] for n, meant in allowed]
    return int(np.all(held, axis=0).sum())


def coverage(path: str, epsilons: list[float], questions: int = 1000) -> Iterator[dict[str, Any]]:
    """Yield how many of random counting questions their 95% intervals cover, how wide those are, and how wrong rows are."""
    import sordino as sd
    from sordino import synth

    domain, keys = adult(path)
    asked = [(c, allowed, count_rows(keys, allowed)) for c, allowed in random_questions(keys, questions)]
    for epsilon in epsilons:
        source, rng = protected(domain, keys, 77), sd.Rng.seeded(3)
        model = synth.fit(source, epsilon=epsilon, delta=DELTA, rng=rng)
        answers = [(model.answer(source.where(c).agg(sd.count())), true) for c, _, true in asked]
        ends = [(a.interval(0.95), true) for a, true in answers]
        drawn = dict(zip(keys, model.draw_keys(len(next(iter(keys.values()))), rng), strict=True))
        direct = source.plan(sd.count(), epsilon=epsilon)
        yield {
            "epsilon": epsilon,
            "covered": float(np.mean([low <= true <= high for (low, high), true in ends])),
            "mean width": round(float(np.mean([high - low for (low, high), _ in ends])), 1),
            "rms error": round(float(np.sqrt(np.mean([(a.value - t) ** 2 for a, t in answers]))), 1),
            "rms error of rows drawn": round(
                float(np.sqrt(np.mean([(count_rows(drawn, allowed) - t) ** 2 for _, allowed, t in asked]))), 1
            ),
            "width of one question alone": round(2 * float(direct.error(0.95)), 1)
            if hasattr(direct, "error")
            else None,
        }
        source.close()


_MILLION = """
import sys, time
sys.path.insert(0, {here!r})
import synth as bench
import sordino as sd, pyarrow as pa, pyarrow.parquet as pq
from sordino import synth
import numpy, duckdb, sqlglot
import sordino.ask.curator.connect
domain = bench.one_factor(1000)[0]
base = bench.peak_mb()
source = sd.protect({path!r}, domain=domain, neighbors="add_remove", privacy_unit="row", budget=sd.ApproxDP(10, "1e-6"),
                    ledger=None, name="table", rng=sd.Rng.seeded(1))
start = time.process_time()
model = synth.fit(source, epsilon=1, delta="1e-9", rng=sd.Rng.seeded(1))
fitted = time.process_time()
keys = model.draw_keys(1_000_000, sd.Rng.seeded(2))
done = time.process_time()
print(fitted - start, done - fitted, bench.peak_mb() - base)
"""


def million(rows: int = 1_000_000) -> dict[str, Any]:
    """Return processor seconds and memory above the import of a table of a million rows and 15 columns, from Parquet."""
    import tempfile

    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "million.parquet")
        pq.write_table(pa.table(one_factor(rows)[1]), path)
        script = _MILLION.format(here=str(Path(__file__).parent), path=path)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    fit, sample, peak = (float(v) for v in done.stdout.split())
    return {"fit_cpu_s": round(fit, 2), "sample_cpu_s": round(sample, 2), "memory_mb": round(peak)}


_COST = """
import sys, time
sys.path.insert(0, {here!r})
import synth as bench
import sordino as sd, numpy, duckdb, sqlglot, pyarrow.csv
from sordino import synth
import sordino.ask.curator.connect, sordino.synth.fitting
sizes = bench.adult_domain({path!r})
base = bench.peak_mb()
start = time.process_time()
source = sd.protect({path!r}, csv=sd.Csv(header=True), domain=sizes, neighbors="add_remove", privacy_unit="row",
                    budget=sd.ApproxDP(100, "1e-6"), ledger=None, name="table", rng=sd.Rng.seeded(1))
model = synth.fit(source, epsilon={epsilon!r}, delta="1e-9", rng=sd.Rng.seeded(1))
model.sample(48_842, rng=sd.Rng.seeded(2))
spent = time.process_time() - start
print(spent, bench.peak_mb() - base)
"""


def cost(path: str, epsilons: list[float]) -> Iterator[dict[str, Any]]:
    """Yield processor seconds and memory above the import of fit and sample on Adult, each in a process of its own."""
    for epsilon in epsilons:
        script = _COST.format(here=str(Path(__file__).parent), path=path, epsilon=epsilon)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        spent, peak = (float(v) for v in done.stdout.split())
        yield {"epsilon": epsilon, "cpu_s": round(spent, 2), "memory_mb": round(peak)}


def run(data: str = "../shared/data/adult_discrete.csv", *, seeds: int = 1) -> dict[str, Any]:
    """Return the figures of one short run, for bench/run.py: our own fit beside Independent, cost, a million rows."""
    found: dict[str, Any] = {}
    if Path(data).is_file():
        for line in compare(adult(data), [0.1, 1.0, 10.0], seeds, ["fit", "Independent"]):
            found[f"adult {line['method']} epsilon {line['epsilon']:g}"] = [line["2-way"], line["3-way"], line["cpu_s"]]
        for line in cost(data, [1.0, 10.0]):
            found[f"adult cost epsilon {line['epsilon']:g}"] = [line["cpu_s"], line["memory_mb"]]
    return {**found, "million": million()}


EVERYTHING = ["fit", "Independent", "Tree", "MST", "AIM"]
LOW = [0.01, 0.03, 0.07, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0]


def part(name: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the lines of one part."""
    epsilons = [float(e) for e in options.epsilon.split(",")]
    if name == "adult":
        yield from ({"table": "adult", **x} for x in compare(adult(options.data), epsilons, options.seeds, EVERYTHING))
    elif name == "shapes":
        chosen = epsilons if options.part != "short" else [1.0]
        seeds = options.seeds if options.part != "short" else 1
        tables: dict[str, Callable[[], Any]] = {
            "census": census,
            "one factor": lambda: one_factor(100_000),
            "local": lambda: as_pair(table_shapes.local()),
        }
        for table, make in tables.items():
            yield from ({"table": table, **x} for x in compare(make(), chosen, seeds, EVERYTHING))
    elif name == "low":
        seeds = max(options.seeds, 20)
        yield from compare(adult(options.data), LOW, seeds, ["fit", "Independent"], ways=(2,))
    elif name == "coverage":
        yield from coverage(options.data, epsilons)
    elif name == "cost":
        yield from cost(options.data, epsilons)
    else:
        yield million()


def main() -> None:
    """Print the parts asked for, one line each."""
    names = ["adult", "shapes", "cost", "million", "coverage", "low"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="../shared/data/adult_discrete.csv")
    parser.add_argument("--seeds", type=int, default=None)
    parser.add_argument("--epsilon", default=".1,1,10")
    parser.add_argument("--part", default="short", choices=["short", "all", *names])
    options = parser.parse_args()
    options.seeds = options.seeds or (2 if options.part == "short" else 5)
    chosen = {"short": names[:-1], "all": names}.get(options.part, [options.part])
    for name in chosen:
        for line in part(name, options):
            print(json.dumps({"part": name, **line}), flush=True)
    print("peak MB", round(peak_mb()))


if __name__ == "__main__":
    main()
