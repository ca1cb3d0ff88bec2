"""Fixed transcripts: a question runs on two neighbors with each mechanism's output fixed, so that what it was given is compared.

Every stage after the first then sees the same earlier answers, as the composition theorems suppose. What each mechanism was
given may differ by its sensitivity at most; everything else about the two answers must be the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sordino as sd
from answers.plain_questions import Question
from answers.town_tables import FORMATS, LISTS, Rows, people_rows, protect_tables, visit_rows
from battery import MECHANISMS
from sordino.core.mechanisms.additive_noise import Staircase
from sordino.core.mechanisms.selection import Exponential, PermuteAndFlip

CHOOSERS = (Exponential, PermuteAndFlip)
# What adds noise to vectors, by the cases that all such mechanisms have.
ADDITIVE = {type(case.made) for case in MECHANISMS}


@dataclass
class Given:
    """What one mechanism was given: its kind, its parameters, and the numbers."""

    mechanism: Any
    numbers: tuple[Fraction, ...]

    def moved_too_far(self, other: Given) -> str | None:
        """Return how the numbers of two neighbors differ by more than the mechanism was made for; None where they do not."""
        if self.mechanism != other.mechanism or len(self.numbers) != len(other.numbers):
            return (
                f"other mechanisms: {self.mechanism} of {len(self.numbers)}, {other.mechanism} of {len(other.numbers)}"
            )
        moves = [abs(a - b) for a, b in zip(self.numbers, other.numbers, strict=True)]
        if isinstance(self.mechanism, Staircase) and sum(move > 0 for move in moves) > 1:
            return f"{self.mechanism}: {sum(move > 0 for move in moves)} numbers moved, and it is for one"
        if isinstance(self.mechanism, CHOOSERS):
            moved, most = max(moves, default=Fraction(0)), self.mechanism.sensitivity
        else:
            moved, most = self._reach(moves)
        return None if moved <= most else f"{self.mechanism}: moved by {moved} of {most}"

    def is_at_the_bound(self, other: Given) -> bool:
        """Return whether a vector moved by exactly what its mechanism was made for."""
        if isinstance(self.mechanism, CHOOSERS):
            return False
        moved, most = self._reach([abs(a - b) for a, b in zip(self.numbers, other.numbers, strict=True)])
        return moved == most > 0

    def _reach(self, moves: list[Fraction]) -> tuple[Fraction, Fraction]:
        """Return how far a vector moved, in the norm that its mechanism is made for, and the most that it may."""
        if hasattr(self.mechanism, "l1"):
            return sum(moves, Fraction(0)), self.mechanism.l1
        return sum((m * m for m in moves), Fraction(0)), self.mechanism.l2_squared


@dataclass
class Transcript:
    """One run: what each mechanism was given, in order, and the release, or what was raised."""

    given: list[Given] = field(default_factory=list)
    release: sd.Release | None = None
    raised: str | None = None

    @property
    def shape(self) -> Any:
        """What anyone sees of the answer but its values: its columns and their types, its notes and its price."""
        if self.release is None:
            return self.raised
        schema = [(f.name, str(f.type)) for f in self.release.table.schema]
        return schema, self.release.notes, self.release.cost.describe()


@contextmanager
def fixed_transcript(asked: Transcript, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let mechanisms note what they are given, and answer with public constants."""

    def vector(self: Any, exact: Any, rng: Any) -> list[int]:
        del rng
        asked.given.append(Given(self, tuple(map(Fraction, map(int, exact)))))
        # Different numbers, so that HAVING, ORDER BY and LIMIT have something to choose by.
        return [1000 + 7 * (place % 11) for place in range(len(exact))]

    def choice(self: Any, scores: Any, rng: Any, weights: Any = None) -> int:
        del rng
        asked.given.append(Given(self, tuple(Fraction(s) for s in scores)))
        return 0 if weights is None else next(i for i, w in enumerate(weights) if w)

    with monkeypatch.context() as patch:
        for kind in ADDITIVE:
            patch.setattr(kind, "release", vector)
        for chooser in CHOOSERS:
            patch.setattr(chooser, "release", choice)
        yield


def ask_fixed(
    connection: sd.Connection, question: Question, loss: dict[str, Any], patch: pytest.MonkeyPatch
) -> Transcript:
    """Ask a question with a fixed transcript; both runs draw the same words, so that their samples have the same key."""
    asked = Transcript()
    for table in ("people", "visits"):
        connection.table(table)._rng = sd.Rng.seeded(7)
    with fixed_transcript(asked, patch):
        try:
            if question.asked is None:
                answer = connection.ask(sd.sql(question.text, dialect=question.dialect), **loss)
            else:
                answer = connection.table("people").ask(question.asked, **loss)
        except sd.errors.SordinoError as error:
            asked.raised = f"{type(error).__name__}: {error}"
        else:
            assert isinstance(answer, sd.Release)
            asked.release = answer
    return asked


def compare_transcripts(here: Transcript, there: Transcript, *, whole: bool) -> list[str]:
    """Return what tells two neighbors apart beyond what was paid for; `whole` where every mechanism's output was fixed."""
    found = []
    if here.shape != there.shape:
        found.append(f"another shape: {here.shape} and {there.shape}")
    if len(here.given) != len(there.given):
        return [*found, f"{len(here.given)} and {len(there.given)} mechanisms"]
    if not whole:
        return found
    found += [words for a, b in zip(here.given, there.given, strict=True) if (words := a.moved_too_far(b))]
    if here.release is not None and there.release is not None and here.release.rows != there.release.rows:
        found.append(f"other rows for one transcript: {here.release.rows} and {there.release.rows}")
    return found


@dataclass(frozen=True)
class Neighbors:
    """Two neighboring pairs of tables, opened alike."""

    here: sd.Connection
    there: sd.Connection


def open_neighbors(format_name: str, place: Path, seed: int, *, rows: int = 60) -> Neighbors:
    """Return people and their visits, once with all rows of one person, once without them; rows lie in another order.

    The person has odd cells: missing ones, infinities, numbers beyond the bounds, texts that nobody declared.
    """
    rng = random.Random(seed)
    written = FORMATS[format_name]
    people = written.keep(people_rows(rows, rng))
    visits = written.keep(visit_rows(rows, people, rng))
    ids = [row["Person Id"] for row in people if row["Person Id"] is not None]
    gone = rng.choice(ids)
    opened = []
    for side, keep in (("here", lambda _: True), ("there", lambda person: person != gone)):
        folder = place / side
        folder.mkdir()
        tables = {
            "people": _shuffle([row for row in people if keep(row["Person Id"])], rng),
            "visits": _shuffle([row for row in visits if keep(row["member_id"])], rng),
        }
        if not written.lists:
            tables = {
                name: [{k: v for k, v in row.items() if k not in LISTS} for row in own] for name, own in tables.items()
            }
        sources = {name: written.write(folder, name, own) for name, own in tables.items()}
        relation = list(tables) if format_name == "duckdb" else ()
        opened.append(protect_tables(sources, seed, relation=relation, lists=written.lists))
    return Neighbors(*opened)


def _shuffle(rows: Rows, rng: random.Random) -> Rows:
    return rng.sample(rows, len(rows))
