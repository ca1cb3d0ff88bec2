"""Queryable: all that an adaptive algorithm may do - ask for noisy vectors, for the best candidate, for a crossing.

An algorithm that can only query is post-processing of what it was told, so its privacy proof is the curator's (McSherry
2009, PINQ). Nothing here sees data: a vector query says which scans it needs and how whole numbers follow from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeGuard, TypeVar, Unpack, runtime_checkable

from sordino.ask.queries.adaptive.marginal import ContingencyTable, Integers, SparseCounts, VectorShare
from sordino.ask.queries.aggregation import Aggregation
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.loss import Loss, LossArguments, Number, show_arguments
from sordino.core.neighbors import Neighbors
from sordino.core.primitives import Primitives
from sordino.core.release import Key, Output, Release

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

    from sordino.core.noise.laws import NoiseLaw

T = TypeVar("T")
# what an adaptive algorithm may ask for: vectors alone are priced as Gaussian DP; "either" are vectors for epsilon first,
# and from the first question of rho on, vectors for rho alone
Draws = Literal["any", "vectors", "either"]


@dataclass(frozen=True, slots=True)
class Scan:
    """One SELECT that a vector query needs; equal `key`s mean the same SELECT, which then runs once."""

    key: str
    select: Callable[[Primitives], exp.Select]


@runtime_checkable
class VectorQuery(Protocol):
    """A question answered by vectors of whole numbers, each with noise of its own.

    Its exact vectors follow from tables of counts (a `CountsQuery`), or from scans of its own (a `ScanQuery`).
    """

    @property
    def unit(self) -> Fraction:
        """The step in which the vectors are counted."""

    def parts(self, domain: Domain, neighbors: Neighbors) -> Sequence[VectorShare]:
        """Return each vector's sensitivity in steps and its share of the loss; raises QuestionRefused where it has none."""

    def names(self) -> Sequence[str]:
        """Return a name for each vector."""

    def describe(self) -> str:
        """Return the question as a sentence."""


@runtime_checkable
class CountsQuery(Protocol):
    """A vector query whose exact vectors follow from tables of counts by declared keys."""

    @property
    def tables(self) -> tuple[ContingencyTable, ...]:
        """The tables."""

    def from_counts(self, counted: Iterable[SparseCounts], domain: Domain) -> Sequence[Integers]:
        """Return the exact vectors from the sparse exact counts of each table; only the curator calls it."""


@runtime_checkable
class ScanQuery(Protocol):
    """A vector query whose exact vectors follow from SELECTs of its own."""

    def scans(self, domain: Domain) -> Sequence[Scan]:
        """Return the SELECTs."""

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> Sequence[Integers | Sequence[int]]:
        """Return the exact vectors, in steps, from the answers of the scans; only the curator calls it."""


Inquiry = Aggregation | VectorQuery


def has_scans(query: Inquiry) -> TypeGuard[ScanQuery]:
    """Return whether a question is answered by SELECTs of its own."""
    # As isinstance says, which looks for each member of a Protocol anew in each of hundreds of candidates.
    return hasattr(query, "scans")


def is_monotone(queries: Iterable[Inquiry], neighbors: Neighbors) -> bool:
    """Return whether an added unit moves the answers of all queries the same way, as each states by its `direction`."""
    directions = {getattr(query, "direction", 0) for query in queries}
    return neighbors.relation == "add_remove" and directions in ({1}, {-1})


class Queryable(Protocol):
    """What a curator hands to an algorithm, for a loss that is charged as a whole beforehand."""

    @property
    def domain(self) -> Domain:
        """What is declared about the table."""

    @property
    def neighbors(self) -> Neighbors:
        """Which tables count as neighbors."""

    @property
    def loss(self) -> Loss:
        """The total loss, in the currency that every call counts in: epsilon, or rho; (epsilon, delta) for either."""

    def release(self, query: Inquiry, loss: Loss) -> Release:
        """Return noisy vectors; raises QuestionRefused where `loss` is more than is left."""

    def select(self, candidates: Sequence[Inquiry], loss: Loss) -> Release:
        """Return, as the value, the place of the candidate with about the largest answer; each answers one number."""

    def above(self, queries: Iterable[Inquiry], threshold: Number, loss: Loss) -> Release:
        """Return, as the value, the place of the first query whose answer is about above `threshold`, or None."""


@dataclass(frozen=True, slots=True)
class ReleaseContent:
    """What an adaptive algorithm puts on record beside its result: columns, notes in words, numbers that it chose."""

    keys: tuple[Key, ...] = ()
    outputs: tuple[Output, ...] = ()
    notes: tuple[str, ...] = ()
    chosen: tuple[tuple[str, Fraction | None], ...] = ()


@dataclass(frozen=True, slots=True)
class ChargePart:
    """One of several questions that are charged together: its `name` in words, and the `loss` at which it is asked.

    `run` asks it of a table. None where it follows from the answers of other parts: any one question at the loss is then paid.
    """

    name: str
    loss: Loss
    run: Callable[[Any], object] | None = None


# ---- Questions that an algorithm over a Queryable answers


@dataclass(frozen=True, slots=True)
class ExpectedColumn:
    """What is known of a column of an answer before it is paid: its error, and in words what the error is of.

    `parts` are the errors of parts of it, such as of tables by their columns; `lines` say them in words, the many cut short.
    """

    name: str
    question: str
    error: float | None
    unit: str
    words: str
    parts: tuple[tuple[tuple[str, ...], float], ...] = ()
    lines: tuple[str, ...] = ()


class LossTooSmall(QuestionRefused):
    """Say that an algorithm cannot do what is asked with the noise of its loss.

    `needed` is a loss at which it can, in the same currency; None where only another kind of noise will do.
    """

    def __init__(self, message: str, needed: Loss | None) -> None:
        super().__init__(message)
        self.needed = needed


class NoiseForecast(Protocol):
    """What an algorithm may know while it plans: the declarations, its whole loss, and the noise that a query would get."""

    @property
    def domain(self) -> Domain:
        """What is declared about the table."""

    @property
    def neighbors(self) -> Neighbors:
        """Which tables count as neighbors."""

    @property
    def loss(self) -> Loss:
        """The total loss: epsilon, or rho."""

    def laws(self, query: VectorQuery, loss: Loss) -> Sequence[NoiseLaw]:
        """Return the law of each vector's noise, in whole steps; raises QuestionRefused where the query has no private answer."""


class PreparedAlgorithm(Protocol):
    """How a question will be answered by an algorithm over a Queryable: all that is settled before the charge.

    `queries` are all that it will ask, so that their statements are written, and refused, before the charge. What they release
    is answered: `answer` fails for no values that they may have.
    """

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the answer's keys."""

    @property
    def rows(self) -> int | None:
        """How many rows the answer has, where that is public."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the release says beside its numbers."""

    @property
    def squared_error(self) -> float:
        """The sum of squared errors, by which one noise is preferred to another."""

    def queries(self) -> Sequence[VectorQuery]:
        """Return all queries that it will ask."""

    def columns(self, confidence: float) -> Sequence[ExpectedColumn]:
        """Return the expectation of each column; errors are not exceeded with probability `confidence`."""

    def error(self, confidence: float) -> Any:
        """Return the expected error as `Plan.error` shows it."""

    def answer(self, queryable: Queryable) -> ReleaseContent:
        """Ask the queries, and return what the release holds."""


class Adaptive(Protocol):
    """A table that adaptive algorithms can be run on; a Curator is one."""

    @property
    def domain(self) -> Domain:
        """What is declared about the table."""

    @property
    def neighbors(self) -> Neighbors:
        """Which tables count as neighbors."""

    @show_arguments(LossArguments)
    def adapt(
        self,
        algorithm: Callable[[Queryable], T],
        *,
        describe: str,
        record: Callable[[T], ReleaseContent] | None = None,
        draws: Draws = "any",
        **loss: Unpack[LossArguments],
    ) -> tuple[T, Release]:
        """Charge the whole loss, run the algorithm on a Queryable, return its result and the release on record."""
