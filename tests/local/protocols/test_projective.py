"""Projective-geometry response: its law enumerated exactly, its counts beside brute force, its place in the planner."""

from __future__ import annotations

import datetime
from collections import Counter
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sordino.errors import DeclarationError
from sordino.local import (
    Client,
    ClientLedger,
    ProjectiveResponse,
    Reports,
    SigningKey,
    SubsetSelection,
    best,
    create_task,
    exact_epsilon,
    from_parameters,
    read_task,
    shuffled,
)
from sordino.local.estimates.frequency import variance
from sordino.local.protocols.finite_field import finite_field, is_prime_power
from sordino.noise.rng import Rng

SMALL = [(2, "0.5"), (4, 1), (13, 1), (14, 1), (30, 2), (9, 3)]  # orders 2 to 23, prime powers among them


@pytest.mark.parametrize(("k", "epsilon"), SMALL)
def test_the_law_is_the_stated_one_by_enumeration(k: int, epsilon: int | str) -> None:
    """Every word: the coin decides the hyperplane, and every point on or off it comes from equally many remainders."""
    protocol = ProjectiveResponse(range(k), epsilon=epsilon)
    room = protocol.order ** (protocol.coordinates - 1)
    laws = []
    for value in range(k):
        inside = Counter(protocol.perturb_words(value, [0, r]) for r in range(room - 1))
        outside = Counter(protocol.perturb_words(value, [2**32 - 1, r]) for r in range(room))
        assert protocol.perturb_words(value, [0, room - 1]) == protocol.perturb_words(value, [0, 0])  # r begins anew
        law = []
        for point in range(protocol.points):
            report = point.to_bytes(protocol.width, "little")
            on, off = Fraction(inside[report], room - 1), Fraction(outside[report], room)
            law.append(protocol.p * on + (1 - protocol.p) * off)
        assert tuple(law) == protocol.channel(value)[0]
        assert sum(law) == 1
        laws.append(law)
    worst = max(a / b for here in laws for there in laws for a, b in zip(here, there, strict=True))
    assert float(worst) == pytest.approx(np.exp(exact_epsilon(protocol)), rel=1e-9)
    assert exact_epsilon(protocol) <= protocol.epsilon


@pytest.mark.parametrize(("k", "epsilon"), SMALL)
def test_support_probabilities_and_overlap_by_enumeration(k: int, epsilon: int | str) -> None:
    """p, q and the overlap from the law and from what each report supports by itself, in exact fractions."""
    protocol = ProjectiveResponse(range(k), epsilon=epsilon)
    supports = _supports(protocol)
    for value in range(k):
        law = protocol.channel(value)[0]
        for label in range(k):
            found = sum((chance for chance, on in zip(law, supports[:, label], strict=True) if on), Fraction(0))
            assert found == (protocol.p if label == value else protocol.q)
            both = supports[:, label] & supports[:, value]
            if label != value:
                assert sum((c for c, on in zip(law, both, strict=True) if on), Fraction(0)) == protocol.overlap


@pytest.mark.parametrize(("k", "epsilon"), [*SMALL, (300, 2), (100, 3)])
def test_counts_are_those_of_brute_force(k: int, epsilon: int | str) -> None:
    protocol = ProjectiveResponse(range(k), epsilon=epsilon)
    reports = protocol.perturb(np.arange(5000, dtype=np.int32) % k, Rng.seeded(1))
    numbers = np.frombuffer(reports.rows.tobytes(), dtype=f"<u{protocol.width}")
    brute = _supports(protocol)[numbers].sum(axis=0)
    assert protocol.count(reports).supports == tuple(brute.tolist())


def _supports(protocol: ProjectiveResponse) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Return which labels each report supports: those under which it is likelier."""
    laws = np.array([[float(c) for c in protocol.channel(v)[0]] for v in range(len(protocol.labels))])
    table: np.ndarray[tuple[int, int], np.dtype[np.bool_]] = (laws > (laws.min() + laws.max()) / 2).T
    return table


@pytest.mark.parametrize("order", [2, 4, 8, 9, 16, 25, 27, 49, 101])
def test_fields_are_fields(order: int) -> None:
    field, rng = finite_field(order), np.random.default_rng(2)
    a, b, c = rng.integers(0, order, (3, 3000))
    times, add = field.product, field.add
    assert (times[a, add[b, c]] == add[times[a, b], times[a, c]]).all()
    assert (times[a, times[b, c]] == times[times[a, b], c]).all()
    assert (add[a, field.negative[a]] == 0).all()
    assert (times[np.arange(1, order), field.inverse[1:]] == 1).all()
    assert np.unique(field.dual).size == order


def test_there_are_fields_of_prime_powers_only() -> None:
    assert not any(is_prime_power(n) for n in (0, 1, 6, 12, 100, 511))


@pytest.mark.parametrize(("epsilon", "k"), [("0.5", 1024), (1, 300), (1, 1024), (2, 5000), (3, 5000), (4, 50_000)])
def test_feldman_2022_the_error_is_that_of_subset_selection_at_a_few_bytes(epsilon: int | str, k: int) -> None:
    ours, best_known = ProjectiveResponse(range(k), epsilon=epsilon), SubsetSelection(range(k), epsilon=epsilon)
    errors = [variance(m.p, m.q, share=0.0, n=1) ** 0.5 for m in (ours, best_known)]
    assert errors[0] <= 1.01 * errors[1]
    assert ours.width <= 4 < best_known.width


def test_the_planner_takes_the_shorter_reports_where_errors_are_equal() -> None:
    choice = best(range(1024), epsilon=1, respondents=100_000)
    assert choice.protocol.name == "projective geometry"
    assert "which needs 128 bytes" in choice.why
    assert best(range(128), epsilon=1, respondents=100_000).protocol.name == "subset selection"  # 0.75% would be lost
    least = min(c.error for c in choice.candidates)
    assert choice.error <= 1.005 * least


def test_shuffling_is_bounded_by_its_overlap() -> None:
    protocol = ProjectiveResponse(range(1024), epsilon=1)
    sharp, plain = shuffled(1, 10_000, "1e-6", protocol=protocol), shuffled(1, 10_000, "1e-6")
    assert sharp.epsilon < plain.epsilon


def test_a_device_answers_a_signed_task(tmp_path: Path) -> None:
    until = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)
    protocol, rng = ProjectiveResponse([f"town {i}" for i in range(300)], epsilon=2), Rng.seeded(3)
    task = create_task(
        SigningKey.make(rng),
        protocol,
        task="towns",
        question="Where do you live?",
        lifetime_epsilon=2,
        epoch="1",
        expires=until,
        origin="https://towns.example",
    )
    with closing(ClientLedger.open(tmp_path / "device", cap=2, rng=rng, mark=tmp_path / "mark")) as ledger:
        body = Client(ledger).report(task, "town 7", rng=rng, now=datetime.datetime(2029, 1, 1, tzinfo=datetime.UTC))
        assert ledger.spent() == 2
    read = Reports.from_rows(body[48:], read_task(task.envelope, key=task.key).protocol)
    assert len(read) == 1
    assert len(body) == 48 + 2


def test_false_parameters_are_refused() -> None:
    protocol = ProjectiveResponse(range(13), epsilon=1)
    sound = protocol.parameters()
    for wrong in ({"order": 6}, {"order": 1}, {"order": "3"}, {"order": 521}, {"p": 2**32 - 1}, {"p": 1}):
        with pytest.raises(DeclarationError):
            from_parameters({**sound, **wrong}, range(13))
    with pytest.raises(DeclarationError, match="number of a label"):
        protocol.perturb_words(13, [0, 0])
