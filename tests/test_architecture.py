"""The architecture: layers, import rules, no import cycles, a docstring for every public name. Only source text is read."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import subprocess
import sys
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from places import ROOT

SOURCE = ROOT / "src" / "sordino"

# A layer imports only lower ones; packages of one layer do not import each other, apart from what BESIDE allows.
LAYERS = (
    ("errors", "field_words", "lazy", "rounding", "templates"),
    (
        "domain",
        "neighbors",
        "loss",
        "codec",
        "source",
        "far_files",
        "primitives",
        "cell_grammar",
        "time_zones",
        "declared_times",
        "notebook_tables",
        "release_exports",
        "noise",
    ),
    ("release", "estimates", "accounting"),
    ("ledger", "queries", "datasets"),
    ("sensitivity", "engines", "local", "mechanisms", "project"),
    ("clipping", "synth"),
    ("risk",),
    ("reporting",),
    ("remote",),
    ("curator",),
    ("connections",),
    ("audit", "collector"),
    ("server",),
    ("workbench",),
    ("assistant",),
    ("cli", "notebook"),
    ("__main__",),
)
DECLARED = frozenset(
    {"domain", "neighbors", "loss", "codec", "source", "primitives", "cell_grammar", "time_zones", "declared_times"}
    | {"notebook_tables", "far_files"}
)
BESIDE = dict.fromkeys(DECLARED, DECLARED) | {
    "release": frozenset({"accounting", "estimates"}),  # a release carries its event and its estimates
}
USES_PUBLIC_API = frozenset(
    {"__main__", "assistant", "cli", "notebook", "server", "collector", "workbench"}
)  # who may use `import sordino as sd` like everyone

ONLY_THESE_MAY = {  # package: who may import it
    "engines": frozenset({"engines", "curator"}),
}
MAY_ONLY = {  # package: all of Sordino that it may import besides itself
    "noise": frozenset({"errors", "rounding"}),
    "datasets": frozenset(
        {"errors", "cell_grammar", "domain", "time_zones", "neighbors", "loss", "noise", "source", "far_files"}
    ),
}
MAY_NOT = {
    "accounting": frozenset({"noise", "queries", "mechanisms"}),
    "synth": frozenset({"engines", "curator", "mechanisms"}),
    "clipping": frozenset({"engines", "curator", "mechanisms"}),
    "reporting": frozenset({"curator", "engines"}),
}
RANDOM_SOURCE = "sordino.noise.rng"
DOTTED = re.compile(r"[a-z_]+(\.[a-z_][a-z0-9_]*)+")
THIRD_PARTY = {  # module: the packages, or single modules, that may import it
    "duckdb": ("engines", "datasets", "server.sql_wire.declared_catalog"),  # the last in memory, of declarations
    "psycopg": ("engines", "datasets", "collector.report_store", "ledger.postgres_ledger"),
    "pyspark": ("engines", "datasets"),
    "sqlglot": ("engines", "queries", "primitives", "curator", "server.sql_wire"),
    "typer": ("cli",),
    "IPython": ("notebook",),
    "rich": ("cli",),
    "altair": ("reporting",),
    "vl_convert": ("reporting",),
    "jinja2": ("templates", "server"),
    "fastapi": ("collector", "server", "workbench", "cli.serve"),
    "uvicorn": ("collector", "server", "cli.serve"),
    "sqlalchemy": ("server", "cli.serve"),
    "argon2": ("server", "cli.serve"),
    "authlib": ("server",),
    "joserfc": ("server",),
    "httpx": ("remote", "server", "far_files"),
    "fsspec": ("engines",),
    "mcp": ("assistant",),
    "prometheus_client": ("server",),
    "sqlite3": ("ledger", "collector", "local.device", "datasets"),
}
BANNED = re.compile(r"random|numpy\.random|np\.random|scipy\.stats\._|uuid\.uuid[14]")
SECURE = re.compile(r"secrets|os\.(urandom|getrandom)|cryptography\.hazmat\.primitives\.ciphers")
TEST_ORACLES = frozenset({"opendp", "dp_accounting", "diffprivlib", "hypothesis", "pytest"})
HEAVY = ("duckdb", "jinja2", "numpy", "pyarrow", "pydantic", "sqlglot", "scipy", "rich", "typer", "cryptography")


@dataclass(frozen=True, slots=True)
class Module:
    """A source file: its dotted name, text, tree, and the dotted names that it imports anywhere in it."""

    name: str
    path: Path
    tree: ast.Module
    imports: tuple[str, ...]

    @property
    def package(self) -> str:
        return package_of(self.name)


def package_of(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


def parse(path: Path, *, name: str) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    parent = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return Module(name, path, tree, tuple(sorted(set(imports_of(tree, parent)))))


def imports_of(tree: ast.AST, package: str) -> Iterator[str]:
    """Yield every name imported, also in functions and under TYPE_CHECKING, and by importlib.

    Where a file calls importlib, every text in it that is a dotted name of the project counts as imported: the name may
    come out of a table.
    """
    dynamic = any(
        isinstance(n, ast.Call)
        and getattr(n.func, "attr", getattr(n.func, "id", "")) in ("import_module", "__import__")
        for n in ast.walk(tree)
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(part for part in (base, node.module or "") if part)
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif dynamic and isinstance(node, ast.Constant) and DOTTED.fullmatch(str(node.value)):
            yield str(node.value)


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


@functools.cache
def read_module(name: str) -> Module:
    """Parse a source file once, and only in the process that runs these tests."""
    return parse(PATHS[name], name=name)


def internal_imports(module: Module) -> set[str]:
    """Return the modules of Sordino that a module imports; a name in a package counts as its file or package."""
    found = set()
    for name in module.imports:
        if name.split(".")[0] != "sordino":
            continue
        parent = name.rpartition(".")[0]
        if name in PATHS:
            found.add(name)
        elif parent in PATHS:
            found.add("sordino.__version__" if name == "sordino.__version__" else parent)
        else:
            found.add(name)
    return found - {module.name, "sordino.__version__"}


def uses(tree: ast.AST) -> Iterator[str]:
    """Yield dotted attribute chains such as np.random.default_rng."""
    for node in ast.walk(tree):
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if parts and isinstance(node, ast.Name):
            yield ".".join([node.id, *reversed(parts)])


def broken_rules(module: Module) -> list[str]:
    """Return each layer or import rule that a module breaks."""
    broken = []
    layers = {package: layer for layer, packages in enumerate(LAYERS) for package in packages}
    package = module.package
    if module.name == "sordino":
        return []  # the public API exports everything, lazily
    if package not in layers:
        return [f"{module.name}: the package {package!r} is in no layer; put it into LAYERS"]
    for name in sorted(internal_imports(module)):
        other = package_of(name)
        if name == "sordino":
            if package not in USES_PUBLIC_API:
                broken.append(f"{module.name} imports the public API")
            continue
        if other == package:
            continue
        if other not in layers:
            broken.append(f"{module.name} imports {name}, which does not exist")
            continue
        lower = layers[other] < layers[package] or other in BESIDE.get(package, frozenset())
        if not lower:
            broken.append(f"layer: {module.name} imports {name}, which is not below it")
        if package not in ONLY_THESE_MAY.get(other, frozenset({package})):
            broken.append(f"rule: {module.name} imports {name}")
        if other in MAY_NOT.get(package, frozenset()) or other not in MAY_ONLY.get(package, frozenset({other})):
            broken.append(f"rule: {module.name} imports {name}")
    for name in (*module.imports, *uses(module.tree)):
        if BANNED.match(name):
            broken.append(f"rule: {module.name} uses {name}; randomness comes through {RANDOM_SOURCE}")
        if SECURE.match(name) and module.name != RANDOM_SOURCE:
            broken.append(f"rule: {module.name} uses {name}, which only {RANDOM_SOURCE} may")
        allowed = THIRD_PARTY.get(name.split(".")[0], ())
        if allowed and not any(f"{module.name}.".startswith(f"sordino.{place}.") for place in allowed):
            broken.append(f"rule: {module.name} imports {name}, which only {', '.join(allowed)} may")
        if name.split(".")[0] in TEST_ORACLES:
            broken.append(f"rule: {module.name} imports {name}, which is for tests")
    return broken


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return an import cycle for each file that closes one, by depth-first search."""
    state: dict[str, int] = {}
    found: list[list[str]] = []

    def visit(name: str, path: list[str]) -> None:
        state[name] = 1
        for other in sorted(edges.get(name, ())):
            if state.get(other) == 1:
                found.append([*path[path.index(other) :], other])
            elif other not in state:
                visit(other, [*path, other])
        state[name] = 2

    for name in sorted(edges):
        if name not in state:
            visit(name, [name])
    return found


@pytest.mark.parametrize("name", sorted(PATHS))
def test_layers_and_import_rules(name: str) -> None:
    assert broken_rules(read_module(name)) == []


def test_no_import_cycles() -> None:
    edges = {name: internal_imports(read_module(name)) - {"sordino"} for name in PATHS if name != "sordino"}
    assert cycles(edges) == []


def test_rules_catch_what_they_are_for(tmp_path: Path) -> None:
    def rules(name: str, text: str) -> list[str]:
        path = tmp_path / "module.py"
        path.write_text(text)
        return broken_rules(parse(path, name=name))

    for name, text in (
        ("sordino.loss", "import sordino.queries.aggregates.sums"),
        ("sordino.loss", "def f():\n    from sordino.curator import plan"),
        ("sordino.loss", "if TYPE_CHECKING:\n    from sordino.release import Release"),
        ("sordino.noise.rng", "from sordino.loss import exact"),
        ("sordino.noise.rng", "from ..loss import exact"),
        ("sordino.accounting.events", "from sordino import noise"),
        ("sordino.cli.ask.ask", "from sordino.engines.duckdb import DuckDB"),
        ("sordino.project.load", "from sordino.risk import worlds"),
        ("sordino.queries.aggregates.sums", "from sordino import count"),
        ("sordino.loss", "import random"),
        ("sordino.loss", "from numpy import random"),
        ("sordino.loss", "import numpy as np\nx = np.random.default_rng(1)"),
        ("sordino.loss", "import secrets"),
        ("sordino.loss", "import os\nos.urandom(1)"),
        ("sordino.loss", "from os import urandom"),
        ("sordino.loss", "from cryptography.hazmat.primitives.ciphers import Cipher"),
        ("sordino.loss", "import importlib\nimportlib.import_module('sordino.curator')"),
        (
            "sordino.loss",
            "import importlib\nTABLE = {'a': 'sordino.curator.plan'}\nimportlib.import_module(TABLE['a'])",
        ),
        ("sordino.synth.model", "import duckdb"),
        ("sordino.risk.worlds", "import altair"),
        ("sordino.loss", "import opendp.prelude"),
        ("sordino.attic", "x = 1"),
    ):
        assert rules(name, text), (name, text)
    assert rules("sordino.noise.rng", "import secrets\nfrom sordino.errors import DeclarationError") == []
    assert rules("sordino.cli.ask.ask", "import sordino as sd\nfrom sordino.curator.plan import Plan") == []
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c", "a"]]
    assert cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("name", sorted(PATHS))
def test_a_file_says_what_it_is(name: str) -> None:
    module = read_module(name)
    if module.path.name == "__init__.py" and not module.tree.body:
        return
    assert ast.get_docstring(module.tree), "the first docstring says what the file is"


@pytest.mark.parametrize("folder", ["tests", "bench", "examples"])
def test_nothing_silences_the_type_checker_beside_the_source(folder: str) -> None:
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths
    silenced = "type: " + "ignore"
    assert [str(path) for path in paths if silenced in path.read_text(encoding="utf-8")] == []


def targets(node: ast.stmt) -> Iterable[str]:
    if isinstance(node, ast.Assign):
        return [t.id for t in node.targets if isinstance(t, ast.Name)]
    return [node.target.id] if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else []


def exported() -> list[str]:
    return sorted(name for name in importlib.import_module("sordino").__all__ if not name.startswith("__"))


def test_an_exported_name_is_never_that_of_a_module() -> None:
    api = importlib.import_module("sordino")
    modules = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    clashes = [n for n in exported() if n in modules and not isinstance(getattr(api, n), types.ModuleType)]
    assert clashes == []


def test_an_export_is_the_same_object_twice() -> None:
    api = importlib.import_module("sordino")
    for name in exported():
        assert getattr(api, name) is getattr(api, name), name
    assert set(exported()) <= set(dir(api))


def test_every_exported_name_has_a_docstring() -> None:
    api = importlib.import_module("sordino")
    assert [name for name in exported() if not inspect.getdoc(getattr(api, name))] == []


def test_every_exported_name_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert [name for name in exported() if not re.search(rf"\b{re.escape(name)}\b", text)] == []


def test_every_command_is_in_the_manual() -> None:
    import typer.main

    from sordino.cli.main import app

    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")

    def commands(group: object, words: str) -> Iterator[tuple[str, object]]:
        for name, command in getattr(group, "commands", {}).items():
            yield f"{words} {name}", command
            yield from commands(command, f"{words} {name}")

    found = list(commands(typer.main.get_command(app), "sordino"))
    assert found
    visible = [(words, command) for words, command in found if not getattr(command, "hidden", False)]
    assert [words for words, _ in visible if words not in text] == []
    assert [words for words, command in visible if not getattr(command, "help", None)] == []
    options = {
        option
        for _, command in visible
        for parameter in getattr(command, "params", [])
        for option in parameter.opts
        if option.startswith("--") and option != "--help"
    }
    assert sorted(option for option in options if option not in text) == []


def test_importing_sordino_imports_nothing_heavy() -> None:
    script = f"import sordino, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_nothing_left_to_do() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    found = [str(m.path.name) for m in map(read_module, PATHS) if marks.search(m.path.read_text(encoding="utf-8"))]
    assert found == []
