"""PostgreSQL's SQL as our own trees need it: `//` for the whole quotient, HUGEINT for numbers of 38 digits and more."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.generators.postgres import PostgresGenerator
from sqlglot.tokenizer_core import TokenType

# Whose words ibis changes, for the whole process.
_ALTERED = frozenset({exp.ArraySize, exp.DateFromParts, exp.Pow, exp.RegexpSplit, exp.Split})


class PostgresWriter(PostgresGenerator):
    """Write wide numbers as numeric, of which there is no largest, and the rest as sqlglot does by itself.

    Other libraries change sqlglot's own table of words in place: ibis does, when it connects. This one is a copy without
    what it changes, so that our text is the same whether it was imported before us, after us or never.
    """

    TRANSFORMS: ClassVar[dict[Any, Any]] = {k: v for k, v in PostgresGenerator.TRANSFORMS.items() if k not in _ALTERED}

    TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {
        **PostgresGenerator.TYPE_MAPPING,
        exp.DType.INT128: "NUMERIC",
    }

    def isnan_sql(self, expression: exp.IsNan) -> str:
        """Write a comparison, as there is no such function."""
        return f"{self.sql(expression, 'this')} = 'NaN'"


class SordinoPostgres(Postgres):
    """Read and write our own trees; what a person writes is never read by it."""

    class Tokenizer(Postgres.Tokenizer):
        """Know two words more."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **Postgres.Tokenizer.KEYWORDS,
            "//": TokenType.DIV,
            "HUGEINT": TokenType.INT128,
        }

    Generator = PostgresWriter
