"""Our synthetic rows beside those of other libraries: same table, same loss, as many rows, each fit in a process of its own.

python bench/peers/synthesis.py --install                     # once: an environment of its own for each library, under --venvs
python bench/peers/synthesis.py --table adult_discrete --epsilon 1 --seeds 3 --peer dpmm-mst,sordino
python bench/peers/synthesis.py --peer sordino --seeds 3 --again --write bench/results/synth-beside-peers.md   # ours anew
python bench/peers/synthesis.py --write bench/results/synth-beside-peers.md   # the page, of all figures that --keep holds

Distances are mean total-variation distances over all columns, pairs and triples (400 random ones of more). The figures of a
run are added to the file --keep, and a run that is there is not run again, but for --again. A library that is not installed,
and Adult where its file is absent, is left out with a message. A fit that needs more processor time than --limit is ended.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import numpy as np
from peers.numeric_synthesis import PART
from peers.peer_page import FLOOR, OURS, Figure, page
from table_shapes import SHAPES, Table, adult_discrete, distances

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBRARIES = {"dpmm": "dpmm", "smartnoise": "smartnoise-synth"}
# The environment of the packages that carry public tables of numbers, and the folder in it where they are laid as CSV.
TABLES = "tables"
FILES = f"{TABLES}/csv"
Draws = dict[str, list[Any]]
PEERS = ["dpmm-mst", "dpmm-aim", "dpmm-privbayes", "smartnoise-mst", "smartnoise-aim"]
DELTA = "1e-9"
ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}


def install(venvs: Path) -> None:
    """Make an environment for each library by its file of pinned requirements, and write the tables that packages carry."""
    for library in (*LIBRARIES, TABLES):
        subprocess.run([sys.executable, "-m", "venv", str(venvs / library)], check=True)
        # the files list all that a library imports: without --no-deps torch brings its graphics cards' libraries
        pip = [str(venvs / library / "bin" / "python"), "-m", "pip", "install", "-q", "--no-deps"]
        subprocess.run([*pip, "-r", str(HERE / f"{library}.txt")], check=True)
    export = [str(venvs / TABLES / "bin" / "python"), str(HERE / "export_tables.py"), str(venvs / FILES)]
    subprocess.run(export, check=True)


def interpreter(peer: str, venvs: Path) -> Path | None:
    """Return the Python that has the library of a peer, or None where it is not installed."""
    if peer in (OURS, FLOOR):
        return Path(sys.executable)
    found = venvs / peer.partition("-")[0] / "bin" / "python"
    return found if found.exists() else None


def version(peer: str) -> str:
    """Return the version of a library by its pinned requirements; ours is the last commit of its source."""
    library = LIBRARIES.get(peer.partition("-")[0])
    if library is None:
        asked = ["git", "-C", str(ROOT), "log", "-1", "--format=%h", "--", "src"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    pins = (HERE / f"{peer.partition('-')[0]}.txt").read_text()
    found = re.search(rf"^{re.escape(library)}==(\S+)", pins, flags=re.MULTILINE)
    return f"{library} {found.group(1)}" if found else library


def draw(python: Path, table: Table, peer: str, epsilon: str, seed: int, limit: int) -> tuple[Draws, dict[str, Any]]:
    """Return the columns that a peer draws, by name of the draw, and their cost; none where it failed or took too long."""
    with tempfile.TemporaryDirectory() as folder:
        given, drawn = Path(folder) / "table.npz", Path(folder) / "rows.npz"
        flags = [n in table.ordered for n in table.keys]
        columns = {f"column {i}": v for i, v in enumerate(table.keys.values())}
        np.savez(given, names=list(table.keys), sizes=list(table.sizes.values()), ordered=flags, **columns)
        done = subprocess.run(
            [str(python), "-W", "ignore", str(HERE / "draw_rows.py"), peer, str(given), str(drawn), epsilon, DELTA, str(seed)],
            capture_output=True, text=True, check=False, preexec_fn=_at_most(limit),
            env={**os.environ, **ONE_CORE, "PYTHONPATH": str(ROOT / "src") if peer == OURS else ""},
        )  # fmt: skip
        if done.returncode == -signal.SIGXCPU:
            return {}, {"failure": f"over {limit} s of processor time"}
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"ended by signal {-done.returncode}"])[-1]
            return {}, {"failure": last[:200]}
        with np.load(drawn) as stored:
            names = [f.removesuffix("column 0") for f in stored.files if f.endswith("column 0")]
            found = {name: [stored[f"{name}column {i}"] for i in range(len(columns))] for name in names}
        return found, json.loads(done.stdout.splitlines()[-1])


def _at_most(seconds: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))


def measure(table: Table, peer: str, python: Path, epsilon: str, seed: int, limit: int) -> Iterator[dict[str, Any]]:
    """Yield the distances of the rows of one fit, and its cost: one of each draw, named PEER-DRAW where there are several."""
    drawn, cost = draw(python, table, peer, epsilon, seed, limit)
    if not drawn:
        yield {"peer": peer, **cost}
    sizes = [s + 1 for s in table.sizes.values()]  # a blank cell is one more code
    real = list(table.keys.values())
    for name, columns in drawn.items():
        found = {f"{ways}-way": round(distances(real, columns, sizes, ways), 5) for ways in (1, 2, 3)}
        yield {"peer": f"{peer}-{name}" if name else peer, **found, **cost}


def runs(options: argparse.Namespace) -> Iterator[tuple[str, str, str, int]]:
    """Yield the table, epsilon, peer and seed of every run that is asked for."""
    lists = (options.table, options.epsilon, options.peer)
    for table, epsilon, peer in itertools.product(*(text.split(",") for text in lists)):
        for seed in range(options.seeds):
            yield table, epsilon, peer, seed


def load_table(name: str, data: Path) -> Table | None:
    """Return a table by its name, or None where its file is absent."""
    if name != "adult_discrete":
        return SHAPES[name]()
    if data.is_file():
        return adult_discrete(data)
    print(f"left out: {data} is absent", file=sys.stderr)
    return None


def keep(options: argparse.Namespace) -> None:
    """Do every run that is asked for and not yet there, and add its figures to the file."""
    stored = [] if options.again else stored_lines(options.keep)
    there = {(f["table"], f["epsilon"], f["peer"], f["seed"]) for f in stored}
    options.keep.parent.mkdir(parents=True, exist_ok=True)
    tables: dict[str, Table | None] = {}
    for name, epsilon, peer, seed in runs(options):
        python = interpreter(peer, options.venvs)
        if python is None:
            print(f"left out: {peer} is not installed under {options.venvs} (--install)", file=sys.stderr)
        if name not in tables:
            tables[name] = load_table(name, options.data)
        table = tables[name]
        if python is None or table is None or (name, epsilon, peer, seed) in there:
            continue
        for found in measure(table, peer, python, epsilon, seed, options.limit):
            line = {"table": name, "epsilon": epsilon, "seed": seed, "version": version(peer), **found}
            print(json.dumps(line), flush=True)
            with options.keep.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def stored_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of figures; of two of the same run the later."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    return list({(f["table"], f["epsilon"], f["peer"], f["seed"]): f for f in found}.values())


def describe(tables: list[str]) -> dict[str, str]:
    """Return what each table is, by its own first sentence, with the rows of those that are drawn."""
    makers: dict[str, Callable[..., Table]] = {"adult_discrete": adult_discrete, **SHAPES}
    found = {n: (makers[n].__doc__ or "").removeprefix("Return ") for n in makers if n in tables}
    return {
        n: f"{t[:1].upper()}{t[1:]}" + (f" {SHAPES[n]().rows:,} rows." if n in SHAPES else "") for n, t in found.items()
    }


def main() -> None:
    """Install, run, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--venvs", type=Path, default=HERE.parent / "results" / "venvs")
    parser.add_argument("--table", default=",".join(["adult_discrete", *SHAPES]))
    parser.add_argument("--epsilon", default="1,0.1,10")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--peer", default=",".join([OURS, FLOOR, *PEERS]))
    parser.add_argument("--limit", type=int, default=300, help="processor seconds of one fit, imports included")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "adult_discrete.csv")
    parser.add_argument("--keep", type=Path, default=HERE.parent / "results" / "synthesis.jsonl")
    parser.add_argument("--again", action="store_true", help="run what is asked for, whether it is there or not")
    parser.add_argument("--write", type=Path, help="write the page; nothing is run without --again")
    options = parser.parse_args()
    if options.install:
        install(options.venvs)
        return
    if options.again or not options.write:
        keep(options)
    if options.write:
        lines = stored_lines(options.keep)
        options.keep.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        found = [Figure.of(line) for line in lines]
        text = page(found, PEERS, describe([f.table for f in found]), DELTA)
        # the part on wide columns of numbers is `numeric_synthesis.py`'s
        there = options.write.read_text(encoding="utf-8") if options.write.exists() else ""
        part = there[there.index(PART) :] if PART in there else ""
        options.write.write_text(f"{text}\n{part}" if part else text, encoding="utf-8")


if __name__ == "__main__":
    main()
