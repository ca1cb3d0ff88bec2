"""Our own side of bench/peers/side_by_side.py."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from peers.peer_process import Answer, Opening, Question, serve

import sordino as sd
from sordino import col


class Sordino:
    """A curator over an Arrow table in memory, under the relation that the peer has."""

    people: Any

    def open(self, opening: Opening) -> None:
        self.opening, self.table = opening, pq.read_table(opening.path)
        self.people = self._protect(())

    def _protect(self, public: tuple[str, ...], name: str | None = None) -> Any:
        """Return a curator: a text column has the public keys given, or is an identifier, whose values are private."""
        fields: dict[str, Any] = {}
        for column in self.table.schema:
            bounds = self.opening.bounds[column.name]
            if bounds is None:
                fields[column.name] = sd.Category(list(public)) if public else sd.Identifier()
            elif pa.types.is_integer(column.type):
                fields[column.name] = sd.Integer(int(bounds[0]), int(bounds[1]))
            else:
                fields[column.name] = sd.Real(bounds[0], bounds[1], resolution="0.01")
        self.public = public
        return sd.protect(
            self.table,
            domain=sd.Domain(fields),
            neighbors=self.opening.relation,
            privacy_unit="row",
            budget=sd.ApproxDP(str(self.opening.epsilon * (self.opening.releases or 1_000_000)), "0.1"),
            ledger=name or self.opening.ledger,
            name="people",
        )

    def count(self, question: Question) -> Answer:
        rows = self.people.where(col(question.column) > question.lower)
        return self._one(rows.agg(sd.count()), question)

    def sum(self, question: Question) -> Answer:
        return self._one(sd.sum(question.column), question)

    def mean(self, question: Question) -> Answer:
        return self._one(sd.mean(question.column), question)

    def median(self, question: Question) -> Answer:
        release = self.people.ask(sd.median(question.column), epsilon=str(question.epsilon))
        return Answer(release.value, lambda: (None, release.error(0.95)))

    def groups(self, question: Question) -> Answer:
        if self.public != (question.keys or ()):
            self.people = self._protect(question.keys or ())
        asked = self.people.group_by(question.column).agg(n=sd.count())
        delta = {} if question.keys else {"delta": str(question.delta)}
        release = self.people.ask(asked, epsilon=str(question.epsilon), **delta)
        return Answer({row[question.column]: row["n"] for row in release.rows}, None)

    def _one(self, asked: Any, question: Question) -> Answer:
        release = self.people.ask(asked, epsilon=str(question.epsilon))
        return Answer(release.value, lambda: release.interval(0.95))

    def draw(self, law: str, scale: float, size: int) -> str:
        from fractions import Fraction

        from sordino.noise.discrete import discrete_gaussian, discrete_laplace

        if law == "laplace":
            discrete_laplace(Fraction(str(scale)), sd.Rng.secure(), size)
        else:
            discrete_gaussian(Fraction(str(scale)) ** 2, sd.Rng.secure(), size)
        return "discrete, exact"


if __name__ == "__main__":
    serve(Sordino)
