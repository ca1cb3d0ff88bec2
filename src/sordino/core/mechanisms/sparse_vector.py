"""The sparse vector technique: a stream of questions, where only answers above a threshold use up the loss."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

from sordino.core.accounting.concentration import pure_epsilon_for
from sordino.core.accounting.events import Composed, LaplaceEvent
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.loss import format_number
from sordino.core.mechanisms.selection import check_miss, store_positive
from sordino.core.noise.geometric import Geometric
from sordino.core.noise.guard import SessionGuard
from sordino.core.noise.rng import Rng


@dataclass(frozen=True, slots=True)
class SparseVector:
    """The sparse vector technique: whether each answer of a stream is above a threshold, until `crossings` of them were.

    Theorem (Lyu, Su, Li 2017, Algorithm 7 and Theorems 2, 4 and 5; with noise on one side Liu et al. 2024): questions are
    whole numbers that move by at most `sensitivity`, D, between neighbors, chosen adaptively. Split epsilon into e1 + e2. With
    geometric noise of scale D / e1 on the threshold, drawn once, and of scale 2 c D / e2 on each question, all the answers
    together are epsilon-differentially private, however many are below. `monotone` states that between two neighbors all
    answers move the same way, as counts do under add_remove; then c D / e2 is enough for the questions.

    Proof: let s be the whole part of D. Map the threshold's noise r to r + s: a question that is below stays below, at a factor
    of exp(s e1 / D) in all. Map the noise v of each of the c questions that cross to v + 2 s: it still crosses, at
    exp(2 s e2 / (2 c D)) each. If all answers rise, v + s is enough beside r + s, as the answers do not fall; if all fall, r
    stays, below stays below, and v + s makes up for the fall. Both maps are of whole numbers to whole numbers, one to one, so
    sums stand for the integrals; together exp(e1 + e2). They only ever move noise upwards, so noise on 0, 1, 2, ... is as
    private as noise on both sides, and its deviation is .707 of it. Its means are public: their difference, to the nearest
    whole number, is added to the threshold, so that it crosses about as often too early as too late.

    e1 : e2 is about 1 : (2c)^(2/3), or 1 : c^(2/3) if monotone, which makes the variance of the difference least
    (section 4.2 there). `crossings` = 1 is AboveThreshold. Numbers released beside the answers are charged separately.

    With `redraws` the threshold's noise is drawn anew after each crossing, and `epsilon` is spent by each: an adaptive
    sequence of `crossings` runs of AboveThreshold, each epsilon-private by the above for c = 1, so the rho of all is
    crossings epsilon tanh(epsilon / 2) (`accounting.concentration`, theorem 2; Bun & Steinke 2016, Lemma 2.3). Under rho
    the noise then grows with sqrt(c), not c. `sparse_vector_for` takes the better of the two.

    Raises DeclarationError unless sensitivity and epsilon are exact and above 0 and crossings is 1 or more.

    >>> session = SparseVector(1, Fraction(1), 1).session(100, Rng.seeded(1))
    >>> session.above(-10**6), session.above(10**6), session.open
    (False, True, False)
    """

    sensitivity: Fraction
    epsilon: Fraction
    crossings: int
    monotone: bool = False
    redraws: bool = False

    def __post_init__(self) -> None:
        store_positive(self, "sensitivity", "epsilon")
        if isinstance(self.crossings, bool) or not isinstance(self.crossings, int) or self.crossings < 1:
            raise DeclarationError("crossings must be a whole number, 1 or more")

    @property
    def event(self) -> LaplaceEvent | Composed:
        """What one whole session amounts to, charged before its first question."""
        one = LaplaceEvent(self.epsilon)
        return Composed((one,) * self.crossings) if self.redraws else one

    @property
    def threshold_law(self) -> Geometric:
        """The law of the threshold's noise."""
        return Geometric(self.sensitivity / (self.epsilon * self._threshold_share()))

    @property
    def question_law(self) -> Geometric:
        """The law of the noise of each question."""
        moved = self._moves() * self.sensitivity
        return Geometric(moved / (self.epsilon * (1 - self._threshold_share())))

    @property
    def correction(self) -> int:
        """What is added to the threshold: by how much a question's noise is larger on average than the threshold's."""
        return round(self.question_law.mean() - self.threshold_law.mean())

    def _moves(self) -> int:
        """Return how far the proof moves the questions' noise in all, in sensitivities."""
        crossings = 1 if self.redraws else self.crossings
        return crossings if self.monotone else 2 * crossings

    def _threshold_share(self) -> Fraction:
        """Return the threshold's share of epsilon, in thousandths: any share is private, this one is about the best."""
        return Fraction(max(1, round(1000 / (1 + self._moves() ** (2 / 3)))), 1000)

    def session(self, threshold: int, rng: Rng) -> SparseSession:
        """Return a session at a public threshold, a whole number, with its noise drawn."""
        return SparseSession(self, threshold, rng)

    def error(self, confidence: float, *, questions: int) -> int:
        """Return the distance from the threshold beyond which all answers are right at `confidence`, in whole steps.

        For at most `questions` questions. As no noise is below 0, one that should cross does not only where the threshold's
        noise is large, and one that should not crosses only where its own is: half of the failure probability goes to
        either, by a union bound over thresholds and over questions. Below Dwork & Roth 2014, Theorem 3.24.

        >>> SparseVector(1, Fraction(1), 1).error(0.95, questions=100)
        26
        """
        check_miss(confidence, questions)
        miss = (1 - Fraction(repr(float(confidence)))) / 2
        thresholds = min(self.crossings, questions) if self.redraws else 1
        late = self.threshold_law.error(1 - miss / thresholds) + self.correction
        early = self.question_law.error(1 - miss / questions) - self.correction
        return max(late, early, 0)

    def describe(self) -> str:
        """Return the mechanism in words."""
        scales = f"scales {format_number(self.threshold_law.scale)} and {format_number(self.question_law.scale)} steps"
        kind = "monotone sparse vector" if self.monotone else "sparse vector"
        fresh = ", a threshold each" if self.redraws else ""
        return f"{kind}, {self.crossings} crossing(s){fresh}, geometric noise of {scales}"


def sparse_vector_for(
    sensitivity: Fraction | int, *, crossings: int, monotone: bool, epsilon: Fraction, rho: Fraction | None = None
) -> SparseVector:
    """Return the session with the least noise of two: one threshold at `epsilon`, or one a crossing at `rho` in all.

    What is compared is the variance of a question's noise less the threshold's, from public parameters alone. At rho .5
    and ten crossings the redrawn threshold has .56 of the deviation.

    >>> sparse_vector_for(1, crossings=10, monotone=False, epsilon=Fraction(1), rho=Fraction(1, 2)).redraws
    True
    """
    one = SparseVector(Fraction(sensitivity), epsilon, crossings, monotone)
    if rho is None or crossings == 1:
        return one
    each = SparseVector(one.sensitivity, pure_epsilon_for(rho / crossings), crossings, monotone, redraws=True)
    return min(one, each, key=lambda vector: vector.threshold_law.variance() + vector.question_law.variance())


class SparseSession:
    """A stream of questions under one `SparseVector`, made by its `session`; closed after the last crossing.

    It holds the noisy threshold, so it cannot be copied, pickled or shown, nor used by a forked process. One session may
    serve many threads.
    """

    __slots__ = ("_guard", "_left", "_noisy_threshold", "_question_law", "_rng", "_threshold", "_vector")

    def __init__(self, vector: SparseVector, threshold: int, rng: Rng) -> None:
        self._vector = vector
        self._rng = rng
        self._left = vector.crossings
        self._guard = SessionGuard("this sparse-vector session")
        self._threshold = _whole(threshold, "threshold") + vector.correction
        self._noisy_threshold = self._threshold + vector.threshold_law.sample(rng)
        self._question_law = vector.question_law

    @property
    def open(self) -> bool:
        """Whether another question may be asked: a function of the answers so far."""
        return self._left > 0 and not self._guard.ended

    def above(self, exact: int) -> bool:
        """Return whether the noisy answer is at or above the noisy threshold.

        Raises QuestionRefused once the crossings are used up, whatever the answer would have been, and in a forked process.
        """
        exact = _whole(exact, "exact")
        with self._guard.hold():
            if self._left == 0:
                count = self._vector.crossings
                raise QuestionRefused(
                    f"the session has had its {count} crossing(s): open a new session, which is a new charge"
                )
            crossed = exact + self._question_law.sample(self._rng) >= self._noisy_threshold
            if crossed:
                self._left -= 1
                # a redrawn threshold is an AboveThreshold of its own, so what came before says nothing of its noise
                if self._vector.redraws:
                    self._noisy_threshold = self._threshold + self._vector.threshold_law.sample(self._rng)
            return crossed

    def __repr__(self) -> str:
        return f"<SparseSession of {self._vector!r}, {self._left} crossing(s) left>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a SparseSession cannot be copied or pickled: both copies would use one noisy threshold")


def _whole(value: int, name: str) -> int:
    """Return a whole number; the error does not show the value, which may be exact."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise DeclarationError(f"{name} must be a whole number of lattice steps")
    return value.__index__()
