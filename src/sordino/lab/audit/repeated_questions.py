"""Attacks by asking more: two counts that differ by one person, and the same count again and again.

Each is on one person's secret bit by somebody who may ask for counts; with noise all answers that he uses add up to the
loss stated, under replace: one person's bit against the other one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.ask.curator.declare_tables import protect
from sordino.ask.queries.sql.parse import sql
from sordino.core.domain import Boolean, Domain
from sordino.core.errors import BudgetExhausted, DeclarationError
from sordino.core.loss import PureDP
from sordino.core.mechanisms.additive_noise import Laplace
from sordino.core.noise.rng import Rng
from sordino.lab.audit.attack import Attack, Attacked, Epsilons, claims_from, guess_bound

Floats = np.ndarray[Any, np.dtype[np.float64]]
_MOST_DRAWS = 10_000_000


def take_differences(bits: Sequence[int], *, epsilon: Epsilons, seed: int = 1) -> Attack:
    """Ask how many people have the secret, and how many of all but one: the difference is that one's secret.

    It is tried on each person in turn. With noise each of the two counts has half of `epsilon`, and the likelier bit is
    guessed. Theory: a guess is right with s / (s + (1 - s) e^-epsilon) at most, on average, s the share of the commoner bit.

    Raises DeclarationError unless bits are 0 or 1, both of them there.

    >>> exact, noisy = take_differences([0, 1] * 50, epsilon=1).results
    >>> exact.achieved, noisy.achieved < 0.8, round(noisy.allowed, 2)
    (1.0, True, 0.73)
    """
    secret, share, odds = check_bits(bits)
    most, rng, count = max(share, 1 - share), Rng.seeded(seed), int(secret.sum())
    found = [Attacked("exact counts", None, 1.0, most, 1.0)]
    for claim in claims_from(epsilon):
        noise = Laplace(Fraction(1), claim / 2)
        everybody = np.array(noise.release([count] * len(secret), rng), dtype=np.int64)
        others = np.array(noise.release((count - secret).tolist(), rng), dtype=np.int64)
        guessed = _weigh_difference(everybody - others, float(claim) / 2) + odds > 0
        right = float((guessed == secret).mean())
        allowed = guess_bound(most, float(claim))
        found.append(Attacked(f"noisy counts, each epsilon {float(claim) / 2:g}", float(claim), right, most, allowed))
    way = "Two counts that nobody would refuse: of all people, and of all but one."
    return Attack(f"Differencing {len(secret)} people", "how often a person's secret is guessed", tuple(found), way)


def average_answers(
    bits: Sequence[int], *, epsilon: Epsilons, asks: int = 10, repeats: int = 1000, seed: int = 1
) -> Attack:
    """Ask the same noisy count again, by somebody who knows all secrets but one: with the ledger, and without.

    Each answer has `epsilon` / `asks`. A curator whose budget is `epsilon` is asked until it refuses; without a ledger
    somebody asks `repeats` times. The likelier bit is guessed from all answers together, on each person in turn. Theory as in
    `take_differences`, at what all answers add up to.

    Raises DeclarationError unless bits are 0 or 1, both of them there, and asks and repeats are 1 or more.
    """
    secret, share, odds = check_bits(bits)
    if asks < 1 or repeats < 1 or len(secret) * repeats > _MOST_DRAWS:
        raise DeclarationError(f"asks and repeats are 1 or more, and people times repeats {_MOST_DRAWS:,} at most")
    most, rng = max(share, 1 - share), Rng.seeded(seed)
    found = [Attacked("one exact count", None, 1.0, most, 1.0)]
    for claim in claims_from(epsilon):
        answered = _ask_until_refused(secret, claim, asks, seed=seed)
        for words, times in (
            ("one noisy count", 1),
            (f"the same count until the ledger refuses, {answered} answers", answered),
            (f"the same count {repeats:,} times, without a ledger", repeats),
        ):
            lost = claim / asks * times
            drawn = Laplace(Fraction(1), claim / asks).release([0] * (len(secret) * times), rng)
            apart = np.array(drawn, dtype=np.float64).reshape(len(secret), times) + secret[:, None]
            weight = float(claim / asks) * (np.abs(apart) - np.abs(apart - 1)).sum(axis=1)
            right = float(((weight + odds > 0) == secret).mean())
            found.append(Attacked(words, float(lost), right, most, guess_bound(most, float(lost))))
    way = "The attacker knows everybody else's secret; the mean of many noisy answers is nearly exact."
    return Attack(f"Averaging, on {len(secret)} people", "how often a person's secret is guessed", tuple(found), way)


def check_bits(bits: Sequence[int]) -> tuple[np.ndarray[Any, np.dtype[np.int64]], float, float]:
    """Return secret bits, the share of ones, and their log odds; raises DeclarationError unless both values are there."""
    if any(b not in (0, 1) for b in bits) or len(set(bits)) < 2:
        raise DeclarationError("secret bits are 0 or 1, and somebody has it and somebody does not")
    secret = np.array([int(b) for b in bits], dtype=np.int64)
    share = float(secret.mean())
    return secret, share, math.log(share / (1 - share))


def _weigh_difference(apart: np.ndarray[Any, np.dtype[np.int64]], epsilon: float) -> Floats:
    """Return the log likelihood of a bit of 1 less that of 0, given the difference of two noisy counts.

    The difference of two discrete Laplace numbers of ratio r is t with probability proportional to
    r^|t| (|t| + (1 + r^2) / (1 - r^2)): the sum over i of r^|i| r^|i - t|.
    """
    r = math.exp(-epsilon)
    beside = (1 + r * r) / (1 - r * r)

    def logs(t: Floats) -> Floats:
        weighed: Floats = np.log(np.abs(t) + beside) - epsilon * np.abs(t)
        return weighed

    at = apart.astype(np.float64)
    return logs(at - 1) - logs(at)


def _ask_until_refused(secret: Any, claim: Fraction, asks: int, *, seed: int) -> int:
    """Return how many times a curator with a budget of `claim` answers the same count at `claim` / `asks`."""
    import pyarrow as pa

    people = protect(
        pa.table({"secret": pa.array(secret.astype(bool))}),
        domain=Domain({"secret": Boolean()}),
        neighbors="replace",
        privacy_unit="row",
        budget=PureDP(claim),
        ledger=None,
        name="people",
        rng=Rng.seeded(seed),
    )
    question = sql("SELECT COUNT(*) AS n FROM people WHERE secret")
    answered = 0
    while True:
        try:
            people.ask(question, epsilon=claim / asks)
        except BudgetExhausted:
            return answered
        answered += 1
