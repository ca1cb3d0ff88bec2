"""Attacks by files that run code when they are read: pickles, in any place where a file or a text is taken from someone else."""

from __future__ import annotations

import ast
import base64
import io
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sordino as sd
from places import ROOT
from sordino import synth
from sordino.ask.project.load import load_project
from sordino.core.ledger.ledger import Ledger
from sordino.errors import SordinoError

LOADERS = {
    "pickle",
    "cPickle",
    "_pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "yaml",
    "jsonpickle",
    "code",
    "codeop",
}
RUNNERS = {"eval", "exec", "compile", "__import__"}


READERS: list[Callable[[Path], Any]] = [
    synth.load,
    Ledger.existing,
    load_project,
    sd.connect,
    lambda path: sd.Release.from_dict(json.loads(path.read_text(encoding="latin-1"))),
]
# What dangers() could find, at least.
SUSPECT = re.compile(
    rf"^\s*(?:import|from)\b.*\b(?:{'|'.join(LOADERS)})\b|(?<![\w.])(?:{'|'.join(RUNNERS)})\s*\("
    r"|pickle|\b(?:np|numpy)\.load\b",
    re.MULTILINE,
)


class Trap:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (Path.touch, (self.path,))


def dotted(node: ast.expr) -> str:
    """Return what is called, in words: names and attributes; nothing stands for what is no name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def dangers(tree: ast.AST) -> list[str]:
    """Return each import and call by which a text or file could become code."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in LOADERS]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in LOADERS and not node.level:
            found.append(str(node.module))
        elif isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in RUNNERS or name.endswith((".read_pickle", ".to_pickle")):
                found.append(name)
            allowed = [k for k in node.keywords if k.arg == "allow_pickle" and ast.unparse(k.value) != "False"]
            if allowed or (
                name in ("np.load", "numpy.load") and not any(k.arg == "allow_pickle" for k in node.keywords)
            ):
                found.append(f"{name} with pickles")
    return found


@pytest.mark.attack("run code from a file", source="CWE-502; CWE-95")
def test_nothing_in_the_source_unpickles_or_evaluates() -> None:
    for text in ("import pickle", "from dill import loads", "np.load(f, allow_pickle=True)", "np.load(f)", "eval(t)"):
        assert dangers(ast.parse(text)), text
        assert SUSPECT.search(text), text
    sources = sorted((ROOT / "src").rglob("*.py"))
    assert len(sources) > 300
    texts = {path: path.read_text(encoding="utf-8") for path in sources}
    found = {path: dangers(ast.parse(text)) for path, text in texts.items() if SUSPECT.search(text)}
    assert {path for path, several in found.items() if several} == set()


@pytest.mark.attack("run code from a file")
def test_no_file_that_is_opened_runs_what_it_holds(tmp_path: Path) -> None:
    """The control: whoever unpickles the same bytes has the file made."""
    sprung, sound = tmp_path / "sprung", tmp_path / "sound"
    pickle.loads(pickle.dumps(Trap(sprung)))
    assert sprung.exists()
    bomb = pickle.dumps(Trap(sound))
    boxed = io.BytesIO()
    np.save(boxed, np.array([Trap(sound)], dtype=object), allow_pickle=True)
    archive = io.BytesIO()
    np.savez(archive, header=np.array([Trap(sound)], dtype=object), checksum=np.frombuffer(bomb, np.uint8))
    text = base64.b64encode(bomb).decode()
    yaml = f"!!python/object/apply:pathlib.Path.touch ['{sound}']"
    for content in (bomb, boxed.getvalue(), archive.getvalue(), text.encode(), yaml.encode()):
        path = tmp_path / "given"
        path.write_bytes(content)
        for read in READERS:
            with pytest.raises((SordinoError, ValueError)):
                read(path)
    assert not sound.exists()
