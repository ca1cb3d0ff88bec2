"""Sparse vector: its law and its loss by exact sums over the threshold's noise, its error, and its session.

Seeded; each statistical test would alarm falsely for one seed in 100,000 or more.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import pickle
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np
import pytest

from battery import chi_square_tail
from mistyping import mistype
from sordino.core.accounting.concentration import pure_epsilon_for
from sordino.core.accounting.events import LaplaceEvent
from sordino.core.mechanisms.sparse_vector import SparseSession, SparseVector, sparse_vector_for
from sordino.core.noise.geometric import Geometric
from sordino.core.noise.laws import DiscreteLaplace
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError, QuestionRefused

ALARM = 1e-5
ONE = SparseVector(Fraction(1), Fraction(2), 1)
TWO = SparseVector(Fraction(1), Fraction(4), 2)
COUNTS = SparseVector(Fraction(1), Fraction(4), 2, monotone=True)
EACH = SparseVector(Fraction(1), Fraction(2), 2, redraws=True)


@lru_cache
def masses(scale: Fraction) -> tuple[range, np.ndarray]:
    """Return the noise's values of note and their probabilities: all but about e^-40."""
    reach = math.ceil(40 * scale)
    q = math.exp(-1 / scale)
    values = range(reach + 1)
    return values, np.array([(1 - q) * q**x for x in values])


@lru_cache
def tails(scale: Fraction) -> np.ndarray:
    """Return P(noise >= x) for x from -3 reach to 3 reach."""
    reach = 3 * math.ceil(40 * scale)
    q = math.exp(-1 / scale)
    return np.array([q ** max(x, 0) for x in range(-reach, reach + 1)])


@cache
def transcript_probability(made: SparseVector, answers: tuple[int, ...], outcome: tuple[bool, ...]) -> float:
    """Return P(the session says `outcome`): a sum over each threshold's noise, of products over its questions."""
    first = outcome.index(True) + 1 if made.redraws and True in outcome else 0
    if first and first < len(outcome):  # a new threshold for what follows
        rest = transcript_probability(made, answers[first:], outcome[first:])
        return transcript_probability(made, answers[:first], outcome[:first]) * rest
    values, weights = masses(made.threshold_law.scale)
    upper = tails(made.question_law.scale)
    middle = len(upper) // 2
    total = np.array(weights)
    for answer, above in zip(answers, outcome, strict=True):
        chance = upper[
            np.clip(middle + np.array(values) + made.correction - answer, 0, len(upper) - 1)
        ]  # P(answer + noise >= the threshold's)
        total = total * (chance if above else 1 - chance)
    return float(total.sum())


def outcomes(length: int, crossings: int) -> list[tuple[bool, ...]]:
    """Return all transcripts of at most `length` questions, ended early by the last crossing."""
    found = []
    for size in range(length + 1):
        for outcome in itertools.product((False, True), repeat=size):
            stopped = sum(outcome) == crossings
            if sum(outcome[:-1]) < crossings and (size == length or (stopped and outcome[-1])):
                found.append(outcome)
    return found


def run(made: SparseVector, answers: tuple[int, ...], rng: Rng) -> tuple[bool, ...]:
    session, said = made.session(0, rng), []
    for answer in answers:
        if not session.open:
            break
        said.append(session.above(answer))
    return tuple(said)


@pytest.mark.each(5)
@pytest.mark.parametrize("made", [ONE, TWO, COUNTS, EACH], ids=["one", "two", "monotone", "redrawn"])
@pytest.mark.parametrize("count", [2_000, pytest.param(40_000, marks=pytest.mark.deep)])
def test_law_by_chi_square(made: SparseVector, count: int) -> None:
    answers, rng = (-1, 2, 0, 3), Rng.seeded(31)
    kinds = outcomes(4, made.crossings)
    wanted = np.array([count * transcript_probability(made, answers[: len(o)], o) for o in kinds])
    assert wanted.sum() == pytest.approx(count, rel=1e-9)
    found = dict.fromkeys(kinds, 0)
    for _ in range(count):
        found[run(made, answers, rng)] += 1
    statistic = float(((np.array([found[k] for k in kinds]) - wanted) ** 2 / wanted).sum())
    assert chi_square_tail(statistic, len(kinds) - 1) > ALARM


@pytest.mark.each(4)
@pytest.mark.parametrize(
    "made",
    [ONE, TWO, SparseVector(Fraction(2), Fraction(3), 2), COUNTS, SparseVector(Fraction(3, 2), Fraction(2), 1, True)],
    ids=["one", "two", "wide", "monotone", "monotone one"],
)
def test_every_transcript_of_every_neighbor_stays_below_epsilon(made: SparseVector) -> None:
    """Three questions about the threshold, all neighbors; the test below shows that it has teeth."""
    step, worst = int(made.sensitivity), 0.0
    probability = functools.cache(transcript_probability)
    for answers in itertools.product((-6, 0, 6), repeat=3):
        moves = list(itertools.product((-step, 0, step), repeat=3))
        if made.monotone:
            moves = [move for move in moves if min(move) >= 0 or max(move) <= 0]
        for move in moves:
            moved = tuple(a + m for a, m in zip(answers, move, strict=True))
            for outcome in outcomes(3, made.crossings):
                here = probability(made, answers[: len(outcome)], outcome)
                there = probability(made, moved[: len(outcome)], outcome)
                worst = max(worst, math.log(here / there))
    assert worst <= made.epsilon * (1 + 1e-9)
    assert worst > 0.45 * made.epsilon


@pytest.mark.parametrize("monotone", [False, True])
def test_redrawn_thresholds_cost_the_rho_of_their_crossings(monotone: bool) -> None:
    """The Renyi divergence of all transcripts of eight questions, which rise and then fall or stay: below order rho."""
    made = SparseVector(Fraction(1), Fraction(2), 2, monotone, redraws=True)
    rho, worst = made.event.rho(), 0.0
    assert rho == 2 * LaplaceEvent(2).rho()
    kinds = outcomes(8, 2)
    for answers, rising in itertools.product([(0,) * 8, (3, 3, 3, -3) * 2, (4,) * 7 + (-4,)], (3, 7, 8)):
        moved = tuple(a + (1 if i % 4 < rising else 0 if monotone else -1) for i, a in enumerate(answers))
        pairs = [[transcript_probability(made, t[: len(o)], o) for t in (answers, moved)] for o in kinds]
        for order, (one, other) in itertools.product((1.01, 2.0, 8.0), ((0, 1), (1, 0))):
            divergence = math.log(sum(p[one] ** order * p[other] ** (1 - order) for p in pairs)) / (order - 1)
            worst = max(worst, divergence / order / float(rho))
    assert 0.05 < worst <= 1


def test_under_rho_many_crossings_draw_a_threshold_each() -> None:
    """Deviation x .56 at ten crossings and rho .5; one crossing, and a rho so large that losses add up, keep one."""
    rho = Fraction(1, 2)

    def deviation(made: SparseVector) -> float:
        return math.hypot(made.threshold_law.scale, made.question_law.scale)

    for crossings, monotone, factor in ((1, False, 1), (10, False, 0.56), (10, True, 0.69), (50, False, 0.29)):
        one = SparseVector(Fraction(1), pure_epsilon_for(rho), crossings, monotone)
        best = sparse_vector_for(1, crossings=crossings, monotone=monotone, epsilon=one.epsilon, rho=rho)
        assert best.redraws == (crossings > 1)
        assert deviation(best) / deviation(one) == pytest.approx(factor, abs=0.01)
        assert (best.event.rho() or 0) <= rho
    assert not sparse_vector_for(
        1, crossings=3, monotone=False, epsilon=pure_epsilon_for(Fraction(90)), rho=Fraction(90)
    ).redraws
    assert not sparse_vector_for(1, crossings=10, monotone=False, epsilon=Fraction(1)).redraws


def test_monotone_noise_is_too_small_for_answers_that_move_both_ways() -> None:
    """So the refusal of other questions in a monotone session matters."""
    outcome = (False,) * 30 + (True,)
    made = SparseVector(Fraction(1), Fraction(2), 1, monotone=True)
    here = transcript_probability(made, (4,) * 30 + (-9,), outcome)
    there = transcript_probability(made, (5,) * 30 + (-10,), outcome)
    assert abs(math.log(here / there)) > 2.2


def test_many_questions_below_cost_no_more() -> None:
    """Fifty answers just below and one crossing: the loss nears epsilon and does not pass it."""
    outcome = (False,) * 50 + (True,)
    here = transcript_probability(ONE, (5,) * 50 + (-1,), outcome)
    there = transcript_probability(ONE, (6,) * 50 + (-2,), outcome)
    assert 0.85 * 2 < abs(math.log(here / there)) <= 2 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("crossings", "monotone", "factor"), [(1, False, 0.93), (1, True, 0.63), (10, False, 0.54), (10, True, 0.30)]
)
def test_findings_f5_deviation_of_the_difference(crossings: int, monotone: bool, factor: float) -> None:
    """Beside a threshold drawn anew after each crossing: scales of 2 c / epsilon and 4 c / epsilon."""
    made = SparseVector(Fraction(1), Fraction(1), crossings, monotone)
    found = math.hypot(made.threshold_law.scale, made.question_law.scale)
    assert found / math.hypot(2 * crossings, 4 * crossings) == pytest.approx(factor, abs=0.006)


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("crossings", [1, 2, 10])
def test_liu_et_al_2024_noise_on_one_side_has_half_of_the_variance(crossings: int, monotone: bool) -> None:
    """The deviation of the difference is .707 of that with discrete Laplace noise of the same scales."""
    made = SparseVector(Fraction(1), Fraction(1), crossings, monotone)
    laws = made.threshold_law, made.question_law
    laplace = sum(DiscreteLaplace(law.scale).variance() for law in laws)
    assert math.sqrt(sum(law.variance() for law in laws) / laplace) == pytest.approx(0.7071, abs=1e-4)


@pytest.mark.parametrize("monotone", [True, pytest.param(False, marks=pytest.mark.deep)])
def test_proofs_and_error_g1_all_of_epsilon_is_used(monotone: bool) -> None:
    """Streams of three whose noises all move: the worst loss of noise on both sides was .858 and .890 of epsilon."""
    made = SparseVector(Fraction(1), Fraction(1), 1, monotone)
    moves = [
        move for move in itertools.product((-1, 0, 1), repeat=3) if not monotone or min(move) >= 0 or max(move) <= 0
    ]
    worst = 0.0
    probability = functools.cache(transcript_probability)
    for answers in itertools.product((-6, 0, 5), repeat=3):
        for move in moves:
            moved = tuple(a + m for a, m in zip(answers, move, strict=True))
            for outcome in outcomes(3, 1):
                here = probability(made, answers[: len(outcome)], outcome)
                there = probability(made, moved[: len(outcome)], outcome)
                worst = max(worst, math.log(here / there))
    assert worst == pytest.approx(1, abs=1e-9)


@pytest.mark.deep
def test_error_covers_all_answers() -> None:
    """Answers beyond the error from the threshold are right but for 5%; 4.5 deviations for the sample."""
    questions, count = 20, 2000
    for made in (ONE, TWO, EACH):
        error = made.error(0.95, questions=questions)
        answers = tuple(-error - 1 if i % 7 else error + 1 for i in range(1, questions + 1))
        rng, wrong = Rng.seeded(33), 0
        for _ in range(count):
            said = run(made, answers, rng)
            wrong += said != tuple(a > 0 for a in answers)[: len(said)]
        assert wrong / count <= 0.05 + 4.5 * math.sqrt(0.05 * 0.95 / count)
        assert made.error(0.99, questions=questions) > error
        assert made.error(0.95, questions=10) < error


def test_dwork_roth_2014_theorem_3_24() -> None:
    """AboveThreshold: alpha = 8 (ln k + ln(2 / beta)) / epsilon; the exact tails do better."""
    for questions in (1, 10, 1000):
        textbook = 8 * (math.log(questions) + math.log(2 / 0.05))
        assert SparseVector(Fraction(1), Fraction(1), 1).error(0.95, questions=questions) <= textbook


def test_lyu_su_li_2017_algorithm_7() -> None:
    """The threshold's noise is D / e1, the questions' 2 c D / e2, with e1 + e2 = epsilon and e2 / e1 about (2c)^(2/3)."""
    made = SparseVector(Fraction(3), Fraction(1, 2), 5)
    e1 = 3 / Fraction(made.threshold_law.scale)
    e2 = 2 * 5 * 3 / Fraction(made.question_law.scale)
    assert e1 + e2 == Fraction(1, 2)
    assert float(e2 / e1) == pytest.approx(10 ** (2 / 3), rel=0.01)
    assert made.event.pure() == Fraction(1, 2)
    assert made.event.approx() == (Fraction(1, 2), Fraction(0))


def test_session_halts_and_keeps_its_threshold() -> None:
    session = SparseVector(Fraction(1), Fraction(1, 1000), 3).session(0, Rng.seeded(1))
    thresholds = set()
    for _ in range(3):
        thresholds.add(session._noisy_threshold)
        assert not session.above(-(10**9))
        assert session.above(10**9)
    assert len(thresholds) == 1
    assert not session.open
    for answer in (10**9, -(10**9)):
        with pytest.raises(QuestionRefused, match="new charge"):
            session.above(answer)
    assert SparseVector(Fraction(1), Fraction(1), 1).session(2**80, Rng.seeded(1)).above(2**81)


def test_a_redrawn_threshold_is_another_after_each_crossing() -> None:
    session = SparseVector(Fraction(1), Fraction(1, 1000), 3, redraws=True).session(0, Rng.seeded(1))
    thresholds = []
    while session.open:
        thresholds.append(session._noisy_threshold)
        assert not session.above(-(10**9))
        assert session._noisy_threshold == thresholds[-1]
        assert session.above(10**9)
    assert len(set(thresholds)) == 3


@pytest.mark.parametrize("made", [ONE, TWO, COUNTS, EACH], ids=repr)
def test_a_session_draws_from_the_laws_that_are_proved(made: SparseVector, monkeypatch: pytest.MonkeyPatch) -> None:
    """No chi-square tells noise that is 1% too small: the laws drawn from are those of the exact sums above."""
    drawn: list[Geometric] = []

    def draw(law: Geometric, rng: Rng) -> int:
        del rng
        drawn.append(law)
        return 0

    monkeypatch.setattr(Geometric, "sample", draw)
    session = made.session(10 - made.correction, Rng.seeded(1))
    assert [session.above(answer) for answer in (9, 10)] == [False, True]
    again = [made.threshold_law] if made.redraws else []
    assert drawn == [made.threshold_law, made.question_law, made.question_law, *again]


def test_session_hides_its_threshold_and_is_not_copied() -> None:
    session = ONE.session(123456, Rng.seeded(1))
    assert str(session._noisy_threshold) not in repr(session)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copied or pickled"):
            attempt(session)
    assert isinstance(session, SparseSession)


def test_repr_round_trip() -> None:
    assert eval(repr(TWO), {"SparseVector": SparseVector, "Fraction": Fraction}) == TWO
    assert "2 crossing" in TWO.describe()


def test_bad_arguments_are_refused_by_name() -> None:
    for arguments, name in (
        ((0, 1, 1), "sensitivity"),
        ((1, 0, 1), "epsilon"),
        ((1, 1, 0), "crossings"),
        ((1, 1, 1.5), "crossings"),
    ):
        with pytest.raises(DeclarationError, match=name):
            SparseVector(*(mistype(argument) for argument in arguments))
    with pytest.raises(DeclarationError, match="threshold"):
        ONE.session(mistype(0.5), Rng.seeded(1))
    with pytest.raises(DeclarationError, match="exact") as caught:
        ONE.session(0, Rng.seeded(1)).above(mistype(0.123))
    assert "0.123" not in str(caught.value)
