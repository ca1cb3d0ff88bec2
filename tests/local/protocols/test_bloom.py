"""RAPPOR with a Bloom filter: both epsilons by enumeration, unbiased shares with the stated variance, intervals that cover."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from local.battery import population
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError
from sordino.local import Bloom, Rappor, Reports, exact_epsilon
from sordino.local.thresholds import FULL


def small(k: int = 20, **how: Any) -> Bloom:
    sizes: dict[str, Any] = {"bits": 16, "hashes": 2, "cohorts": 8} | how
    return Bloom(range(k), f="0.25", p="0.25", q="0.75", **sizes)


@pytest.mark.parametrize("hashes", [1, 2, 3])
def test_erlingsson_2014_both_epsilons(hashes: int) -> None:
    """Theorems 1 and 2 in the letters of the paper; one report in those of the reference."""
    made = small(hashes=hashes)
    f, p, q = 0.25, 0.25, 0.75
    s, r = f / 2 * (p + q) + (1 - f) * q, f / 2 * (p + q) + (1 - f) * p
    assert made.lifetime_epsilon == pytest.approx(2 * hashes * math.log((1 - f / 2) / (f / 2)))
    assert made.epsilon == pytest.approx(hashes * math.log(s * (1 - r) / (r * (1 - s))))
    assert exact_epsilon(made) <= made.epsilon
    assert exact_epsilon(made) > 0.999999 * made.epsilon
    if hashes == 1:
        assert made.epsilon == pytest.approx(Rappor(range(20), f=f, p=p, q=q).epsilon)


@pytest.mark.deep
def test_no_two_labels_of_any_cohort_pass_the_claims() -> None:
    """Every report of 5 bits, every pair of 4 labels and none, every cohort, in exact fractions; first and second round."""
    made = small(4, bits=5, hashes=2, cohorts=3)
    keep, other = made.bit.permanent.p, made.bit.permanent.q
    one, zero = Fraction(made.bit.one, FULL), Fraction(made.bit.zero, FULL)
    worst, ever = Fraction(1), Fraction(1)
    for cohort in made.filters():
        laws = [[bool(b) for b in row] for row in cohort] + [[False] * 5]
        for here, there in itertools.permutations(laws, 2):
            for bits in itertools.product((0, 1), repeat=5):
                ratios = [Fraction(1), Fraction(1)]
                for a, b, bit in zip(here, there, bits, strict=True):
                    first = [keep if x else other for x in (a, b)]
                    last = [c * one + (1 - c) * zero for c in first]
                    for i, chances in enumerate((first, last)):
                        ratios[i] *= Fraction(*(c if bit else 1 - c for c in chances))
                ever, worst = max(ever, ratios[0]), max(worst, ratios[1])
    assert math.log(worst) <= made.epsilon
    assert math.log(ever) <= made.lifetime_epsilon
    assert math.log(worst) > 0.999 * made.epsilon  # some two labels share no bit


@pytest.mark.deep
def test_shares_are_unbiased_with_the_stated_variance_and_covered() -> None:
    """80 runs of 20 labels: each mean within 5.5 deviations; squared error over variance .85 to 1.15; 94% or more covered.

    1,600 ratios would have a deviation of .035 if labels were independent: both limits are 4 of them away. Seeds
    are fixed.
    """
    made, rng, n, runs = small(), Rng.seeded(1), 1000, 80
    answers = population(20, n)
    truth = np.bincount(answers, minlength=20) / n
    scores, held = [], []
    for _ in range(runs):
        found = made.estimate(made.count(made.perturb(answers, rng)))
        scores.append((found.frequencies - truth) / found.deviations)
        ends = found.interval(0.95).to_pydict()
        held.append(np.mean((np.array(ends["lower"]) <= truth) & (truth <= np.array(ends["upper"]))))
    assert (np.abs(np.mean(scores, axis=0)) < 5.5 / math.sqrt(runs)).all()
    assert 0.85 < np.mean(np.square(scores)) < 1.15  # the largest share varies less among the respondents themselves
    assert np.mean(held) >= 0.94


def test_reports_travel_and_wrong_ones_are_refused() -> None:
    made = small(bits=13)
    reports = made.perturb([3, None, 19], Rng.seeded(2))
    assert made.width == 4
    assert Reports.from_bytes(reports.to_bytes(), made) == reports
    assert Bloom.from_parameters(made.parameters(), made.labels) == made
    assert made.count(reports) + made.count(reports) == made.count(reports + reports)
    with pytest.raises(DeclarationError, match="cohort"):
        Reports.from_rows(b"\x08\0\0\0", made)
    with pytest.raises(DeclarationError, match="beyond the last"):
        Reports.from_rows(b"\0\0\0\x80", made)
    with pytest.raises(DeclarationError, match="another task"):
        small(bits=14).count(reports)
    with pytest.raises(DeclarationError, match="distinguish 20 labels yet"):
        made.estimate(made.count(made.perturb([3], Rng.seeded(2))))


def test_a_permanent_answer_stays_and_its_reports_differ() -> None:
    """A year of reports of one permanent answer: their average tends to it, and the cohort never changes."""
    made, rng = small(), Rng.seeded(3)
    kept = made.permanent([7], rng)
    rows = np.vstack([made.report(kept, rng).rows for _ in range(365)])
    assert (rows[:, :2] == kept[:, :2]).all()
    ones = np.unpackbits(rows[:, 2:], axis=1, bitorder="little").mean(axis=0)
    assert ((ones > 0.5) == np.unpackbits(kept[:, 2:], axis=1, bitorder="little")[0]).all()  # 10 deviations apart
    assert len(np.unique(rows, axis=0)) > 300


def test_malicious_move_a_share_by_the_stated_shift() -> None:
    """A tenth of all, spread over the cohorts, set the bits that add the most to label 0: shift within 5 deviations."""
    made, rng, n = small(), Rng.seeded(4), 40_000
    honest = made.perturb(np.full(n - n // 10, 5, dtype=np.int32), rng)
    plain = made.estimate(made.count(honest))
    gain = np.linalg.pinv(made.filters().astype(float).transpose(0, 2, 1).reshape(128, 20))[0].reshape(8, 16)
    lies = np.hstack(
        [
            np.repeat(np.arange(8, dtype="<u2"), n // 80).view(np.uint8).reshape(-1, 2),
            np.repeat(np.packbits(gain > 0, axis=1, bitorder="little"), n // 80, axis=0),
        ]
    )
    found = made.estimate(made.count(honest + Reports.from_rows(lies.tobytes(), made)))
    added = float(found.frequencies[0] - 0.9 * plain.frequencies[0])
    assert added == pytest.approx(0.1 * found.shifts[0][0], abs=5 * float(found.deviations[0]))
    table = found.interval(0.95, malicious=0.1).to_pydict()
    assert table["adversarial_lower"][0] <= table["lower"][0] - 0.9 * added or table["adversarial_lower"][0] == 0
    assert found.shift(0.1)[0] >= added - 5 * float(found.deviations[0])
    assert "1% malicious clients can add" in repr(found)
    assert found.table.column_names == ["label", "count", "frequency", "error", "lower", "upper"]
    assert sum(found.projected().column("frequency").to_pylist()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"bits": 1}, "bits must be"),
        ({"hashes": 0}, "hashes must be"),
        ({"hashes": 9}, "twice the hashes"),
        ({"cohorts": 1}, "to be distinguished"),
        ({"cohorts": 2000}, "cohorts must be"),
        ({"bits": 4096, "cohorts": 1024}, "2\\^24"),
    ],
)
def test_sizes_that_cannot_be(how: dict[str, int], says: str) -> None:
    with pytest.raises(DeclarationError, match=says):
        small(**how)
