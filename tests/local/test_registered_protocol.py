"""A protocol from outside, no subclass of ours: registered once, it is chosen, stored, signed, sent and read again."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from local.battery import population, squared_errors_until
from sordino import local
from sordino.core import registration
from sordino.core.accounting.events import LaplaceEvent
from sordino.core.loss import Event, format_number, to_fraction
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError
from sordino.local.device.client_ledger import ClientLedger
from sordino.local.estimates.frequency import FrequencyEstimate, shift_of, variance
from sordino.local.labels import check_labels, codes_of, labels_hash
from sordino.local.protocols.catalog import MAKERS, PERMANENT, PROTOCOLS, make_protocol
from sordino.local.protocols.randomizer import Randomizer
from sordino.local.reports import SupportCounts
from sordino.local.task import create_task, read_task
from sordino.local.thresholds import FULL, float_up, floor_share, log_up


@dataclass(frozen=True)
class Spinner:
    """A wheel of k equal fields: with probability p it stops at one's own label, else at any of the k."""

    labels: tuple[Any, ...]
    claim: Fraction
    threshold: int

    kind = "spinner"
    number = 200
    name = "spinner"
    width = 2
    bit_count = None

    @classmethod
    def make(cls, labels: Any, *, epsilon: Any) -> Spinner:
        checked = check_labels(labels)
        claim = to_fraction(epsilon, name="epsilon")
        # p + (1 - p) / k is to (1 - p) / k at most as e^epsilon is to 1.
        own = Fraction(floor_share(claim, len(checked) - 1), FULL)
        threshold = int((own * len(checked) - 1) / (len(checked) - 1) * FULL)
        return cls(checked, claim, threshold)

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], labels: Any) -> Spinner:
        protocol = cls(tuple(labels), to_fraction(parameters["epsilon"], name="epsilon"), parameters["threshold"])
        if log_up(protocol.p / protocol.q) > protocol.claim:
            raise DeclarationError("the spinner's threshold reveals more than its epsilon")
        return protocol

    @property
    def epsilon(self) -> float:
        return float_up(self.claim)

    @property
    def event(self) -> Event:
        return LaplaceEvent(self.claim)

    @property
    def q(self) -> Fraction:
        return (1 - Fraction(self.threshold, FULL)) / len(self.labels)

    @property
    def p(self) -> Fraction:
        return self.q + Fraction(self.threshold, FULL)

    @property
    def estimator(self) -> str:
        return "the estimate is (reports - n q) / (p - q)"

    def parameters(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "k": len(self.labels),
            "labels_hash": labels_hash(self.labels),
            "bits": 32,
            "threshold": self.threshold,
            "epsilon": format_number(self.claim),
        }

    def check(self, rows: Any) -> None:
        if rows.size and int(rows.view("<u2").max()) >= len(self.labels):
            raise DeclarationError("a report names no label")

    on_device = True

    def perturb_words(self, value: int | None, words: Any) -> bytes:
        source = iter(words)
        stopped = value if next(source) < self.threshold else next(source) % len(self.labels)
        assert stopped is not None
        return int(stopped).to_bytes(2, "little")

    def perturb(self, answers: Any, rng: Rng) -> local.Reports:
        reported = codes_of(answers, self.labels, missing=False).astype("<u2")
        for place in range(reported.size):
            if int.from_bytes(rng.bytes(4), "little") >= self.threshold:
                reported[place] = int.from_bytes(rng.bytes(8), "little") % len(self.labels)
        return local.Reports.of(self, reported.view(np.uint8).reshape(-1, 2).copy())

    def count(self, reports: local.Reports) -> SupportCounts:
        stopped = np.bincount(reports.rows.view("<u2").ravel(), minlength=len(self.labels))
        return SupportCounts(reports.task, tuple(stopped.tolist()), len(reports))

    def estimate(self, counts: SupportCounts) -> FrequencyEstimate:
        return FrequencyEstimate(self.labels, counts.supports, counts.n, self.p, self.q, self.name)

    def variance(self, *, share: float, n: int) -> float:
        return variance(self.p, self.q, share=share, n=n)

    def shift(self, malicious: float) -> tuple[float, float]:
        return shift_of(self.p, self.q, malicious)

    def inputs(self) -> Sequence[int | None]:
        return (0, 1)

    def channel(self, value: int | None) -> Sequence[tuple[Fraction, ...]]:
        return [tuple(self.p if label == value else self.q for label in range(len(self.labels)))]


@pytest.fixture
def registered() -> Iterator[None]:
    local.register_protocol("spinner", Spinner, makers={"spinner": Spinner.make})
    yield
    del PROTOCOLS["spinner"], MAKERS["spinner"]


@pytest.mark.usefixtures("before_tables", "registered")
def test_it_is_chosen_stored_signed_sent_and_read_again(tmp_path: Path) -> None:
    protocol = make_protocol("spinner", ["a", "b", "c"], epsilon=1)
    assert isinstance(protocol, Randomizer)
    assert not isinstance(protocol, local.GRR)
    assert local.from_parameters(protocol.parameters(), protocol.labels) == protocol
    assert "spinner" in local.best(["a", "b", "c"], epsilon=1, respondents=100).table["protocol"].to_pylist()
    reports = protocol.perturb(["a", "b", "b"], Rng.seeded(1))
    assert local.Reports.from_bytes(reports.to_bytes(), protocol) == reports
    with pytest.raises(DeclarationError, match="not of grr"):
        local.Reports.from_bytes(reports.to_bytes(), local.GRR(["a", "b", "c"], epsilon=1))
    task = create_task(
        local.SigningKey.make(Rng.seeded(2)),
        protocol,
        task="wheel",
        question="Which?",
        lifetime_epsilon=2,
        epoch="2029",
        expires=datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC),
        origin="https://wheel.example",
    )
    assert read_task(task.envelope, key=task.key).protocol == protocol
    with contextlib.closing(ClientLedger.open(tmp_path / "device", cap=10, rng=Rng.seeded(3))) as ledger:
        body = local.Client(ledger).report(
            task, "b", rng=Rng.seeded(4), now=datetime.datetime(2029, 1, 1, tzinfo=datetime.UTC)
        )
        assert ledger.spent() == 1
        with pytest.raises(DeclarationError, match="none of the 3 labels"):
            local.Client(ledger).report(
                task, None, rng=Rng.seeded(4), now=datetime.datetime(2029, 1, 1, tzinfo=datetime.UTC)
            )
    assert len(local.Reports.from_rows(body[48:], protocol)) == 1


@pytest.mark.usefixtures("before_tables", "registered")
def test_it_passes_the_battery_and_an_audit() -> None:
    protocol = make_protocol("spinner", range(5), epsilon=1)
    assert 0.999 < local.exact_epsilon(protocol) <= 1
    ratios = squared_errors_until(protocol, k=5, within=0.25, chance=1e-5, seed=3)
    assert 0.75 < ratios.mean() < 1.25
    simulated = local.simulate_collection(population(5, 400).tolist(), protocol, Rng.seeded(4))
    assert simulated.to_dict()["protocol"] == "spinner"


@pytest.mark.usefixtures("before_tables", "registered")
def test_a_name_is_registered_once_and_ours_are_kept() -> None:
    for kind, makers in (("spinner", {}), ("grr", {}), ("wheel", {"oue": Spinner.make})):
        with pytest.raises(DeclarationError, match="exists"):
            local.register_protocol(kind, Spinner, makers=makers)
    with pytest.raises(DeclarationError, match="its kind"):
        local.register_protocol("wheel", Spinner, makers={})


def test_registering_ends_with_the_first_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "_first_table", "people")
    with pytest.raises(DeclarationError, match="protocol 'spinner' cannot be registered any more"):
        local.register_protocol("spinner", Spinner, makers={"spinner": Spinner.make})
    assert "spinner" not in PROTOCOLS | MAKERS


def test_the_makers_of_permanent_answers_are_those_that_memoize_takes() -> None:
    for name in MAKERS:
        protocol: Any = make_protocol(name, ["a", "b", "c"], epsilon=2)
        if name in PERMANENT:
            assert local.memoize(protocol, epsilon=1).permanent == protocol
            continue
        with pytest.raises(DeclarationError, match="permanent answers are made by grr, sue, oue, the, not by"):
            local.memoize(protocol, epsilon=1)


def test_removed_protocols_are_refused_by_name() -> None:
    parameters = local.GRR(["a", "b"], epsilon=1).parameters() | {"kind": "projective"}
    with pytest.raises(DeclarationError, match="removed: subset selection"):
        local.from_parameters(parameters, ["a", "b"])
    with pytest.raises(DeclarationError, match="removed"):
        make_protocol("projective", ["a", "b"], epsilon=1)
    for name in ("Pairs", "PairEstimate", "ProjectiveResponse"):
        with pytest.raises(AttributeError, match=rf"local\.{name} was removed: "):
            getattr(local, name)
