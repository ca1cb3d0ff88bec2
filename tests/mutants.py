"""Mutants: bugs planted on purpose in a copy of the source, each of which a named test must kill. `make mutants` runs them.

`python tests/mutants.py --help` says how to run some of them, or all and write bench/results/mutants.md.

Of Sordino this program imports nothing. It imports what the tests need besides, once, and forks a process for each mutant, which
imports the copy with the bug in it: a third of the time that a new Python would take.
"""

from __future__ import annotations

import argparse
import ast
import functools
import gc
import importlib
import itertools
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
BROWSER = Path("clients") / "js" / "sordino.js"  # which the collector's pages look for beside the source
PAGE = ROOT / "bench" / "results" / "mutants.md"
LIST = ROOT / "tests" / "data" / "mutants.toml"
_PATIENCE, _LONG = 600.0, 7200.0  # seconds for the killer of one mutant, and for all killers
_NOT_IMPORTED = 90  # the exit code of a child whose mutated module does not import
_NO_REASON = re.compile(r"(ModuleNotFound|Import|Name|UnboundLocal|Syntax|Indentation)Error")  # anything kills these
_BESIDES = (
    *("numpy", "pyarrow.parquet", "duckdb", "sqlglot.optimizer", "scipy.special", "pydantic", "hypothesis", "typer"),
    *("anyio.pytest_plugin", "cryptography.hazmat.primitives.ciphers", "psycopg", "rich.console", "xdist.scheduler"),
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """State one bug: within `at`, `find` becomes `put`; `killers` are the tests that must then fail.

    `at` is a module of Sordino and a function or class in it, "core.noise.rng:Rng.bytes", or the module alone: wherever else
    in its file that function moves, and whatever stands beside it, the bug is planted in it.
    """

    name: str
    room: str
    at: str
    find: str
    put: str
    why: str
    killers: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The file below the source."""
        place = Path("sordino", *self.at.partition(":")[0].split("."))
        return place / "__init__.py" if (SOURCE / place).is_dir() else place.with_suffix(".py")

    @property
    def module(self) -> str:
        """The module's dotted name."""
        return f"sordino.{self.at.partition(':')[0]}"

    def plant(self, text: str) -> str:
        """Return the file's text with the bug in it; raise ValueError unless the place is found exactly once."""
        start, end = _find_symbol(text, self.at.partition(":")[2])
        found = text.count(self.find, start, end)
        if found != 1 or self.find == self.put:
            raise ValueError(f"{self.name}: its text is {found} times in {self.at}")
        return text[:start] + text[start:end].replace(self.find, self.put) + text[end:]


def _find_symbol(text: str, symbol: str) -> tuple[int, int]:
    """Return where the source of a function or class starts and ends, the last of several of its name; nowhere if not there."""
    return _find_symbols(text).get(symbol, (0, 0)) if symbol else (0, len(text))


@functools.cache
def _find_symbols(text: str) -> dict[str, tuple[int, int]]:
    """Return where each function and class of a file starts and ends, by its dotted name."""
    starts = [0, *itertools.accumulate(len(line) for line in text.splitlines(keepends=True))]
    spans: dict[str, tuple[int, int]] = {}
    scopes: list[tuple[str, ast.AST]] = [("", ast.parse(text))]
    for prefix, scope in scopes:
        for node in ast.iter_child_nodes(scope):
            name = prefix
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}{node.name}."
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                spans[name.removesuffix(".")] = starts[first - 1], starts[node.end_lineno or first]
            if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
                scopes.append((name, node))
    return spans


@dataclass(frozen=True, slots=True)
class Outcome:
    """State how a mutant fared: why it is not killed, nothing where it is, and after how long."""

    mutant: Mutant
    survival: str
    seconds: float


def read_mutants() -> list[Mutant]:
    """Return the committed list, in the order of its rooms."""
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**{**one, "killers": tuple(one["killers"])}) for one in listed]


@contextmanager
def copy_source() -> Iterator[Path]:
    """Give a copy of the source in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="sordino-mutants-") as place:
        copied = Path(place) / "src"
        # With what Python compiled of it, which is valid for a copy of the same times: the first import would take seconds.
        shutil.copytree(SOURCE, copied)
        (Path(place) / BROWSER).parent.mkdir(parents=True)
        shutil.copy(ROOT / BROWSER, Path(place) / BROWSER)
        yield copied


def run_tests(
    tests: Iterable[str], source: Path, *, module: str = "sordino", patience: float = _PATIENCE
) -> tuple[int, str]:
    """Run tests, deep ones too, in a forked process that imports Sordino from a place; return its exit code and words."""
    said = source.with_name("said.txt")
    child = os.fork()
    if not child:
        os.setsid()
        out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os._exit(_run_here(tests, source, module))
    until = time.monotonic() + patience
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), said.read_text(encoding="utf-8", errors="replace")
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1, "it does not end"


def _run_here(tests: Iterable[str], source: Path, module: str) -> int:
    """Import the module from the copy and run the tests on it, in this process and its children alike."""
    # No garbage is looked for among all that was imported before the fork.
    gc.freeze()
    os.environ |= {"PYTHONPATH": str(source), "COLUMNS": "4000"}
    sys.path.insert(0, str(source))
    try:
        importlib.import_module(module)
    except Exception:
        return _NOT_IMPORTED
    options = [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        # It would collect garbage five times at the end, to tell of exceptions that nobody waits for.
        "-p",
        "no:unraisableexception",
        "--hypothesis-profile=mutants",
        "--tb=no",
        "-rfE",
        "-o",
        f"pythonpath={source} tests",
    ]
    return int(pytest.main([*options, *tests]))


def try_mutant(mutant: Mutant, source: Path) -> Outcome:
    """Plant a mutant in the copy, see each of its killers fail, and take it out again."""
    path = source / mutant.path
    text = path.read_text(encoding="utf-8")
    path.write_text(mutant.plant(text), encoding="utf-8")
    _forget_bytecode(path)
    started = time.perf_counter()
    try:
        survivals = (_survive(mutant, killer, source) for killer in mutant.killers)
        survival = next((why for why in survivals if why), "")
    finally:
        path.write_text(text, encoding="utf-8")
        _forget_bytecode(path)
    return Outcome(mutant, survival, time.perf_counter() - started)


def _survive(mutant: Mutant, killer: str, source: Path) -> str:
    """Return why a killer does not kill, nothing where it fails for a reason that counts."""
    code, said = run_tests([killer], source, module=mutant.module)
    if code == _NOT_IMPORTED:
        return "the mutated module does not import"
    if code == 0:
        return f"{killer} passes"
    reasons = re.findall(r"^FAILED \S.*? - (.*)$", said, re.M)
    if code != 1 or not reasons:
        return f"{killer} did not run: {said[-300:]}"
    if any(_NO_REASON.match(why) for why in reasons):
        return f"{killer} fails because the mutant cannot run: {reasons[0]}"
    return ""


def _forget_bytecode(path: Path) -> None:
    """Remove what Python compiled of a file: a change of the same size within a second would not be seen."""
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def write_page(outcomes: Sequence[Outcome]) -> str:
    """Return the page of outcomes."""
    rooms = dict.fromkeys(o.mutant.room for o in outcomes)
    lines = [_HEAD.format(count=len(outcomes), rooms=len(rooms))]
    for room in rooms:
        lines += [f"\n## {room.capitalize()}\n", "| mutant | where | why it matters | killed by | seconds |"]
        lines += ["|---|---|---|---|---|"]
        lines += [f"{row_start(o.mutant)}{o.seconds:.1f} |" for o in outcomes if o.mutant.room == room]
    return "\n".join(lines) + "\n"


def row_start(mutant: Mutant) -> str:
    """Return the cells of a mutant's row but for the seconds, which each run measures anew."""
    killers = "<br>".join(f"`{killer.removeprefix('tests/')}`" for killer in mutant.killers)
    return f"| {mutant.name} | `{mutant.at}` | {mutant.why} | {killers} | "


_HEAD = """# Mutants: planted bugs, and the test that kills each

`make mutants` writes this page (`tests/mutants.py`, from `tests/data/mutants.toml`); nobody edits it.

A test that cannot fail proves nothing. So {count} bugs are planted on purpose, one at a time, in a copy of the source:
noise that is 1% too small, a cap that is one row loose, a delta that is counted once instead of twice, a charge that is
refunded. Each is killed by the test named beside it: the test passes on the source as it is, and fails on the copy by an
assertion or a refusal, not because the copy could not be imported. `make test` sees that each planted text is still found
in the source and that each killer is there; `make test-deep` runs them all.

The {rooms} rooms below are those that privacy hangs on. Seconds are of one run, on a machine with other work to do."""


def read_words(words: Sequence[str]) -> tuple[list[Mutant], bool]:
    """Return the mutants that a command line names, and whether to write the page of all; exits where it cannot be read."""
    parser = argparse.ArgumentParser(
        prog="mutants.py",
        description="Plant bugs in a copy of the source, one by one, and see that each is killed by its test. It takes minutes.",
    )
    parser.add_argument("word", nargs="*", help="run the mutants whose name has one of these words; without any, all")
    parser.add_argument("--write", action="store_true", help=f"run all, and write {PAGE.name} where none survives")
    stated = parser.parse_args(words)
    every = read_mutants()
    named = [m for m in every if any(word in m.name for word in stated.word)]
    if stated.write and stated.word:
        parser.error("--write is of all mutants, without words")
    unknown = [word for word in stated.word if not any(word in m.name for m in every)]
    if unknown:
        parser.error(f"no mutant's name has {unknown[0]!r}")
    return named or every, stated.write


def main(words: Sequence[str]) -> int:
    """Run the control and the mutants and print how each fared; return 1 where one survives."""
    chosen, write = read_words(words)
    sys.path[:] = [place for place in sys.path if Path(place).resolve() != SOURCE]
    # As in conftest.py, which is loaded after numpy here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in _BESIDES:
        importlib.import_module(name)
    os.chdir(ROOT)
    with copy_source() as source:
        print(f"control: the killers of {len(chosen)} mutants pass on the source as it is ...", flush=True)
        code, said = run_tests(dict.fromkeys(k for m in chosen for k in m.killers), source, patience=_LONG)
        if code:
            print("\n".join(line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))) or said[-3000:])
            return 1
        outcomes = []
        for number, mutant in enumerate(chosen, 1):
            outcomes.append(try_mutant(mutant, source))
            found = outcomes[-1]
            fate = f"SURVIVED: {found.survival}" if found.survival else "killed"
            print(f"{number}/{len(chosen)} {found.seconds:5.1f} s  {mutant.room}: {mutant.name}: {fate}", flush=True)
    alive = sum(1 for o in outcomes if o.survival)
    print(f"{len(outcomes) - alive} killed, {alive} survived")
    if write and not alive:
        PAGE.write_text(write_page(outcomes), encoding="utf-8")
    return 1 if alive else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
