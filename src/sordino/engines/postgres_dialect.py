"""PostgreSQL's SQL as our own trees need it: `//` for the whole quotient, HUGEINT for numbers of 38 digits and more."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.generators.postgres import PostgresGenerator
from sqlglot.tokenizer_core import TokenType

__all__ = ["SordinoPostgres"]


class PostgresWriter(PostgresGenerator):
    """Write wide numbers as numeric, of which there is no largest."""

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
