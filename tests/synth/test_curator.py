"""Synthesizers on a curator: one charge for the whole, nothing spent on a refusal, the same engine from SQL to rows."""

from __future__ import annotations

import pytest

import sordino as sd
from protecting import protect
from sordino import synth
from sordino.core.neighbors import Neighbors
from sordino.datasets import census_domain, make_census
from sordino.errors import BudgetExhausted, DeclarationError
from sordino.synth.encoded_column import encode_columns


def people(budget: sd.ApproxDP | sd.ZCDP) -> sd.Curator:
    return protect(
        make_census(3_000, sd.Rng.seeded(1)),
        census_domain(),
        unit=sd.PrivacyUnit("household", max_rows=4),
        budget=budget,
        seed=2,
        name="people",
    )


@pytest.mark.deep
def test_a_fit_is_charged_once_and_as_a_whole() -> None:
    table = people(sd.ApproxDP(3, "1e-6"))
    model = synth.fit(table, epsilon=2, delta="1e-9", rng=sd.Rng.seeded(3))
    assert table.spent == sd.ApproxDP(2, "1e-9")
    assert "household" in model.describe()
    assert "household" not in model.columns  # the privacy unit is no column of the synthetic table
    drawn = model.sample(200, rng=sd.Rng.seeded(4))
    assert drawn.num_rows == 200
    assert table.spent == sd.ApproxDP(2, "1e-9")
    with pytest.raises(BudgetExhausted):
        synth.fit(table, epsilon=2, delta="1e-9")
    (release,) = table.releases()
    assert "synthetic" in release.question
    for words in (repr(release), str(release)):  # it has no values of its own, and says what was made instead
        assert "{}" not in words
        assert model.facts["tier"] in words


@pytest.mark.deep
def test_nothing_is_spent_on_a_refusal() -> None:
    table = people(sd.ZCDP(1))
    with pytest.raises(DeclarationError, match="cells"):
        synth.Marginals([("age", "education_num", "occupation")], cap=1_000).fit(table, rho="0.1")
    assert table.spent == sd.ZCDP(0)
    model = synth.Independent().fit(table, rho="0.1", rng=sd.Rng.seeded(5))
    assert table.spent == sd.ZCDP("0.1")
    report = synth.evaluate(model, against=table, rho="0.2", rng=sd.Rng.seeded(6))
    assert not report.private  # seeded noise
    assert 0 <= report.mean(1) < 1


def test_the_column_that_names_the_people_is_none_of_a_synthetic_table() -> None:
    """Declared with bounds its values are public, and yet each is one person's."""
    domain = sd.Domain({"id": sd.Integer(0, 99), "old": sd.Boolean()})
    for unit, names in ((None, ["id", "old"]), (sd.PrivacyUnit("id", max_rows=2), ["old"])):
        assert [c.name for c in encode_columns(domain, None, Neighbors("add_remove", unit))] == names
