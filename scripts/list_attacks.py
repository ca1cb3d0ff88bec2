"""List the attacks that the tests try: bench/results/attack-suite.md from the markers `attack` of the tests.

`python scripts/list_attacks.py` writes the page; with `--files` it prints the files of these tests, for `make attacks`.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "bench" / "results" / "attack-suite.md"
HEAD = """# The attack suite

`make attacks` tries every attack in this table on the library as it is, and reports for each whether the library held. The
attacker has what a user has: questions, answers, refusals, times, and files that they may write or replace. Where other software
falls to an attack, the same test file also runs it against a textbook implementation, where it succeeds. This shows that the test
can fail.

The quick tests also run in `make test`. Those with a star take longer and run only in `make attacks` and `make test-deep`.
`python scripts/list_attacks.py` writes this page from the markers of the tests. [Attacks](../../docs/attacks.md) explains to a
board what attacks mean, and [Proofs](proofs.md) lists the theorem that each part rests on.

| attack | where it was published or seen | tests |
|---|---|---|
"""


@dataclass(frozen=True)
class Try:
    """A test that tries an attack; the source may be named by another test of the same attack."""

    attack: str
    source: str
    file: str
    test: str
    deep: bool


def find_tries(tests: Path = ROOT / "tests") -> list[Try]:
    """Return every marked test, in the order of files and lines."""
    found: list[Try] = []
    for path in sorted(tests.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.attack(" in text:
            found += _tries_of(ast.parse(text), path.relative_to(ROOT).as_posix())
    return found


def _tries_of(tree: ast.Module, file: str) -> Iterator[Try]:
    named = {ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)}
    stated = named.get("pytestmark", ast.List([]))
    common = stated.elts if isinstance(stated, ast.List) else [stated]
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("test_"):
            continue
        # A mark of several tests has a name.
        marks = [named.get(ast.unparse(mark), mark) for mark in (*node.decorator_list, *common)]
        for mark in marks:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.attack":
                name, source = _arguments(mark)
                deep = any(ast.unparse(other) == "pytest.mark.deep" for other in marks)
                yield Try(name, source, file, node.name, deep)
                break


def _arguments(mark: ast.Call) -> tuple[str, str]:
    (name,) = mark.args
    named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in mark.keywords}
    return str(ast.literal_eval(name)), str(named.get("source", ""))


def page(tries: list[Try]) -> str:
    """Return the page; every attack names its source at one of its tests."""
    by_attack: dict[str, list[Try]] = defaultdict(list)
    for one in tries:
        by_attack[one.attack].append(one)
    rows = []
    for attack, several in sorted(by_attack.items(), key=lambda pair: pair[0].lower()):
        sources = {one.source for one in several if one.source}
        if len(sources) != 1:
            raise ValueError(f"the attack {attack!r} has {len(sources)} sources")
        files: dict[str, list[str]] = defaultdict(list)
        for one in several:
            files[one.file].append(one.test.removeprefix("test_").replace("_", " ") + "*" * one.deep)
        tests = "; ".join(f"[{Path(file).name}](../../{file}): {', '.join(names)}" for file, names in files.items())
        rows.append(f"| {attack} | {sources.pop()} | {tests} |".replace("*", r"\*"))
    return HEAD + "\n".join(rows) + "\n"


def main(arguments: list[str]) -> None:
    tries = find_tries()
    if arguments == ["--files"]:
        print(*sorted({one.file for one in tries}))
    else:
        PAGE.write_text(page(tries), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
