"""What a paid figure says of the error of counts: at most so many rows, as often as it says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sordino.synth.evaluation.workload import SetError, Workload, most_error

RUNS = 4000


@pytest.mark.each(4)
@pytest.mark.parametrize("cells", [4, 16, 256])
@pytest.mark.parametrize("law", ["laplace", "normal"])
@pytest.mark.parametrize("true", [0.0, 0.13, 1.0, 10.0])
def test_the_bound_holds_as_often_as_it_says(true: float, law: str, cells: int) -> None:
    """In units of the noise's deviation; 4,000 runs at 95%: below 93.9% once in 1,000 of such tests that are right."""
    generator = np.random.default_rng(cells)
    errors = true * np.where(np.arange(cells) % 2, 1.0, -1.0)
    noise = {
        "laplace": lambda: generator.laplace(scale=math.sqrt(0.5), size=(RUNS, cells)),
        "normal": lambda: generator.normal(size=(RUNS, cells)),
    }[law]()
    excess = np.square(errors + noise).mean(axis=1) - 1
    bounds = np.array([most_error(float(one), cells, 1.0, 0.95) for one in excess])
    assert (bounds >= true).mean() >= 0.939


@pytest.mark.parametrize("cells", [64, 1024])
def test_the_bound_is_no_wider_than_it_must_be(cells: int) -> None:
    """Where the error is ten times the noise, the bound lies near it; where it is hidden, below the noise itself."""
    assert most_error(100.0, cells, 1.0, 0.95) < 10.5
    assert most_error(0.0, cells, 238.0, 0.95) < 0.75 * 238


def test_no_paid_error_reads_as_none() -> None:
    hidden = Workload((SetError(("a",), 64, -100.0, 5.0, 1.0), SetError(("b",), 64, -50.0, 5.0, 1.0)), 238.0)
    words = hidden.describe()
    assert "at most" in words
    assert "alone is 238" in words
    assert " 0 rows" not in words
    seen = Workload((SetError(("a",), 64, 32.0**2, 5.0, 1.0),), 10.0)
    assert seen.describe().startswith("counts err by about 32 rows, at most 3")
    assert Workload((SetError(("a",), 64, 0.0, 5.0, 1.0),), 0.0).describe().startswith("counts err by 0 rows")
