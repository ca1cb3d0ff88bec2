"""Labels: the public values a respondent may have, their hash, and answers turned into label numbers.

Texts of an open domain are numbers too: up to so many characters of a declared alphabet, as digits in a base. It may not know
protocols. An error here never shows an answer: it says which rule was broken and where.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.core.domain import Category
from sordino.core.errors import DeclarationError

Label = str | int | bool | None
Labels = Sequence[Label] | Category
# A list, a NumPy array or an Arrow array of labels.
Answers = Any
Codes = np.ndarray[Any, np.dtype[np.int32]]

MOST_LABELS = 1 << 19


def check_labels(labels: Labels) -> tuple[Label, ...]:
    """Return the labels as a tuple; None, where listed, is the label of a missing answer.

    Raises DeclarationError unless there are 2 labels or more, all different, of text, whole numbers, booleans or None.
    """
    values: Iterable[Label] = labels.values if isinstance(labels, Category) else labels
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise DeclarationError("labels must be a list of the values a respondent may have, such as ['yes', 'no']")
    checked = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
    for label in checked:
        if label is not None and not isinstance(label, (str, int)):
            raise DeclarationError(f"labels must be text, whole numbers, booleans or None, not {type(label).__name__}")
        if isinstance(label, str) and any("\ud800" <= c <= "\udfff" for c in label):
            raise DeclarationError(
                "a label holds half a surrogate pair, which no browser can send; write it in Unicode"
            )
        if type(label) is int and abs(label) >= 2**53:
            raise DeclarationError("a whole-number label must lie within -2^53 and 2^53: browsers know no larger ones")
    if len(checked) < 2:
        raise DeclarationError(f"labels must be at least 2, not {len(checked)}: a single one reveals nothing")
    if len(checked) > MOST_LABELS:
        raise DeclarationError(f"labels must be at most 2^19, not {len(checked)}; group the rare ones")
    earlier: set[tuple[type, Label]] = set()
    for label in checked:
        if (type(label), label) in earlier:
            raise DeclarationError(f"labels must not repeat: {label!r} occurs twice")
        earlier.add((type(label), label))
    return checked


def canonical(data: Any) -> bytes:
    """Return JSON with sorted keys, no blanks, UTF-8: what JSON.stringify makes of the same data in a browser.

    >>> canonical({"k": 2, "a": ["ü", None]}).decode()
    '{"a":["ü",null],"k":2}'
    """
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()


def labels_hash(labels: Sequence[Label]) -> str:
    """Return the SHA-256 of the labels' canonical JSON array, in hexadecimal."""
    return hashlib.sha256(canonical(list(labels))).hexdigest()


def codes_of(answers: Answers, labels: tuple[Label, ...], *, missing: bool) -> Codes:
    """Return the label number of each answer; -1 where there is none, if `missing` answers may be so.

    Raises DeclarationError for an answer outside the labels; the message names its place, not what it says.
    """
    if isinstance(answers, np.ndarray) and answers.dtype.kind in "iu" and _counting(labels):
        whole = answers.reshape(-1)
        if whole.size and (int(whole.min()) < 0 or int(whole.max()) >= len(labels)):
            _refuse((whole < 0) | (whole >= len(labels)), "is none of the labels")
        return whole.astype(np.int32, copy=False)
    codes, absent = _look_up(answers, labels)
    if not absent.any():
        return codes
    if None in labels:
        codes = np.where(absent, labels.index(None), codes).astype(np.int32)
    elif not missing:
        _refuse(absent, "is missing, and this protocol has no room for it: list None among the labels")
    return codes


def _counting(labels: tuple[Label, ...]) -> bool:
    return all(type(v) is int and v == i for i, v in enumerate(labels))


def _look_up(answers: Answers, labels: tuple[Label, ...]) -> tuple[Codes, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return label numbers (-1 for none) and which answers are missing; an answer that is no label is refused."""
    import pyarrow as pa
    import pyarrow.compute as pc

    present = [v for v in labels if v is not None]
    places = np.array([i for i, v in enumerate(labels) if v is not None], dtype=np.int32)
    if len({type(v) for v in present}) > 1:
        return _by_hand(answers, labels)
    try:
        cells = answers if isinstance(answers, (pa.Array, pa.ChunkedArray)) else pa.array(answers, from_pandas=True)
        if isinstance(cells, pa.ChunkedArray):
            cells = cells.combine_chunks()
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        values = pa.array(present)
        if cells.type != values.type:
            _same_kind(cells.type, values.type)
            cells = cells.cast(values.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        raise DeclarationError("answers must be of the labels' own type: text, whole numbers or booleans") from None
    absent = np.asarray(pc.is_null(cells).to_numpy(zero_copy_only=False), dtype=np.bool_)
    indices = pc.fill_null(pc.index_in(cells, value_set=values), -1).to_numpy(zero_copy_only=False)
    _refuse((indices < 0) & ~absent, "is none of the labels")
    return np.where(indices < 0, np.int32(-1), places[indices]).astype(np.int32), absent


def _same_kind(found: Any, wanted: Any) -> None:
    """Refuse numbers for text and the like, which a cast would let pass."""
    import pyarrow as pa

    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    for kinds in (text, (pa.types.is_integer,), (pa.types.is_boolean,)):
        if any(k(wanted) for k in kinds) and any(k(found) for k in kinds):
            return
    if not pa.types.is_null(found):
        raise pa.ArrowTypeError("another kind")


def _by_hand(answers: Answers, labels: tuple[Label, ...]) -> tuple[Codes, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Look up answers among labels of several types, one by one."""
    place = {(type(v), v): i for i, v in enumerate(labels) if v is not None}
    cells = answers.to_pylist() if hasattr(answers, "to_pylist") else list(answers)
    cells = [c.item() if isinstance(c, np.generic) else c for c in cells]
    absent = np.array([c is None for c in cells], dtype=np.bool_)
    codes = np.array([-1 if c is None else place.get((type(c), c), -2) for c in cells], dtype=np.int32)
    _refuse(codes == -2, "is none of the labels")
    return codes, absent


def _refuse(wrong: np.ndarray[Any, np.dtype[np.bool_]], rule: str) -> None:
    places = np.flatnonzero(wrong)
    if places.size:
        more = f" ({places.size} such answers)" if places.size > 1 else ""
        raise DeclarationError(f"answer number {int(places[0])} {rule}{more}")


_MOST_BITS = 256


@dataclass(frozen=True, slots=True)
class Texts:
    """All texts of 1 to `length` characters of an alphabet. A text is a number in base k + 1, first character first.

    Digit 0 ends a text: every number up to (k + 1)^length - 1 stands for one text at most.
    """

    alphabet: tuple[str, ...]
    length: int

    @classmethod
    def declare(cls, labels: Sequence[Label], length: int) -> Texts:
        """Return the texts of these characters; raises DeclarationError where one is none, or texts are too long."""
        alphabet = tuple(label for label in labels if isinstance(label, str) and len(label) == 1)
        if len(alphabet) != len(labels):
            raise DeclarationError("an alphabet is a list of single characters, such as abcdefghijklmnopqrstuvwxyz")
        if isinstance(length, bool) or not isinstance(length, int) or length < 1:
            raise DeclarationError("length must be a whole number of characters, 1 or more")
        most = int(_MOST_BITS / np.log2(len(alphabet) + 1))
        if length > most:
            raise DeclarationError(f"length must be at most {most} of {len(alphabet)} characters: {_MOST_BITS} bits")
        return cls(alphabet, length)

    @property
    def numbers(self) -> int:
        """The number after the last one."""
        return int((len(self.alphabet) + 1) ** self.length)

    def count_digits(self, base: int) -> int:
        """Return how many digits in a base hold every text."""
        digits = 0
        room = 1
        while room < self.numbers:
            room = room * base
            digits = digits + 1
        return digits

    def encode(self, text: object) -> int | None:
        """Return the number of a text; None where it does not fit.

        >>> Texts.declare("ab", 3).encode("ba"), Texts.declare("ab", 3).encode("bab!")
        (21, None)
        """
        if not isinstance(text, str) or not 1 <= len(text) <= self.length:
            return None
        number = 0
        for place in range(self.length):
            letter = text[place : place + 1]
            if letter and letter not in self.alphabet:
                return None
            number = number * (len(self.alphabet) + 1) + (self.alphabet.index(letter) + 1 if letter else 0)
        return number

    def decode(self, number: int) -> str | None:
        """Return the text of a number; None where none has it.

        >>> Texts.declare("ab", 3).decode(21), Texts.declare("ab", 3).decode(1)
        ('ba', None)
        """
        if not 0 < number < self.numbers:
            return None
        digits = []
        for _ in range(self.length):
            number, digit = divmod(number, len(self.alphabet) + 1)
            digits.append(digit)
        letters = digits[::-1]
        end = letters.index(0) if 0 in letters else self.length
        if end == 0 or any(letters[end:]):
            return None
        return "".join(self.alphabet[digit - 1] for digit in letters[:end])

    def digits_of(self, answers: Iterable[object], base: int) -> tuple[Any, Any]:
        """Return a table of the digits of different texts, first digits first, and each answer's row in it, -1 for none."""
        cells = answers.to_pylist() if hasattr(answers, "to_pylist") else answers
        rows: dict[object, int] = {}
        table: list[list[int]] = []
        many = self.count_digits(base)
        codes = []
        for cell in cells:
            key = str(cell) if isinstance(cell, str) else None
            if key not in rows:
                number = self.encode(key)
                rows[key] = -1 if number is None else len(table)
                if number is not None:
                    table.append([number // base**place % base for place in range(many - 1, -1, -1)])
            codes.append(rows[key])
        digits = np.array(table or [[0] * many], dtype=np.uint8)
        return digits, np.array(codes, dtype=np.int64)
