"""What every model says of itself: its cost, its notes, a card, and a file without pickle and without data."""

from __future__ import annotations

import hashlib
import html
import importlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sordino.core.domain import Column, column_from_dict
from sordino.core.errors import DeclarationError, SordinoError, SourceError
from sordino.core.loss import Loss, loss_from_numbers, loss_to_numbers
from sordino.core.neighbors import Neighbors
from sordino.core.release import Release

_FORMAT = "sordino models 1"
# The classes of models by the name in their files, each with the module that has it: the one place that lists them.
KINDS = {
    "linear regression": "sordino.models.linear.LinearModel",
    "logistic regression": "sordino.models.classification.LogisticModel",
    "Poisson regression": "sordino.models.poisson.PoissonModel",
    "naive Bayes": "sordino.models.classification.NaiveBayesModel",
    "principal components": "sordino.models.components.ComponentsModel",
    "decision tree": "sordino.models.tree.TreeModel",
    "k-means": "sordino.models.clusters.ClustersModel",
}


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a model comes from: the table, its unit and relation, the loss, the charge, and what is to be known of it."""

    table: str
    privacy_unit: str
    neighbors: str
    cost: Loss
    charge: str
    private: bool
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the provenance as JSON data."""
        return {
            "table": self.table,
            "privacy_unit": self.privacy_unit,
            "neighbors": self.neighbors,
            "cost": loss_to_numbers(self.cost),
            "charge": self.charge,
            "private": self.private,
            "notes": list(self.notes),
        }


def provenance_of(release: Release, notes: tuple[str, ...]) -> Provenance:
    """Return where a model comes from that was fitted to one release."""
    return Provenance(
        release.table_name,
        release.privacy_unit,
        release.neighbors,
        release.cost,
        release.charge,
        release.private,
        (*release.notes, *notes),
    )


def provenance_of_rows(facts: Mapping[str, str], neighbors: Neighbors, cost: Loss, words: str) -> Provenance:
    """Return where a model comes from that was fitted to rows of a private model, by that model's facts."""
    notes = tuple(filter(None, (words, facts.get("tier", ""))))
    unit = neighbors.describe_unit()
    private = facts["private"] == "true"
    return Provenance(facts["table"], unit, neighbors.relation, cost, facts["charge"], private, notes)


def provenance_from_dict(data: Mapping[str, Any]) -> Provenance:
    """Return the provenance that `to_dict` wrote."""
    return Provenance(
        str(data["table"]),
        str(data["privacy_unit"]),
        str(data["neighbors"]),
        loss_from_numbers(data["cost"]),
        str(data["charge"]),
        bool(data["private"]),
        tuple(map(str, data["notes"])),
    )


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What is to be said of a model where it is published: facts by name, and notes."""

    title: str
    facts: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    def to_text(self) -> str:
        """Return the card as text."""
        width = max(len(name) for name, _ in (*self.facts, ("note", "")))
        lines = [f"{name:<{width}}  {text}" for name, text in (*self.facts, *(("note", note) for note in self.notes))]
        return "\n".join([self.title, *lines])

    def to_json(self) -> str:
        """Return the card as JSON."""
        return json.dumps(
            {"model": self.title, **dict(self.facts), "notes": list(self.notes)}, ensure_ascii=False, indent=2
        )

    def to_html(self) -> str:
        """Return the card as a page."""
        title = html.escape(self.title)
        rows = "".join(
            f"<tr><th scope=row>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in self.facts
        )
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        return f"{head}<h1>{title}</h1><table>{rows}</table><ul>{notes}</ul></html>"

    def __str__(self) -> str:
        return self.to_text()


def make_card(title: str, provenance: Provenance, facts: Mapping[str, str]) -> ModelCard:
    """Return the card of a model: what it cost and protects, and its own facts."""
    relation = provenance.neighbors.replace("_", "/")
    common = {
        "table": provenance.table,
        "cost": provenance.cost.describe(),
        "protects": f"{provenance.privacy_unit}, {relation}",
        "charge": provenance.charge,
    }
    if not provenance.private:
        common["NOT PRIVATE"] = "the noise was seeded for a test"
    return ModelCard(title, tuple((common | dict(facts)).items()), provenance.notes)


# ---- Files: JSON with a checksum; nothing in it runs


def encode_model(model: Any) -> str:
    """Return a model as the text of a file."""
    path = f"{type(model).__module__}.{type(model).__qualname__}"
    kind = next(kind for kind, named in KINDS.items() if named == path)
    content = {"format": _FORMAT, "kind": kind, "model": model.to_dict()}
    return json.dumps({**content, "sha256": _checksum(content)}, allow_nan=False, indent=1)


def save_model(path: str | Path, model: Any) -> None:
    """Write a model to `path`, whole or not at all. Raises SourceError where it cannot be written."""
    text = encode_model(model)
    target = Path(path)
    partial = target.with_name(target.name + ".part")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, target)
    except OSError:
        partial.unlink(missing_ok=True)
        raise SourceError(
            f"the model cannot be written to {target}: see that its folder exists and can be written"
        ) from None


def load(path: str | Path) -> Any:
    """Return the model that `model.save(path)` wrote.

    Raises SourceError where there is no file, DeclarationError for one that was altered, cut short, or is something else.
    """
    source = Path(path)
    if not source.is_file():
        raise SourceError(f"there is no model file at {source}")
    broken = DeclarationError(f"{source} is not a whole model file: it was altered, cut short, or is something else")
    try:
        stored = json.loads(source.read_text(encoding="utf-8"))
        checksum = stored.pop("sha256")
        if checksum != _checksum(stored) or stored["format"] != _FORMAT or stored["kind"] not in KINDS:
            raise broken
        module, _, name = KINDS[stored["kind"]].rpartition(".")
        read: Callable[[Any], Any] = getattr(importlib.import_module(module), name).from_dict
        return read(stored["model"])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OSError, RecursionError, SordinoError):
        raise broken from None


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def columns_to_dict(declared: tuple[tuple[str, Column], ...]) -> list[list[Any]]:
    """Return declared columns as JSON data."""
    return [[name, column.to_dict()] for name, column in declared]


def columns_from_dict(data: Any) -> tuple[tuple[str, Column], ...]:
    """Return the columns that `columns_to_dict` wrote."""
    return tuple((str(name), column_from_dict(column)) for name, column in data)


def array_from_list(data: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return stored numbers as an array; raises ValueError for what is none, or not finite."""
    array = np.array(data, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("a stored number is not finite")
    return array


# ---- SQL of predictions


def quote_name(name: str) -> str:
    """Return a column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def quote_value(value: Any) -> str:
    """Return a declared value in SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"
