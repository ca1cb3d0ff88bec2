"""The text that a SQL client sends, as statements: where each ends, what it is, which loss its comments state, its parameters.

Texts are cut by the tokens of the parser that reads the questions (SQL as PostgreSQL writes it), so that a literal ends
here where it ends there. It knows no session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.serve.server.sql_wire.wire_values import ARRAYS

LOSSES = ("epsilon", "delta", "rho", "confidence")
_STATED = re.compile(r"\s*(?:sordino[.:]?\s*)?(epsilon|delta|rho|confidence)\s*[=:]?\s*([0-9][0-9eE./+-]*)\s*,?")
_LONGEST = 200_000
# Tokens before a parameter among which the column that it is compared with is looked for.
_NEAR = 6
_TYPES = {
    "int": 23, "integer": 23, "int4": 23, "smallint": 21, "int2": 21, "bigint": 20, "int8": 20, "float": 701,
    "double": 701, "float8": 701, "real": 700, "float4": 700, "numeric": 1700, "decimal": 1700, "boolean": 16, "bool": 16,
    "text": 25, "varchar": 1043, "char": 1043, "date": 1082, "timestamp": 1114, "timestamptz": 1184, "uuid": 2950, "name": 19,
    "oid": 26,
}  # fmt: skip
# What may hold a dollar sign that is no parameter - literals, names, comments, dollar-quoted texts - and parameters.
_PIECES = re.compile(
    r"""[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/"""
    r"""|\$([A-Za-z_\x80-\U0010ffff][\w]*)?\$.*?\$(?(1)\1|)\$|[A-Za-z_\x80-\U0010ffff][\w$]*|(\$\d+)(?=[^\s\d])""",
    re.DOTALL,
)


class _Lexer(Postgres.Tokenizer):
    # No word swallows what follows it: a statement ends at its semicolon.
    COMMANDS: ClassVar[set[TokenType]] = set()


@dataclass(frozen=True)
class Statement:
    """Hold one statement: its text, and its tokens with their places in it."""

    text: str
    tokens: tuple[Token, ...]
    start: int

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The tokens' texts in upper case, those of names and words."""
        return tuple(token.text.upper() for token in self.tokens)

    @property
    def verb(self) -> str:
        """The first word."""
        return self.words[0] if self.words else ""

    @cached_property
    def loss(self) -> Mapping[str, str]:
        """The loss that comments state, such as /* epsilon 0.1, delta 1e-6 */; raises DeclarationError for two of one name."""
        amounts: dict[str, str] = {}
        for token in self.tokens:
            for comment in token.comments:
                for name, amount in _amounts(comment):
                    if amounts.setdefault(name, amount) != amount:
                        raise DeclarationError("is stated twice, by two comments", key=name)
        return amounts

    @cached_property
    def parameters(self) -> int:
        """How many parameters there are: the highest number after a $."""
        return max((number for _, _, number, _ in self._places()), default=0)

    def types(self, stated: Sequence[int], columns: Mapping[str, int]) -> tuple[int, ...]:
        """Return the types of the parameters: as stated, else of the cast or of the column beside it, else unknown (0)."""
        types = list(stated) + [0] * (self.parameters - len(stated))
        for first, _, number, cast in self._places():
            beside = self._column_before(first, columns)
            of_column = columns[beside] if beside is not None else 0
            # what ANY and ALL compare with is an array
            in_array = first >= 2 and self.words[first - 1] == "(" and self.words[first - 2] in ("ANY", "ALL", "SOME")
            implied = ARRAYS.get(of_column, 1009) if in_array else of_column
            types[number - 1] = types[number - 1] or cast or implied
        return tuple(types)

    def beside(self, columns: Mapping[str, int]) -> dict[int, str]:
        """Return the column that each parameter seems to be compared with, by the parameter's number."""
        columns_by_number = {number: self._column_before(first, columns) for first, _, number, _ in self._places()}
        return {number: column for number, column in columns_by_number.items() if column is not None}

    def _column_before(self, place: int, columns: Mapping[str, int]) -> str | None:
        return next((t.text for t in reversed(self.tokens[max(0, place - _NEAR) : place]) if t.text in columns), None)

    def bind(self, literals: Sequence[str]) -> str:
        """Return the text with each parameter written as a literal, and the cast beside it gone.

        Raises DeclarationError where the result would be read as anything but the same tokens with literals in their place.
        """
        if not self.parameters:
            return self.text
        if len(literals) < self.parameters:
            raise DeclarationError(
                f"has {self.parameters} parameters, and {len(literals)} were sent", key="the statement"
            )
        text = ""
        at = 0
        expected = list[tuple[Any, str]]()
        next_token = 0
        for first, last, number, _ in self._places():
            begin = self.tokens[first].start - self.start
            end = self.tokens[last].end + 1 - self.start
            text += self.text[at:begin] + f" {literals[number - 1]} "
            expected += _read(self.tokens[next_token:first])
            expected += _read(tokens_of(literals[number - 1]))
            at = end
            next_token = last + 1
        text += self.text[at:]
        expected += _read(self.tokens[next_token:])
        if _read(tokens_of(text)) != expected:
            raise DeclarationError("cannot be written as a literal: send another value", key="a parameter")
        return text

    def part(self, first: int, last: int | None = None) -> Statement:
        """Return the tokens from `first` to before `last` as a statement of its own; all comments of this one are its too."""
        tokens = self.tokens[first:last]
        start = tokens[0].start if tokens else self.start + len(self.text)
        end = tokens[-1].end + 1 if last is not None and tokens else self.start + len(self.text)
        statement = Statement(self.text[start - self.start : end - self.start], tokens, start)
        statement.__dict__["loss"] = self.loss
        return statement

    def _places(self) -> list[tuple[int, int, int, int]]:
        """Return where parameters stand: first and last token, the number, and the type that a cast beside it names."""
        places = []
        tokens = self.tokens
        for i, token in enumerate(tokens[:-1]):
            after = tokens[i + 1]
            if token.token_type is not TokenType.PARAMETER or after.start != token.end + 1 or not after.text.isdigit():
                continue
            number = int(after.text)
            last = i + 1
            cast = 0
            if not 0 < number <= 1000:
                raise DeclarationError("has no parameter of this number: write $1 to $1000", key="the statement")
            if i + 3 < len(tokens) and tokens[i + 2].token_type is TokenType.DCOLON:
                cast = _TYPES.get(tokens[i + 3].text.lower().split(" ")[0], 0)
                last = i + 3
                if (
                    last + 1 < len(tokens)
                    and tokens[last].text.lower() == "double"
                    and tokens[last + 1].text.lower() == "precision"
                ):
                    last += 1
                # timestamp with time zone
                zoned = ("WITH", "TIME", "ZONE")
                if tuple(each.text.upper() for each in tokens[last + 1 : last + 4]) == zoned:
                    cast = 1184
                    last += 3
                if [each.text for each in tokens[last + 1 : last + 3]] == ["[", "]"]:
                    cast = ARRAYS.get(cast, 0)
                    last += 2
                if not cast:
                    last = i + 1
            places.append((i, last, number, cast))
        return places


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a text; raises QuestionRefused where a literal or comment in it never ends."""
    if len(text) > _LONGEST:
        raise DeclarationError(f"must have at most {_LONGEST:,} characters", key="a statement")
    if "\0" in text:
        raise QuestionRefused("a statement holds no NUL character")
    try:
        tokens: list[Token] = _Lexer().tokenize(text)
    except (SqlglotError, RecursionError, ValueError):
        raise QuestionRefused("this is not SQL: a literal, a name in quotes or a comment has no end") from None
    return tokens


def split_statements(text: str) -> list[Statement]:
    """Return the statements of a text, without empty ones.

    >>> [s.text for s in split_statements("SELECT ';' ; -- nothing\\n; SHOW x")]
    ["SELECT ';'", 'SHOW x']
    """
    statements: list[Statement] = []
    pending: list[Token] = []
    text = _set_apart(text)
    # The loss that a comment states between a semicolon and the next word of its line.
    before: dict[str, str] = {}
    tokens = tokens_of(text)
    for token, after in zip([*tokens, None], [*tokens, None, None][1:], strict=True):
        if token is not None and token.token_type is not TokenType.SEMICOLON:
            pending.append(token)
            continue
        stated = {} if token is None else _losses(token)
        if pending:
            statement = Statement(text[pending[0].start : pending[-1].end + 1], tuple(pending), pending[0].start)
            leads = token is not None and after is not None and _leads(text[token.end + 1 : after.start])
            statement.__dict__["loss"] = {**({} if leads else stated), **before, **statement.loss}
            before = stated if leads else {}
            statements.append(statement)
        pending = []
    return statements


def _set_apart(text: str) -> str:
    """Return a text with a space after each parameter: the lexer takes $1,$2 for the beginning of a dollar-quoted text."""
    if len(text) > _LONGEST or re.search(r"\$\d", text) is None:
        return text
    return _PIECES.sub(lambda match: f"{match[2]} " if match[2] else match[0], text)


def _leads(between: str) -> bool:
    """Return whether a comment between a semicolon and a word stands on the line of the word: then it is of that statement."""
    return bool(between.strip()) and "\n" not in between


def _read(tokens: Sequence[Token]) -> list[tuple[Any, str]]:
    return [(token.token_type, token.text) for token in tokens]


def _losses(token: Any) -> dict[str, str]:
    return {name: amount for comment in token.comments for name, amount in _amounts(comment)}


def _amounts(comment: str) -> list[tuple[str, str]]:
    """Return the loss that a comment states; none where it says anything else."""
    amounts = []
    at = 0
    while match := _STATED.match(comment, at):
        amounts.append((match[1], match[2]))
        at = match.end()
    return amounts if not comment[at:].strip() else []
