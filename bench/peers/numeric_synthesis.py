"""Our synthetic rows of tables with wide columns of numbers beside those of other libraries, at equal (epsilon, delta).

python bench/peers/numeric_synthesis.py --table diamonds --epsilon 1 --seeds 3 --peer sordino,sordino-aim,dpmm-mst
python bench/peers/numeric_synthesis.py --write bench/results/synth-beside-peers.md   # its last part, of the figures in --keep

Each fit runs in a process of its own, in the environment of its library (`synthesis.py --install`); a library that is not
installed is left out with a message. Bounds are declared far beyond the rows. dpmm cuts columns by its own private bins, for
a tenth of epsilon; SmartNoise takes codes, so it gets 64 runs of equal width over the bounds, in which its rows are spread
evenly: that is public. mbi 2 has no mechanism: its own MST and AIM are SmartNoise's. The figures of a run are added to --keep,
and a run that is there is not run again. `--rows` takes the first so many rows of a table, to try the script.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DELTA = "1e-9"
OWN = ("sordino-aim", "sordino-mst", "sordino-tree")
OTHERS = ("dpmm-mst", "dpmm-aim", "smartnoise-mst", "smartnoise-aim")
PEERS = ("sordino", *OWN, "resampled", *OTHERS)
MEASURES = ("1-way", "2-way", "3-way", "KS", "r error", "r kept", "R2", "R2 real")
# Measures by which methods are compared, and whether more of it is better.
_COMPARED = {"1-way": False, "2-way": False, "3-way": False, "KS": False, "r error": False, "R2": True}
# A method of our own is ahead where it is better by more than this share.
_NEAR = 0.02
_RUNS = 64
PART = "## Wide columns of numbers"
INTRODUCTION = f"""\
{PART}

`python bench/peers/numeric_synthesis.py --write bench/results/synth-beside-peers.md` writes this part from its runs. Equal
epsilon and delta {DELTA}; bounds are declared far beyond the rows. Distances are over 16 cells by each column's own
quantiles; KS is the mean largest difference of distribution functions; `r error` the mean difference of Pearson correlations,
`r kept` the mean ratio to the table's, of pairs of at least .5; `R2` of a linear regression trained on the drawn rows and
tested on real ones, beside the same trained on real ones. A number in brackets is the number of seeds that figures are the
mean of. Seconds are of the processor, fit and draw; CPU is their ratio to those of `synth.fit`.
"""


def fit_and_draw(peer: str, table: dict[str, Any], epsilon: str, seed: int) -> tuple[dict[str, Any], float]:
    """Return as many rows as the table has, drawn by a peer, and processor seconds; runs in the peer's environment."""
    library, _, method = peer.partition("-")
    processor_seconds = import_module("draw_rows").processor_seconds

    maker = {"sordino": _ours, "resampled": _resampled, "dpmm": _dpmm, "smartnoise": _smartnoise}[library]
    run = maker(method, table, epsilon, seed)
    before = processor_seconds()
    drawn = run()
    return drawn, processor_seconds() - before


def _ours(method: str, table: dict[str, Any], epsilon: str, seed: int) -> Any:
    import pyarrow as pa

    import sordino as sd
    from sordino import synth

    columns, bounds, sizes = table["columns"], table["bounds"], table["sizes"]
    fields: dict[str, Any] = {
        n: sd.Integer(*bounds[n]) if n in bounds else sd.Category(list(range(sizes[n]))) for n in columns
    }

    def run() -> dict[str, Any]:
        source = sd.protect(
            pa.table(columns),
            domain=sd.Domain(fields),
            neighbors="add_remove",
            privacy_unit="row",
            budget=sd.ApproxDP(1000, "0.001"),
            ledger=None,
            name="table",
            rng=sd.Rng.seeded(seed),
        )
        rng = sd.Rng.seeded(1000 + seed)
        fit = {"": synth.fit, "aim": synth.AIM().fit, "mst": synth.MST().fit, "tree": synth.Tree().fit}[method]
        rows = fit(source, epsilon=epsilon, delta=DELTA, rng=rng).sample(len(next(iter(columns.values()))), rng=rng)
        return {n: rows[n].combine_chunks().fill_null(0).to_numpy() for n in columns}

    return run


def _resampled(_method: str, table: dict[str, Any], _epsilon: str, seed: int) -> Any:
    columns = table["columns"]
    rows = len(next(iter(columns.values())))
    places = np.random.default_rng(seed).integers(0, rows, rows)
    return lambda: {n: v[places] for n, v in columns.items()}


def _dpmm(method: str, table: dict[str, Any], epsilon: str, seed: int) -> Any:
    import pandas

    pipelines: Any = import_module("dpmm.pipelines")

    columns, bounds, sizes = table["columns"], table["bounds"], table["sizes"]
    frame = pandas.DataFrame({n: v if n in bounds else v.astype(str) for n, v in columns.items()})
    domain: dict[str, Any] = {n: {"lower": low, "upper": high} for n, (low, high) in bounds.items()}
    domain |= {n: {"categories": [str(k) for k in range(size)]} for n, size in sizes.items()}
    made = {"mst": pipelines.MSTPipeline, "aim": pipelines.AIMPipeline}[method]
    own = {"max_model_size": 80} if method == "aim" else {}
    # what its bins cost comes off the model's, so that both together are epsilon
    pipeline = made(
        epsilon=0.9 * float(epsilon), proc_epsilon=0.1 * float(epsilon), delta=float(DELTA), n_jobs=1, **own
    )

    def run() -> dict[str, Any]:
        pipeline.fit(frame, domain=domain, random_state=seed)
        rows = pipeline.generate(len(frame), random_state=seed)
        return {n: np.round(rows[n].to_numpy(dtype=np.float64)).astype(np.int64) for n in columns}

    return run


def _smartnoise(method: str, table: dict[str, Any], epsilon: str, seed: int) -> Any:
    import pandas

    synthesizer_of: Any = import_module("snsynth").Synthesizer

    columns, bounds = table["columns"], table["bounds"]
    edges = {n: np.linspace(low, high + 1, _RUNS + 1) for n, (low, high) in bounds.items()}
    codes = {n: np.searchsorted(edges[n][1:-1], v, side="right") if n in bounds else v for n, v in columns.items()}
    frame = pandas.DataFrame(codes)
    np.random.seed(seed)
    synthesizer = synthesizer_of.create(method, epsilon=float(epsilon), delta=float(DELTA))

    def run() -> dict[str, Any]:
        synthesizer.fit(frame, categorical_columns=list(columns), preprocessor_eps=0.0)
        rows = synthesizer.sample(len(frame))
        rng = np.random.default_rng(seed)
        found = {n: rows[n].to_numpy().astype(np.int64) for n in columns}
        for n, cut in edges.items():
            found[n] = np.floor(cut[found[n]] + rng.random(len(frame)) * (cut[1] - cut[0])).astype(np.int64)
        return found

    return run


def draw_apart(python: Path, table: Any, peer: str, epsilon: str, seed: int, limit: int) -> dict[str, Any]:
    """Return the figures of one fit in a process of its own, or why there are none."""
    from numeric_tables import measure_rows
    from peers.peer_page import OURS
    from peers.synthesis import ONE_CORE, _at_most

    with tempfile.TemporaryDirectory() as folder:
        given, drawn = Path(folder) / "table.npz", Path(folder) / "rows.npz"
        plain = {"names": list(table.columns), "bounds": table.bounds, "sizes": table.sizes}
        np.savez(given, plain=json.dumps(plain), **{f"column {i}": v for i, v in enumerate(table.columns.values())})
        path = str(ROOT / "src") if peer.startswith(OURS) else ""
        arguments = [str(python), "-W", "ignore", __file__, "--draw", peer, str(given), str(drawn), epsilon, str(seed)]
        environment = {"PATH": "/usr/bin:/bin", **ONE_CORE, "PYTHONPATH": path}
        done = subprocess.run(
            arguments, capture_output=True, text=True, check=False, env=environment, preexec_fn=_at_most(limit)
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"ended by signal {-done.returncode}"])[-1]
            return {"failure": last[:200]}
        with np.load(drawn) as stored:
            rows = {n: stored[f"column {i}"] for i, n in enumerate(table.columns)}
        return {**measure_rows(table, rows), **json.loads(done.stdout.splitlines()[-1])}


def _draw(peer: str, given: str, drawn: str, epsilon: str, seed: str) -> None:
    with np.load(given) as stored:
        plain = json.loads(str(stored["plain"]))
        columns = {n: stored[f"column {i}"] for i, n in enumerate(plain["names"])}
    table = {"columns": columns, "bounds": {n: tuple(b) for n, b in plain["bounds"].items()}, "sizes": plain["sizes"]}
    rows, seconds = fit_and_draw(peer, table, epsilon, int(seed))
    np.savez(drawn, **{f"column {i}": rows[n] for i, n in enumerate(columns)})
    print(json.dumps({"cpu_s": round(seconds, 2)}))


def stored(path: Path) -> list[dict[str, Any]]:
    """Return the figures of a file; of two of the same run the later."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    return list({(f["table"], f["epsilon"], f["peer"], f["seed"]): f for f in found}.values())


def page(figures: list[dict[str, Any]]) -> str:
    """Return the part of the page: who is ahead of `synth.fit`, and means over seeds by table of data and epsilon."""
    lines = [INTRODUCTION, *verdict(figures), ""]
    for table, epsilon in dict.fromkeys((f["table"], f["epsilon"]) for f in figures):
        lines += [f"### {table}, epsilon {epsilon}", "", f"| method (seeds) | {' | '.join(MEASURES)} | seconds | CPU |"]
        lines += ["|---|" + "---|" * (len(MEASURES) + 2)]
        ours = [
            f["cpu_s"]
            for f in figures
            if (f["table"], f["epsilon"], f["peer"]) == (table, epsilon, "sordino") and "cpu_s" in f
        ]
        for peer in PEERS:
            runs = [f for f in figures if (f["table"], f["epsilon"], f["peer"]) == (table, epsilon, peer)]
            ended = [f for f in runs if "failure" not in f]
            if ended:
                values = means(ended)
                cells = [f"{values[m]:.3f}" if m in values else "" for m in (*MEASURES, "cpu_s")]
                ratio = f"{values['cpu_s'] / statistics.fmean(ours):.1f}" if ours else ""
                lines.append(f"| {peer} ({len(ended)}) | {' | '.join(cells)} | {ratio} |")
            elif runs:
                lines.append(f"| {peer}: {runs[0]['failure']} |" + " |" * (len(MEASURES) + 2))
        lines.append("")
    return "\n".join(lines)


def means(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Return the mean of each measure over the runs, those that all of them have."""
    return {m: statistics.fmean(f[m] for f in runs) for m in (*MEASURES, "cpu_s") if all(m in f for f in runs)}


def verdict(figures: list[dict[str, Any]]) -> list[str]:
    """Return a line for each method that is ahead of `synth.fit` on a table, with its figure, and ours after it.

    A method of our own counts where it is better by more than 2%.
    """
    lines = []
    for table, epsilon in dict.fromkeys((f["table"], f["epsilon"]) for f in figures):
        by_peer: dict[str, list[dict[str, Any]]] = {}
        for f in figures:
            if (f["table"], f["epsilon"]) == (table, epsilon) and "failure" not in f:
                by_peer.setdefault(f["peer"], []).append(f)
        if "sordino" not in by_peer:
            continue
        ours = means(by_peer["sordino"])
        for peer in (*OWN, *OTHERS):
            theirs = means(by_peer.get(peer, [ours | {"cpu_s": 0.0}]))
            slack = _NEAR if peer in OWN else 0.0
            ahead = [
                f"{m} {theirs[m]:.3f} for {ours[m]:.3f}"
                for m, more in _COMPARED.items()
                if (theirs[m] > ours[m] * (1 + slack) if more else theirs[m] < ours[m] * (1 - slack))
            ]
            if ahead:
                lines.append(f"- {peer} on {table} at epsilon {epsilon}: {', '.join(ahead)}")
    return (
        ["**Ahead of `synth.fit`** (its figure, for ours):", "", *lines]
        if lines
        else ["Nothing is ahead of `synth.fit`."]
    )


def write_part(path: Path, part: str) -> None:
    """Put this part at the end of a page, in place of the one that was there."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    before = text[: text.index(PART)] if PART in text else text
    path.write_text(before + ("\n" if before and not before.endswith("\n\n") else "") + part, encoding="utf-8")


def main() -> None:
    """Draw in a peer's process, run what is asked for, or write the page."""
    if sys.argv[1:2] == ["--draw"]:
        _draw(*sys.argv[2:])
        return
    from numeric_tables import NUMERIC
    from peers.synthesis import interpreter

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", default=",".join(NUMERIC))
    parser.add_argument("--epsilon", default="1,10")
    parser.add_argument("--peer", default=",".join(PEERS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=900, help="processor seconds of one fit, imports included")
    parser.add_argument(
        "--data", type=Path, default=ROOT.parent / "shared" / "data", help="where the files of tables lie"
    )
    parser.add_argument("--venvs", type=Path, default=HERE.parent / "results" / "venvs")
    parser.add_argument("--keep", type=Path, default=HERE.parent / "results" / "numeric_synthesis.jsonl")
    parser.add_argument("--rows", type=int, help="the first so many rows of each table")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    if options.write:
        write_part(options.write, page(stored(options.keep)))
        return
    there = {(f["table"], f["epsilon"], f["peer"], f["seed"]) for f in stored(options.keep)}
    for name in options.table.split(","):
        table = NUMERIC[name](options.data) if options.rows is None else NUMERIC[name](options.data).head(options.rows)
        for epsilon, peer, seed in itertools.product(
            options.epsilon.split(","), options.peer.split(","), range(options.seeds)
        ):
            python = interpreter(re.sub(r"^sordino-.*", "sordino", peer), options.venvs)
            if python is None:
                print(f"left out: {peer} is not installed under {options.venvs}", file=sys.stderr)
            elif (table.name, epsilon, peer, seed) not in there:
                found = draw_apart(python, table, peer, epsilon, seed, options.limit)
                line = json.dumps({"table": table.name, "epsilon": epsilon, "peer": peer, "seed": seed, **found})
                print(line, flush=True)
                options.keep.parent.mkdir(parents=True, exist_ok=True)
                with options.keep.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
