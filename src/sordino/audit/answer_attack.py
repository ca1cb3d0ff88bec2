"""An attack on the local model: guess each person's answer from the reports of one device. It knows reports and shares alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sordino.audit.table_attacks import Attack, Attacked
from sordino.errors import DeclarationError
from sordino.local.labels import Label
from sordino.local.protocols.randomizer import Randomizer
from sordino.noise.rng import Rng

__all__ = ["infer_answers"]


def infer_answers(protocol: Randomizer, answers: Sequence[Label], *, repeats: int = 20, seed: int = 1) -> Attack:
    """Guess each answer from one report, and from `repeats` fresh ones, as devices without a ledger would send them.

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
    reports = protocol.perturb([a for a in answers for _ in range(repeats)], Rng.seeded(seed))
    each, places = np.unique(reports.rows, axis=0, return_inverse=True)
    known = [protocol.count(replace(reports, rows=each[i : i + 1])).supports for i in range(len(each))]
    supports = np.array(known, dtype=np.float64)[places.ravel()].reshape(people, repeats, -1)
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
        found.append(Attacked(words, epsilon, right, most, most / (most + (1 - most) * math.exp(-epsilon))))
    return Attack(f"Guessing {people} answers from reports", "how often a person's answer is guessed", tuple(found))
