"""Audits by samples: many runs on two neighbors, an event chosen on one half of them and measured on the other.

It may be given anything that makes outputs: a mechanism, a user's own function, another library.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sordino.core.accounting.composition import best
from sordino.core.errors import DeclarationError
from sordino.core.loss import Event
from sordino.core.noise.rng import Rng
from sordino.lab.audit.telling_event import Outputs, TellingEvent, choose_event, read_outputs
from sordino.lab.audit.verdict import Audit, Bar, check_audit, largest_epsilon, least_epsilon, typical_epsilon

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
