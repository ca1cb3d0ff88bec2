"""What a face offers is what it imports for type checkers: each name stands once."""

from __future__ import annotations

import ast
import importlib
import inspect

import pytest

FACES = ("", ".accounting", ".audit", ".local", ".risk", ".sensitivity", ".synth")


@pytest.mark.parametrize("face", FACES)
def test_a_face_offers_each_name_that_it_imports_for_type_checkers(face: str) -> None:
    module = importlib.import_module(f"sordino{face}")
    blocks = [node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in ast.walk(block) if isinstance(node, ast.ImportFrom)]
    assert sorted(alias.name for node in imports for alias in node.names) == module.__all__
    for node in imports:
        for alias in node.names:
            origin = importlib.import_module(str(node.module))
            assert getattr(module, alias.name) is getattr(origin, alias.name)


def test_any_other_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match="did you mean protect"):
        _ = importlib.import_module("sordino").protec
    with pytest.raises(AttributeError, match="was removed"):
        _ = importlib.import_module("sordino.local").Pairs


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sordino.noise.rng", "sordino.core.noise.rng"),
        ("sordino.curator.data_access", "sordino.ask.curator.plan"),
        ("sordino.ask.curator.data_access", "sordino.ask.curator.plan"),
    ],
)
def test_an_old_path_of_a_module_leads_to_the_new_one(old: str, new: str) -> None:
    assert importlib.import_module(old) is importlib.import_module(new)
