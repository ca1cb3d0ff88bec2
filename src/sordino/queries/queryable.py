"""Queryable: all that an adaptive algorithm may do - ask for noisy vectors, for the best candidate, for a crossing.

An algorithm that can only query is post-processing of what it was told, so its privacy proof is the curator's (McSherry
2009, PINQ). Nothing here sees data: a vector query says which scans it needs and how whole numbers follow from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from sordino.domain import Domain
from sordino.loss import Loss, Number
from sordino.neighbors import Neighbors, Sensitivity
from sordino.primitives import Primitives
from sordino.queries.aggregation import Aggregation
from sordino.release import Key, Output, Release

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

__all__ = ["Adaptive", "Inquiry", "Queryable", "Scan", "Told", "Vector", "VectorQuery"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scan:
    """One SELECT that a vector query needs; equal `key`s mean the same SELECT, which then runs once."""

    key: str
    select: Callable[[Primitives], exp.Select]


@dataclass(frozen=True, slots=True)
class Vector:
    """One vector of whole numbers, in steps of `unit`, that gets noise of its own.

    `sensitivity` is in steps; `weight` is its share of the loss before scaling (of epsilon, or of rho).
    """

    name: str
    unit: Fraction
    sensitivity: Sensitivity
    weight: Fraction = Fraction(1)


@runtime_checkable
class VectorQuery(Protocol):
    """A question answered by vectors of whole numbers, each with noise of its own."""

    def vectors(self, domain: Domain, neighbors: Neighbors) -> Sequence[Vector]:
        """Return the vectors; raises QuestionRefused where one has no bounded sensitivity."""

    def scans(self, domain: Domain) -> Sequence[Scan]:
        """Return the SELECTs whose answers the exact vectors follow from."""

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> Sequence[Sequence[int]]:
        """Return the exact vectors, in steps, from the answers of the scans; only the curator calls it."""

    def describe(self) -> str:
        """Return the question as a sentence."""


Inquiry = Aggregation | VectorQuery


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
        """What may be lost in all, in the currency that every call counts in: epsilon, or rho."""

    def release(self, query: Inquiry, loss: Loss) -> Release:
        """Return noisy vectors; raises QuestionRefused where `loss` is more than is left."""

    def select(self, candidates: Sequence[Inquiry], loss: Loss) -> Release:
        """Return, as the value, the place of the candidate with about the largest answer; each answers one number."""

    def above(self, queries: Iterable[Inquiry], threshold: Number, loss: Loss) -> Release:
        """Return, as the value, the place of the first query whose answer is about above `threshold`, or None."""


@dataclass(frozen=True, slots=True)
class Told:
    """What an adaptive algorithm puts on record beside its result: released columns, and notes in words."""

    keys: tuple[Key, ...] = ()
    outputs: tuple[Output, ...] = ()
    notes: tuple[str, ...] = ()


class Adaptive(Protocol):
    """A table that adaptive algorithms can be run on; a Curator is one."""

    @property
    def domain(self) -> Domain:
        """What is declared about the table."""

    @property
    def neighbors(self) -> Neighbors:
        """Which tables count as neighbors."""

    def adapt(
        self,
        algorithm: Callable[[Queryable], T],
        *,
        describe: str,
        tell: Callable[[T], Told] | None = None,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
    ) -> tuple[T, Release]:
        """Charge the whole loss, run the algorithm on a Queryable, return its result and the release on record."""
