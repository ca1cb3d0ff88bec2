"""What a release means, in the reference's own numbers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import sordino as sd
from ask.curator.support import curator
from protecting import protect


def _explain(budget: sd.PureDP | sd.ZCDP, **loss: Any) -> str:
    people = protect(pa.table({"age": [1, 2]}), sd.Domain({"age": sd.Integer(0, 3)}), budget=budget)
    people.ask(sd.count(), **loss)
    return people.explain("c-0001")


def test_posterior_and_power_of_the_reference() -> None:
    """Reference epsilon.md, section 2: epsilon 1 from even odds .7311, power at 5% .13591409; rounded up, as bounds are."""
    words = _explain(sd.PureDP(2), epsilon=1)
    assert "at most 73.11% sure" in words
    assert "detects it more than 13.6% of the time" in words
    assert "2.719 times as likely" in words


def test_a_probability_of_passing_it_is_said() -> None:
    words = _explain(sd.ZCDP(1, 1e-6), rho=0.1)
    assert "each bound is passed with probability at most 1e-6" in words
    assert "apart from a probability of 1e-6" in words


def test_a_loss_beyond_floats_is_not_understated() -> None:
    """exp(10000) is no float: the sentence states the power itself."""
    held = curator(budget=sd.PureDP(20_000))
    words = sd.explain(held.ask(sd.count(), epsilon=10_000))
    assert "no event becomes more than e^10000 times as likely" in words
