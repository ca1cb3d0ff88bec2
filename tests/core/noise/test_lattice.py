"""The grid's functions against their definitions."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import strategies as st

from mistyping import mistype
from sordino.core.noise.lattice import outward, scale_of, to_lattice
from sordino.errors import DeclarationError
from trying import examples

positive = st.fractions(min_value=Fraction(1, 10**9), max_value=10**9)
value = st.fractions(min_value=-(10**9), max_value=10**9)


@examples(10, 50, x=value, unit=positive)
def test_to_lattice_is_nearest_with_halves_up(x: Fraction, unit: Fraction) -> None:
    assert -unit / 2 < to_lattice(x, unit) * unit - x <= unit / 2


@examples(10, 50, x=value, lower=value, upper=value, resolution=positive)
def test_outward_bounds_hold_every_value_between(
    x: Fraction, lower: Fraction, upper: Fraction, resolution: Fraction
) -> None:
    unit = resolution
    lower, x, upper = sorted((lower, x, upper))
    least, most = outward(lower, upper, unit)
    assert least <= to_lattice(x, unit) <= most
    assert least * unit <= lower < (least + 1) * unit
    assert (most - 1) * unit < upper <= most * unit


def read(values: np.ndarray, unit: Fraction) -> np.ndarray:
    op, factor = scale_of(unit)
    with np.errstate(over="ignore"):
        return np.floor((values * factor if op == "*" else values / factor) + 0.5)


UNITS = [
    "0.1",
    "0.01",
    "0.001",
    "1e-6",
    "1e-9",
    "1e-15",
    "0.05",
    "0.25",
    "0.07",
    "1/3",
    "2/7",
    "10",
    "3",
    "1000",
    "1e30",
]


@pytest.mark.deep
@pytest.mark.parametrize("unit", UNITS)
def test_the_double_nearest_to_a_decimal_reads_as_that_decimal(unit: str) -> None:
    step = Fraction(unit)
    rng = random.Random(1)
    steps = [*range(-1000, 1000), *(10**15 - n for n in range(1000)), *(n - 10**15 for n in range(1000))]
    steps += [rng.randrange(10 ** rng.randrange(1, 16)) for _ in range(10_000)]
    nearest = np.array([float(k * step) for k in steps])
    assert (read(nearest, step) == np.array(steps, dtype=np.float64)).all()


@pytest.mark.deep
@pytest.mark.parametrize("unit", ["0.1", "0.01", "0.001", "0.05", "0.25", "0.07", "10"])
def test_every_step_up_to_a_million_reads_as_itself(unit: str) -> None:
    step, steps = Fraction(unit), np.arange(-(10**6), 10**6 + 1, dtype=np.float64)
    nearest = steps * step.numerator / step.denominator  # correctly rounded: the product is a whole number below 2^53
    assert (read(nearest, step) == steps).all()
    narrow = nearest.astype(np.float32).astype(np.float64)
    assert (read(narrow, step) == steps).all()


@examples(20, 100, unit=st.fractions(min_value=Fraction(1, 10**40), max_value=10**40), k=st.integers(-(10**15), 10**15))
def test_any_unit_reads_its_own_steps(unit: Fraction, k: int) -> None:
    assert read(np.array([float(k * unit)]), unit)[0] == k


@pytest.mark.parametrize("unit", [Fraction(1, 2**512), Fraction(2**512), Fraction(1, 100), Fraction(3**200)])
def test_no_double_is_lost_by_reading(unit: Fraction) -> None:
    found = read(np.array([np.inf, -np.inf, np.nan, 1.7e308, -1.7e308, 5e-324, -0.0]), unit)
    assert found[0] == np.inf
    assert found[1] == -np.inf
    assert np.isnan(found[2])
    assert not np.isnan(found[3:]).any()
    assert found[3] >= 0
    assert found[4] <= 0


def test_bad_arguments_are_refused_by_name() -> None:
    for call, name in (
        (lambda: scale_of(Fraction(0)), "unit"),
        (lambda: scale_of(Fraction(1, 2**513)), "unit"),
        (lambda: to_lattice(mistype(0.5), 1), "value"),
        (lambda: to_lattice(1, -1), "unit"),
        (lambda: outward(2, 1, 1), "lower"),
    ):
        with pytest.raises(DeclarationError, match=name):
            call()
