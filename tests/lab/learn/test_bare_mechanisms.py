"""The bare mechanisms of `sordino.learn`: their laws, what they refuse, and the attack on their floats."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from mistyping import mistype
from sordino import learn
from sordino.core.errors import DeclarationError
from sordino.core.mechanisms.selection import Exponential
from sordino.lab.learn.bare_noise import laplace_of
from sordino.lab.learn.float_attack import is_reachable

SHAPES = [
    learn.laplace_noise(3, "1/2"),
    learn.laplace_noise(1, 1, discrete=True),
    learn.gaussian_noise(1, 1, 1e-5),
    learn.gaussian_noise(2, 1, 1e-5, discrete=True),
    learn.gaussian_noise_zcdp(1, "1/8"),
]


def test_reference_mechanisms_gaussian() -> None:
    for epsilon, delta, sigma in (
        (1, 1e-5, 3.730631634816728),
        (0.1, 1e-5, 30.74956613197011),
        (2, 1e-6, 2.230476271192241),
    ):
        assert learn.gaussian_noise(1, epsilon, delta).scale == pytest.approx(sigma, rel=1e-9)
    # the classical formula at epsilon 1, which it is proved below
    nearly = Fraction(10**9 - 1, 10**9)
    assert learn.gaussian_noise(1, nearly, 1e-5, classic=True).scale == pytest.approx(4.844805262605389, rel=1e-8)
    with pytest.raises(DeclarationError, match="below 1 alone"):
        learn.gaussian_noise(1, 1, 1e-5, classic=True)


def test_reference_mechanisms_exponential() -> None:
    scores = [14.976, 10.683, 4.443, 1.025, 0.993, 0.418, 0.023]
    chances = learn.exponential_probabilities(scores, 1, 1)
    assert chances[:3] == pytest.approx([0.8887589426578777, 0.10388931391755679, 0.004587457931663897], rel=1e-12)


@pytest.mark.each(2)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_draws_follow_the_law_that_is_stated(shape: Any) -> None:
    draws = shape.draw(sd.Rng.seeded(3), 20_000)
    # six standard errors of each
    assert abs(draws.mean()) < 6 * shape.deviation / math.sqrt(20_000)
    assert draws.std() == pytest.approx(shape.deviation, rel=0.07)
    inside = float((np.abs(draws) <= shape.within(0.9)).mean())
    assert 0.9 - 0.013 < inside < (0.96 if shape.is_whole else 0.913)
    if shape.is_whole:
        assert sum(shape.density(x) for x in range(-400, 401)) == pytest.approx(1)
    else:
        points = np.linspace(-30 * shape.scale, 30 * shape.scale, 60_001)
        assert np.trapezoid([shape.density(x) for x in points], points) == pytest.approx(1, abs=1e-4)


def test_a_number_is_returned_that_knows_its_noise() -> None:
    noisy = learn.laplace_mech(3650, sensitivity=1, epsilon=2, rng=sd.Rng.seeded(7))
    assert isinstance(noisy, float)
    assert noisy == learn.laplace_mech(3650, 1, 2, rng=sd.Rng.seeded(7))
    assert noisy != learn.laplace_mech(3650, 1, 2)
    assert noisy.noise.scale == 0.5
    assert type(noisy + 1) is float
    assert pickle.loads(pickle.dumps(noisy)).noise == noisy.noise
    assert learn.discrete_laplace_mech(7, 1, 1).is_integer()
    assert learn.discrete_gaussian_mech(7, 1, 1, 1e-5).is_integer()
    assert learn.gaussian_mech(1, 1, 1, 1e-5).noise.kind == "Gaussian"
    assert learn.gaussian_mech_zcdp(1, 1, 0.5).noise.scale == 1
    assert learn.laplace_mech_vec([1, 2, 3], 1, 1).shape == (3,)
    assert learn.gaussian_mech_vec(np.array([1.5, 2]), 1, 1, 1e-5).shape == (2,)


def test_selections_follow_their_probabilities() -> None:
    rng = sd.Rng.seeded(11)
    scores = [3, 1, 0]
    chances = learn.exponential_probabilities(scores, 1, 2)
    drawn = np.bincount([learn.exponential_mech(scores, 1, 2, rng=rng) for _ in range(4000)], minlength=3) / 4000
    assert np.abs(drawn - chances).max() < 6 * math.sqrt(0.25 / 4000)
    assert learn.exponential_probabilities(scores, 1, 1, monotone=True) == pytest.approx(chances)
    # the exact mechanism of the curator has the same rate
    assert float(Exponential(Fraction(1), Fraction(2)).rate) == 1.0
    # two candidates: P(a + L > b + L') has a closed form
    wins = sum(learn.report_noisy_max([1, 0], 1, 2, rng=rng) == 0 for _ in range(4000)) / 4000
    assert wins == pytest.approx(1 - math.exp(-1) * (2 + 1) / 4, abs=6 * math.sqrt(0.25 / 4000))


def test_randomized_response_tells_the_truth_as_often_as_it_says() -> None:
    rng = sd.Rng.seeded(5)
    for answer in (True, False):
        told = sum(learn.randomized_response(answer, "ln3", rng=rng) is answer for _ in range(1000)) / 1000
        assert told == pytest.approx(0.75, abs=5 * math.sqrt(0.1875 / 1000))


def test_sparse_vector_finds_what_is_far_above_and_stops() -> None:
    answers = [1, 2, 10**6, 3, 10**6, 10**6]
    assert learn.above_threshold(answers, 1000, 1, 1) == 2
    assert learn.above_threshold([1, 2], 10**6, 1, 1) is None
    assert learn.sparse_vector(answers, 1000, 2, 1, 1) == [2, 4]
    stream = iter(answers)
    learn.above_threshold(stream, 1000, 1, 1)
    assert next(stream) == 3


PEOPLE = pa.table({"age": [1, 2]})
WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "a table": (lambda: learn.laplace_mech(mistype(PEOPLE), 1, 1), "of a table, ask the question itself, as table.ask"),
    "a column": (
        lambda: learn.laplace_mech_vec(mistype(PEOPLE["age"]), 1, 1),
        "list of plain numbers, not ChunkedArray",
    ),
    "text": (lambda: learn.laplace_mech("3650", 1, 1), "value must be a plain number, not str"),
    "a truth value": (lambda: learn.laplace_mech(True, 1, 1), "plain number, not bool"),
    "nan": (lambda: learn.laplace_mech(math.nan, 1, 1), "must be finite"),
    "epsilon 0": (lambda: learn.laplace_mech(1, 1, 0), "epsilon must be above 0"),
    "delta 1": (lambda: learn.gaussian_mech(1, 1, 1, 1), r"delta must lie in \(0, 1\)"),
    "half a person": (lambda: learn.discrete_laplace_mech(1.5, 1, 1), "takes whole numbers"),
    "no candidates": (lambda: learn.exponential_mech([], 1, 1), "at least one number"),
    "a foreign generator": (
        lambda: learn.laplace_mech(1, 1, 1, rng=mistype(np.random.default_rng())),
        "rng must be sd.Rng",
    ),
    "an answer that is a number": (lambda: learn.randomized_response(mistype(1), 1), "True or False"),
    "no crossings": (lambda: learn.sparse_vector([1], 1, 0, 1, 1), "crossings must be a whole number"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_plain_number_is_refused(case: str) -> None:
    call, words = WRONG[case]
    with pytest.raises(DeclarationError, match=words):
        call()


def test_a_curator_and_a_release_are_refused_and_a_bare_number_buys_nothing() -> None:
    people = sd.protect(
        PEOPLE,
        domain=sd.Domain({"age": sd.Integer(0, 9)}),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10),
        ledger=None,
    )
    with pytest.raises(DeclarationError, match=r"not Curator: of a table, ask"):
        learn.laplace_mech(mistype(people), 1, 1)
    release = people.ask(sd.count(), epsilon=1)
    with pytest.raises(DeclarationError, match="not a Release: it is noisy already"):
        learn.laplace_mech(mistype(release), 1, 1)
    bare = learn.laplace_mech(1, 1, 10**6)
    with pytest.raises(DeclarationError, match="bare mechanism"):
        people.ask(sd.count(), epsilon=bare)
    with pytest.raises(DeclarationError, match="bare mechanism"):
        sd.PureDP(bare)
    assert people.remaining == sd.PureDP(9)


def test_floats_name_the_value_and_whole_numbers_do_not() -> None:
    attack = learn.attack_floats(1, 0, sensitivity=1, epsilon="1/10", answers=2000, rng=sd.Rng.seeded(2))
    # the test accuses no answer that the true value gave
    assert attack.reachable == attack.answers
    assert attack.share > 0.2
    assert "with certainty" in repr(attack)
    # the same test of values that are alike finds nothing
    assert learn.attack_floats(1, 1, sensitivity=1, epsilon=1, answers=500, rng=sd.Rng.seeded(2)).impossible == 0
    # exact noise reaches every whole number from every other
    exact = learn.laplace_noise(1, "1/10", discrete=True)
    assert all(exact.density(answer - value) > 0 for answer in range(-30, 31) for value in (0, 1))


def test_an_answer_of_noise_is_found_reachable_for_every_value_and_scale() -> None:
    uniform = sd.Rng.seeded(9).uniform_doubles(400)
    for value in (0.0, 1.0, 3650.0, -2.5):
        for scale in (0.1, 1.0, 10.0):
            assert is_reachable(value + laplace_of(uniform, scale), value, scale).all()


def test_pictures_of_noise() -> None:
    pytest.importorskip("altair")
    for shape in SHAPES[:2]:
        picture = sd.plot(shape)
        assert f"{shape.kind} noise" in str(picture.chart.to_dict())


def test_the_books_names_lead_here() -> None:
    with pytest.raises(AttributeError, match=r"write laplace_mech\(value, sensitivity, epsilon\)"):
        getattr(learn, "laplace")  # noqa: B009
    with pytest.raises(AttributeError, match=r"sordino\.learn"):
        getattr(sd, "laplace")  # noqa: B009


def test_a_threshold_is_read_as_other_numbers_are() -> None:
    """With noise of scale 1/500 answers 1 away from it are told apart: missed less often than e^-100."""
    for threshold in ("1/2", "50%", 0.5):
        assert learn.above_threshold([-1, 2], threshold, 1, 1000, rng=sd.Rng.seeded(1)) == 1
