"""Texts of an open domain as numbers: up to so many characters of a declared alphabet, and their digits in a base.

It may not know protocols. No text of a respondent is ever in an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.local.labels import Label

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
