"""Spark's SQL, written of our own trees: `//` is the whole quotient, HUGEINT is DECIMAL(38, 0), sums never wrap."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator

_WIDE = "DECIMAL(38, 0)"
_HALF = f"CAST('{2**62}' AS {_WIDE})"  # parts numbers of up to 37 digits in two of 64 bits


class SordinoSpark(Spark):
    """Write our own trees; nothing is read by it."""

    class Generator(SparkGenerator):
        """Write what Spark computes otherwise, or in 64 bits, as we mean it."""

        TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {**SparkGenerator.TYPE_MAPPING, exp.DType.INT128: _WIDE}

        TRANSFORMS: ClassVar[dict[Any, Any]] = {
            k: v for k, v in SparkGenerator.TRANSFORMS.items() if k is not exp.IntDiv
        }

        def intdiv_sql(self, expression: exp.IntDiv) -> str:
            """Write the whole quotient of two numbers that are not negative, neither past 37 digits.

            Where neither is cast to a wide type, both were proved to lie within 2^62 (`NARROW`), and DIV is right. Spark's
            DIV of decimals returns 64 bits, and wraps silently where a quotient has more. Theorem: with a = h c + l for
            c = 2^62, and h = q b + s, the quotient a // b is q c + (s c + l) // b. Here h < 10^37 / 2^62 < 2^62, and as
            s < b, (s c + l) // b is at most c; so no quotient below has more than 64 bits.
            """
            wide = (exp.DType.INT128, exp.DType.DECIMAL)
            if not any(cast.to.this in wide for cast in expression.find_all(exp.Cast)):
                return self.binary(expression, "DIV")
            a, b = (f"CAST({self.sql(expression, part)} AS {_WIDE})" for part in ("this", "expression"))
            high = f"({a} DIV {_HALF})"
            rest = f"(CAST({high} % {b} AS {_WIDE}) * {_HALF} + {a} % {_HALF})"
            return f"CAST(({high} DIV {b}) * {_HALF} + {rest} DIV {b} AS {_WIDE})"

        def sum_sql(self, expression: exp.Sum) -> str:
            """Write a sum of 38 digits: that of a BIGINT has 64 bits."""
            return f"SUM(CAST({self.sql(expression, 'this')} AS {_WIDE}))"

        def window_sql(self, expression: exp.Window) -> str:
            """Write a row's number with an order, which Spark asks for where any will do."""
            if isinstance(expression.this, exp.RowNumber) and expression.args.get("order") is None:
                expression = expression.copy()
                expression.set("order", exp.Order(expressions=[exp.Literal.number(1)]))
            return super().window_sql(expression)

        def log_sql(self, expression: exp.Log) -> str:
            """Write the logarithm to base 2 or 10 by its own function."""
            return f"LOG{expression.this.name}({self.sql(expression, 'expression')})"

        def anonymous_sql(self, expression: exp.Anonymous) -> str:
            """Write GROUPING of several columns, a number of a bit for each, by its name here, and a sum in 64 bits."""
            if expression.name.upper() == "WHOLE_SUM":
                return self.func("SUM", *expression.expressions)
            if expression.name.upper() == "GROUPING":
                return self.func("GROUPING_ID", *expression.expressions)
            return super().anonymous_sql(expression)
