"""Attacks that anybody can run on a release: whose rows were in it, what is missing of a row, and all rows from many counts.

Each runs on several releases of the same rows, private and not, and says what theory allows beside what it achieved. An
attack needs the true rows to know where it was right: what it says is NOT PRIVATE.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.errors import DeclarationError
from sordino.loss import ApproxDP, Loss, Number, PureDP, to_fraction
from sordino.mechanisms.additive_noise import Laplace
from sordino.noise.rng import Rng
from sordino.risk.hypotheses import advantage_bound

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Attack", "Attacked", "infer_attribute", "infer_membership", "reconstruct", "reconstruct_from_counts"]

Floats = np.ndarray[Any, np.dtype[np.float64]]
Released = tuple["pa.Table", "Loss | None"]  # rows that were published, and the loss they claim; None: not private
_MOST_PEOPLE = 400
_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Attacked:
    """Hold what an attack achieved on one release, what guessing does, and the most that its epsilon allows."""

    release: str
    epsilon: float | None
    achieved: float
    guessing: float
    allowed: float


@dataclass(frozen=True, slots=True, repr=False)
class Attack:
    """Hold an attack on several releases of the same rows; `measure` says what its numbers are."""

    name: str
    measure: str
    results: tuple[Attacked, ...]

    def describe(self) -> str:
        """Return what was achieved, a line a release."""
        lines = [f"{self.name}, NOT PRIVATE (true rows say where it was right): {self.measure}"]
        for r in self.results:
            claim = "not private" if r.epsilon is None else f"epsilon {r.epsilon:g}"
            figures = f"achieved {r.achieved:.3f}; guessing {r.guessing:.3f}; theory allows {r.allowed:.3f}"
            lines.append(f"  {r.release} ({claim}): {figures}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.describe())}</pre>"


def infer_membership(releases: Mapping[str, Released], members: pa.Table, outsiders: pa.Table) -> Attack:
    """Say who was in the table from how near the closest published row lies: members against others of the same kind.

    Achieved is the advantage, the rate of members found less that of others accused, on the second half of both; the
    distance that accuses is chosen on the first half. Guessing has advantage 0. Theory: no test of one row has more than
    (e^epsilon - 1 + 2 delta) / (e^epsilon + 1) (`risk.hypotheses`), in expectation. The loss stated is read under
    replace, as one row leaves the table and another comes; a loss under add_remove counts twice.

    Raises DeclarationError for tables without common columns, or fewer than 4 rows on a side.
    """
    people = [members, outsiders]
    if min(len(t) for t in people) < 4:
        raise DeclarationError("membership inference needs 4 members and 4 others at the least")
    found = []
    for name, (rows, loss) in releases.items():
        epsilon, delta = _claim(loss)
        columns = _common(rows, members, outsiders)
        near = [_distances(rows, table, columns).min(axis=1) for table in people]
        halves = [len(d) // 2 for d in near]
        cuts = np.unique(np.concatenate([d[:h] for d, h in zip(near, halves, strict=True)]))
        rates = [[float((d[:h] <= c).mean()) for d, h in zip(near, halves, strict=True)] for c in cuts]
        cut = cuts[int(np.argmax([inside - outside for inside, outside in rates]))]
        inside, outside = (float((d[h:] <= cut).mean()) for d, h in zip(near, halves, strict=True))
        allowed = 1.0 if epsilon is None else advantage_bound(epsilon, delta=delta)
        found.append(Attacked(name, epsilon, inside - outside, 0.0, allowed))
    return Attack("Membership inference", "members found less others accused", tuple(found))


def infer_attribute(releases: Mapping[str, Released], members: pa.Table, outsiders: pa.Table, *, secret: str) -> Attack:
    """Guess the column `secret` of each member from the published row that is closest in all others.

    Achieved is how often that is right for members; guessing is how often the same attack is right for others of the same
    kind, who are not in the table: what is true of everybody is no leak. Theory: with the shares q of others, members are
    right with at most e^epsilon q + delta, and 1 - e^-epsilon (1 - q - delta), in expectation; the loss
    is read under replace, as in `infer_membership`.
    """
    found = []
    for name, (rows, loss) in releases.items():
        epsilon, delta = _claim(loss)
        columns = [c for c in _common(rows, members, outsiders) if c != secret]
        if secret not in rows.column_names or not columns:
            raise DeclarationError(f"a release needs the column {secret!r} and another one to guess it by")
        published = np.array(rows.column(secret).to_pylist(), dtype=object)
        rights = []
        for table in (members, outsiders):
            guess = published[_distances(rows, table, columns).argmin(axis=1)]
            rights.append(
                float(np.mean([a == b for a, b in zip(guess, table.column(secret).to_pylist(), strict=True)]))
            )
        inside, outside = rights
        factor = math.inf if epsilon is None else math.exp(epsilon)
        allowed = 1.0
        if epsilon is not None:
            allowed = min(1.0, factor * outside + delta, 1 - (1 - outside - delta) / factor)
        found.append(Attacked(name, epsilon, inside, outside, allowed))
    return Attack(f"Attribute inference of {secret}", "how often a member's value is guessed", tuple(found))


def reconstruct_from_counts(
    bits: Sequence[int], *, epsilon: Number, queries: int | None = None, seed: int = 1
) -> Attack:
    """Publish counts of random groups of people with a secret bit, exactly, rounded to fives and with noise; solve for the bits.

    Each group holds every person by a fair coin, and who is in it is public; `queries` groups (4 a person where None). With
    noise all counts together are epsilon-private: discrete Laplace of scale queries / epsilon. Achieved is the share of
    bits that a linear program finds. Theory: as a bit that is a fair coin is guessed right with at most
    e^epsilon / (1 + e^epsilon), so is their share, in expectation. (Dinur, Nissim 2003, "Revealing information while
    preserving privacy"; Dwork, McSherry, Talwar 2007 for the linear program.)

    >>> reconstruct_from_counts([1, 0, 0, 1, 1, 0, 1, 0], epsilon=1).results[0].achieved
    1.0
    """
    people = len(bits)
    if not 2 <= people <= _MOST_PEOPLE or any(b not in (0, 1) for b in bits):
        raise DeclarationError(f"bits are 0 or 1, of 2 to {_MOST_PEOPLE} people")
    rng, count = Rng.seeded(seed), 4 * people if queries is None else queries
    groups = (rng.words((count, people)) & np.uint64(1)).astype(np.float64)
    exact = [int(x) for x in groups @ np.asarray(bits, dtype=np.float64)]
    claim = to_fraction(epsilon, name="epsilon")
    noisy = Laplace(Fraction(count), claim).release(exact, rng)
    allowed = 1 / (1 + math.exp(-float(claim)))
    answers: dict[str, tuple[Sequence[int], float | None, float]] = {
        "exact counts": (exact, None, 1.0),
        "counts rounded to fives": ([5 * round(x / 5) for x in exact], None, 1.0),
        "counts with noise": (noisy, float(claim), allowed),
    }
    base = max(sum(bits), people - sum(bits)) / people
    found = tuple(
        Attacked(name, claimed, float(np.mean(reconstruct(groups, given) == np.asarray(bits))), base, most)
        for name, (given, claimed, most) in answers.items()
    )
    return Attack(f"Reconstruction of {people} people from {count} counts", "the share of secret bits found", found)


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


def _distances(rows: pa.Table, people: pa.Table, columns: Sequence[str]) -> Floats:
    """Return the distance of each person from each published row: a column counts 1 where it differs, numbers by how much."""
    found = np.zeros((len(people), len(rows)))
    for name in columns:
        ours, theirs = people.column(name).to_pylist(), rows.column(name).to_pylist()
        if all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in (*ours, *theirs)):
            a, b = np.array(ours, dtype=np.float64), np.array(theirs, dtype=np.float64)
            span = max(float(np.ptp(np.concatenate([a, b]))), 1e-300)
        else:
            codes: dict[Any, int] = {}
            a, b = (
                np.array([codes.setdefault(x, len(codes)) for x in side], dtype=np.float64) for side in (ours, theirs)
            )
            span = 0.0
        for start in range(0, len(a), _BLOCK):
            apart = np.abs(a[start : start + _BLOCK, None] - b[None, :])
            found[start : start + _BLOCK] += apart / span if span else apart > 0
    return found


def _common(*tables: pa.Table) -> list[str]:
    """Return the columns that all tables have."""
    shared = [name for name in tables[0].column_names if all(name in t.column_names for t in tables)]
    if not shared or not all(len(t) for t in tables):
        raise DeclarationError("the release, the members and the others need rows, and columns of the same names")
    return shared


def _claim(loss: Loss | None) -> tuple[float | None, float]:
    """Return the epsilon and delta that a release claims, None for one that is not private."""
    if loss is None:
        return None, 0.0
    if not isinstance(loss, (PureDP, ApproxDP)):
        raise DeclarationError("state a release's loss as sd.PureDP(epsilon), sd.ApproxDP(epsilon, delta), or None")
    amounts = loss.amounts()
    return float(amounts["epsilon"]), float(amounts.get("delta", 0))
