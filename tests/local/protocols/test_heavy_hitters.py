"""Heavy hitters: the law of a report enumerated exactly, what is found and how surely, intervals, devices, refusals."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from contextlib import closing
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sordino.core.noise.rng import Rng
from sordino.errors import BudgetExhausted, DeclarationError
from sordino.local import (
    Client,
    ClientLedger,
    HeavyHitters,
    Reports,
    SigningKey,
    create_task,
    exact_epsilon,
    from_parameters,
    plan_heavy_hitters,
    read_task,
    simulate_heavy_hitters,
)
from sordino.local.estimates.binomial import binomial_law
from sordino.local.heavy_hitters_plan import HeavyHittersPlan
from sordino.local.labels import Texts

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def small(levels: tuple[int, ...] | None = (1, 2, 2)) -> HeavyHitters:
    """Nine numbers, seven of them texts, in base 3: as much as can be enumerated."""
    return HeavyHitters("ab", length=2, epsilon=1, levels=levels)


def law_of(protocol: HeavyHitters, text: str | None) -> dict[bytes, Fraction]:
    """Return the law of a report from its own rule: every group, function, coin and other value."""
    functions, g = protocol.g ** protocol.levels[-1], protocol.g
    law: dict[bytes, Fraction] = defaultdict(Fraction)
    for group, word in product(range(protocol.groups), range(functions)):
        part = Fraction(1, protocol.groups * functions)
        if protocol.texts.encode(text) is None:
            for y in range(g):
                law[protocol.perturb_words(text, [group, word, y])] += part / g
            continue
        law[protocol.perturb_words(text, [group, word, 0])] += part * protocol.p
        for other in range(g - 1):
            law[protocol.perturb_words(text, [group, word, 2**32 - 1, other])] += part * (1 - protocol.p) / (g - 1)
    return law


def test_the_law_by_enumeration() -> None:
    """Exact fractions: sums of 1, a ratio of e^epsilon at most, p for the own prefix and 1 / g for any other."""
    protocol = small()
    texts = [text for text in map(protocol.texts.decode, range(9)) if text is not None]
    assert texts == ["a", "aa", "ab", "b", "ba", "bb"]
    laws = {text: law_of(protocol, text) for text in [*texts, None, "too long", "?", ""]}
    assert all(sum(law.values()) == 1 for law in laws.values())
    worst = max(here[report] / there[report] for here in laws.values() for there in laws.values() for report in here)
    assert 1 < worst <= Fraction(np.e)
    assert float(np.log(float(worst))) == pytest.approx(exact_epsilon(protocol))
    rows = {report: Reports.from_rows(report, protocol) for report in laws["a"]}
    for group, level in enumerate(protocol.levels):
        for text, other in product([*texts, None], texts):
            prefixes = [None if one is None else _prefix(protocol, one, level) for one in (text, other)]
            chance = Fraction(0)
            for report, part in laws[text].items():
                factors, y = protocol.group_of(rows[report], group)
                if y.size and prefixes[1] is not None:
                    chance += part * int((factors[0, :level].astype(int) @ prefixes[1]) % protocol.g == y[0])
            expected = protocol.p if prefixes[0] == prefixes[1] else protocol.q
            assert chance * protocol.groups == expected, (group, text, other)


def _prefix(protocol: HeavyHitters, text: str, level: int) -> list[int]:
    number = protocol.texts.encode(text)
    assert number is not None
    every = [number // protocol.g**i % protocol.g for i in range(protocol.levels[-1] - 1, -1, -1)]
    return every[:level]


@pytest.mark.deep
def test_batches_have_the_law_of_words() -> None:
    """Each of 81 reports of 300,000 within 5.5 deviations of its probability: false alarms under 81 * 2 * 4e-8."""
    protocol, n = small(), 300_000
    for text in ("ba", None):
        law = law_of(protocol, text)
        found = Counter(row.tobytes() for row in protocol.perturb([text] * n, Rng.seeded(4)).rows)
        assert set(found) <= set(law)
        for report, chance in law.items():
            mean = float(chance) * n
            assert abs(found[report] - mean) < 5.5 * mean**0.5


@pytest.mark.parametrize("epsilon", ["0.1", 1, 2, 5, 20])
def test_exact_epsilon_is_at_most_the_claim(epsilon: int | str) -> None:
    protocol = HeavyHitters(LETTERS, length=6, epsilon=epsilon)
    assert 0.99 * protocol.epsilon < exact_epsilon(protocol) <= protocol.epsilon


def test_texts_are_numbers_and_back() -> None:
    texts = Texts.declare("abc", 3)
    every = [text for text in map(texts.decode, range(texts.numbers)) if text is not None]
    assert len(every) == 3 + 9 + 27
    assert all(texts.decode(texts.encode(text) or 0) == text for text in every)
    assert [texts.encode(wrong) for wrong in ("", "abcd", "d", None, 7)] == [None] * 5
    for wrong in (["ab", "c"], ["a"], [1, 2]):
        with pytest.raises(DeclarationError):
            HeavyHitters(wrong, length=3, epsilon=1)


def answers_of(shares: dict[str, float], n: int) -> list[str | None]:
    """Return n answers: these texts with these shares, all others different and rare."""
    rng, out = np.random.default_rng(9), []
    for text, share in shares.items():
        out += [text] * round(share * n)
    letters = np.array(list("abcd"))
    rare = ["".join(letters[rng.integers(0, 4, 6)]) for _ in range(n - len(out))]
    return [*out, *rare]


def test_frequent_texts_are_found_over_several_groups() -> None:
    """Three texts of 10, 20 and 30% among rare ones, by three groups that extend prefixes, and one that confirms."""
    protocol = HeavyHitters("abcd", length=6, epsilon=3, levels=(2, 3, 4, 4))
    n, shares = 20_000, {"abba": 0.3, "dada": 0.2, "cab": 0.1}
    found = protocol.find(protocol.perturb(answers_of(shares, n), Rng.seeded(2)))
    assert found.values[:3] == ["abba", "dada", "cab"]
    for row in found.table.to_pylist()[:3]:
        assert row["lower"] < shares[row["label"]] < row["upper"]
        assert row["adversarial_lower"] <= row["lower"]
        assert row["count"] == pytest.approx(n * row["frequency"])
    assert f"{len(found.values)} heavy hitters" in repr(found)


def _hits(protocol: HeavyHitters, share: float, *, n: int, runs: int) -> tuple[int, int, int]:
    """Return in how many runs the one frequent text was found, something nobody has, and intervals that failed."""
    held = round(share * n)
    hit = false = miss = 0
    for seed in range(runs):
        found = protocol.find(protocol.perturb(["dab"] * held + [None] * (n - held), Rng.seeded(seed)))
        table = {row["label"]: row for row in found.table.to_pylist()}
        hit += "dab" in table
        false += bool(set(table) - {"dab"})
        miss += "dab" in table and not table["dab"]["lower"] <= share <= table["dab"]["upper"]
    return hit, false, miss


@pytest.mark.deep
@pytest.mark.parametrize(
    ("chance", "runs"),
    [(0.5, 20), *(pytest.param(chance, 50, marks=pytest.mark.deep) for chance in (0.5, 0.9))],
)
def test_the_plan_finds_with_the_chance_it_states(chance: float, runs: int) -> None:
    """Of so many runs: not fewer than stated (binomial, false alarm under 1e-3), and not found when far below."""
    protocol, n = HeavyHitters("abcd", length=5, epsilon=2, levels=(3, 5, 5)), 4000
    plan = HeavyHittersPlan(protocol, n)
    share = plan.share(chance)
    assert share is not None
    hit, false, miss = _hits(protocol, share, n=n, runs=runs)
    first, law = binomial_law(runs, chance)
    assert sum(law[: max(0, hit + 1 - first)]) > 1e-3
    assert false + miss <= 9  # 2.5 expected at most; more than 9 of 50 once in 5,000
    assert _hits(protocol, share / 3, n=n, runs=runs // 2)[0] < runs // 4


@pytest.mark.deep
def test_found_intervals_hold_all_at_once() -> None:
    """1,000 runs: a false text or a failed interval in 5% of them at most; .07 is 2.9 deviations above."""
    protocol, n = HeavyHitters("abcd", length=5, epsilon=2, levels=(3, 5, 5)), 4000
    share = HeavyHittersPlan(protocol, n).share(0.5) or 0.0
    hit, false, miss = _hits(protocol, share, n=n, runs=1000)
    assert hit >= 460
    assert false + miss <= 70


def test_plans_say_people_bits_epsilon_and_error() -> None:
    plan = plan_heavy_hitters(LETTERS, length=10, epsilon=2, respondents=1_000_000)
    assert (plan.bits, plan.protocol.groups) == (72, 4)
    least = plan.share(0.9)
    assert least is not None
    assert plan.chance(least) == pytest.approx(0.9, abs=1e-4)
    assert plan.chance(least / 2) < 0.1 < 0.99 < plan.chance(2 * least)
    assert 0.001 < plan.chance(plan.error) < 0.02  # the last group alone: .5; each of three before: about .25
    needed = plan.respondents_needed(least)
    assert needed == pytest.approx(1_000_000, rel=0.01)
    assert set(plan.lines) == {"people", "report", "finds", "error", "needed", "malicious"}
    assert plan.to_dict()["share_found"]["0.9"] == least
    few = plan_heavy_hitters(LETTERS, length=10, epsilon=1, respondents=10)
    assert few.share(0.9) is None
    assert "too few" in few.lines["finds"]
    with pytest.raises(DeclarationError, match="chance"):
        plan.share(1.0)
    with pytest.raises(DeclarationError, match="share"):
        plan.respondents_needed(0)
    with pytest.raises(DeclarationError, match="respondents"):
        plan_heavy_hitters(LETTERS, length=10, epsilon=1, respondents=0)


def test_simulations_show_what_was_missed() -> None:
    protocol = HeavyHitters("abcd", length=4, epsilon=3)
    simulated = simulate_heavy_hitters(["ab"] * 3000 + ["ba"] * 20 + ["cd"] * 10, protocol, Rng.seeded(1)).to_dict()
    assert simulated["rows"][0]["label"] == "ab"
    assert simulated["rows"][0]["true"] == 3000
    assert simulated["mark"].startswith("NOT PRIVATE")
    shown = {row["label"] for row in simulated["rows"]} | {row["label"] for row in simulated["missed"]}
    assert "ba" in shown or not simulated["missed"]
    swapped: Any = (protocol, ["ab"], Rng.seeded(1))
    with pytest.raises(DeclarationError, match="the answers come before it"):
        simulate_heavy_hitters(*swapped)


def test_a_device_answers_once_and_whatever_is_said(tmp_path: Path) -> None:
    until, now = (datetime.datetime(year, 1, 1, tzinfo=datetime.UTC) for year in (2100, 2029))
    rng, protocol = Rng.seeded(3), HeavyHitters(LETTERS, length=10, epsilon=2)
    key = SigningKey.make(rng)
    signed = create_task(
        key,
        protocol,
        task="words",
        question="Which word?",
        lifetime_epsilon=2,
        epoch="1",
        expires=until,
        origin="https://words.example",
    )
    task = read_task(signed.envelope, key=key.public)
    assert task.protocol == protocol
    assert "any text of up to 10 characters" in task.summary["labels"]
    for number, answer in enumerate(("hello", "far too long a word", None)):
        place, mark = tmp_path / f"device{number}", tmp_path / f"mark{number}"
        with closing(ClientLedger.open(place, cap=9, rng=rng, mark=mark)) as ledger:
            body = Client(ledger).report(task, answer, rng=rng, now=now)
            assert len(Reports.from_rows(body[48:], protocol)) == 1
            with pytest.raises(BudgetExhausted):
                Client(ledger).report(task, "again", rng=rng, now=now)
            with pytest.raises(DeclarationError, match="must be text"):
                Client(ledger).report(task, 7, rng=rng, now=now)
            assert ledger.spent() == 2


def test_reports_travel_and_impossible_ones_are_refused() -> None:
    protocol = HeavyHitters(LETTERS, length=10, epsilon=2)
    reports = protocol.perturb(["one", "two", None], Rng.seeded(1))
    assert Reports.from_bytes(reports.to_bytes(), protocol) == reports
    assert sum(protocol.count(reports).supports) == 3
    row = bytearray(reports.rows[0].tobytes())
    for place in (0, 1, protocol.width - 1):
        wrong = bytes([*row[:place], 255, *row[place + 1 :]])
        with pytest.raises(DeclarationError, match="beyond the last"):
            Reports.from_rows(wrong, protocol)
    with pytest.raises(DeclarationError, match="no report yet"):
        protocol.find(protocol.perturb(["one"], Rng.seeded(1)))


def test_false_parameters_are_refused() -> None:
    protocol = small()
    sound = protocol.parameters()
    assert from_parameters(sound, ["a", "b"]) == protocol
    wrong: list[dict[str, int | str | None]] = [
        {"g": 4},
        {"g": 257},
        {"length": 3},
        {"levels": "1,2"},
        {"levels": "2,1,1"},
    ]
    wrong += [{"levels": "x"}, {"p": 2**32 - 1}, {"p": 1}]
    for one in wrong:
        with pytest.raises(DeclarationError):
            from_parameters(sound | one, ["a", "b"])
    for length in (0, 129, True):
        with pytest.raises(DeclarationError, match="length"):
            HeavyHitters("abc", length=length, epsilon=1)
