"""The grid's three functions against their definitions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordino.errors import DeclarationError
from sordino.noise.lattice import grid, outward, to_lattice

positive = st.fractions(min_value=Fraction(1, 10**9), max_value=10**9)
value = st.fractions(min_value=-(10**9), max_value=10**9)


@given(resolution=positive)
def test_grid_is_the_largest_power_of_two_below(resolution: Fraction) -> None:
    unit = grid(resolution)
    assert unit <= resolution < 2 * unit
    assert 1 in (unit.numerator, unit.denominator)
    assert (unit.numerator * unit.denominator).bit_count() == 1


@given(x=value, unit=positive)
def test_to_lattice_is_nearest_with_halves_up(x: Fraction, unit: Fraction) -> None:
    assert -unit / 2 < to_lattice(x, unit) * unit - x <= unit / 2


@given(x=value, lower=value, upper=value, resolution=positive)
def test_outward_bounds_hold_every_value_between(
    x: Fraction, lower: Fraction, upper: Fraction, resolution: Fraction
) -> None:
    unit = grid(resolution)
    lower, x, upper = sorted((lower, x, upper))
    least, most = outward(lower, upper, unit)
    assert least <= to_lattice(x, unit) <= most
    assert least * unit <= lower < (least + 1) * unit
    assert (most - 1) * unit < upper <= most * unit


def test_powers_of_two_are_their_own_grid() -> None:
    for power in range(-70, 71):
        assert grid(Fraction(2) ** power) == Fraction(2) ** power


def test_bad_arguments_are_refused_by_name() -> None:
    for call, name in (
        (lambda: grid(0), "resolution"),
        (lambda: grid(0.5), "resolution"),  # type: ignore[arg-type]
        (lambda: to_lattice(0.5, 1), "value"),  # type: ignore[arg-type]
        (lambda: to_lattice(1, -1), "unit"),
        (lambda: outward(2, 1, 1), "lower"),
    ):
        with pytest.raises(DeclarationError, match=name):
            call()
