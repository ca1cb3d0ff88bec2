"""A workload of random counts: how far a model's answers lie from the table's. Sees tables of counts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.ask.queries.adaptive.marginal import ContingencyTable
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.weighted_sum import normal_quantile
from sordino.synth.encoded_column import Floats
from sordino.synth.evaluation.table_counts import Counter, count_model

if TYPE_CHECKING:
    from sordino.core.noise.rng import Rng
    from sordino.synth.encoded_column import Codes, EncodedColumn
    from sordino.synth.model import Model

# The columns, and which keys of each are inside the box.
BoxQuery = tuple[tuple[int, ...], "list[Codes]"]


@dataclass(frozen=True, slots=True)
class SetError:
    """How far the counts of a model over one set of columns lie off, what error it states, and its intervals' coverage.

    `excess` is the mean square of what was seen, less the variance of asking: unbiased, and below 0 by chance.
    """

    columns: tuple[str, ...]
    cells: int
    excess: float
    stated: float
    coverage: float

    @property
    def error(self) -> float:
        """The root mean square error, in rows; 0 where the noise hides it."""
        return math.sqrt(max(self.excess, 0.0))

    def most(self, noise: float, confidence: float) -> float:
        """Return the upper bound on the root mean square error, in rows, as `most_error` has it."""
        return most_error(self.excess, self.cells, noise, confidence)


@dataclass(frozen=True, slots=True)
class Workload:
    """The errors of random counts over sets of columns; `noise` is the deviation of asking, which errors are freed of."""

    sets: tuple[SetError, ...]
    noise: float

    @property
    def error(self) -> float:
        """The root mean square error over all, in rows; 0 where the noise hides it."""
        return math.sqrt(max(self._excess, 0.0))

    def most(self, confidence: float) -> float:
        """Return the upper bound on the root mean square error over all, in rows, as `most_error` has it."""
        return most_error(self._excess, sum(m.cells for m in self.sets), self.noise, confidence)

    def describe(self) -> str:
        """Return the error in words: without noise itself, else what it is at most beside the noise of asking.

        >>> Workload((SetError(("a",), 64, -900.0, 5.0, 0.97),), 238.0).describe()
        'counts err by at most 174 rows at 95% (root mean square; the query noise alone is 238)'
        """
        if not self.noise:
            return f"counts err by {self.error:,.0f} rows (root mean square)"
        about = f"about {self.error:,.0f} rows, " if self.error else ""
        rows = "" if about else " rows"
        return (
            f"counts err by {about}at most {math.ceil(self.most(0.95)):,}{rows} at 95% (root mean square; the query noise "
            f"alone is {self.noise:,.0f})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the errors as JSON data, in rows: what the noise hides is null, and `at_most` bounds every error at 95%."""
        sets = [
            {
                "columns": list(m.columns),
                "counts": m.cells,
                "error": m.error if m.error or not self.noise else None,
                "at_most": m.most(self.noise, 0.95),
                "stated": m.stated,
                "coverage": m.coverage,
            }
            for m in self.sets
        ]
        error = self.error if self.error or not self.noise else None
        whole = {"error": error, "at_most": self.most(0.95), "noise": self.noise, "coverage": self.coverage}
        return {**whole, "sets": sets}

    @property
    def _excess(self) -> float:
        weights = np.array([m.cells for m in self.sets], dtype=np.float64)
        return float((weights * [m.excess for m in self.sets]).sum() / weights.sum())

    @property
    def coverage(self) -> float:
        """The share of counts that the 95% interval covers, as far as the noise shows it."""
        cells = sum(m.cells for m in self.sets)
        return sum(m.coverage * m.cells for m in self.sets) / cells


def most_error(excess: float, cells: int, noise: float, confidence: float) -> float:
    """Return an upper bound on the root mean square D of errors d_i, of which `cells` values d_i + Z_i were seen.

    With q the mean of (d_i + Z_i)^2, E q = D^2 + s^2 for noise of deviation s, and Var q is at most (5 s^4 + s^2 + 4 s^2 D^2)
    / n: E Z^4 is 6 s^4 + s^2 for discrete Laplace noise, and less for Gaussian noise. The bound is the largest D for which
    q lies no further below its mean than the one-sided normal quantile; as q is skewed to the right, it is less often so
    low than a normal number. `excess` is q - s^2, `noise` is s.

    >>> most_error(100.0, 64, 0.0, 0.95), round(most_error(0.0, 64, 10.0, 0.95), 2)
    (10.0, 7.43)
    """
    variance = noise * noise
    reach = normal_quantile(max(2 * confidence - 1, 0.0)) ** 2 / cells
    # D^2 - excess = sqrt(reach (5 s^4 + s^2 + 4 s^2 D^2)), squared: its larger root
    middle = excess + 2 * reach * variance
    root = middle * middle - excess * excess + reach * (5 * variance * variance + variance)
    return math.sqrt(max(middle + math.sqrt(max(root, 0.0)), 0.0))


def random_box_queries(
    model: Model, sets: Sequence[tuple[str, ...]], *, each: int, rng: Rng
) -> list[tuple[tuple[int, ...], list[Codes]]]:
    """Return random questions: for each set of columns, `each` times, a part of the keys of each of its columns."""
    place = {n: i for i, n in enumerate(model.columns)}
    for name in (n for names in sets for n in names):
        if name not in place:
            raise QuestionRefused(f"the model has no column {name!r}; it has {', '.join(place)}")
    column_sets = [tuple(place[n] for n in names) for names in sets for _ in range(each)]
    return [(one, [_random_part(model.parts.columns[c], rng) for c in one]) for one in column_sets]


def evaluate_workload(
    model: Model, questions: Sequence[tuple[tuple[int, ...], list[Codes]]], counter: Counter
) -> Workload:
    """Return how far the model's counts lie from the table's, inside and outside the part of each column."""
    columns = model.parts.columns
    tables = [
        ContingencyTable(tuple(columns[c].axis(part) for c, part in zip(chosen, parts, strict=True)))
        for chosen, parts in questions
    ]
    all_counts = counter.counts(tables)
    noise = all_counts[0].variance
    by_set: dict[tuple[int, ...], list[tuple[Floats, Floats]]] = {}
    for (chosen, parts), counts in zip(questions, all_counts, strict=True):
        model_counts = count_model(model, list(zip(chosen, parts, strict=True)))
        cells = np.arange(model_counts.size).reshape(model_counts.shape)
        stated = model.parts.errors.deviation(chosen, parts, np.ones(model_counts.shape), cells, model_counts.size)
        model_counts = model_counts.ravel()
        by_set.setdefault(chosen, []).append((counts.cells.ravel() - model_counts, stated))
    sets = []
    for chosen, several in by_set.items():
        off, stated = (np.concatenate([one[i] for one in several]) for i in (0, 1))
        coverage = float((np.abs(off) <= normal_quantile(0.95) * np.sqrt(np.square(stated) + noise)).mean())
        excess = float(np.square(off).mean()) - noise
        names = tuple(columns[c].name for c in chosen)
        sets.append(SetError(names, len(off), excess, float(np.sqrt(np.square(stated).mean())), coverage))
    return Workload(tuple(sets), math.sqrt(noise))


def _random_part(column: EncodedColumn, rng: Rng) -> Codes:
    """Return 1 for the keys in a random run of an ordered column, or in a random half of another; never all or none."""
    inside = np.zeros(column.size, dtype=np.int64)
    if column.size == 1:
        return inside
    if column.ordered:
        ends = sorted((rng.below(column.size), rng.below(column.size)))
        inside[ends[0] : ends[1] + 1] = 1
    else:
        inside[rng.uniform_doubles(column.size) < 0.5] = 1
    if inside.all() or not inside.any():
        at = rng.below(column.size)
        inside[at] = 1 - inside[at]
    return inside
