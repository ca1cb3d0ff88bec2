"""DataAccess: what a plan may do with the data once it is charged - build trees in the engine's words, and run them.

It is the only way from a plan to the exact answers; what comes out of it never leaves the curator without noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from sordino.ask.queries.expressions.released import ReleasedValues, check_tokens
from sordino.ask.queries.row_steps import RowStep, apply_steps
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.noise.rng import Rng
from sordino.core.primitives import Primitives
from sordino.core.release import Key, Output
from sordino.core.source import PrivateTable

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

    from sordino.ask.engines.engine import Engine, Statement

Answer = tuple[tuple[Key, ...], tuple[Output, ...]]


@contextmanager
def open_rows(engine: Engine, question: object) -> Iterator[DataAccess]:
    """Give access to one state of the rows that a question reads: of its table, and of other private tables in its steps."""
    names = private_tables(question)
    with (engine.open_tables(names) if names else engine).snapshot() as held:
        yield DataAccess(held)


def check_text(engine: Engine, question: object, write: Callable[[StatementWriter], object]) -> None:
    """Write a question's text and drop it: raises QuestionRefused where the engine cannot say it. Nothing is read.

    Where it reads other private tables, their columns are known when it is asked, and refused then, before the charge.
    """
    if not private_tables(question):
        write(StatementWriter(engine))


def private_tables(question: object) -> dict[str, PrivateTable]:
    """Return the private tables that a question reads besides its own."""
    parts = (question, *getattr(question, "steps", ()))
    return {name: table for part in parts for name, table in getattr(part, "reads", {}).items()}


class StatementWriter:
    """Write the statements of a question, before the charge: it cannot run them, so nothing that it makes depends on a row."""

    def __init__(
        self,
        engine: Engine,
        *,
        steps: Sequence[RowStep] = (),
        domain: Domain | None = None,
        expects: frozenset[str] = frozenset(),
        released: ReleasedValues | None = None,
        table: str | None = None,
    ) -> None:
        self._engine = engine
        self._table = table
        self._steps = steps
        self._domain = domain
        self._expects = expects
        self._released = released

    def follow(self, steps: Sequence[RowStep], domain: Domain) -> Self:
        """Return the rows that the steps make of the table's, which `domain` declares."""
        return self._with(self._engine, steps=steps, domain=domain)

    def of_table(self, name: str | None) -> Self:
        """Return the rows of another private table that the engine reads; None for its own."""
        return self._with(self._engine, table=name)

    def expect_released(self, names: Iterable[str]) -> Self:
        """Return a writer whose texts may hold tokens of these released values, which are known before these texts run."""
        return self._with(self._engine, expects=frozenset(names))

    def check_sample(self) -> None:
        """Raise QuestionRefused where the engine draws no samples."""
        if getattr(self._engine, "sample", None) is None:
            raise QuestionRefused("the engine of this table draws no samples: ask of all rows, without SAMPLE")

    def primitives(self) -> Primitives:
        """Return the words for one tree; take new ones for each."""
        words = self._engine.primitives
        if self._table is not None:
            words = words.other_rows(self._table)
        return words if self._domain is None else apply_steps(words, self._steps, self._domain)

    def write(self, select: exp.Select) -> Statement:
        """Return the engine's text of a tree; nothing is read, so a plan writes what it can before the charge."""
        statement = self._engine.write(select)
        check_tokens(statement.text, self._expects)
        return statement

    def _with(self, engine: Engine, **changed: Any) -> Self:
        """Return the same over another engine or other rows."""
        same = {
            "steps": self._steps,
            "domain": self._domain,
            "expects": self._expects,
            "released": self._released,
            "table": self._table,
        }
        return type(self)(engine, **{**same, **changed})


class DataAccess(StatementWriter):
    """Run trees over the curator's table; made by the curator, and given to one plan after the charge."""

    def writer(self) -> StatementWriter:
        """Return what may be used of it before the charge."""
        return StatementWriter(self._engine, steps=self._steps, domain=self._domain, table=self._table)

    def bind(self, released: ReleasedValues) -> DataAccess:
        """Return the same access, with released values in the place of their tokens."""
        return self._with(self._engine, expects=released.names, released=released)

    @contextmanager
    def sample(self, rate: Fraction, rng: Rng) -> Iterator[DataAccess]:
        """Draw a Poisson sample, each unit with chance `rate` rounded down to 2^-64, and forget it at the end."""
        drawn = self._engine.sample(threshold=math.floor(rate * 2**64), key=rng.bytes(32))
        try:
            yield self._with(drawn)
        finally:
            drawn.close()

    def run(self, statement: Statement) -> pa.Table:
        """Return the exact answer of a text; raises EngineFailed, without any of the engine's words."""
        if self._released is not None:
            statement = replace(statement, text=self._released.bind(statement.text))
        return self._engine.run(statement)
