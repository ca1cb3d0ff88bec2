"""What every model has: its cost, its notes, a card, a file without pickle and without data, and parts of its SQL."""

from __future__ import annotations

import contextlib
import hashlib
import html
import json
import os
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sordino.ask.queries.queryable import Adaptive
from sordino.core.domain import Column, column_from_dict
from sordino.core.errors import DeclarationError, SordinoError, SourceError
from sordino.core.loss import Loss, loss_from_numbers, loss_to_numbers, read_loss
from sordino.core.noise.rng import Rng
from sordino.core.release import Release
from sordino.models.columns import Floats, Predictors
from sordino.models.registry import MODELS

if TYPE_CHECKING:
    import pyarrow as pa

_FORMAT = "sordino models 1"


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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Provenance:
        """Return the provenance that `to_dict` wrote."""
        return cls(
            str(data["table"]),
            str(data["privacy_unit"]),
            str(data["neighbors"]),
            loss_from_numbers(data["cost"]),
            str(data["charge"]),
            bool(data["private"]),
            tuple(map(str, data["notes"])),
        )


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


def draw_private_rows(
    table: Adaptive, columns: Sequence[str], *, count: int, words: str, rng: Rng | None, predict: str = "", **loss: Any
) -> tuple[pa.Table, Provenance]:
    """Return rows of a private model of some columns, fitted by one charge, and where a model of them comes from.

    `predict` names the column that others will predict; `words` say what is made of the rows.
    """
    from sordino.synth.fitting import fit

    total = read_loss(**loss)
    model = fit(table, columns=list(columns), predict=predict or (), rng=rng, **loss)
    facts = model.facts
    notes = tuple(filter(None, (words, facts.get("tier", ""))))
    unit = table.neighbors.describe_unit()
    about = Provenance(
        facts["table"], unit, table.neighbors.relation, total, facts["charge"], facts["private"] == "true", notes
    )
    return model.sample(rows=count, rng=Rng.secure() if rng is None else rng), about


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


class PricedModel:
    """What the fitted models have in common. Each is a frozen dataclass with a `provenance`, and states its own `facts`.

    Its fields are its file: numbers, text, arrays, declared columns, and classes with `to_dict` and `from_dict`.
    """

    provenance: Provenance

    @property
    def cost(self) -> Loss:
        """What the model cost."""
        return self.provenance.cost

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of the model."""
        return self.provenance.notes

    def facts(self) -> dict[str, str]:
        """Return what its card says of it, beside what it cost and protects."""
        return {}

    def check(self) -> None:
        """Raise ValueError where the parts of a stored model do not fit each other."""

    def describe(self) -> str:
        """Return the model in a few words."""
        return title_of(self)

    @property
    def card(self) -> ModelCard:
        """What is to be said of the model where it is published."""
        return make_card(title_of(self), self.provenance, self.facts())

    def save(self, path: str | Path) -> None:
        """Write the model to a file, without data and without pickle; `sd.models.load` reads it."""
        save_model(path, self)

    def to_dict(self) -> dict[str, Any]:
        """Return the model as JSON data."""
        data: dict[str, Any] = {}
        for field in fields(typing.cast(Any, self)):
            value = getattr(self, field.name)
            if isinstance(value, Predictors):
                data["terms"] = _encode(value.terms)
                data["columns"] = columns_to_dict(value.declared)
            elif field.name == "target":
                data["target"] = columns_to_dict(((getattr(self, "y"), value),))  # noqa: B009
            else:
                data[field.name] = _encode(value)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the model that `to_dict` wrote; raises ValueError, KeyError or TypeError for what it did not write."""
        declared = columns_from_dict(data.get("target", []))
        # Where a model predicts a column, its name stands with its declaration.
        stored = {"y": declared[0][0], **data} if declared else data
        values: dict[str, Any] = {}
        hints = typing.get_type_hints(cls)
        for field in fields(typing.cast(Any, cls)):
            if hints[field.name] is Predictors:
                values[field.name] = _read_predictors(stored)
            elif field.name == "target":
                ((_, values["target"]),) = declared
            elif field.name in stored:
                values[field.name] = _decode(hints[field.name], stored[field.name])
        model = cls(**values)
        model.check()
        return model

    def __repr__(self) -> str:
        return f"<{self.describe()}, {self.cost.describe()}>"


def title_of(model: Any) -> str:
    """Return the name of a model's kind, for cards and files."""
    path = f"{type(model).__module__}.{type(model).__qualname__}"
    return next(kind.title for kind in MODELS.values() if kind.path == path)


def require_fit(fits: bool) -> None:
    """Raise ValueError unless the parts of a stored model fit each other."""
    if not fits:
        raise ValueError("the parts of a model do not fit each other")


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
    content = {"format": _FORMAT, "kind": title_of(model), "model": model.to_dict()}
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
        kinds = {kind.title: kind for kind in MODELS.values()}
        if checksum != _checksum(stored) or stored["format"] != _FORMAT or stored["kind"] not in kinds:
            raise broken
        return kinds[stored["kind"]].load_class().from_dict(stored["model"])
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


def _encode(value: Any) -> Any:
    """Return a part of a model as JSON data."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_encode(part) for part in value]
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return [_encode(getattr(value, field.name)) for field in fields(value)]
    return value


def _decode(kind: Any, stored: Any) -> Any:
    """Return a part of a model of a declared type; raises ValueError or TypeError where it is none."""
    parts = typing.get_args(kind)
    if kind == Floats:
        return array_from_list(stored)
    if typing.get_origin(kind) is tuple:
        return tuple(_decode(parts[0], part) for part in stored)
    if parts:
        return _decode_any(parts, stored)
    if hasattr(kind, "from_dict"):
        return kind.from_dict(stored)
    if is_dataclass(kind):
        own = typing.get_type_hints(kind).values()
        build: Any = kind
        return build(*(_decode(part, one) for part, one in zip(own, stored, strict=True)))
    if kind is float:
        return float(array_from_list(stored))
    return kind(stored)


def _decode_any(kinds: tuple[Any, ...], stored: Any) -> Any:
    """Return a part of the first of several types that reads it."""
    if stored is None and type(None) in kinds:
        return None
    for kind in kinds:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return _decode(kind, stored)
    raise ValueError("a part is of none of its types")


def _read_predictors(data: Mapping[str, Any]) -> Predictors:
    declared = columns_from_dict(data["columns"])
    stored = data.get("terms", [name for name, _ in declared])
    terms = tuple(tuple(map(str, term)) if isinstance(term, list) else str(term) for term in stored)
    known = dict(declared)
    require_fit(all(name in known for term in terms for name in ((term,) if isinstance(term, str) else term)))
    return Predictors(terms, declared)


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


def clip_cell(name: str, column: Any) -> str:
    """Return a number's cell in SQL, clipped to its declared bounds, as predictions clip it."""
    return f"LEAST(GREATEST({quote_name(name)}, {float(column.lower)!r}), {float(column.upper)!r})"


# More conditions than these are nested in groups, so that no engine nests them as deep as there are values.
_FEW = 8


def case_of(name: str, numbers: Mapping[Any, float], *, otherwise: str = "") -> str:
    """Return in SQL the number of a category's value; `otherwise` where it has none of them."""
    return _nest_cases([(is_value(name, value), number) for value, number in numbers.items()], " OR ", otherwise)


def case_below(name: str, edges: Sequence[float], numbers: Sequence[float], *, otherwise: str = "") -> str:
    """Return in SQL the number of the bin that a cell is in: the first below the first edge, the last from the last edge on."""
    quoted = quote_name(name)
    whens = [(f"{quoted} < {edge!r}", number) for edge, number in zip(edges, numbers, strict=False)]
    # What is below the last edge of several is what is below any of them.
    return _nest_cases([*whens, (f"{quoted} IS NOT NULL", numbers[-1])], "", otherwise)


def _nest_cases(whens: list[tuple[str, float]], joined: str, otherwise: str) -> str:
    """Return a CASE over conditions in order; of many, one over groups, whose condition is all of theirs, or the last one's."""
    end = f" ELSE {otherwise}" if otherwise else ""
    if len(whens) <= _FEW:
        return f"CASE {' '.join(f'WHEN {condition} THEN {number!r}' for condition, number in whens)}{end} END"
    groups = [whens[i : i + _FEW] for i in range(0, len(whens), _FEW)]
    outer = []
    for group in groups:
        condition = joined.join(one for one, _ in group) if joined else group[-1][0]
        outer.append(f"WHEN {condition} THEN {_nest_cases(group, joined, '')}")
    return f"CASE {' '.join(outer)}{end} END"


def is_value(name: str, value: Any) -> str:
    """Return in SQL whether a category's cell has a declared value, None for a missing one."""
    return f"{quote_name(name)} {'IS NULL' if value is None else f'= {quote_value(value)}'}"
