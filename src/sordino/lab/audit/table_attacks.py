"""Attacks that anybody can run on a release: whose rows were in it, what is missing of a row, and all rows from many counts.

Each runs on several releases of the same rows, private and not, and says what theory allows beside what it achieved. An
attack needs the true rows to know where it was right: what it says is NOT PRIVATE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core.accounting.hypotheses import advantage_bound, power_bound
from sordino.core.arguments import chance
from sordino.core.errors import DeclarationError
from sordino.core.loss import Number
from sordino.core.mechanisms.additive_noise import Laplace
from sordino.core.noise.rng import Rng
from sordino.lab.audit.attack import Attack, Attacked, Epsilons, claims_from, guess_bound
from sordino.lab.audit.row_distances import Released, common_columns, read_claim, row_distances

if TYPE_CHECKING:
    import pyarrow as pa

Floats = np.ndarray[Any, np.dtype[np.float64]]
_MOST_PEOPLE = 400


def infer_membership(releases: Mapping[str, Released], members: pa.Table, outsiders: pa.Table) -> Attack:
    """Say who was in the table from how near the closest published row lies: members against others of the same kind.

    Achieved is the advantage, the rate of members found less that of others accused, on the second half of both; the
    distance that accuses is chosen on the first half. Guessing has advantage 0. Theory: no test of one row has more than
    (e^epsilon - 1 + 2 delta) / (e^epsilon + 1), and at a rate a of others accused none finds more members than
    min(e^epsilon a + delta, 1 - e^-epsilon (1 - delta - a)) (`risk.hypotheses`), in expectation. The loss is read under
    replace, as one row leaves the table and another comes; a loss under add_remove counts twice.

    Raises DeclarationError for tables without common columns, or fewer than 4 rows on a side.
    """
    people = [members, outsiders]
    if min(len(t) for t in people) < 4:
        raise DeclarationError("membership inference needs 4 members and 4 others at the least")
    found = []
    for name, (rows, loss) in releases.items():
        epsilon, delta = read_claim(loss)
        columns = common_columns(rows, members, outsiders)
        near = [d.min(axis=1) for d in row_distances(rows, people, columns)]
        halves = [len(d) // 2 for d in near]
        cuts = np.unique(np.concatenate([d[:h] for d, h in zip(near, halves, strict=True)]))
        rates = [[float((d[:h] <= c).mean()) for d, h in zip(near, halves, strict=True)] for c in cuts]
        cut = cuts[int(np.argmax([inside - outside for inside, outside in rates]))]
        inside, outside = (float((d[h:] <= cut).mean()) for d, h in zip(near, halves, strict=True))
        allowed = 1.0 if epsilon is None else advantage_bound(epsilon, delta=delta)
        found.append(
            Attacked(name, epsilon, inside - outside, 0.0, allowed, inside, outside, _power(epsilon, outside, delta))
        )
    way = "Whoever lies near a published row is accused, at a distance chosen on other people."
    return Attack("Membership inference", "members found less others accused", tuple(found), way)


def infer_attribute(releases: Mapping[str, Released], members: pa.Table, outsiders: pa.Table, *, secret: str) -> Attack:
    """Guess the column `secret` of each member from the published row that is closest in all others.

    Achieved is how often that is right for members; guessing is how often the same attack is right for others of the same
    kind, who are not in the table: what is true of everybody is no leak. Theory: with the shares q of others, members are
    right with at most e^epsilon q + delta, and 1 - e^-epsilon (1 - q - delta), in expectation; the loss
    is read under replace, as in `infer_membership`.
    """
    found = []
    for name, (rows, loss) in releases.items():
        epsilon, delta = read_claim(loss)
        columns = [c for c in common_columns(rows, members, outsiders) if c != secret]
        if secret not in rows.column_names or not columns:
            raise DeclarationError(f"a release needs the column {secret!r} and another one to guess it by")
        published = np.array(rows.column(secret).to_pylist(), dtype=object)
        rights = []
        for table, apart in zip((members, outsiders), row_distances(rows, (members, outsiders), columns), strict=True):
            guess = published[apart.argmin(axis=1)].tolist()
            rights.append(
                float(np.mean([a == b for a, b in zip(guess, table.column(secret).to_pylist(), strict=True)]))
            )
        inside, outside = rights
        found.append(Attacked(name, epsilon, inside, outside, _power(epsilon, outside, delta)))
    way = "All but one column of a person is known; the last is read off the published row that is closest."
    return Attack(f"Attribute inference of {secret}", "how often a member's value is guessed", tuple(found), way)


def reconstruct_from_counts(
    bits: Sequence[int], *, epsilon: Epsilons, queries: int | None = None, prior: Number = 0.5, seed: int = 1
) -> Attack:
    """Publish counts of random groups of people with a secret bit, exactly, rounded to fives and with noise; solve for the bits.

    Each group holds every person by a fair coin, and who is in it is public; `queries` groups (4 a person where None). With
    noise all counts together are epsilon-private: discrete Laplace of scale queries / epsilon; several epsilons are as many
    releases. Achieved is the share of bits that a linear program finds. Theory: as a bit that the attacker expects to be 1
    with probability `prior`, s of its commoner value, is guessed right with at most s / (s + (1 - s) e^-epsilon), so is
    their share, in expectation; e^epsilon / (1 + e^epsilon) for fair coins. (Dinur, Nissim 2003, "Revealing information
    while preserving privacy"; Dwork, McSherry, Talwar 2007 for the linear program.)

    >>> reconstruct_from_counts([1, 0, 0, 1, 1, 0, 1, 0], epsilon=1).results[0].achieved
    1.0
    """
    people = len(bits)
    if not 2 <= people <= _MOST_PEOPLE or any(b not in (0, 1) for b in bits):
        raise DeclarationError(f"bits are 0 or 1, of 2 to {_MOST_PEOPLE} people")
    rng, count = Rng.seeded(seed), 4 * people if queries is None else queries
    groups = (rng.words((count, people)) & np.uint64(1)).astype(np.float64)
    truth = np.asarray(bits, dtype=np.int64)
    exact = [int(x) for x in groups @ truth.astype(np.float64)]
    share = chance(prior, name="prior")
    base, most = max(sum(bits), people - sum(bits)) / people, max(share, 1 - share)
    answers: list[tuple[str, Sequence[int], float | None, float]] = [
        ("exact counts", exact, None, 1.0),
        ("counts rounded to fives", [5 * round(x / 5) for x in exact], None, 1.0),
    ]
    for claim in claims_from(epsilon):
        noisy = Laplace(Fraction(count), claim).release(exact, rng)
        answers.append(("counts with noise", noisy, float(claim), guess_bound(most, float(claim))))
    found = tuple(
        Attacked(name, claimed, float(np.mean(reconstruct(groups, given) == truth)), base, allowed)
        for name, given, claimed, allowed in answers
    )
    way = "No count is of one person; all of them together are a system of equations."
    return Attack(
        f"Reconstruction of {people} people from {count} counts", "the share of secret bits found", found, way
    )


def reconstruct(groups: Floats, answers: Sequence[float]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the bits whose counts over the groups (a row each, 1 for who is in it) lie nearest to the answers.

    The linear program min sum |groups x - answers| over 0 <= x <= 1, rounded.
    """
    from scipy.optimize import linprog

    count, people = groups.shape
    given = np.asarray(answers, dtype=np.float64)
    slack = -np.eye(count)
    sides = np.block([[groups, slack], [-groups, slack]])
    cost = np.concatenate([np.zeros(people), np.ones(count)])
    bounds = [(0.0, 1.0)] * people + [(0.0, None)] * count
    solved = linprog(cost, A_ub=sides, b_ub=np.concatenate([given, -given]), bounds=bounds, method="highs")
    if solved.x is None:
        raise DeclarationError("the linear program has no solution: answers must be finite numbers")
    return np.asarray(solved.x[:people] >= 0.5, dtype=np.int64)


def _power(epsilon: float | None, level: float, delta: float) -> float:
    """Return the largest rate at which members are found where others are accused at `level`, 0 and 1 included."""
    if epsilon is None:
        return 1.0
    if 0 < level < 1:
        return power_bound(epsilon, level=level, delta=delta)
    return max(level, delta)
