"""One synthesizer fitted to one table in a process of its own: started by bench/peers/synthesis.py, in each peer's environment.

python draw_rows.py PEER TABLE.npz ROWS.npz EPSILON DELTA SEED

Reads codes, column by column, with the number of codes of each; writes as many rows drawn, or several draws of one fit by
name, and prints processor seconds of fit and draw (of every thread and process, imports apart), wall seconds and peak memory
as JSON.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

Rows = dict[str, Any]  # an array of codes of each column
Synthesize = Callable[[], dict[str, Rows]]  # by name of the draw: "" where there is one


def prepare_sordino(keys: Rows, sizes: dict[str, int], ordered: set[str], options: Options) -> Synthesize:
    """Return our own `synth.fit`, through a curator, with rows as a user gets them; a blank cell is one more code."""
    import pyarrow as pa

    import sordino as sd
    from sordino import synth

    for name in ("duckdb", "sqlglot", "sordino.ask.curator.connect", "sordino.synth.fitting"):
        import_module(name)  # an import is no part of the time

    fields = {n: sd.Integer(0, s - 1) if n in ordered else sd.Category(list(range(s))) for n, s in sizes.items()}
    domain = sd.Domain(fields)

    def synthesize() -> dict[str, Rows]:
        source = sd.protect(
            pa.table(keys),
            domain=domain,
            neighbors="add_remove",
            privacy_unit="row",
            budget=sd.ApproxDP(1000, "0.001"),
            ledger=None,
            name="table",
            rng=sd.Rng.seeded(options.seed),
        )
        rng = sd.Rng.seeded(1000 + options.seed)
        model = synth.fit(source, epsilon=options.epsilon, delta=options.delta, rng=rng)
        drawn = model.sample(len(next(iter(keys.values()))), rng=rng)
        return {"": {n: drawn[n].combine_chunks().fill_null(s).to_numpy() for n, s in sizes.items()}}

    return synthesize


def prepare_resampled(keys: Rows, _sizes: dict[str, int], _ordered: set[str], options: Options) -> Synthesize:
    """Return the table's own rows drawn with replacement, which is not private: the floor of independent rows."""
    rows = len(next(iter(keys.values())))

    def synthesize() -> dict[str, Rows]:
        drawn = np.random.default_rng(options.seed).integers(0, rows, rows)
        return {"": {n: v[drawn] for n, v in keys.items()}}

    return synthesize


def prepare_dpmm(keys: Rows, sizes: dict[str, int], _ordered: set[str], options: Options) -> Synthesize:
    """Return a pipeline of dpmm with its defaults, without its binning: the codes are public, so the model has all epsilon."""
    pandas: Any = import_module("pandas")
    pipelines: Any = import_module("dpmm.pipelines")
    frame = pandas.DataFrame(keys)
    name = {"mst": "MSTPipeline", "aim": "AIMPipeline", "privbayes": "PrivBayesPipeline"}[options.method]
    made = getattr(pipelines, name)
    fixed = (
        {"max_model_size": 80} if options.method == "aim" else {}
    )  # its model's own default, which the pipeline drops
    pipeline = made(
        epsilon=float(options.epsilon), delta=float(options.delta), n_jobs=1, disable_processing=True, **fixed
    )

    def synthesize() -> dict[str, Rows]:
        pipeline.fit(frame, domain=sizes, random_state=options.seed)
        drawn = pipeline.generate(len(frame), random_state=options.seed)
        return {"": {n: drawn[n].to_numpy() for n in sizes}}

    return synthesize


def prepare_smartnoise(keys: Rows, sizes: dict[str, int], _ordered: set[str], options: Options) -> Synthesize:
    """Return a synthesizer of SmartNoise with its defaults: it reads the categories of each column from the rows.

    Its own draw, by mbi 1.1.0 ("round"), gives columns that share a parent in the model the same order, so that they follow
    each other; mbi 2 mends this, and SmartNoise does not take it. So rows are also drawn independently from the same fit.
    """
    pandas: Any = import_module("pandas")
    synthesizer: Any = import_module("snsynth").Synthesizer
    import_module(f"snsynth.{options.method}")
    frame = pandas.DataFrame(keys)
    made = synthesizer.create(options.method, epsilon=float(options.epsilon), delta=float(options.delta))

    def synthesize() -> dict[str, Rows]:
        made.fit(frame, categorical_columns=list(sizes), preprocessor_eps=0.0)
        found = {"shipped": made.sample(len(frame))}
        made.synthesizer = IndependentDraws(made.synthesizer)
        found[""] = made.sample(len(frame))
        return {draw: {n: rows[n].to_numpy().astype(np.int64) for n in sizes} for draw, rows in found.items()}

    return synthesize


class IndependentDraws:
    """A fitted model of mbi whose rows are drawn independently of each other."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def synthetic_data(self, rows: int) -> Any:
        return self.model.synthetic_data(rows=rows, method="sample")


PREPARE = {
    "sordino": prepare_sordino,
    "resampled": prepare_resampled,
    "dpmm": prepare_dpmm,
    "smartnoise": prepare_smartnoise,
}


class Options:
    """What is asked of a synthesizer: its method, loss and seed. dpmm and SmartNoise draw their noise without the seed."""

    def __init__(self, peer: str, epsilon: str, delta: str, seed: str) -> None:
        self.library, _, self.method = peer.partition("-")
        self.epsilon, self.delta, self.seed = epsilon, delta, int(seed)


def processor_seconds() -> float:
    """Return the processor seconds of this process, its threads and the processes that it has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def peak_memory() -> float:
    """Return the most megabytes that this process held: ru_maxrss would count its parent's."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found.group(1)) / 1024 if found else 0.0


def main() -> None:
    """Fit, draw, write the rows and print the figures."""
    peer, table, output, epsilon, delta, seed = sys.argv[1:]
    options = Options(peer, epsilon, delta, seed)
    with np.load(table) as stored:
        names = [str(n) for n in stored["names"]]
        keys: Rows = {n: stored[f"column {i}"] for i, n in enumerate(names)}
        sizes = {n: int(s) for n, s in zip(names, stored["sizes"], strict=True)}
        ordered = {n for n, flag in zip(names, stored["ordered"], strict=True) if flag}
    np.random.seed(options.seed)  # SmartNoise selects and draws rows by the global generator
    synthesize = PREPARE[options.library](keys, sizes, ordered, options)
    before, start = processor_seconds(), time.perf_counter()
    drawn = synthesize()
    spent, wall = processor_seconds() - before, time.perf_counter() - start
    columns = {f"{draw}column {i}": rows[n] for draw, rows in drawn.items() for i, n in enumerate(names)}
    np.savez(output, **columns)
    print(json.dumps({"cpu_s": round(spent, 2), "wall_s": round(wall, 2), "memory_mb": round(peak_memory())}))


if __name__ == "__main__":
    main()
