"""Attacks on answers: inference from local reports, averages and differences of repeated questions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
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
from sordino.local.labels import Label
from sordino.local.protocols.memoization import Memoized
from sordino.local.protocols.randomizer import Randomizer
from sordino.local.protocols.response import GRR
from sordino.local.reports import Reports

# ---- An attack on the local model: guess each person's answer from the reports of one device. It knows reports and
# shares alone


def infer_answers(
    protocol: Randomizer,
    answers: Sequence[Label],
    *,
    repeats: int = 20,
    permanent: Memoized | None = None,
    seed: int = 1,
) -> Attack:
    """Guess each answer from one report, and from `repeats` fresh ones, as devices without a ledger would send them.

    With a `permanent` protocol of GRR also from as many reports of one permanent answer, which the attacker finds first.

    The attacker knows how frequent each answer is, and guesses the likeliest: the log of its share, plus the log odds that
    a report supports it for each that does. Guessing without reports says the commonest answer of everybody.

    Theorem: reports of epsilon in all make any guess right with at most s / (s + (1 - s) e^-epsilon), s the share of the
    commonest answer, on average over people drawn by these shares. Proof: given reports y the chance of answer v is
    s_v P(y | v) / sum_w s_w P(y | w), and P(y | w) >= e^-epsilon P(y | v), so it is at most s_v / (s_v + (1 - s_v)
    e^-epsilon), which rises with s_v. Fresh reports add their epsilons up; a permanent answer is reported at its own.

    >>> from sordino import local
    >>> attack = infer_answers(local.GRR(["yes", "no"], epsilon=1), ["yes", "no"] * 20)
    >>> [round(r.allowed, 2) for r in attack.results]
    [1.0, 0.73, 1.0]
    """
    shares = _shares_of(protocol, answers, repeats)
    rng = Rng.seeded(seed)
    reports = protocol.perturb([a for a in answers for _ in range(repeats)], rng)
    each, places = np.unique(reports.rows, axis=0, return_inverse=True)
    support_rows = [protocol.count(replace(reports, rows=each[i : i + 1])).supports for i in range(len(each))]
    supports = np.array(support_rows, dtype=np.float64)[places.ravel()].reshape(len(answers), repeats, -1)
    p = float(protocol.p)
    q = float(protocol.q)
    prior = np.array([math.log(shares.get(label, 1e-300)) for label in protocol.labels])
    most = max(shares.values())
    truth = np.array([protocol.labels.index(a) for a in answers])
    results = [Attacked("the answers themselves", None, 1.0, most, 1.0)]
    for count in (1, repeats):
        scores = prior + math.log(p * (1 - q) / (q * (1 - p))) * supports[:, :count].sum(axis=1)
        epsilon = count * protocol.epsilon
        words = "one report" if count == 1 else f"{count} fresh reports"
        right = float((scores.argmax(axis=1) == truth).mean())
        results.append(Attacked(words, epsilon, right, most, guess_bound(most, epsilon)))
    if permanent is not None:
        results.append(_infer_permanent(permanent, truth, prior, repeats, rng))
    way = "Fresh noise averages out; noise that is drawn once and kept does not."
    name = f"Guessing {len(answers)} answers from reports"
    return Attack(name, "how often a person's answer is guessed", tuple(results), way)


def _shares_of(protocol: Randomizer, answers: Sequence[Label], repeats: int) -> dict[Label, float]:
    """Return the share of each answer; raises DeclarationError for what cannot be attacked."""
    people = len(answers)
    if not people or repeats < 2:
        raise DeclarationError("an attack on answers needs a person, and 2 repeats or more")
    shares = {label: n / people for label, n in Counter(answers).items()}
    unknown = [label for label in shares if label not in protocol.labels]
    if unknown:
        raise DeclarationError(f"the protocol has no label {unknown[0]!r}")
    if not protocol.q:
        raise DeclarationError(
            "reports of noisy numbers support no label; attack SUE, the bits that say all they reveal"
        )
    return shares


def _infer_permanent(memo: Memoized, truth: Any, prior: Any, repeats: int, rng: Rng) -> Attacked:
    """Guess answers from reports of one permanent answer each: the answer that most reports support is the permanent one."""
    first = memo.permanent
    second = memo.instant
    if not isinstance(first, GRR):
        raise DeclarationError("the attack on permanent answers knows GRR: memoize(GRR(labels, epsilon=2), epsilon=1)")
    permanent_rows = first.perturb([first.labels[i] for i in truth.tolist()], rng).rows
    votes = np.zeros((len(truth), len(first.labels)))
    for _ in range(repeats):
        rows = memo.reports(permanent_rows, rng)
        each, places = np.unique(rows, axis=0, return_inverse=True)
        supports = [second.count(Reports.of(second, each[i : i + 1])).supports for i in range(len(each))]
        votes += np.array(supports, dtype=np.float64)[places.ravel()]
    likeliest = votes.argmax(axis=1)
    scores = np.tile(prior, (len(truth), 1))
    scores[np.arange(len(truth)), likeliest] += math.log(first.p / first.q)
    most = float(np.exp(prior).max())
    right = float((scores.argmax(axis=1) == truth).mean())
    words = f"{repeats} reports of one permanent answer"
    return Attacked(words, first.epsilon, right, most, guess_bound(most, first.epsilon))


# ---- Attacks by asking more: two counts that differ by one person, and the same count again and again
#
# Each is on one person's secret bit by somebody who may ask for counts; with noise all answers that he uses add up to the
# loss stated, under replace: one person's bit against the other one.

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
    most = max(share, 1 - share)
    rng = Rng.seeded(seed)
    count = int(secret.sum())
    results = [Attacked("exact counts", None, 1.0, most, 1.0)]
    for claim in claims_from(epsilon):
        noise = Laplace(Fraction(1), claim / 2)
        everybody = np.array(noise.release([count] * len(secret), rng), dtype=np.int64)
        others = np.array(noise.release((count - secret).tolist(), rng), dtype=np.int64)
        guessed = _weigh_difference(everybody - others, float(claim) / 2) + odds > 0
        right = float((guessed == secret).mean())
        allowed = guess_bound(most, float(claim))
        results.append(Attacked(f"noisy counts, each epsilon {float(claim) / 2:g}", float(claim), right, most, allowed))
    way = "Two counts that nobody would refuse: of all people, and of all but one."
    return Attack(f"Differencing {len(secret)} people", "how often a person's secret is guessed", tuple(results), way)


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
    most = max(share, 1 - share)
    rng = Rng.seeded(seed)
    results = [Attacked("one exact count", None, 1.0, most, 1.0)]
    for claim in claims_from(epsilon):
        answered = _ask_until_refused(secret, claim, asks, seed=seed)
        for words, times in (
            ("one noisy count", 1),
            (f"the same count until the ledger refuses, {answered} answers", answered),
            (f"the same count {repeats:,} times, without a ledger", repeats),
        ):
            lost = claim / asks * times
            noise = Laplace(Fraction(1), claim / asks).release([0] * (len(secret) * times), rng)
            apart = np.array(noise, dtype=np.float64).reshape(len(secret), times) + secret[:, None]
            weight = float(claim / asks) * (np.abs(apart) - np.abs(apart - 1)).sum(axis=1)
            right = float(((weight + odds > 0) == secret).mean())
            results.append(Attacked(words, float(lost), right, most, guess_bound(most, float(lost))))
    way = "The attacker knows everybody else's secret; the mean of many noisy answers is nearly exact."
    return Attack(f"Averaging, on {len(secret)} people", "how often a person's secret is guessed", tuple(results), way)


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
