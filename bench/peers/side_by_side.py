"""Sordino beside other libraries: the same tables, the same questions, the same epsilon, asked in turns.

python bench/peers/side_by_side.py --make-venvs                        # once: an environment for each library, under --venvs
python bench/peers/side_by_side.py --peers opendp --rows 1000 --repeats 5
python bench/peers/side_by_side.py --parts errors,attacks              # figures that need no large table
python bench/peers/side_by_side.py --write                             # results/side-by-side.md, of bench/peers/results.json

Each library runs in a process of its own (peer_process.py, ask_*.py) with its pinned requirements (*.txt). For each question ours
and theirs are asked alternately, --repeats times, and medians of processor and wall seconds and of their ratios are added to
results.json; what a later run measures again replaces what stood. A library that is not installed is left out with a message.
One that takes longer than --limit seconds for a release is stopped, and the page says so.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import pyarrow as pa
import pyarrow.parquet as pq
from peers import peer_attacks, peer_errors, peer_figures, peer_process, side_by_side_page

import sordino as sd

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS, PAGE = HERE / "results.json", ROOT / "bench" / "results" / "side-by-side.md"
BOUNDS = {"region": None, "age": (17, 90), "gain": (0, 100_000)}
REGIONS = ("North", "East", "South", "West", "Capital", "Islands")
QUESTIONS: dict[str, dict[str, Any]] = {
    "count": {"kind": "count", "column": "age", "lower": 64, "upper": 90},
    "sum": {"kind": "sum", "column": "gain", "lower": 0, "upper": 100_000},
    "mean": {"kind": "mean", "column": "age", "lower": 17, "upper": 90},
    "median": {"kind": "median", "column": "age", "lower": 17, "upper": 90},
    "groups": {"kind": "groups", "column": "region", "keys": REGIONS},
}
SLOWEST = 300.0  # seconds that a start, and the reading of a table, may take at least
Found = dict[str, Any]


@dataclass(frozen=True)
class Library:
    """A peer: the package whose version is stated, and the only relation it has where it is not ours to choose."""

    name: str
    package: str
    relation: str = "add_remove"
    tables: bool = True  # whether it asks tables at all
    surveys: bool = False  # whether it is for the local model
    venv: str = ""  # its environment, where several share one
    framework: str = ""  # the peer whose sampler and accountant it has

    @property
    def environment(self) -> str:
        return self.venv or self.name


OURS = Library("sordino", "sordino")
LIBRARIES = {
    library.name: library
    for library in (
        OURS,
        Library("opendp", "opendp", framework="opendp_vectors"),
        Library("opendp_vectors", "opendp", venv="opendp"),
        Library("diffprivlib", "diffprivlib", relation="replace"),
        Library("pydp", "python-dp"),
        Library("smartnoise_sql", "smartnoise-sql"),
        Library("pipelinedp", "pipeline-dp"),
        Library("tumult", "tmlt.analytics"),
        Library("qrlew", "pyqrlew"),
        Library("dp_accounting", "dp-accounting", tables=False),
        Library("pure_ldp", "pure-ldp", tables=False, surveys=True),
        Library("multi_freq_ldpy", "multi-freq-ldpy", tables=False, surveys=True),
    )
}


class Asked:
    """A library in a process of its own, which answers requests until it is closed."""

    def __init__(self, library: Library, venvs: Path, limit: float) -> None:
        python = sys.executable if library.name == OURS.name else str(venvs / library.environment / "bin" / "python")
        roads = [str(ROOT / "bench"), *([str(ROOT / "src")] if library.name == OURS.name else [])]
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(roads), "PYSPARK_PYTHON": python}
        self.command = [python, "-W", "ignore", "-m", f"peers.ask_{library.name}"]
        self.limit, self.peak = limit, 0.0
        self.opened: Found = {}
        self.start = self._launch()

    def _launch(self) -> Found:
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.environment
        )
        return self._read(max(self.limit, SLOWEST))

    def open(self, **opening: Any) -> Found:
        """Have a table read, which may take longer than a release."""
        self.opened = opening
        return self._request("open", max(self.limit, SLOWEST), opening)

    def ask(self, verb: str, **request: Any) -> Found:
        """Return the answer to a request, or that it took too long; then the process is at an end."""
        return self._request(verb, self.limit, request)

    def revive(self) -> None:
        """Start the process again where it has been stopped, with the table that it had."""
        if self.process.poll() is not None:
            self._launch()
            self.open(**self.opened)

    def memory(self) -> float:
        """Return the most megabytes that its processes have held."""
        return max(self.peak, float(self.ask("memory").get("mb", 0)))

    def _request(self, verb: str, limit: float, request: Found) -> Found:
        if self.process.poll() is not None:
            return {"error": "ended", "says": "its process has ended"}
        assert self.process.stdin is not None
        self.process.stdin.write((json.dumps({"do": verb, **request}) + "\n").encode())
        self.process.stdin.flush()
        return self._read(limit)

    def _read(self, limit: float) -> Found:
        assert self.process.stdout is not None
        before = peer_process.ticked_seconds(self.process.pid)
        if not select.select([self.process.stdout], [], [], limit)[0]:
            used = peer_process.ticked_seconds(self.process.pid) - before
            self.peak = max(self.peak, peer_process.peak_memory(self.process.pid))
            self.process.kill()
            self.process.wait()
            return {"error": "stopped", "says": f"over {limit:g} s ({used:.0f} s of the processor)"}
        line = self.process.stdout.readline()
        answer: Found = json.loads(line) if line else {"error": "ended", "says": "its process ended"}
        return answer

    def __enter__(self) -> Asked:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _raised: BaseException | None, _at: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Bench:
    """Where libraries are installed, where tables lie, and what a run may take."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.errors_of_ours: dict[str, Found] = {}

    def start(self, library: Library, *, limit: float = 0) -> Asked:
        """Start a library; `limit` in seconds of its answers where it is not that of a release."""
        return Asked(library, self.options.venvs, limit or self.options.limit)

    def census(self, rows: int) -> Path:
        """Return a Parquet file of the generated census: four columns, without missing cells."""
        path = self.folder / f"census-{rows}.parquet"
        if not path.exists():
            made = sd.datasets.make_census(rows * 11 // 10 + 1000, sd.Rng.seeded(1)).select(list(BOUNDS)).drop_null()
            region, age = made["region"].cast(pa.string()), made["age"].cast(pa.int64())
            pq.write_table(pa.table({"region": region, "age": age, "gain": made["gain"]}).slice(0, rows), path)
        return path

    def opening(self, path: Path, relation: str, **changed: Any) -> Found:
        given = {"bounds": BOUNDS, "epsilon": 1.0, "releases": None}
        return {"path": str(path), "relation": relation, **given, **changed}


def make_venvs(venvs: Path, names: list[str]) -> None:
    """Make an environment for each library by its file of pinned requirements."""
    for name in names:
        subprocess.run([sys.executable, "-m", "venv", str(venvs / name)], check=True)
        pip = [str(venvs / name / "bin" / "python"), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, "-r", str(HERE / f"{name}.txt")], check=True)


def installed(names: list[str], venvs: Path) -> Iterator[Library]:
    """Yield the libraries that are installed; say which are not."""
    for name in names:
        if name == OURS.name or (venvs / LIBRARIES[name].environment / "bin" / "python").exists():
            yield LIBRARIES[name]
        else:
            print(f"left out: {name} is not installed under {venvs} (--make-venvs)", file=sys.stderr)


def version(library: Library) -> str:
    """Return the version of a library by its pinned requirements; ours is the last commit that changed the source."""
    if library == OURS:
        asked = ["git", "-C", str(ROOT), "log", "-1", "--format=%h", "--", "src"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    pins = (HERE / f"{library.environment}.txt").read_text().splitlines()
    return next(pin.partition("==")[2] for pin in pins if pin.lower().startswith(f"{library.package}=="))


def speeds(bench: Bench, library: Library, rows: int) -> Found:
    """Return what each question costs ours and theirs, asked in turns, and the start and memory of both."""
    path = bench.census(rows)
    with bench.start(OURS) as ours, bench.start(library) as theirs:
        sides = {"ours": ours, "theirs": theirs}
        found: Found = {"start": {n: s.start for n, s in sides.items()}, "questions": {}}
        found["open"] = {n: s.open(**bench.opening(path, library.relation)) for n, s in sides.items()}
        if "error" in found["open"]["theirs"]:
            unread = {**found["open"]["theirs"], "says": f"not read: {found['open']['theirs']['says']}"}
            found["questions"] = {name: {"none": unread} for name in bench.options.questions}
        for name in [n for n in bench.options.questions if n not in found["questions"]]:
            for side in sides.values():
                side.revive()
            found["questions"][name] = _alternate(sides, {"epsilon": 1.0, **QUESTIONS[name]}, bench.options)
        found["memory"] = {n: s.memory() or None for n, s in sides.items()}
    return found


def durable(bench: Bench, rows: int) -> Found:
    """Return what a count costs us with an account on disk ("theirs") and in memory ("ours"), asked in turns."""
    path, ledger = bench.census(rows), bench.folder / "durable.ledger"
    with bench.start(OURS) as memory, bench.start(OURS) as disk:
        memory.open(**bench.opening(path, OURS.relation))
        disk.open(**bench.opening(path, OURS.relation, ledger=str(ledger)))
        return _alternate({"ours": memory, "theirs": disk}, {"epsilon": 1.0, **QUESTIONS["count"]}, bench.options)


def _alternate(sides: dict[str, Asked], question: Found, options: argparse.Namespace) -> Found:
    """Return the first release of each, then medians over turns of both; short releases are asked several times a turn."""
    first, times = {}, {}
    for name, side in sides.items():
        once = {"times": 1, "limit": options.limit, "values": False}
        first[name] = side.ask("ask", **question, **once)
        if first[name].keys() & {"no", "error"}:
            return {"first": first, "none": first[name]}
        again = side.ask("ask", **question, **once)
        if again.keys() & {"no", "error"}:
            return {"first": first, "none": again}
        times[name] = max(1, min(50, int(0.05 / max(again["wall"], 1e-6))))
    taken: dict[str, list[Found]] = {name: [] for name in sides}
    for _ in range(options.repeats):
        for name, side in sides.items():
            turn = side.ask("ask", **question, times=times[name], limit=options.limit, values=False)
            if turn.keys() & {"no", "error"}:
                return {"first": first, "none": turn}
            taken[name].append(turn)
    costs = {
        cost: {name: [round(t[cost], 7) for t in turns] for name, turns in taken.items()} for cost in ("cpu", "wall")
    }
    ratios = [t / o for o, t in zip(costs["cpu"]["ours"], costs["cpu"]["theirs"], strict=True)]
    return {"first": {n: f["cpu"] for n, f in first.items()}, **costs, "ratio": statistics.median(ratios)}


def keep(path: Path, part: str, library: Library, key: str, found: Found) -> None:
    """Add what was found to the file, with the versions and the load of that moment."""
    results = json.loads(path.read_text()) if path.exists() else {}
    results.setdefault(part, {}).setdefault(library.name, {})[key] = found
    results.setdefault("versions", {})[library.name] = version(library)
    run = f"{part} of {library.name}: {key}"
    results.setdefault("commits", {})[run] = results["versions"]["sordino"] = version(OURS)
    results.setdefault("loads", {})[run] = os.getloadavg()[1]
    path.write_text(json.dumps(_short(results), indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _short(found: Any) -> Any:
    """Return figures at six digits: more is noise."""
    if isinstance(found, dict):
        return {k: _short(v) for k, v in found.items()}
    if isinstance(found, list | tuple):
        return [_short(v) for v in found]
    return float(f"{found:.6g}") if isinstance(found, float) else found


def run(options: argparse.Namespace) -> None:
    """Do the parts that are asked for, a library at a time."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, Path(folder))
        for library in installed(options.peers, options.venvs):
            for part, keys in _work(options, library):
                for key in keys:
                    print(f"{part} of {library.name}: {key}", flush=True)
                    keep(options.keep, part, library, key, PARTS[part](bench, library, key))


def _work(options: argparse.Namespace, library: Library) -> Iterator[tuple[str, list[str]]]:
    """Yield what is measured of a library: ours is one side of all, so attacks and accounts on disk alone are run on it."""
    asked = {
        "speeds": [str(rows) for rows in options.rows] if library.tables and library != OURS else [],
        "errors": ["1000"] if library.tables and library != OURS else [],
        "attacks": list(peer_attacks.ATTACKS) if library.tables else [],
        "noise": list(peer_figures.LAWS) if library.tables and library != OURS and not library.framework else [],
        "accounting": [] if library.surveys or library.framework or library == OURS else list(peer_figures.LISTS),
        "surveys": list(peer_figures.SURVEYS) if library.surveys else [],
        "durable": ["1000"] if library == OURS else [],
    }
    for part, keys in asked.items():
        if part in options.parts:
            yield part, [key for key in keys if key in options.only or not options.only]


def _attack(bench: Bench, library: Library, name: str) -> Found:
    """Run an attack; of those on sums ours is run under replace, where the least is declared."""
    sums = name in ("float sum", "whole sum") and library.name == OURS.name
    return peer_attacks.ATTACKS[name](bench, replace(library, relation="replace") if sums else library)


PARTS: dict[str, Callable[[Bench, Library, str], Found]] = {
    "speeds": lambda bench, library, rows: speeds(bench, library, int(rows)),
    "errors": lambda bench, library, _rows: peer_errors.measure(bench, library, OURS, QUESTIONS),
    "attacks": _attack,
    "noise": lambda bench, library, law: peer_figures.noise(bench, library, OURS, law),
    "accounting": lambda bench, library, name: peer_figures.account(bench, library, OURS, name),
    "surveys": lambda bench, library, name: peer_figures.survey(bench, library, OURS, name),
    "durable": lambda bench, _library, rows: durable(bench, int(rows)),
}


def main() -> None:
    """Install, run, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--make-venvs", action="store_true")
    parser.add_argument("--venvs", type=Path, default=HERE.parent / "results" / "venvs")
    parser.add_argument("--peers", type=lambda text: text.split(","), default=list(LIBRARIES))
    parser.add_argument("--rows", type=lambda text: [int(float(n)) for n in text.split(",")], default=[1000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--asks", type=int, default=500, help="answers of each question whose error is measured")
    parser.add_argument("--seconds", type=float, default=30, help="of each question of errors and attacks")
    parser.add_argument(
        "--limit", type=float, default=60, help="seconds of a release, after which a library is stopped"
    )
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--questions", type=lambda text: text.split(","), default=list(QUESTIONS), help="to be timed")
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=[], help='of these parts, such as "float sum"'
    )
    parser.add_argument("--keep", type=Path, default=RESULTS, help="the file that figures are added to")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.make_venvs:
        make_venvs(options.venvs, options.peers)
    elif options.write:
        PAGE.write_text(side_by_side_page.page(json.loads(options.keep.read_text())), encoding="utf-8")
    else:
        run(options)


if __name__ == "__main__":
    main()
