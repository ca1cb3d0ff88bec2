"""Our synthetic rows of tables with wide columns of numbers beside those of other libraries, at equal (epsilon, delta).

python bench/peers/synthesis.py --install   # once: the libraries, and the packages that carry the tables
python bench/peers/numeric_synthesis.py --table diamonds --epsilon 1 --seeds 3 --peer sordino,sordino-aim,dpmm-mst
python bench/peers/numeric_synthesis.py --peer own --again --write bench/results/synth-beside-peers.md   # ours anew, and the page
python bench/peers/numeric_synthesis.py --write bench/results/synth-beside-peers.md   # its last part, of the figures in --keep

Each fit runs in a process of its own, in the environment of its library; a library that is not installed, and a table whose
file is absent, are left out with a message. Bounds are declared far beyond the rows. mbi 2 has no mechanism: its own MST and
AIM are SmartNoise's. The figures of a run are added to --keep, and a run that is there is not run again, but for --again.
`--rows` takes the first so many rows of a table, to try the script.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import re
import signal
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
OURS = "sordino"
PEERS = (OURS, *OWN, "resampled", *OTHERS)
MEASURES = ("1-way", "2-way", "3-way", "KS", "KS max", "r error", "r kept", "R2", "AUC")
# Measures by which methods are compared, and whether more of it is better.
_COMPARED = dict.fromkeys(("1-way", "2-way", "3-way", "KS", "KS max", "r error"), False) | {"R2": True, "AUC": True}
# A method of our own is ahead where it is better by more than this share.
_NEAR = 0.02
_RUNS = 64
# Runs by table and epsilon, then by method.
Fits = dict[tuple[str, str], dict[str, list[dict[str, Any]]]]
# How many times our processor time another library is to take.
_SLOWER = 10
PART = "## Wide columns of numbers"
INTRODUCTION = f"""\
{PART}

`python bench/peers/numeric_synthesis.py --write bench/results/synth-beside-peers.md` writes this part from its runs, which
[bench/results/numeric_synthesis.jsonl](numeric_synthesis.jsonl) has; nobody edits it.

{{verdict}}

Each table is public ([bench/peers/tables.txt](../peers/tables.txt) names the packages that carry them), with bounds declared far
beyond its rows, as `bench/numeric_tables.py` has them:

{{tables}}

Epsilon is equal, and delta {DELTA}. Three quarters of the rows are fitted, and as many drawn; distances, KS and correlations
compare the drawn rows with the fitted ones, regressions are trained on drawn rows and tested on the quarter held out.
Distances are over 16 cells by each column's own quantiles; KS is the largest difference of distribution functions, in the mean
over columns and at most; `r error` the mean difference of Pearson correlations, `r kept` the mean ratio to the table's, of
pairs of at least .5; `R2` is that of a linear regression, `AUC` that of a logistic one of whether the target is above its
median. A number in brackets is the number of seeds that figures are the mean of. A figure in bold is ahead of that of
`synth.fit`; of our own methods, by more than 2%. Seconds are of the processor, fit and draw, without imports; CPU is their
ratio to those of `synth.fit`.

What each method gets: dpmm the declared bounds, within which it makes private bins of its own for a tenth of epsilon, and
integers as integers. SmartNoise makes {_RUNS} bins of equal width between bounds that it finds itself for a tenth of epsilon, and
gets the values of categories as they are in the table and the exact number of rows; a value is drawn evenly from its bin, and
rows independently of each other. Ours gets the declared bounds; its edges are paid from the same epsilon, and 5% of the loss
goes to intervals of answers.

Versions: {{versions}}.
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
    transform: Any = import_module("snsynth.transform")
    independent: Any = import_module("draw_rows").IndependentDraws
    import_module(f"snsynth.{method}")

    columns, bounds = table["columns"], table["bounds"]
    frame = pandas.DataFrame(columns)
    parts = [
        transform.BinTransformer(bins=_RUNS) if n in bounds else transform.LabelTransformer(nullable=False)
        for n in columns
    ]
    bins = transform.TableTransformer(parts)
    np.random.seed(seed)
    synthesizer = synthesizer_of.create(method, epsilon=float(epsilon), delta=float(DELTA))

    def run() -> dict[str, Any]:
        with contextlib.redirect_stdout(sys.stderr):
            synthesizer.fit(frame, transformer=bins, preprocessor_eps=0.1 * float(epsilon))
            # its own draw gives columns with one parent the same order; see draw_rows.py
            synthesizer.synthesizer = independent(synthesizer.synthesizer)
            rows = synthesizer.sample(len(frame))
        rng = np.random.default_rng(seed)
        found = {n: rows[n].to_numpy() for n in columns}
        for name, part in zip(columns, parts, strict=True):
            if name in bounds:
                # a drawn value is the middle of its bin
                width = (part.fit_upper - part.fit_lower) / _RUNS
                found[name] = np.clip(found[name] + width * (rng.random(len(frame)) - 0.5), *bounds[name])
        return {n: np.floor(v).astype(np.int64) for n, v in found.items()}

    return run


def draw_apart(python: Path, whole: Any, peer: str, epsilon: str, seed: int, limit: int) -> dict[str, Any]:
    """Return the figures of one fit, to three quarters of the rows, in a process of its own, or why there are none."""
    from numeric_tables import measure_rows
    from peers.synthesis import ONE_CORE, _at_most

    table, held_out = whole.split()
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
        if done.returncode == -signal.SIGXCPU:
            return {"failure": f"not finished in {limit} s of processor time"}
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"ended by signal {-done.returncode}"])[-1]
            return {"failure": last[:200]}
        with np.load(drawn) as stored:
            rows = {n: stored[f"column {i}"] for i, n in enumerate(table.columns)}
        found = {n: round(v, 5) for n, v in measure_rows(table, rows, held_out).items()}
        return {**found, **json.loads(done.stdout.splitlines()[-1])}


def _draw(peer: str, given: str, drawn: str, epsilon: str, seed: str) -> None:
    with np.load(given) as stored:
        plain = json.loads(str(stored["plain"]))
        columns = {n: stored[f"column {i}"] for i, n in enumerate(plain["names"])}
    table = {"columns": columns, "bounds": {n: tuple(b) for n, b in plain["bounds"].items()}, "sizes": plain["sizes"]}
    rows, seconds = fit_and_draw(peer, table, epsilon, int(seed))
    np.savez(drawn, **{f"column {i}": rows[n] for i, n in enumerate(columns)})
    print(json.dumps({"cpu_s": round(seconds, 2)}))


def page(figures: list[dict[str, Any]]) -> str:
    """Return the part of the page: who is ahead of `synth.fit`, and means over seeds by table of data and epsilon."""
    fits = by_fit(figures)
    versions = sorted({f["version"] for f in figures if f["peer"] in OTHERS})
    commits = sorted({f["version"] for f in figures if f["peer"] in (OURS, *OWN)})
    named = ", ".join([*versions, f"Sordino at {', '.join(commits)}"])
    lines = [INTRODUCTION.format(verdict=verdict(fits), tables=describe(fits), versions=named)]
    for (table, epsilon), runs in fits.items():
        real = next((f for peer in PEERS for f in runs.get(peer, ()) if "R2 real" in f), None)
        lines += [f"### {table}, epsilon {epsilon}", ""]
        if real is not None:
            lines += [f"Trained on the real rows: R2 {real['R2 real']:.3f}, AUC {real['AUC real']:.3f}.", ""]
        lines += [
            f"| method (seeds) | {' | '.join(MEASURES)} | seconds | CPU |",
            "|---|" + "---|" * (len(MEASURES) + 2),
        ]
        ours = means(runs.get(OURS, []))
        for peer in PEERS:
            theirs = means(runs.get(peer, []))
            if theirs:
                better = ahead(peer, theirs, ours)
                cells = [
                    (f"**{theirs[m]:.3f}**" if m in better else f"{theirs[m]:.3f}") if m in theirs else ""
                    for m in MEASURES
                ]
                ended = sum("failure" not in f for f in runs[peer])
                times = f"{theirs['cpu_s'] / ours['cpu_s']:.1f}" if ours else ""
                lines.append(f"| {peer} ({ended}) | {' | '.join(cells)} | {theirs['cpu_s']:.1f} | {times} |")
            elif peer in runs:
                lines.append(f"| {peer}: {runs[peer][0]['failure']} |" + " |" * (len(MEASURES) + 2))
        lines.append("")
    return "\n".join(lines)


def describe(fits: Fits) -> str:
    """Return what each table is, by the first sentence of its loader."""
    from numeric_tables import NUMERIC

    tables = dict.fromkeys(table for table, _ in fits)
    # "bills (generated), 50 rows" is made by `bills`
    makers = {table: NUMERIC[re.split(r"[ ,]", table)[0]] for table in tables}
    return "\n".join(f"- {table}: {(m.__doc__ or '').removeprefix('Return ')}" for table, m in makers.items())


def by_fit(figures: list[dict[str, Any]]) -> Fits:
    """Return the runs of each method by table and epsilon: tables as they come, epsilons from the smallest."""
    tables = list(dict.fromkeys(f["table"] for f in figures))
    ordered = sorted(figures, key=lambda f: (tables.index(f["table"]), float(f["epsilon"])))
    found: Fits = {}
    for f in ordered:
        found.setdefault((f["table"], f["epsilon"]), {}).setdefault(f["peer"], []).append(f)
    return found


def means(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Return the mean of each measure over the runs that ended, those that all of them have; nothing where none ended."""
    ended = [f for f in runs if "failure" not in f]
    if not ended:
        return {}
    return {m: statistics.fmean(f[m] for f in ended) for m in (*MEASURES, "cpu_s") if all(m in f for f in ended)}


def ahead(peer: str, theirs: dict[str, float], ours: dict[str, float]) -> list[str]:
    """Return the measures in which a method is ahead of `synth.fit`; a method of our own, by more than 2%."""
    if not ours or peer not in (*OWN, *OTHERS):
        return []
    slack = _NEAR if peer in OWN else 0.0
    return [
        m
        for m, more in _COMPARED.items()
        if (theirs[m] > ours[m] + slack * abs(ours[m]) if more else theirs[m] < ours[m] * (1 - slack))
    ]


def scatter(theirs: list[dict[str, Any]], ours: list[dict[str, Any]], measure: str) -> str:
    """Return the standard error of the difference of two means over seeds, in brackets; nothing where one has a single seed."""
    samples = [[f[measure] for f in runs if measure in f] for runs in (theirs, ours)]
    if min(map(len, samples)) < 2:
        return ""
    return f" (± {math.sqrt(sum(statistics.variance(s) / len(s) for s in samples)):.4f})"


def verdict(fits: Fits) -> str:
    """Return in how many figures a method is ahead of `synth.fit`, each of them, and what others take of the processor."""
    lines = []
    for title, peers in (("another library", OTHERS), ("a method of its own, by more than 2%,", OWN)):
        compared, behind, listed = 0, 0, []
        for (table, epsilon), runs in fits.items():
            ours = means(runs.get(OURS, []))
            there = {p: means(runs.get(p, [])) for p in peers}
            better = {p: ahead(p, theirs, ours) for p, theirs in there.items() if theirs and ours}
            compared += len(_COMPARED) if better else 0
            behind += len({m for measures in better.values() for m in measures})
            for p, measures in better.items():
                told = ", ".join(
                    f"{m} {there[p][m]:.4f} for {ours[m]:.4f}{scatter(runs[p], runs[OURS], m)}" for m in measures
                )
                listed += [f"- {p} on {table} at epsilon {epsilon}: {told}"] if told else []
        if compared:
            end = " (its figure, for ours; ± the standard error of the difference over seeds):" if listed else "."
            lines += [f"**`synth.fit` is behind {title} in {behind} of {compared} figures**{end}", ""]
            lines += [*listed, ""] if listed else []
    return "\n".join([*lines, *_costs(fits)]).rstrip()


def _costs(fits: Fits) -> list[str]:
    """Return how many times our processor time other libraries take, where under ten, what did not end, what was not run."""
    times, failed, absent = [], [], 0
    for (table, epsilon), runs in fits.items():
        ours = means(runs.get(OURS, []))
        for peer in OTHERS:
            theirs = means(runs.get(peer, []))
            where = f"{peer} on {table} at epsilon {epsilon}"
            if theirs and ours:
                times.append((theirs["cpu_s"] / ours["cpu_s"], where))
            elif peer not in runs:
                absent += 1
            elif not theirs:
                failed.append(f"{where} ({runs[peer][0]['failure']})")
    lines = []
    if times:
        low, high = min(times)[0], max(times)[0]
        lines.append(f"Other libraries take between {low:.0f} and {high:.0f} times the processor time of `synth.fit`.")
    if near := [f"{where} ({ratio:.1f})" for ratio, where in times if ratio < _SLOWER]:
        lines.append(f"Less than {_SLOWER} times: {'; '.join(near)}.")
    if failed:
        lines.append(f"No rows to compare: {'; '.join(failed)}.")
    if absent:
        lines.append(f"{absent} of {len(fits) * len(OTHERS)} combinations of table, epsilon and library were not run.")
    return lines


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
    from peers.synthesis import FILES, stored_lines

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", default=",".join(NUMERIC))
    parser.add_argument("--epsilon", default="1,10")
    parser.add_argument("--peer", default=",".join(PEERS), help="methods, or `own`: ours alone")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=300, help="processor seconds of one fit, imports included")
    parser.add_argument("--venvs", type=Path, default=HERE.parent / "results" / "venvs")
    parser.add_argument("--data", type=Path, help=f"where the files of tables lie; VENVS/{FILES} without it")
    parser.add_argument("--keep", type=Path, default=HERE.parent / "results" / "numeric_synthesis.jsonl")
    parser.add_argument("--rows", type=int, help="the first so many rows of each table")
    parser.add_argument("--again", action="store_true", help="run what is asked for, whether it is there or not")
    parser.add_argument("--write", type=Path, help="write the page; nothing is run without --again")
    options = parser.parse_args()
    options.peer = ",".join((OURS, *OWN)) if options.peer == "own" else options.peer
    options.data = options.data or options.venvs / FILES
    if options.again or not options.write:
        keep(options)
    if options.write:
        figures = stored_lines(options.keep)
        options.keep.write_text("".join(json.dumps(f) + "\n" for f in figures), encoding="utf-8")
        write_part(options.write, page(figures))


def keep(options: argparse.Namespace) -> None:
    """Do the runs that are asked for and not yet there, or all of them again, and add their figures to the file."""
    from numeric_tables import NUMERIC
    from peers.synthesis import interpreter, stored_lines, version

    there = {(f["table"], f["epsilon"], f["peer"], f["seed"]) for f in stored_lines(options.keep)}
    for name in options.table.split(","):
        try:
            table = NUMERIC[name](options.data)
        except FileNotFoundError as absent:
            print(f"left out: {name}, {absent} (synthesis.py --install)", file=sys.stderr)
            continue
        if options.rows is not None:
            table = table.head(options.rows)
        for epsilon, peer, seed in itertools.product(
            options.epsilon.split(","), options.peer.split(","), range(options.seeds)
        ):
            library = re.sub(r"^sordino-.*", OURS, peer)
            python = interpreter(library, options.venvs)
            if python is None:
                print(f"left out: {peer} is not installed under {options.venvs}", file=sys.stderr)
            elif options.again or (table.name, epsilon, peer, seed) not in there:
                run = {"table": table.name, "epsilon": epsilon, "peer": peer, "seed": seed, "version": version(library)}
                line = json.dumps(run | draw_apart(python, table, peer, epsilon, seed, options.limit))
                print(line, flush=True)
                options.keep.parent.mkdir(parents=True, exist_ok=True)
                with options.keep.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
