"""Attacks on releases: they succeed where nothing is private, and stay within what theory allows where it is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError
from sordino.lab.audit.answer_attack import infer_answers
from sordino.lab.audit.table_attacks import infer_attribute, infer_membership, reconstruct, reconstruct_from_counts


def people(rows: int, seed: int) -> pa.Table:
    """Return made-up people: two columns that say something of one another, and one that says nothing."""
    rng = Rng.seeded(seed)
    age = (rng.words(rows) % np.uint64(80)).astype(int)
    towns = [f"town {n}" for n in (rng.words(rows) % np.uint64(40)).tolist()]
    secret = [("yes" if n else "no") for n in (rng.words(rows) % np.uint64(2)).tolist()]
    return pa.table({"age": age, "town": towns, "secret": secret})


MEMBERS, OTHERS = people(200, 1), people(200, 2)
RELEASES: dict[str, tuple[pa.Table, sd.PureDP | sd.ApproxDP | None]] = {
    "copy": (MEMBERS, None),
    "unrelated": (people(200, 3), sd.PureDP(1)),
}


@pytest.mark.attack(
    "infer who is in a synthetic table",
    source="Shokri, Stronati, Song, Shmatikov 2017; Stadler, Oprisanu, Troncoso 2022",
)
def test_members_of_a_copy_are_found_and_of_an_unrelated_table_are_not() -> None:
    """400 people: an advantage of .2 by chance has 4 standard errors of 100 a side, less than once in 10,000."""
    copy, unrelated = infer_membership(RELEASES, MEMBERS, OTHERS).results
    assert copy.achieved > 0.8
    assert copy.epsilon is None
    assert abs(unrelated.achieved) < 0.28
    assert unrelated.allowed == pytest.approx(np.tanh(0.5))


def test_what_may_be_found_at_the_ends_of_the_false_alarms() -> None:
    """A copy that claims epsilon 1 and delta .1 accuses nobody else, and may find a tenth of its members at that."""
    members, others = (pa.table({"age": list(range(start, start + 40))}) for start in (0, 1000))
    told = infer_membership({"copy": (members, sd.ApproxDP(1, "0.1"))}, members, others).results[0]
    assert (told.found, told.accused, told.most_found) == (1, 0, 0.1)


def test_a_secret_is_read_off_a_copy_alone() -> None:
    copy, unrelated = infer_attribute(RELEASES, MEMBERS, OTHERS, secret="secret").results
    assert copy.achieved > 0.95
    assert 0.3 < copy.guessing < 0.7
    assert 0.3 < unrelated.achieved < 0.7
    q = unrelated.guessing
    assert unrelated.allowed == pytest.approx(min(np.e * q, 1 - (1 - q) / np.e))


@pytest.mark.deep
@pytest.mark.attack(
    "reconstruct secrets from many counts", source="Dinur, Nissim 2003, Revealing information while preserving privacy"
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_exact_counts_reveal_all_and_noisy_ones_no_more_than_allowed(seed: int) -> None:
    """The share of 40 coins allowed is .73 on average; .95 is beyond it once in 1,000, and what is found is near a half."""
    rng = Rng.seeded(seed)
    exact, rounded, noisy = reconstruct_from_counts([rng.bits(1) for _ in range(40)], epsilon=1, seed=seed).results
    assert exact.achieved == 1
    assert rounded.achieved > 0.8
    assert noisy.achieved < 0.95
    assert noisy.allowed == pytest.approx(1 / (1 + np.exp(-1)))


def test_a_prior_that_is_not_a_coin_allows_more_and_several_losses_are_several_releases() -> None:
    found = reconstruct_from_counts([0] * 9 + [1], epsilon=["1", 2], prior="0.1").results
    assert [r.epsilon for r in found] == [None, None, 1, 2]
    assert found[2].allowed == pytest.approx(0.9 / (0.9 + 0.1 * np.exp(-1)))


def test_little_noise_at_a_large_epsilon_hides_nothing() -> None:
    assert reconstruct_from_counts([1, 0, 0, 1, 1, 1, 0, 1] * 3, epsilon=10_000).results[2].achieved == 1


def test_the_linear_program_finds_what_brute_force_finds() -> None:
    groups = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]], dtype=float)
    for bits in np.ndindex(2, 2, 2):
        assert reconstruct(groups, groups @ np.array(bits)).tolist() == list(bits)


def test_an_attack_says_that_it_is_not_private_and_refuses_what_it_cannot_do() -> None:
    attack = infer_membership({"<copy>": (MEMBERS, None)}, MEMBERS, OTHERS)
    assert "NOT PRIVATE" in repr(attack)
    assert "&lt;copy&gt;" in attack._repr_html_()
    with pytest.raises(DeclarationError, match="4 members"):
        infer_membership(RELEASES, MEMBERS.slice(0, 2), OTHERS)
    with pytest.raises(DeclarationError, match="columns of the same names"):
        infer_membership(RELEASES, MEMBERS, pa.table({"x": [1, 2, 3, 4]}))
    with pytest.raises(DeclarationError, match="another one to guess"):
        infer_attribute(RELEASES, MEMBERS, OTHERS, secret="income")
    with pytest.raises(DeclarationError, match=r"ApproxDP"):
        infer_membership({"rho": (MEMBERS, sd.ZCDP(1))}, MEMBERS, OTHERS)
    with pytest.raises(DeclarationError, match="0 or 1"):
        reconstruct_from_counts([0, 2], epsilon=1)


@pytest.mark.attack(
    "average many reports of one person", source="Tang et al. 2017, Privacy loss in Apple's implementation"
)
@pytest.mark.parametrize("kind", ["GRR", "OUE", "SubsetSelection"])
def test_answers_are_guessed_no_better_than_allowed_from_one_report_and_found_from_many(kind: str) -> None:
    """240 people: 4.5 standard errors of a share are .15, so one report passes its bound by more once in 100,000."""
    answers = ["a"] * 120 + ["b"] * 60 + ["c"] * 60
    attack = infer_answers(getattr(sd.local, kind)(["a", "b", "c"], epsilon=1), answers, repeats=30)
    itself, one, many = attack.results
    assert (itself.achieved, itself.guessing) == (1, 0.5)
    assert one.allowed == pytest.approx(0.5 / (0.5 + 0.5 * np.exp(-1)))
    assert 0.5 < one.achieved < one.allowed + 0.15
    assert many.achieved > 0.9
    assert many.epsilon == pytest.approx(30)


def test_the_bound_on_a_guess_is_attained_by_randomized_response() -> None:
    """With two equally likely answers the likeliest guess is right with e / (1 + e), as the bound says."""
    one = infer_answers(sd.local.GRR([0, 1], epsilon=1), [0, 1] * 1000, repeats=2).results[1]
    assert one.achieved == pytest.approx(one.allowed, abs=0.045)
