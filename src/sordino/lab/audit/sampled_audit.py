"""Audits by samples: many runs on two neighbors, an event chosen on one half of them and measured on the other.

It may be given anything that makes outputs: a mechanism, a user's own function, another library. It knows outputs alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sordino.core.accounting.composition import best
from sordino.core.errors import DeclarationError
from sordino.core.loss import Event
from sordino.core.noise.rng import Rng
from sordino.lab.audit.verdict import (
    Audit,
    Bar,
    bound_epsilons,
    check_audit,
    largest_epsilon,
    least_epsilon,
    typical_epsilon,
)

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


ALARM = 0.001
_BARS = 40


class Releasing(Protocol):
    """What `audit_mechanism` needs of a mechanism."""

    @property
    def event(self) -> Event:
        """What one release amounts to."""

    def release(self, exact: Any, rng: Rng) -> Any:
        """Return one release."""

    def describe(self) -> str:
        """Return the mechanism in words."""


def audit_function(
    function: Callable[[Any, int], Sequence[Any]],
    here: Any,
    there: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    samples: int = 10_000,
    alarm: float = ALARM,
    subject: str = "a function",
    inside: Callable[[Any], bool] | None = None,
    seed: int | None = None,
) -> Audit:
    """Audit `function(table, runs)`, which returns `runs` outputs, on two neighboring tables against its claimed epsilon.

    `samples` runs on each table. Without `inside` the event is chosen on the first half of the outputs and measured on the
    second; with it, a function that says whether an output is in the event, all are measured, both ways at half the
    `alarm`. Outputs are numbers, tuples of numbers, or labels. `seed` is only noted: what is random in `function` is its own.

    Theorem: what is (epsilon, delta)-private on this pair is accused with probability `alarm` at most (`least_epsilon`),
    since runs are independent and the event does not depend on those that are counted. What is not accused may yet leak:
    on other neighbors, by other events, or by less than so many runs can show (`Audit.largest`, `Audit.typical`).

    Raises DeclarationError for fewer than 2 samples, or other outputs than were asked for.

    >>> def lies(table, runs):  # adds no noise at all
    ...     return [len(table)] * runs
    >>> audit_function(lies, [1, 2], [1, 2, 3], epsilon=1, samples=1000).violated
    True
    """
    check_audit(runs=samples, delta=delta, alarm=alarm)
    if samples < 2:
        raise DeclarationError("samples must be 2 or more: one half chooses the event, the other measures it")
    ours, theirs = (read_outputs(function(table, samples), runs=samples) for table in (here, there))
    half = 0 if inside is not None else samples // 2
    event: TellingEvent
    if inside is not None:
        event = _Given(inside)
        swapped = None
        alarm_each = alarm / 2
    else:
        event, swapped = choose_event(ours[:half], theirs[:half], delta=delta, alarm=alarm)
        alarm_each = alarm
    runs = samples - half
    hits = (event.count(ours[half:]), event.count(theirs[half:]))
    ways = {None: (hits, hits[::-1]), True: (hits[::-1],), False: (hits,)}[swapped]
    least = max(least_epsilon(m, k, runs=runs, delta=delta, alarm=alarm_each) for m, k in ways)
    most = largest_epsilon(runs, delta=delta, alarm=alarm_each)
    usual = typical_epsilon(epsilon, runs=runs, delta=delta, alarm=alarm_each)
    bars = draw_bars(event, ours, theirs)
    return Audit(subject, float(epsilon), delta, least, most, usual, event.describe(), hits, runs, alarm, seed, bars)


def audit_mechanism(
    mechanism: Releasing,
    here: Sequence[Any],
    there: Sequence[Any],
    *,
    delta: float = 0.0,
    samples: int = 10_000,
    alarm: float = ALARM,
    seed: int = 1,
) -> Audit:
    """Audit a mechanism on the exact vectors, or scores, of two neighbors against the loss that its event claims.

    With delta, the claim is the least epsilon known at it (`composition.best`). The pair must be as far apart as the
    mechanism's sensitivity allows, or nothing is shown.

    >>> from fractions import Fraction
    >>> from sordino.core.mechanisms.additive_noise import Laplace
    >>> found = audit_mechanism(Laplace(Fraction(1), Fraction(1)), [0], [1], samples=2000)
    >>> found.violated, found.epsilon
    (False, 1.0)
    """
    streams = {id(here): Rng.seeded(2 * seed), id(there): Rng.seeded(2 * seed + 1)}

    def release(table: Sequence[Any], runs: int) -> list[Any]:
        rng = streams[id(table)]
        return [mechanism.release(table, rng) for _ in range(runs)]

    claim = claim_of(mechanism.event, delta)
    words = mechanism.describe()
    return audit_function(
        release, here, there, epsilon=claim, delta=delta, samples=samples, alarm=alarm, subject=words, seed=seed
    )


def claim_of(event: Event, delta: float) -> float:
    """Return the epsilon that an event claims at `delta`; raises DeclarationError where it claims none."""
    pure = event.pure()
    if pure is not None and not delta:
        return float(pure)
    if not delta:
        raise DeclarationError("this mechanism claims no epsilon at delta 0; give a delta, such as 1e-3")
    return best([event], repr(delta)).epsilon


@dataclass(frozen=True, slots=True)
class _Given:
    """An event that the caller states."""

    inside: Callable[[Any], bool]

    def score(self, outputs: Outputs) -> Outputs:
        return np.array(["inside" if self.inside(o) else "outside" for o in self._plain(outputs)], dtype=object)

    def count(self, outputs: Outputs) -> int:
        return sum(bool(self.inside(o)) for o in self._plain(outputs))

    def describe(self) -> str:
        return "the output is in the event given"

    @staticmethod
    def _plain(outputs: Outputs) -> list[Any]:
        rows = outputs.tolist()
        return rows if outputs.dtype == object else [row[0] if len(row) == 1 else tuple(row) for row in rows]


def draw_bars(event: TellingEvent, here: Outputs, there: Outputs) -> tuple[Bar, ...]:
    """Return the histogram of what decides the event, on both neighbors."""
    ours = event.score(here)
    theirs = event.score(there)
    if ours.dtype != object and theirs.dtype != object:
        middle = np.quantile(np.concatenate([ours, theirs]), [0.002, 0.998])
        edges = np.linspace(middle[0], max(middle[1], middle[0] + 1e-9), _BARS + 1)
        first, second = (np.histogram(np.clip(s, edges[0], edges[-1]), edges)[0] / len(s) for s in (ours, theirs))
        return tuple(Bar(f"{edges[i]:.4g}", float(edges[i]), float(first[i]), float(second[i])) for i in range(_BARS))
    counts = (Counter(ours.tolist()), Counter(theirs.tolist()))
    total = float(len(ours))
    labels = sorted(counts[0] | counts[1], key=_order)[:_BARS]
    return tuple(
        Bar(str(label), float(i), counts[0][label] / total, counts[1][label] / total) for i, label in enumerate(labels)
    )


def _order(label: Any) -> tuple[bool, float, str]:
    """Return what labels are sorted by: numbers in order, then texts."""
    number = isinstance(label, (int, float))
    return not number, float(label) if number else 0.0, str(label)
