"""The event that tells two neighbors apart best, chosen on samples that are not measured afterwards. It knows outputs alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.lab.audit.verdict import bound_epsilons

# Rows of floats, or one object each.
Outputs = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]
_CUTS = 200
# Different outputs that are weighed one by one.
_FEW = 64
_MISSING = -1e30


class TellingEvent(Protocol):
    """A set of outputs, fixed before it is measured."""

    def score(self, outputs: Outputs) -> Outputs:
        """Return the number, or the label, of each output that decides whether it is in the event."""

    def count(self, outputs: Outputs) -> int:
        """Return how many outputs are in it."""

    def describe(self) -> str:
        """Return it in words."""


@dataclass(frozen=True, slots=True)
class HalfLine:
    """Hold the outputs whose product with `weights` is `cut` or more, or `cut` or less."""

    weights: tuple[float, ...]
    cut: float
    above: bool

    def score(self, outputs: Outputs) -> Outputs:
        """Return the product of each output with the weights."""
        return np.asarray(outputs @ np.array(self.weights))

    def count(self, outputs: Outputs) -> int:
        """Return how many outputs are in it."""
        scores = self.score(outputs)
        return int((scores >= self.cut).sum() if self.above else (scores <= self.cut).sum())

    def describe(self) -> str:
        """Return it in words."""
        used = [i for i, w in enumerate(self.weights) if w]
        plain = len(used) == 1 and self.weights[used[0]] == 1
        name = "a weighted sum of the outputs"
        if plain:
            name = "the output" if len(self.weights) == 1 else f"output {used[0] + 1}"
        return f"{name} is {self.cut:g} or {'more' if self.above else 'less'}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """Hold a few outputs by themselves."""

    outputs: tuple[Any, ...]

    def score(self, outputs: Outputs) -> Outputs:
        """Return each output as one label."""
        return _labels(outputs)

    def count(self, outputs: Outputs) -> int:
        """Return how many outputs are in it."""
        wanted = set(self.outputs)
        return sum(one in wanted for one in _labels(outputs).tolist())

    def describe(self) -> str:
        """Return it in words."""
        outputs = ", ".join(str(o) for o in self.outputs[:5])
        return f"the output is one of {outputs}{', ...' if len(self.outputs) > 5 else ''}"


def read_outputs(outputs: Sequence[Any] | Outputs, *, runs: int) -> Outputs:
    """Return the outputs of `runs` runs as rows of floats where they are numbers, else as one label each.

    A missing number counts as one far below all others. Raises DeclarationError for another number of outputs.
    """
    if len(outputs) != runs:
        raise DeclarationError(
            f"a function under audit returns as many outputs as it is asked for: {runs}, not {len(outputs)}"
        )
    if isinstance(outputs, np.ndarray) and outputs.dtype.kind in "biuf":
        return np.asarray(outputs, dtype=np.float64).reshape(runs, -1)
    rows = [tuple(o) if isinstance(o, (list, tuple, np.ndarray)) else (o,) for o in outputs]
    numbers = all(x is None or isinstance(x, (int, float, np.number)) for row in rows for x in row)
    if numbers and len({len(row) for row in rows}) == 1:
        return np.array([[_MISSING if x is None else float(x) for x in row] for row in rows]).reshape(runs, -1)
    labels = np.empty(runs, dtype=object)
    for i, row in enumerate(rows):
        labels[i] = row[0] if len(row) == 1 else tuple(str(x) for x in row)
    return labels


def choose_event(here: Outputs, there: Outputs, *, delta: float, alarm: float) -> tuple[TellingEvent, bool]:
    """Return the event that shows most on these outputs, and whether it comes more often `there` than here.

    Half-lines of each output and of their difference in mean, both ways; and sets of single outputs, the most telling
    first, where these are few. What is returned is measured on other outputs, so this choice cannot lie.
    """
    if here.dtype != object and there.dtype != object and here.shape[1:] != there.shape[1:]:
        raise DeclarationError("a function under audit returns outputs of one shape for both tables")
    best: tuple[float, TellingEvent, bool] = (-np.inf, OneOf(()), True)
    for event, counts in _candidates(here, there):
        for swapped, (more, less) in ((True, counts[::-1]), (False, counts)):
            shown_epsilon = float(
                bound_epsilons(np.array([more]), np.array([less]), runs=len(here), delta=delta, alarm=alarm)[0]
            )
            if shown_epsilon > best[0]:
                best = (shown_epsilon, event, swapped)
    return best[1], best[2]


def _candidates(here: Outputs, there: Outputs) -> Iterator[tuple[TellingEvent, tuple[int, int]]]:
    """Yield events, each with how often it came here and there."""
    if here.dtype != object and there.dtype != object:
        for weights in _directions(here, there):
            yield from _half_lines(here @ weights, there @ weights, weights)
        if len(np.unique(np.concatenate([here, there]), axis=0)) > _FEW:
            return
    ours = Counter(_labels(here).tolist())
    theirs = Counter(_labels(there).tolist())
    for first, second in ((ours, theirs), (theirs, ours)):
        order = sorted(first, key=lambda o: (-(first[o] + 0.5) / (second[o] + 0.5), str(o)))
        hits = np.cumsum([[ours[o], theirs[o]] for o in order], axis=0)
        for i in range(min(len(order), 4 * _FEW)):
            yield OneOf(tuple(order[: i + 1])), (int(hits[i, 0]), int(hits[i, 1]))


def _directions(here: Outputs, there: Outputs) -> list[Floats]:
    """Return each axis, and for several the difference of the means over the variance of each."""
    width = here.shape[1]
    directions = [np.eye(width)[i] for i in range(min(width, _FEW))]
    if width > 1:
        spread = here.var(axis=0) + there.var(axis=0)
        directions.append((there.mean(axis=0) - here.mean(axis=0)) / np.where(spread > 0, spread, 1.0))
    return directions


def _half_lines(ours: Floats, theirs: Floats, weights: Floats) -> Iterator[tuple[TellingEvent, tuple[int, int]]]:
    stated = tuple(weights.tolist())
    first = np.sort(ours)
    second = np.sort(theirs)
    for cut in np.unique(np.quantile(np.concatenate([ours, theirs]), np.linspace(0, 1, _CUTS))):
        above = tuple(len(s) - int(np.searchsorted(s, cut, "left")) for s in (first, second))
        below = tuple(int(np.searchsorted(s, cut, "right")) for s in (first, second))
        yield HalfLine(stated, float(cut), True), (above[0], above[1])
        yield HalfLine(stated, float(cut), False), (below[0], below[1])


def _labels(outputs: Outputs) -> Outputs:
    """Return each output as one label that can be counted."""
    if outputs.dtype == object:
        return outputs
    labels = np.empty(len(outputs), dtype=object)
    for i, row in enumerate(outputs.tolist()):
        labels[i] = row[0] if len(row) == 1 else tuple(row)
    return labels
