"""An attack on the local model: guess each person's answer from the reports of one device. It knows reports and shares alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.noise.rng import Rng
from sordino.lab.audit.attack import Attack, Attacked, guess_bound
from sordino.local.labels import Label
from sordino.local.protocols.memoization import Memoized
from sordino.local.protocols.randomizer import Randomizer
from sordino.local.protocols.response import GRR
from sordino.local.reports import Reports


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
    known = [protocol.count(replace(reports, rows=each[i : i + 1])).supports for i in range(len(each))]
    supports = np.array(known, dtype=np.float64)[places.ravel()].reshape(len(answers), repeats, -1)
    p, q = float(protocol.p), float(protocol.q)
    prior = np.array([math.log(shares.get(label, 1e-300)) for label in protocol.labels])
    most = max(shares.values())
    truth = np.array([protocol.labels.index(a) for a in answers])
    found = [Attacked("the answers themselves", None, 1.0, most, 1.0)]
    for count in (1, repeats):
        scores = prior + math.log(p * (1 - q) / (q * (1 - p))) * supports[:, :count].sum(axis=1)
        epsilon = count * protocol.epsilon
        words = "one report" if count == 1 else f"{count} fresh reports"
        right = float((scores.argmax(axis=1) == truth).mean())
        found.append(Attacked(words, epsilon, right, most, guess_bound(most, epsilon)))
    if permanent is not None:
        found.append(_infer_permanent(permanent, truth, prior, repeats, rng))
    way = "Fresh noise averages out; noise that is drawn once and kept does not."
    name = f"Guessing {len(answers)} answers from reports"
    return Attack(name, "how often a person's answer is guessed", tuple(found), way)


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
    first, second = memo.permanent, memo.instant
    if not isinstance(first, GRR):
        raise DeclarationError("the attack on permanent answers knows GRR: memoize(GRR(labels, epsilon=2), epsilon=1)")
    kept = first.perturb([first.labels[i] for i in truth.tolist()], rng).rows
    votes = np.zeros((len(truth), len(first.labels)))
    for _ in range(repeats):
        rows = memo.reports(kept, rng)
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
