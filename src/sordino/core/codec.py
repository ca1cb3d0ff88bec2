"""Frozen records as JSON objects, and back: a tag names the record's class, the other keys are its fields.

It knows no record: a class joins a family by `@FAMILY.register("its name")`. Types say how fields are written: fractions
as text, exactly, tuples as lists, records as objects. `Annotated[T, write, read]` has functions of its own: with `str`
alone a whole number of any size is text. The key of a field is its name, or the "key" of its metadata. A field with a
default may be absent, as in records from before it was there.
"""

from __future__ import annotations

import datetime
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from fractions import Fraction
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from sordino.core.errors import DeclarationError, nearest
from sordino.core.loss import format_number, parse_fraction
from sordino.core.registration import check_registering

T = TypeVar("T")

# the types that JSON has
_PLAIN = frozenset([int, float, str, bool, NoneType])


class Records:
    """A family of frozen dataclasses: each is written with its name under the family's `tag`."""

    def __init__(self, tag: str, *, noun: str, fraction: Callable[[Fraction], str] = format_number) -> None:
        self.tag = tag
        self.noun = noun
        self.fraction = fraction
        self._kinds: dict[str, type] = {}
        self._names: dict[type, str] = {}
        _FAMILIES.append(self)

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """Give a dataclass its name in this family.

        Raises DeclarationError where another class has the name, and as `check_registering` does.
        """

        def record(cls: type[T]) -> type[T]:
            # the names are compared, since a class with slots is another object than the one that was decorated first
            other = self._kinds.get(name, cls)
            if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
                raise DeclarationError(f"{self.noun} {name!r} is {other.__qualname__} already: choose another name")
            check_registering(cls, f"{self.noun} {name!r}")
            self._kinds[name] = cls
            self._names[cls] = name
            _FAMILY_OF[cls] = self
            return cls

        return record

    def include(self, cls: type) -> None:
        """Write records of a class by this family's `to_dict`, also inside other records, without a name for the class."""
        _FAMILY_OF[cls] = self

    def knows(self, name: str) -> bool:
        """Return whether a class has this name in the family."""
        return name in self._kinds

    def to_dict(self, record: Any) -> dict[str, Any]:
        """Return a record as plain data for JSON; raises DeclarationError for one whose class is not registered."""
        name = self._names.get(type(record))
        if name is None:
            raise DeclarationError(f"{type(record).__name__} has no name as {self.noun}: register the class")
        return {self.tag: name, **_fields_to_dict(record, self.fraction)}

    def from_dict(self, data: Mapping[str, Any]) -> Any:
        """Return the record that `to_dict` wrote; raises DeclarationError for an unknown name, or a wrong field."""
        name = str(data.get(self.tag))
        if name not in self._kinds:
            raise DeclarationError(f"{name!r} is no kind of {self.noun}; {nearest(name, self._kinds)}")
        kind = self._kinds[name]
        keys = [key for key, _, _ in _typed_fields(kind)]
        if not {self.tag, *_needed(kind)} <= set(data) <= {self.tag, *keys}:
            raise DeclarationError(f"{self.noun} of kind {name!r} has exactly the fields {', '.join(keys)}")
        return kind(*_fields_from_dict(kind, data))


_FAMILIES: list[Records] = []
_FAMILY_OF: dict[type, Records] = {}


@functools.cache
def _typed_fields(kind: type) -> list[tuple[str, str, Any]]:
    """Return the key, the name and the type of each field."""
    hints = get_type_hints(kind, include_extras=True)
    return [(f.metadata.get("key", f.name), f.name, hints[f.name]) for f in fields(kind)]


@functools.cache
def _needed(kind: type) -> frozenset[str]:
    """Return the keys that must be there: those of fields without a default, which older records may lack."""
    bare = [f for f in fields(kind) if f.default is MISSING]
    return frozenset(f.metadata.get("key", f.name) for f in bare)


def _present(hint: Any) -> Any:
    """Return the type of a field where it is not None; one of several stays as it is."""
    members = [member for member in get_args(hint) if member is not NoneType]
    return members[0] if NoneType in get_args(hint) and len(members) == 1 else hint


def _writer(hint: Any, fraction: Callable[[Fraction], str]) -> Callable[[Any], Any]:
    """Return the function that writes values of a type."""
    if NoneType in get_args(hint) and _present(hint) is not hint:
        present = _writer(_present(hint), fraction)
        return lambda value: None if value is None else present(value)
    if get_origin(hint) is Annotated:
        writer: Callable[[Any], Any] = hint.__metadata__[0]
        return writer
    if get_origin(hint) is tuple:
        items = [_writer(item, fraction) for item in get_args(hint) if item is not Ellipsis]
        if Ellipsis in get_args(hint):
            return list if get_args(hint)[0] in _PLAIN else lambda value: [items[0](item) for item in value]
        return lambda value: [write(item) for write, item in zip(items, value, strict=True)]
    if hint is Fraction:
        return fraction
    return functools.partial(_write, fraction=fraction)


def _write(value: Any, *, fraction: Callable[[Fraction], str]) -> Any:
    family = _FAMILY_OF.get(type(value))
    if family is not None:
        return family.to_dict(value)
    return _fields_to_dict(value, fraction) if is_dataclass(value) else value


def _fields_to_dict(record: Any, fraction: Callable[[Fraction], str]) -> dict[str, Any]:
    kind: Any = type(record)
    return {key: write(getattr(record, name)) for key, name, write in _field_writers(kind, fraction)}


@functools.cache
def _field_writers(kind: type, fraction: Callable[[Fraction], str]) -> list[tuple[str, str, Callable[[Any], Any]]]:
    """Return the key and the name of each field, and the function that writes it."""
    return [(key, name, _writer(hint, fraction)) for key, name, hint in _typed_fields(kind)]


def _fields_from_dict(kind: Any, data: Mapping[str, Any]) -> list[Any]:
    usual = {f.name: f.default for f in fields(kind)}
    typed = _typed_fields(kind)
    return [_read(data[key], hint, name=name) if key in data else usual[name] for key, name, hint in typed]


def _read(value: Any, hint: Any, *, name: str) -> Any:
    """Read a value of a type from JSON data; raises DeclarationError where text is no number."""
    hint = _present(hint)
    if get_origin(hint) is Annotated:
        _, *read = hint.__metadata__
        if read:
            return read[0](value)
        hint = get_args(hint)[0]
    if isinstance(value, Mapping):
        family = next((family for family in _FAMILIES if family.tag in value), None)
        return hint(*_fields_from_dict(hint, value)) if family is None else family.from_dict(value)
    if isinstance(value, list):
        items = [item for item in get_args(hint) if item is not Ellipsis]
        each = items * len(value) if Ellipsis in get_args(hint) else items
        return tuple(_read(item, kind, name=name) for item, kind in zip(value, each, strict=True))
    if hint not in (Fraction, int, float) or value is None:
        return value
    try:
        return parse_fraction(value) if hint is Fraction else hint(value)
    except (ValueError, TypeError, ZeroDivisionError):
        raise DeclarationError(f'{name} must be text such as "1/3"') from None


def cells_to_json(cells: Sequence[Any]) -> Sequence[Any]:
    """Return the cells of a column as JSON data: dates and moments, also in pairs, as text in ISO form."""

    def plain(cell: Any) -> Any:
        if isinstance(cell, tuple):
            return [plain(c) for c in cell]
        return cell.isoformat() if isinstance(cell, datetime.date) else cell

    kinds = set(map(type, cells))
    if kinds == {tuple} and _PLAIN.issuperset(map(type, itertools.chain.from_iterable(cells))):
        return list(map(list, cells))
    return cells if kinds <= _PLAIN else list(map(plain, cells))
