"""Which noise is chosen for a loss: what needs none has no say in it."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.core.mechanisms.noise_choice import cheapest
from sordino.core.neighbors import Sensitivity

MOVED = Sensitivity(1, Fraction(1), Fraction(1), Fraction(1), "a test")
STILL = Sensitivity(0, Fraction(0), Fraction(0), Fraction(0), "a test")


@pytest.mark.parametrize("delta", ["0.1", "0.001", "1e-9"])
@pytest.mark.parametrize("still", [1, 9])
def test_vectors_that_no_unit_moves_do_not_change_the_noise_of_the_others(delta: str, still: int) -> None:
    loss = sd.ApproxDP(1, delta)
    (alone,), _ = cheapest([(MOVED, Fraction(1))], loss)
    beside, event = cheapest([*[(STILL, Fraction(0))] * still, (MOVED, Fraction(1))], loss)
    assert beside[-1] == alone
    assert event.approx() == alone.event.approx()


def test_a_public_count_beside_a_sum_costs_it_no_accuracy_and_no_delta() -> None:
    """Under replace the number of rows is public. Laplace noise errs by 3 steps of 9, Gaussian noise at this delta by 5."""
    domain = sd.Domain({"age": sd.Integer(0, 9)})
    table = protect(
        pa.table({"age": [1, 2, 3] * 40}), domain, neighbors="replace", budget=sd.ApproxDP(9, "0.1"), name="people"
    )
    alone, beside = (
        table.plan(sd.sql(f"SELECT {counted}SUM(age) AS s FROM people"), epsilon=1, delta="0.001").to_dict()["columns"]
        for counted in ("", "COUNT(*) AS n, ")
    )
    assert beside[0]["expected_error"] == 0
    assert beside[1]["expected_error"] == alone[0]["expected_error"] == 27
    table.ask(sd.sql("SELECT COUNT(*) AS n, SUM(age) AS s FROM people"), epsilon=1, delta="0.001")
    assert table.spent == sd.ApproxDP(1, 0)
