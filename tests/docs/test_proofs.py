"""The page of proofs: no theorem is left out, and every file and test that it names exists and has to do with the other."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from places import ROOT

SOURCE, TESTS = ROOT / "src" / "sordino", ROOT / "tests"
ROW = re.compile(
    r"^\| (?P<claim>.+?) \| `(?P<file>[\w/]+\.py)` \| (?P<stands>[\w, ]+) \| (?P<tests>.+) \|$", re.MULTILINE
)
TEST = re.compile(r"`(?P<path>[\w/]+\.py)`(?: \(via `(?P<word>\w+)`\))?")
STANDS = {"proved", "cited", "cited, proved", "tested"}


@functools.cache
def rows() -> list[re.Match[str]]:
    return list(ROW.finditer((ROOT / "bench" / "results" / "proofs.md").read_text(encoding="utf-8")))


def public_names(path: Path) -> set[str]:
    """Return the public names that a file defines at its top level."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return {name for name in found if not name.startswith("_")}


@functools.cache
def reach(test: Path) -> str:
    """Return the text of a test and of the helpers beside the tests that it imports."""
    text = test.read_text(encoding="utf-8")
    imported = re.findall(r"^(?:from|import) ([\w.]+)(?: import (\w+))?", text, flags=re.MULTILINE)
    names = {name for package, one in imported for name in (package, f"{package}.{one}")}
    helpers = (TESTS / f"{name.replace('.', '/')}.py" for name in sorted(names))
    return text + "".join(h.read_text(encoding="utf-8") for h in helpers if h.is_file())


def test_every_theorem_is_on_the_page() -> None:
    stated = {str(p.relative_to(SOURCE)) for p in SOURCE.rglob("*.py") if "Theorem" in p.read_text(encoding="utf-8")}
    left_out = stated - {row["file"] for row in rows()}
    assert not left_out, f"add a row to bench/results/proofs.md for each theorem of {', '.join(sorted(left_out))}"


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["claim"][:60])
def test_a_claim_names_its_file_and_what_tries_to_break_it(row: re.Match[str]) -> None:
    assert row["stands"] in STANDS
    source = SOURCE / row["file"]
    module = "sordino." + row["file"].removesuffix(".py").replace("/", ".")
    package, _, stem = module.rpartition(".")
    words = public_names(source) | {module, f"from {package} import {stem}"}
    named = list(TEST.finditer(row["tests"]))
    assert named
    for test in named:
        text = reach(TESTS / test["path"])
        if test["word"] is not None:
            assert test["word"] in source.read_text(encoding="utf-8"), f"{row['file']} has no {test['word']}"
            assert test["word"] in text, f"{test['path']} has no {test['word']}"
        else:
            pattern = rf"\b({'|'.join(map(re.escape, sorted(words)))})\b"
            assert re.search(pattern, text), f"{test['path']} does not name {row['file']}"


def test_the_rule_can_fail() -> None:
    names = public_names(SOURCE / "core" / "mechanisms" / "sparse_vector.py")
    assert "SparseVector" in names
    assert not re.search(r"\bSparseVector\b", reach(TESTS / "core" / "noise" / "test_cauchy.py"))
