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
    clipped = False

    def open(self, opening: Opening) -> None:
        self.opening, self.table = opening, pq.read_table(opening.path)
        self.people = self._protect(())

    def _protect(self, public: tuple[str, ...], name: str | None = None) -> Any:
        """Return a curator: a text column has the public keys given, or is an identifier, whose values are private."""
        fields: dict[str, Any] = {}
        for column in self.table.schema:
            bounds = self.opening.bounds[column.name]
            # under replace the number of cells is public, as it is in diffprivlib: a missing one counts as the lower bound
            filled = {} if bounds is None or self.opening.relation != "replace" else {"missing": sd.Fill(bounds[0])}
            if bounds is None:
                fields[column.name] = sd.Category(list(public)) if public else sd.Identifier()
            elif pa.types.is_integer(column.type):
                fields[column.name] = sd.Integer(int(bounds[0]), int(bounds[1]), **filled)
            else:
                fields[column.name] = sd.Real(bounds[0], bounds[1], resolution="0.01", **filled)
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

        def interval() -> tuple[dict[str, float], dict[str, float]]:
            rows = release.interval(0.95).to_pylist()
            low, high = ({row[question.column]: row[end] for row in rows} for end in ("n_lower", "n_upper"))
            return low, high

        return Answer({row[question.column]: row["n"] for row in release.rows}, interval)

    def _one(self, asked: Any, question: Question) -> Answer:
        release = self.people.ask(asked, epsilon=str(question.epsilon))
        return Answer(release.value, lambda: release.interval(0.95))

    def draw(self, law: str, scale: float, size: int) -> str:
        from fractions import Fraction

        from sordino.core.noise.discrete import discrete_gaussian, discrete_laplace

        if law == "laplace":
            discrete_laplace(Fraction(str(scale)), sd.Rng.secure(), size)
        else:
            discrete_gaussian(Fraction(str(scale)) ** 2, sd.Rng.secure(), size)
        return "discrete, exact"

    def compose(self, law: str, scale: float, times: int, delta: float) -> float:
        """Return the epsilon of as many releases of a real sum, whose greatest move is 1,000 steps of its grid."""
        from fractions import Fraction

        from sordino.core.accounting.composition import best
        from sordino.core.accounting.events import DiscreteGaussianEvent, DiscreteLaplaceEvent

        steps, width = 1000, Fraction(str(scale))
        if law == "laplace":
            return best([DiscreteLaplaceEvent(1 / width, steps)] * times, str(delta)).epsilon
        return best([DiscreteGaussianEvent((width * steps) ** 2, steps, 1)] * times, str(delta)).epsilon

    def local(self, protocol: str, labels: int, epsilon: float, answers: list[int]) -> Any:
        """Perturb answers, and return what makes shares of the reports."""
        import numpy as np

        from sordino import local

        made = getattr(local, protocol)(range(labels), epsilon=str(epsilon))
        reports = made.perturb(np.array(answers, np.int32), sd.Rng.secure())

        def shares() -> Any:
            found = made.estimate(made.count(reports))
            return found.projected()["frequency"].to_pylist() if self.clipped else found.frequencies

        return shares


if __name__ == "__main__":
    serve(Sordino)
