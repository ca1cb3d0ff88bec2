"""Audits by samples: planted faults are found, sound mechanisms are accused no more often than stated. All is seeded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import bdtr, bdtrc

import sordino as sd
from battery import binomial_law
from sordino.core.mechanisms.additive_noise import Laplace, gaussian_for_rho
from sordino.core.mechanisms.selection import Exponential
from sordino.core.noise.laws import DiscreteLaplace
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError
from sordino.lab.audit.sampled_audit import audit_function, audit_mechanism
from sordino.lab.audit.verdict import bound_epsilons, largest_epsilon, least_epsilon, typical_epsilon

Outputs = Callable[[Any, int], Any]


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.7, 0.0), (2.0, 0.0), (0.5, 0.1)])
@pytest.mark.parametrize("alarm", [0.2, 0.01])
def test_no_pair_of_chances_within_the_claim_is_accused_more_often_than_stated(
    epsilon: float, delta: float, alarm: float
) -> None:
    """Every outcome of 60 runs on each neighbor, weighed exactly: the bound passes epsilon with chance `alarm` at most."""
    runs = 60
    counts = np.arange(runs + 1)
    more, less = (g.ravel() for g in np.meshgrid(counts, counts, indexing="ij"))
    accused = (bound_epsilons(more, less, runs=runs, delta=delta, alarm=alarm) > epsilon).reshape(runs + 1, runs + 1)
    assert accused.any()
    for q in np.linspace(0, 1, 41):
        p = min(1.0, math.exp(epsilon) * q + delta, 1 - (1 - q - delta) / math.exp(epsilon))
        chance = float(binomial_law(counts, runs, p) @ accused @ binomial_law(counts, runs, q))
        assert chance <= alarm + 1e-12


def test_the_bound_is_of_clopper_and_pearson() -> None:
    """At the ends of the two intervals so many events, or so few, come with half of the alarm each."""
    runs, alarm, delta = 60, 0.02, 0.05
    for more, less in ((60, 0), (50, 3), (31, 30)):
        low = brentq(lambda p, n=more: bdtrc(n - 1, runs, p) - alarm / 2, 1e-9, 1 - 1e-9)
        high = brentq(lambda p, n=less: bdtr(n, runs, p) - alarm / 2, 1e-9, 1 - 1e-9)
        (found,) = bound_epsilons(np.array([more]), np.array([less]), runs=runs, delta=delta, alarm=alarm)
        assert found == pytest.approx(math.log((low - delta) / high), rel=1e-9)


def test_power_is_what_the_best_event_shows() -> None:
    assert largest_epsilon(500) == max(
        least_epsilon(m, k, runs=500) for m, k in itertools.product((0, 250, 500), repeat=2)
    )
    shown = [typical_epsilon(1, runs=n) for n in (100, 1_000, 100_000, 10_000_000)]
    assert shown == sorted(shown)
    assert 0.995 < shown[-1] < 1
    assert least_epsilon(0, 0, runs=10) == 0


def laplace_at(scale: Fraction, seed: int) -> Outputs:
    """Return a count with discrete Laplace noise of this scale, as anybody's function."""
    rngs = {0: Rng.seeded(seed), 1: Rng.seeded(seed + 1)}
    law = DiscreteLaplace(scale)
    return lambda table, runs: (np.asarray(law.sample(rngs[table % 2], size=runs)) + table).astype(float)


@pytest.mark.deep
def test_noise_at_half_its_scale_is_found_and_sound_noise_is_not_accused() -> None:
    claimed, samples = 1.0, 40_000
    sound = audit_function(laplace_at(Fraction(1), 10), 0, 1, epsilon=claimed, samples=samples)
    halved = audit_function(laplace_at(Fraction(1, 2), 20), 0, 1, epsilon=claimed, samples=samples)
    assert not sound.violated
    assert sound.least > 0.9
    assert halved.violated
    assert halved.least > 1.8
    assert halved.typical < halved.least <= halved.largest


MANY = pytest.mark.parametrize(("audits", "most"), [(30, 7), pytest.param(100, 16, marks=pytest.mark.deep)])


@pytest.mark.deep
@MANY
def test_sound_mechanisms_are_accused_no_more_often_than_stated(audits: int, most: int) -> None:
    """Audits at alarm .05 of noise that spends all of its claim; more than 7 of 30, or 16 of 100, happen once in 100,000."""
    accused = sum(
        audit_function(laplace_at(Fraction(1), 1000 + 2 * s), 0, 1, epsilon=1, samples=400, alarm=0.05).violated
        for s in range(audits)
    )
    assert accused <= most


@MANY
def test_an_event_chosen_among_many_is_measured_on_other_samples(audits: int, most: int) -> None:
    """Audits at alarm .05 of labels that reveal nothing, claimed at epsilon 0: as many as above are accused."""
    rng = Rng.seeded(8)

    def draw(_: int, runs: int) -> list[str]:
        return [f"label {n}" for n in (rng.words(runs) % np.uint64(50)).tolist()]

    assert sum(audit_function(draw, 0, 1, epsilon=0, samples=400, alarm=0.05).violated for _ in range(audits)) <= most


def test_outputs_may_be_vectors_labels_and_missing() -> None:
    rng = Rng.seeded(3)

    def shared_noise(table: int, runs: int) -> list[tuple[float, float | None]]:  # one draw for two cells
        noise = np.asarray(DiscreteLaplace(Fraction(1)).sample(rng, size=runs)).tolist()
        return [(z, z + table) for z in noise]

    found = audit_function(shared_noise, 0, 1, epsilon=1, samples=2000)
    assert found.violated
    assert 0 in found.hits

    def names(table: int, runs: int) -> list[str]:  # a label that only one table can give
        return ["zoe" if table and i % 10 == 0 else "none" for i in range(runs)]

    told = audit_function(names, 0, 1, epsilon=1, samples=2000)
    assert told.violated
    assert "zoe" in told.event
    assert told.hits[0] == 0

    def misses(table: int, runs: int) -> list[float | None]:
        return [None if table else 1.0] * runs

    assert audit_function(misses, 0, 1, epsilon=1, samples=100).violated


def test_an_event_that_is_given_is_measured_on_all_samples() -> None:
    found = audit_function(laplace_at(Fraction(1, 4), 5), 0, 1, epsilon=1, samples=4000, inside=lambda x: x >= 1)
    assert found.runs == 4000
    assert found.violated


@pytest.mark.each(3)
@pytest.mark.parametrize(
    ("mechanism", "here", "there", "delta"),
    [
        (Laplace(Fraction(1), Fraction(1)), [0], [1], 0.0),
        (gaussian_for_rho(l2_squared=Fraction(1), rho=Fraction(1, 2)), [0], [1], 1e-2),
        (Exponential(Fraction(1), Fraction(1)), (5, 4, 2, 0), (4, 5, 3, 1), 0.0),
    ],
    ids=["laplace", "gaussian", "exponential"],
)
def test_mechanisms_claim_what_their_events_say(mechanism: Any, here: Any, there: Any, delta: float) -> None:
    found = audit_mechanism(mechanism, here, there, delta=delta, samples=1500)
    assert not found.violated
    assert found.least > 0.05
    assert found == audit_mechanism(mechanism, here, there, delta=delta, samples=1500)


def test_refusals_say_what_works() -> None:
    with pytest.raises(DeclarationError, match="give a delta"):
        audit_mechanism(gaussian_for_rho(l2_squared=Fraction(1), rho=Fraction(1)), [0], [1])
    with pytest.raises(DeclarationError, match="as many outputs"):
        audit_function(lambda table, _: [table], 0, 1, epsilon=1)
    with pytest.raises(DeclarationError, match="alarm"):
        audit_function(lambda table, runs: [table] * runs, 0, 1, epsilon=1, alarm=0)


def test_an_audit_shows_itself() -> None:
    found = audit_function(laplace_at(Fraction(1), 7), 0, 1, epsilon=1, samples=1000, subject="<a count>")
    assert "NOT PRIVATE" in repr(found)
    assert "&lt;a count&gt;" in found._repr_html_()
    assert '"violated": false' in found.to_json()
    assert sum(bar.here for bar in found.histogram) == pytest.approx(1)
    spec = sd.plot(found).spec()
    assert {row["what"] for row in spec["vconcat"][0]["data"]["values"]} >= {"claimed", "shown at least"}
    assert "NOT PRIVATE" in sd.plot(found).title


@pytest.mark.deep
def test_another_library_is_audited_as_it_is() -> None:
    """OpenDP's discrete Laplace noise at its own claim, and with half of the scale that it should have."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)

    def audited(scale: float) -> Any:
        measure = dp.m.make_laplace(*space, scale=scale)
        return audit_function(
            lambda x, n: [measure(x) for _ in range(n)], 0, 1, epsilon=1, samples=800, subject="OpenDP"
        )

    assert not audited(1.0).violated
    assert audited(0.5).violated
