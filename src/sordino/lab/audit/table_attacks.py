"""Attacks on synthetic tables: distances of rows, closest records, membership and attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core.accounting.belief import advantage_bound, power_bound
from sordino.core.arguments import chance
from sordino.core.errors import DeclarationError
from sordino.core.loss import ApproxDP, Loss, Number, PureDP
from sordino.core.mechanisms.additive_noise import Laplace
from sordino.core.noise.rng import Rng
from sordino.core.text_table import columns_of
from sordino.lab.audit.attack import Attack, Attacked, Epsilons, claims_from, guess_bound

if TYPE_CHECKING:
    import pyarrow as pa


# ---- How far rows lie from one another, over the columns that tables share, and what a publication of rows claims
# to lose

Floats = np.ndarray[Any, np.dtype[np.float64]]
# Rows that were published, and the loss they claim; None: not private.
Released = tuple["pa.Table", "Loss | None"]
_BLOCK = 256


def row_distances(rows: pa.Table, tables: Sequence[pa.Table], columns: Sequence[str]) -> list[Floats]:
    """Return for each table the distance of each of its people from each published row, on one scale.

    A column counts 1 where it differs, numbers by how much of the range of all; a number that is missing on one side
    counts 1, one that is missing on both 0.
    """
    sizes = [len(t) for t in tables]
    distances = np.zeros((sum(sizes), len(rows)))
    for name in columns:
        people = [cell for table in tables for cell in table.column(name).to_pylist()]
        a, b, span = _places(people, rows.column(name).to_pylist())
        for start in range(0, len(a), _BLOCK):
            apart = np.abs(a[start : start + _BLOCK, None] - b[None, :])
            if span:
                one = np.isnan(a)[start : start + _BLOCK, None] != np.isnan(b)[None, :]
                distances[start : start + _BLOCK] += np.where(one, 1.0, np.nan_to_num(apart) / span)
            else:
                distances[start : start + _BLOCK] += apart > 0
    return np.split(distances, np.cumsum(sizes)[:-1])


def _places(ours: Sequence[Any], theirs: Sequence[Any]) -> tuple[Floats, Floats, float]:
    """Return cells as numbers and how far they reach; as codes, and 0, where they are no numbers."""
    stated = [x for x in (*ours, *theirs) if x is not None]
    if stated and all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in stated):
        a, b = (np.array([math.nan if x is None else x for x in side], dtype=np.float64) for side in (ours, theirs))
        return a, b, max(float(max(stated) - min(stated)), 1e-300)
    codes: dict[Any, int] = {}
    a, b = (np.array([codes.setdefault(x, len(codes)) for x in side], dtype=np.float64) for side in (ours, theirs))
    return a, b, 0.0


def common_columns(*tables: pa.Table) -> list[str]:
    """Return the columns that all tables have."""
    shared = [name for name in tables[0].column_names if all(name in t.column_names for t in tables)]
    if not shared or not all(len(t) for t in tables):
        raise DeclarationError("the release, the members and the others need rows, and columns of the same names")
    return shared


def read_claim(loss: Loss | None) -> tuple[float | None, float]:
    """Return the epsilon and delta that a release claims, None for one that is not private."""
    if loss is None:
        return None, 0.0
    if not isinstance(loss, (PureDP, ApproxDP)):
        raise DeclarationError("state a release's loss as sd.PureDP(epsilon), sd.ApproxDP(epsilon, delta), or None")
    amounts = loss.amounts()
    return float(amounts["epsilon"]), float(amounts.get("delta", 0))


# ---- How far published rows lie from the closest row they were made of, and from the closest one of others: NOT
# PRIVATE

_LEVELS = (0.05, 0.25, 0.5)
_HEAD = ("release", "loss", "copies", "of others", *(f"{q:.0%} within" for q in _LEVELS), "50%, of others")
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Closeness:
    """Hold, of one release, the distances of its rows from the closest member and the closest other, sorted."""

    release: str
    epsilon: float | None
    delta: float
    members: tuple[float, ...]
    others: tuple[float, ...]
    nearer: float

    def copies(self) -> tuple[float, float]:
        """Return the share of rows that are copies of a member, and of another one."""
        a, b = (float((np.array(side) <= _TIE).mean()) for side in (self.members, self.others))
        return a, b

    def quantiles(self) -> tuple[float, ...]:
        """Return how far the closest 5%, 25% and half of rows lie from a member at the most, and half from another one."""
        return (*(float(np.quantile(self.members, q)) for q in _LEVELS), float(np.median(self.others)))


@dataclass(frozen=True, slots=True, repr=False)
class ClosestRecords:
    """Hold the closest records of several releases of the same `members` rows, beside `others` rows that were in none."""

    results: tuple[Closeness, ...]
    members: int
    others: int

    @property
    def attack(self) -> Attack:
        """How many published rows are closer to a member than to any other one, beside what theory allows.

        Theorem: where people are parted into n members and m others by lot, what is (epsilon, delta)-private under replace
        publishes a row whose closest person (ties by lot) is a member with probability at most
        n (e^epsilon + m delta) / (n e^epsilon + m).
        Proof: let q be that probability. People are fixed, so who is closest is a function of what is published. Parting
        by lot, with x a member, and then putting somebody in its place by lot, parts by lot with x another one: a
        replacement, so P(x is closest | member) <= e^epsilon P(x is closest | other) + delta. Sum over all n + m people:
        q / n <= e^epsilon (1 - q) / m + delta. Randomized response that publishes a person, each member e^epsilon times
        as often as each other one, attains it at delta 0.
        """
        n = self.members
        m = self.others
        results = []
        for one in self.results:
            allowed = 1.0
            if one.epsilon is not None and one.epsilon < math.log(1e300):
                allowed = min(1.0, n * (math.exp(one.epsilon) + m * one.delta) / (n * math.exp(one.epsilon) + m))
            results.append(Attacked(one.release, one.epsilon, one.nearer, n / (n + m), allowed))
        words = "published rows that lie closer to a member than to anyone else"
        return Attack("Distance to the closest record", words, tuple(results))

    def table(self) -> tuple[tuple[str, ...], list[list[str]]]:
        """Return the distances as a table: its head, and a line a release."""
        rows = []
        for one in self.results:
            loss = "not private" if one.epsilon is None else f"epsilon {one.epsilon:g}"
            shares = (f"{x:.1%}" for x in one.copies())
            far = (f"{x:.3f}" for x in one.quantiles())
            rows.append([one.release, loss, *shares, *far])
        return _HEAD, rows

    def describe(self) -> str:
        """Return the distances in lines."""
        head, rows = self.table()
        words = (
            f"Distance of published rows from the closest of {self.members:,} members, and of {self.others:,} others"
        )
        return "\n".join(
            [f"{words}, NOT PRIVATE:", *(f"  {x}" for x in columns_of(head, rows, right=[False, False, *[True] * 6]))]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {**asdict(self), "attack": self.attack.to_dict(), "private": False}

    def __repr__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        return f"<p><b>NOT PRIVATE.</b></p>{self.html_table()}"

    def html_table(self) -> str:
        """Return the table in HTML, escaped."""
        head, rows = self.table()
        lines = "".join(f"<tr>{''.join(f'<td>{escape(c)}</td>' for c in row)}</tr>" for row in rows)
        return f"<table><tr>{''.join(f'<th>{escape(c)}</th>' for c in head)}</tr>{lines}</table>"


def closest_records(releases: Mapping[str, Released], members: pa.Table, outsiders: pa.Table) -> ClosestRecords:
    """Measure how far each published row lies from the closest member, and from the closest other one of the same kind.

    A column counts 1 where it differs, numbers by how much of their range. Rows that lie closer to members than to others
    were copied, or nearly: it is not enough that they lie far from members, since everybody of one kind may be alike. The
    bound of `ClosestRecords.attack` wants people parted by lot. It reads true rows and says what they are near: NOT PRIVATE.

    Raises DeclarationError for tables without rows or common columns.
    """
    if not releases:
        raise DeclarationError("closest_records needs a release: a name, its rows and its loss, or None")
    results = []
    for name, (rows, loss) in releases.items():
        epsilon, delta = read_claim(loss)
        columns = common_columns(rows, members, outsiders)
        inside, outside = row_distances(rows, (members, outsiders), columns)
        near, far = (tuple(np.sort(d.min(axis=0)).tolist()) for d in (inside, outside))
        results.append(Closeness(name, epsilon, delta, near, far, _share_nearer(inside, outside)))
    return ClosestRecords(tuple(results), len(members), len(outsiders))


def _share_nearer(inside: Any, outside: Any) -> float:
    """Return the share of rows whose closest person is a member; several who are as close share the row."""
    least = np.minimum(inside.min(axis=0), outside.min(axis=0)) + _TIE
    ours, theirs = ((d <= least).sum(axis=0) for d in (inside, outside))
    return float((ours / (ours + theirs)).mean())


# ---- Attacks that anybody can run on a release: whose rows were in it, what is missing of a row, and all rows from
# many counts
#
# Each runs on several releases of the same rows, private and not, and says what theory allows beside what it achieved. An
# attack needs the true rows to know where it was right: what it says is NOT PRIVATE.

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
    results = []
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
        results.append(
            Attacked(name, epsilon, inside - outside, 0.0, allowed, inside, outside, _power(epsilon, outside, delta))
        )
    way = "Whoever lies near a published row is accused, at a distance chosen on other people."
    return Attack("Membership inference", "members found less others accused", tuple(results), way)


def infer_attribute(releases: Mapping[str, Released], members: pa.Table, outsiders: pa.Table, *, secret: str) -> Attack:
    """Guess the column `secret` of each member from the published row that is closest in all others.

    Achieved is how often that is right for members; guessing is how often the same attack is right for others of the same
    kind, who are not in the table: what is true of everybody is no leak. Theory: with the shares q of others, members are
    right with at most e^epsilon q + delta, and 1 - e^-epsilon (1 - q - delta), in expectation; the loss
    is read under replace, as in `infer_membership`.
    """
    results = []
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
        results.append(Attacked(name, epsilon, inside, outside, _power(epsilon, outside, delta)))
    way = "All but one column of a person is known; the last is read off the published row that is closest."
    return Attack(f"Attribute inference of {secret}", "how often a member's value is guessed", tuple(results), way)


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
    rng = Rng.seeded(seed)
    count = 4 * people if queries is None else queries
    groups = (rng.words((count, people)) & np.uint64(1)).astype(np.float64)
    truth = np.asarray(bits, dtype=np.int64)
    exact = [int(x) for x in groups @ truth.astype(np.float64)]
    share = chance(prior, name="prior")
    base = max(sum(bits), people - sum(bits)) / people
    most = max(share, 1 - share)
    answers: list[tuple[str, Sequence[int], float | None, float]] = [
        ("exact counts", exact, None, 1.0),
        ("counts rounded to fives", [5 * round(x / 5) for x in exact], None, 1.0),
    ]
    for claim in claims_from(epsilon):
        noisy = Laplace(Fraction(count), claim).release(exact, rng)
        answers.append(("counts with noise", noisy, float(claim), guess_bound(most, float(claim))))
    results = tuple(
        Attacked(name, claimed, float(np.mean(reconstruct(groups, published) == truth)), base, allowed)
        for name, published, claimed, allowed in answers
    )
    way = "No count is of one person; all of them together are a system of equations."
    return Attack(
        f"Reconstruction of {people} people from {count} counts", "the share of secret bits found", results, way
    )


def reconstruct(groups: Floats, answers: Sequence[float]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the bits whose counts over the groups (a row each, 1 for who is in it) lie nearest to the answers.

    The linear program min sum |groups x - answers| over 0 <= x <= 1, rounded.
    """
    from scipy.optimize import linprog

    count, people = groups.shape
    counts = np.asarray(answers, dtype=np.float64)
    slack = -np.eye(count)
    sides = np.block([[groups, slack], [-groups, slack]])
    cost = np.concatenate([np.zeros(people), np.ones(count)])
    bounds = [(0.0, 1.0)] * people + [(0.0, None)] * count
    solved = linprog(cost, A_ub=sides, b_ub=np.concatenate([counts, -counts]), bounds=bounds, method="highs")
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
